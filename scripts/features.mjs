// Prints what each feature of the Wasm takes, as a table: builds all, none, and all but each.
// node scripts/features.mjs [feature…]: those alone, and all and none; some minutes each.
//
// Invariant: a figure is of the very bytes that a deploy would upload, see benches/wasm-size.mjs; build/ holds all
// features afterwards.
import { spawnSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { wasmGzipBytes } from "../benches/wasm-size.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Returns the features of the Wasm, each with those that it needs itself. root: the project's folder. */
export function features(root = ROOT) {
  const [, section] = readFileSync(join(root, "Cargo.toml"), "utf8").match(/^\[features\]\n([\s\S]*?)^\[/m);
  const rows = [...section.matchAll(/^(\w+) = \[([^\]]*)\]/gm)].map(([, name, needs]) => [
    name, needs.match(/(?<=")\w+(?=")/g) ?? [],
  ]);
  return new Map(rows.filter(([name]) => name !== "default"));
}

/** Returns some features with all that those need. known: of `features()`. */
export function withNeeds(names, known) {
  const all = new Set(names);
  // What is added on the way is visited too.
  for (const name of all) for (const needed of known.get(name) ?? []) all.add(needed);
  return [...all];
}

/** Returns all features but one and those that need it. known: of `features()`. */
export function allBut(off, known) {
  return [...known.keys()].filter((name) => !withNeeds([name], known).includes(off));
}

/**
 * Returns the sets of features that `make check` compiles: all but each, and none. known: of `features()`.
 *
 * That they compile shows that each feature alone compiles, and each choice of several. A choice fails where it has a
 * piece of code that uses another which the choice lacks, because of some feature Y. All but Y has every feature that
 * does not need Y, so it has the first piece, lacks the second, and fails too. This holds as long as code is there
 * wherever all features of its gates are, see `otherGates`.
 */
export function featureSets(known) {
  return [[], ...[...known.keys()].map((off) => allBut(off, known))];
}

/**
 * Returns the gates of a Rust file that name features otherwise than one, or all of several: "line: gate" each. Which
 * lints are allowed is no gate.
 */
export function otherGates(source, known) {
  const names = [...known.keys()].join("|");
  const feature = `feature = "(?:${names})"`;
  const plain = new RegExp(`^#!?\\[cfg\\((?:${feature}|all\\((?:${feature}(?:, )?)+\\))\\)\\]$`);
  const lints = /^#!?\[cfg_attr\(.*, (?:allow|expect)\([^)]*\) ?\)\]$/;
  const gates = [...source.matchAll(/#!?\[cfg(?:_attr)?\([^\]]*\]/g)];
  const isAmiss = (gate) => new RegExp(feature).test(gate) && !plain.test(gate) && !lints.test(gate);
  return gates
    .filter(([gate]) => isAmiss(gate.replace(/\s+/g, " ")))
    .map(({ 0: gate, index }) => `${source.slice(0, index).split("\n").length}: ${gate}`);
}

/** Returns the gates of all crates for which `featureSets` would be too few, each with its file and line. */
export function gatesAmiss(root = ROOT) {
  const known = features(root);
  const paths = ["crates", "src", "simulation"].flatMap((folder) => {
    const all = readdirSync(join(root, folder), { recursive: true });
    return all.filter((path) => path.endsWith(".rs")).map((path) => join(folder, path));
  });
  return paths.flatMap((path) =>
    otherGates(readFileSync(join(root, path), "utf8"), known).map((found) => `${path}:${found}`),
  );
}

// Returns the gzipped bytes of a build with some features.
function bytesOf(names) {
  const { status } = spawnSync("scripts/build.sh", {
    cwd: ROOT, stdio: "inherit", env: { ...process.env, FEATURES: names.join(",") },
  });
  if (status !== 0) throw new Error(`the build with ${names.join(",") || "none"} failed`);
  const bytes = wasmGzipBytes(ROOT);
  // A run is long: whoever ends it early has these.
  console.error(`features: ${names.join(",") || "none"}: ${bytes} bytes`);
  return bytes;
}

function main(names) {
  const known = features();
  const all = [...known.keys()];
  const wrong = names.find((name) => !known.has(name));
  if (wrong !== undefined) throw new Error(`there is no feature ${wrong}; there are ${all.join(", ")}`);
  const bytes = (number) => number.toLocaleString("en");
  const none = bytesOf([]);
  const without = (names.length > 0 ? names : all).map((off) => [off, bytesOf(allBut(off, known))]);
  const whole = bytesOf(["default"]);
  const rows = [
    ["all", whole, ""],
    ...without.map(([name, rest]) => [`without \`${name}\``, rest, bytes(whole - rest)]),
    ["none", none, bytes(whole - none)],
  ];
  const table = [
    "| build | bytes, gzipped | less |", "|---|---:|---:|",
    ...rows.map(([name, size, less]) => `| ${name} | ${bytes(size)} | ${less} |`),
  ];
  console.log(table.join("\n"));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main(process.argv.slice(2));
