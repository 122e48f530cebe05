// What a sketch costs in Wasm: nanoseconds of one insert, microseconds of one merge, beside the targets.
//
// Invariant: what is measured is the project's own code in the release profile, built for wasm32 as the Worker is.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TARGET = "wasm32-unknown-unknown";
// Each longer than 100 ms, of which the least is taken: the machine is not alone.
const REPEATS = 7;
const MEASURES = [
  { name: "insert, one by one", call: "insert_1000", rounds: 100_000, per: 1_000, unit: "ns", scale: 1e6, at_most: 2 },
  { name: "insert, many at once", call: "insert_many_1000", rounds: 100_000, per: 1_000, unit: "ns", scale: 1e6, at_most: 2 },
  { name: "merge of two dense", call: "merge_dense", rounds: 300_000, per: 1, unit: "µs", scale: 1e3, at_most: 0.5 },
];

function build() {
  const args = ["build", "--locked", "--quiet", "--release", "--target", TARGET, "--example", "sketch_wasm"];
  execFileSync("cargo", args, { cwd: ROOT, stdio: "inherit" });
  const target = process.env.CARGO_TARGET_DIR ?? join(ROOT, "target");
  return readFileSync(join(target, TARGET, "release/examples/sketch_wasm.wasm"));
}

// What the Worker's crates import is not called by a sketch.
function instantiate(bytes) {
  const module = new WebAssembly.Module(bytes);
  const imports = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    imports[from] ??= {};
    imports[from][name] = () => {
      throw new Error(`a sketch called ${name}`);
    };
  }
  return new WebAssembly.Instance(module, imports).exports;
}

/** Returns how long so many rounds take, in milliseconds. */
function timeOf(call, rounds) {
  const begun = performance.now();
  call(rounds);
  return performance.now() - begun;
}

const exports = instantiate(build());
console.log("\nsketches in Wasm            measured   target");
for (const { name, call, rounds, per, unit, scale, at_most } of MEASURES) {
  // Until it runs as optimised code.
  exports[call](rounds / 10);
  const costs = Array.from({ length: REPEATS }, () => {
    const ms = timeOf(exports[call], rounds) - timeOf(exports[call], 0);
    return (ms * scale) / (rounds * per);
  });
  const least = Math.min(...costs);
  console.log(`${name.padEnd(24)} ${least.toFixed(2).padStart(8)} ${unit}   ≤ ${at_most} ${unit}${least > at_most ? "  missed" : ""}`);
}
