// The table of docs/internals/convergence.md shows the figures that lie beside it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { table, written } from "./table-converge.mjs";

const root = new URL("..", import.meta.url);
const read = (file) => readFileSync(new URL(file, root), "utf8");
const [measured, larger] = [100, 300].map((datacenters) => JSON.parse(read(`docs/converge-${datacenters}.json`)));

test("the page has the table of the figures that were measured last", () => {
  const page = read("docs/internals/convergence.md");
  assert.equal(written(page, [measured, larger]), page);
});

test("other figures make another table, and a column each", () => {
  const all = [measured, measured];
  const other = structuredClone(all);
  other[1].agreed.max_ms = 999_999;
  assert.notEqual(table(other), table(all));
  assert.match(table(other), /999999 ms \|$/m);
  for (const row of table(all).split("\n")) assert.equal(row.split("|").length, 2 + 3, row);
});

test("a page without the marks is refused", () => {
  assert.throws(() => written("# Nothing here", [measured]), /no table/);
});
