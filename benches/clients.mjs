// `make bench-clients`: @upstash/redis and @upstash/ratelimit on Tally, on workerd and as the native server, beside the
// same clients on Redis behind a minimal front of their form (baseline/redis-front.mjs). Redis appends each write to
// its file before it answers, as Tally does.
//
// Invariant: it fails where a counter does not hold what was acknowledged, or an answer was not good, or two rank a
// member otherwise. They run in turn, ROUNDS times.
// From the environment: SECONDS of a round, ROUNDS, MEMBERS of the board, BENCH_DATA (the folder under which the data
// lies).
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
const MEMBERS = Number(process.env.MEMBERS ?? 100_000);
const BOARD = "board";
// Members of one ZADD, while the board is filled.
const FILLED_TOGETHER = 500;

async function redisBehindFront(folder) {
  mkdirSync(folder, { recursive: true });
  const port = await freePort();
  const store = await start(
    "Redis",
    [
      ...["redis-server", "--port", String(port), "--bind", "127.0.0.1", "--dir", folder],
      ...["--appendonly", "yes", "--appendfsync", "always", "--save", ""],
    ],
    { announced: (text) => (/Ready to accept connections/.test(text) ? [] : undefined) },
  );
  const front = await start(
    "the front", [process.execPath, join(ROOT, "benches/baseline/redis-front.mjs"), String(port)],
    {
      announced: (text) => text.match(/listening on (http:\S+)/)?.slice(1),
    },
  );
  return { url: front.urls[0], end: async () => (await front.end(), store.end()) };
}

async function tally(folder, host) {
  const server = await startTally(folder, { host });
  return { url: `${server.urls[0]}/redis`, end: server.end };
}

// How many a second: each flight asks again as soon as it is answered. It has a client of its own, as that joins all
// commands of one tick into one request.
async function rate(url, begin) {
  const begun = performance.now();
  let done = 0;
  const flight = async () => {
    const ask = begin(clients(url));
    while (performance.now() - begun < SECONDS * 1_000) {
      // Not `done += await …`, which reads `done` before the wait and so loses what the other flights have done
      // meanwhile.
      const more = await ask();
      done += more;
    }
  };
  await Promise.all(Array.from({ length: FLIGHTS }, flight));
  return done / ((performance.now() - begun) / 1_000);
}

const clients = (url) => new Redis({ url, token: "any", retry: false, enableTelemetry: false });

async function increments(url, counted) {
  return rate(url, (redis) => async () => {
    const keys = Array.from({ length: TOGETHER }, (_, index) => `hot-${index % KEYS}`);
    await Promise.all(keys.map((key) => redis.incr(key)));
    for (const key of keys) counted.set(key, (counted.get(key) ?? 0) + 1);
    return TOGETHER;
  });
}

async function verdicts(url) {
  let next = 0;
  return rate(url, (redis) => {
    const limits = new Ratelimit({ redis, limiter: Ratelimit.fixedWindow(1_000_000, "1 h"), ephemeralCache: false });
    return async () => {
      const answers = await Promise.all(
        Array.from({ length: TOGETHER }, () => limits.limit(`user-${(next += 1) % 1_000}`)),
      );
      if (answers.some(({ success, reason }) => !success || reason === "timeout")) {
        throw new Error("a verdict was not given");
      }
      return TOGETHER;
    };
  });
}

// Scores are a permutation of 0 to MEMBERS - 1 (the factor is a prime above MEMBERS), so each rank is known.
const FACTOR = 1_000_000_007;
const scoreOf = (member) => Number((BigInt(member) * BigInt(FACTOR)) % BigInt(MEMBERS));

async function fill(url) {
  const redis = clients(url);
  for (let from = 0; from < MEMBERS; from += TOGETHER * FILLED_TOGETHER) {
    const commands = redis.pipeline();
    for (let first = from; first < Math.min(from + TOGETHER * FILLED_TOGETHER, MEMBERS); first += FILLED_TOGETHER) {
      const members = Array.from({ length: Math.min(FILLED_TOGETHER, MEMBERS - first) }, (_, index) => first + index);
      commands.zadd(BOARD, ...members.map((member) => ({ score: scoreOf(member), member: `player-${member}` })));
    }
    await commands.exec();
  }
}

const drawn = () => Math.floor(Math.random() * MEMBERS);

// The rank and the score of a member are two commands: they count as one.
async function ranks(url) {
  return rate(url, (redis) => async () => {
    const members = Array.from({ length: TOGETHER / 2 }, drawn);
    const calls = members.flatMap((member) => [
      redis.zrevrank(BOARD, `player-${member}`), redis.zscore(BOARD, `player-${member}`),
    ]);
    const answers = await Promise.all(calls);
    for (const [place, member] of members.entries()) {
      const [rank, score] = answers.slice(2 * place, 2 * place + 2);
      if (score !== scoreOf(member) || rank !== MEMBERS - 1 - score) {
        throw new Error(`player-${member} has rank ${rank} and score ${score}`);
      }
    }
    return members.length;
  });
}

// The client sends these alone.
async function tops(url) {
  return rate(url, (redis) => async () => {
    const rows = await redis.zrange(BOARD, 0, 99, { rev: true, withScores: true });
    if (rows.length !== 200 || rows[1] !== MEMBERS - 1 || rows[199] !== MEMBERS - 100) {
      throw new Error(`the first 100 are ${rows}`);
    }
    return 1;
  });
}

const middle = (numbers) => numbers.toSorted((one, other) => one - other)[Math.floor(numbers.length / 2)];

const parent = resolve(ROOT, process.env.BENCH_DATA ?? "bench-out");
mkdirSync(parent, { recursive: true });
const folder = mkdtempSync(join(parent, "clients-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
const servers = {
  workerd: await tally(join(folder, "workerd"), "workerd"), native: await tally(join(folder, "native"), "native"),
  Redis: await redisBehindFront(join(folder, "redis")),
};
for (const { url } of Object.values(servers)) await fill(url);
const loads = { increments, verdicts, [`ranks among ${MEMBERS}`]: ranks, [`first 100 of ${MEMBERS}`]: tops };
const found = {};
const counted = Object.fromEntries(Object.keys(servers).map((name) => [name, new Map()]));
for (let round = 0; round < ROUNDS; round += 1) {
  for (const [name, { url }] of Object.entries(servers)) {
    for (const [what, load] of Object.entries(loads)) {
      ((found[what] ??= {})[name] ??= []).push(await load(url, counted[name]));
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
console.log(`
| through the clients, ${FLIGHTS} requests of ${TOGETHER} in flight | workerd | native | Redis | workerd ÷ | native ÷ |
|---|---:|---:|---:|---:|---:|`);
for (const [what, rates] of Object.entries(found)) {
  const [workerd, native, redis] = Object.keys(servers).map((name) => middle(rates[name]));
  const ratios = [workerd, native].map((own) => (own / redis).toFixed(2));
  console.log(`| ${what}/s | ${[workerd, native, redis].map(Math.round).join(" | ")} | ${ratios.join(" | ")} |`);
}
