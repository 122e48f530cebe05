// What `tally top` says to people. Law: what is not reported yet is never told as nothing.
import assert from "node:assert/strict";
import { test } from "node:test";
import { topText } from "../command/read.mjs";

const row = (rank, id, value, share) => ({ rank, id, value, share, as_of: 1 });

test("a top without rows says what it does not know", () => {
  const empty = topText({ entries: [], total: 0, by: "count", counters: 0 });
  assert.match(empty, /^no counter has reported a count there: .*70 s.*tally get/);
  const imported = topText({ entries: [], total: 0, by: "value", counters: 1_234 });
  assert.match(imported, /^1,234 counters there, and none has reported a count yet: /);
  for (const text of [empty, imported]) assert.doesNotMatch(text, /nothing/);
});

test("a top says how many counters are in no row, where it has all that were reported", () => {
  const rows = [row(1, "a", 3, 0.75), row(2, "b", 1, 0.25)];
  const found = (counters, by = "value") => ({ entries: rows, total: 4, by, counters });
  assert.match(topText(found(2)), /\n2 counters, 4 in all$/);
  assert.match(topText(found(5)), /\n5 counters, 4 in all; 3 not reported yet$/);
  assert.match(topText(found(5), 2), /\n5 counters, 4 in all$/);
  assert.match(topText(found(5, "count")), /\n5 counters, 4 in all$/);
});
