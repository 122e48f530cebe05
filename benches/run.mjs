// `make bench`: Tally beside the same done other ways, on the same machine, in one run.
//
// Invariant: the run fails if a counter does not hold what was acknowledged, to the unit, or if any answer
// was not good (an error is quickly given: its rate would mean nothing). A target that is missed fails nothing.
// Life: wrk → each group (group.mjs) → tables.
//
// Arguments: words, to run only the groups with a name, or a line's name, that holds one of them. From the
// environment, for trials: BENCH_ROUNDS, BENCH_SECONDS (of a round), BENCH_DATA (the folder under which the
// data lies). BENCH_RECORD=1 writes BENCHMARKS.md too, and wants a whole run.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { runGroup } from "./group.mjs";
import { BenchError, loadGenerator } from "./load.mjs";
import { business, machine } from "./machine.mjs";
import { GROUPS, WASM_LINE } from "./measures.mjs";
import { recordText } from "./record.mjs";
import { figureTable, lineOutcome, loadTable, totalsTable } from "./report.mjs";
import { wasmGzipBytes } from "./wasm-size.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const OUT = join(ROOT, "bench-out");
const ROUNDS = 3;
// Loads × (1 + 3 × seconds of a round): hot 9 × 13 = 117 s, counted 2 × 10 = 20 s, lone 2 × 10 = 20 s,
// shards 4 × 7 = 28 s. Events, with the last batches: 3 × (3 + 6) s and 3 × (9 + 9) s = 81 s. About 0.4 s for
// the end of each of these 80 runs is 32 s, and 13 starts of servers take 25 s: 323 s. Half as much again
// for a busy machine.
const RUN_MS_MAX = 485_000;

// Returns the whole number that a variable holds, or `fallback` where it is not set.
function setting(name, fallback) {
  const value = process.env[name];
  if (value === undefined || value === "") return fallback;
  if (/^[1-9]\d?$/.test(value)) return Number(value);
  throw new BenchError(`${name} must be a whole number from 1 to 99, not ${JSON.stringify(value)}`);
}

// Returns the groups that words ask for.
function wantedGroups(words) {
  const named = ({ name, lines }, word) => name.includes(word) || lines.some((line) => line.name.includes(word));
  const groups = GROUPS.filter((group) => words.length === 0 || words.some((word) => named(group, word)));
  if (groups.length > 0) return groups;
  throw new BenchError(`nothing is named ${words.join(" or ")}; there are: ${GROUPS.map(({ name }) => name).join(", ")}`);
}

// Returns whether this run is to be recorded. Errors: BenchError where it would be no whole run.
function isRecorded(words) {
  if (!process.env.BENCH_RECORD) return false;
  if (words.length > 0 || process.env.BENCH_ROUNDS || process.env.BENCH_SECONDS) {
    throw new BenchError("BENCH_RECORD wants a whole run: without words, BENCH_ROUNDS and BENCH_SECONDS");
  }
  return true;
}

async function bench(words, folder) {
  const before = business(folder);
  const say = (sentence) => console.error(`bench: ${sentence}`);
  const found = [];
  for (const group of wantedGroups(words)) {
    const options = { rounds: setting("BENCH_ROUNDS", ROUNDS), seconds: setting("BENCH_SECONDS", group.round_seconds) };
    found.push(await runGroup(group, { folder: mkdtempSync(join(folder, `${group.name}-`)), say, ...options }));
  }
  const all = (part) => found.flatMap((one) => one[part]);
  const wasm = lineOutcome({ ...WASM_LINE, of: "build" }, [{ build: { bytes: wasmGzipBytes(ROOT) } }]);
  const facts = [
    ...machine({ root: ROOT, data: folder, wrk: loadGenerator(), before }),
    "figures are medians of the rounds; the loads of a group ran in turn",
    "p50 and p99 are as wrk corrects them for coordinated omission; the mean is requests in flight ÷ answers per second",
    "rows and calls are counted by a wrapper around the built Worker's objects: SQLite's own count of rows written and alarms set, and every request and alarm of every object",
  ];
  const totals = all("totals");
  const parts = [
    figureTable([...all("lines"), wasm]),
    loadTable(all("loads")),
    ...(totals.length > 0 ? [totalsTable(totals)] : []),
    facts.map((fact) => `- ${fact}`).join("\n"),
    ...all("wrong"),
  ];
  return { text: `${parts.join("\n\n")}\n`, wrong: all("wrong"), logs: all("logs") };
}

async function main() {
  const words = process.argv.slice(2);
  const recorded = isRecorded(words);
  if (!existsSync(join(ROOT, "build/index.js"))) throw new BenchError("build/index.js is missing: run make build");
  loadGenerator();
  const late = setTimeout(() => {
    console.error(`bench: not done after ${RUN_MS_MAX / 1000} s: the machine is too busy, or a server hangs`);
    process.exit(1);
  }, RUN_MS_MAX);
  // Not in a temporary folder: that may be memory, where a durable write costs nothing.
  const parent = resolve(ROOT, process.env.BENCH_DATA || OUT);
  for (const path of [OUT, parent]) mkdirSync(path, { recursive: true });
  const folder = mkdtempSync(join(parent, "data-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(1));

  try {
    const { text, wrong, logs } = await bench(words, folder);
    const file = join(OUT, `${new Date().toISOString().replace(/[:.]/g, "-")}.md`);
    writeFileSync(file, text);
    console.log(`\n${text}\nbench: written to ${file}`);
    if (wrong.length > 0) {
      for (const log of logs) console.error(`bench: last messages of ${log}`);
      throw new BenchError(`FAILED: ${wrong.length} findings, after the tables above`);
    }
    if (recorded) {
      const record = join(ROOT, "BENCHMARKS.md");
      writeFileSync(record, recordText(existsSync(record) ? readFileSync(record, "utf8") : undefined, text));
      console.log(`bench: recorded in ${record}`);
    }
  } finally {
    clearTimeout(late);
  }
}

main().catch((error) => {
  if (!(error instanceof BenchError)) throw error;
  console.error(`bench: ${error.message}`);
  process.exitCode = 1;
});
