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
 * Returns the sets of features that `make check` compiles: the empty set, and as few others as show, of each feature
 * and each that it does not need, the first without the second. known: of `features()`.
 *
 * That they compile shows that each choice of features compiles. A choice fails where a piece of code that it has uses
 * another that it lacks. The first piece is there always or with one feature, as no gate stands in another's room. The
 * second is absent without one feature. A set that has the first feature and lacks the second fails too. This holds as
 * long as each gate is plain, see `gatesAmiss`.
 */
export function featureSets(known) {
  const names = [...known.keys()];
  const needs = (one, other) => withNeeds([one], known).includes(other);
  // Of each feature the sets that have it, as bits: a feature is in all sets of another if that one needs it, and only
  // then.
  const fits = (given) => {
    const last = given.length - 1;
    const isWithin = (one, other) => (given[one] & ~given[other]) === 0;
    return given.every((_, at) =>
      needs(names[at], names[last]) === isWithin(at, last) && needs(names[last], names[at]) === isWithin(last, at),
    );
  };
  const place = (given, size) => {
    if (given.length === names.length) return given;
    for (let bits = 1; bits < 2 ** size; bits += 1) {
      const found = fits([...given, bits]) ? place([...given, bits], size) : undefined;
      if (found !== undefined) return found;
    }
    return undefined;
  };
  for (let size = 1; ; size += 1) {
    const found = place([], size);
    if (found === undefined) continue;
    return [[], ...Array.from({ length: size }, (_, set) => names.filter((_, at) => (found[at] >> set) & 1))];
  }
}

/**
 * Returns the gates of a Rust file that do otherwise than to have an item with one feature, and those within such an
 * item: "line: gate" each. Which lints are allowed is no gate.
 */
export function otherGates(source, known) {
  const feature = `feature = "(?:${[...known.keys()].join("|")})"`;
  const plain = new RegExp(`^#\\[cfg\\(${feature}\\)\\]$`);
  const lints = /^#!?\[cfg_attr\(.*, (?:allow|expect)\([^)]*\) ?\)\]$/;
  const lines = source.split("\n");
  const gates = [...source.matchAll(/#!?\[cfg(?:_attr)?\([^\]]*\]/g)]
    .map(({ 0: gate, index }) => [gate.replace(/\s+/g, " "), source.slice(0, index).split("\n").length])
    .filter(([gate]) => new RegExp(feature).test(gate) && !lints.test(gate));
  // The item of a gate ends with the first line that closes at its column, or with a line of its own.
  const ends = (line) => {
    const indent = lines[line - 1].match(/^ */)[0];
    const isEnd = (text) => text.startsWith(indent) && /^(?:[^ #/].*)?[;,}]$/.test(text.slice(indent.length));
    return lines.findIndex((text, at) => at >= line && isEnd(text)) + 1;
  };
  const isWithin = (line) => gates.some(([, outer]) => outer < line && line < ends(outer));
  return gates.filter(([gate, line]) => !plain.test(gate) || isWithin(line)).map(([gate, line]) => `${line}: ${gate}`);
}

/** Returns the gates of all crates for which `featureSets` would be too few, each with its file and line. */
export function gatesAmiss(root = ROOT) {
  const known = features(root);
  const paths = ["crates", "src", "simulation"].flatMap((folder) => {
    const all = readdirSync(join(root, folder), { recursive: true });
    return all.filter((path) => path.endsWith(".rs")).map((path) => join(folder, path));
  });
  const sources = new Map(paths.map((path) => [path, readFileSync(join(root, path), "utf8")]));
  const feature = `feature = "(?:${[...known.keys()].join("|")})"`;
  const door = new RegExp(`^#\\[cfg\\(${feature}\\)\\]\n(?:#.*\n)*(?:pub(?:\\([^)]*\\))? )?mod (\\w+);`, "gm");
  const rooms = [...sources].flatMap(([path, source]) => {
    const folder = path.replace(/(?:\/(?:lib|main|mod))?\.rs$/, "");
    return [...source.matchAll(door)].map(([, name]) => `${folder}/${name}`);
  });
  const isWithin = (path) => rooms.some((room) => path === `${room}.rs` || path.startsWith(`${room}/`));
  return [...sources].flatMap(([path, source]) => [
    ...(isWithin(path) && new RegExp(feature).test(source) ? [`${path}: a gate within the room of a feature`] : []),
    ...otherGates(source, known).map((found) => `${path}:${found}`),
  ]);
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
