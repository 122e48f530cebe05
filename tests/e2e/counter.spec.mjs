// One counter: what writes answer, what reads say, and that no number is ever rounded.
import { afterAll, beforeAll, expect, test } from "vitest";
import { each, openWorld } from "./world.mjs";

const U128_MAX = 2n ** 128n - 1n;
const DELTA_MAX = 2n ** 63n;
const SAFE_MAX = Number.MAX_SAFE_INTEGER;

let world;
beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());

test("an increment answers with what it did", async () => {
  const first = await world.add("blog/hello");
  expect(first).toMatchObject({ id: "blog/hello", delta: 1, value: 1, exact: true, status: "ok", datacenter: "FRA" });
  const second = await world.add("blog/hello", { delta: 41 });
  expect(second).toMatchObject({ delta: 41, value: 42, exact: true });
  expect(second.version).not.toBe(first.version);
});

test("a delta may be a decimal string, and a beacon sends text", async () => {
  expect(await world.add("beacon", { delta: "7" })).toMatchObject({ delta: 7, value: 7 });
  const headers = { "content-type": "text/plain" };
  expect(await world.add("beacon", '{"delta":3}', { headers })).toMatchObject({ delta: 3, value: 10 });
  expect(await world.add("beacon", "{}")).toMatchObject({ delta: 1, value: 11 });
});

test("a decrement may go below zero", async () => {
  expect(await world.subtract("below")).toMatchObject({ id: "below", delta: 1, value: -1, exact: true });
  expect(await world.subtract("below", { delta: 9 })).toMatchObject({ delta: 9, value: -10 });
  expect(await world.add("below", { delta: 4 })).toMatchObject({ value: -6 });
  expect((await world.strong("below")).value).toBe(-6);
});

test("a read has all fields, and they are true", async () => {
  const before = world.now();
  await world.add("fields", { delta: 5, unique: "ann" });
  await world.add("fields", { delta: 5, unique: "bob" });
  const after = world.now();
  const answer = await world.read("fields");
  const answered = world.now();
  expect(answer).toMatchObject({ id: "fields", value: 10, exact: true, expires_at: null });
  expect(answer.uniques.estimate).toBe(2);
  expect(answer.uniques.standard_error).toBeLessThan(0.5);
  expect(answer.updated_at).toBeGreaterThanOrEqual(before);
  expect(answer.updated_at).toBeLessThanOrEqual(after);
  expect(answer.as_of).toBeGreaterThanOrEqual(after - 1);
  expect(answer.as_of + answer.staleness_ms).toBeLessThanOrEqual(answered + 1);
  expect(answer.datacenters).toHaveLength(1);
  expect(answer.datacenters[0]).toMatchObject({ id: "FRA", value: 10, shards: 1, reachable: true });
});

test("uniques are null where no element was ever sent", async () => {
  await world.add("no-uniques");
  expect((await world.strong("no-uniques")).uniques).toBeNull();
});

test("an element counts once however often it comes", async () => {
  for (const unique of ["ann", "bob", "ann", "ann", "cid"]) await world.add("again", { unique });
  const answer = await world.strong("again");
  expect(answer.value).toBe(5);
  expect(answer.uniques.estimate).toBe(3);
});

test("a window counts the hits of its seconds alone", async () => {
  await world.add("window", { delta: 6, unique: "ann" });
  const answer = await world.strong("window", "&window=300");
  expect(answer.window).toMatchObject({ seconds: 300, count: 6, max_error: 0 });
  expect(answer.window.uniques.estimate).toBe(1);
  const past = await world.strong("window", `&window=300&at=${Math.floor(world.now() / 1000) - 60}`);
  expect(past.window).toMatchObject({ count: 0, max_error: 0 });
  const now = Math.floor(world.now() / 1000);
  expect((await world.strong("window", `&window=60&at=${now}`)).window.count).toBe(6);
});

test("a write's own time decides its second", async () => {
  const second = Math.floor(world.now() / 1000) - 1;
  await world.add("stamped", { delta: 3, at: new Date(second * 1000 + 999).toISOString() });
  const { points } = await world.history("stamped", `&step=1s&from=${second - 1}&to=${second + 1}`);
  expect(points).toEqual([
    [(second - 1) * 1000, 0],
    [second * 1000, 3],
    [(second + 1) * 1000, 0],
  ]);
});

test("plain text is the number alone", async () => {
  await world.add("text", { delta: 12 });
  const answer = await world.call("GET", "/counters/text", { headers: { accept: "text/plain" } });
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-type")).toMatch(/^text\/plain/);
  expect(answer.text).toBe("12");
});

test("an entity tag names what was seen", async () => {
  await world.add("tagged");
  const path = "/counters/tagged?consistency=strong";
  const first = await world.call("GET", path);
  const etag = first.headers.get("etag");
  expect(etag).toMatch(/^(W\/)?"[^"]+"$/);
  expect(first.headers.get("cache-control")).toBeTruthy();
  const same = await world.call("GET", path, { headers: { "if-none-match": etag } });
  expect([same.status, same.text]).toEqual([304, ""]);
  expect(same.headers.get("etag")).toBe(etag);
  await world.add("tagged");
  const changed = await world.call("GET", path, { headers: { "if-none-match": etag } });
  expect(changed.status).toBe(200);
  expect(changed.json.value).toBe(2);
  expect(changed.headers.get("etag")).not.toBe(etag);
});

test("HEAD answers as GET does, without a body", async () => {
  await world.add("head");
  const answer = await world.call("HEAD", "/counters/head");
  expect([answer.status, answer.text]).toEqual([200, ""]);
});

test("what was never counted is not found", async () => {
  for (const path of ["/counters/nobody", "/counters/nobody?consistency=strong", "/counters/nobody/history"]) {
    await world.refused(404, "counter-not-found", "GET", path);
  }
  await world.refused(404, "counter-not-found", "DELETE", "/counters/nobody");
});

test("an id is what its percent-encoding says", async () => {
  for (const id of ["a/b", "a%2Fb", "ü/€/😀", "a b+c", "*", "…".repeat(170)]) {
    expect((await world.add(id)).id).toBe(id);
    expect(await world.strong(id)).toMatchObject({ id, value: 1 });
  }
});

test("50 increments at once get 50 values", async () => {
  const answers = await each(Array(50).fill("crowd"), 50, (id) => world.add(id));
  const values = answers.map((answer) => answer.value).sort((one, other) => one - other);
  expect(values).toEqual(Array.from({ length: 50 }, (_, index) => index + 1));
  expect(answers.every((answer) => answer.exact)).toBe(true);
});

test("totals beyond 2^53 are exact, as numbers and as strings", async () => {
  await world.add("wide", { delta: SAFE_MAX });
  expect((await world.strong("wide", "&numbers=string")).value).toBe(SAFE_MAX);
  const written = await world.call("POST", "/counters/wide/increment?numbers=string", { body: '{"delta":2}' });
  expect(written.json.value).toBe("9007199254740993");
  expect((await world.strong("wide")).value).toBe(9007199254740993n);
  const answer = await world.strong("wide", "&numbers=string&window=60");
  expect(answer.value).toBe("9007199254740993");
  expect(answer.datacenters[0].value).toBe("9007199254740993");
  expect(answer.window.count).toBe("9007199254740993");
  const { points } = await world.history("wide", "&step=1d&numbers=string");
  expect(points.reduce((sum, [, count]) => sum + BigInt(count), 0n)).toBe(9007199254740993n);
  const text = await world.call("GET", "/counters/wide?consistency=strong", { headers: { accept: "text/plain" } });
  expect(text.text).toBe("9007199254740993");
});

test("a number in a body is read to its last digit", async () => {
  expect(await world.add("digits", '{"delta":9007199254740993}')).toMatchObject({ delta: 9007199254740993n });
  expect((await world.strong("digits")).value).toBe(9007199254740993n);
});

test("one increment cannot keep a counter from counting", async () => {
  await world.add("attacked", { delta: 7 });
  const others = Array.from({ length: 9 }, () => world.well("POST", "/counters/attacked/increment"));
  const refused = [U128_MAX - 7n, U128_MAX, DELTA_MAX + 1n].map((delta) =>
    world.refused(400, "invalid-delta", "POST", "/counters/attacked/increment", {
      body: JSON.stringify({ delta: String(delta) }),
    }),
  );
  await Promise.all([...others, ...refused]);
  expect((await world.add("attacked", { delta: String(DELTA_MAX) })).value).toBe(DELTA_MAX + 16n);
  expect((await world.add("attacked")).value).toBe(DELTA_MAX + 17n);
});

test("an amount is at most 2^63, whichever way it comes", async () => {
  const wide = String(DELTA_MAX + 1n);
  const send = (path, body) => world.call("POST", path, { body: JSON.stringify(body) });
  for (const [path, body] of [
    ["/counters/too-wide/increment", { delta: wide }],
    ["/counters/too-wide/decrement", { delta: wide }],
    ["/api/event", { key: "too-wide", increment: wide }],
  ]) {
    const { status, json } = await send(path, body);
    expect([status, json.code], path).toEqual([400, "invalid-delta"]);
  }
  const { json } = await send("/events", { id: "too-wide", delta: wide });
  expect(json.errors).toMatchObject([{ line: 1, code: "invalid-delta" }]);
  await world.refused(404, "counter-not-found", "GET", "/counters/too-wide");
});

test("a counter that was set to 2^128 - 1 counts on, past it, and after a reset", async () => {
  await world.well("PUT", "/counters/set-full/value", { body: JSON.stringify({ value: String(U128_MAX) }) });
  expect((await world.add("set-full")).value).toBe(U128_MAX + 1n);
  expect((await world.add("set-full", { delta: 5 }, { colo: "IAD" })).value).toBe(U128_MAX + 6n);
  expect((await world.strong("set-full")).value).toBe(U128_MAX + 6n);
  await world.well("PUT", "/counters/set-full/value", { body: '{"value":0}' });
  expect((await world.add("set-full")).value).toBe(1);
});
