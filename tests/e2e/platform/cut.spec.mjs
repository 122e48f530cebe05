// Cuts that last longer than keys are kept: 90 s where the deployment keeps them for 60. What nobody but Tally sends
// again counts once all the same.
import { afterEach, expect, test } from "vitest";
import { openWorld, until } from "../world.mjs";

const OVER = "over 90000";
const VARS = { TALLY_IDEMPOTENCY_SECONDS: "60" };
let world;
let isOver;
let calls;
/**
 * Opens a world where the calls that are chosen meet these faults, one after the other, and the last of them until the
 * cut is over.
 */
async function open(chosen, faults, options = {}) {
  isOver = false;
  calls = 0;
  world = await openWorld({ vars: VARS, faults: true, ...options });
  world.fail((call) => {
    if (isOver) return OVER;
    if (!chosen(call)) return undefined;
    calls += 1;
    return faults[Math.min(calls, faults.length) - 1];
  });
}
afterEach(() => world.close());

const send = async (increment, options) => {
  const body = JSON.stringify({ key: "a", increment });
  const answer = await world.call("POST", "/api/event", { ...options, body });
  expect(answer.status, answer.text).toBe(202);
};
const value = async () => (await world.call("GET", "/counters/a?consistency=strong")).json?.value;

test("a message of a queue that comes again", async () => {
  let batches = 0;
  await open(() => false, [], { queue: { maxBatchSize: 100, maxBatchTimeout: 0, maxRetries: 100, retryDelay: 0 } });
  world.fail(({ kind }) => {
    batches += kind === "queue";
    // It is counted and acknowledged, and the platform forgets that.
    return kind === "queue" && batches === 1 ? "after" : batches > 1 ? OVER : undefined;
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

const QUEUE = { maxBatchSize: 100, maxBatchTimeout: 0, maxRetries: 100 };
const read = (query = "") => world.well("GET", `/counters/a${query}`);
const STRONG = "?consistency=strong";

test("a queue that may hold nothing any more leaves reads exact, and not a day before", async () => {
  const DAY_MS = 86_400_000;
  // Whoever has put it there ends without a word.
  const ahead = (days) => world.fail(({ path }) => (path === "/close-session" ? "before" : `over ${days * DAY_MS}`));
  await open(() => false, [], { queue: QUEUE, edges: 2 });
  ahead(0);
  await send(3);
  await until(async () => (await value()) === 3, "the value");
  for (const days of [0, 14, 47]) {
    ahead(days);
    for (const query of [STRONG, ""]) expect(await read(query), `after ${days} days`).toMatchObject({ exact: false });
  }
  ahead(50);
  expect(await read(STRONG)).toMatchObject({ value: 3, exact: true });
  await until(async () => (await read()).exact, "an exact default read");
  await until(async () => (await world.add("a", { delta: 1 })).exact, "an exact answer to a write");
  // The next event is known of before it is acknowledged.
  await send(4, { edge: 1 });
  expect(await read(STRONG)).toMatchObject({ exact: false });
});

test("a queue that was drained leaves reads exact soon after its last event", async () => {
  world = await openWorld({ queue: QUEUE });
  await send(3);
  expect(await read(STRONG)).toMatchObject({ exact: false });
  await until(async () => (await read(STRONG)).exact, "an exact strong read", 60_000);
  expect(await read(STRONG)).toMatchObject({ value: 3, exact: true });
  await until(async () => (await read()).exact, "an exact default read");
}, 90_000);
