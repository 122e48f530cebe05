// Prints what each feature of the Wasm takes, as a table: builds all, none, and all but each.
// node scripts/features.mjs [feature…]: those alone, and all and none; some minutes each.
//
// Invariant: a figure is of the very bytes that a deploy would upload, see benches/wasm-size.mjs; build/ holds all
// features afterwards.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
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
