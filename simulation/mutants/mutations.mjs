// Breaks the shipped code on purpose, one way at a time, and sees whether the whole service shows it: in the scenario, or in the
// world, that the list names.
//
// Invariants: the tree itself is never touched (a copy is); a mutation that no longer applies is a failure,
// not a pass; the code as it is must pass first, else everything would look caught.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { MUTATIONS } from "./broken.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const COPIED = ["src", "simulation", "tests", "benches", "examples", "dashboard", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo"];
// Where set: how many worlds to search for one that shows a mutation which its test does not show any more; about 20 a second.
const SEARCH = Number(process.env.SEARCH ?? 0);
const RUN_MS_MAX = 600_000;

// A number or two alone: node simulation/mutants/mutations.mjs 3 5
const numbers = process.argv.slice(2).map(Number);
const chosen = MUTATIONS.filter((_, index) => numbers.length === 0 || numbers.includes(index + 1));

const copy = mkdtempSync(join(tmpdir(), "tally-mutants-"));
const target = process.env.CARGO_TARGET_DIR ?? join(ROOT, "target/mutants");

function fresh() {
  for (const name of COPIED) {
    if (existsSync(join(ROOT, name))) cpSync(join(ROOT, name), join(copy, name), { recursive: true });
  }
}

function run(test, args, env = {}, profile = []) {
  const command = ["test", "--locked", "--quiet", ...profile, "--package", "tally-simulation", "--test", test, "--", ...args];
  const { status, stdout, stderr, error } = spawnSync("cargo", command, {
    cwd: copy,
    encoding: "utf8",
    timeout: RUN_MS_MAX,
    env: { ...process.env, CARGO_TARGET_DIR: target, RUST_BACKTRACE: "0", SEED: "", FIRST: "1", ...env },
  });
  return { isWell: status === 0, output: `${stdout}${stderr}${error ?? ""}` };
}

const worlds = (from, seeds, profile) =>
  run("worlds", ["--ignored", "--exact", "soak::soak", "--nocapture"], { FROM: String(from), SEEDS: String(seeds) }, profile);

/** Runs what is to show a mutation: a world by its seed, a scenario by its name, a test binary of its own by that. */
function show(by) {
  if (typeof by === "number") return worlds(by, 1);
  return by.includes("::") ? run("scenarios", ["--exact", by]) : run(by, []);
}

/** What a run died of: the first line of the panic. */
function death(output) {
  const [, why] = output.match(/panicked at [^\n]*\n([^\n]*)/) ?? [];
  return why;
}

/** Whether what was broken is shown, and by what. */
function judge(by) {
  const { isWell, output } = show(by);
  const name = typeof by === "number" ? `seed ${by}` : by;
  if (!isWell) {
    const why = death(output);
    return why === undefined ? [false, `does not run:\n${output}`] : [true, `caught, ${name}: ${why}`];
  }
  if (SEARCH === 0) return [false, `NOT caught by ${name}`];
  const searched = worlds(0, SEARCH, ["--profile", "simulation"]);
  const seed = searched.output.match(/the seed is (\d+)/)?.[1];
  return [false, seed === undefined ? `NOT caught by ${name}, nor by ${SEARCH} worlds` : `caught by seed ${seed} now: mend the list`];
}

let survivors = 0;
try {
  fresh();
  for (const by of new Set(chosen.map(([, , , , by]) => by))) {
    const { isWell, output } = show(by);
    if (!isWell) throw new Error(`the code as it is does not pass ${by}:\n${output}`);
  }
  for (const [what, file, text, instead, by] of chosen) {
    const path = join(copy, file);
    const source = readFileSync(path, "utf8");
    let [isCaught, verdict] = [false, "does not apply any more: mend the list"];
    if (source.split(text).length === 2) {
      writeFileSync(path, source.replace(text, () => instead));
      [isCaught, verdict] = judge(by);
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
