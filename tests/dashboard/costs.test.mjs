// The calculator of costs says what docs/operate/costs.md says.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { CHECK, PLAN, PRICES, WAYS, costsOf } from "../../dashboard/costs.js";

const page = readFileSync(new URL("../../docs/operate/costs.md", import.meta.url), "utf8");
const rows = [...page.matchAll(/^\| (.+?) \|(.*)\|$/gm)].map(([, name, cells]) => [name, cells.split("|").map((cell) => Number.parseFloat(cell.replaceAll(",", "")))]);
const row = (begins) => rows.find(([name]) => name.startsWith(begins))[1];

test("prices and what each request takes are those of the page", () => {
  assert.deepEqual([row("requests of a Worker")[0], row("requests of a Durable Object")[0], row("rows written")[0]], [PRICES.requests, PRICES.calls, PRICES.rows].map(({ dollars }) => dollars));
  const told = { alone: "a blog", tablets: "100,000 pages", plain: "the same, views that name nothing", bodies: "the same, views with all" };
  for (const [way, begins] of Object.entries(told)) assert.deepEqual([WAYS[way].calls, WAYS[way].rows], row(begins).slice(0, 2), way);
  assert.deepEqual([CHECK.calls, CHECK.rows], row("checks of a limit").slice(0, 2));
  const [requests, calls, written] = row("increments of a hot counter, one isolate");
  assert.deepEqual([WAYS.hot.calls, WAYS.hot.rows], [calls / requests, written / requests]);
});

test("a month of a blog is the plan; ten million views a day are what the page works out, less what the plan includes", () => {
  assert.equal(costsOf({ writes: 60_000, reads: 0, checks: 0, way: "alone" }).dollars, PLAN);
  const included = Object.values(PRICES).reduce((sum, { dollars, included: amount }) => sum + (dollars * amount) / 1e6, 0);
  const month = costsOf({ writes: 300_000_000, reads: 0, checks: 0, way: "tablets" });
  assert.equal(Math.round(month.dollars), Math.round(300 * 13.072 + PLAN - included));
  assert.deepEqual(costsOf({ writes: 0, reads: 0, checks: 1e9, way: "alone" }).rows.map(({ amount }) => amount), [1e9, 4.5e8, 1.1e7]);
});
