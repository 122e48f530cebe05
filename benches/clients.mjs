// `make bench-clients`: @upstash/redis and @upstash/ratelimit on Tally, beside the same clients on Redis behind a minimal front of their form
// (baseline/redis-front.mjs), which appends each write to its file before it answers, as Tally does.
//
// Invariant: it fails where a counter does not hold what was acknowledged, or an answer was not good. The two run in turn, ROUNDS times.
// From the environment: SECONDS of a round, ROUNDS, BENCH_DATA (the folder under which the data lies).
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { Ratelimit } from "@upstash/ratelimit";
import { Redis } from "@upstash/redis";
import { freePort, start } from "./process.mjs";
import { startTally } from "./servers.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SECONDS = Number(process.env.SECONDS ?? 5);
const ROUNDS = Number(process.env.ROUNDS ?? 3);
// Requests in flight, and commands of each: what one tick of a program forms.
const FLIGHTS = 8;
const TOGETHER = 100;
const KEYS = 10;

async function redisBehindFront(folder) {
  mkdirSync(folder, { recursive: true });
  const port = await freePort();
  const store = await start("Redis", [
    ...["redis-server", "--port", String(port), "--bind", "127.0.0.1", "--dir", folder],
    ...["--appendonly", "yes", "--appendfsync", "always", "--save", ""],
  ], { announced: (text) => (/Ready to accept connections/.test(text) ? [] : undefined) });
  const front = await start("the front", [process.execPath, join(ROOT, "benches/baseline/redis-front.mjs"), String(port)], {
    announced: (text) => text.match(/listening on (http:\S+)/)?.slice(1),
  });
  return { url: front.urls[0], end: async () => (await front.end(), store.end()) };
}

async function tally(folder) {
  const server = await startTally(folder, {});
  return { url: `${server.urls[0]}/redis`, end: server.end };
}

// How many a second: each flight asks again as soon as it is answered.
async function rate(ask) {
  const begun = performance.now();
  let done = 0;
  const flight = async () => {
    while (performance.now() - begun < SECONDS * 1_000) done += await ask();
  };
  await Promise.all(Array.from({ length: FLIGHTS }, flight));
  return done / ((performance.now() - begun) / 1_000);
}

const clients = (url) => new Redis({ url, token: "any", retry: false, enableTelemetry: false });

async function increments(url, counted) {
  const redis = clients(url);
  return rate(async () => {
    const keys = Array.from({ length: TOGETHER }, (_, index) => `hot-${index % KEYS}`);
    await Promise.all(keys.map((key) => redis.incr(key)));
    for (const key of keys) counted.set(key, (counted.get(key) ?? 0) + 1);
    return TOGETHER;
  });
}

async function verdicts(url) {
  const limits = new Ratelimit({ redis: clients(url), limiter: Ratelimit.fixedWindow(1_000_000, "1 h"), ephemeralCache: false });
  let next = 0;
  return rate(async () => {
    const asked = await Promise.all(Array.from({ length: TOGETHER }, () => limits.limit(`user-${(next += 1) % 1_000}`)));
    if (asked.some(({ success, reason }) => !success || reason === "timeout")) throw new Error("a verdict was not given");
    return TOGETHER;
  });
}

const middle = (numbers) => numbers.toSorted((one, other) => one - other)[Math.floor(numbers.length / 2)];

const parent = resolve(ROOT, process.env.BENCH_DATA ?? "bench-out");
mkdirSync(parent, { recursive: true });
const folder = mkdtempSync(join(parent, "clients-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
const servers = { Tally: await tally(join(folder, "tally")), Redis: await redisBehindFront(join(folder, "redis")) };
const found = {};
const counted = { Tally: new Map(), Redis: new Map() };
for (let round = 0; round < ROUNDS; round += 1) {
  for (const [name, { url }] of Object.entries(servers)) {
    for (const [what, measured] of [["increments", await increments(url, counted[name])], ["verdicts", await verdicts(url)]]) {
      ((found[what] ??= {})[name] ??= []).push(measured);
    }
  }
}
for (const [name, { url }] of Object.entries(servers)) {
  for (const [key, wanted] of counted[name]) {
    const held = await clients(url).get(key);
    if (held !== wanted) throw new Error(`${name}: ${key} holds ${held}, and ${wanted} were acknowledged`);
  }
}
await Promise.all(Object.values(servers).map(({ end }) => end()));
console.log(`| through the clients, ${FLIGHTS} requests of ${TOGETHER} in flight | Tally | Redis | ÷ |\n|---|---|---|---|`);
for (const [what, { Tally, Redis: other }] of Object.entries(found)) {
  const [own, theirs] = [middle(Tally), middle(other)];
  console.log(`| ${what}/s | ${Math.round(own)} | ${Math.round(theirs)} | ${(own / theirs).toFixed(2)} |`);
}
