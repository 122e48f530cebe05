// Cuts that last longer than keys are kept: 90 s where the deployment keeps them for 60. What nobody but Tally sends again counts once
// all the same.
import { afterEach, expect, test } from "vitest";
import { openWorld, until } from "../world.mjs";

const VARS = { TALLY_IDEMPOTENCY_SECONDS: "60" };
let world;
let isOver;
let calls;
/** Opens a world where the calls that are chosen meet these faults, one after the other, and the last of them until the cut is over. */
async function open(chosen, faults, options = {}) {
  isOver = false;
  calls = 0;
  world = await openWorld({ vars: VARS, faults: true, ...options });
  world.fail((call) => {
    if (isOver) return "over";
    if (!chosen(call)) return undefined;
    calls += 1;
    return faults[Math.min(calls, faults.length) - 1];
  });
}
afterEach(() => world.close());

const send = async (increment) => {
  const answer = await world.call("POST", "/api/event", { body: JSON.stringify({ key: "a", increment }) });
  expect(answer.status, answer.text).toBe(202);
};
const value = async () => (await world.call("GET", "/counters/a?consistency=strong")).json?.value;

test("a message of a queue that comes again", async () => {
  let batches = 0;
  await open(() => false, [], { queue: { maxBatchSize: 100, maxBatchTimeout: 0, maxRetries: 100, retryDelay: 0 } });
  world.fail(({ kind }) => {
    batches += kind === "queue";
    // It is counted and acknowledged, and the platform forgets that.
    return kind === "queue" && batches === 1 ? "after" : batches > 1 ? "over" : undefined;
  });
  await send(3);
  await until(async () => batches > 1, "the message once more");
  await send(4);
  await until(async () => (await value()) === 7, "the value");
});

test("a batch of an inbox whose answer was lost", async () => {
  await open(({ path }) => path === "/count", ["after", "before"]);
  await send(3);
  await until(async () => calls > 1, "an attempt that does not arrive");
  isOver = true;
  await send(4);
  await until(async () => (await value()) === 7, "the value");
});

test("a decrement with a floor of which a copy comes late", async () => {
  let decrements = false;
  await open(({ path }) => decrements && path === "/count", ["cut", undefined]);
  await world.put("a", { floor: 0 });
  await world.add("a", { delta: 10 });
  decrements = true;
  expect(await world.subtract("a", { delta: 3 })).toMatchObject({ value: 7, exact: true });
  isOver = true;
  expect(await value()).toBe(7);
  // The next one is decided after the copy.
  expect(await world.subtract("a", { delta: 3 })).toMatchObject({ value: 4, exact: true });
});
