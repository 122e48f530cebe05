// The queued path of a deployment that binds a queue of the platform: 202 once the queue has accepted an event.
import { afterEach, describe, expect, test } from "vitest";
import { keyed, numbers } from "./calls.mjs";
import { QUEUE, letters, post, reaches, send, valueOf } from "./queueing.mjs";
import { TABLETS, each, openWorld, randomFrom, until } from "./world.mjs";

const SEED = 12;

describe("a queue", () => {
  let world;
  afterEach(() => world.close());

  test("takes events of isolates and datacenters, and each is counted where it was accepted", async () => {
    world = await openWorld({ queue: QUEUE, edges: 2 });
    const random = randomFrom(SEED);
    const expected = new Map();
    await each(numbers(300), 40, async (index) => {
      const key = `c${Math.floor(random() * 20)}`;
      const delta = 1 + Math.floor(random() * 9);
      const answer = await send(world, key, delta, { colo: ["FRA", "IAD", "SYD"][index % 3], edge: index % 2 });
      expect(answer.json).toEqual({ status: "queued", key, increment: delta });
      expected.set(key, (expected.get(key) ?? 0) + delta);
    });
    for (const [key, count] of expected) await reaches(world, key, count);
    const { datacenters } = await world.strong("c0");
    expect(datacenters.map(({ id }) => id)).toEqual(["FRA", "IAD", "SYD"]);
    expect(await world.objects("Inbox"), "no inbox was needed").toEqual([]);
    expect(await letters(world)).toEqual([]);
    const batches = await world.metric("tally_queue_lag_seconds_count");
    expect(batches).toBeGreaterThan(0);
  });

  test("cannot be asked: no read of the counter is exact while it may hold events, and soon after they are counted each is", async () => {
    world = await openWorld({ queue: QUEUE, edges: 2 });
    await world.add("a", { delta: 2 });
    expect(await world.strong("a")).toMatchObject({ value: 2, exact: true });
    for (const value of [8, 14]) {
      await send(world, "a", 3);
      await send(world, "a", 3, { edge: 1 });
      expect(await world.strong("a")).toMatchObject({ exact: false });
      await reaches(world, "a", value);
      // More may come.
      expect(await world.strong("a")).toMatchObject({ exact: false });
      expect(await world.well("GET", "/counters/a")).toMatchObject({ exact: false });
      await world.advance(20_000);
      expect(await world.strong("a")).toMatchObject({ value, exact: true });
      await until(async () => (await world.well("GET", "/counters/a")).exact, "an exact default read");
    }
    expect(await world.add("a")).toMatchObject({ value: 15, exact: true });
    await world.add("b");
    expect(await world.strong("b")).toMatchObject({ value: 1, exact: true });
  });

  test("is not needed for an event with a key, which is answered for at once", async () => {
    world = await openWorld({ queue: QUEUE, edges: 2 });
    const first = await send(world, "a", 3, keyed("k"));
    expect(first.headers.get("idempotency-replayed")).toBe(null);
    for (const options of [{ edge: 1 }, { colo: "IAD" }]) {
      const again = await send(world, "a", 3, keyed("k", options));
      expect(again.headers.get("idempotency-replayed")).toBe("true");
    }
    expect((await post(world, "a", 4, keyed("k"))).status).toBe(422);
    expect(await world.strong("a")).toMatchObject({ value: 3, exact: true });
  });

  test("holds events of before a deletion: they are dead, those after it count in the new counter", async () => {
    // The deletion waits for leases, and must be done before the batch flies.
    world = await openWorld({ queue: { ...QUEUE, maxBatchTimeout: 10 } });
    await send(world, "a", 5);
    await send(world, "a", 6);
    await world.well("DELETE", "/counters/a");
    // No isolate takes the old generation for living any more, though it was told a moment ago.
    await send(world, "a", 7);
    await reaches(world, "a", 7);
    const dead = await until(async () => {
      const found = await letters(world);
      return found.reduce((sum, { delta }) => sum + Number(delta), 0) === 11 && found;
    }, "dead letters");
    expect(new Set(dead.map(({ code }) => code))).toEqual(new Set(["counter-ended"]));
    await world.well("DELETE", "/counters/a");
    await world.refused(404, "counter-not-found", "GET", "/counters/a?consistency=strong");
  });
});

describe("with faults,", () => {
  let world;
  let random;
  const open = async (settings = {}) => {
    random = randomFrom(SEED);
    world = await openWorld({ queue: { ...QUEUE, ...settings }, faults: true, edges: 2 });
  };
  afterEach(() => world.close());

  test("batches that come again, though acknowledged, and calls that are lost count nothing twice", async () => {
    await open({ retryDelay: 0 });
    let batches = 0;
    world.fail(({ kind, path }) => {
      if (kind === "queue") {
        batches += 1;
        return batches % 3 === 0 ? undefined : batches % 3 === 1 ? "after" : "before";
      }
      if (!["/count", "/claim", "/look-up"].includes(path)) return undefined;
      const drawn = random();
      return drawn < 0.1 ? "before" : drawn < 0.2 ? "after" : undefined;
    });
    const expected = new Map();
    await each(numbers(120), 20, async (index) => {
      const key = `c${index % 5}`;
      const delta = 1 + (index % 7);
      const options = { colo: ["FRA", "IAD"][index % 2], edge: index % 2 };
      await send(world, key, delta, index % 4 === 0 ? keyed(`k${index}`, options) : options);
      // The same event from elsewhere.
      if (index % 8 === 0) await send(world, key, delta, keyed(`k${index}`, { colo: "SYD" }));
      expected.set(key, (expected.get(key) ?? 0) + delta);
    });
    // Where all went in three batches, there are more to come.
    await until(async () => {
      if (batches > 3) return true;
      await send(world, "c0", 1);
      expected.set("c0", expected.get("c0") + 1);
      return false;
    }, "more batches");
    world.mend();
    for (const [key, count] of expected) await reaches(world, key, count);
    // Whatever is still under way changes nothing: a last event of each counter comes after it.
    for (const key of expected.keys()) await send(world, key, 1);
    for (const [key, count] of expected) await reaches(world, key, count + 1);
    expect(await letters(world)).toEqual([]);
  });

  test.skipIf(TABLETS)("a write that cannot be counted for long is taken over by an inbox, and counted when it can be", async () => {
    await open();
    // Once it is counted, but nobody hears of it; then not at all.
    let calls = 0;
    world.fail(({ path, name }) => {
      if (path !== "/count" || !name.endsWith("/a")) return undefined;
      calls += 1;
      return calls === 1 ? "after" : "before";
    });
    await send(world, "a", 3);
    await send(world, "b", 2);
    await reaches(world, "b", 2);
    await until(async () => (await world.objects("Inbox")).length > 0, "an inbox", 40_000);
    await world.evict();
    world.mend();
    await send(world, "a", 1);
    await reaches(world, "a", 4);
    expect(await letters(world)).toEqual([]);
  }, 90_000);

  test("an event whose key cannot be looked at goes through an inbox under it, once from any datacenter", async () => {
    await open();
    await send(world, "a", 3, keyed("k"));
    world.fail(({ path }) => (path === "/claim" ? "before" : undefined));
    const options = [{}, { edge: 1 }, { colo: "IAD" }];
    await Promise.all(options.map((some) => send(world, "a", 3, keyed("k", some))));
    await Promise.all(options.map((some) => send(world, "a", 5, keyed("k2", some))));
    await send(world, "a", 4, keyed("k", { colo: "IAD" }));
    world.mend();
    await reaches(world, "a", 8);
    const dead = await until(async () => (await letters(world, "IAD"))[0], "a dead letter");
    expect(dead).toMatchObject({ id: "a", delta: 4, code: "idempotency-key-reused" });
    expect(await valueOf(world, "a")).toBe(8);
    expect(await world.metric("tally_dead_letters_total")).toBe(1);
  });

  test("an event is not acknowledged while its root cannot record that there may be some", async () => {
    await open();
    world.fail(({ path }) => (path === "/open-session" ? "before" : undefined));
    const refused = await post(world, "a", 1);
    expect([refused.status, refused.json.code]).toEqual([503, "unavailable"]);
    world.mend();
    await send(world, "a", 2);
    await reaches(world, "a", 2);
  });
});
