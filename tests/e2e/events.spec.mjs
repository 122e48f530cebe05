// Batches of events: a bad line costs that line alone, a body that cannot be read counts nothing.
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openWorld } from "./world.mjs";

const MIB = 1024 * 1024;
const BULK_MIB_MAX = 32;
const ERRORS_MAX = 100;

let world;
beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());

const gzip = { "content-encoding": "gzip" };
const post = (body, options) => world.well("POST", "/events", { body, ...options });
const valueOf = async (id) => (await world.strong(id)).value;
const nothingOf = (id) => world.refused(404, "counter-not-found", "GET", `/counters/${encodeURIComponent(id)}`);
const lines = (events) => events.map((event) => JSON.stringify(event)).join("\n");

test("an array counts", async () => {
  const body = JSON.stringify([{ id: "array" }, { id: "array", delta: 4 }, { id: "array/2", delta: "5" }]);
  expect(await post(body)).toEqual({ accepted: 3, rejected: 0, errors: [] });
  expect([await valueOf("array"), await valueOf("array/2")]).toEqual([5, 5]);
});

test("NDJSON counts, with any line ends and empty lines", async () => {
  const body = '{"id":"lines"}\n\r\n{"id":"lines","delta":2}\r\n  {"id":"lines"}  \n\n{"id":"lines"}';
  expect(await post(body)).toEqual({ accepted: 4, rejected: 0, errors: [] });
  expect(await valueOf("lines")).toBe(5);
});

test("gzip counts, in one member or several", async () => {
  const events = Array.from({ length: 500 }, (_, index) => ({ id: "zipped", unique: `u${index % 50}` }));
  expect(await post(gzipSync(lines(events)), { headers: gzip })).toMatchObject({ accepted: 500, rejected: 0 });
  const two = Buffer.concat([gzipSync('{"id":"zipped"}\n'), gzipSync('{"id":"zipped"}')]);
  expect(await post(two, { headers: gzip })).toMatchObject({ accepted: 2, rejected: 0 });
  const answer = await world.strong("zipped");
  expect([answer.value, answer.uniques.estimate]).toEqual([502, 50]);
});

test("an empty batch counts nothing", async () => {
  for (const body of ["", "[]", "\n\n", " [ ] "]) {
    expect(await post(body), JSON.stringify(body)).toEqual({ accepted: 0, rejected: 0, errors: [] });
  }
});

test("a body of which nothing was counted is refused by its common reason, with the report of its lines", async () => {
  const send = (lines, status, code) => world.refused(status, code, "POST", "/events", { body: lines.join("\n") });
  const bad = ['{"id":"none"', '{"id":"none","delta":0}', '{"id":"none","delta":0}'];
  const { json, headers } = await send(bad, 400, "invalid-delta");
  expect(headers.get("content-type")).toBe("application/problem+json");
  expect(json).toMatchObject({
    accepted: 0,
    rejected: 3,
    errors: [{ line: 1, code: "invalid-json" }, { line: 2, code: "invalid-delta" }, { line: 3 }],
    rejected_lines: [{ code: "invalid-json", lines: "1" }, { code: "invalid-delta", count: 2, lines: "2-3" }],
  });
  await send(bad.slice(0, 1), 400, "invalid-json");
  await world.refused(400, "invalid-line", "POST", "/ingest?format=clf&id=path", { body: "nonsense" });
  await world.refused(404, "counter-not-found", "GET", "/counters/none");
});

const BAD = [
  ["invalid-json", '{"id":"mixed"'],
  ["invalid-json", "nonsense"],
  ["invalid-body", '"mixed"'],
  ["invalid-body", '{"delta":1}'],
  ["invalid-body", '{"id":7}'],
  ["invalid-body", '{"id":"mixed","unique":7}'],
  ["invalid-body", '{"id":"mixed","unique":""}'],
  ["invalid-body", '{"id":"mixed","at":"noon"}'],
  ["unknown-field", '{"id":"mixed","dleta":2}'],
  ["invalid-delta", '{"id":"mixed","delta":0}'],
  ["invalid-delta", '{"id":"mixed","delta":-1}'],
  ["invalid-delta", '{"id":"mixed","delta":1.5}'],
  ["invalid-delta", `{"id":"mixed","delta":"${2n ** 128n}"}`],
  ["invalid-id", '{"id":""}'],
  ["invalid-id", '{"id":"."}'],
  ["invalid-id", '{"id":"a\\u0000b"}'],
  ["invalid-id", JSON.stringify({ id: "x".repeat(513) })],
  ["clock-skew", '{"id":"mixed","at":1000}'],
];

test("a bad line costs that line alone, and is named", async () => {
  const body = BAD.flatMap(([, bad]) => ['{"id":"mixed","unique":"ann"}', bad]).join("\n");
  const report = await post(body);
  expect([report.accepted, report.rejected]).toEqual([BAD.length, BAD.length]);
  expect(report.errors.map(({ line, code }) => [line, code])).toEqual(
    BAD.map(([code], index) => [2 * index + 2, code]),
  );
  expect(report.errors[8].detail).toContain("dleta");
  const answer = await world.strong("mixed", "&window=300");
  expect(answer).toMatchObject({ value: BAD.length, window: { count: BAD.length } });
  expect(answer.uniques.estimate).toBe(1);
});

test("a bad element of an array costs that element alone", async () => {
  const good = BAD.filter(([code]) => code !== "invalid-json");
  const body = `[${good.map(([, bad]) => `{"id":"mixed-array"},${bad}`).join(",")}]`;
  const report = await post(body);
  expect(report.errors.map(({ line, code }) => [line, code])).toEqual(
    good.map(([code], index) => [2 * index + 2, code]),
  );
  expect(await valueOf("mixed-array")).toBe(good.length);
});

test("only the first errors are listed, all are counted", async () => {
  const body = Array.from({ length: 250 }, (_, index) => (index % 2 ? '{"id":"many-errors"}' : "bad")).join("\n");
  const report = await post(body);
  expect([report.accepted, report.rejected, report.errors.length]).toEqual([125, 125, ERRORS_MAX]);
  expect(report.errors.at(-1).line).toBe(2 * ERRORS_MAX - 1);
  const lines = Array.from({ length: 125 }, (_, index) => 2 * index + 1).join(",");
  expect(report.rejected_lines).toEqual([{ code: "invalid-json", count: 125, lines }]);
});

test("an event's own time is taken near the clock and refused beyond", async () => {
  const now_ms = world.now();
  const time = (ahead_ms) => new Date(now_ms + ahead_ms).toISOString();
  const report = await post(
    lines([
      { id: "skew", at: Math.floor((now_ms - 1_000) / 1_000) },
      { id: "skew", at: time(3_000) },
      { id: "skew", at: time(-20_000) },
      { id: "skew", at: time(20_000) },
    ]),
  );
  expect(report.errors.map(({ line, code }) => [line, code])).toEqual([
    [3, "clock-skew"],
    [4, "clock-skew"],
  ]);
  const second = Math.floor((now_ms - 1_000) / 1000);
  const { points } = await world.history("skew", `&step=1s&from=${second}&to=${second + 4}`);
  expect(points.map(([, count]) => count)).toEqual([1, 0, 0, 0, 1]);
});

test("a batch goes to all shards, and adds up", async () => {
  await world.put("batch-shards", { shards: 8 });
  await world.add("batch-shards");
  const events = Array.from({ length: 400 }, (_, index) => ({
    id: "batch-shards", delta: 2, unique: `u${index % 160}`,
  }));
  expect(await post(lines(events))).toMatchObject({ accepted: 400 });
  const answer = await world.strong("batch-shards", "&window=300");
  expect(answer).toMatchObject({ value: 801, exact: true, window: { count: 801 } });
  expect(Math.abs(answer.uniques.estimate - 160)).toBeLessThanOrEqual(3 * answer.uniques.standard_error + 0.5);
});

test("batches at once lose and repeat nothing", async () => {
  const body = lines(Array.from({ length: 300 }, (_, index) => ({ id: `at-once/${index % 7}`, delta: 2 })));
  const reports = await Promise.all(
    Array.from({ length: 12 }, (_, index) => post(body, { colo: index % 2 ? "FRA" : "IAD" })),
  );
  expect(reports.every(({ accepted, rejected }) => accepted === 300 && rejected === 0)).toBe(true);
  expect(await world.well("GET", "/counters/at-once%2F*/aggregate")).toMatchObject({
    counters: 7, value: 7_200, exact: true,
  });
});

describe("a body that cannot be read counts nothing", () => {
  const good = '{"id":"whole-body"}\n';

  test("too large as it is: the client sees 413", async () => {
    const body = Buffer.alloc(BULK_MIB_MAX * MIB + 1, " ");
    body.write(good);
    await world.refused(413, "body-too-large", "POST", "/events", { body });
    await nothingOf("whole-body");
  });

  test("exactly the limit is read", async () => {
    const body = Buffer.alloc(BULK_MIB_MAX * MIB, "\n");
    body.write('{"id":"full-body"}');
    expect(await post(body)).toEqual({ accepted: 1, rejected: 0, errors: [] });
  });

  test("too large once inflated: a bomb", async () => {
    const bomb = gzipSync(Buffer.concat([Buffer.from(good), Buffer.alloc(256 * MIB, "\n")]));
    expect(bomb.length).toBeLessThan(MIB);
    await world.refused(413, "body-too-large", "POST", "/events", { body: bomb, headers: gzip });
    await nothingOf("whole-body");
  });

  test("gzip that breaks off, is damaged, or is none", async () => {
    const whole = gzipSync(good.repeat(5_000));
    const damaged = Buffer.from(whole);
    damaged[damaged.length - 6] ^= 0xff;
    for (const body of [
      whole.subarray(0, whole.length - 20), whole.subarray(0, whole.length - 4), damaged, Buffer.from(good),
    ]) {
      await world.refused(400, "invalid-gzip", "POST", "/events", { body, headers: gzip });
    }
    await nothingOf("whole-body");
  });

  test("an encoding that is not read", async () => {
    for (const encoding of ["br", "deflate", "zstd"]) {
      const headers = { "content-encoding": encoding };
      await world.refused(415, "unsupported-encoding", "POST", "/events", { body: good, headers });
    }
    await nothingOf("whole-body");
  });

  test("a query parameter that is not known", async () => {
    await world.refused(400, "invalid-query", "POST", "/events?dry=1", { body: good });
    await nothingOf("whole-body");
  });
});
