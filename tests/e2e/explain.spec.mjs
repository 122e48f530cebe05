// The tree behind a read: every object that was asked, what it held, and that it sums up to the answer.
import { afterEach, expect, test } from "vitest";
import { numbers } from "./calls.mjs";
import { each, openWorld, until } from "./world.mjs";

let world;
afterEach(async () => {
  await world?.close();
  world = undefined;
});

const sumOf = (explain) =>
  explain.datacenters.flatMap(({ cells }) => cells).reduce((sum, { added, removed }) => sum + added - removed, 0);

test("a strong read is explained cell by cell, and the cells sum up to it", async () => {
  world = await openWorld();
  await world.put("tree", { shards: 4 });
  await each(numbers(100), 8, (index) => world.add("tree", { unique: `u${index}` }));
  await world.add("tree", { delta: 60 }, { colo: "IAD" });
  await world.subtract("tree", { delta: 5 }, { colo: "IAD" });
  const { explain, ...plain } = await world.strong("tree", "&explain=1");
  expect(plain).toMatchObject({ value: 155, exact: true });
  expect(sumOf(explain)).toBe(155);
  expect(explain.root.object).toMatch(/^d1\/\d+$/);
  expect(explain.root).toMatchObject({ operations: 0 });
  expect(explain.inboxes).toEqual([]);
  expect(explain.datacenters.map(({ id, object, origin, missing }) => [id, object, origin, missing])).toEqual([
    ["FRA", "c1/FRA/0/tree", "asked", []],
    ["IAD", "c1/IAD/0/tree", "asked", []],
  ]);
  const [fra, iad] = explain.datacenters;
  expect(fra.cells.map(({ shard, object }) => [shard, object])).toEqual(
    [0, 1, 2, 3].map((shard) => [shard, `c1/FRA/${shard}/tree`]),
  );
  for (const { shard, generation, sealed, latency_ms } of fra.cells) {
    expect(generation).toBe(explain.root.generation);
    expect(sealed).toBe(false);
    // The lead asks the others, and looks at its own.
    expect(latency_ms === null).toBe(shard === 0);
  }
  expect([fra.latency_ms, iad.latency_ms].every((latency) => latency >= 0)).toBe(true);
  // A datacenter's own version can be sent back.
  expect((await world.read("tree", `?at_least=${iad.version}`)).value).toBe(155);
});

test("sealed shards and inboxes are told", async () => {
  world = await openWorld();
  await world.put("sealed", { shards: 2 });
  await each(numbers(20), 4, (index) => world.add("sealed", { unique: `u${index}` }));
  await world.put("sealed", { shards: 1 });
  const shards = await until(async () => {
    // A flush makes the lead seal what is left.
    await world.add("sealed");
    const { explain } = await world.strong("sealed", "&explain=1");
    const [{ cells }] = explain.datacenters;
    // A read that seals it has asked it, too.
    return cells.some(({ sealed, latency_ms }) => sealed && latency_ms === null) && cells;
  }, "a sealed shard");
  expect(shards.map(({ shard, sealed, latency_ms }) => [shard, sealed, latency_ms])).toEqual([
    [0, false, null],
    [1, true, null],
  ]);
  await world.call("POST", "/api/event", { body: '{"key":"sealed"}' });
  const { explain, value } = await world.strong("sealed", "&explain=1");
  expect(sumOf(explain)).toBe(value);
  expect(explain.inboxes).toHaveLength(1);
  expect(explain.inboxes[0].object).toMatch(/^i1\/FRA\/[0-3]$/);
  expect(explain.inboxes[0].drained).toBe(true);
});

test("a datacenter that does not answer is in the tree without cells, or with those last known", async () => {
  world = await openWorld({ faults: true });
  await world.add("away", { delta: 3 }, { colo: "FRA" });
  await world.add("away", { delta: 4 }, { colo: "IAD" });
  world.fail(({ kind, name }) => (kind === "cell" && name.includes("/IAD/") ? "before" : undefined));
  const { explain, value, exact } = await world.strong("away", "&explain=1");
  expect(exact).toBe(false);
  expect(sumOf(explain)).toBe(value);
  const iad = explain.datacenters.find(({ id }) => id === "IAD");
  expect(iad.origin).toBeOneOf(["known", "none"]);
  expect(iad.latency_ms).toBeGreaterThanOrEqual(0);
});

test("whoever may read may have it explained, and nobody else", async () => {
  const key = "k".repeat(24);
  const keys = { keys: [{ name: "reader", key, scopes: ["read"], prefix: "own/" }] };
  world = await openWorld({ vars: { TALLY_ACCESS: undefined, TALLY_KEYS: JSON.stringify(keys) } });
  const headers = { authorization: `Bearer ${key}` };
  await world.refused(401, "unauthorized", "GET", "/counters/own%2Fa?explain=1");
  await world.refused(403, "forbidden", "GET", "/counters/other?explain=1", { headers });
  await world.refused(404, "counter-not-found", "GET", "/counters/own%2Fa?explain=1", { headers });
});

test("explain is 1 or left out, and does not wait for versions", async () => {
  world = await openWorld();
  const { version } = await world.add("strict");
  await world.refused(400, "invalid-query", "GET", "/counters/strict?explain=yes");
  await world.refused(400, "invalid-query", "GET", `/counters/strict?explain=1&at_least=${version}`);
  await world.refused(400, "invalid-query", "GET", "/counters/strict/history?explain=1");
  expect(await world.read("strict", "?explain=1&datacenter=FRA&window=60")).toMatchObject({
    value: 1, window: { count: 1 },
  });
  expect(await world.read("strict")).not.toHaveProperty("explain");
});
