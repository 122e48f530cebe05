// What the page of a policy says of its open holds, of its window, and what its form stores.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { windowText } from "../../dashboard/limits.js";
import { policyOf } from "../../dashboard/policy-form.js";
import { holdsText } from "../../dashboard/policy-holds.js";

const NOW_MS = 1_763_679_600_000;

test("open holds are told by their number, their keys, what they take, and the oldest", () => {
  const none = { held: 0, holds: 0, oldest_at: null, keys: 0, rows: [], complete: true };
  assert.equal(holdsText(none, NOW_MS), "No open holds.");
  assert.equal(holdsText({ ...none, complete: false }, NOW_MS), "No open holds. Some limiters did not answer.");
  const one = { held: 4_000, holds: 1, oldest_at: NOW_MS - 5_000, keys: 1, rows: [], complete: true };
  assert.match(holdsText(one, NOW_MS), /^1 open hold of 1 key take 4,000\. The oldest was opened 5(\.0)? s ago\.$/);
  const many = { ...one, holds: 12, keys: 3, oldest_at: NOW_MS + 5_000 };
  assert.match(holdsText(many, NOW_MS), /^12 open holds of 3 keys take 4,000\. The oldest was opened 0.* ago\.$/);
});

test("a policy of concurrency has no window, and its form stores the time of holds", () => {
  assert.equal(windowText({ window_seconds: 60 }), "60 s");
  assert.equal(windowText({ ttl_seconds: 60 }), "at once");
  const window = { policy: "p", limit: 2, window_seconds: 60, algorithm: "sliding-window", precise: true };
  const shown = { limit: 5, seconds: 30, algorithm: "sliding-window", shadow: false };
  const kept = { limit: 5, algorithm: "sliding-window", shadow: false, precise: true };
  assert.deepEqual(policyOf(window, shown), { ...kept, window_seconds: 30 });
  const { algorithm: _, ...rest } = kept;
  assert.deepEqual(policyOf(window, { ...shown, algorithm: "concurrency" }), {
    ...rest, algorithm: "concurrency", ttl_seconds: 30,
  });
  const concurrency = { policy: "p", limit: 2, ttl_seconds: 60, algorithm: "concurrency" };
  assert.deepEqual(policyOf(concurrency, { limit: 2, seconds: 9, algorithm: "concurrency" }), {
    limit: 2, algorithm: "concurrency", ttl_seconds: 9,
  });
});

test("the API's description of a policy has the words that the form offers", () => {
  const { Policy } = JSON.parse(readFileSync("crates/tally-api/openapi.json", "utf8")).components.schemas;
  const words = (name) => Policy.properties[name].enum;
  assert.ok(words("algorithm").includes("concurrency"));
  assert.deepEqual(words("scope"), ["datacenter", "global"]);
  assert.deepEqual(words("on_error"), ["open", "closed"]);
});
