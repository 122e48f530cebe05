// How samples are distributed: over datacenters and shards, through restarts, each counted once with its write.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { numbers } from "./calls.mjs";
import { databasesOf, withDatabase } from "./databases.mjs";
import { TABLETS, each, openWorld, randomFrom } from "./world.mjs";

const SEED = 8;
const MAX_RELATIVE_ERROR = 1 / 128;
const COLOS = ["FRA", "IAD", "SYD"];
const NOTHING = { count: 0, min: null, max: null, mean: null, p50: null, p90: null, p99: null, p999: null };
const PERCENTILES = { p50: 0.5, p90: 0.9, p99: 0.99, p999: 0.999 };

let world;
afterEach(async () => {
  await world?.close();
  world = undefined;
});

const look = (id, query = "", options) =>
  world.well("GET", `/counters/${encodeURIComponent(id)}/distribution?consistency=strong${query}`, options);

// Latencies: most near 20, some a hundred times as long, in hundredths as a client would round them.
const latencies = (length, random) => numbers(length).map(() => Math.round(2_000 * Math.exp(4 * random() ** 3)) / 100);

// What is told of these samples, by brute force: the smallest that so many do not exceed.
function expectOf(answer, samples) {
  const sorted = [...samples].sort((one, other) => one - other);
  expect(answer).toMatchObject({
    count: sorted.length, min: sorted[0], max: sorted.at(-1), max_relative_error: MAX_RELATIVE_ERROR,
  });
  const mean = sorted.reduce((sum, sample) => sum + sample, 0) / sorted.length;
  expect(Math.abs(answer.mean - mean)).toBeLessThanOrEqual(1e-9 * mean);
  for (const [name, part] of Object.entries(PERCENTILES)) {
    const truth = sorted[Math.ceil(part * sorted.length) - 1];
    expect(Math.abs(answer[name] - truth), `${name}: ${answer[name]} for ${truth}`).toBeLessThanOrEqual(
      MAX_RELATIVE_ERROR * truth,
    );
  }
}

describe("without faults", () => {
  beforeEach(async () => {
    world = await openWorld({ edges: 2 });
  });

  test("increments and events of several datacenters and shards are in one distribution", async () => {
    const random = randomFrom(SEED);
    const [single, many] = [latencies(60, random), latencies(400, random)];
    await world.put("latency", { shards: 4 });
    await each(single, 6, (sample, index) =>
      world.add("latency", { sample }, { colo: COLOS[index % 3], edge: index % 2 }),
    );
    await each(COLOS, 3, (colo, index) => {
      const lines = many
        .filter((_, place) => place % 3 === index)
        .map((sample) => JSON.stringify({ id: "latency", sample }));
      return world.well("POST", "/events", { body: lines.join("\n"), colo, edge: index % 2 });
    });
    // Writes without samples are in no distribution.
    await world.add("latency", { delta: 100 });
    const answer = await look("latency");
    expectOf(answer, [...single, ...many]);
    expect(answer).toMatchObject({ id: "latency", exact: true, staleness_ms: expect.any(Number) });
    expect(answer.window.seconds).toBe(3_600);
    expect(answer.window.starts_at % 60_000).toBe(0);
    expect(answer.datacenters.map(({ id, reachable }) => [id, reachable])).toEqual(COLOS.map((colo) => [colo, true]));
    expect((await world.strong("latency")).value).toBe(560);
    const here = await look("latency", "&datacenter=IAD");
    const own = (samples) => samples.filter((_, place) => place % 3 === 1);
    expectOf(here, [...own(single), ...own(many)]);
    expect(here.datacenters).toMatchObject([{ id: "IAD", count: here.count, reachable: true }]);
    expect(here.count + answer.datacenters[0].count + answer.datacenters[2].count).toBe(answer.count);
  });

  test("a sample is the double nearest to its text, in an increment and in a line", async () => {
    const texts = ["17592186022802.777", "9.313225746154785e-10", "0.1", "16e-1", "3", "1234567890.1234567"];
    for (const [index, text] of texts.entries()) {
      await world.add(`one-${index}`, `{"sample":${text}}`);
      await world.well("POST", "/events", { body: `{"id":"line-${index}", "sample":${text}}` });
      for (const id of [`one-${index}`, `line-${index}`]) {
        expect(await look(id), text).toMatchObject({ min: Number(text), max: Number(text), exact: true });
      }
    }
    for (const text of ['"1"', "true", "[1]", "{}", "null", "1e999", "-1", "9.31e-10"]) {
      await world.refused(400, "invalid-body", "POST", "/counters/wrong/increment", { body: `{"sample":${text}}` });
    }
    const { json } = await world.call("POST", "/counters/wrong/increment", { body: '{"sample":"1"}' });
    expect(json.detail).toContain('invalid type: string "1", expected a number');
  });

  test("percentiles over time are those of each step, over datacenters and shards", async () => {
    const random = randomFrom(SEED + 1);
    await world.put("steps", { shards: 2 });
    const begin = Math.floor(world.now() / 60_000) * 60 + 60;
    await world.advance((begin + 1) * 1_000 - world.now());
    const minutes = [];
    for (const minute of numbers(70)) {
      const samples = minute % 7 === 3 ? [] : latencies(4, random);
      minutes.push(samples);
      await each(samples, 4, (sample, index) => world.add("steps", { sample }, { colo: COLOS[index % 3] }));
      await world.advance((begin + 60 * (minute + 1) + 1) * 1_000 - world.now());
    }
    const to = begin + 60 * 70 - 1;
    const series = await look("steps", `&step=1m&from=${begin}&to=${to}`);
    expect(series).toMatchObject({ id: "steps", step: "1m", exact: true, max_relative_error: MAX_RELATIVE_ERROR });
    const starts = series.points.map(({ starts_at }) => starts_at / 1000);
    expect(starts).toEqual(minutes.map((_, minute) => begin + 60 * minute));
    const within = (told, samples, part) => {
      const truth = [...samples].sort((one, other) => one - other)[Math.ceil(part * samples.length) - 1];
      expect(Math.abs(told - truth)).toBeLessThanOrEqual(MAX_RELATIVE_ERROR * truth);
    };
    for (const [minute, { count, mean, p50, p95, p99 }] of series.points.entries()) {
      const samples = minutes[minute];
      expect(count).toBe(samples.length);
      if (count === 0) expect([mean, p50, p95, p99]).toEqual([null, null, null, null]);
      else for (const [told, part] of [[p50, 0.5], [p95, 0.95], [p99, 0.99]]) within(told, samples, part);
    }
    const hours = await look("steps", `&step=1h&from=${begin}&to=${to}`);
    expect(hours.points.reduce((sum, { count }) => sum + count, 0)).toBe(minutes.flat().length);
    const iad = await look("steps", `&step=1d&from=${begin}&datacenter=IAD&numbers=string`);
    const written = minutes.filter((some) => some.length > 0).length;
    expect(iad.points.reduce((sum, { count }) => sum + Number(count), 0)).toBe(written);
    // What is not kept by the minute is unknown, not nothing.
    const old = await look("steps", `&step=1m&from=${begin - 90_000}&to=${to}`);
    const unknown = old.points.filter(({ starts_at }) => starts_at < old.kept_from_at);
    expect(unknown.length).toBeGreaterThan(50);
    expect(unknown.every(({ count, p50 }) => count === null && p50 === null)).toBe(true);
    expect(old.points.slice(-70)).toEqual(series.points);
    const gone = await look("steps", `&step=1m&from=${begin - 900_000}&to=${begin - 899_000}`);
    expect(gone.points.map(({ count }) => count)).toEqual(Array(gone.points.length).fill(null));
    const path = "/counters/steps/distribution?";
    await world.refused(400, "invalid-query", "GET", `${path}step=1s`);
    await world.refused(400, "invalid-query", "GET", `${path}step=1m&window=60`);
    await world.refused(400, "invalid-query", "GET", `${path}from=${begin}`);
    await world.refused(400, "range-too-large", "GET", `${path}step=1m&from=${begin - 600_000}`);
    await world.refused(404, "counter-not-found", "GET", "/counters/none/distribution?step=1m");
  });

  test("a key counts its sample once, from wherever it is sent again", async () => {
    const add = (sample, options) =>
      world.call("POST", "/counters/a/increment", {
        body: JSON.stringify({ sample }), headers: { "idempotency-key": "k" }, ...options,
      });
    const first = await add(12.3);
    for (const options of [{}, { colo: "IAD" }, { edge: 1 }]) expect((await add(12.3, options)).text).toBe(first.text);
    // Another sample is another write.
    expect((await add(12.4)).json.code).toBe("idempotency-key-reused");
    const lines = JSON.stringify([{ id: "a", sample: 1, idempotency_key: "e" }, { id: "a", sample: 2 }]);
    const headers = { "idempotency-key": "batch" };
    for (const colo of ["FRA", "IAD"]) {
      expect(await world.well("POST", "/events", { body: lines, headers, colo })).toMatchObject({
        accepted: 2, rejected: 0,
      });
    }
    const body = '[{"id":"a","sample":3,"idempotency_key":"e"}]';
    await world.refused(422, "idempotency-key-reused", "POST", "/events", { body });
    expect(await look("a")).toMatchObject({ count: 3, min: 1, max: 12.3, mean: expect.closeTo(5.1, 9) });
    expect((await world.strong("a")).value).toBe(3);
  });

  test("a home has the samples of all datacenters, and a write that is refused leaves none", async () => {
    await world.put("a", { home: "SYD" });
    await each(COLOS, 3, (colo, index) => world.add("a", { sample: index + 1 }, { colo }));
    const { version } = await world.read("a", "?consistency=strong");
    const headers = { "if-match": `"${version}"` };
    const conditional = { body: '{"sample":10}', headers };
    await world.well("POST", "/counters/a/increment", conditional);
    await world.refused(412, "precondition-failed", "POST", "/counters/a/increment", conditional);
    const answer = await look("a");
    expect(answer).toMatchObject({ count: 4, min: 1, max: 10, exact: true });
    expect(answer.datacenters).toMatchObject([{ id: "SYD", count: 4 }]);
  });

  test("a set and a reset leave samples, a deletion does not", async () => {
    await world.add("a", { sample: 5 });
    await world.well("PUT", "/counters/a/value", { body: '{"value":100}' });
    await world.well("PUT", "/counters/a/value", { body: '{"value":0}' });
    expect(await look("a")).toMatchObject({ count: 1, p50: 5, exact: true });
    await world.well("DELETE", "/counters/a");
    await world.refused(404, "counter-not-found", "GET", "/counters/a/distribution");
    await world.add("a");
    expect(await look("a")).toMatchObject({ ...NOTHING, exact: true });
  });

  test("a counter without samples has none, and one that is unknown is unknown", async () => {
    await world.add("a");
    expect(await look("a")).toMatchObject({ ...NOTHING, max_relative_error: MAX_RELATIVE_ERROR, exact: true });
    await world.refused(404, "counter-not-found", "GET", "/counters/nobody/distribution");
  });

  test("a window holds the minutes that it covers, and hours where it begins a day ago", async () => {
    await world.add("a", { sample: 7 });
    const now = Math.floor(world.now() / 1000);
    const answer = await look("a", "&window=60");
    expect(answer).toMatchObject({ count: 1, window: { seconds: 60 } });
    expect(answer.window.ends_at).toBeGreaterThan(now * 1_000);
    const before = await look("a", `&window=60&at=${now - 180}`);
    expect(before).toMatchObject(NOTHING);
    const minute = now - 239 - ((now - 239) % 60);
    expect(before.window).toMatchObject({
      starts_at: minute * 1_000, ends_at: (minute + 120 - (now % 60 === 59 ? 60 : 0)) * 1_000,
    });
    const long = await look("a", "&window=7775999");
    expect(long).toMatchObject({ count: 1, p50: 7, exact: true, window: { seconds: 7_775_999 } });
    expect(long.window.starts_at % 3_600_000).toBe(0);
    // A window ends now at the latest: one that begins then is the same, and one that would look through years is
    // refused.
    const begins = async (more) => (await look("a", `&window=3600${more}`)).window.starts_at;
    expect((await begins("&at=253402300799")) - (await begins(""))).toBeOneOf([0, -60_000]);
    for (const query of [
      "window=157766400&at=253402300799", "window=0", "window=7776001", "window=x", "window=3600&at=1", "step=1s",
      "consistency=weak",
    ]) {
      await world.refused(400, "invalid-query", "GET", `/counters/a/distribution?${query}`);
    }
    await world.refused(405, "method-not-allowed", "POST", "/counters/a/distribution");
  });

  test("what is no sample is refused, and nothing is counted", async () => {
    await world.add("a", { sample: 0 });
    for (const sample of ["-1", "1e-10", "17592186044416", "1e300", '"12.3"', "null", "true", "[1]"]) {
      await world.refused(400, "invalid-body", "POST", "/counters/a/increment", { body: `{"sample":${sample}}` });
    }
    await world.refused(400, "invalid-json", "POST", "/counters/a/increment", { body: '{"sample":NaN}' });
    await world.refused(400, "invalid-body", "POST", "/counters/a/decrement", { body: '{"sample":1}' });
    await world.refused(400, "unknown-field", "POST", "/api/event", { body: '{"key":"a","sample":1}' });
    const report = await world.well("POST", "/events", { body: '[{"id":"a","sample":-1},{"id":"a","sample":4}]' });
    expect(report).toMatchObject({ accepted: 1, rejected: 1, errors: [{ line: 1, code: "invalid-body" }] });
    expect(await look("a")).toMatchObject({ count: 2, min: 0, max: 4, mean: 2 });
    expect((await world.strong("a")).value).toBe(2);
  });

  test("a counter with many samples shares its view, and tells how old it is", async () => {
    await world.add("a", { sample: 1 });
    const answer = await world.well("GET", "/counters/a/distribution");
    expect(answer).toMatchObject({ count: 1, p50: 1 });
    const written = await world.add("a", { sample: 2 });
    const later = await world.well("GET", `/counters/a/distribution?at_least=${written.version}`);
    expect(later).toMatchObject({ count: 2, max: 2 });
  });
});

describe("with a disk", () => {
  let folder;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "tally-e2e-"));
    world = await openWorld({ folder });
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test("samples are there after evictions and a restart, also those of sealed shards", async () => {
    const random = randomFrom(SEED + 1);
    const samples = latencies(40, random);
    await world.put("a", { shards: 4 });
    // Elements spread the writes over the shards.
    await each(samples.slice(0, 20), 4, (sample, index) => world.add("a", { sample, unique: `u${index}` }));
    await world.evict();
    await each(samples.slice(20), 4, (sample, index) => world.add("a", { sample, unique: `v${index}` }));
    await world.put("a", { shards: 1 });
    await world.add("a");
    expectOf(await look("a"), samples);
    await world.close();
    world = await openWorld({ folder });
    const answer = await look("a");
    expectOf(answer, samples);
    expect(answer.exact).toBe(true);
  });
});

describe("with a disk and a past", () => {
  const [MINUTES, HOURS] = [10, 11];
  let folder;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "tally-e2e-"));
    world = await openWorld({ folder });
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  // Does something with the rows of the one cell there is.
  const withRows = (work) => withDatabase(databasesOf(folder, "Cell")[0], work);
  const starts = (kind) =>
    withRows((rows) => rows.prepare("SELECT start FROM rows WHERE kind = ? ORDER BY start").all(kind)).map(
      ({ start }) => start,
    );

  test.skipIf(TABLETS)("old minutes become an hour with the next new minute, and are told as before", async () => {
    await world.add("a");
    await world.close();
    expect([starts(MINUTES), starts(HOURS)], "nothing is paid without samples").toEqual([[], []]);
    world = await openWorld({ folder });
    await world.add("a", { sample: 3 });
    await world.close();
    const now = Math.floor(world.now() / 1000);
    const hour = now - (now % 3_600) - 30 * 3_600;
    withRows((rows) => {
      const copy = "INSERT INTO rows SELECT kind, ?, body FROM rows WHERE kind = ? LIMIT 1";
      for (const start of [hour, hour + 60, hour + 3_600]) rows.prepare(copy).run(start, MINUTES);
      rows.prepare("DELETE FROM rows WHERE kind = ? AND start > ?").run(MINUTES, hour + 3_600);
    });
    expect(starts(MINUTES)).toEqual([hour, hour + 60, hour + 3_600]);
    world = await openWorld({ folder });
    expect(await look("a", "&window=172800")).toMatchObject({ count: 3, p50: 3 });
    await world.add("a", { sample: 5 });
    const answer = await look("a", "&window=172800");
    expect(answer).toMatchObject({ count: 4, min: 3, max: 5, mean: 3.5, exact: true });
    const there = await look("a", `&window=60&at=${hour + 1_800}`);
    expect(there).toMatchObject({ count: 2, window: { starts_at: hour * 1_000, ends_at: (hour + 3_600) * 1_000 } });
    await world.close();
    world = undefined;
    expect(starts(HOURS)).toEqual([hour]);
    expect(starts(MINUTES)).toEqual([hour + 3_600, expect.any(Number)]);
  });
});

describe("with faults", () => {
  test("a flush whose answer is lost counts its samples once, and a silent datacenter is named", async () => {
    world = await openWorld({ faults: true });
    await world.add("a", { sample: 1 }, { colo: "FRA" });
    await world.add("a", { sample: 2 }, { colo: "IAD" });
    let lost = 0;
    world.fail(({ path }) => (path === "/flush" && lost++ === 0 ? "after" : undefined));
    await world.add("a", { sample: 3 }, { colo: "FRA" });
    world.fail(({ path }) => (path === "/count" && lost++ === 2 ? "after" : undefined));
    await world.add("a", { sample: 4 }, { colo: "FRA", headers: { "idempotency-key": "k" } });
    world.mend();
    expect(lost).toBeGreaterThanOrEqual(3);
    expect(await look("a")).toMatchObject({ count: 4, min: 1, max: 4, mean: 2.5, exact: true });
    world.fail(({ name, path }) => (path === "/sum" && name.includes("IAD") ? "before" : undefined));
    const answer = await look("a");
    expect(answer).toMatchObject({ count: 3, max: 4, exact: false });
    expect(answer.datacenters).toMatchObject([
      { id: "FRA", count: 3, reachable: true },
      { id: "IAD", count: 0, reachable: false },
    ]);
    expect(answer.staleness_ms).toBeGreaterThan(0);
  });
});
