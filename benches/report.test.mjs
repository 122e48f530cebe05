// The benchmark's arithmetic: a lost write and a double one are seen, errors too, ratios are of one round,
// targets have a direction, and every line of measures.mjs names what there is.
import assert from "node:assert/strict";
import { test } from "node:test";
import { GROUPS, WASM_LINE } from "./measures.mjs";
import { cellsOf } from "./prepare.mjs";
import { MARKER, recordText } from "./record.mjs";
import { faults, figureTable, lineOutcome, loadOutcome, loadTable, median, per1000, reaches, reconcile, totalsTable } from "./report.mjs";

const HOT = { counters: ["hot"], adds: 1 };
const run = (acknowledged, more = {}) => ({ acknowledged, failed: 0, socket_errors: 0, ...more });
const mismatches = (load, held, runs, totals) => reconcile(load, held, runs, totals).mismatches;

test("the median is the middle of the numbers by value, not by text", () => {
  assert.equal(median([10, 9, 100]), 10);
  assert.equal(median([4, 1]), 2.5);
});

test("a total must be what was acknowledged, to the unit", () => {
  for (const [total, wrong] of [[999, 1], [1000, 0], [1001, 1]]) {
    assert.equal(mismatches(HOT, 0, [run(1000)], [total]).length, wrong, String(total));
  }
  assert.match(mismatches(HOT, 0, [run(1000)], [999])[0], /: 1 lost$/);
  assert.match(mismatches(HOT, 0, [run(1000)], [1001])[0], /: 1 too many$/);
});

test("runs add up, and only what failed or broke may have been counted or not", () => {
  const runs = [run(10), run(20, { failed: 2, socket_errors: 3 })];
  for (const [total, wrong] of [[29, 1], [30, 0], [35, 0], [36, 1]]) {
    assert.equal(mismatches(HOT, 0, runs, [total]).length, wrong, String(total));
  }
});

test("reads change nothing: a counter keeps exactly what it held before", () => {
  const read = { ...HOT, adds: 0 };
  assert.deepEqual(mismatches(read, 7, [run(1000)], [7]), []);
  for (const total of [6, 8, NaN]) assert.equal(mismatches(read, 7, [run(1000)], [total]).length, 1);
});

test("every counter of a batch is compared by itself: one's loss is not made good by another's surplus", () => {
  const batch = { counters: ["a", "b"], adds: 100 };
  assert.deepEqual(mismatches(batch, 0, [run(200)], [100, 100]), []);
  assert.equal(mismatches(batch, 0, [run(200)], [99, 101]).length, 2);
  assert.deepEqual(mismatches(batch, 0, [run(200, { failed: 1 })], [100, 150]), []);
  assert.equal(mismatches(batch, 0, [run(200, { failed: 1 })], [151, 100]).length, 1);
});

test("a ratio is the median of the ratios within each round, of any two loads", () => {
  const rounds = [[20, 10], [300, 100], [40, 40]].map(([ours, theirs]) => ({ ours: { rate_s: ours }, theirs: { rate_s: theirs } }));
  const line = { name: "hot", of: "ours", figure: "rate_s", to: "theirs", target: { least: 3 } };
  const found = lineOutcome(line, rounds);
  assert.deepEqual([found.value, found.value_min, found.value_max], [2, 1, 3]);
  assert.match(figureTable([found]), /\| hot \| ≥ 3\.00× \| \*\*2\.00×\*\* \| 1\.00× to 3\.00× \| \*\*missed\*\* \|/);
  const { to, ...absolute } = line;
  assert.equal(lineOutcome(absolute, rounds).value, 40);
});

test("a target has a direction, its bound reaches it, and what is no number does not", () => {
  for (const [target, value, met] of [
    ...[[{ least: 5 }, 4.99, false], [{ least: 5 }, 5, true], [{ least: 5 }, 6, true]],
    ...[[{ most: 1 }, 0.5, true], [{ most: 1 }, 1, true], [{ most: 1 }, 1.01, false]],
    ...[[{ least: 5 }, NaN, false], [{ most: 1 }, NaN, false]],
  ]) {
    assert.equal(reaches(target, value), met, `${JSON.stringify(target)} ${value}`);
  }
  const table = (value) => figureTable([lineOutcome({ name: "p99", of: "a", figure: "p99_us", to: "b", target: { most: 1 } }, [{ a: { p99_us: value }, b: { p99_us: 10 } }])]);
  assert.match(table(9), /\| ≤ 1\.00× \| \*\*0\.90×\*\* \|  \| met \|/);
  assert.match(table(11), /\*\*missed\*\*/);
});

test("a line whose load could not run says why, and has no verdict", () => {
  const line = { name: "redis", of: "a", figure: "rate_s", to: "b", target: { least: 1 } };
  const found = lineOutcome(line, [{ a: { rate_s: 1 } }], { b: "not installed" });
  assert.match(figureTable([found]), /\| redis \| ≥ 1\.00× \| not installed \|  \|  \|/);
});

test("rows and calls are those of the run alone, per 1,000 acknowledged", () => {
  const found = per1000({ rows: 100, calls: 50 }, { rows: 180, calls: 250 }, 4_000);
  assert.deepEqual(found, { rows_per_1000: 20, calls_per_1000: 50 });
});

test("a load's figures are medians over its rounds, in milliseconds", () => {
  const runs = [1, 3, 2].map((n) => ({ rate_s: n * 1000, p50_us: n * 1000, p99_us: n * 10_000, mean_us: n * 2000 }));
  const found = loadOutcome("hot", { server: "tally", connections: 64, unit: "requests" }, runs);
  assert.match(loadTable([found]), /\| hot \| 64 \| 2,000 requests \| 2\.00 \| 20\.0 \| 4\.00 \|/);
});

test("answers that were not good, broken connections and silent rounds are named", () => {
  assert.deepEqual(faults([run(1)], [run(1)]), []);
  assert.match(faults([run(1, { failed: 1, sample: "503 no" })], [run(1)])[0], /503 no/);
  assert.match(faults([run(1, { socket_errors: 2 })], [run(1)])[0], /2 connections/);
  assert.match(faults([run(0)], [run(0)])[0], /1 of 1 rounds/);
});

test("the table of totals names what is wrong", () => {
  const entry = { name: "hot", adds: 1, held: 0, ...reconcile(HOT, 0, [run(10)], [9]) };
  assert.match(totalsTable([entry]), /\| 10 \| 9 \| 0 \| \*\*1 counters wrong\*\* \|/);
});

test("a version says how many cells it names (golden strings of tests/protocol_version.rs)", () => {
  assert.equal(cellsOf("AQA"), 0);
  assert.equal(cellsOf("AQEDRlJBAAEB"), 1);
  assert.equal(cellsOf("AQIDRlJBPwL___________8BA0lBRAOw-tiG3jOsAg"), 2);
  for (const strange of ["AgA", "", "AYAB"]) assert.throws(() => cellsOf(strange), /unknown format/);
});

test("recording a run keeps what people wrote, and replaces the rest", () => {
  const first = recordText(undefined, "table one\n");
  assert.match(first, /table one/);
  const written = `${first}\n## What limits what\n\nThe disk.\n`;
  const second = recordText(written, "table two\n");
  assert.equal(second.slice(second.indexOf(MARKER)), written.slice(written.indexOf(MARKER)));
  assert.match(second, /table two/);
  assert.doesNotMatch(second, /table one/);
});

test("every line names loads of its group, no name is used twice, and no counter has two loads of a server", () => {
  const names = GROUPS.flatMap(({ loads, lines }) => [...Object.keys(loads), ...lines.map(({ name }) => name)]);
  assert.equal(new Set([...names, WASM_LINE.name]).size, names.length + 1);
  for (const { name, loads, lines } of GROUPS) {
    for (const { of, to = of } of lines) for (const load of [of, to]) assert.ok(loads[load], `${name}: ${load}`);
    const owned = Object.values(loads).flatMap(({ server, counters }) => counters.map((id) => `${server} ${id}`));
    assert.equal(new Set(owned).size, owned.length, name);
  }
});
