// The search box: what is found, and what Enter opens.
import assert from "node:assert/strict";
import { test } from "node:test";
import { containing, wanted } from "../../dashboard/search.js";

const found = ["/blog/", "login", "Counters", "Overview"].map((name) => ({ name, href: `#${name}` }));

test("Enter opens what has the name, or the only one that was found", () => {
  assert.equal(wanted(found, "login").href, "#login");
  assert.equal(wanted(found, "counters").href, "#Counters");
  assert.equal(wanted(found.slice(0, 1), "blo").href, "#/blog/");
  assert.equal(wanted(found, "o"), undefined);
  assert.equal(wanted([], "new"), undefined);
  const both = [{ name: "Login", href: "#1" }, { name: "login", href: "#2" }];
  assert.equal(wanted(both, "login").href, "#2");
});

test("a text is found anywhere in a name, in any case", () => {
  const names = (text) => containing(found, text).map(({ name }) => name);
  assert.deepEqual(names("LOG"), ["/blog/", "login"]);
  assert.deepEqual(names("view"), ["Overview"]);
  assert.deepEqual(names("*"), []);
});
