// One batch that opens thousands of objects: nothing is lost, and what is too much is named.
import { afterAll, beforeAll, expect, test } from "vitest";
import { openWorld } from "./world.mjs";

const ERRORS_MAX = 100;
// A first opening costs 5 to 10 ms on 2 cores, with other specs beside it: 3,000 of them, 30 s.
const BATCH_MS_MAX = 110_000;

let world;
beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());

test("a batch opens thousands of counters at once, and says which are too many", async () => {
  const events = Array.from({ length: 3_200 }, (_, index) => ({ key: `thousands/${index}`, increment: (index % 3) + 1 }));
  const report = await world.well("POST", "/events", { body: events.map((event) => JSON.stringify(event)).join("\n") });
  expect(report.accepted + report.rejected).toBe(events.length);
  expect(report.accepted).toBe(3_000);
  // Lines of counters that fit come first, and a line beyond them is refused by name.
  const wanted = Array.from({ length: ERRORS_MAX }, (_, index) => [report.accepted + 1 + index, "too-many-counters"]);
  expect(report.errors.map(({ line, code }) => [line, code])).toEqual(wanted);
  const sum = events.slice(0, report.accepted).reduce((total, { increment }) => total + increment, 0);
  const seen = await world.well("GET", "/counters/thousands%2F*/aggregate");
  expect(seen).toMatchObject({ counters: report.accepted, value: sum, exact: true });
}, BATCH_MS_MAX);
