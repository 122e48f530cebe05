// The licences of the crates that the native server holds.
import { spawnSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";

const TEXT = /^(licen[cs]e|copying|unlicense|notice)/i;

function metadata(root, target) {
  const { status, stdout, stderr } = spawnSync(
    "cargo", ["metadata", "--format-version", "1", "--locked", "--filter-platform", target],
    { cwd: root, encoding: "utf8", maxBuffer: 64 * 1024 * 1024 },
  );
  if (status !== 0) throw new Error(`cargo metadata failed: ${stderr}`);
  return JSON.parse(stdout);
}

// The ids of all that a package is linked with: neither what builds it, nor what tests it, nor what writes code for it.
function linked({ resolve, packages }, name) {
  const nodes = new Map(resolve.nodes.map((node) => [node.id, node]));
  const isMacro = ({ targets }) => targets.some(({ kind }) => kind.includes("proc-macro"));
  const macros = new Set(packages.filter(isMacro).map(({ id }) => id));
  const known = new Set();
  const next = [packages.find((one) => one.name === name).id];
  for (let id = next.pop(); id !== undefined; id = next.pop()) {
    if (known.has(id) || macros.has(id)) continue;
    known.add(id);
    const isLinked = ({ dep_kinds }) => dep_kinds.some(({ kind }) => kind === null);
    next.push(...nodes.get(id).deps.filter(isLinked).map(({ pkg }) => pkg));
  }
  return known;
}

// The files of a crate's licence; where it may be taken under one of several, and MIT is one of them, that of MIT.
function filesOf(folder, license) {
  const files = readdirSync(folder).filter((file) => TEXT.test(file)).sort();
  const mit = files.filter((file) => /mit/i.test(file));
  return / OR |\//.test(license) && !license.includes(" AND ") && mit.length > 0 ? mit : files;
}

/** Returns the licences of the crates in the native server for a target, as text. root: the project's folder. */
export function crateLicences(root, target) {
  const data = metadata(root, target);
  const held = linked(data, "tally-server");
  const crates = data.packages.filter(({ id, source }) => held.has(id) && source !== null);
  const texts = crates.map(({ name, version, license, manifest_path }) => {
    const folder = dirname(manifest_path);
    const text = filesOf(folder, license).map((file) => readFileSync(join(folder, file), "utf8").trim()).join("\n\n");
    return `${name} ${version}, ${license}\n\n${text}\n`;
  });
  return `The program holds these crates, and SQLite, which is in the public domain.\n\n${texts.join(`\n${"-".repeat(80)}\n\n`)}`;
}
