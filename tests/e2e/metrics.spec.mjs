// Numbers move exactly with what was done, and answers say where their time went.
import { afterEach, expect, test } from "vitest";
import { numbers } from "./calls.mjs";
import { each, openWorld, until } from "./world.mjs";

const ADMIN = "admin-key-0123456789";
const SHOP = "https://shop.example";
const CONFIG = {
  keys: [
    { name: "ops", key: ADMIN, scopes: ["admin"] },
    { name: "blog", key: "blog-key-0123456789ab", scopes: ["admin"], prefix: "blog/" },
    { name: "dashboard", key: "reader-key-0123456789", scopes: ["read", "write"] },
  ],
  public: [{ prefix: "", origins: [SHOP], scopes: ["read"] }],
};
const INCREMENT = "/counters/a/increment";
const CODES = "tally_refused_total";
const LINES = "tally_rejected_lines_total";
const COUNT = "tally_request_duration_seconds_count";

let world;
afterEach(() => world.close());

async function scrape(options) {
  const { status, headers, text } = await world.call("GET", "/metrics", options);
  expect(status, text).toBe(200);
  expect(headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  // The native server has metrics of its own: tests/server.
  const samples = text.split("\n").filter((line) => line !== "" && !/^#|^tally_server_/.test(line));
  return Object.fromEntries(
    samples.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ")))]),
  );
}

// A lead that was quiet for 3 s pushes by itself. The server's time passes, also while a busy machine does nothing.
const MAY_MOVE = process.env.PLATFORM === "server" ? /^tally_push/ : /(?!)/;

/** What a piece of work moves, without latencies in detail and moments. */
async function moved(work, options) {
  const before = await scrape(options);
  await work();
  const after = await scrape(options);
  const isShown = (name) =>
    !/^tally_fleet_|_bucket|_duration_seconds_sum|_start_time_/.test(name) && !MAY_MOVE.test(name) &&
    !name.includes('route="metrics"');
  const names = Object.keys({ ...before, ...after }).filter(isShown);
  const steps = names.map((name) => [name, (after[name] ?? 0) - (before[name] ?? 0)]);
  return Object.fromEntries(steps.filter(([, step]) => step !== 0));
}

const FLUSHED = {
  'tally_flushes_total{outcome="counted"}': 1,
  tally_flush_writes_count: 1,
  tally_flush_writes_sum: 1,
  'tally_commits_total{outcome="written"}': 1,
  tally_commit_flushes_count: 1,
  tally_commit_flushes_sum: 1,
};
const times = (n, steps) => Object.fromEntries(Object.entries(steps).map(([name, step]) => [name, n * step]));

test("one write after the other is one flush and one commit each", async () => {
  world = await openWorld();
  const writes = async () => {
    for (let round = 0; round < 5; round++) await world.add("a", { delta: 10 });
    for (let round = 0; round < 2; round++) await world.subtract("a");
  };
  expect(await moved(writes)).toEqual({
    'tally_acknowledged_total{operation="increment"}': 5,
    'tally_acknowledged_total{operation="decrement"}': 2,
    ...times(7, FLUSHED),
    [`${COUNT}{route="increment"}`]: 5,
    [`${COUNT}{route="decrement"}`]: 2,
  });
});

test("writes that come together are all counted, however they join", async () => {
  world = await openWorld();
  const n = 60;
  const steps = await moved(() => each(Array.from({ length: n }), n, () => world.add("a")));
  expect(steps).toMatchObject({
    'tally_acknowledged_total{operation="increment"}': n,
    tally_flush_writes_sum: n,
    [`${COUNT}{route="increment"}`]: n,
  });
  expect(steps.tally_flush_writes_count).toBe(steps['tally_flushes_total{outcome="counted"}']);
  expect(steps.tally_flush_writes_count).toBeLessThanOrEqual(n);
  expect(steps.tally_commit_flushes_sum).toBe(steps.tally_flush_writes_count);
  expect((await world.strong("a")).value).toBe(n);
});

test("a refusal is counted by its code, a skewed time besides", async () => {
  world = await openWorld();
  const refusals = async () => {
    await world.refused(400, "invalid-json", "POST", INCREMENT, { body: "{" });
    await world.refused(400, "invalid-delta", "POST", INCREMENT, { body: '{"delta":0}' });
    await world.refused(400, "clock-skew", "POST", INCREMENT, { body: '{"at":1000}' });
    await world.refused(404, "not-found", "GET", "/nowhere/at/all");
    await world.refused(405, "method-not-allowed", "POST", "/counters");
    await world.refused(404, "counter-not-found", "GET", "/counters/unknown");
  };
  expect(await moved(refusals)).toEqual({
    [`${CODES}{code="invalid-json"}`]: 1,
    [`${CODES}{code="invalid-delta"}`]: 1,
    [`${CODES}{code="clock-skew"}`]: 1,
    [`${CODES}{code="not-found"}`]: 1,
    [`${CODES}{code="method-not-allowed"}`]: 1,
    [`${CODES}{code="counter-not-found"}`]: 1,
    tally_clock_skew_total: 1,
    tally_read_cache_misses_total: 1,
    [`${COUNT}{route="increment"}`]: 3,
    [`${COUNT}{route="read"}`]: 1,
    [`${COUNT}{route="other"}`]: 2,
  });
});

test("lines of a body are counted one by one, and join in a flush", async () => {
  world = await openWorld();
  const lines = ['{"id":"a"}', '{"id":"a","delta":4}', "bad", '{"id":"a","at":1000}', '{"id":"a","at":2000}'];
  const body = async () => {
    expect(await world.well("POST", "/events", { body: lines.join("\n") })).toMatchObject({ accepted: 2, rejected: 3 });
  };
  expect(await moved(body)).toEqual({
    'tally_acknowledged_total{operation="event"}': 2,
    [`${LINES}{code="invalid-json"}`]: 1,
    [`${LINES}{code="clock-skew"}`]: 2,
    tally_clock_skew_total: 2,
    ...FLUSHED,
    // At the end of the body the edge reports for the lead, which pushes nothing itself.
    [`${COUNT}{route="events"}`]: 1,
  });
  const log = '1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET /x HTTP/1.1" 200 1 "-" "-"\n'.repeat(3);
  const steps = await moved(() => world.well("POST", "/ingest?format=clf&id=path", { body: log }));
  expect(steps).toMatchObject({ 'tally_acknowledged_total{operation="ingest"}': 3, [`${COUNT}{route="ingest"}`]: 1 });
});

test("a default read is a hit or a miss, a strong one neither", async () => {
  world = await openWorld();
  await world.add("a");
  const reads = async () => {
    for (let round = 0; round < 9; round++) await world.read("a");
    for (let round = 0; round < 3; round++) await world.strong("a");
  };
  const steps = await moved(reads);
  expect(steps[`${COUNT}{route="read"}`]).toBe(12);
  expect(steps.tally_read_cache_hits_total + steps.tally_read_cache_misses_total).toBe(9);
  expect(steps.tally_read_cache_misses_total).toBeGreaterThanOrEqual(1);
  expect(steps.tally_read_cache_hits_total).toBeGreaterThanOrEqual(1);
});

test("settings, deletions and the rest have their routes", async () => {
  world = await openWorld();
  const calls = async () => {
    await world.put("a", { shards: 1 });
    await world.history("a", "");
    await world.well("GET", "/counters");
    await world.well("GET", "/counters/*/aggregate");
    await world.well("GET", "/uniques?id=a");
    await world.well("DELETE", "/counters/a");
    await world.well("GET", "/healthz");
    await world.well("GET", "/openapi.json");
    await world.call("OPTIONS", INCREMENT);
  };
  const steps = await moved(calls);
  for (const route of ["put", "history", "list", "aggregate", "uniques", "delete", "healthz", "openapi", "options"]) {
    expect(steps[`${COUNT}{route="${route}"}`], route).toBe(1);
  }
  expect(steps).toMatchObject({
    'tally_acknowledged_total{operation="put"}': 1,
    'tally_acknowledged_total{operation="delete"}': 1,
  });
});

test("buckets are cumulative and their last is every request", async () => {
  world = await openWorld();
  for (let round = 0; round < 10; round++) await world.add(`counter ${round}`);
  const samples = Object.entries(await scrape());
  const buckets = samples
    .filter(([name]) => !name.startsWith("tally_fleet_") && name.includes('_bucket{route="increment"'))
    .map(([, count]) => count);
  expect(buckets).toHaveLength(13);
  expect(buckets).toEqual(buckets.toSorted((one, other) => one - other));
  expect(buckets.at(-1)).toBe(10);
  expect(samples.some(([name]) => name.includes("counter 1"))).toBe(false);
});

test("splits and seals of cells are seen", async () => {
  world = await openWorld({ vars: { TALLY_SPLIT_FLUSHES_PER_SECOND: "10", TALLY_MERGE_AFTER_MS: "1000" } });
  await world.put("fixed", { shards: 4 });
  // 100 elements miss one of four shards once in 10^12 times.
  await each(numbers(100), 8, (index) => world.add("fixed", { unique: `u${index}` }));
  await world.put("fixed", { shards: 1 });
  const seals = await until(async () => {
    // The lead seals at its next flush; the first may go to another shard.
    await world.add("fixed");
    const { tally_shard_seals_total: seen } = await scrape();
    return seen >= 3 && seen;
  }, "three seals");
  expect(seals).toBe(3);

  await until(async () => {
    await each(Array.from({ length: 20 }), 4, () => world.add("hot"));
    return (await scrape()).tally_shard_splits_total > 0;
  }, "a split");
});

test("what a cell did not confirm is unknown, and was tried again", async () => {
  world = await openWorld({ faults: true });
  await world.add("a");
  let lost = 0;
  world.fail(({ kind, path }) => (kind === "cell" && path === "/flush" && lost++ === 0 ? "after" : undefined));
  const steps = await moved(() => world.add("a"));
  // The cell counted it at the first attempt and knew it at the second.
  expect(steps).toEqual({
    'tally_acknowledged_total{operation="increment"}': 1,
    'tally_retries_total{outcome="counted"}': 1,
    ...FLUSHED,
    [`${COUNT}{route="increment"}`]: 1,
  });
  world.fail(({ kind }) => (kind === "cell" ? "before" : undefined));
  expect(await moved(() => world.refused(503, "unavailable", "POST", INCREMENT))).toEqual({
    [`${CODES}{code="unavailable"}`]: 1,
    'tally_retries_total{outcome="unknown"}': 1,
    'tally_flushes_total{outcome="unknown"}': 1,
    tally_flush_writes_count: 1,
    tally_flush_writes_sum: 1,
    [`${COUNT}{route="increment"}`]: 1,
  });
});

test("without the aggregator its part is left out", async () => {
  world = await openWorld({ faults: true });
  await world.add("a");
  const whole = await scrape();
  expect(whole).toMatchObject({ tally_aggregator_up: 1, tally_commit_flushes_sum: 1 });
  world.fail(({ kind }) => (kind === "aggregator" ? "before" : undefined));
  const part = await scrape();
  expect(part).toMatchObject({ tally_aggregator_up: 0, 'tally_acknowledged_total{operation="increment"}': 1 });
  expect(part).not.toHaveProperty("tally_commit_flushes_sum");
  world.mend();
  expect(await scrape()).toMatchObject({ tally_aggregator_up: 1, tally_commit_flushes_sum: 1 });
});

test("where keys are set, only one for everything may read them", async () => {
  world = await openWorld({ vars: { TALLY_KEYS: JSON.stringify(CONFIG) } });
  const bearer = (key) => ({ headers: { authorization: `Bearer ${key}` } });
  await world.refused(401, "unauthorized", "GET", "/metrics");
  await world.refused(401, "unauthorized", "GET", "/metrics", { headers: { origin: SHOP } });
  await world.refused(403, "forbidden", "GET", "/metrics", bearer("reader-key-0123456789"));
  await world.refused(403, "forbidden", "GET", "/metrics", bearer("blog-key-0123456789ab"));
  const counts = await scrape(bearer(ADMIN));
  expect([counts[`${CODES}{code="unauthorized"}`], counts[`${CODES}{code="forbidden"}`]]).toEqual([2, 2]);
  expect(counts[`${COUNT}{route="metrics"}`]).toBe(4);
  // Prometheus adds what a job names under `params`.
  expect((await world.call("GET", "/metrics?collect[]=x&collect[]=y", bearer(ADMIN))).status).toBe(200);
});

test("where nothing is configured they are closed too", async () => {
  world = await openWorld({ vars: { TALLY_ACCESS: undefined } });
  await world.refused(503, "not-configured", "GET", "/metrics");
});

const TIMING = /^total;dur=(\d+)(?:, cell;dur=(\d+))?$/;

test("no answer claims more time than it took", async () => {
  world = await openWorld();
  for (const [method, path] of [
    ["POST", INCREMENT],
    ["POST", INCREMENT],
    ["GET", "/counters/a"],
    ["HEAD", "/counters/a"],
    ["GET", "/counters/a?consistency=strong"],
    ["GET", "/counters/unknown"],
    ["GET", "/metrics"],
    ["GET", "/healthz"],
    ["OPTIONS", INCREMENT],
  ]) {
    const began_ms = world.now();
    const { headers } = await world.call(method, path);
    const took_ms = world.now() - began_ms;
    // What took less than a millisecond says nothing.
    const [, total, cell = "0"] = (headers.get("server-timing") ?? "total;dur=0").match(TIMING);
    expect(Number(total), `${method} ${path}`).toBeLessThanOrEqual(took_ms + 2);
    expect(Number(cell)).toBeLessThanOrEqual(Number(total));
  }
});

test("time that was waited for a cell is told as such, and to pages that may see the answer", async () => {
  world = await openWorld({ vars: { TALLY_KEYS: JSON.stringify(CONFIG) }, faults: true });
  world.fail(({ kind }) => (kind === "cell" ? "hang" : undefined));
  const ask = async (origin) => {
    const headers = { authorization: `Bearer ${ADMIN}`, ...(origin && { origin }) };
    const answer = await world.refused(503, "unavailable", "POST", INCREMENT, { headers });
    const [, total, cell] = answer.headers.get("server-timing").match(TIMING);
    expect(Number(cell)).toBeGreaterThan(4_000);
    expect(Number(total)).toBeGreaterThanOrEqual(Number(cell));
    return ["timing-allow-origin", "access-control-expose-headers"].map((name) => answer.headers.get(name));
  };
  const [none, shop, evil] = await Promise.all([ask(), ask(SHOP), ask("https://evil.example")]);
  expect(shop).toEqual([SHOP, expect.stringContaining("server-timing")]);
  expect([none, evil]).toEqual([[null, null], [null, null]]);
});

test("a replay is counted as one, and not as acknowledged again", async () => {
  world = await openWorld();
  const headers = { "idempotency-key": "an-order-17" };
  const once = await moved(() => world.add("a", { delta: 3 }, { headers }));
  expect(once).toMatchObject({
    'tally_acknowledged_total{operation="increment"}': 1, [`${COUNT}{route="increment"}`]: 1,
  });
  expect(once).not.toHaveProperty("tally_replayed_total");
  const again = async () => {
    for (let round = 0; round < 3; round++) await world.add("a", { delta: 3 }, { headers });
  };
  expect(await moved(again)).toEqual({ tally_replayed_total: 3, [`${COUNT}{route="increment"}`]: 3 });
  const body = () => world.well("POST", "/events", { body: '{"id":"b"}\n{"id":"c"}\nbad', headers });
  expect(await moved(body)).toMatchObject({
    'tally_acknowledged_total{operation="event"}': 2, [`${LINES}{code="invalid-json"}`]: 1,
  });
  expect(await moved(body)).toMatchObject({ tally_replayed_total: 2, [`${LINES}{code="invalid-json"}`]: 1 });
  await world.refused(422, "idempotency-key-reused", "POST", INCREMENT, { body: '{"delta":4}', headers });
});
