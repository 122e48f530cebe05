// `make bench`: Tally beside the same done other ways, on the same machine, in one run.
//
// Invariant: the run fails if a counter does not hold what was acknowledged, to the unit, or if any answer
// was not good (an error is quickly given: its rate would mean nothing). A target that is missed fails nothing, and
// neither does a slow machine: the tables say how slow it was. What was measured is in bench-out after each group,
// whatever comes then: as tables, and as results that record.mjs reads. Life: wrk → each group (group.mjs) → tables.
//
// Arguments: words, to run only the groups with a name, or a line's name, that holds one of them. From the
// environment, for trials: BENCH_ROUNDS, BENCH_SECONDS (of a round), BENCH_DATA (the folder under which the
// data lies). BENCH_RECORD=1 writes BENCHMARKS.md too, and wants a whole run. BENCH_BEFORE, the checkout of another
// build, measures this one beside that one instead.
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { runGroup } from "./group.mjs";
import { BenchError, loadGenerator } from "./load.mjs";
import { machine } from "./machine.mjs";
import { GROUPS } from "./measures.mjs";
import { record } from "./record.mjs";
import { reportText } from "./report.mjs";
import { wasmGzipBytes } from "./wasm-size.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const OUT = join(ROOT, "bench-out");
const ROUNDS = 3;

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
  if (words.length > 0 || process.env.BENCH_ROUNDS || process.env.BENCH_SECONDS || process.env.BENCH_BEFORE) {
    throw new BenchError("BENCH_RECORD wants a whole run: without words, BENCH_ROUNDS, BENCH_SECONDS and BENCH_BEFORE");
  }
  return true;
}

// Measures what is wanted, and resolves to the results. written: is given them, and the groups to come, after each one.
async function bench(words, folder, written) {
  const [before] = loadavg();
  const say = (sentence) => console.error(`bench: ${sentence}`);
  const results = { found: [], facts: [], wasm_bytes: wasmGzipBytes(ROOT) };
  const groups = wantedGroups(words);
  for (const group of groups) {
    const options = { rounds: setting("BENCH_ROUNDS", ROUNDS), seconds: setting("BENCH_SECONDS", group.round_seconds) };
    results.found.push(await runGroup(group, { folder: mkdtempSync(join(folder, `${group.name}-`)), say, ...options }));
    results.facts = [
      ...machine({ root: ROOT, data: folder, wrk: loadGenerator(), before }),
      "figures are medians of the rounds; the loads of a group ran in turn",
      "p50 and p99 are as wrk corrects them for coordinated omission; the mean is requests in flight ÷ answers per second",
      "rows and calls are counted by a wrapper around the built Worker's objects: SQLite's own count of rows written and alarms set, and every request and alarm of every object",
    ];
    written(results, groups.slice(results.found.length).map(({ name }) => name));
  }
  return results;
}

async function main() {
  const words = process.argv.slice(2);
  const recorded = isRecorded(words);
  if (!existsSync(join(ROOT, "build/index.js"))) throw new BenchError("build/index.js is missing: run make build");
  loadGenerator();
  // Not in a temporary folder: that may be memory, where a durable write costs nothing.
  const parent = resolve(ROOT, process.env.BENCH_DATA || OUT);
  for (const path of [OUT, parent]) mkdirSync(path, { recursive: true });
  const folder = mkdtempSync(join(parent, "data-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(1));

  const file = join(OUT, new Date().toISOString().replace(/[:.]/g, "-"));
  let text;
  const results = await bench(words, folder, (soFar, missing) => {
    text = reportText({ groups: GROUPS, runs: [soFar], missing });
    writeFileSync(`${file}.md`, text);
    const kept = { ...soFar, found: soFar.found.map(({ logs: _, ...one }) => one) };
    writeFileSync(`${file}.json`, `${JSON.stringify(kept, null, 1)}\n`);
  });
  const { found } = results;
  console.log(`\n${text}\nbench: written to ${file}.md and .json`);
  const wrong = found.flatMap((group) => group.wrong);
  if (wrong.length > 0) {
    for (const log of found.flatMap(({ logs }) => logs)) console.error(`bench: last messages of ${log}`);
    throw new BenchError(`FAILED: ${wrong.length} findings, after the tables above`);
  }
  if (!recorded) return;
  console.log(`bench: recorded in ${record([results])}`);
}

main().catch((error) => {
  if (!(error instanceof BenchError)) throw error;
  console.error(`bench: ${error.message}`);
  process.exitCode = 1;
});
