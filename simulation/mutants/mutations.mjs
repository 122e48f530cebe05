// Breaks the shipped code on purpose, one way at a time, and sees whether the whole service shows it, in the scenario
// that the list names. WORLDS=n lives so many worlds besides, 20 a second, and says which seed shows it too.
//
// Invariants: the tree itself is never touched (a copy is); a mutation that no longer applies is a failure,
// not a pass; the code as it is must pass first, else everything would look caught.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CRATES, MUTATIONS, programOf } from "./broken.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const COPIED = [
  "src", "crates", "simulation", "tests", "tools", "benches", "examples", "dashboard", "Cargo.toml", "Cargo.lock",
  "rust-toolchain.toml", ".cargo",
];
const WORLDS = process.env.WORLDS ?? "0";
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

function run(options, ...args) {
  const command = ["test", "--locked", "--quiet", "--package", ...options, "--", ...args];
  const { status, stdout, stderr, error } = spawnSync("cargo", command, {
    cwd: copy,
    encoding: "utf8",
    timeout: RUN_MS_MAX,
    env: { ...process.env, CARGO_TARGET_DIR: target, RUST_BACKTRACE: "0", SEED: undefined, FROM: "0", SEEDS: WORLDS },
  });
  return { isWell: status === 0, output: `${stdout}${stderr}${error ?? ""}` };
}

/** Runs what is to show a mutation: a test by its name, or all of a module. */
function show(by) {
  const [program, test] = programOf(by);
  const crate = CRATES[program];
  const options = [crate ?? "tally-simulation", "--test", crate === undefined ? program : "laws"];
  return run(options, ...(by.includes("::") ? ["--exact", test] : [test]));
}

/** What worlds say besides. */
function seedOf() {
  if (WORLDS === "0") return "";
  const options = ["tally-simulation", "--profile", "simulation", "--test", "worlds"];
  const { output } = run(options, "--ignored", "--exact", "soak::soak", "--nocapture");
  const seed = output.match(/the seed is (\d+)/)?.[1];
  return seed === undefined ? `; by none of ${WORLDS} worlds` : `; by seed ${seed}`;
}

/** Whether what was broken is shown, and what is said of it. */
function judge(by) {
  const { isWell, output } = show(by);
  // The first line of the panic.
  const why = output.match(/panicked at [^\n]*\n([^\n]*)/)?.[1];
  if (isWell) return [false, `NOT caught by ${by}${seedOf()}`];
  return why === undefined ? [false, `does not run:\n${output}`] : [true, `caught by ${by}: ${why}${seedOf()}`];
}

const survivors = [];
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
    if (!isCaught) survivors.push(what);
    console.log(`${what}: ${verdict}`);
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}
const caught = chosen.length - survivors.length;
console.log(`${caught} of ${chosen.length} mutations caught`);
// What simulation/ledger/ledger.mjs adds to the ledger.
const report = { run: chosen.length, all: MUTATIONS.length, caught, survivors };
if (process.env.REPORT) writeFileSync(process.env.REPORT, JSON.stringify(report));
process.exitCode = survivors.length === 0 ? 0 : 1;
