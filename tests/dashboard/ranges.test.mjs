// Ranges of the dashboard: which seconds they are, and what they are compared with.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { changeWords, comparedWords } from "../../dashboard/headline.js";
import { compared, historyOf, partOf, pointsBefore, sumOf } from "../../dashboard/history.js";
import { byDays, datesOf, during, openingRange, rangeOf } from "../../dashboard/ranges.js";

const seconds = (text) => Date.parse(text) / 1000;
const text = (second) => new Date(second * 1000).toISOString().replace(":00.000Z", "Z");
const zone = process.env.TZ;
afterEach(() => {
  process.env.TZ = zone ?? "UTC";
});

test("a day begins at midnight of this place, and what is under way is compared with as much of the day before", () => {
  process.env.TZ = "America/New_York";
  const today = rangeOf("today", seconds("2026-11-22T15:20Z"));
  assert.deepEqual([text(today.from), text(today.to), today.step], ["2026-11-22T05:00Z", "2026-11-23T05:00Z", "1m"]);
  assert.equal(today.until, seconds("2026-11-22T15:20Z") + 1);
  const { previous } = today;
  assert.deepEqual(
    [text(previous.from), text(previous.to), text(previous.compared_to)],
    ["2026-11-21T05:00Z", "2026-11-21T15:00Z", "2026-11-22T15:00Z"],
  );
  const yesterday = rangeOf("yesterday", seconds("2026-11-22T15:20Z"));
  assert.deepEqual(
    [text(yesterday.from), text(yesterday.to), text(yesterday.previous.to)],
    ["2026-11-21T05:00Z", "2026-11-22T05:00Z", "2026-11-21T05:00Z"],
  );
  // The first hour of a day has nothing to compare yet.
  assert.equal(rangeOf("today", seconds("2026-11-22T05:20Z")).previous, undefined);
});

test("days, months and years are those of the calendar", () => {
  process.env.TZ = "Europe/Berlin";
  const now = seconds("2026-03-29T20:00Z");
  const spans = {
    week: ["2026-03-22T23:00Z", "2026-03-29T22:00Z", "1h"],
    days: ["2026-02-27T23:00Z", "2026-03-29T22:00Z", "1h"],
    month: ["2026-02-28T23:00Z", "2026-03-31T22:00Z", "1h"],
    year: ["2026-01-01T00:00Z", "2027-01-01T00:00Z", "1d"],
    "2015-05-17..2015-05-20": ["2015-05-16T22:00Z", "2015-05-20T22:00Z", "1h"],
    "2014-01-01..2015-12-31": ["2014-01-01T00:00Z", "2016-01-01T00:00Z", "1d"],
  };
  for (const [name, wanted] of Object.entries(spans)) {
    const range = rangeOf(name, now);
    assert.deepEqual([text(range.from), text(range.to), range.step], wanted, name);
  }
  assert.equal(rangeOf("2015-05-17..2015-05-20", now).words, "17 May 2015 to 20 May 2015");
  assert.deepEqual(datesOf("week", now), ["2026-03-23", "2026-03-29"]);
  const days = byDays(rangeOf("2015-05-17..2015-05-20", now));
  assert.deepEqual(
    [text(days.from), text(days.to), text(days.previous.from)],
    ["2015-05-17T00:00Z", "2015-05-21T00:00Z", "2015-05-13T00:00Z"],
  );
  const { from, to, step } = rangeOf("all", now);
  assert.deepEqual([(to - from) / 86_400, step], [10_000 - 1, "1d"]);
});

test("a view opens on a range in which something was counted", () => {
  const now = seconds("2026-11-22T15:20Z");
  const counted = (...days) => days.map((day) => [seconds(`${day}T00:00Z`), 1]);
  assert.equal(openingRange([], now), "today");
  assert.equal(openingRange(counted("2026-11-22"), now), "today");
  assert.equal(openingRange(counted("2026-11-10", "2026-11-20"), now), "week");
  assert.equal(openingRange(counted("2015-05-17", "2026-11-01"), now), "days");
  assert.equal(
    openingRange(counted("2015-01-01", "2015-05-17", "2015-05-18", "2015-05-20"), now), "2015-05-17..2015-05-20",
  );
  const year = Array.from({ length: 200 }, (_, index) => [seconds("2015-01-01T00:00Z") + index * 86_400, 1]);
  assert.equal(openingRange(year, now), "2015-06-19..2015-07-19");
});

test("the headline is the range's number, and its change is of what can be compared", () => {
  const range = rangeOf("today", seconds("2026-11-22T02:30Z"));
  const at = (hour, value) => [range.from + hour * 3_600, value];
  const before = (hour, value) => [range.previous.from + hour * 3_600, value];
  const comparison = compared(
    range, [at(0, 3), at(1, "9007199254740993"), at(2, 100)], [before(0, 4), before(1, 4), before(2, 7)],
  );
  assert.deepEqual(comparison.count, 9007199254741096n);
  assert.deepEqual([comparison.now, comparison.before], [9007199254740996n, 8n]);
  assert.deepEqual(compared(range, [at(0, 6)], [before(0, 4), before(1, 4)]).part, -0.25);
  // Nothing is compared with what is not known.
  assert.deepEqual(compared(range, [at(0, 6)], [before(0, null)]), { count: 6n });
  assert.deepEqual(compared(range, [at(0, 6)], []), { count: 6n });
  assert.equal(sumOf([[0, null], [60, 2]], 60, 120), 2n);
});

test("where a day begins within an hour, that hour is in neither the number nor the points", async () => {
  process.env.TZ = "Asia/Kolkata";
  const range = rangeOf("yesterday", seconds("2026-11-22T10:00Z"));
  assert.equal(text(range.from), "2026-11-20T18:30Z");
  // The service tells whole hours, from the one in which the first second lies.
  const hours = (from, to) => {
    const first = from - (from % 3_600);
    return Array.from({ length: Math.ceil((to - first) / 3_600) }, (_, index) => [first + index * 3_600, "1"]);
  };
  const points = hours(range.from, range.to);
  assert.equal(points.length, 25);
  assert.equal(compared(range, points, []).count, 24n);
  const { fetch, document, sessionStorage } = globalThis;
  globalThis.document = { hidden: false, addEventListener: () => {}, removeEventListener: () => {} };
  globalThis.sessionStorage = { getItem: () => null };
  globalThis.fetch = async (path) => {
    const query = new URLSearchParams(path.slice(path.indexOf("?")));
    const points = hours(Number(query.get("from")), Number(query.get("to")) + 1);
    return Response.json({ kept_from_at: null, points: points.map(([start, count]) => [start * 1_000, count]) });
  };
  try {
    const { history } = await historyOf("/counters/a", range);
    assert.deepEqual([history.points.length, text(history.points[0][0])], [24, "2026-11-20T19:00Z"]);
    const before = await pointsBefore("/counters/a", range);
    assert.deepEqual([before.length, text(before[0][0])], [24, "2026-11-19T19:00Z"]);
  } finally {
    Object.assign(globalThis, { fetch, document, sessionStorage });
  }
});

test("changes are told as people say them", () => {
  const words = [0, 0.123, 0.054, -0.5, 11, 0.0001].map(changeWords);
  assert.deepEqual(words, ["0 %", "+12 %", "+5.4 %", "−50 %", "12 times", "0 %"]);
});

test("when something was counted is said in words", () => {
  const words = ["today", "hour", "all", "2015-05-17..2015-05-17", "2015-05-17..2015-05-20"].map((name) =>
    during(rangeOf(name, seconds("2026-11-27T06:10:00Z")).words),
  );
  assert.deepEqual(words, [
    "today", "in the last hour", "over all time", "on 17 May 2015", "from 17 May 2015 to 20 May 2015",
  ]);
  assert.equal(during("the day before"), "on the day before");
});

test("a range is compared in a sentence that says with what", () => {
  const now_s = seconds("2026-11-27T06:10:00Z");
  const sentence = (name, comparison) => comparedWords(rangeOf(name, now_s), comparison).join(" ").trim();
  const comparisonOf = (count, now, before) => ({ count, now, before, part: partOf(now, before) });
  assert.equal(sentence("yesterday", comparisonOf(30n, 30n, 20n)), "+50 % against the day before (20)");
  assert.equal(sentence("yesterday", comparisonOf(20n, 20n, 20n)), "as many as the day before (20)");
  assert.equal(sentence("yesterday", comparisonOf(240n, 240n, 20n)), "12 times as many as the day before (20)");
  assert.equal(sentence("yesterday", comparisonOf(2n, 2n, 0n)), "new: nothing was counted on the day before");
  assert.equal(sentence("yesterday", comparisonOf(0n, 0n, 0n)), "Nothing was counted on the day before.");
  assert.equal(
    sentence("today", comparisonOf(45n, 40n, 20n)), "+100 % against the same part of yesterday (40 against 20)",
  );
  // Also where nothing was counted since the last full hour.
  assert.equal(sentence("today", comparisonOf(40n, 40n, 20n)), "+100 % against the same part of yesterday (20)");
  assert.equal(sentence("today", comparisonOf(4n, 4n, 0n)), "new: nothing was counted in the same part of yesterday");
});
