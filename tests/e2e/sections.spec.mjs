// Bodies that are summed and counted section by section: what they hold is counted once, and what of a broken one was
// counted is told.
import { afterAll, beforeAll, expect, test } from "vitest";
import { openWorld } from "./world.mjs";

// A section holds 8 MiB of sums: 52,000 lines with elements under a key, or 12,000 counters.
const LINES = 60_000;
const COUNTERS = 13_000;

let world;
beforeAll(async () => {
  // Tablets open thousands of counters in no time.
  world = await openWorld({ vars: { TALLY_TABLETS: "8" } });
});
afterAll(() => world.close());

const lineOf = (name) => (_, index) => `{"id":"${name}/${index % 7}","unique":"${index}","delta":${1 + (index % 3)}}`;
const linesOf = (name, length) => Array.from({ length }, lineOf(name));
const sumOf = (length) => length + Math.floor(length / 3) + 2 * Math.floor(length / 3);
const namesOf = (name, length) => Array.from({ length }, (_, index) => `{"id":"${name}/${index}"}`);

test("a body of several sections under a key counts once, however often it is sent", async () => {
  const headers = { "idempotency-key": "sections" };
  const body = linesOf("keyed", LINES).join("\n");
  for (const replayed of [null, "true", "true"]) {
    const { json, headers: answerHeaders } = await world.call("POST", "/events", { body, headers });
    expect(json).toEqual({ accepted: LINES, rejected: 0, errors: [] });
    expect(answerHeaders.get("idempotency-replayed")).toBe(replayed);
    expect((await world.well("GET", "/counters/keyed%2F*/aggregate")).value).toBe(sumOf(LINES));
  }
  // Another body that begins with the same section: what follows is another write.
  const { json } = await world.call("POST", "/events", { body: `${body}\n{"id":"keyed/1"}`, headers });
  expect(json.accepted).toBeGreaterThan(LINES / 2);
  expect(json.rejected_lines[0].code).toBe("idempotency-key-reused");
  expect((await world.well("GET", "/counters/keyed%2F*/aggregate")).value).toBe(sumOf(LINES));
}, 60_000);

test("a body that cannot be read to its end says up to which line it was counted, and the rest of it is counted by itself", async () => {
  const lines = namesOf("cut", COUNTERS);
  const { json } = await world.refused(400, "invalid-json", "POST", "/events", { body: `[${lines.join(",")},` });
  const line = Number(json.detail.match(/the lines before line (\d+) were counted/)[1]);
  expect(line).toBeGreaterThan(10_000);
  const rest = lines.slice(line - 1);
  expect(await world.well("POST", "/events", { body: rest.join("\n") })).toMatchObject({
    accepted: rest.length, rejected: 0,
  });
  for (const number of [1, line - 2, line - 1, line, lines.length - 1]) {
    expect((await world.strong(`cut/${number}`)).value, `counter ${number}`).toBe(1);
  }
}, 60_000);

test("bad lines of all sections are named in their order", async () => {
  const lines = linesOf("bad", LINES);
  const bad = [3, 50_000, 59_000];
  for (const number of bad) lines[number - 1] = "{}";
  const report = await world.well("POST", "/events", { body: lines.join("\n"), headers: { "idempotency-key": "bad" } });
  expect(report).toMatchObject({ accepted: LINES - 3, rejected: 3 });
  expect(report.errors.map(({ line }) => line)).toEqual(bad);
}, 60_000);
