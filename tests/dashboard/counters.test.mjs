// The list of counters: which it says that it shows.
import assert from "node:assert/strict";
import { test } from "node:test";
import { lookedAt } from "../../dashboard/counters.js";

test("the list says which counters it shows, of how many", () => {
  const words = (shown, among, order, isQuiet) => lookedAt({ shown, among, order, isQuiet });
  assert.equal(words(5, 5, "rate"), "5 counters counted in the last hour");
  assert.equal(words(1, 1, "rate"), "1 counter counted in the last hour");
  assert.equal(words(20, 101, "rate"), "The 20 busiest in the last hour of 101");
  assert.equal(words(20, 1_375, "value"), "The 20 largest of 1,375");
  assert.equal(words(3, 3, "value"), "3 counters");
  assert.equal(words(20, undefined, "name"), "The first 20 by name");
  assert.equal(words(3, 3, "name"), "3 counters, by name");
  // Where nothing is busy they are in another order, and that is said.
  assert.equal(words(20, 1_375, "value", true), "Nothing was counted in the last hour. The 20 largest of 1,375");
});
