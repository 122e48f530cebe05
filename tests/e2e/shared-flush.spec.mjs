// Bodies that arrive together share flushes: each learns of a flush that failed, whoever sent it.
import { afterEach, beforeEach, expect, test } from "vitest";
import { numbers } from "./calls.mjs";
import { openWorld } from "./world.mjs";

const BODIES = 6;
const INCREMENTS = 6;
// A body loses track only if others flush its lines in the few milliseconds that it waits for other bodies.
const ROUNDS = 25;

let world;
beforeEach(async () => {
  world = await openWorld({ faults: true });
});
afterEach(() => world.close());

test("where the flush fails that bodies share, none of them is told that its lines count", async () => {
  await world.add("a");
  world.fail(({ path }) => (path === "/flush" ? "before" : undefined));
  const body = ["a", "a"].map((key) => JSON.stringify({ id: key })).join("\n");
  for (let round = 0; round < ROUNDS; round += 1) {
    // Whoever flushes an increment flushes what has joined meanwhile too.
    const writes = numbers(INCREMENTS).map(() => world.refused(503, "unavailable", "POST", "/counters/a/increment"));
    const bodies = numbers(BODIES).map(() => world.refused(503, "unavailable", "POST", "/events", { body }));
    const reports = (await Promise.all(bodies)).map(({ json }) => json);
    await Promise.all(writes);
    for (const { accepted, rejected, errors, rejected_lines } of reports) {
      expect([accepted, rejected]).toEqual([0, 2]);
      expect(rejected_lines).toEqual([{ code: "unavailable", count: 2, lines: "1-2" }]);
      expect(errors.map(({ line, code }) => [line, code])).toEqual([1, 2].map((line) => [line, "unavailable"]));
    }
  }
  world.mend();
  expect(await world.strong("a")).toMatchObject({ value: 1, exact: true });
});
