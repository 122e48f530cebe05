// Shards follow the load: they double while it lasts, are sealed when it is gone, and every moment's sum is exact.
import { afterEach, beforeEach, expect, test } from "vitest";
import { each, openWorld, until } from "./world.mjs";

// Low thresholds, so that a test's load splits and a second of rest brings the shards back together.
const vars = { TALLY_SPLIT_FLUSHES_PER_SECOND: "10", TALLY_MERGE_AFTER_MS: "1000" };
const EDGES = 4;

let world;
beforeEach(async () => {
  world = await openWorld({ vars, edges: EDGES });
});
afterEach(() => world.close());

const shardsOf = async (id) => (await world.strong(id)).datacenters[0]?.shards ?? 1;

test("load doubles the shards, rest seals them, and the total is exact all the time", async () => {
  await world.add("hot");
  let acknowledged = 1;
  let begun = 1;
  let loading = true;
  const writer = async (edge) => {
    while (loading) {
      begun += 1;
      await world.add("hot", { unique: `visitor ${begun % 500}` }, { edge });
      acknowledged += 1;
    }
  };
  const writers = Array.from({ length: 24 }, (_, index) => writer(index % EDGES));
  try {
    await until(async () => {
      const before = acknowledged;
      const answer = await world.strong("hot");
      expect(answer.exact).toBe(true);
      expect(answer.value).toBeGreaterThanOrEqual(before);
      expect(answer.value).toBeLessThanOrEqual(begun);
      return answer.datacenters[0].shards >= 4;
    }, "four shards");
  } finally {
    loading = false;
    await Promise.all(writers);
  }
  expect(await world.strong("hot")).toMatchObject({ value: acknowledged, exact: true });

  await until(async () => {
    const answer = await world.strong("hot");
    expect(answer).toMatchObject({ value: acknowledged, exact: true });
    return answer.datacenters[0].shards === 1;
  }, "one shard again");
  // All others are sealed, so the one that counts knows the whole value again.
  await until(async () => {
    const written = await world.add("hot");
    acknowledged += 1;
    return written.exact && written.value === acknowledged;
  }, "exact writes");
  const counter = await world.strong("hot", "&window=900");
  expect(counter).toMatchObject({ value: acknowledged, exact: true, window: { count: acknowledged, max_error: 0 } });
  expect(Math.abs(counter.uniques.estimate - Math.min(500, begun))).toBeLessThanOrEqual(5);
});

test("an edge that missed the sealing is sent on, and its write counts once", async () => {
  await world.put("a", { shards: 8 });
  // Every edge learns of eight shards and stays with one of them.
  await each(
    Array.from({ length: 3 * EDGES }, (_, index) => index), 4,
    (index) => world.add("a", undefined, { edge: index % EDGES }),
  );
  await world.put("a", { shards: 1 });
  await until(async () => (await shardsOf("a")) === 1, "one shard");
  for (let edge = 0; edge < EDGES; edge += 1) await world.add("a", { delta: 10 }, { edge });
  expect(await world.strong("a")).toMatchObject({ value: 3 * EDGES + 10 * EDGES, exact: true });
  // And back: sealed shards are let count again.
  await world.put("a", { shards: 8 });
  await each(
    Array.from({ length: 40 }, (_, index) => index), 8,
    (index) => world.add("a", { unique: `u${index}` }, { edge: index % EDGES }),
  );
  expect(await world.strong("a")).toMatchObject({ value: 13 * EDGES + 40, exact: true, uniques: { estimate: 40 } });
});

test("a restart in the middle of it keeps what sealed shards had counted", async () => {
  await world.put("a", { shards: 4 });
  await each(Array.from({ length: 40 }, (_, index) => index), 8, (index) => world.add("a", { unique: `u${index}` }));
  await world.put("a", { shards: 1 });
  // The lead seals at its next flush.
  await world.add("a");
  await world.evict();
  expect(await world.strong("a")).toMatchObject({ value: 41, exact: true, uniques: { estimate: 40 } });
  await world.put("a", { shards: 4 });
  await world.evict();
  await each(Array.from({ length: 40 }, (_, index) => index), 8, (index) => world.add("a", { unique: `v${index}` }));
  expect(await world.strong("a")).toMatchObject({ value: 81, exact: true, uniques: { estimate: 80 } });
});
