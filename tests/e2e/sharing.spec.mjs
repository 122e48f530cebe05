// What requests share: one fetch for many readers, one flush for many writers, and never more calls than the platform
// allows.
import { afterEach, beforeEach, expect, test } from "vitest";
import { numbers } from "./calls.mjs";
import { each, openWorld, until } from "./world.mjs";

let world;
let calls;
beforeEach(async () => {
  calls = [];
  world = await openWorld({ faults: true });
  world.fail((call) => void calls.push(call));
});
afterEach(() => world.close());

// Reads take so long that whoever asks at the same time finds one under way.
const HELD_MS = 1_500;
const holdReads = () =>
  world.fail(async (call) => {
    calls.push(call);
    if (call.path === "/read") await world.advance(HELD_MS);
  });

const counted = (path) => calls.filter((call) => call.path === path).length;

test("a cold key that everybody reads at once is fetched once", async () => {
  await world.add("a", { delta: 7 });
  calls = [];
  holdReads();
  const answers = await Promise.all(numbers(60).map(() => world.read("a")));
  expect(counted("/read")).toBe(1);
  expect(answers.filter(({ exact }) => exact).length).toBe(1);
  for (const { value, staleness_ms } of answers) {
    expect(value).toBe(7);
    expect(staleness_ms).toBeLessThanOrEqual(5_000);
  }
});

test("a counter that does not exist is not fetched by each of its readers either", async () => {
  holdReads();
  const refused = await Promise.all(
    numbers(40).map(() => world.refused(404, "counter-not-found", "GET", "/counters/none")),
  );
  expect(refused.length).toBe(40);
  expect(counted("/read")).toBe(1);
});

test("an aggregate that everybody asks for is fetched once, and given again for half a second", async () => {
  for (const id of ["sum/a", "sum/b"]) await world.add(id, { delta: 7 });
  let go;
  const held = new Promise((done) => (go = done));
  calls = [];
  world.fail(async (call) => {
    calls.push(call);
    if (call.path === "/sum-many") await held;
  });
  const path = "/counters/sum%2F*/aggregate";
  const reads = numbers(30).map((index) => world.well("GET", index % 2 ? path : `${path}?numbers=string`));
  await until(() => counted("/sum-many") === 1);
  go();
  const answers = await Promise.all(reads);
  expect(counted("/sum-many")).toBe(1);
  expect(answers.every(({ counters, value }) => counters === 2 && value === 14)).toBe(true);
  expect(answers.filter(({ exact }) => exact).length).toBe(1);
  await world.add("sum/a");
  expect(await world.well("GET", `${path}?consistency=strong`)).toMatchObject({ value: 15, exact: true });
  // A view grows old.
  await until(async () => (await world.well("GET", path)).value === 15);
});

test("writes that arrive together share flushes, and each has its own value", async () => {
  await world.add("a");
  calls = [];
  const values = await Promise.all(numbers(200).map(async () => (await world.add("a")).value));
  expect(new Set(values).size).toBe(200);
  expect(Math.max(...values)).toBe(201);
  expect(counted("/flush")).toBeLessThanOrEqual(120);
});

test("a flush that fails for good refuses all its writes, and counts none", async () => {
  await world.add("a");
  world.fail(({ path }) => (path === "/flush" ? "before" : undefined));
  await Promise.all(
    numbers(20).map(async () => {
      const answer = await world.refused(503, "unavailable", "POST", "/counters/a/increment");
      expect(Number(answer.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    }),
  );
  world.mend();
  expect(await world.strong("a")).toMatchObject({ value: 1, exact: true });
});

test("a flush whose answer is lost is repeated and counts once", async () => {
  await world.add("a");
  let lost = 0;
  world.fail(({ path }) => (path === "/flush" && lost++ % 2 === 0 ? "after" : undefined));
  await Promise.all(numbers(50).map(() => world.add("a", { delta: 2 })));
  world.mend();
  expect(lost).toBeGreaterThan(1);
  expect(await world.strong("a")).toMatchObject({ value: 101, exact: true });
});

test("a bulk body sends each cell one message", async () => {
  const shards = 8;
  const counters = 6;
  await each(numbers(counters), 6, (index) => world.put(`many/${index}`, { shards }));
  // The isolate learns of the shards from its first write.
  await each(numbers(counters), 6, (index) => world.add(`many/${index}`));
  const lines = numbers(counters * 200).map((index) => ({
    id: `many/${index % counters}`, unique: `visitor ${index}`,
  }));
  const body = lines.map((line) => JSON.stringify(line)).join("\n");
  // Cells are opened by the first, which may take so long that a message is sent again.
  await world.well("POST", "/events", { body });
  calls = [];
  expect(await world.well("POST", "/events", { body })).toEqual({ accepted: lines.length, rejected: 0, errors: [] });
  const flushed = calls.filter(({ path }) => path === "/flush").map(({ name }) => name);
  expect(new Set(flushed).size).toBe(counters * shards);
  expect(flushed.length).toBe(counters * shards);
  const answer = await world.well("GET", "/counters/many%2F*/aggregate");
  expect(answer).toMatchObject({ value: 2 * lines.length + counters, exact: true });
  for (const index of numbers(counters)) expect((await world.strong(`many/${index}`)).uniques.estimate).toBe(200);
});

test("clients that hang up change nothing for the others", async () => {
  await world.add("a");
  const visit = async (hangsUp) => {
    const client = new AbortController();
    if (hangsUp) setImmediate(() => client.abort());
    const answer = world.call("POST", "/counters/a/increment", { signal: client.signal });
    return hangsUp ? answer.catch(() => undefined) : (await answer).json;
  };
  // The first of every round hangs up, so whoever leads the batch is often one that is gone.
  let sent = 1;
  const values = [];
  for (let round = 0; round < 15; round += 1) {
    const answers = await Promise.all(numbers(16).map((index) => visit(index % 2 === 0)));
    sent += 16;
    values.push(...answers.filter((answer, index) => index % 2 !== 0).map(({ value }) => value));
  }
  expect(values.length).toBe(15 * 8);
  expect(new Set(values).size).toBe(values.length);
  // Those that hung up are counted or not; nothing else is, and the counter goes on.
  const { value } = await world.strong("a");
  expect(value).toBeGreaterThanOrEqual(values.length + 1);
  expect(value).toBeLessThanOrEqual(sent);
  await until(async () => (await world.add("a")).exact, "exact values");
});
