// How rows compare with the range before: of which times they are, and what is said where counts are known by bounds
// alone.
import assert from "node:assert/strict";
import { test } from "node:test";
import { breakdownRows, exportRows, restWords } from "../../dashboard/breakdowns.js";
import {
  changeOf, comparedTimes, comparedValueTimes, countsIn, timesWords, totalRow,
} from "../../dashboard/changes.js";
import { beforeRows, csvOf, jsonOf } from "../../dashboard/export.js";
import { verdictChanges } from "../../dashboard/policy-history.js";
import { rangeOf } from "../../dashboard/ranges.js";

process.env.TZ = "Europe/Berlin";
const NOW = Date.UTC(2026, 10, 27, 6, 10) / 1000;
const text = (second) => new Date(second * 1000).toISOString().replace(":00.000Z", "Z");
const spans = ({ now, before }) => [now.from, now.until, before.from, before.until].map(text);
const times = { now: { from: 7_200, until: 10_800 }, before: { from: 3_600, until: 7_200 } };
const breakdown = (more) => ({
  by: "page",
  window: { starts_at: 3_600_000, ends_at: 7_200_000 },
  kept_from_at: null,
  rows: [{ value: "/a", count: 5 }, { value: "/b", count: 3, error: 2 }],
  other: { count: 9, error: 2, each_max: 4 },
  exact: true,
  staleness_ms: 0,
  ...more,
});

test("what is under way is compared with as much of the range before", () => {
  const today = rangeOf("today", NOW);
  const wanted = ["2026-11-26T23:00Z", "2026-11-27T06:00Z", "2026-11-25T23:00Z", "2026-11-26T06:00Z"];
  assert.deepEqual(spans(comparedTimes(today)), wanted);
  assert.deepEqual(spans(comparedValueTimes(today)), wanted);
  assert.equal(comparedTimes(rangeOf("all", NOW)), undefined);
  assert.equal(comparedValueTimes(rangeOf("all", NOW)), undefined);
});

test("values of more than a week ago are compared by whole days of UTC, and those of minutes are not", () => {
  assert.deepEqual(spans(comparedValueTimes(rangeOf("week", NOW))), [
    "2026-11-21T00:00Z", "2026-11-27T00:00Z", "2026-11-14T00:00Z", "2026-11-20T00:00Z",
  ]);
  assert.deepEqual(spans(comparedTimes(rangeOf("week", NOW))).slice(0, 2), ["2026-11-20T23:00Z", "2026-11-27T06:00Z"]);
  assert.deepEqual(spans(comparedValueTimes(rangeOf("2015-05-17..2015-05-18", NOW))), [
    "2015-05-17T00:00Z", "2015-05-19T00:00Z", "2015-05-15T00:00Z", "2015-05-17T00:00Z",
  ]);
  assert.equal(comparedValueTimes(rangeOf("hour", NOW)), undefined);
  const words = (name) => timesWords(rangeOf(name, NOW), comparedValueTimes(rangeOf(name, NOW)));
  assert.match(words("week"), /^Changes compare 21 Nov 2026 to 26 Nov 2026, by UTC, with 14 Nov 2026 to 19 Nov 2026, by UTC: /);
  assert.equal(words("today"), "");
});

test("an answer bounds what was counted of each row, listed or not", () => {
  const counts = countsIn(breakdown(), times.before);
  assert.deepEqual(["/a", "/b", "/c"].map(counts), [[5n, 5n], [3n, 5n], [0n, 4n]]);
  // What counters have that were not asked may be of any value.
  const omitted = { counters: 2, count_max: 10, each_max: 6 };
  assert.deepEqual(
    ["/a", "/c"].map(countsIn(breakdown({ omitted, exact: false, staleness_ms: 9_000 }), times.before)),
    [
      [5n, 15n], [0n, 14n],
    ],
  );
  const history = { kept_from_at: null, top: [{ id: "a", count: "9007199254740993" }], exact: true, staleness_ms: 0 };
  assert.deepEqual(["a", "b"].map(countsIn(history, times.before)), [[9007199254740993n, 9007199254740993n], [0n, 0n]]);
  assert.deepEqual(countsIn({ ...history, omitted }, times.before)("b"), [0n, 6n]);
  // A top that is full says of the others that they have no more than its last.
  const full = { ...history, top: Array.from({ length: 100 }, (_, at) => ({ id: `${at}`, count: 200 - at })) };
  assert.deepEqual(countsIn(full, times.before)("b"), [0n, 101n]);
  const value = { ...breakdown(), value: "/a", rows: [{ id: "x", count: 3 }], total: 7, other: 4, error: 1 };
  assert.deepEqual(["x", "y"].map(countsIn(value, times.before)), [[3n, 3n], [0n, 5n]]);
});

test("nothing is compared with an answer that is of another time, or lacks a part", () => {
  const incomplete = [
    { window: { starts_at: 0, ends_at: 7_200_000 } },
    { window: { starts_at: 3_600_000, ends_at: 7_001_000 } },
    { kept_from_at: 5_000_000 },
    { missing_partitions: [3] },
    { exact: false, staleness_ms: 60_000 },
  ];
  for (const part of incomplete) assert.equal(countsIn(breakdown(part), times.before), undefined, JSON.stringify(part));
  const fresh = breakdown({ exact: false, staleness_ms: 400, kept_from_at: 3_600_000 });
  assert.notEqual(countsIn(fresh, times.before), undefined);
});

test("a change says no more than both counts do", () => {
  const words = (now, before) => changeOf(now, before, times)?.words;
  const sure = (count) => [count, count];
  assert.equal(words(sure(12n), sure(10n)), "+20 %");
  assert.equal(words(sure(5n), sure(10n)), "−50 %");
  assert.equal(words(sure(10n), sure(10n)), "0 %");
  assert.equal(words(sure(0n), sure(10n)), "−100 %");
  assert.equal(words(sure(200n), sure(10n)), "20 times");
  assert.equal(words(sure(3n), sure(0n)), "new");
  assert.equal(words(sure(0n), sure(0n)), undefined);
  assert.equal(words(sure(12n), [0n, 10n]), "≥ +20 %");
  assert.equal(words([12n, 14n], sure(10n)), "≥ +20 %");
  assert.equal(words(sure(5n), [10n, 20n]), "≤ −50 %");
  assert.equal(words(sure(12n), [10n, 20n]), undefined);
  assert.equal(words([0n, 4n], [0n, 4n]), undefined);
  const { tone, title } = changeOf(sure(5n), [10n, 20n], times);
  assert.equal(tone, "down");
  assert.match(title, /: 5\. .*: 10 to 20\.$/);
});

test("a row has its change, and other values their bound", () => {
  const rows = breakdownRows("page", breakdown(), undefined, (value) => ({ words: value }));
  assert.deepEqual(rows.map(({ change }) => change.words), ["/a", "/b"]);
  const range = { ...rangeOf("all", NOW) };
  assert.equal(restWords("page", { ...breakdown(), none: 0 }, range), "9 with other values (at most 4 each); a row may be up to 2 more.");
});

test("an export has what the rows are compared with: both counts, their times and the change in percent", () => {
  const changes = {
    "/a": changeOf([12n, 12n], [9n, 9n], times), "/b": changeOf([12n, 14n], [10n, 10n], times),
    "/c": changeOf([5n, 5n], [10n, 20n], times), "/d": changeOf([3n, 3n], [0n, 0n], times),
  };
  const page = { window: null, rows: Object.keys(changes).map((value) => ({ value, count: 12 })) };
  const rows = [
    totalRow({ count: 50n, now: 40n, before: 80n, part: -0.5 }, times),
    ...exportRows(new Map([["page", page]]), new Map([["page", (value) => changes[value]]])),
    ...beforeRows({ previous: { step: "1h" } }, [[3_600, 7]]),
  ];
  const whole = { what: {}, from: 7_200, to: 14_400, rows };
  const [heads, ...lines] = csvOf(whole).trim().split("\r\n").map((line) => line.split(","));
  assert.equal(
    heads.join(), "section,name,count,from,to,count_compared,compared_from,compared_to,count_before,before_from,before_to,change_percent",
  );
  const column = (name) => lines.map((line) => line[heads.indexOf(name)]);
  assert.deepEqual(column("section"), ["total", "page", "page", "page", "page", "history before"]);
  assert.deepEqual(column("count"), ["50", "12", "12", "12", "12", "7"]);
  assert.deepEqual(column("count_compared"), ["40", "12", "12 to 14", "5", "3", ""]);
  assert.deepEqual(column("count_before"), ["80", "9", "10", "10 to 20", "0", ""]);
  assert.deepEqual(column("change_percent"), ["-50", "33.33", ">= 20", "<= -50", "new", ""]);
  assert.deepEqual(
    ["compared_from", "compared_to", "before_from", "before_to"].map((name) => column(name)[0]),
    [7_200, 10_800, 3_600, 7_200].map((second) => new Date(second * 1000).toISOString()),
  );
  assert.deepEqual(JSON.parse(jsonOf(whole)).rows[0], {
    section: "total", name: "counted", count: 50, count_compared: 40, compared_from: 7_200, compared_to: 10_800,
    count_before: 80, before_from: 3_600, before_to: 7_200, change_percent: -50,
  });
});

test("an export without a range before has no columns of it", () => {
  const rows = [totalRow({ count: 50n }, undefined), ...beforeRows({}, [[3_600, 7]])];
  assert.match(csvOf({ from: 0, to: 3_600, rows }), /^section,name,count,from,to\r\ntotal,counted,50,[^,]+,[^,]+\r\n$/);
});

test("verdicts of a policy are compared kind by kind", () => {
  const range = rangeOf("2026-11-25..2026-11-25", NOW);
  const points = [[range.from, 30, 5, 0]];
  const [allowed, refused, none] = verdictChanges(range, points, [[range.previous.from, 20, 10, 0]]);
  assert.deepEqual([allowed.words, refused.words, none], ["+50 %", "−50 %", undefined]);
  assert.deepEqual([allowed.columns.count_before, allowed.columns.change_percent], [20n, 50]);
  assert.deepEqual(verdictChanges(range, points, []), [undefined, undefined, undefined]);
});
