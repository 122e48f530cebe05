// Paths of the dashboard's calls: what they name is what was clicked.
import assert from "node:assert/strict";
import { test } from "node:test";
import { counterPath } from "../../dashboard/api.js";
import { prefixPath, subjectPath } from "../../dashboard/history.js";

test("an id that ends in an asterisk is no prefix", () => {
  assert.equal(counterPath("a*"), "/counters/a*");
  assert.equal(subjectPath({ id: "/a b*" }), "/counters/%2Fa%20b*");
  assert.equal(prefixPath("a"), "/counters/a*/aggregate");
});
