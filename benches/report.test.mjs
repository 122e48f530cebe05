// The benchmark's arithmetic: a lost write and a double one are seen, errors too, ratios are of one round,
// targets have a direction, and every line of measures.mjs names what there is.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { runGroup } from "./group.mjs";
import { BenchError } from "./load.mjs";
import { GROUPS } from "./measures.mjs";
import { cellsOf } from "./prepare.mjs";
import { MARKER, missingOf, recordSection, recordText } from "./record.mjs";
import {
  faults, figureTable, groupOutcome, lineOutcome, loadOutcome, loadTable, median, per1000, reaches, reconcile,
  reportText, slownessSentence, totalsTable, wasmSentence,
} from "./report.mjs";
import { firstRun } from "./setup-report.mjs";
import { slowness } from "./slowness.mjs";
import { WASM_GZIP_BYTES_MAX } from "./wasm-size.mjs";

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
  const rounds = [
    [20, 10], [300, 100], [40, 40],
  ].map(([ours, theirs]) => ({ ours: { rate_s: ours }, theirs: { rate_s: theirs } }));
  const line = { name: "hot", of: "ours", figure: "rate_s", to: "theirs", target: { least: 3 } };
  const found = lineOutcome(line, rounds);
  assert.deepEqual([found.value, found.value_min, found.value_max], [2, 1, 3]);
  assert.match(figureTable([found]), /\| hot \| \*\*2\.00×\*\* \| 1\.00× to 3\.00× \| ≥ 3\.00×, \*\*missed\*\* \|/);
  const { to, ...absolute } = line;
  assert.equal(lineOutcome(absolute, rounds).value, 40);
});

test("a target has a direction, its bound reaches it, what is no number does not, and it is shown while it is missed", () => {
  for (const [target, value, met] of [
    ...[[{ least: 5 }, 4.99, false], [{ least: 5 }, 5, true], [{ least: 5 }, 6, true]],
    ...[[{ most: 1 }, 0.5, true], [{ most: 1 }, 1, true], [{ most: 1 }, 1.01, false]],
    ...[[{ least: 5 }, NaN, false], [{ most: 1 }, NaN, false]],
  ]) {
    assert.equal(reaches(target, value), met, `${JSON.stringify(target)} ${value}`);
  }
  const table = (value) =>
    figureTable([
      lineOutcome({ name: "p99", of: "a", figure: "p99_us", to: "b", target: { most: 1 } }, [
        { a: { p99_us: value }, b: { p99_us: 10 } },
      ]),
    ]);
  assert.match(table(9), /\| p99 \| \*\*0\.90×\*\* \|  \|  \|/);
  assert.match(table(11), /≤ 1\.00×, \*\*missed\*\*/);
});

test("a line whose load could not run says why, and keeps its target without a verdict", () => {
  const line = { name: "redis", of: "a", figure: "rate_s", to: "b", target: { least: 1 } };
  const found = lineOutcome(line, [{ a: { rate_s: 1 } }], { b: "not installed" });
  assert.match(figureTable([found]), /\| redis \| not installed \|  \| ≥ 1\.00× \|/);
});

test("rows and calls are those of the run alone, per 1,000 acknowledged", () => {
  const found = per1000({ rows: 100, calls: 50 }, { rows: 180, calls: 250 }, 4_000);
  assert.deepEqual(found, { rows_per_1000: 20, calls_per_1000: 50 });
});

test("a load's figures are medians over its rounds, in milliseconds", () => {
  const runs = [1, 3, 2].map((n) => ({
    rate_s: n * 1000, p50_us: n * 1000, p99_us: n * 10_000, mean_us: n * 2000, cpu_us: n * 10,
  }));
  const load = { server: "tally", connections: 64, unit: "requests" };
  const row = (found) => loadTable([loadOutcome("hot", load, found)]);
  assert.match(row(runs), /\| hot \| 64 \| 2,000 requests \| 20\.0 \| 2\.00 \| 20\.0 \| 4\.00 \|/);
  // A system that does not say what a program used, and results that were stored without it.
  for (const cpu_us of [NaN, null]) {
    assert.match(row(runs.map((run) => ({ ...run, cpu_us }))), /\| 2,000 requests \|  \| 2\.00 \|/);
  }
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

test("recording a run keeps what people wrote and the parts that it did not measure, and replaces the rest", () => {
  const first = recordText(undefined, "## Engine\n\ntable one\n\n## Native\n\ntable of old\n");
  assert.match(first, /table one[^]*table of old/);
  const written = `${first}\n## What limits what\n\nThe disk.\n`;
  const second = recordText(written, "## Native\n\ntable two\n");
  assert.equal(second.slice(second.indexOf(MARKER)), written.slice(written.indexOf(MARKER)));
  assert.match(second, /table one[^]*table two/);
  assert.doesNotMatch(second, /table of old/);
  assert.equal(recordText(second, "## Native\n\ntable two\n"), second);
});

test("a run is recorded only with all groups of the parts that it measured", () => {
  const groups = [group("hot"), group("fast", "native-1", "native"), group("faster", "native-1", "native")];
  const runs = [{ found: [{ name: "fast" }] }];
  assert.deepEqual(missingOf(groups, runs), ["faster"]);
  assert.deepEqual(missingOf(groups, [...runs, { found: [{ name: "faster" }] }]), []);
});

test("recording many cold counters replaces their section alone, and another run keeps it", () => {
  const written = `${recordText(undefined, "## Native\n\ntable")}\n## What limits what\n\nThe disk.\n`;
  const first = recordSection("tail", written, "tail one\n");
  assert.ok(first.startsWith(written.trimEnd()));
  const second = recordSection("tail", recordSection("resp", `${first}By hand.\n`, "door\n"), "tail two\n");
  assert.match(second, /tail two[^]*By hand[^]*door/);
  assert.doesNotMatch(second, /tail one/);
  assert.match(recordText(second, "## Native\n\nnewer\n"), /newer[^]*The disk[^]*tail two/);
});

test("every line names loads of its group, no name is used twice, and no counter has two loads of a server", () => {
  const names = GROUPS.flatMap(({ loads, lines }) => [...Object.keys(loads), ...lines.map(({ name }) => name)]);
  assert.equal(new Set(names).size, names.length);
  for (const { name, loads, lines } of GROUPS) {
    for (const { of, to = of } of lines) for (const load of [of, to]) assert.ok(loads[load], `${name}: ${load}`);
    const owned = Object.values(loads).flatMap(({ server, counters }) => counters.map((id) => `${server} ${id}`));
    assert.equal(new Set(owned).size, owned.length, name);
  }
});

const SLOW = [{ cpu_ms: 101.4, fsync_ms: 1.5 }, { cpu_ms: 340, fsync_ms: 12.25 }];

test("how slow the machine was stands beside each table, from the least to the most", () => {
  assert.match(slownessSentence(SLOW), /on one core 101 to 340 ms, writing a page and fsync 1\.50 to 12\.25 ms/);
  assert.match(slownessSentence(SLOW.slice(0, 1)), /on one core 101 ms, writing a page and fsync 1\.50 ms/);
  const found = {
    name: "hot", rounds: [], absent: {}, slow: SLOW, wrong: [],
    totals: [{ name: "hot", adds: 1, held: 0, ...reconcile(HOT, 0, [run(10)], [10]) }],
  };
  const groups = [{ name: "hot", loads: {}, lines: [] }];
  const text = reportText({ groups, runs: [{ found: [found], facts: ["a fact"], wasm_bytes: 1 }], missing: ["lone"] });
  assert.equal(text.split(slownessSentence(SLOW)).length, 1 + 2);
  assert.match(text, /- a fact\n\n## Size\n[^]*\n\nNot measured: lone\.\n$/);
});

const group = (name, server, part) => ({
  name, part, loads: { [name]: { server, connections: 1, unit: "requests" } },
  lines: [{ name: `CPU of ${name}`, of: name, figure: "cpu_us" }],
});
const foundOf = (name, cpu_us) => ({
  name, absent: {}, totals: [], slow: [], wrong: [],
  rounds: [{ [name]: { rate_s: 1, p50_us: 1, p99_us: 1, mean_us: 1, cpu_us } }],
});

test("a report has two parts, and of each group the newest of several runs, by which it says what was measured on what", () => {
  const groups = [group("hot", "tally"), group("fast", "native-1", "native"), group("new", "tally")];
  const first = { found: [foundOf("hot", 40), foundOf("fast", 8)], facts: ["commit one"], wasm_bytes: 1_000 };
  const second = { found: [foundOf("fast", 7)], facts: ["commit two"], wasm_bytes: 2_000 };
  const text = reportText({ groups, runs: [first, second] });
  const [, workers, native, size] = text.split(/^## .*$/m);
  assert.match(text, /^## Workers' engine$[^]*^## Native$[^]*^## Size$/m);
  assert.match(workers, /\| CPU of hot \| \*\*40\.0\*\* \|/);
  assert.match(native, /\| CPU of fast \| \*\*7\.0\*\* \|/);
  assert.doesNotMatch(text, /CPU of new|8\.0/);
  assert.match(size, /has 2,000 bytes/);
  // Of one run nothing needs to be said of which groups it was.
  assert.match(workers, /measured:\n\n- commit one\n/);
  assert.match(native, /measured:\n\n- commit two\n/);
  const third = { found: [foundOf("new", 9)], facts: ["commit three"] };
  assert.match(reportText({ groups, runs: [first, third] }), /Of hot:\n\n- commit one\n\nOf new:\n\n- commit three\n/);
});

test("results that were stored are read again as they are, and a load that came later is not measured", () => {
  const stored = JSON.parse(JSON.stringify({ found: [foundOf("hot", NaN)], facts: [], wasm_bytes: 1 }));
  assert.match(reportText({ groups: [group("hot", "tally")], runs: [stored] }), /\| CPU of hot \| not measured \|/);
  const grown = group("hot", "tally");
  grown.loads.later = grown.loads.hot;
  grown.lines.push({ name: "CPU of a later load", of: "later", figure: "cpu_us" });
  assert.match(reportText({ groups: [grown], runs: [stored] }), /\| CPU of a later load \| not measured \|/);
});

test("the machine's slowness is measured: arithmetic takes time, and so does a durable write", () => {
  const folder = mkdtempSync(join(tmpdir(), "tally-slowness-"));
  const { cpu_ms, fsync_ms } = slowness(folder);
  rmSync(folder, { recursive: true });
  assert.ok(cpu_ms > 1 && fsync_ms > 0, `${cpu_ms} ${fsync_ms}`);
});

test("a group that fails is a finding, and what others measured is kept", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tally-group-"));
  const load = {
    server: "tally", counters: [], adds: 0, connections: 1, unit: "requests", method: "GET", path: "/", expect: "",
  };
  const broken = {
    ...load,
    get prepare() {
      throw new BenchError("nobody is there");
    },
  };
  const group = { name: "broken", loads: { broken }, lines: [{ name: "a line", of: "broken", figure: "rate_s" }] };
  const found = await runGroup(group, { folder, rounds: 1, seconds: 1, say: () => {} });
  rmSync(folder, { recursive: true, force: true });
  assert.equal(found.wrong.length, 1);
  assert.match(found.wrong[0], /^FAILED broken: /);
  const { loads, lines } = groupOutcome(group, found);
  assert.deepEqual([loads, lines[0].why], [[], "it failed before a round was complete"]);
});

test("BENCHMARKS.md has the bound of the Wasm's size that is checked", () => {
  const text = readFileSync(new URL("../BENCHMARKS.md", import.meta.url), "utf8");
  const [, bytes, bound] = text.match(/^The Wasm, gzipped, has ([\d,]+) bytes, of at most ([\d,]+)\.$/m);
  assert.equal(Number(bound.replaceAll(",", "")), WASM_GZIP_BYTES_MAX);
  assert.equal(wasmSentence(Number(bytes.replaceAll(",", ""))), text.match(/^The Wasm, gzipped, has .*$/m)[0]);
  assert.match(wasmSentence(WASM_GZIP_BYTES_MAX + 1), /too large/);
});

test("a first run tells each step's time, whether it was within five minutes, and what was built twice", () => {
  const lines = [
    { text: "build: compiling", at_ms: 1_500 },
    { text: "Tally is ready on http://127.0.0.1:1", at_ms: 190_000 },
  ];
  const text = firstRun({ lines, rebuilt: { ms: 640, output: "" }, slow: SLOW });
  assert.match(text, /^ *0 min 1 s  build: compiling\n *3 min 10 s  Tally is ready/);
  assert.match(text, /First run: 3 min 10 s \(at most 5 min 0 s: met\)\. After it make build takes 0\.6 s and builds nothing again\./);
  lines[1].at_ms = 300_001;
  assert.match(
    firstRun({ lines, rebuilt: { ms: 640, output: "build: x\ny" }, slow: SLOW }),
    /missed\).* builds again: build: x\./,
  );
});
