// Parts that do not answer: what needs them is refused with 503, what does not goes on, and afterwards
// every number is right.
import { afterEach, beforeEach, expect, test } from "vitest";
import { each, openWorld, until } from "./world.mjs";

let world;
beforeEach(async () => {
  world = await openWorld({ faults: true, edges: 2 });
});
afterEach(() => world.close());

const INCREMENT = "/counters/a/increment";
const is = (kind, fits = () => true) => (call) => call.kind === kind && fits(call);
const failing = (which, how) => world.fail((call) => (which(call) ? how : undefined));
const ofDatacenter = (colo) => is("cell", ({ name }) => name.includes(`/${colo}/`));

async function unavailable(method, path, options) {
  const answer = await world.refused(503, "unavailable", method, path, options);
  expect(Number(answer.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  return answer;
}

test("without the aggregator default reads tell what is known nearby, others are refused, and writes of one datacenter go on", async () => {
  await world.add("a", { delta: 3, unique: "ann" });
  failing(is("aggregator"), "before");
  expect(await world.well("GET", "/counters/a")).toMatchObject({ value: 3, exact: false, uniques: { estimate: 1 } });
  expect(await world.well("GET", "/uniques?id=a")).toMatchObject({ estimate: 1, exact: false });
  await unavailable("GET", "/counters/none");
  await unavailable("GET", "/counters/a?window=300");
  await unavailable("GET", "/counters/a?consistency=strong");
  await unavailable("GET", "/counters/a/history");
  await unavailable("GET", "/counters");
  await unavailable("GET", "/counters/*/aggregate");
  await unavailable("GET", "/counters/*/aggregate/history");
  await unavailable("GET", "/top");
  expect(await world.add("a", { delta: 4 })).toMatchObject({ value: 7 });
  world.mend();
  expect(await world.strong("a")).toMatchObject({ value: 7, exact: true });
});

test("without its cell a write is refused and counts nothing", async () => {
  await world.add("a", { delta: 3 });
  failing(is("cell"), "before");
  await unavailable("POST", INCREMENT, { body: '{"delta":5}' });
  await unavailable("POST", "/counters/a/decrement");
  const body = '{"id":"a"}\n{"id":"new"}\nbad';
  // What may count later takes precedence over what never does.
  const { json: report, headers } = await world.refused(503, "unavailable", "POST", "/events", { body });
  expect(headers.get("retry-after")).toBe("1");
  expect(report).toMatchObject({ accepted: 0, rejected: 3 });
  expect(report.errors.map(({ code }) => code)).toEqual(["unavailable", "unavailable", "invalid-json"]);
  world.mend();
  expect(await world.add("a")).toMatchObject({ value: 4, exact: true });
  expect(await world.strong("a", "&window=300")).toMatchObject({ value: 4, window: { count: 4 } });
});

test("a lost answer is asked for again and counted once", async () => {
  await world.add("a", { delta: 3 });
  let lost = 0;
  world.fail(({ kind }) => (kind === "cell" && lost++ === 0 ? "after" : undefined));
  expect(await world.add("a", { delta: 5, unique: "ann" })).toMatchObject({ value: 8, exact: true });
  expect(lost).toBe(2);
  world.mend();
  expect(await world.strong("a", "&window=300")).toMatchObject({ value: 8, window: { count: 8 } });
});

test("while answers are lost, what was refused may count and what was acknowledged does, once", async () => {
  await world.add("a");
  let calls = 0;
  // Of every five calls of a cell two lose their answer and one does not arrive.
  world.fail(({ kind }) =>
    kind === "cell" ? ["after", undefined, "before", "after", undefined][calls++ % 5] : undefined,
  );
  const answers = await each(Array(60).fill("POST"), 6, (method, index) =>
    world.call(method, INCREMENT, { body: `{"delta":${index + 1}}`, colo: index % 3 ? "FRA" : "IAD", edge: index % 2 }),
  );
  world.mend();
  const sum = (some) => some.reduce((total, { index }) => total + index + 1, 1);
  const all = answers.map(({ status }, index) => ({ status, index }));
  const answer = await world.strong("a", "&window=300");
  expect(answer.exact).toBe(true);
  expect(answer.value).toBeGreaterThanOrEqual(sum(all.filter(({ status }) => status === 200)));
  expect(answer.value).toBeLessThanOrEqual(sum(all));
  expect(answer.window.count).toBe(answer.value);
  expect(all.every(({ status }) => status === 200 || status === 503)).toBe(true);
  expect(all.filter(({ status }) => status === 200).length).toBeGreaterThan(10);
});

test("a cell that hangs is given up in time, and holds nobody up afterwards", async () => {
  await world.add("a");
  failing(is("cell"), "hang");
  const began_ms = world.now();
  await unavailable("POST", INCREMENT);
  expect(world.now() - began_ms).toBeLessThan(10_000);
  world.mend();
  const again = await until(async () => {
    const answer = await world.call("POST", INCREMENT);
    return answer.status === 200 && answer;
  }, "a write that is acknowledged");
  expect(again.json.value).toBeLessThanOrEqual(3);
  expect(await world.strong("a")).toMatchObject({ value: again.json.value, exact: true });
});

test("a first write is acknowledged only after the root knows its datacenter", async () => {
  failing(is("directory"), "before");
  await unavailable("POST", INCREMENT);
  await unavailable("GET", "/counters/a");
  await unavailable("PUT", "/counters/a", { body: "{}" });
  await unavailable("DELETE", "/counters/a");
  world.mend();
  await world.refused(404, "counter-not-found", "GET", "/counters/a?consistency=strong");
  expect(await world.add("a")).toMatchObject({ value: 1, exact: true });
  // From then on the root is not on the way of writes.
  failing(is("directory"), "before");
  expect(await world.add("a")).toMatchObject({ value: 2 });
  await unavailable("POST", INCREMENT, { colo: "IAD" });
  world.mend();
  expect(await world.strong("a")).toMatchObject({ value: 2, exact: true });
});

test("a datacenter that does not answer makes the sum inexact and is named", async () => {
  await world.add("a", { delta: 3 }, { colo: "FRA" });
  await world.add("a", { delta: 40 }, { colo: "IAD" });
  failing(ofDatacenter("IAD"), "before");
  const answer = await world.strong("a");
  expect(answer.exact).toBe(false);
  const reachable = Object.fromEntries(answer.datacenters.map(({ id, reachable }) => [id, reachable]));
  expect(reachable).toEqual({ FRA: true, IAD: false });
  expect(answer.datacenters.find(({ id }) => id === "FRA").value).toBe(3);
  expect(await world.history("a", "")).toMatchObject({ exact: false });
  expect(await world.well("GET", "/counters/a*/aggregate")).toMatchObject({ exact: false });
  const written = await world.add("a", { delta: 2 }, { colo: "FRA" });
  expect(written.exact).toBe(false);
  world.mend();
  expect(await world.strong("a")).toMatchObject({ value: 45, exact: true });
});

test("a shard that does not answer makes the sum inexact", async () => {
  await world.put("a", { shards: 4 });
  await each(Array.from({ length: 100 }, (_, index) => index), 8, (index) => world.add("a", { unique: `u${index}` }));
  failing(is("cell", ({ name }) => name.startsWith("c1/FRA/2/")), "before");
  const answer = await world.strong("a");
  expect(answer.exact).toBe(false);
  expect(answer.value).toBeLessThan(100);
  expect(answer.datacenters).toMatchObject([{ id: "FRA", reachable: false }]);
  world.mend();
  expect(await world.strong("a")).toMatchObject({ value: 100, exact: true });
});

test("a deletion that cannot stop a datacenter changes nothing, and nothing written there meanwhile is lost", async () => {
  await world.add("a", { delta: 1, unique: "x" }, { colo: "FRA" });
  await world.add("a", { delta: 1 }, { colo: "IAD" });
  failing(ofDatacenter("IAD"), "before");
  await unavailable("DELETE", "/counters/a");
  world.mend();
  // FRA had been stopped for the deletion: it counts on.
  await world.add("a", { delta: 4 }, { colo: "FRA", edge: 1 });
  await world.add("a", { delta: 10 }, { colo: "IAD", edge: 1 });
  expect(await world.strong("a")).toMatchObject({ value: 16, exact: true });

  expect(await world.well("DELETE", "/counters/a")).toMatchObject({ status: "deleted", pending_datacenters: [] });
  await world.refused(404, "counter-not-found", "GET", "/counters/a?consistency=strong");
  await world.add("a", { delta: 2 }, { colo: "IAD" });
  expect(await world.strong("a")).toMatchObject({ value: 2, exact: true, uniques: null });
});

test("a deletion whose answer gets lost on the way to a cell can be repeated", async () => {
  await world.add("a", { delta: 1 }, { colo: "FRA" });
  await world.add("a", { delta: 1 }, { colo: "IAD" });
  failing(ofDatacenter("IAD"), "after");
  await unavailable("DELETE", "/counters/a");
  world.mend();
  await world.well("DELETE", "/counters/a");
  await world.add("a", { delta: 5 }, { colo: "IAD", edge: 1 });
  expect(await world.strong("a")).toMatchObject({ value: 5, exact: true });
});

test("settings that cannot reach a datacenter are set, and reach it later", async () => {
  await world.add("a", undefined, { colo: "FRA" });
  await world.add("a", undefined, { colo: "IAD" });
  failing(ofDatacenter("IAD"), "before");
  expect(await world.put("a", { shards: 4 })).toMatchObject({ exact: false, settings: { shards: 4 } });
  world.mend();
  await until(
    async () => (await world.strong("a")).datacenters.every(({ shards }) => shards === 4), "settings everywhere",
  );
  expect(await world.strong("a")).toMatchObject({ value: 2, exact: true });
});
