// Breaks the shipped code on purpose, one way at a time, and sees whether the simulation notices.
//
// Invariants: the tree itself is never touched (a copy is); a mutation that no longer applies is a failure,
// not a pass; the code as it is must pass first, else everything would look caught.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { MUTATIONS as OF_SIM } from "../../tests/sim/broken.mjs";
import { MUTATIONS as OF_WORLDS } from "./broken.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const COPIED = ["src", "simulation", "tests", "benches", "examples", "dashboard", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo"];
// Which simulation is to notice: SIMULATION=worlds is that of whole services.
const SIMULATIONS = {
  sim: { mutations: OF_SIM, test: ["--test", "sim"], soak: "sim::seeds::soak", rest: ["sim::", "--skip", "sim::seeds"] },
  worlds: {
    mutations: OF_WORLDS,
    test: ["--profile", "simulation", "--package", "tally-simulation", "--test", "worlds"],
    soak: "soak::soak",
    rest: ["--skip", "soak::"],
  },
};
const simulation = SIMULATIONS[process.env.SIMULATION ?? "sim"];
if (simulation === undefined) throw new Error(`SIMULATION is one of ${Object.keys(SIMULATIONS).join(", ")}`);
// 20 to 100 a second.
const SEEDS = process.env.SEEDS ?? "3000";
const RUN_MS_MAX = 600_000;

// A number or two alone: node simulation/mutants/mutations.mjs 3 5
const numbers = process.argv.slice(2).map(Number);
const chosen = simulation.mutations.filter((_, index) => numbers.length === 0 || numbers.includes(index + 1));

const copy = mkdtempSync(join(tmpdir(), "tally-mutants-"));
const target = process.env.CARGO_TARGET_DIR ?? join(ROOT, "target/mutants");

function fresh() {
  for (const name of COPIED) {
    if (existsSync(join(ROOT, name))) cpSync(join(ROOT, name), join(copy, name), { recursive: true });
  }
}

function simulate(seeds, ...args) {
  const { status, stdout, stderr, error } = spawnSync("cargo", ["test", "--locked", "--quiet", ...simulation.test, "--", ...args], {
    cwd: copy,
    encoding: "utf8",
    timeout: RUN_MS_MAX,
    env: { ...process.env, CARGO_TARGET_DIR: target, RUST_BACKTRACE: "0", SEED: "", FROM: "0", SEEDS: seeds },
  });
  return { isWell: status === 0, output: `${stdout}${stderr}${error ?? ""}` };
}

/** Lives the worlds of the seeds in the copy, then those that are written out. Returns whether all went well,
 * and what was printed. */
function soak(seeds) {
  const worlds = simulate(seeds, "--ignored", "--exact", simulation.soak, "--nocapture");
  return worlds.isWell ? simulate(seeds, ...simulation.rest) : worlds;
}

/** What a run died of: its seed, or the law of a world that is written out, and the first line of the panic. */
function death(output) {
  const [, thread, why] = output.match(/thread '([^']*)'[^\n]* panicked at [^\n]*\n([^\n]*)/) ?? [];
  const seed = output.match(/the seed is (\d+)/)?.[1];
  return thread === undefined ? undefined : `${seed === undefined ? thread : `seed ${seed}`}: ${why}`;
}

let survivors = 0;
try {
  fresh();
  // As many seeds as a mutation gets: what the code as it is dies of would catch every mutation.
  const plain = soak(SEEDS);
  if (!plain.isWell) throw new Error(`the code as it is does not pass:\n${plain.output}`);
  for (const [what, file, text, instead] of chosen) {
    const path = join(copy, file);
    const source = readFileSync(path, "utf8");
    let verdict = "does not apply any more: mend the list";
    let isCaught = false;
    if (source.split(text).length === 2) {
      writeFileSync(path, source.replace(text, () => instead));
      const { isWell, output } = soak(SEEDS);
      const died = isWell ? undefined : death(output);
      isCaught = died !== undefined;
      verdict = isCaught ? `caught, ${died}` : isWell ? "NOT caught" : `does not run:\n${output}`;
      writeFileSync(path, source);
    }
    if (!isCaught) survivors += 1;
    console.log(`${what}: ${verdict}`);
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}
console.log(`${chosen.length - survivors} of ${chosen.length} mutations caught`);
process.exitCode = survivors === 0 ? 0 : 1;
