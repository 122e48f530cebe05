// History, windows, unions, listings and sums over many counters, against brute force over the events.
import { afterAll, beforeAll, expect, test } from "vitest";
import { each, openWorld, randomFrom } from "./world.mjs";

const SEED = 7;
const STEPS = { "1s": 1, "1m": 60, "1h": 3_600, "1d": 86_400 };

let world;
beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());

// Brings events of the past in: `{ at, delta, unique }`, `at` in unix seconds.
async function bringIn(key, events, options) {
  const lines = events.map(({ at, ...event }) => JSON.stringify({ id: key, at, ...event }));
  const body = lines.join("\n");
  const report = await world.well("POST", "/ingest?format=ndjson", { body, ...options });
  expect(report).toEqual({ accepted: events.length, rejected: 0, errors: [] });
}

const count = (events, from, to) =>
  events.filter(({ at }) => at >= from && at <= to).reduce((sum, { delta }) => sum + delta, 0);

test("history equals the events, by every step", async () => {
  const now = Math.floor(world.now() / 1000);
  const random = randomFrom(SEED);
  const reach = { "1s": 600, "1m": 20 * 3_600, "1h": 40 * 86_400, "1d": 900 * 86_400 };
  for (const [step, seconds] of Object.entries(STEPS)) {
    const id = `by-${step}`;
    const events = Array.from({ length: 120 }, () => ({
      at: now - 5 - Math.floor(random() * reach[step]),
      delta: 1 + Math.floor(random() * 5),
    }));
    await bringIn(id, events.slice(0, 60), { colo: "FRA" });
    await bringIn(id, events.slice(60), { colo: "IAD" });
    const points = 400;
    const from = now - points * seconds;
    const answer = await world.history(id, `&step=${step}&from=${from}&to=${now}`);
    expect(answer).toMatchObject({ id, step, exact: true });
    const start = from - (from % seconds);
    const wanted = [];
    for (let at = start; at <= now; at += seconds) wanted.push([at * 1_000, count(events, at, at + seconds - 1)]);
    expect(answer.points).toEqual(wanted);
  }
});

test("the past of years ago is kept by hours and days", async () => {
  const may_2015 = Date.UTC(2015, 4, 17, 10) / 1000;
  await bringIn("years", [
    { at: may_2015 + 5, delta: 2 },
    { at: may_2015 + 3_599, delta: 3 },
    { at: may_2015 + 3_600, delta: 4 },
  ]);
  const hours = await world.history("years", `&step=1h&from=${may_2015}&to=${may_2015 + 3_600}`);
  expect(hours.points).toEqual([
    [may_2015 * 1_000, 5],
    [(may_2015 + 3_600) * 1_000, 4],
  ]);
  const day = may_2015 - 10 * 3_600;
  expect((await world.history("years", `&step=1d&from=${day}&to=${day}`)).points).toEqual([[day * 1_000, 9]]);
  // Seconds and minutes of then are not kept, and 0 would be a lie.
  for (const step of ["1s", "1m"]) {
    const { points, kept_from_at } = await world.history("years", `&step=${step}&from=${may_2015}&to=${may_2015}`);
    expect(points).toEqual([[may_2015 * 1_000, null]]);
    expect(kept_from_at).toBeGreaterThan(may_2015 * 1_000);
  }
});

test("windows equal the events, exactly up to 900 s and within max_error beyond", async () => {
  const now = Math.floor(world.now() / 1000);
  const random = randomFrom(SEED + 1);
  const events = Array.from({ length: 400 }, (_, index) => ({
    at: now - 1 - Math.floor(random() ** 2 * 7_000),
    delta: 1 + Math.floor(random() * 3),
    unique: `visitor-${index % 37}`,
  }));
  await bringIn("windows", events.slice(0, 200), { colo: "FRA" });
  await bringIn("windows", events.slice(200), { colo: "IAD" });
  const look = async (seconds, at) => (await world.strong("windows", `&window=${seconds}&at=${at}`)).window;
  for (const [seconds, at] of [
    [1, now - 3], [1, now - 4], [60, now], [60, now - 33], [300, now], [300, now - 111], [599, now - 280], [900, now],
    [899, now],
  ]) {
    const answer = await look(seconds, at);
    expect(answer, `${seconds} s`).toMatchObject({ seconds, count: count(events, at - seconds + 1, at), max_error: 0 });
  }
  for (const seconds of [901, 1_000, 1_800, 3_600, 6_999, 86_400]) {
    const answer = await look(seconds, now);
    const truth = count(events, now - seconds + 1, now);
    expect(answer.count - truth, `${seconds} s: ${answer.count} for ${truth}`).toBeGreaterThanOrEqual(0);
    expect(answer.count - truth, `${seconds} s: ${answer.count} for ${truth}`).toBeLessThanOrEqual(answer.max_error);
  }
  // A minute less than is kept: the clock goes on while this runs.
  const whole = await look(86_340, now);
  expect(whole.uniques.estimate).toBe(37);
  // Hours and days are kept beyond: 400 days of them.
  expect((await world.strong("windows", "&window=100000")).window.uniques.estimate).toBe(37);
  expect((await world.strong("windows", `&window=${401 * 86_400}`)).window.uniques).toBeNull();
});

test("ranges are refused by their size, not cut", async () => {
  await world.add("ranges");
  const now = Math.floor(world.now() / 1000);
  const ask = (from, to, step) => `/counters/ranges/history?from=${from}&to=${to}&step=${step}`;
  const most = await world.well("GET", ask(now - 9_999 * 60, now, "1m"));
  expect(most.points).toHaveLength(10_000);
  await world.refused(400, "range-too-large", "GET", ask(now - 10_000 * 60, now, "1m"));
  await world.refused(400, "range-too-large", "GET", ask(0, now, "1s"));
  await world.refused(400, "invalid-query", "GET", ask(now, now - 1, "1m"));
  await world.refused(400, "invalid-query", "GET", ask(now, now, "5m"));
});

test("a union counts an element of several counters once", async () => {
  const visit = (id, from, to, colo) =>
    world.well("POST", "/events", {
      body: JSON.stringify(
        Array.from({ length: to - from }, (_, index) => ({ id, unique: `visitor-${from + index}` })),
      ),
      colo,
    });
  await visit("union/a", 0, 600, "FRA");
  await visit("union/b", 400, 1_000, "IAD");
  await visit("union/c", 900, 1_200, "SYD");
  const union = await world.well("GET", "/uniques?id=union%2Fa&id=union%2Fb&consistency=strong");
  expect(union).toMatchObject({ ids: ["union/a", "union/b"], exact: true });
  // A whole element is missed where two have the same token.
  expect(Math.abs(union.estimate - 1_000)).toBeLessThanOrEqual(3 * union.standard_error + 1);
  expect(union.standard_error / 1_000).toBeLessThan(0.02);
  const all = await world.well("GET", "/uniques?id=union%2Fa&id=union%2Fb&id=union%2Fc&window=300");
  expect(Math.abs(all.estimate - 1_200)).toBeLessThanOrEqual(3 * all.standard_error + 1);
  expect(all.window_seconds).toBe(300);
  const same = await world.well("GET", "/uniques?id=union%2Fa&id=union%2Fa&consistency=strong");
  expect(same.estimate).toBe((await world.strong("union/a")).uniques.estimate);
  await world.refused(404, "counter-not-found", "GET", "/uniques?id=union%2Fa&id=union%2Fnone");
  await world.refused(400, "invalid-query", "GET", "/uniques");
});

const LISTED = Array.from({ length: 230 }, (_, index) => `list/${String((index * 97) % 230).padStart(3, "0")}`);

test("a listing is in order, page by page, over all partitions", async () => {
  const body = LISTED.map((key, index) => JSON.stringify({ id: key, delta: index + 1 })).join("\n");
  expect(await world.well("POST", "/events", { body })).toMatchObject({ accepted: 230, rejected: 0 });
  const pages = [];
  let cursor = "";
  do {
    const page = await world.well(
      "GET", `/counters?prefix=list%2F&limit=48${cursor && `&cursor=${encodeURIComponent(cursor)}`}`,
    );
    pages.push(page.entries.map(({ id }) => id));
    cursor = page.cursor;
  } while (cursor !== null && pages.length < 10);
  expect(pages.map((page) => page.length)).toEqual([48, 48, 48, 48, 38]);
  expect(pages.flat()).toEqual([...LISTED].sort());
});

test("a listing knows prefixes, sizes and ends", async () => {
  const names = ["pre", "pre/", "pre/a", "pre/a/b", "pre0", "prf", "pre/\uffff", "pre/😀"];
  for (const id of names) await world.add(id);
  const list = async (query) => (await world.well("GET", `/counters?${query}`)).entries.map(({ id }) => id);
  // By code points, not by the halves of UTF-16.
  expect(await list("prefix=pre%2F")).toEqual(["pre/", "pre/a", "pre/a/b", "pre/\uffff", "pre/😀"]);
  expect(await list("prefix=pre%2Fa%2Fb")).toEqual(["pre/a/b"]);
  expect(await list("prefix=nobody")).toEqual([]);
  const exactly = await world.well("GET", "/counters?prefix=pre%2F&limit=5");
  expect(exactly.cursor).toBeNull();
  for (const limit of ["0", "-1", "1001", "x", "1.5"]) {
    await world.refused(400, "invalid-query", "GET", `/counters?limit=${limit}`);
  }
});

test("an aggregate sums all that begins so", async () => {
  await each(["FRA", "IAD", "SYD"], 3, (colo) => world.add("agg/one", { delta: 10 }, { colo }));
  await world.subtract("agg/two", { delta: 7 });
  await world.add("agg/three", { delta: "9007199254740993" });
  await world.add("aggregate-not", { delta: 1_000 });
  const answer = await world.well("GET", "/counters/agg%2F*/aggregate?consistency=strong");
  expect(answer).toMatchObject({ prefix: "agg/", counters: 3, value: 9007199254741016n, exact: true });
  const text = await world.well("GET", "/counters/agg%2F*/aggregate?consistency=strong&numbers=string");
  expect(text.value).toBe("9007199254741016");
  expect(await world.well("GET", "/counters/nobody*/aggregate?consistency=strong")).toMatchObject({
    counters: 0, value: 0,
  });
  await world.well("DELETE", "/counters/agg%2Fthree");
  expect(await world.well("GET", "/counters/agg%2F*/aggregate?consistency=strong")).toMatchObject({
    counters: 2, value: 23,
  });
  const all = await world.well("GET", "/counters?limit=1000");
  expect((await world.well("GET", "/counters/*/aggregate?consistency=strong")).counters).toBe(all.entries.length);
});

test("an aggregate of a listing equals the sum of its counters", async () => {
  const answer = await world.well("GET", "/counters/list%2F*/aggregate?consistency=strong");
  expect(answer).toMatchObject({ counters: 230, value: (230 * 231) / 2, exact: true });
});
