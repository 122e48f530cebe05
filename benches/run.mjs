// `make bench`: Tally beside the same done the documented way, on plain workerd, in one run.
//
// Invariants: both sides get the same load in turn, the order swapped each round, so that what else the
// machine does falls on both; and the run fails if a counter does not hold what was acknowledged, to the
// unit, or if any answer was not good (an error is quickly given: its rate would mean nothing).
// Life: wrk → servers → each measure (seed, warm up, rounds, compare totals) → tables → end of the servers.
//
// Arguments: words, to run only the measures whose name holds one of them. From the environment, for
// trials: BENCH_ROUNDS, BENCH_SECONDS (of a round), BENCH_DATA (the folder under which the data lies).
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { BenchError, loadGenerator, runLoad } from "./load.mjs";
import { business, machine } from "./machine.mjs";
import { MEASURES } from "./measures.mjs";
import { faults, ratioTable, reconcile, summarise, totalsTable } from "./report.mjs";
import { startServer } from "./servers.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const OUT = join(ROOT, "bench-out");
// 3 measures × 2 sides × (1 + 3 × 4 s) + 1 measure × 2 sides × (1 + 3 × 6 s) = 116 s, and
// about 0.3 s for the end of each of these 32 runs.
const WARM_UP_SECONDS = 1;
const ROUND_SECONDS = 4;
const ROUNDS = 3;
const RUN_MS_MAX = 180_000;
const SIDES = ["tally", "baseline"];

// Returns the whole number that a variable holds, or `fallback` where it is not set.
function setting(name, fallback) {
  const value = process.env[name];
  if (value === undefined || value === "") return fallback;
  if (/^[1-9]\d?$/.test(value)) return Number(value);
  throw new BenchError(`${name} must be a whole number from 1 to 99, not ${JSON.stringify(value)}`);
}

async function seed(server, { counters, seed: delta }) {
  if (delta === 0) return;
  for (const id of counters) {
    const url = `${server.url}/counters/${id}/increment`;
    const headers = { "content-type": "application/json" };
    const answer = await fetch(url, { method: "POST", body: JSON.stringify({ delta }), headers });
    if (answer.status !== 200) throw new BenchError(`${url} answers ${answer.status}: ${await answer.text()}`);
  }
}

async function totalsOf(server, counters) {
  const totals = [];
  for (const id of counters) totals.push(await server.total(id));
  return totals;
}

// Resolves to the summary of a measure, the comparison of its totals, and what was wrong.
async function take(measure, servers, folder) {
  const rounds_max = setting("BENCH_ROUNDS", ROUNDS);
  const round_seconds = setting("BENCH_SECONDS", measure.round_seconds ?? ROUND_SECONDS);
  const runs = { tally: [], baseline: [] };
  const load = async (side, seconds) => {
    const { server, body, ...request } = measure[side];
    const body_file = body === undefined ? undefined : join(folder, `${side}.body`);
    if (body_file !== undefined) writeFileSync(body_file, body);
    const { url } = servers[server];
    const run = await runLoad({ url, load: request, body_file, connections: measure.connections, seconds });
    runs[side].push(run);
    return run;
  };
  for (const side of SIDES) {
    await seed(servers[measure[side].server], measure);
    await load(side, WARM_UP_SECONDS);
  }
  const rounds = [];
  for (let index = 0; index < rounds_max; index += 1) {
    const round = {};
    for (const side of index % 2 === 0 ? SIDES : SIDES.toReversed()) round[side] = await load(side, round_seconds);
    rounds.push(round);
    const rates = SIDES.map((side) => `${side} ${Math.round(round[side].rate_s)}`).join(", ");
    console.error(`bench: ${measure.name}, round ${index + 1} of ${rounds_max}: ${rates} ${measure.unit}/s`);
  }
  const { name, adds, counters } = measure;
  const totals = [];
  const wrong = [];
  for (const side of SIDES) {
    const found = reconcile(measure, runs[side], await totalsOf(servers[measure[side].server], counters));
    if (counters.length > 0) totals.push({ name, side, adds, seeded: measure.seed * counters.length, ...found });
    wrong.push(...found.mismatches.map((sentence) => `MISMATCH ${name}, ${side}: ${sentence}`));
    const bad = faults(runs[side], rounds.map((round) => round[side]));
    wrong.push(...bad.map((sentence) => `BAD ANSWERS ${name}, ${side}: ${sentence}`));
  }
  return { summary: summarise(measure, rounds), totals, wrong };
}

// Resolves to the report and to what was wrong. Fills `servers` with those it started.
async function bench(words, servers, folder) {
  const measures = MEASURES.filter(({ name }) => words.length === 0 || words.some((word) => name.includes(word)));
  if (measures.length === 0) {
    throw new BenchError(`no measure is named ${words.join(" or ")}; there are: ${MEASURES.map(({ name }) => name).join("; ")}`);
  }
  const before = business(folder);
  for (const name of new Set(measures.flatMap((measure) => SIDES.map((side) => measure[side].server)))) {
    servers[name] = await startServer(name, join(folder, name));
  }
  const taken = [];
  for (const measure of measures) taken.push(await take(measure, servers, folder));
  const wrong = taken.flatMap((one) => one.wrong);
  const totals = taken.flatMap((one) => one.totals);
  const facts = [
    ...machine({ root: ROOT, data: folder, wrk: loadGenerator(), before }),
    "ratios, rates and latencies are medians of the rounds; the sides ran in turn",
  ];
  const parts = [
    ratioTable(taken.map((one) => one.summary)),
    ...(totals.length > 0 ? [totalsTable(totals)] : []),
    facts.map((fact) => `- ${fact}`).join("\n"),
    ...wrong,
  ];
  return { text: `${parts.join("\n\n")}\n`, wrong };
}

async function main() {
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

  const servers = {};
  try {
    const { text, wrong } = await bench(process.argv.slice(2), servers, folder);
    const file = join(OUT, `${new Date().toISOString().replace(/[:.]/g, "-")}.md`);
    writeFileSync(file, text);
    console.log(`\n${text}\nbench: written to ${file}`);
    if (wrong.length === 0) return;
    for (const [name, server] of Object.entries(servers)) {
      if (server.log() !== "") console.error(`bench: last messages of ${name}:\n${server.log()}`);
    }
    throw new BenchError(`FAILED: ${wrong.length} findings, after the tables above`);
  } finally {
    await Promise.all(Object.values(servers).map((server) => server.end()));
    clearTimeout(late);
  }
}

main().catch((error) => {
  if (!(error instanceof BenchError)) throw error;
  console.error(`bench: ${error.message}`);
  process.exitCode = 1;
});
