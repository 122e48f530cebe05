// How long seconds are kept: a setting of a counter, and a default of the deployment. No sum depends on it.
import { afterEach, expect, test } from "vitest";
import { numbers } from "./calls.mjs";
import { openWorld } from "./world.mjs";

const DAY = 86_400;

let world;
afterEach(async () => {
  await world?.close();
  world = undefined;
});

const nowSeconds = () => Math.floor(world.now() / 1000);

/** The points of a history in unix seconds, and from when on they are complete. */
async function historyOf(id, step, from, to) {
  const { points, kept_from_at, exact } = await world.history(id, `&step=${step}&from=${from}&to=${to}`);
  return { points: points.map(([at, count]) => [at / 1000, count]), kept_from: kept_from_at / 1000, exact };
}
const secondsOf = (id, from, to) => historyOf(id, "1s", from, to);

/** Adds 1 to 3 every `every` seconds, in two datacenters; returns what was added at which second. */
async function write(id, times, every) {
  const added = new Map();
  for (const index of numbers(times)) {
    const delta = 1 + (index % 3);
    const at = nowSeconds();
    await world.add(id, { delta }, { colo: index % 2 === 0 ? "FRA" : "IAD" });
    added.set(at, (added.get(at) ?? 0) + delta);
    await world.advance(every * 1000);
  }
  return added;
}

const sum = (points) => points.reduce((all, [, count]) => all + (count ?? 0), 0);

test("seconds of a day are one answer, and what is not kept is unknown", async () => {
  world = await openWorld();
  const made = await world.put("long", { seconds_kept: DAY, shards: 2 });
  expect(made.settings.seconds_kept).toBe(DAY);
  const begin = nowSeconds();
  const added = await write("long", 110, 97);
  await world.evict();
  const to = nowSeconds();
  const { points, kept_from, exact } = await secondsOf("long", to - DAY, to);
  expect([points.length, exact]).toEqual([DAY + 1, true]);
  expect(kept_from).toBeLessThanOrEqual(begin);
  const counted = points.filter(([at, count]) => at >= begin && count > 0);
  expect(sum(counted)).toBe([...added.values()].reduce((all, delta) => all + delta, 0));
  // Stamps are those of the edge, whole seconds before the write was answered.
  expect(counted.length).toBe(added.size);
  for (const [index, [at, delta]] of [...added].entries()) {
    expect(Math.abs(counted[index][0] - at)).toBeLessThanOrEqual(1);
    expect(counted[index][1]).toBe(delta);
  }
  const csv = await world.call("GET", `/counters/long/history?step=1s&from=${to - DAY}&to=${to}&format=csv`);
  expect(csv.text.split("\n").length).toBe(DAY + 3);
  const path = `/counters/long/history?step=1s&to=${to}&from=`;
  await world.refused(400, "range-too-large", "GET", `${path}${to - DAY - 60}`);
  await world.refused(400, "range-too-large", "GET", `/counters/lo*/aggregate/history?step=1s&from=${to - 10_000}&to=${to}`);
  await world.refused(400, "range-too-large", "GET", `/counters/long/history?step=1m&from=${to - 600_060}&to=${to}`);
});

test("a change of the setting loses no sum, and says from when seconds are complete", async () => {
  world = await openWorld();
  await world.put("turn", { seconds_kept: 7_200 });
  const begin = nowSeconds();
  let total = 0;
  for (const kept of [7_200, 900, null, DAY, 3_600, DAY]) {
    await world.put("turn", { seconds_kept: kept });
    await world.evict();
    const added = await write("turn", 25, 61);
    total += [...added.values()].reduce((all, delta) => all + delta, 0);
    expect((await world.strong("turn")).value).toBe(total);
    const to = nowSeconds();
    for (const step of ["1m", "1h", "1d"]) {
      const { points } = await historyOf("turn", step, begin - 3_600, to);
      expect(sum(points)).toBe(total);
    }
    const { points, kept_from } = await secondsOf("turn", to - 80_000, to);
    expect(to - kept_from).toBeGreaterThanOrEqual(Math.min(900, to - begin));
    // Each minute that is complete by seconds has the sum of its seconds.
    const { points: minutes } = await historyOf("turn", "1m", kept_from + 60, to);
    const first = minutes[0][0];
    expect(sum(points.filter(([at]) => at >= first))).toBe(sum(minutes));
    expect(points.filter(([at]) => at < kept_from).every(([, count]) => count === null)).toBe(true);
  }
  for (const wrong of [899, 86_401, 0, -1, 1.5, "1h"]) {
    const body = JSON.stringify({ seconds_kept: wrong });
    await world.refused(400, "invalid-body", "PUT", "/counters/turn", { body });
  }
  const again = await world.put("turn", { seconds_kept: DAY });
  expect([again.value, again.settings.seconds_kept]).toEqual([total, DAY]);
});

test("the deployment has a default, which a counter's setting replaces", async () => {
  world = await openWorld({ vars: { TALLY_SECONDS_KEPT: "3600" } });
  await world.put("own", { seconds_kept: 900 });
  const begin = nowSeconds();
  for (const id of ["usual", "own"]) await write(id, 30, 60);
  const known = async (id) => (await secondsOf(id, begin, nowSeconds())).kept_from <= nowSeconds() - 1_900;
  expect([await known("usual"), await known("own")]).toEqual([true, false]);
  const rows = async (id) => {
    const { explain } = await world.read(id, "?explain=storage");
    const cells = explain.datacenters.flatMap(({ cells }) => cells);
    return cells.flatMap(({ storage }) => storage.kinds).filter(({ kind }) => kind === "seconds").length;
  };
  expect(await rows("usual")).toBeGreaterThan(0);
  expect(await rows("own")).toBe(0);
});
