// The benchmark's arithmetic: a lost write and a double one are seen, errors too, ratios are paired.
import assert from "node:assert/strict";
import { test } from "node:test";
import { faults, median, ratioTable, reconcile, summarise, totalsTable } from "./report.mjs";

const HOT = { name: "hot", unit: "requests", counters: ["hot"], seed: 0, adds: 1 };
const run = (acknowledged, more = {}) => ({ acknowledged, failed: 0, socket_errors: 0, ...more });
const mismatches = (measure, runs, totals) => reconcile(measure, runs, totals).mismatches;

test("the median is the middle of the numbers by value, not by text", () => {
  assert.equal(median([10, 9, 100]), 10);
  assert.equal(median([4, 1]), 2.5);
});

test("a total must be what was acknowledged, to the unit", () => {
  for (const [total, wrong] of [[999, 1], [1000, 0], [1001, 1]]) {
    assert.equal(mismatches(HOT, [run(1000)], [total]).length, wrong, String(total));
  }
  assert.match(mismatches(HOT, [run(1000)], [999])[0], /: 1 lost$/);
  assert.match(mismatches(HOT, [run(1000)], [1001])[0], /: 1 too many$/);
});

test("runs add up, and only what failed or broke may have been counted or not", () => {
  const runs = [run(10), run(20, { failed: 2, socket_errors: 3 })];
  for (const [total, wrong] of [[29, 1], [30, 0], [35, 0], [36, 1]]) {
    assert.equal(mismatches(HOT, runs, [total]).length, wrong, String(total));
  }
});

test("reads change nothing: a counter keeps exactly what it was seeded with", () => {
  const read = { ...HOT, seed: 7, adds: 0 };
  assert.deepEqual(mismatches(read, [run(1000)], [7]), []);
  for (const total of [6, 8, NaN]) assert.equal(mismatches(read, [run(1000)], [total]).length, 1);
});

test("every counter of a batch is compared by itself: one's loss is not made good by another's surplus", () => {
  const batch = { ...HOT, counters: ["a", "b"], adds: 100 };
  assert.deepEqual(mismatches(batch, [run(200)], [100, 100]), []);
  assert.equal(mismatches(batch, [run(200)], [99, 101]).length, 2);
  assert.deepEqual(mismatches(batch, [run(200, { failed: 1 })], [100, 150]), []);
  assert.equal(mismatches(batch, [run(200, { failed: 1 })], [151, 100]).length, 1);
});

test("the ratio is the median of the ratios of each round", () => {
  const side = (rate_s) => ({ rate_s, p50_us: 1000, p99_us: 2000 });
  const rounds = [[20, 10], [300, 100], [40, 40]].map(([tally, baseline]) => ({ tally: side(tally), baseline: side(baseline) }));
  const found = summarise({ ...HOT, target: 3 }, rounds);
  assert.deepEqual([found.ratio, found.ratio_min, found.ratio_max], [2, 1, 3]);
  assert.equal(found.tally.rate_s, 40);
  assert.match(ratioTable([found]), /\| hot \(requests\) \| \*\*2\.00×\*\* \| 1\.00× to 3\.00× \| 3\.00× missed \|/);
});

test("answers that were not good, broken connections and silent rounds are named", () => {
  assert.deepEqual(faults([run(1)], [run(1)]), []);
  assert.match(faults([run(1, { failed: 1, sample: "503 no" })], [run(1)])[0], /503 no/);
  assert.match(faults([run(1, { socket_errors: 2 })], [run(1)])[0], /2 connections/);
  assert.match(faults([run(0)], [run(0)])[0], /1 of 1 rounds/);
});

test("the table of totals names what is wrong", () => {
  const entry = { name: "hot", side: "tally", adds: 1, seeded: 0, ...reconcile(HOT, [run(10)], [9]) };
  assert.match(totalsTable([entry]), /\| 10 \| 9 \| 0 \| \*\*1 counters wrong\*\* \|/);
});
