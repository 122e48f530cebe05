// The calculator of costs says what docs/operate/costs.md says.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { CHECK, PLAN, PRICES, WAYS, costsOf } from "../../dashboard/costs.js";
import { MONTH_S, monthOf, usageBetween, usageOf } from "../../dashboard/usage.js";

const page = readFileSync(new URL("../../docs/operate/costs.md", import.meta.url), "utf8");
const rows = [...page.matchAll(/^\| (.+?) \|(.*)\|$/gm)].map(([, name, cells]) => [
  name, cells.split("|").map((cell) => Number.parseFloat(cell.replaceAll(",", ""))),
]);
const row = (begins) => rows.find(([name]) => name.startsWith(begins))[1];

test("prices and what each request takes are those of the page", () => {
  assert.deepEqual(
    [row("requests of a Worker")[0], row("requests of a Durable Object")[0], row("rows written")[0]],
    [PRICES.requests, PRICES.calls, PRICES.rows].map(({ dollars }) => dollars),
  );
  const rowNames = {
    alone: "a blog", tablets: "100,000 pages", plain: "the same, views that name nothing",
    bodies: "the same, views with all",
  };
  for (const [way, begins] of Object.entries(rowNames)) {
    assert.deepEqual([WAYS[way].calls, WAYS[way].rows], row(begins).slice(0, 2), way);
  }
  assert.deepEqual([CHECK.calls, CHECK.rows], row("checks of a limit").slice(0, 2));
  const [requests, calls, written] = row("increments of a hot counter, one isolate");
  assert.deepEqual([WAYS.hot.calls, WAYS.hot.rows], [calls / requests, written / requests]);
});

test("a month of a blog is the plan; ten million views a day are what the page works out, less what the plan includes", () => {
  assert.equal(costsOf({ writes: 60_000, reads: 0, checks: 0, way: "alone" }).dollars, PLAN);
  const included = Object.values(PRICES).reduce(
    (sum, { dollars, included: amount }) => sum + (dollars * amount) / 1e6, 0,
  );
  const month = costsOf({ writes: 300_000_000, reads: 0, checks: 0, way: "tablets" });
  assert.equal(Math.round(month.dollars), Math.round(300 * 13.072 + PLAN - included));
  assert.deepEqual(
    costsOf({ writes: 0, reads: 0, checks: 1e9, way: "alone" }).rows.map(({ amount }) => amount), [1e9, 4.5e8, 1.1e7],
  );
});

const METRICS = `# HELP tally_fleet_acknowledged_total Writes.
tally_acknowledged_total{operation="increment"} 3
tally_request_duration_seconds_count{route="increment"} 3
tally_fleet_acknowledged_total{operation="increment"} 600
tally_fleet_acknowledged_total{operation="event"} 400
tally_fleet_flushes_total{outcome="counted"} 490
tally_fleet_flushes_total{outcome="unknown"} 10
tally_fleet_flush_writes_sum 600
tally_fleet_limit_checks_total{verdict="allowed"} 70
tally_fleet_limit_checks_total{verdict="refused"} 30
tally_fleet_request_duration_seconds_bucket{route="increment",le="0.001"} 610
tally_fleet_request_duration_seconds_count{route="increment"} 610
tally_fleet_request_duration_seconds_count{route="events"} 5
tally_fleet_request_duration_seconds_count{route="limit_check"} 40
tally_fleet_request_duration_seconds_count{route="limit_checks"} 6
tally_fleet_request_duration_seconds_count{route="read"} 50
tally_fleet_request_duration_seconds_count{route="badge"} 9
tally_fleet_request_duration_seconds_count{route="metrics"} 1000
tally_fleet_start_time_seconds 1763683196.250
tally_fleet_counters 7
`;

test("what a month has is the sums of the whole deployment over their time, by what requests are", () => {
  const usage = usageOf(METRICS);
  assert.deepEqual(usage, {
    begun_s: 1763683196.25, counters: 7,
    sums: { requests: 720, writes: 1000, lines: 400, reads: 59, checks: 100, flushes: 500, joined: 600 },
  });
  const day = monthOf(usage, MONTH_S / 30);
  assert.deepEqual(day, { writes: 30_000, reads: 1770, checks: 3000, requests: 21_600, way: "alone" });
  // Requests that were counted are those that are paid for: a body has many writes, and a request many checks.
  assert.deepEqual(costsOf(day).rows.map(({ amount }) => amount), [21_600, 65_250, 286_533]);
  assert.equal(costsOf({ ...day, requests: undefined }).rows[0].amount, 34_770);
  // Of an isolate, or of a part of the deployment, nothing is taken for all.
  assert.equal(usageOf(METRICS.replaceAll("tally_fleet_", "tally_")), undefined);
});

test("how writes come is told by what they were joined in", () => {
  const way = (sums, counters = 7) => monthOf({ sums: { ...usageOf(METRICS).sums, ...sums }, counters }, 1).way;
  assert.deepEqual(
    [way({}), way({ lines: 501 }), way({ joined: 4000 }), way({}, 10_000)], ["alone", "bodies", "hot", "tablets"],
  );
});

test("between two looks are their differences, and nothing where a sum fell", () => {
  const [before, after] = [usageOf(METRICS), usageOf(METRICS.replace('"increment"} 600', '"increment"} 660'))];
  assert.deepEqual(usageBetween(before, after).sums.writes, 60);
  assert.deepEqual(monthOf(usageBetween(before, after), 10).writes, 6 * MONTH_S);
  assert.equal(usageBetween(after, before), undefined);
});
