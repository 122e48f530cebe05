// What services cost, counted: calls of objects and rows written, for docs/operate/costs.md.
//
//   node_modules/.bin/node benches/costs.mjs [name]…
//
// A blog, whose views come one at a time; many pages, whose views come all the time, in tablets; checks of a limit by
// many keys; bodies, boards, unique elements, Redis. The script drives each at its own rate for a while. Then it waits
// until the counters have reported to the directory, and counts these reports too.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startTally } from "./servers.mjs";

// Pages are viewed as Zipf has it: the n-th as often as 1/n.
function zipf(pages, random) {
  const sums = new Float64Array(pages);
  let sum = 0;
  for (let page = 0; page < pages; page += 1) sums[page] = sum += 1 / (page + 1);
  return () => {
    const wanted = random() * sum;
    let [low, high] = [0, pages - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sums[middle] < wanted) low = middle + 1;
      else high = middle;
    }
    return low;
  };
}

// Numbers from 0 to 1, the same in each run. Source: mulberry32.
function seeded(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const QUIET_MS = 15_000;
const BODY = Array.from({ length: 1_000 }, (_, number) => JSON.stringify({ id: `docs/${number}` })).join("\n");
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const page = "/blog/page-";

const SERVICES = {
  // 2,000 views a day are one each 43 s: each is alone. Here one each 0.25 s, of another page than the one before.
  blog: { pages: 40, each_ms: 250, writes: 240 },
  // 10,000,000 views a day are 116 a second.
  pages: { variables: { TALLY_TABLETS: "64" }, pages: 100_000, each_ms: 1_000 / 116, writes: 116 * 60 },
  // The same views without what they say of themselves; and in bodies of ten seconds each.
  "pages, plain": {
    variables: { TALLY_TABLETS: "64" }, pages: 100_000, each_ms: 1_000 / 116, writes: 116 * 60, isPlain: true,
  },
  "pages, in bodies": {
    variables: { TALLY_TABLETS: "64" }, pages: 100_000, each_ms: 1_000 / 116, writes: 116 * 60, body_events: 1_160,
  },
  limits: { keys: 10_000, checks: 20_000, at_once: 64 },
  // Bodies of the same 1,000 counters: calls and rows with their reports.
  bodies: { requests: 10, each: 1_000, request: () => ["/events", BODY] },
  "bodies, in tablets": {
    variables: { TALLY_TABLETS: "64" }, requests: 10, each: 1_000, request: () => ["/events", BODY],
  },
  // A board that keeps best scores, one score after the other, of 500 members.
  boards: { requests: 1_000, request: (number) => [`/boards/best/members/player-${number % 500}`, { score: number }] },
  // One counter, one request after the other, of other elements or by Redis's commands.
  uniques: { requests: 1_000, request: (number) => ["/counters/site/increment", { unique: `visitor-${number}` }] },
  redis: { requests: 1_000, request: () => ["/redis", ["INCR", "sold"]] },
  "redis, in pipelines": {
    requests: 50, each: 100, request: () => ["/redis/pipeline", Array(100).fill(["INCR", "sold"])],
  },
};

async function requests(server, { requests: wanted, each = 1, request }) {
  for (let number = 0; number < wanted; number += 1) {
    const [path, body] = request(number);
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const answer = await fetch(`${server.urls[0]}${path}`, { method: "POST", body: text });
    await answer.arrayBuffer();
    if (!answer.ok) throw new Error(`${path}: ${answer.status}\n${server.log()}`);
  }
  await pause(QUIET_MS);
  return wanted * each;
}

async function views(server, { pages, each_ms, writes, isPlain = false, body_events }) {
  const random = seeded(1);
  const choose = zipf(pages, random);
  const sent = [];
  let events = [];
  const post = (path, body) =>
    sent.push(fetch(`${server.urls[0]}${path}`, { method: "POST", body }).then((answer) => answer.arrayBuffer()));
  const began = performance.now();
  for (let write = 0; write < writes; write += 1) {
    const wait_ms = began + write * each_ms - performance.now();
    if (wait_ms > 0) await pause(wait_ms);
    const fields = {
      unique: `visitor-${Math.floor(random() * writes)}`,
      by: { referrer: `site-${Math.floor(random() * 20)}.example`, country: "DE" },
    };
    const key = page + choose();
    if (body_events === undefined) {
      post(`/counters/${encodeURIComponent(key)}/increment`, isPlain ? undefined : JSON.stringify(fields));
    } else if (events.push(JSON.stringify({ id: key, ...fields })) === body_events) {
      post("/events", events.splice(0).join("\n"));
    }
  }
  if (events.length > 0) post("/events", events.join("\n"));
  await Promise.all(sent);
  await pause(QUIET_MS);
  return writes;
}

async function checks(server, { keys, checks: wanted, at_once }) {
  await fetch(`${server.urls[0]}/limits/api`, { method: "PUT", body: '{"limit":1000,"window_seconds":60}' });
  const random = seeded(1);
  let left = wanted;
  const caller = async () => {
    while (left-- > 0) await (await fetch(`${server.urls[0]}/limits/api/key-${Math.floor(random() * keys)}`, { method: "POST" })).arrayBuffer();
  };
  await Promise.all(Array.from({ length: at_once }, caller));
  await pause(QUIET_MS / 5);
  return wanted;
}

for (const name of process.argv.length > 2 ? process.argv.slice(2) : Object.keys(SERVICES)) {
  const service = SERVICES[name];
  const folder = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "tally-costs-"));
  const server = await startTally(folder, { variables: service.variables ?? {}, counts: true });
  try {
    const before = await server.counts();
    const drive = service.checks !== undefined ? checks : service.request !== undefined ? requests : views;
    const did = await drive(server, service);
    const after = await server.counts();
    const of = (what) => ((1_000 * (after[what] - before[what])) / did).toFixed(1);
    console.log(`${name}: ${did} requests; of 1,000: ${of("calls")} object calls, ${of("rows")} rows written`);
  } finally {
    await server.end();
    rmSync(folder, { recursive: true, force: true });
  }
}
process.exit();
