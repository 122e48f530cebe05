// Breaks the shipped code on purpose, in each of many ways, and sees whether the whole service shows it, in the test
// that the list names. All ways are in one build, and each process chooses one. WORLDS=n lives so many worlds besides,
// and says which seed shows it too.
//
// Invariants: the tree itself is never touched (a copy is); a mutation that no longer applies is a failure, not a pass;
// the code as it is must pass first, with the same program, else everything would look caught.
import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CRATES, MUTATIONS, programOf } from "./broken.mjs";
import { build } from "./build.mjs";
import { each, namesOf, outcomeOf, run } from "./judge.mjs";
import { CHOSEN } from "./schemata.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
// Tests that run at once.
const WORKERS = Number(process.env.JOBS ?? availableParallelism());
const SIMULATION = "simulation";
const PACKAGES = ["tally-simulation", ...Object.values(CRATES)];
const TESTS = ["scenarios", "services", "worlds", "laws"];
const OPTIONS = [...PACKAGES.flatMap((name) => ["--package", name]), ...TESTS.flatMap((name) => ["--test", name])];

const { WORLDS = "0", REPORT, ...environment } = process.env;
// What tests would read of the environment.
for (const name of ["SEED", "SEEDS", "FROM", "LOG", "JSON", "HISTORY"]) delete environment[name];
const envOf = (number, more = {}) => ({ ...environment, RUST_BACKTRACE: "0", [CHOSEN]: String(number), ...more });

const all = MUTATIONS.map(([what, file, text, instead, by], index) => {
  const times = readFileSync(join(ROOT, file), "utf8").split(text).length - 1;
  return { number: index + 1, what, file, text, instead, by, applies: times === 1 };
});
// A number or two alone: node simulation/mutants/mutations.mjs 3 5
const numbers = process.argv.slice(2).map(Number);
const chosen = all.filter(({ number }) => numbers.length === 0 || numbers.includes(number));

const secondsSince = (begun) => Math.round((performance.now() - begun) / 1_000);

/** Returns the program that holds what is to show a mutation, and the names of its tests: one, or all of a module. */
function testsOf(programs, by) {
  const [program, test] = programOf(by);
  const built = programs.get(CRATES[program] === undefined ? `${SIMULATION}/${program}` : `${CRATES[program]}/laws`);
  if (by.includes("::")) return { built, names: [test] };
  const prefix = `${test}::`;
  const ignored = new Set(namesOf(built, ["--ignored", prefix]));
  const names = namesOf(built, [prefix]).filter((name) => name.startsWith(prefix) && !ignored.has(name));
  if (names.length === 0) throw new Error(`${by} has no tests`);
  return { built, names };
}

const runOne = async (built, name, number) =>
  outcomeOf(await run(built, ["--exact", name, "--test-threads=1"], envOf(number)));

const plain = new Map();
/** Runs a test without a mutation, once, and returns what is wrong. */
function plainly(built, name) {
  const key = `${built.executable} ${name}`;
  if (!plain.has(key)) plain.set(key, runOne(built, name, 0));
  return plain.get(key);
}

/** Runs what is to show a mutation until a law does. */
async function show({ number, by }, programs) {
  const { built, names } = testsOf(programs, by);
  let found = { outcome: "survived", why: "" };
  for (const name of names) {
    const one = await runOne(built, name, number);
    if (one.outcome === "survived") continue;
    found = { ...one, name };
    if (one.outcome !== "caught") continue;
    const without = await plainly(built, name);
    return without.outcome === "survived" ? found : { ...without, outcome: `${without.outcome} without it`, name };
  }
  return found;
}

/** What worlds say besides. */
async function seedOf(worlds, number) {
  if (WORLDS === "0") return "";
  const args = ["--ignored", "--exact", "soak::soak", "--nocapture"];
  const { output } = await run(worlds, args, envOf(number, { FROM: "0", SEEDS: WORLDS }));
  const seed = output.match(/the seed is (\d+)/)?.[1];
  return seed === undefined ? `; by none of ${WORLDS} worlds` : `; by seed ${seed}`;
}

async function judge(mutation, { programs, wrong }) {
  const { number, what, by, applies } = mutation;
  let found = { outcome: "does not apply any more", why: "mend the list" };
  if (wrong.has(number)) found = { outcome: "not built", why: wrong.get(number) };
  else if (applies) found = await show(mutation, programs);
  const { outcome, why, name = by } = found;
  const seed = applies ? await seedOf(programs.get(`${SIMULATION}/worlds`), number) : "";
  console.log(`${number} ${what}: ${outcome} by ${name}${why && ": "}${why}${seed}`);
  return { what, outcome };
}

let begun = performance.now();
const { programs, wrong } = build(all.filter(({ applies }) => applies), OPTIONS);
for (const [number, why] of wrong) console.log(`${number} is not built: ${why}`);
console.log(`${all.length} mutations in one build: ${secondsSince(begun)} s`);
begun = performance.now();
const results = await each(chosen, WORKERS, (mutation) => judge(mutation, { programs, wrong }));

const others = results.filter(({ outcome }) => outcome !== "caught");
const caught = results.length - others.length;
console.log(`${caught} of ${results.length} mutations caught: ${secondsSince(begun)} s`);
// What simulation/ledger/ledger.mjs adds to the ledger. One that did not just pass its test says what became of it.
const survivors = others.map(({ what, outcome }) => outcome === "survived" ? what : `${what} (${outcome})`);
if (REPORT) writeFileSync(REPORT, JSON.stringify({ run: results.length, all: all.length, caught, survivors }));
process.exitCode = survivors.length === 0 ? 0 : 1;
