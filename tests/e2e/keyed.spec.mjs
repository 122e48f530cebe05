// Keyed writes: `Idempotency-Key` on writes and batches, `id` on events. A retry counts once and gets the first answer.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { isReplay, keyed, numbers } from "./calls.mjs";
import { each, openWorld, randomFrom, until } from "./world.mjs";

const SEED = 4;
const increment = (id) => `/counters/${encodeURIComponent(id)}/increment`;

describe("without faults", () => {
  let world;
  beforeEach(async () => {
    world = await openWorld({ edges: 2 });
  });
  afterEach(() => world.close());

  const add = (id, key, delta, options = {}) =>
    world.call("POST", increment(id), keyed(key, { body: JSON.stringify({ delta }), ...options }));

  test("a retry counts nothing and gets the first answer to the byte, also after other writes", async () => {
    const first = await add("a", "k1", 5);
    expect(first.json).toMatchObject({ id: "a", delta: 5, value: 5, exact: true, status: "ok", datacenter: "FRA" });
    expect(isReplay(first)).toBe(false);
    await world.add("a", { delta: 10 });
    for (const options of [{}, { colo: "IAD" }, { edge: 1 }]) {
      const again = await add("a", "k1", 5, options);
      expect(again.text).toBe(first.text);
      expect(isReplay(again)).toBe(true);
    }
    const other = await add("a", "k2", 5);
    expect(other.json.value).toBe(20);
    const answer = await world.strong("a");
    expect(answer).toMatchObject({ value: 20, exact: true });
    expect(answer.datacenters.map(({ id }) => id), "a retry makes no datacenter appear").toEqual(["FRA"]);
  });

  test("a key belongs to its counter, to its call and to what it asked for", async () => {
    await add("a", "k", 5);
    await add("b", "k", 5);
    await world.refused(422, "idempotency-key-reused", "POST", increment("a"), keyed("k", { body: '{"delta":6}' }));
    await world.refused(
      422, "idempotency-key-reused", "POST", increment("a"), keyed("k", { body: '{"delta":5,"unique":"u"}' }),
    );
    await world.refused(
      422, "idempotency-key-reused", "POST", "/counters/a/decrement", keyed("k", { body: '{"delta":5}' }),
    );
    await world.well("POST", "/events", keyed("k", { body: '{"id":"a","delta":2}\n' }));
    expect(await world.strong("a")).toMatchObject({ value: 7, uniques: null });
    expect((await world.strong("b")).value).toBe(5);
  });

  test("keys that are none are refused, and nothing is counted", async () => {
    for (const key of ["x".repeat(256), "a\tb", '""']) {
      await world.refused(400, "invalid-idempotency-key", "POST", increment("a"), keyed(key));
    }
    expect((await add("a", "x".repeat(255), 1)).status).toBe(200);
    expect((await add("a", '"quoted"', 1)).status).toBe(200);
    expect(isReplay(await add("a", "quoted", 1))).toBe(true);
    expect((await world.strong("a")).value).toBe(2);
  });

  test("many at once with the same key count once, and all get the same answer", async () => {
    const answers = await Promise.all(
      numbers(40).map((index) => add("a", "same", 3, { colo: ["FRA", "IAD", "SYD"][index % 3], edge: index % 2 })),
    );
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(answers.filter((answer) => !isReplay(answer)).length).toBe(1);
    expect((await world.strong("a")).value).toBe(3);
  });

  test("a key is found after a split, from a restarted object, and from another datacenter", async () => {
    const first = await add("a", "k", 2);
    await world.put("a", { shards: 8 });
    await each(numbers(40), 8, (index) => world.add("a", { unique: `u${index}` }));
    const second = await add("a", "k2", 2);
    expect(second.json).toMatchObject({ exact: false });
    expect(second.json.value).toBeGreaterThanOrEqual(4);
    await world.put("a", { shards: 1 });
    await world.evict();
    expect((await add("a", "k", 2, { colo: "SYD" })).text).toBe(first.text);
    expect((await add("a", "k2", 2, { colo: "SYD" })).text).toBe(second.text);
    expect(await world.strong("a")).toMatchObject({ value: 44, exact: true });
  });

  test("a key whose counter was deleted counts nothing in the new one", async () => {
    await add("a", "k", 2);
    await world.well("DELETE", "/counters/a");
    await world.refused(409, "counter-ended", "POST", increment("a"), keyed("k", { body: '{"delta":2}' }));
    await world.refused(404, "counter-not-found", "GET", "/counters/a");
    await world.add("a", { delta: 1 });
    await world.refused(409, "counter-ended", "POST", increment("a"), keyed("k", { body: '{"delta":2}', colo: "IAD" }));
    expect((await world.strong("a")).value).toBe(1);
  });

  test("elements of keyed writes count, once", async () => {
    const body = JSON.stringify({ delta: 1, unique: "visitor" });
    await world.well("POST", increment("a"), keyed("k", { body }));
    await world.well("POST", increment("a"), keyed("k", { body }));
    expect(await world.strong("a")).toMatchObject({ value: 1, uniques: { estimate: 1 } });
  });

  test("decrements and history know keyed writes", async () => {
    await add("a", "k", 9);
    const down = () => world.call("POST", "/counters/a/decrement", keyed("d", { body: '{"delta":4}' }));
    const [first, again] = [await down(), await down()];
    expect(again.text).toBe(first.text);
    expect(first.json.value).toBe(5);
    const now = Math.floor(world.now() / 1_000);
    const { points } = await world.history("a", `&step=1m&from=${now - 120}&to=${now}`);
    expect(points.reduce((sum, [, count]) => sum + (count ?? 0), 0)).toBe(9);
  });

  test("a batch with a key counts once, per counter, and a changed body is refused", async () => {
    const lines = numbers(300).map((index) => JSON.stringify({ id: `c${index % 20}`, delta: 2 }));
    const send = (options) => world.call("POST", "/events", keyed("batch", { body: lines.join("\n"), ...options }));
    expect((await send()).json).toMatchObject({ accepted: 300, rejected: 0 });
    const again = await send({ colo: "IAD" });
    expect(again.json).toMatchObject({ accepted: 300, rejected: 0 });
    expect(isReplay(again)).toBe(true);
    for (const index of [0, 7, 19]) expect((await world.strong(`c${index}`)).value).toBe(30);
    const one = keyed("batch", { body: `${lines[0]}\n` });
    const { json } = await world.refused(422, "idempotency-key-reused", "POST", "/events", one);
    expect(json).toMatchObject({ accepted: 0, rejected: 1, errors: [{ line: 1, code: "idempotency-key-reused" }] });
  });

  test("a batch asks for something else under another call or another query", async () => {
    const body = '{"id":"a","unique":"u"}\n';
    const reused = [422, "idempotency-key-reused", "POST"];
    await world.well("POST", "/ingest?format=ndjson", keyed("batch", { body }));
    const named = await world.call("POST", "/ingest?format=ndjson&id=path&unique=none", keyed("batch", { body }));
    expect([named.json.accepted, isReplay(named)]).toEqual([1, true]);
    await world.refused(...reused, "/ingest?format=ndjson&unique=ip", keyed("batch", { body }));
    await world.refused(...reused, "/events", keyed("batch", { body }));
    expect((await world.strong("a")).value).toBe(1);
  });

  test("a retry that comes late with its own time gets the first answer, and what was never counted is refused", async () => {
    const at_ms = world.now() - 500;
    const at = new Date(at_ms).toISOString();
    const write = { body: JSON.stringify({ delta: 5, at }) };
    const events = { body: JSON.stringify({ id: "b", at, idempotency_key: "1" }) };
    const first = await world.call("POST", increment("a"), keyed("k", write));
    expect(first.status).toBe(200);
    expect(await world.well("POST", "/events", events)).toMatchObject({ accepted: 1 });
    await until(() => world.now() - at_ms > 5_100, "the times to be out of range");
    for (const options of [{}, { colo: "IAD" }]) {
      const again = await world.call("POST", increment("a"), keyed("k", { ...write, ...options }));
      expect([again.text, isReplay(again)]).toEqual([first.text, true]);
      expect(await world.well("POST", "/events", { ...events, ...options })).toMatchObject({
        accepted: 1, rejected: 0,
      });
    }
    const body = JSON.stringify({ delta: 6, at });
    await world.refused(422, "idempotency-key-reused", "POST", increment("a"), keyed("k", { body }));
    await world.refused(400, "clock-skew", "POST", increment("a"), keyed("new", write));
    await world.refused(400, "clock-skew", "POST", increment("nobody"), keyed("k", { ...write, colo: "SYD" }));
    const late = ["b", "nobody"].map((key) => JSON.stringify({ id: key, at, idempotency_key: "2" })).join("\n");
    const refused = await world.refused(400, "clock-skew", "POST", "/events", { body: late, colo: "SYD" });
    expect(refused.json).toMatchObject({
      accepted: 0,
      rejected: 2,
      errors: [{ code: "clock-skew" }, { code: "clock-skew" }],
    });
    await world.refused(404, "counter-not-found", "GET", "/counters/nobody");
    const answer = await world.strong("a");
    expect([answer.value, answer.datacenters.map(({ id }) => id)]).toEqual([5, ["FRA"]]);
    expect((await world.strong("b")).value).toBe(1);
    // A key that was only looked for is nobody's.
    expect((await add("a", "new", 1, { colo: "IAD" })).status).toBe(200);
  });

  test("the element of a line counts if the line does, and not if its key was used for another", async () => {
    const event = (id, increment, unique) => JSON.stringify({ id: "a", delta: increment, idempotency_key: id, unique });
    await world.well("POST", "/events", { body: event("1", 1, "u") });
    const body = [event("1", 1, "u"), event("1", 2, "v"), event("2", 1, "w"), event("1", 1, "x")].join("\n");
    expect(await world.well("POST", "/events", { body })).toMatchObject({
      accepted: 2,
      rejected: 2,
      errors: [{ line: 2 }, { line: 4 }],
    });
    expect(await world.strong("a")).toMatchObject({ value: 2, uniques: { estimate: 2 } });
  });

  test("events with ids count once each, within a body and over bodies", async () => {
    const event = (id, increment = 1, key = "a") => JSON.stringify({ id: key, delta: increment, idempotency_key: id });
    const body = [event("1"), event("2"), event("1"), event("1", 1, "b"), JSON.stringify({ id: "a" })].join("\n");
    expect(await world.well("POST", "/events", { body })).toMatchObject({ accepted: 5, rejected: 0 });
    expect(await world.well("POST", "/events", { body: `${event("2")}\n${event("3")}`, colo: "IAD" })).toMatchObject({
      accepted: 2,
    });
    await world.refused(422, "idempotency-key-reused", "POST", "/events", { body: event("3", 8) });
    expect((await world.strong("a")).value).toBe(4);
    expect((await world.strong("b")).value).toBe(1);
  });
});

test("keys are let go after the time that is set, not before", async () => {
  // A minute is the shortest that may be set: this only shows that a key outlives its first seconds.
  const world = await openWorld({ vars: { TALLY_IDEMPOTENCY_SECONDS: "60", TALLY_IDEMPOTENCY: "datacenter" } });
  await world.well("POST", increment("a"), keyed("k"));
  await world.evict();
  expect(isReplay(await world.call("POST", increment("a"), keyed("k")))).toBe(true);
  await world.close();
});

test("retries through lost calls and lost answers, from any datacenter, count each key once", async () => {
  const world = await openWorld({ faults: true, edges: 2 });
  const random = randomFrom(SEED);
  world.fail(({ path }) => {
    if (!["/claim", "/count", "/register"].includes(path)) return undefined;
    const drawn = random();
    return drawn < 0.15 ? "before" : drawn < 0.35 ? "after" : undefined;
  });
  const writes = numbers(120).map((index) => ({ id: `c${index % 5}`, key: `k${index}`, delta: 1 + (index % 7) }));
  await each(writes, 12, async ({ id, key, delta }) => {
    for (let attempt = 0; ; attempt += 1) {
      const options = {
        body: JSON.stringify({ delta }), colo: ["FRA", "IAD", "SYD"][Math.floor(random() * 3)], edge: attempt % 2,
      };
      const answer = await world.call("POST", increment(id), keyed(key, options));
      if (answer.status === 200) return;
      expect([answer.status, answer.json.code]).toEqual([503, "unavailable"]);
      expect(attempt, `${key} is never acknowledged`).toBeLessThan(40);
    }
  });
  world.mend();
  for (const id of ["c0", "c1", "c2", "c3", "c4"]) {
    const expected = writes.filter((write) => write.id === id).reduce((sum, { delta }) => sum + delta, 0);
    expect((await world.strong(id)).value, id).toBe(expected);
  }
  await world.close();
});
