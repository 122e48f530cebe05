// Many datacenters: what each reads of the others, how soon, and what is said of those that are away.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { partOf } from "./calls.mjs";
import { TABLETS, each, openWorld, until } from "./world.mjs";

const COLOS = ["FRA", "GRU", "IAD", "NRT", "SYD"];
const ROUNDS = 5;
const AGREE_MS_MAX = 1_000;
// Longer than a heartbeat of 2 s.
const LATE_MS = 3_000;
// How long a lead may take to answer, how much earlier that may seem here, and how much later on a busy machine: far
// from a call's own 5 s.
const LEAD_MS_MAX = 3_000;
const EARLY_MS_MAX = 900;
const LATE_BY_MS_MAX = 1_800;

let world;
afterEach(async () => {
  await world?.close();
  world = undefined;
});

const ofDatacenter = (colo) => ({ kind, name }) => kind === "cell" && name.includes(`/${colo}/`);
const isPush = ({ kind, path }) => kind === "directory" && path === "/push";
const failing = (...which) => world.fail((call) => (which.some((fits) => fits(call)) ? "before" : undefined));

/** Each datacenter counts another power of ten; returns the sum. */
async function fill(id) {
  await each(COLOS, COLOS.length, (colo, index) => world.add(id, { delta: 10 ** index, unique: colo }, { colo }));
  return 11_111;
}

/** Reads by default, as a dashboard does, until the leads push what changes. */
function watched(id, colos = COLOS) {
  return until(async () => {
    const { explain } = await world.read(id, "?explain=1");
    return colos.every((colo) => partOf(explain, colo).origin === "pushed");
  }, "leads that push");
}

/** Writes without reading: the answers of increments look at the value. */
async function sendEvents(key, colo, count = 1) {
  const body = JSON.stringify(Array.from({ length: count }, () => ({ id: key })));
  expect((await world.well("POST", "/events", { body, colo })).accepted).toBe(count);
}

async function pushes() {
  const { text } = await world.call("GET", "/metrics");
  const count = (name, reason) =>
    Number(new RegExp(`^tally_${name}_total\\{reason="${reason}"\\} (\\d+)$`, "m").exec(text)[1]);
  return {
    watched: count("pushes", "watched"),
    checkpoint: count("pushes", "checkpoint"),
    watchedBytes: count("push_bytes", "watched"),
  };
}

test("a strong read is the exact sum of five datacenters, from each of them", async () => {
  world = await openWorld();
  const value = await fill("five");
  for (const colo of COLOS) {
    const before_ms = world.now();
    const answer = await world.strong("five", "", { colo });
    expect(answer).toMatchObject({ value, exact: true, uniques: { estimate: COLOS.length } });
    expect(answer.datacenters.map(({ id, value, reachable }) => [id, value, reachable])).toEqual(
      COLOS.map((id, index) => [id, 10 ** index, true]),
    );
    for (const { as_of, staleness_ms } of [answer, ...answer.datacenters]) {
      expect(as_of).toBeGreaterThanOrEqual(before_ms);
      expect(as_of).toBeLessThanOrEqual(world.now());
      expect(staleness_ms).toBeLessThanOrEqual(world.now() - before_ms);
    }
  }
});

test("while a counter is watched, a write is in every other datacenter's default reads within a second", async () => {
  world = await openWorld({ edges: 2 });
  let value = await fill("seen");
  await watched("seen");
  const times_ms = [];
  for (let round = 0; round < ROUNDS; round++) {
    const colo = COLOS[round % COLOS.length];
    await world.add("seen", { delta: 7 }, { colo });
    value += 7;
    const began_ms = world.now();
    await until(async () => {
      const answer = await world.read("seen", "", { colo: "FRA", edge: 1 });
      expect(answer.value).toBeLessThanOrEqual(value);
      return answer.value === value;
    }, "the write");
    times_ms.push(Math.round(world.now() - began_ms));
  }
  console.log(`a write was in default reads after ${times_ms.join(", ")} ms`);
  // A machine that is busy may be late once, not always.
  expect(Math.min(...times_ms)).toBeLessThan(AGREE_MS_MAX);
  const counter = await world.read("seen");
  for (const { as_of, staleness_ms, reachable } of counter.datacenters) {
    expect(reachable).toBe(true);
    expect(as_of).toBeGreaterThanOrEqual(counter.as_of);
    expect(staleness_ms).toBeLessThanOrEqual(counter.staleness_ms);
  }
  // What was pushed says of when it is, and only what was asked for now is exact.
  expect(counter.exact).toBe(false);
  expect((await world.strong("seen")).exact).toBe(true);
});

test.skipIf(TABLETS)("what is written once is told to its root within seconds, while its object is open, and is not told again", async () => {
  world = await openWorld();
  const ids = Array.from({ length: 20 }, (_, index) => `once-${index}`);
  for (const id of ids) await sendEvents(id, "FRA");
  await until(async () => (await pushes()).checkpoint >= ids.length, "a checkpoint of each");
  expect(await pushes()).toEqual({ watched: 0, checkpoint: ids.length, watchedBytes: 0 });
});

test("leads push while they are watched", async () => {
  world = await openWorld();
  const cold = "cold";
  // Single increments: the end of a bulk body is a report, whoever watches.
  const write = (colo, delta = 1) => world.add(cold, { delta }, { colo });
  for (const colo of COLOS) await write(colo, 20);
  for (let round = 0; round < 20; round++) await write(COLOS[round % COLOS.length]);
  expect(await pushes()).toMatchObject({ watched: 0, watchedBytes: 0 });
  await watched(cold);
  const begun = await pushes();
  expect(begun.watched).toBeGreaterThanOrEqual(COLOS.length);
  const before_ms = world.now();
  let value = 120;
  await until(async () => {
    await write("SYD");
    value += 1;
    await world.read(cold);
    return world.now() - before_ms > 2_000;
  }, "two seconds of load");
  const hot = await pushes();
  const seconds = (world.now() - before_ms) / 1_000;
  const number = hot.watched - begun.watched;
  const bytes = hot.watchedBytes - begun.watchedBytes;
  console.log(`${number} pushes of ${(bytes / number).toFixed(0)} bytes for ${value - 120} writes in ${seconds.toFixed(1)} s`);
  // SYD: 4 a second, and repeats of what was not confirmed in 100 ms; the others: a heartbeat each.
  expect(number).toBeLessThanOrEqual(seconds * 14 + 2 * COLOS.length);
  expect(bytes / number).toBeLessThan(200);
  expect(await world.strong(cold)).toMatchObject({ value, exact: true });
});

test("a datacenter that is away adds what was last known of it, and says of when that is", async () => {
  world = await openWorld({ faults: true, edges: 2 });
  const known_ms = world.now();
  const value = await fill("away");
  await watched("away");
  failing(ofDatacenter("IAD"), isPush);
  const check = (answer, more) => {
    expect(answer).toMatchObject({ value: value + more, exact: false, uniques: { estimate: COLOS.length } });
    for (const { id, reachable } of answer.datacenters) expect([id, reachable]).toEqual([id, id !== "IAD"]);
    const iad = partOf(answer, "IAD");
    expect(iad).toMatchObject({ value: 100, shards: 1 });
    expect(iad.as_of).toBeGreaterThanOrEqual(known_ms);
    expect(iad.as_of).toBeLessThan(partOf(answer, "FRA").as_of);
    expect([answer.as_of, answer.staleness_ms]).toEqual([iad.as_of, iad.staleness_ms]);
  };
  check(await world.strong("away"), 0);
  await world.add("away", { delta: 5 }, { colo: "SYD" });
  check(await world.strong("away", "", { colo: "NRT" }), 5);
  // A default read trusts what was pushed for a few seconds, then it asks, and finds out as well.
  const counter = await until(async () => {
    const answer = await world.read("away", "", { edge: 1 });
    return !partOf(answer, "IAD").reachable && answer.value === value + 5 && answer;
  }, "a default read that misses the datacenter");
  check(counter, 5);
  const { explain } = await world.read("away", "?explain=1");
  expect(partOf(explain, "IAD").origin).toBe("known");
  // One that takes the question and says nothing is waited for until its deadline, and no longer.
  world.fail((call) => (ofDatacenter("IAD")(call) ? "hang" : isPush(call) ? "before" : undefined));
  const began_ms = world.now();
  check(await world.strong("away"), 5);
  const took_ms = world.now() - began_ms;
  expect(took_ms).toBeGreaterThan(LEAD_MS_MAX - EARLY_MS_MAX);
  expect(took_ms).toBeLessThan(LEAD_MS_MAX + LATE_BY_MS_MAX);
  failing(ofDatacenter("IAD"), isPush);
  // Alone it is what was last known too.
  expect(await world.strong("away", "&datacenter=IAD")).toMatchObject({ value: 100, exact: false });
  world.mend();
  await world.add("away", { delta: 1 }, { colo: "IAD", edge: 1 });
  const back = await world.strong("away");
  expect(back).toMatchObject({ value: value + 6, exact: true, uniques: { estimate: COLOS.length } });
  expect(back.datacenters.every(({ reachable }) => reachable)).toBe(true);
});

test("a version from a write in one datacenter holds in every other", async () => {
  world = await openWorld({ edges: 2 });
  let value = await fill("session");
  for (const writer of COLOS) {
    for (const reader of COLOS.filter((colo) => colo !== writer)) {
      // The reader's view is warm, and older than the write.
      await world.read("session", "", { colo: reader, edge: 1 });
      const { version } = await world.add("session", { delta: 3 }, { colo: writer });
      value += 3;
      const answer = await world.read("session", `?at_least=${version}`, { colo: reader, edge: 1 });
      expect(answer.value, `${writer} to ${reader}`).toBeGreaterThanOrEqual(partOf(answer, writer).value);
      expect(answer.value, `${writer} to ${reader}`).toBe(value);
      // And what was read can be handed on.
      expect((await world.read("session", `?at_least=${answer.version}`, { colo: writer })).value).toBe(value);
    }
  }
});

test("two colos of a region are one datacenter, and changing to regions and back keeps all counts", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tally-e2e-"));
  try {
    const named = (answer) => Object.fromEntries(answer.datacenters.map(({ id, value }) => [id, value]));
    const reopen = async (vars) => {
      await world?.close();
      world = await openWorld({ folder, vars });
    };
    await reopen({});
    await world.add("map", { delta: 1, unique: "ann" }, { colo: "FRA" });
    await world.add("map", { delta: 20, unique: "bob" }, { colo: "AMS" });
    await world.add("map", { delta: 300 }, { colo: "NRT" });
    await reopen({ TALLY_DATACENTERS: "region" });
    expect(await world.strong("map")).toMatchObject({ value: 321, exact: true });
    expect((await world.add("map", { delta: 4_000, unique: "ann" }, { colo: "FRA" })).datacenter).toBe("WEUR");
    expect((await world.add("map", { delta: 50_000 }, { colo: "AMS" })).datacenter).toBe("WEUR");
    // A colo that no table knows stays what it is.
    expect((await world.add("map", { delta: 600_000 }, { colo: "QQQ" })).datacenter).toBe("QQQ");
    const joined = await world.strong("map");
    expect(joined).toMatchObject({ value: 654_321, exact: true, uniques: { estimate: 2 } });
    expect(named(joined)).toEqual({ AMS: 20, FRA: 1, NRT: 300, QQQ: 600_000, WEUR: 54_000 });
    await reopen({});
    expect((await world.add("map", { delta: 1 }, { colo: "FRA" })).datacenter).toBe("FRA");
    expect(await world.strong("map")).toMatchObject({ value: 654_322, exact: true });
  } finally {
    await world.close();
    world = undefined;
    rmSync(folder, { recursive: true, force: true });
  }
});

test("what a datacenter that was away pushes late does not bring back a counter that has ended", async () => {
  world = await openWorld({ faults: true, edges: 2 });
  const id = "ended";
  for (const colo of COLOS) await world.add(id, { delta: 5 }, { colo });
  await watched(id);
  await world.put(id, { ttl_seconds: 6 });
  // IAD hears nothing from now on, and goes on pushing.
  failing(ofDatacenter("IAD"));
  const gone = async () => (await world.call("GET", `/counters/${id}?consistency=strong`)).status === 404;
  await until(gone, "the end");
  const { watched: before } = await pushes();
  const until_ms = world.now() + LATE_MS;
  while (world.now() < until_ms) {
    expect(await gone()).toBe(true);
    expect((await world.call("GET", `/counters/${id}`, { edge: 1 })).status).toBe(404);
  }
  console.log(`${(await pushes()).watched - before} pushes after the end`);
  world.mend();
  await world.add(id, { delta: 2 }, { colo: "IAD", edge: 1 });
  expect(await world.strong(id)).toMatchObject({ value: 2, exact: true });
});
