// `make bench-tail`: what many cold counters cost: in 64 tablets on workerd, in as many as the native server makes by
// itself, and each with an object of its own, on workerd. One run has all three.
// BENCH_RECORD=1 writes the table into BENCHMARKS.md, into a section of its own.
//
// Invariants: what was acknowledged is compared with what an aggregate or a read says; where they differ the run fails.
// A server may open 1,024 files, as on a machine that nobody has set up. Objects of their own are measured with few
// counters: each costs 10 ms.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { loadavg } from "node:os";
import { recordSection } from "./record.mjs";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { missing, startTally } from "./servers.mjs";
import { BenchError } from "./load.mjs";
import { machine } from "./machine.mjs";
import { slownessSentence } from "./report.mjs";
import { slowness } from "./slowness.mjs";
import { bodies, linesOf, pathOf, randomFrom, zipf } from "./tail-log.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const OUT = join(ROOT, "bench-out");
const NOFILE = 1_024;
const TABLETS = 64;
const BODY_BYTES = 24 * 1024 * 1024;
const CLIENTS = 64;
const BATCH_EVENTS = 50_000;
const BATCH_COUNTERS = 1_000;
// As many objects of their own are open at once with so few files; with more, each body would open all of them anew.
const BATCH_OWN_COUNTERS = 200;
// Within it datacenters have pushed what they counted, and tablets have folded their logs.
const SETTLED_MS = 70_000;
const STARTED_MS = 5_000;
const ROUNDS = 5;
const TRIES_MAX = 30;
// Of its log there are four lines each: 10,000.
const SMALL_LOG_COUNTERS = 2_500;

const whole = (name, otherwise) => {
  const number = Number(process.env[name] ?? otherwise);
  if (!Number.isSafeInteger(number) || number < 1) throw new BenchError(`${name} must be a whole number from 1`);
  return number;
};
const SEED = whole("SEED", 20_260_101);
const SECONDS = whole("SECONDS", 10);
const COUNTERS = whole("COUNTERS", 100_000);

const agent = new Agent({ keepAlive: true, maxSockets: 256 });

/** Resolves to the status and the text of an answer. */
function send(url, method, path, body) {
  return new Promise((done, failed) => {
    const sent = request(
      `${url}${path}`,
      { method, agent, headers: body === undefined ? {} : { "content-length": Buffer.byteLength(body) } },
      (answer) => {
        const parts = [];
        answer.on("data", (part) => parts.push(part));
        answer.on("end", () => done({ status: answer.statusCode, text: Buffer.concat(parts).toString() }));
      },
    );
    sent.on("error", failed);
    sent.end(body);
  });
}

/**
 * Resolves to the JSON of an answer of 200. What is refused as too many open counters is asked again, as a client does:
 * with objects of their own few are open at once, and its waiting is part of the figure.
 */
async function ask(url, method, path, body) {
  for (let tries = 1; ; tries += 1) {
    const { status, text } = await send(url, method, path, body);
    if (status === 200) return JSON.parse(text);
    const refused = `${method} ${path.slice(0, 80)} answers ${status}: ${text.slice(0, 300)}`;
    if (status !== 503 || tries === TRIES_MAX) throw new BenchError(refused);
    await sleep(1_000);
  }
}

async function timed(work) {
  const began = performance.now();
  const value = await work();
  return { ms: performance.now() - began, value };
}

const quantile = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? NaN;

// `clients` at once call `work` until the time is over, or `stopped` says so. Resolves to the milliseconds of each,
// sorted.
async function during(clients, seconds, work, stopped = () => false) {
  const until = performance.now() + seconds * 1_000;
  const took = [];
  await Promise.all(Array.from({ length: clients }, async () => {
    while (performance.now() < until && !stopped()) took.push((await timed(work)).ms);
  }));
  return took.sort((one, other) => one - other);
}

// The server that serve.mjs starts, or what was started itself.
function serverOf(pid) {
  const found = spawnSync("ps", ["-eo", "pid=,ppid=,comm="], { encoding: "utf8" })
    .stdout.split("\n")
    .map((line) => line.trim().split(/\s+/));
  const within = new Set([String(pid)]);
  for (let round = 0; round < 4; round += 1) for (const [one, parent] of found) if (within.has(parent)) within.add(one);
  return found.find(([one, , name]) => within.has(one) && ["workerd", "tally-server"].includes(name))?.[0];
}

const memory = (pid, what) =>
  Number(readFileSync(`/proc/${serverOf(pid)}/status`, "utf8").match(new RegExp(`^${what}:\\s+(\\d+) kB`, "m"))?.[1]) /
  1024;

const diskBytes = (folder) =>
  Number(spawnSync("du", ["-s", "--block-size=1", folder], { encoding: "utf8" }).stdout.split("\t")[0]);

const eventsOf = (ids) => ids.map((id) => `{"id":"${id}"}`).join("\n");

function check(what, is, expected) {
  if (is !== expected) throw new BenchError(`${what}: ${is}, and ${expected} were acknowledged`);
}

// New counters of one body, and how long others wait meanwhile; then the same body again.
async function newCounters({ url, counters }) {
  const ids = Array.from({ length: counters }, (_, index) => `new/${index}`);
  let isOver = false;
  const waited = during(1, 1e6, async () => {
    await ask(url, "GET", "/healthz");
    await sleep(5);
  }, () => isOver);
  const { ms, value } = await timed(() => ask(url, "POST", "/events", eventsOf(ids)));
  isOver = true;
  check("new counters", value.accepted, counters);
  const longest_ms = (await waited).at(-1);
  // What the new ones have left to do is not of the known ones.
  await sleep(SETTLED_MS);
  const again = await timed(() => ask(url, "POST", "/events", eventsOf(ids)));
  check("known counters", again.value.accepted, counters);
  const rate = (took) => (counters / took) * 1_000;
  return { rate: rate(ms), longest_ms, again_rate: rate(again.ms) };
}

// Imports the log while a hot counter is incremented beside it.
async function importLog({ url, pid, counters }) {
  let isOver = false;
  let beside = 0;
  const hot = during(4, 1e6, async () => {
    await ask(url, "POST", "/counters/hot/increment");
    beside += 1;
  }, () => isOver);
  let lines = 0;
  const { ms } = await timed(async () => {
    for (const body of bodies(counters, SEED, BODY_BYTES, Date.now())) {
      const answer = await ask(url, "POST", "/ingest?format=clf&id=path&unique=ip", body);
      if (answer.rejected > 0) throw new BenchError(`${answer.rejected} lines were rejected: ${JSON.stringify(answer.errors[0])}`);
      lines += answer.accepted;
    }
  });
  isOver = true;
  const took = await hot;
  check("lines", lines, linesOf(counters));
  check("the hot counter", (await ask(url, "GET", "/counters/hot?consistency=strong")).value, beside);
  return { ms, p99_ms: quantile(took, 0.99), peak: memory(pid, "VmHWM") };
}

async function reads({ url, counters }) {
  const random = randomFrom(SEED + 1);
  const path = () => `/counters/${encodeURIComponent(pathOf(Math.floor(random() * counters)))}`;
  const cold = await during(1, SECONDS / 5, () => ask(url, "GET", path()));
  const one = path();
  await ask(url, "GET", one);
  const warm = await during(1, SECONDS / 5, () => ask(url, "GET", one));
  return { cold_ms: quantile(cold, 0.5), warm_ms: quantile(warm, 0.5) };
}

async function increments({ url, counters }) {
  const draw = zipf(counters, randomFrom(SEED + 2));
  const took = await during(CLIENTS, SECONDS, () =>
    ask(url, "POST", `/counters/${encodeURIComponent(`zipf/${draw()}`)}/increment`),
  );
  return { rate: took.length / SECONDS, p99_ms: quantile(took, 0.99) };
}

async function batches({ url, counters }) {
  const body = eventsOf(Array.from({ length: BATCH_EVENTS }, (_, index) => `batch/${(index * 37) % counters}`));
  await ask(url, "POST", "/events", body);
  const took = await during(16, SECONDS, () => ask(url, "POST", "/events", body));
  const acknowledged = (took.length + 1) * BATCH_EVENTS;
  const path = "/counters/batch%2F*/aggregate";
  const { value, exact } = await ask(url, "GET", `${path}?consistency=strong`);
  // Where not all objects can be opened in time, the answer is not exact, and says so.
  if (exact) check("events", value, acknowledged);
  else await untilSettled({ url, path, value: acknowledged, what: "events" });
  return (took.length * BATCH_EVENTS) / SECONDS;
}

// Waits until the directory was told of all that was counted.
async function untilSettled({ url, path, value, what }) {
  const until = performance.now() + 2 * SETTLED_MS;
  while ((await ask(url, "GET", path)).value !== value) {
    if (performance.now() > until) throw new BenchError(`the directory was not told of all ${what} in time`);
    await sleep(1_000);
  }
}

// The sum of the log's counters: by asking all of them, and by what the directory was told once that is all.
async function aggregate({ url, counters }) {
  const path = "/counters/%2Ftail%2F*/aggregate";
  // Where it takes too long, what roots remember is told in its place.
  const strong = await timed(async () => {
    const { status, text } = await send(url, "GET", `${path}?consistency=strong`);
    return status === 200 ? JSON.parse(text) : { exact: false };
  });
  if (strong.value.exact) {
    check("the aggregate", strong.value.counters, counters);
    check("its value", strong.value.value, linesOf(counters));
  }
  await untilSettled({ url, path, value: linesOf(counters), what: "lines" });
  return { ms: await again(url, path), strong_ms: strong.value.exact ? strong.ms : NaN };
}

// Which of the log's counters lead, of all time and of the last seven days, once the directory was told of all lines.
async function tops({ url, counters }) {
  const path = "/top?prefix=%2Ftail%2F&by=value&limit=100";
  const answer = await ask(url, "GET", path);
  check("the counters of a top", answer.counters, counters);
  check("what they count together", answer.total, linesOf(counters));
  check("its rows", answer.entries.length, Math.min(100, counters));
  return { ms: await again(url, path), days_ms: await again(url, path.replace("by=value", "by=count&window=7d")) };
}

// Milliseconds of the same while those counters are written. No answer is told again without looking: limits differ.
async function topsBeside({ url, counters }) {
  const random = randomFrom(SEED + 4);
  const path = () => `/counters/${encodeURIComponent(pathOf(Math.floor(random() * counters)))}/increment`;
  let isOver = false;
  const writes = during(4, 1e6, () => ask(url, "POST", path()), () => isOver);
  const took = [];
  try {
    // What the first of them counted is told to the directory by then.
    await sleep(10_000);
    const until = performance.now() + SECONDS * 1_000;
    for (let limit = 0; performance.now() < until; limit = (limit + 1) % 100) {
      took.push((await timed(() => ask(url, "GET", `/top?prefix=%2Ftail%2F&by=value&limit=${limit + 1}`))).ms);
      await sleep(50);
    }
  } finally {
    isOver = true;
  }
  const written = (await writes).length;
  took.sort((one, other) => one - other);
  return { ms: quantile(took, 0.5), p99_ms: quantile(took, 0.99), looks: took.length, written };
}

// The median milliseconds of a read, asked so seldom that no answer is told again without looking.
async function again(url, path) {
  const took = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    await sleep(1_000);
    took.push((await timed(() => ask(url, "GET", path))).ms);
  }
  return quantile(took.sort((one, other) => one - other), 0.5);
}

// A log of 10,000 lines, as a newcomer imports it into an empty folder, beside one upsert for each of its lines.
async function smallLog({ url, folder, name }) {
  const log = Buffer.from(
    [...bodies(SMALL_LOG_COUNTERS, SEED, BODY_BYTES, Date.now(), (counter) => `/small/${counter}`)].join(""),
  );
  const { ms: first } = await timed(() => ask(url, "POST", "/ingest?format=clf&id=path&unique=ip", log));
  const { ms: second } = await timed(() => ask(url, "POST", "/ingest?format=clf&id=path&unique=ip", log));
  // Without Node's notice that the module is new.
  const { emitWarning } = process;
  process.emitWarning = () => {};
  const { DatabaseSync } = await import("node:sqlite");
  process.emitWarning = emitWarning;
  const database = new DatabaseSync(join(folder, `upserts-${name}.sqlite`));
  database.exec("PRAGMA journal_mode = WAL; CREATE TABLE hits (path TEXT PRIMARY KEY, hits INTEGER) WITHOUT ROWID");
  const upsert = database.prepare("INSERT INTO hits VALUES (?, 1) ON CONFLICT DO UPDATE SET hits = hits + 1");
  const { ms: sqlite } = await timed(() => {
    database.exec("BEGIN");
    for (const line of log.toString().split("\n")) {
      const path = line.match(/"[A-Z]+ ([^ ?"]+)/)?.[1];
      if (path !== undefined) upsert.run(path);
    }
    database.exec("COMMIT");
  });
  database.close();
  return { first, second, sqlite };
}

// Rows and calls of 64 clients over 10,000 counters that are there already.
async function billed(folder, variables) {
  const server = await startTally(folder, { variables, counts: true });
  try {
    const [url] = server.urls;
    const counters = variables.TALLY_TABLETS ? 10_000 : 1_000;
    await ask(url, "POST", "/events", eventsOf(Array.from({ length: counters }, (_, index) => `zipf/${index}`)));
    // What the new counters have left to do is not of the increments.
    await sleep(SETTLED_MS);
    const before = await server.counts();
    const draw = zipf(counters, randomFrom(SEED + 3));
    const took = await during(CLIENTS, SECONDS, () => ask(url, "POST", `/counters/zipf%2F${draw()}/increment`));
    const acknowledged = await server.counts();
    await sleep(SETTLED_MS);
    const settled = await server.counts();
    const of = (after, what) => ((after[what] - before[what]) / took.length) * 1_000;
    return {
      counters, increments: took.length,
      rows: of(acknowledged, "rows"), calls: of(acknowledged, "calls"),
      settled_rows: of(settled, "rows"), settled_calls: of(settled, "calls"),
    };
  } finally {
    await server.end();
  }
}

// What partitions are told of ten million counters by the schedule of pushes, as the native test of it says for a
// fortieth of one.
function simulatedRoots() {
  const test = [
    "test", "--locked", "--quiet", "--test", "native", "ten_million_counters_in_64_partitions", "--", "--nocapture",
  ];
  const result = spawnSync("cargo", test, { cwd: ROOT, encoding: "utf8" });
  const found = `${result.stdout}${result.stderr}`.match(/(\d+) messages a minute of (\d+) counters, (\d+) at worst/);
  if (!found) {
    // The rest of the run has its figures all the same.
    console.error(`tail: the schedule of pushes was not told: ${result.stderr?.slice(-300)}`);
    return {};
  }
  const [always, counters, worst] = found.slice(1).map(Number);
  const scaled = (messages) => (messages / 60) * (10_000_000 / 64 / counters);
  return { always: scaled(always), worst: scaled(worst) };
}

async function measure(name, folder, { host, variables, counters, fresh }, bills) {
  const options = { host, variables, nofile: NOFILE };
  const data = join(folder, name);
  let server = await startTally(data, options);
  const found = { name, counters, fresh };
  const stage = async (what, label, work) => {
    found[what] = await work();
    console.error(`tail: ${name}: ${label}: ${JSON.stringify(found[what])}`);
  };
  const on = () => ({ url: server.urls[0], pid: server.pid, folder: data });
  // Ends the server and starts it again: only then its files are without write-ahead logs, of some 4 MB each.
  const ended = { peak: 0 };
  const restart = async () => {
    ended.peak = Math.max(ended.peak, memory(server.pid, "VmHWM"));
    await server.end();
    ended.bytes = diskBytes(data);
    const { ms, value } = await timed(() => startTally(data, options));
    [server, ended.ms] = [value, ms];
  };
  try {
    const [line, isTabled] = ["a log of 10,000 lines", variables.TALLY_TABLETS !== ""];
    if (isTabled) await stage("small", line, () => smallLog({ ...on(), folder, name }));
    await stage("new", `${fresh} new counters`, () => newCounters({ ...on(), counters: fresh }));
    const before = diskBytes(data);
    await restart();
    const ended_before = ended.bytes;
    await stage("log", `a log over ${counters} counters`, () => importLog({ ...on(), counters }));
    await stage("reads", "reads", () => reads({ ...on(), counters }));
    await stage("aggregate", "the aggregate", () => aggregate({ ...on(), counters }));
    await stage("tops", "tops", () => tops({ ...on(), counters }));
    await stage("beside", "tops beside writes", () => topsBeside({ ...on(), counters }));
    await stage("bytes", "disk of a counter", async () => (diskBytes(data) - before) / counters);
    await restart();
    await stage("rest_bytes", "disk of a counter at rest", async () => (ended.bytes - ended_before) / counters);
    await stage("restart", "the restart", async () => ended.ms);
    // What it still does at its start is over by then.
    await sleep(STARTED_MS);
    await stage("cold", "memory of cold counters", async () => memory(server.pid, "VmRSS"));
    await stage("increments", "increments by Zipf", () =>
      increments({ ...on(), counters: Math.min(counters, 100_000) }),
    );
    const batched = name === "own" ? BATCH_OWN_COUNTERS : BATCH_COUNTERS;
    await stage("events", "bodies of 50,000 events", () => batches({ ...on(), counters: batched }));
    found.peak = Math.max(ended.peak, memory(server.pid, "VmHWM"));
  } finally {
    await server.end();
  }
  await stage("billed", "rows and calls", async () => bills[name]);
  if (name === "tablets") await stage("roots", "ten million roots", async () => simulatedRoots());
  return found;
}

const figure = (number, digits = 0) =>
  Number.isFinite(number)
    ? number.toLocaleString("en-US", { maximumFractionDigits: digits, minimumFractionDigits: digits })
    : "–";

function report(found, facts) {
  const lines = [
    ["counters of the log", (of) => figure(of.counters), ""],
    ["a log of 10,000 lines over 2,500 counters, first time, into an empty folder, ms", (of) => figure(of.small?.first), ""],
    ["… a second time, ms", (of) => figure(of.small?.second), ""],
    ["… first ÷ one upsert a line in SQLite", (of) => figure(of.small?.first / of.small?.sqlite, 1), "≤ 10; native ≤ 5"],
    ["… second ÷ one upsert a line in SQLite", (of) => figure(of.small?.second / of.small?.sqlite, 1), ""],
    ["new counters/s, in one body", (of) => figure(of.new.rate), "≥ 20,000; native ≥ 50,000"],
    ["… the longest `/healthz` beside it, ms", (of) => figure(of.new.longest_ms), "≤ 500"],
    ["known counters/s, the same body again", (of) => figure(of.new.again_rate), ""],
    ["import of the log, s", (of) => figure(of.log.ms / 1_000, 1), ""],
    ["… lines/s", (of) => figure((linesOf(of.counters) / of.log.ms) * 1_000), ""],
    ["… p99 of a hot counter beside it, ms", (of) => figure(of.log.p99_ms), ""],
    ["disk of a cold counter with uniques of three visitors, with write-ahead logs, bytes", (of) => figure(of.bytes), "≤ 1,024"],
    ["… once the server has ended", (of) => figure(of.rest_bytes), "≤ 1,024"],
    ["memory at most until the import has ended, MiB", (of) => figure(of.log.peak), "≤ 667; native ≤ 300"],
    ["… with all after it", (of) => figure(of.peak), "≤ 667; native ≤ 300"],
    ["… 5 s after a start, all counters cold", (of) => figure(of.cold), "native ≤ 300"],
    ["a cold read, median, ms", (of) => figure(of.reads.cold_ms, 1), ""],
    ["a warm read, median, ms", (of) => figure(of.reads.warm_ms, 1), ""],
    ["aggregate over the log's counters, ms", (of) => figure(of.aggregate.ms), "≤ 50"],
    ["… asking each of them (`consistency=strong`), ms", (of) => figure(of.aggregate.strong_ms), ""],
    ["`GET /top` over the log's counters, limit 100, ms", (of) => figure(of.tops.ms, 1), "≤ 20"],
    ["… of the last seven days, ms", (of) => figure(of.tops.days_ms, 1), "≤ 20"],
    ["… of all time while 4 clients write those counters, median, ms", (of) => figure(of.beside.ms, 1), "≤ 20"],
    ["… p99, ms", (of) => figure(of.beside.p99_ms, 1), ""],
    ["increments/s over as many counters by Zipf, 64 clients", (of) => figure(of.increments.rate), ""],
    ["… p99, ms", (of) => figure(of.increments.p99_ms), ""],
    ["rows of 1,000 increments over 10,000 counters (own objects: 1,000) by Zipf, 64 clients, until acknowledged", (of) => figure(of.billed?.rows), "≤ 100"],
    ["… with what is told and folded in the 70 s after", (of) => figure(of.billed?.settled_rows), ""],
    ["calls of those", (of) => figure(of.billed?.calls), "≤ 100"],
    ["… with those of the 70 s after", (of) => figure(of.billed?.settled_calls), ""],
    ["events/s, 50,000 a body over 1,000 counters (own objects: 200), 16 in flight", (of) => figure(of.events), "≥ 1,500,000; native ≥ 3,000,000"],
    ["restart to ready, s", (of) => figure(of.restart / 1_000, 2), "native ≤ 0.2"],
    ["10 M roots in 64 partitions, simulated: messages/s of a partition, always written", (of) => figure(of.roots?.always), "≤ 200"],
    ["… each written every 9 s, the worst rhythm", (of) => figure(of.roots?.worst), "≤ 200"],
  ];
  const row = (cells) => `| ${cells.join(" | ")} |`;
  return [
    row(["figure", ...found.map(({ name }) => name), "target"]),
    row(["---", ...found.map(() => "---"), "---"]),
    ...lines.map(([what, cellOf, target]) => row([what, ...found.map(cellOf), target])),
    "",
    ...[...facts, `seed ${SEED}; ${SECONDS} s for each load; a server may open ${NOFILE} files`].map((fact) => `- ${fact}`),
  ].join("\n");
}

async function main() {
  mkdirSync(OUT, { recursive: true });
  const folder = mkdtempSync(join(process.env.BENCH_DATA ?? OUT, "tail-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(1));
  const [before] = loadavg();
  console.error(`tail: seed ${SEED}; ${slownessSentence([slowness(folder)])}`);
  const own = Math.min(COUNTERS, whole("OWN_COUNTERS", 1_000));
  const plans = {
    tablets: { variables: { TALLY_TABLETS: String(TABLETS) }, counters: COUNTERS, fresh: whole("FRESH", 30_000) },
    native: { host: "native", variables: {}, counters: COUNTERS, fresh: whole("FRESH", 30_000) },
    own: { variables: { TALLY_TABLETS: "" }, counters: own, fresh: own },
  };
  const names = process.argv.slice(2);
  const wanted = Object.entries(plans).filter(([name]) => names.length === 0 || names.includes(name));
  if (process.env.BENCH_RECORD && wanted.length < 3) throw new BenchError("BENCH_RECORD wants all: without words");
  const lacks = wanted.some(([name]) => name === "native") && missing("native");
  if (lacks) throw new BenchError(`the native server is ${lacks}`);
  // Rows and calls are counted beside each other: what they are does not hang on who else is served.
  const counted = Promise.all(
    wanted.filter(([name]) => name !== "native").map(async ([name, { variables }]) =>
      [name, await billed(join(folder, `${name}-counted`), variables)]),
  );
  const bills = Object.fromEntries(await counted);
  const found = [];
  for (const [name, plan] of wanted) found.push(await measure(name, folder, plan, bills));
  const text = report(found, machine({ root: ROOT, data: folder, wrk: "not used", before }));
  const file = join(OUT, `tail-${new Date().toISOString().replace(/[:.]/g, "-")}.md`);
  writeFileSync(file, text);
  if (process.env.BENCH_RECORD) {
    const page = join(ROOT, "BENCHMARKS.md");
    writeFileSync(page, recordSection("tail", readFileSync(page, "utf8"), text));
  }
  console.log(`\n${text}\ntail: written to ${file}`);
}

main().catch((error) => {
  if (!(error instanceof BenchError)) throw error;
  console.error(`tail: ${error.message}`);
  process.exitCode = 1;
});
