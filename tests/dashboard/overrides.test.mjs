// Overrides in words.
import assert from "node:assert/strict";
import { test } from "node:test";
import { effectWords, endWords } from "../../dashboard/overrides.js";

test("an override says what its keys have instead, and until when", () => {
  for (const [override, words] of [
    [{ limit: 1_000 }, "limit 1,000"],
    [{ limit: 5, window_seconds: 3_600, burst: 7 }, "limit 5, window 60 min, burst 7"],
    [{ ttl_seconds: 9 }, "holds of 9 s"],
    [{ unlimited: true }, "no limit"],
    [{ blocked: true }, "blocked"],
  ]) assert.equal(effectWords(override), words);
  assert.equal(endWords({}), "it is deleted");
  assert.equal(endWords({ ends_at: Date.UTC(2026, 10, 30, 12, 5, 9, 7) }), "2026-11-30 12:05 UTC");
});
