// Several datacenters: what each counted, their sum, and when one appears at all.
import { afterAll, beforeAll, expect, test } from "vitest";
import { each, openWorld } from "./world.mjs";

let world;
beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());

const namesOf = (answer) => answer.datacenters.map(({ id }) => id).sort();

test("three datacenters count one counter", async () => {
  const deltas = { FRA: 3, IAD: 40, SYD: 500 };
  for (const [colo, delta] of Object.entries(deltas)) {
    expect((await world.add("three", { delta }, { colo })).datacenter).toBe(colo);
  }
  await world.subtract("three", { delta: 1 }, { colo: "SYD" });
  const answer = await world.strong("three");
  expect(answer).toMatchObject({ value: 542, exact: true });
  const parts = Object.fromEntries(answer.datacenters.map(({ id, value }) => [id, value]));
  expect(parts).toEqual({ FRA: 3, IAD: 40, SYD: 499 });
  expect(answer.datacenters.every(({ reachable, shards }) => reachable && shards === 1)).toBe(true);
});

test("the value is the same from everywhere", async () => {
  await world.add("same", { delta: 2 }, { colo: "FRA" });
  await world.add("same", { delta: 3 }, { colo: "IAD" });
  for (const colo of ["FRA", "IAD", "NRT", null]) {
    expect(await world.strong("same", "", { colo })).toMatchObject({ value: 5, exact: true });
  }
});

test("one datacenter can be asked for", async () => {
  await world.add("one", { delta: 2, unique: "ann" }, { colo: "FRA" });
  await world.add("one", { delta: 3, unique: "ann" }, { colo: "IAD" });
  const answer = await world.strong("one", "&datacenter=IAD");
  expect(answer).toMatchObject({ value: 3, exact: true });
  expect(namesOf(answer)).toEqual(["IAD"]);
  expect((await world.strong("one")).uniques.estimate).toBe(1);
  expect((await world.strong("one", "&datacenter=FRA&window=60")).window.count).toBe(2);
});

test("a platform that names no datacenter is LOCAL", async () => {
  expect((await world.add("local", undefined, { colo: null })).datacenter).toBe("LOCAL");
  expect(namesOf(await world.strong("local"))).toEqual(["LOCAL"]);
});

test("a deployment in one place is LOCAL, whatever the platform says", async () => {
  const one = await openWorld({ vars: { TALLY_DATACENTERS: "one" } });
  try {
    expect((await one.add("place", undefined, { colo: "FRA" })).datacenter).toBe("LOCAL");
    expect(namesOf(await one.strong("place", "", { colo: "FRA" }))).toEqual(["LOCAL"]);
  } finally {
    await one.close();
  }
});

test("settings that are null, as plain workerd gives those that its environment lacks, are not set", async () => {
  const names = [
    "TALLY_DATACENTERS", "TALLY_KEYS", "TALLY_LIMITERS", "TALLY_IDEMPOTENCY", "TALLY_HASH_KEY",
    "TALLY_UNIQUES_ROUNDING",
  ];
  const bare = await openWorld({ vars: Object.fromEntries(names.map((name) => [name, null])) });
  try {
    expect((await bare.add("bare", undefined, { colo: "FRA" })).datacenter).toBe("FRA");
    await bare.well("POST", "/limits/p/k", { body: '{"limit":2,"window_seconds":60}' });
    await bare.well("POST", "/counters/bare/increment", {
      body: '{"delta":1,"unique":"a"}', headers: { "idempotency-key": "k" },
    });
    expect((await bare.strong("bare")).value).toBe(2);
  } finally {
    await bare.close();
  }
});

test("only a write makes a datacenter appear", async () => {
  await world.add("appear", undefined, { colo: "FRA" });
  const elsewhere = { colo: "SYD" };
  await world.read("appear", "", elsewhere);
  await world.strong("appear", "&window=60", elsewhere);
  await world.history("appear", "", elsewhere);
  await world.well("GET", "/uniques?id=appear", elsewhere);
  await world.well("GET", "/counters/app*/aggregate", elsewhere);
  await world.put("appear", { shards: 2 }, elsewhere);
  await world.put("appear", {}, elsewhere);
  await world.refused(400, "invalid-delta", "POST", "/counters/appear/increment", {
    ...elsewhere, body: '{"delta":0}',
  });
  const skewed = JSON.stringify([{ id: "appear", at: 1 }]);
  await world.refused(400, "clock-skew", "POST", "/events", { ...elsewhere, body: skewed });
  expect(namesOf(await world.strong("appear"))).toEqual(["FRA"]);
  await world.add("appear", undefined, elsewhere);
  expect(namesOf(await world.strong("appear"))).toEqual(["FRA", "SYD"]);
});

test("a setting creates a counter without datacenters", async () => {
  expect(await world.put("empty", { shards: 4 }, { colo: "SYD" })).toMatchObject({ value: 0, datacenters: [] });
  expect(await world.strong("empty")).toMatchObject({ value: 0, exact: true, datacenters: [], updated_at: null });
  await world.refused(404, "counter-not-found", "DELETE", "/counters/empty-2", { colo: "SYD" });
});

test("a write is exact only if it knows all others", async () => {
  expect(await world.add("exact", undefined, { colo: "FRA" })).toMatchObject({ value: 1, exact: true });
  await world.add("exact", { delta: 10 }, { colo: "IAD" });
  // FRA wrote first and must have learnt that it is no longer alone.
  const again = await world.add("exact", undefined, { colo: "FRA" });
  if (again.exact) expect(again.value).toBe(12);
  const answer = await world.strong("exact");
  expect(answer).toMatchObject({ value: 12, exact: true });
});

test("first writes of many datacenters at once are all there", async () => {
  const colos = ["FRA", "IAD", "SYD", "NRT", "GRU", "JNB", "LHR", "SIN"];
  const deltas = await each(colos, colos.length, (colo, index) => world.add("rush", { delta: 2 ** index }, { colo }));
  expect(deltas.map(({ datacenter }) => datacenter)).toEqual(colos);
  // An exact answer holds at least what was acknowledged before it, and its own.
  for (const { value, exact, delta } of deltas) if (exact) expect(value).toBeGreaterThanOrEqual(delta);
  const answer = await world.strong("rush");
  expect(answer).toMatchObject({ value: 255, exact: true });
  expect(namesOf(answer)).toEqual([...colos].sort());
});

test("each datacenter counts by itself in history and windows, and they are summed", async () => {
  for (const [index, colo] of ["FRA", "IAD", "SYD"].entries()) {
    await world.add("sums", { delta: index + 1, unique: `visitor-${index}` }, { colo });
  }
  const { points } = await world.history("sums", "&step=1m");
  expect(points.reduce((sum, [, count]) => sum + count, 0)).toBe(6);
  const answer = await world.strong("sums", "&window=120");
  expect(answer.window).toMatchObject({ count: 6, max_error: 0 });
  expect([answer.uniques.estimate, answer.window.uniques.estimate]).toEqual([3, 3]);
});

test("datacenters that write a new counter at the same moment do not each call their own total exact", async () => {
  const ids = Array.from({ length: 30 }, (_, index) => `together/${index}`);
  const colos = ["FRA", "LHR", "JFK"];
  await each(ids, 6, (id) => Promise.all(colos.map((colo) => world.add(id, undefined, { colo }))));
  for (const id of ids) {
    for (const colo of colos) {
      const written = await world.add(id, undefined, { colo });
      expect(written.exact, `${id} in ${colo} says ${written.value}`).toBe(false);
    }
    expect(await world.strong(id)).toMatchObject({ value: 6, exact: true });
  }
});
