// The queued path: 202 once an event is durable in an inbox, counted soon after, exactly once.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { isReplay, keyed, numbers } from "./calls.mjs";
import { event, post, send } from "./queueing.mjs";
import { TABLETS, each, openWorld, randomFrom, until } from "./world.mjs";

const SEED = 11;

const strong = async (world, key) =>
  (await world.well("GET", `/api/counter?key=${encodeURIComponent(key)}&consistency=strong`)).count;

describe("without faults", () => {
  let world;
  beforeEach(async () => {
    world = await openWorld({ edges: 2 });
  });
  afterEach(() => world.close());

  test("an event is acknowledged as queued, a strong read sees it at once, a default read soon", async () => {
    expect((await send(world, "a", 5)).json).toEqual({ status: "queued", key: "a", increment: 5 });
    expect(await world.strong("a")).toMatchObject({ value: 5, exact: true });
    expect(await strong(world, "a")).toBe(5);
    await send(world, "a", 2);
    await until(async () => (await world.well("GET", "/api/counter?key=a")).count === 7, "the count");
    const now = Math.floor(world.now() / 1_000);
    const { points } = await world.history("a", `&step=1m&from=${now - 120}&to=${now}`);
    expect(points.reduce((sum, [, count]) => sum + (count ?? 0), 0)).toBe(7);
  });

  test("a counter is exact again once its events are counted, also in what writes are answered", async () => {
    await send(world, "a", 5);
    const answer = await until(async () => {
      const read = await world.well("GET", "/counters/a");
      return read.exact && read;
    }, "an exact read");
    expect(answer.value).toBe(5);
    let value = 5;
    await until(async () => {
      value += 1;
      return (await world.add("a", { delta: 1 })).exact;
    }, "an exact answer");
    // The next event is known of before it is acknowledged.
    await send(world, "a", 7);
    expect(await world.strong("a")).toMatchObject({ value: value + 7, exact: true });
  });

  test("many events of many counters, from two isolates and three datacenters, are all in a strong read", async () => {
    const random = randomFrom(SEED);
    const expected = new Map();
    await each(numbers(400), 40, async (index) => {
      const key = `c${Math.floor(random() * 30)}`;
      const delta = 1 + Math.floor(random() * 9);
      await send(world, key, delta, { colo: ["FRA", "IAD", "SYD"][index % 3], edge: index % 2 });
      expected.set(key, (expected.get(key) ?? 0) + delta);
    });
    for (const [key, count] of expected) expect(await strong(world, key), key).toBe(count);
  });

  test("a strong read that follows each event counts it, also while objects are let go", async () => {
    for (const index of numbers(12)) {
      await send(world, "a", 1, { colo: index % 2 ? "FRA" : "IAD" });
      if (index % 3 === 0) await world.evict();
      expect(await strong(world, "a")).toBe(index + 1);
    }
  });

  test("what is let go before it is counted is counted later", async () => {
    await Promise.all(numbers(20).map((index) => send(world, `c${index % 4}`)));
    await world.evict();
    for (const key of ["c0", "c1", "c2", "c3"]) expect(await strong(world, key)).toBe(5);
  });

  test("an event with a key counts once, from any datacenter: a repeat is told so, and another amount is refused", async () => {
    const first = await post(world, "a", 3, keyed("k"));
    expect([first.status, first.headers.get("idempotency-replayed")]).toEqual([202, null]);
    for (const options of [{}, { edge: 1 }, { colo: "IAD" }]) {
      const again = await post(world, "a", 3, keyed("k", options));
      expect([again.status, again.json]).toEqual([202, first.json]);
      expect(again.headers.get("idempotency-replayed")).toBe("true");
    }
    await world.evict();
    for (const options of [{}, { colo: "SYD" }]) {
      await world.refused(422, "idempotency-key-reused", "POST", "/api/event", event("a", 4, keyed("k", options)));
    }
    await send(world, "a", 1, keyed("k2"));
    // The same text is another key on another counter, and on another call.
    await send(world, "b", 4, keyed("k"));
    await world.well("POST", "/counters/a/increment", { body: '{"delta":2}', headers: { "idempotency-key": "k" } });
    expect(await world.strong("a")).toMatchObject({ value: 6, exact: true });
    expect(await strong(world, "b")).toBe(4);
    expect((await world.well("GET", "/api/dead-letters")).entries).toEqual([]);
    await world.well("DELETE", "/counters/a");
    await world.refused(409, "counter-ended", "POST", "/api/event", event("a", 3, keyed("k")));
  });

  test("a deleted counter begins again at nothing, and events after it count in the new one", async () => {
    await send(world, "a", 5);
    expect(await strong(world, "a")).toBe(5);
    await world.well("DELETE", "/counters/a");
    await world.refused(404, "counter-not-found", "GET", "/api/counter?key=a&consistency=strong");
    await send(world, "a", 2);
    expect(await strong(world, "a")).toBe(2);
    await send(world, "a", 7, { colo: "IAD" });
    await world.well("DELETE", "/counters/a");
    await send(world, "a", 1);
    expect(await strong(world, "a")).toBe(1);
  });

  test("queued and direct writes of one counter add up", async () => {
    await world.add("a", { delta: 10 });
    await send(world, "a", 1);
    await world.subtract("a", { delta: 4 });
    expect(await world.strong("a")).toMatchObject({ value: 7, exact: true });
  });

  test("what is no event is refused, and nothing is counted", async () => {
    for (const [code, body] of [
      ["invalid-json", "{"],
      ["invalid-json", ""],
      ["invalid-body", "[]"],
      ["invalid-body", "{}"],
      ["invalid-body", '{"key":1}'],
      ["unknown-field", '{"key":"a","delta":1}'],
      ["invalid-delta", '{"key":"a","increment":0}'],
      ["invalid-delta", '{"key":"a","increment":-1}'],
      ["invalid-delta", '{"key":"a","increment":1.5}'],
      ["invalid-id", '{"key":""}'],
      ["invalid-id", `{"key":"${"x".repeat(513)}"}`],
    ]) {
      await world.refused(400, code, "POST", "/api/event", { body });
    }
    await world.refused(400, "invalid-idempotency-key", "POST", "/api/event", keyed('""', event("a", 1)));
    await world.refused(405, "method-not-allowed", "GET", "/api/event");
    await world.refused(400, "invalid-query", "GET", "/api/counter");
    await world.refused(404, "counter-not-found", "GET", "/api/counter?key=a");
    expect((await send(world, "b", undefined)).json).toMatchObject({ increment: 1 });
  });
});

test("each call needs its scope", async () => {
  const keys = [
    { name: "w", key: "writer-0123456789abcdef", scopes: ["write"], prefix: "own/" },
    { name: "r", key: "reader-0123456789abcdef", scopes: ["read"], prefix: "own/" },
    { name: "a", key: "admin-0123456789abcdef", scopes: ["admin"] },
  ];
  const world = await openWorld({ vars: { TALLY_ACCESS: undefined, TALLY_KEYS: JSON.stringify({ keys }) } });
  const as = (name, options = {}) => ({ ...options, headers: { authorization: `Bearer ${name}-0123456789abcdef` } });
  expect((await world.call("POST", "/api/event", as("writer", event("own/a", 1)))).status).toBe(202);
  await world.refused(403, "forbidden", "POST", "/api/event", as("writer", event("other", 1)));
  await world.refused(403, "forbidden", "POST", "/api/event", as("reader", event("own/a", 1)));
  await world.refused(401, "unauthorized", "POST", "/api/event", event("own/a", 1));
  await world.refused(403, "forbidden", "GET", "/api/counter?key=own/a", as("writer"));
  expect((await world.well("GET", "/api/counter?key=own/a&consistency=strong", as("reader"))).count).toBe(1);
  await world.refused(403, "forbidden", "GET", "/api/dead-letters", as("reader"));
  expect(await world.well("GET", "/api/dead-letters", as("admin"))).toEqual({ entries: [], cursor: null, dropped: 0 });
  await world.close();
});

test("lost calls and lost answers lose nothing and double nothing", async () => {
  const world = await openWorld({ faults: true, edges: 2 });
  const random = randomFrom(SEED);
  world.fail(({ path }) => {
    if (!["/append", "/count", "/claim", "/register-inbox"].includes(path)) return undefined;
    const drawn = random();
    return drawn < 0.15 ? "before" : drawn < 0.3 ? "after" : undefined;
  });
  const low = new Map();
  const high = new Map();
  const bump = (map, key, delta) => map.set(key, (map.get(key) ?? 0) + delta);
  await each(numbers(200), 20, async (index) => {
    const key = `c${index % 6}`;
    const delta = 1 + (index % 5);
    const options = { colo: ["FRA", "IAD"][index % 2], edge: index % 2 };
    const withKey = index % 4 === 0;
    for (let attempt = 0; ; attempt += 1) {
      const sent = withKey ? keyed(`k${index}`, options) : options;
      const answer = await post(world, key, delta, sent);
      if (answer.status === 202) {
        bump(low, key, delta);
        bump(high, key, delta);
        return;
      }
      expect([answer.status, answer.json.code]).toEqual([503, "unavailable"]);
      // Unknown: without a key it may count beside the retry.
      if (!withKey) bump(high, key, delta);
      expect(attempt).toBeLessThan(30);
    }
  });
  world.mend();
  for (const key of low.keys()) {
    await until(async () => (await world.strong(key)).exact, `an exact read of ${key}`);
    const { value } = await world.strong(key);
    expect(value, key).toBeGreaterThanOrEqual(low.get(key));
    expect(value, key).toBeLessThanOrEqual(high.get(key));
  }
  expect((await world.well("GET", "/api/dead-letters")).entries).toEqual([]);
  await world.close();
}, 60_000);

test("an event whose key cannot be looked at is queued under it: it counts once, and its misuse is a dead letter", async () => {
  const world = await openWorld({ faults: true });
  await send(world, "a", 3, keyed("k"));
  let counted = 0;
  world.fail(({ path }) => {
    if (path === "/claim") return "before";
    // A second event is counted, and nobody hears of it.
    if (path === "/count") return (counted += 1) === 1 ? "after" : "before";
  });
  const again = await post(world, "a", 3, keyed("k"));
  expect([again.status, again.headers.get("idempotency-replayed")]).toEqual([202, null]);
  await send(world, "a", 5, keyed("k"));
  await send(world, "a", 7, keyed("k2"));
  await send(world, "a", 7, keyed("k2", { colo: "IAD" }));
  world.mend();
  await until(async () => (await world.strong("a")).exact, "an exact read");
  expect(await world.strong("a")).toMatchObject({ value: 10, exact: true });
  const { entries: dead_letters } = await world.well("GET", "/api/dead-letters");
  expect(dead_letters).toMatchObject([{ id: "a", delta: 5, code: "idempotency-key-reused" }]);
  // What takes long to look up is taken without.
  const isReplayed = async () =>
    isReplay(await post(world, "a", 7, keyed("k2")));
  await until(isReplayed, "a replay");
  await world.close();
}, 60_000);

test("a strong read says that it is not exact while a lead cannot be reached or an inbox does not answer", async () => {
  const world = await openWorld({ faults: true });
  await send(world, "a", 3);
  expect(await world.strong("a")).toMatchObject({ value: 3, exact: true });
  world.fail(({ path }) => (path === "/count" ? "before" : undefined));
  await send(world, "a", 4);
  await send(world, "b", 2);
  expect(await world.strong("a")).toMatchObject({ value: 3, exact: false });
  world.fail(({ path }) => (path === "/drain" ? "before" : undefined));
  expect(await world.strong("a")).toMatchObject({ exact: false });
  world.mend();
  expect(await world.strong("a")).toMatchObject({ value: 7, exact: true });
  expect(await world.strong("b")).toMatchObject({ value: 2, exact: true });
  await world.close();
}, 60_000);

test.skipIf(TABLETS)("what a runtime was ended with is counted by the next, without anybody asking for it", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tally-queue-"));
  const first = await openWorld({ faults: true, folder });
  await send(first, "a", 1);
  expect(await strong(first, "a")).toBe(1);
  // Counted, but the inbox does not hear of it; and not counted.
  first.fail(({ path, name }) => (path === "/count" ? (name.endsWith("/a") ? "after" : "before") : undefined));
  await send(first, "a", 2);
  await send(first, "b", 4);
  expect(await first.strong("a")).toMatchObject({ value: 3, exact: false });
  await first.close();
  const second = await openWorld({ folder });
  await until(async () => (await second.well("GET", "/api/counter?key=b")).count === 4, "the count");
  expect(await second.strong("a")).toMatchObject({ value: 3, exact: true });
  expect((await second.well("GET", "/api/dead-letters")).entries).toEqual([]);
  await second.close();
  rmSync(folder, { recursive: true });
}, 60_000);
