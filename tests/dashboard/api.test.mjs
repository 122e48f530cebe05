// Reads that a budget refuses: they come again when the service says so, a change never does.
import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";

globalThis.document = { hidden: false, addEventListener: () => {}, removeEventListener: () => {} };
globalThis.sessionStorage = { getItem: () => null };
const { json, send } = await import("../../dashboard/api.js");

const problem = JSON.stringify({ code: "budget-exceeded", detail: "too many reads" });
let requests = [];

/** Has the service refuse so many calls, with a `Retry-After` in seconds. */
function refusing(times, retry_after) {
  requests = [];
  globalThis.fetch = async (path, { method }) => {
    requests.push(`${method} ${path}`);
    return requests.length <= times
      ? new Response(problem, { status: 429, headers: { "retry-after": String(retry_after) } })
      : new Response("7");
  };
}

/** Lets timers run until a call is settled. Resolves to its value, or to its error. */
async function settled(call) {
  let outcome;
  call.then((value) => (outcome = { value }), (error) => (outcome = { error }));
  for (let round = 0; outcome === undefined && round < 1_000; round += 1) {
    await new Promise((done) => setImmediate(done));
    mock.timers.tick(100);
  }
  return outcome.value ?? outcome.error;
}

beforeEach(() => {
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout"] });
});

test("a read that was refused for a moment is asked again", async () => {
  refusing(2, 1);
  assert.equal(await settled(json("/counters/a")), 7);
  assert.equal(requests.length, 3);
});

test("a read is not asked for ever, nor while the service asks for patience", async () => {
  refusing(100, 1);
  assert.equal((await settled(json("/counters/a"))).status, 429);
  assert.equal(requests.length, 4);
  refusing(100, 60);
  assert.equal((await settled(json("/counters/a"))).status, 429);
  assert.equal(requests.length, 1);
});

test("a change that was refused is not sent again", async () => {
  refusing(1, 1);
  assert.equal((await settled(send("PUT", "/limits/a", {}))).status, 429);
  assert.deepEqual(requests, ["PUT /limits/a"]);
});

test("whoever leaves the page waits for nothing", async () => {
  refusing(1, 1);
  const leave = new AbortController();
  const call = json("/counters/a", leave.signal);
  while (requests.length === 0) await new Promise((done) => setImmediate(done));
  leave.abort();
  assert.equal((await settled(call)).name, "AbortError");
  assert.equal(requests.length, 1);
});
