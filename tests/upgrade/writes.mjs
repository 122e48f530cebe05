// Writes to everything that the fixture holds, and what must be read then.
//
// Invariant: only what was recorded and what is written here goes into an expectation, so these laws hold whenever the
// fixture is opened. Each law has counters, or keys of limits, of its own.
import assert from "node:assert/strict";
import { BOT_FREE, OCTETS, json, keyed } from "./scene.mjs";
import { COLOS, WAITING } from "./story.mjs";

const counter = (id, call = "") => `/counters/${encodeURIComponent(id)}${call}`;
const replayed = ({ headers }) => headers.get("idempotency-replayed");

class Opened {
  constructor(scene, recorded) {
    this.scene = scene;
    this.answerTo = (path) => recorded.get(path);
    this.recorded = (id) => recorded.get(`${counter(id)}?consistency=strong&numbers=string`);
  }

  async read(id, more = "") {
    return (await this.scene.call("GET", `${counter(id)}?consistency=strong&numbers=string${more}`)).json;
  }

  /** Reads a counter whose value must be so much more than was recorded. */
  async grew(id, amount) {
    const { value, uniques } = await this.read(id);
    assert.equal(BigInt(value), BigInt(this.recorded(id).value) + BigInt(amount), id);
    return uniques;
  }

  async refused(status, code, method, path, options) {
    const { json: problem } = await this.scene.call(method, path, { ...options, status });
    assert.equal(problem.code, code);
  }
}

async function sums(opened) {
  const { scene } = opened;
  // The only datacenter of its counter still knows that it is.
  const { value, exact } = (await scene.add("plain", { delta: 3 })).json;
  assert.deepEqual([value, exact], [opened.recorded("plain").value + 3, true]);
  await scene.subtract("plain", { delta: 3 });
  for (const colo of ["FRA", "IAD", "SYD", "GRU"]) {
    for (const id of ["plain", "world", "large", "set", "reset", "shards", "sealed"]) {
      await scene.add(id, { delta: 3 }, { colo });
    }
  }
  for (const id of ["plain", "world", "large", "set", "reset", "shards", "sealed"]) await opened.grew(id, 12);
  for (const shards of [8, 2]) {
    await scene.put("shards", { shards });
    await scene.put("sealed", { shards });
    for (const id of ["shards", "sealed"]) await scene.add(id, { delta: 1 }, { colo: "IAD" });
  }
  for (const id of ["shards", "sealed"]) await opened.grew(id, 14);
  await scene.subtract("negative", { delta: 4 }, { colo: "IAD" });
  await opened.grew("negative", -4);
  await scene.call("POST", "/events", { body: '{"id":"/log/a","delta":2}\n{"id":"/log/b","delta":5}' });
  for (const [id, amount] of [["/log/a", 2], ["/log/b", 5]]) await opened.grew(id, amount);
}

async function elements(opened) {
  const { scene } = opened;
  // Known under the key of now, by the same datacenter or another; then a new one.
  for (const colo of ["FRA", "IAD"]) await scene.add("uniques/keyed", { unique: "fay" }, { colo });
  assert.deepEqual(await opened.grew("uniques/keyed", 2), opened.recorded("uniques/keyed").uniques);
  await scene.add("uniques/keyed", { unique: "gus" });
  assert.equal((await opened.grew("uniques/keyed", 3)).estimate, opened.recorded("uniques/keyed").uniques.estimate + 1);
  await scene.add("uniques/redis", { unique: "ann" });
  assert.deepEqual(await opened.grew("uniques/redis", 1), opened.recorded("uniques/redis").uniques);
  const { bytes } = await scene.call("GET", "/uniques?id=uniques%2Fredis&format=hll&consistency=strong");
  await scene.call("PUT", counter("uniques/imported", "/uniques/hll"), { body: bytes, headers: OCTETS });
  assert.deepEqual(await opened.grew("uniques/imported", 0), opened.recorded("uniques/imported").uniques);
  await scene.add("uniques/imported", { unique: "gus" });
  assert.equal(
    (await opened.grew("uniques/imported", 1)).estimate, opened.recorded("uniques/imported").uniques.estimate + 1,
  );
  await scene.call("POST", "/uniques/rotate");
  await scene.add("uniques/keyed", { unique: "fay" });
  assert.equal((await opened.grew("uniques/keyed", 4)).epochs, 3);
}

async function samples(opened) {
  const read = async () =>
    (await opened.scene.call("GET", counter("samples", "/distribution?consistency=strong&window=60"))).json.count;
  const before = await read();
  for (const colo of ["FRA", "SYD"]) await opened.scene.add("samples", { sample: 6 }, { colo });
  assert.equal(await read(), before + 2);
}

async function operations({ scene, ...opened }) {
  for (const id of ["set", "operations", "match"]) {
    const set = (await scene.call("PUT", counter(id, "/value"), json({ value: 500 }))).json;
    assert.deepEqual([set.value, set.base, set.pending_datacenters], [500, 500, []], id);
    for (const colo of ["FRA", "IAD"]) await scene.add(id, { delta: 2 }, { colo });
    assert.equal((await scene.call("GET", `${counter(id)}?consistency=strong`)).json.value, 504, id);
    assert.equal((await scene.call("PUT", counter(id, "/value"), json({ value: 0 }))).json.value, 0, id);
  }
  for (const id of ["again", "deleted", "ended"]) {
    await scene.add(id, { delta: 9 }, { colo: "IAD" });
    const value = (opened.recorded(id).value ?? 0) + 9;
    assert.equal((await scene.call("GET", `${counter(id)}?consistency=strong`)).json.value, value, id);
    await scene.call("DELETE", counter(id));
    await scene.call("GET", counter(id), { status: 404 });
  }
}

async function homes(opened) {
  const { scene } = opened;
  const add = async (colo) => (await scene.add("home", { delta: 2 }, { colo })).json;
  for (const colo of ["FRA", "IAD", "SYD"]) {
    assert.deepEqual([(await add(colo)).datacenter, (await add(colo)).exact], ["IAD", true]);
  }
  await scene.put("home", { home: "SYD" });
  const { datacenter, exact, value } = await add("FRA");
  assert.deepEqual([datacenter, exact, value], ["SYD", true, opened.recorded("home").value + 14]);
  await opened.refused(409, "below-floor", "POST", counter("floor", "/decrement"), json({ delta: 2 }, { colo: "IAD" }));
  await scene.subtract("floor", { delta: 1 }, { colo: "IAD" });
  await opened.refused(409, "below-floor", "POST", counter("floor", "/decrement"), json({ delta: 1 }));
  await opened.grew("floor", -1);
}

async function conditions(opened) {
  const { version } = opened.recorded("match");
  const headers = { "if-match": `"${version}"` };
  await opened.scene.add("match", { delta: 1 }, { headers });
  await opened.refused(412, "precondition-failed", "POST", counter("match", "/increment"), { headers });
  await opened.grew("match", 1);
}

async function keys(opened) {
  const { scene } = opened;
  for (const id of ["keys", "operations"]) {
    const add = () => scene.call("POST", counter(id, "/increment"), keyed("new", json({ delta: 1 })));
    assert.deepEqual([replayed(await add()), replayed(await add())], [null, "true"]);
    await opened.grew(id, 1);
  }
}

async function limits({ scene }) {
  const check = async (name, cost, colo) =>
    (await scene.call("POST", `/limits/${name}/bob`, json({ cost }, { colo }))).json;
  for (const name of ["sliding", "precise", "fixed", "bucket", "committed"]) {
    const { remaining } = (await scene.call("GET", `/limits/${name}/bob`)).json;
    assert.equal((await check(name, 6)).remaining, remaining - 6, name);
    await scene.call("POST", `/limits/${name}/bob/refund`, json({ cost: 6 }));
    assert.equal((await scene.call("GET", `/limits/${name}/bob`)).json.remaining, remaining, name);
    await scene.call("DELETE", `/limits/${name}/bob`);
  }
  await scene.call("PUT", "/limits/sliding", json({ limit: 5, window_seconds: 2_592_000 }));
  await scene.call("DELETE", "/limits/shadow");
  await scene.call("GET", "/limits/shadow", { status: 404 });
}

// What is waiting in inboxes when the server is killed is counted, once; what waits for longer than a month is a dead
// letter. How much waited depends on how soon the recording server was killed.
async function queue({ scene, ...opened }) {
  const waiting = (key) => WAITING.filter(([id]) => id === key).reduce((sum, [, amount]) => sum + amount, 0);
  const dead = async (key, colo) => {
    const { json: { entries } } = await scene.call("GET", "/api/dead-letters", { colo });
    return entries.filter(({ id }) => id === key).reduce((sum, { delta }) => sum + delta, 0);
  };
  const count = async (key) => {
    const { json } = await scene.call("GET", `/api/counter?key=${encodeURIComponent(key)}&consistency=strong`);
    const letters = await Promise.all(COLOS.map((colo) => dead(key, colo)));
    return letters.reduce((sum, delta) => sum + delta, json.count);
  };
  assert.equal(await count("queued/a"), opened.queued + waiting("queued/a"));
  assert.equal(await count("queued/new"), waiting("queued/new"));
  for (const colo of ["SYD", "GRU"]) {
    await scene.call("POST", "/api/event", json({ key: "queued/new", increment: 3 }, { colo }));
  }
  assert.equal(await count("queued/new"), waiting("queued/new") + 6);
}

async function boards({ scene, ...opened }) {
  const { total } = opened.answerTo("/boards/race/members?limit=20");
  const { rank } = (await scene.call("POST", "/boards/race/members/new", json({ score: 1_000 }))).json;
  assert.equal(rank, 1);
  const top = (await scene.call("GET", "/boards/race/members?limit=20&consistency=strong", { colo: "IAD" })).json;
  assert.deepEqual(
    [top.total, top.entries[0].member, top.entries[1].member],
    [total + 1, "new", opened.answerTo("/boards/race/members?limit=20").entries[0].member],
  );
  await scene.call("POST", "/boards/race/members/m1", json({ hidden: false }));
  assert.equal((await scene.call("GET", "/boards/race/members")).json.total, total + 2);
  const before = opened.answerTo("/boards/spread/members/m7?consistency=strong").score;
  assert.equal(
    (await scene.call("POST", "/boards/spread/members/m7", json({ delta: 5 }, { colo: "SYD" }))).json.score, before + 5,
  );
  await scene.call("PUT", "/boards/spread", json({ keep: "sum", scores: "integer", shards: 1, home: "FRA" }));
  assert.equal((await scene.call("POST", "/boards/spread/members/m7", json({ delta: 1 }))).json.score, before + 6);
  await scene.call("POST", "/boards/laps/members/m0", json({ score: 1 }));
  assert.equal((await scene.call("GET", "/boards/laps/members")).json.entries[0].member, "m0");
  await scene.call("POST", "/boards/gone/members/ann", json({ score: 2 }));
  assert.equal((await scene.call("GET", "/boards/gone/members")).json.total, 1);
}

async function dialect({ scene }) {
  const ask = async (...command) => (await scene.call("POST", "/redis", json(command))).json.result;
  assert.equal(await ask("INCRBY", "redis:number", "3"), 45);
  assert.equal(await ask("HINCRBY", "redis:hash", "one", "4"), 5);
  assert.equal(await ask("SADD", "redis:set", "bob", "cyd"), 1);
  assert.equal(await ask("ZADD", "redis:sorted", "9", "cyd"), 1);
  assert.equal(await ask("ZREVRANK", "redis:sorted", "ann"), 2);
  assert.equal(await ask("PFADD", "redis:hll", "ann"), 0);
  assert.equal(await ask("INCR", "redis:ended"), 1);
  assert.equal(await ask("DEL", "redis:text"), 1);
  assert.equal(await ask("GET", "redis:text"), null);
}

async function breakdowns({ scene }) {
  const add = (value) => scene.add("site", { delta: 3, by: { referrer: value, country: "DE" } }, { colo: "IAD" });
  for (const value of ["from-1", "from-new"]) await add(value);
  const { rows } = (await scene.call("GET", "/counters/site/breakdown?consistency=strong&by=referrer&window=3600"))
    .json;
  for (const value of ["from-1", "from-new"]) {
    assert.equal(rows.find((row) => row.value === value).count >= 3, true, value);
  }
}

async function shares({ scene }) {
  // The one of the data has ended where the data is opened years later.
  await scene.call("POST", "/shares", json({ prefix: "blog/", name: "for Bob" }));
  for (const { id } of (await scene.call("GET", "/shares")).json.entries) await scene.call("DELETE", `/shares/${id}`);
  assert.deepEqual((await scene.call("GET", "/shares")).json.entries, []);
}

/** Writes to everything. recorded: JSON of reads by path. */
export async function writeAll(scene, recorded) {
  const opened = new Opened(scene, recorded);
  opened.queued = 12;
  const isThere = (part) => [...recorded.keys()].some((path) => path.includes(part));
  // What releases store since.
  const since = [
    ["/boards/", boards], ["/redis/", dialect], ["/breakdown", breakdowns],
  ]
    .filter(([part]) => isThere(part))
    .map(([, law]) => law);
  if (recorded.get("/shares")?.entries.length > 0) since.push(shares);
  for (const law of [...since, queue, keys, conditions, sums, elements, samples, homes, operations, limits]) {
    await law(opened);
  }
}

/**
 * What only holds soon after the recording: what was sent under a key is known, and today's visitors and used-up limits
 * are.
 */
export async function writeSoon(scene, recorded, kept, agrees) {
  const opened = new Opened(scene, recorded);
  for (const { method, path, colo, body, headers, status, answer } of kept) {
    const again = await scene.call(method, path, { colo, body, headers, status });
    assert.equal(replayed(again), "true", path);
    agrees(again.json, answer, path);
  }
  for (const id of ["keys", "home", "floor", "operations"]) await opened.grew(id, 0);
  if (opened.answerTo("/redis/GET/redis:orders") !== undefined) {
    const again = await scene.call("POST", "/redis", keyed("order", json(["INCR", "redis:orders"])));
    assert.equal(again.json.result, 1);
  }
  await opened.refused(409, "counter-ended", "POST", counter("ended", "/increment"), keyed("k", json({ delta: 5 })));
  await opened.refused(
    422, "idempotency-key-reused", "POST", counter("keys", "/increment"), keyed("k1", json({ delta: 6 })),
  );
  await scene.call("POST", "/events", {
    body: '{"id":"keys","delta":3,"idempotency_key":"line-1"}\n{"id":"keys","idempotency_key":"line-2"}',
  });
  await scene.call("POST", "/events", keyed("body", { body: '{"id":"keys","delta":30}' }));
  await scene.call("POST", "/api/event", keyed("event", json({ key: "keys", increment: 100 })));
  await opened.grew("keys", 0);
  const visit = (ip) => scene.add("visitors", { unique: "auto", ip, user_agent: BOT_FREE });
  await visit("203.0.113.9");
  assert.deepEqual(await opened.grew("visitors", 1), opened.recorded("visitors").uniques);
  await visit("203.0.113.11");
  assert.equal((await opened.grew("visitors", 2)).estimate, opened.recorded("visitors").uniques.estimate + 1);
  // 32 of 1,000 are used in all, and what was lent is not lent again.
  const { remaining } = (await scene.call("GET", "/limits/world/bob")).json;
  assert.ok(remaining <= 968, `${remaining} of the world's limit are left`);
  await scene.call("POST", "/limits/world/bob", json({ cost: 969 }, { status: 429, colo: "IAD" }));
  const own = { cost: 3, limit: 1_000, window_seconds: 2_592_000 };
  assert.equal((await scene.call("POST", "/limits/own/bob", json(own))).json.remaining, 990);
}
