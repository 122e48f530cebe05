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

const storedOf = ({ explain }) => explain.datacenters.flatMap(({ cells }) => cells);
const kindOf = (storage, kind) => storage.kinds.find((one) => one.kind === kind);

test("an admin sees what each cell stores: buckets, sketches, ledgers, rows and bytes", async () => {
  world = await openWorld();
  await world.put("stored", { shards: 2 });
  await each(numbers(20), 4, (index) => world.add("stored", { unique: `u${index}`, sample: index + 1 }));
  await world.add("stored", { delta: 3 }, { headers: { "idempotency-key": "order-1" } });
  await world.advance(61_000);
  const inIad = () => each(numbers(20), 8, (index) =>
    world.add("stored", { unique: `i${index}`, sample: 9 }, { colo: "IAD" }));
  await inIad();
  await world.advance(61_000);
  await inIad();
  const read = await world.read("stored", "?explain=storage");
  expect(read.value).toBe(63);
  const cells = storedOf(read);
  expect(sumOf(read.explain)).toBe(63);
  for (const { storage } of cells) {
    expect(storage.complete).toBe(true);
    expect(storage.kinds.reduce((sum, { rows }) => sum + rows, 0)).toBe(storage.rows);
    expect(storage.kinds.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(storage.bytes);
    expect(kindOf(storage, "hot").rows).toBe(1);
    expect(storage.buckets.map(({ seconds }) => seconds)).toEqual([1, 60, 3_600, 86_400]);
  }
  const iad = cells.filter(({ object }) => object.startsWith("c1/IAD/")).map(({ storage }) => storage);
  const minutes = iad.map(({ buckets }) => buckets[1]);
  // One minute is over, the other is open.
  expect(minutes.reduce((sum, { closed }) => sum + closed, 0)).toBeGreaterThanOrEqual(1);
  expect(minutes.some(({ open }) => open)).toBe(true);
  expect(minutes.every(({ first_at, last_at }) => first_at <= last_at && first_at % 60_000 === 0)).toBe(true);
  const sketches = cells.flatMap(({ storage }) => storage.sketches);
  expect(sketches.every(({ dense, registers, bytes }) => !dense && registers > 0 && bytes < 12_300)).toBe(true);
  expect(new Set(sketches.map(({ of }) => of))).toEqual(new Set(["all_time", "open_minute"]));
  const records = cells.map(({ storage }) => storage.records[0]);
  expect(records.reduce((sum, one) => sum + one, 0)).toBe(1);
  expect(cells.flatMap(({ storage }) => kindOf(storage, "records") ?? []).map(({ rows }) => rows)).toEqual([1]);
  expect(cells.flatMap(({ storage }) => kindOf(storage, "minute_samples") ?? []).length).toBeGreaterThanOrEqual(2);
});

test("a tablet's tenant tells its own rows alone", async () => {
  world = await openWorld({ vars: { TALLY_TABLETS: "1" } });
  await world.add("one", { delta: 5 });
  for (const id of numbers(3)) await world.add(`other-${id}`, { unique: "x" });
  const [{ storage, added }] = storedOf(await world.strong("one", "&explain=storage"));
  expect(added).toBe(5);
  expect(storage.sketches).toEqual([]);
  expect(kindOf(storage, "hot").rows).toBe(1);
  expect(storage.kinds.map(({ kind }) => kind)).not.toContain("minute_uniques");
  // A read changes nothing.
  expect(storedOf(await world.strong("one", "&explain=storage"))[0].storage).toEqual(storage);
});

test("what cells store is for admins of the counter alone", async () => {
  const [reader, admin] = ["r".repeat(24), "a".repeat(24)];
  const keys = {
    keys: [
      { name: "reader", key: reader, scopes: ["read", "write"], prefix: "own/" },
      { name: "admin", key: admin, scopes: ["read", "write", "admin"], prefix: "own/" },
    ],
  };
  world = await openWorld({ vars: { TALLY_ACCESS: undefined, TALLY_KEYS: JSON.stringify(keys) } });
  const by = (key) => ({ headers: { authorization: `Bearer ${key}` } });
  await world.add("own/a", {}, by(admin));
  const path = "/counters/own%2Fa?explain=storage";
  await world.refused(401, "unauthorized", "GET", path);
  await world.refused(403, "forbidden", "GET", path, by(reader));
  await world.refused(403, "forbidden", "GET", "/counters/other?explain=storage", by(admin));
  await world.refused(404, "counter-not-found", "GET", "/counters/own%2Fb?explain=storage", by(admin));
  await world.refused(400, "invalid-query", "GET", "/counters/own%2Fa?explain=rows", by(admin));
  expect((await world.well("GET", path, by(admin))).explain.datacenters[0].cells[0].storage.rows).toBeGreaterThan(0);
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
