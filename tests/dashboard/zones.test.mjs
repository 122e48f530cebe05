// Zones whose days are not whole hours of UTC apart, and days on which the clock is set: no step is shown that was not
// told, and no two rows have one label.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { moment } from "../../dashboard/chart.js";
import { compared } from "../../dashboard/history.js";
import { rangeOf } from "../../dashboard/ranges.js";
import { filled, firstStep, isShownTwice, joined, stretchStart } from "../../dashboard/series.js";
import { columnsOf } from "../../dashboard/verdict-chart.js";

const HOUR = 3_600;
const DAY = 86_400;
const second = (text) => Date.parse(text) / 1000;
const zone = process.env.TZ;
afterEach(() => {
  process.env.TZ = zone ?? "UTC";
});

// Zones, and days on which their clocks are set back and forward: by an hour, by half an hour, at midnight.
const ZONES = {
  "UTC": ["2026-06-10"],
  "Asia/Kolkata": ["2026-06-10"],
  "Asia/Kathmandu": ["2026-06-10"],
  "America/St_Johns": ["2026-11-01", "2026-03-08"],
  "Pacific/Chatham": ["2026-04-05", "2026-09-27"],
  "Australia/Lord_Howe": ["2026-04-05", "2026-10-04"],
  "America/New_York": ["2026-11-01", "2026-03-08"],
  "Europe/Berlin": ["2026-10-25", "2026-03-29"],
  "Europe/London": ["2026-10-25", "2026-03-29"],
  "America/Havana": ["2026-11-01", "2026-03-08"],
  "Atlantic/Azores": ["2026-10-25", "2026-03-29"],
  "Asia/Beirut": ["2026-10-25", "2026-03-29"],
  "America/Santiago": ["2026-04-05", "2026-09-06"],
  "Africa/Cairo": ["2026-10-30", "2026-04-24"],
};
const days = Object.entries(ZONES).flatMap(([name, dates]) => dates.map((date) => [name, date]));

// What the service tells of a range: each step that has a part in it, one each.
function told({ from, until, step_seconds }) {
  const first = from - (from % step_seconds);
  return Array.from({ length: Math.ceil((until - first) / step_seconds) }, (_, at) => [first + at * step_seconds, 1]);
}

test("no range begins with a zero that was not counted", () => {
  for (const [name, date] of days) {
    process.env.TZ = name;
    const now_s = second(`${date}T20:00Z`);
    for (const range_name of ["today", "yesterday", "week", "days", "month", `${date}..${date}`]) {
      const range = rangeOf(range_name, now_s);
      const { from, until, step_seconds } = range;
      // As `historyOf` leaves them.
      const points = told(range).filter(([start]) => start >= from);
      const what = `${name} ${date} ${range_name}`;
      const shown = filled(points, firstStep(from, step_seconds), until, step_seconds);
      assert.deepEqual(shown.filter(([, value]) => value === 0), [], what);
      assert.deepEqual(shown, points, what);
      const { columns } = columnsOf(points.map(([start]) => [start, 1, 1, 1]), range);
      assert.ok(columns.every((column) => column.slice(1).every((value) => value > 0)), what);
    }
  }
});

test("a stretch begins once, at or before what it holds, and stretches are in order", () => {
  for (const [name, date] of days) {
    process.env.TZ = name;
    const from = second(`${date}T00:00Z`) - 3 * DAY;
    for (const hours of [1, 2, 3, 6, 12, 24, 7 * 24, 4 * 7 * 24]) {
      const width = hours * HOUR;
      let before = -Infinity;
      for (let at = from; at < from + 6 * DAY; at += HOUR) {
        const start = stretchStart(at, width, false);
        const what = `${name} ${date} ${hours} h at ${new Date(at * 1000).toISOString()}`;
        // The hour that the Chatham Islands leave out ends a quarter of an hour before the stretch of the clock begins.
        assert.ok(start <= at + (name === "Pacific/Chatham" ? 900 : 0) && start >= before, what);
        assert.ok(at - start < width + 3 * HOUR, what);
        assert.equal(stretchStart(start, width, false), start, what);
        before = start;
      }
    }
  }
});

const WIDTHS = [...[1, 5, 15, 30, 60].map((it) => [60, it]), ...[1, 2, 3, 6, 12, 24].map((it) => [HOUR, it])];

test("no two rows have one label", () => {
  for (const [name, date] of days) {
    process.env.TZ = name;
    const middle = second(`${date}T00:00Z`);
    for (const [step, factor] of WIDTHS) {
      const width = step * factor;
      // Labels of minutes say no day.
      const reach = width < HOUR ? DAY / 2 : 3 * DAY;
      for (let from = middle - 2 * DAY; from <= middle + DAY; from += DAY) {
        const points = Array.from({ length: (2 * reach) / step }, (_, at) => [from - (from % step) + at * step, 1]);
        // Less than a day of the clock, which is set back by an hour at most.
        const isNear = ([start]) => width >= HOUR || start < from + DAY - 2 * HOUR;
        const rows = joined(points, factor, step, false).filter(isNear);
        const labels = rows.map(([start]) => moment(start, width, false));
        const twice = labels.filter((label, at) => labels.indexOf(label) !== at);
        assert.deepEqual(twice, [], `${name} ${date} ${width} s`);
      }
    }
  }
});

test("the hour that comes twice is told with its zone, and no other", () => {
  process.env.TZ = "Europe/London";
  const label = (text) => moment(second(text), HOUR, false).replace(/ 2026/, "");
  assert.deepEqual(
    ["2026-10-24T23:00Z", "2026-10-25T00:00Z", "2026-10-25T01:00Z", "2026-10-25T02:00Z"].map(label),
    ["25 Oct, 00:00", "25 Oct, 01:00 BST", "25 Oct, 01:00 GMT", "25 Oct, 02:00"],
  );
  process.env.TZ = "Australia/Lord_Howe";
  assert.deepEqual(
    ["14:29", "14:30", "15:00", "15:30"].map((clock) => moment(second(`2026-04-04T${clock}Z`), 60, false)),
    ["01:29", "01:30 GMT+11", "01:30 GMT+10:30", "02:00"],
  );
  assert.equal(isShownTwice(second("2026-10-03T15:30Z")), false);
});

test("minutes of a day are compared with the same time of the hours of the day before", () => {
  for (const name of ["Asia/Kolkata", "Asia/Kathmandu", "America/St_Johns"]) {
    process.env.TZ = name;
    const midnight = rangeOf("today", second("2026-06-10T12:00Z")).from;
    // Before the first full hour nothing is compared: a zero would be of no time.
    assert.equal(rangeOf("today", midnight + 50 * 60).previous, undefined, name);
    const range = rangeOf("today", midnight + 3 * HOUR);
    const minutes = told(range).map(([start]) => [start, 1]);
    const hours = told({ ...range.previous, until: midnight, step_seconds: HOUR }).map(([start]) => [start, 60]);
    const { now, before, count } = compared(range, minutes, hours);
    assert.deepEqual([now, before, count], [120n, 120n, 181n], name);
  }
});

test("where the clock is set by half an hour, as many hours are compared as there are", () => {
  process.env.TZ = "Australia/Lord_Howe";
  for (const date of ["2026-04-04", "2026-04-05", "2026-04-06", "2026-10-03", "2026-10-04", "2026-10-05"]) {
    for (const clock of ["05:20Z", "13:40Z", "20:10Z", "23:50Z"]) {
      const range = rangeOf("today", second(`${date}T${clock}`));
      const { previous } = range;
      if (previous === undefined) continue;
      const hours = (from, to) => Math.ceil(to / HOUR) - Math.ceil(from / HOUR);
      const now = hours(previous.compared_from, previous.compared_to);
      assert.equal(hours(previous.from, previous.to), now, `${date} ${clock}`);
    }
  }
});
