// Ranges of time as people name them: which seconds they are, in which steps they are asked for, and what they are
// compared with.
//
// Invariants: a day begins at midnight of the browser's time zone where hours tell it; where only days tell it, it is a
// day of UTC. What is under way is compared with as much of the range before, up to the last full step.

import { firstStep } from "./series.js";

const MINUTE = 60;
const HOUR = 3_600;
const DAY = 86_400;
// What one answer holds: 10,000 points.
const DAYS_MAX = 9_999;
// Hours are kept longer than this, days for years.
const HOURS_DAYS_MAX = 62;

/** How many seconds a step has. */
export const STEPS = { "1s": 1, "1m": MINUTE, "1h": HOUR, "1d": DAY };

/** The ranges that have a name, in the order in which they are shown. */
export const RANGES = {
  minutes: { label: "15 min", words: "the last 15 minutes", before: undefined },
  hour: { label: "Hour", words: "the last hour", before: "the hour before" },
  today: { label: "Today", words: "today", before: "yesterday" },
  yesterday: { label: "Yesterday", words: "yesterday", before: "the day before" },
  week: { label: "7 days", words: "the last 7 days", before: "the 7 days before" },
  days: { label: "30 days", words: "the last 30 days", before: "the 30 days before" },
  month: { label: "Month", words: "this month", before: "last month" },
  year: { label: "Year", words: "this year", before: "last year" },
  all: { label: "All time", words: "all time", before: undefined },
};
// The same as people write them.
const OTHER_NAMES = {
  "15m": "minutes", "1h": "hour", day: "today", "1d": "today", "24h": "today", "7d": "week", "30d": "days",
  "1y": "year",
};
const DATE = /^(\d{4})-(\d{2})-(\d{2})$/;
const CUSTOM = /^(\d{4}-\d{2}-\d{2})\.\.(\d{4}-\d{2}-\d{2})$/;

/**
 * Returns the text of a range in an address, "week" or "2015-05-17..2015-05-20", that these words mean; undefined where
 * there is none.
 */
export function rangeNamed(words) {
  const name = Object.hasOwn(OTHER_NAMES, words) ? OTHER_NAMES[words] : words;
  if (Object.hasOwn(RANGES, name)) return name;
  const [, from, to] = words.match(CUSTOM) ?? [];
  return from !== undefined && dateOf(from) !== undefined && dateOf(to) !== undefined && from <= to ? words : undefined;
}

/** Returns why days that are asked for cannot be shown, in a sentence; undefined where they can, or are no days. */
export function rangeFault(words, now_s) {
  if (rangeNamed(words) === undefined) return undefined;
  const custom = words.match(CUSTOM);
  if (custom === null) return undefined;
  const [first, last] = [dateOf(custom[1]), dateOf(custom[2])];
  if (second(first) > now_s) return `The range ${words} has not begun.`;
  const days = daysBetween(first, last) + 1;
  return days > DAYS_MAX ? `The range ${words} has ${days.toLocaleString("en")} days: ${DAYS_MAX.toLocaleString("en")} are shown at most.` : undefined;
}

/** Returns the names that can be written, for people. */
export const RANGE_WORDS = [...Object.keys(RANGES), "2025-01-31..2025-02-28"].join(", ");

/** Returns the beginning of a day of this place, "2015-05-17", as a Date; undefined where there is no such day. */
function dateOf(text) {
  const [, year, month, day] = (text.match(DATE) ?? []).map(Number);
  const date = new Date(year, month - 1, day);
  return date.getMonth() === month - 1 && date.getDate() === day ? date : undefined;
}

const midnight = (date, days = 0) => new Date(date.getFullYear(), date.getMonth(), date.getDate() + days);
const second = (date) => Math.floor(date.getTime() / 1000);
// The same date as a day of UTC.
const ofUtc = (date) => Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) / 1000;
const daysBetween = (from, to) => Math.round((ofUtc(to) - ofUtc(from)) / DAY);
const twoDigits = (number) => String(number).padStart(2, "0");
/** Returns a date as "2015-05-17". */
export const dateText = (date) => `${date.getFullYear()}-${twoDigits(date.getMonth() + 1)}-${twoDigits(date.getDate())}`;

/** Returns the first and last date of a range that is asked for by days, as inputs for dates want them. */
export function datesOf(name, now_s) {
  const range = rangeOf(name, now_s);
  const custom = name.match(CUSTOM);
  if (custom !== null) return [custom[1], custom[2]];
  return [dateText(new Date(range.from * 1000)), dateText(new Date((Math.min(range.to, now_s + 1) - 1) * 1000))];
}

function fromSpan(name, seconds, step, now_s, hasBefore) {
  const to = now_s + 1;
  // Whole steps, the last of which is under way.
  const from = now_s - (now_s % STEPS[step]) - seconds + STEPS[step];
  const previous = hasBefore ? { from: from - seconds, shift: seconds, step } : undefined;
  return { from, to, step, previous };
}

/** A range of whole days: from one date until before another; `shift` days lie between it and the range before. */
function fromDates(first, end, previousFirst, now_s, isByDays) {
  const at = isByDays ? ofUtc : second;
  const [from, to] = [at(first), at(end)];
  const step = isByDays ? "1d" : "1h";
  const previous =
    previousFirst === undefined ? undefined : { from: at(previousFirst), shift: from - at(previousFirst), step };
  return { from, to, step, previous };
}

function whole(name, now_s) {
  const today = midnight(new Date(now_s * 1000));
  const custom = name.match(CUSTOM);
  if (custom !== null) {
    const [first, last] = [dateOf(custom[1]), dateOf(custom[2])];
    const days = daysBetween(first, last) + 1;
    return fromDates(first, midnight(last, 1), midnight(first, -days), now_s, days > HOURS_DAYS_MAX);
  }
  const [year, month] = [today.getFullYear(), today.getMonth()];
  const makers = {
    minutes: () => fromSpan(name, 900, "1s", now_s, false),
    hour: () => fromSpan(name, HOUR, "1m", now_s, true),
    // Minutes of today are kept, those of yesterday are not.
    today: () => ({ ...fromDates(today, midnight(today, 1), midnight(today, -1), now_s, false), step: "1m" }),
    yesterday: () => fromDates(midnight(today, -1), today, midnight(today, -2), now_s, false),
    week: () => fromDates(midnight(today, -6), midnight(today, 1), midnight(today, -13), now_s, false),
    days: () => fromDates(midnight(today, -29), midnight(today, 1), midnight(today, -59), now_s, false),
    month: () =>
      fromDates(new Date(year, month, 1), new Date(year, month + 1, 1), new Date(year, month - 1, 1), now_s, false),
    year: () => fromDates(new Date(year, 0, 1), new Date(year + 1, 0, 1), new Date(year - 1, 0, 1), now_s, true),
    all: () => ({ from: ofUtc(today) - (DAYS_MAX - 1) * DAY, to: ofUtc(today) + DAY, step: "1d", previous: undefined }),
  };
  return makers[name]();
}

const day = (second, step) =>
  new Date(second * 1000).toLocaleDateString("en-GB", {
    day: "numeric",
    month: "short",
    year: "numeric",
    timeZone: step === "1d" ? "UTC" : undefined,
  });

/** Returns a range as an answer by days tells it: days of UTC. */
export function byDays(range) {
  const at = (second) => ofUtc(midnight(new Date(second * 1000)));
  const { previous } = range;
  const [from, to] = [at(range.from), at(range.to)];
  const before =
    previous === undefined ? undefined : { from: at(previous.from), shift: from - at(previous.from), step: "1d" };
  return complete({ ...range, from, to, step: "1d", previous: before }, range.now);
}

/** Adds what follows from the rest: how far it goes now, and until when it is compared. */
function complete(range, now_s) {
  const step_seconds = STEPS[range.step];
  const until = Math.min(range.to, now_s + 1);
  const { previous } = range;
  if (previous === undefined) return { ...range, now: now_s, step_seconds, until };
  const width = STEPS[previous.step];
  // A full step of the coarser of both.
  const compared = until < range.to ? until - (until % width) : until;
  const compared_to = Math.min(compared, range.from + previous.shift);
  // Whole steps of both, and as many: a day may begin within an hour, and elsewhere in one where a clock is set by half
  // an hour.
  const compared_from = firstStep(range.from, width);
  const to = firstStep(previous.from, width) + (compared_to - compared_from);
  const isCompared = compared_to > compared_from;
  const comparison = isCompared ? { ...previous, to, compared_from, compared_to } : undefined;
  return { ...range, now: now_s, step_seconds, until, previous: comparison };
}

/**
 * Returns a range by its name in an address: `{ name, label, words, before, from, to, until, now, step, step_seconds,
 * previous }`. `from` to before `to` are unix seconds, `until` is how far it goes now; `previous` is `{ from, to,
 * compared_from, compared_to, shift, step }`: what came before, and from where to where of this range it is compared;
 * undefined where nothing is.
 */
export function rangeOf(name, now_s) {
  const range = complete({ name, ...whole(name, now_s) }, now_s);
  if (Object.hasOwn(RANGES, name)) return { ...range, ...RANGES[name] };
  const [first, last] = [day(range.from, range.step), day(range.to - 1, range.step)];
  const words = first === last ? first : `${first} to ${last}`;
  const days = Math.round((range.to - range.from) / DAY);
  return { ...range, label: "Custom", words, before: days === 1 ? "the day before" : `the ${days} days before` };
}

// Days that belong together: no week without any lies between them, and they are a month at most.
const GAP_SECONDS_MAX = 7 * DAY;
const STRETCH_SECONDS_MAX = 30 * DAY;

/**
 * Returns the name of a range in which something was counted, by the days of UTC on which something was, `[[unix
 * second, count]]`, oldest first: today where there is no other day, the last 7 or 30 days, else the newest days that
 * have some.
 */
export function openingRange(counted, now_s) {
  const [oldest, newest] = [counted[0]?.[0], counted.at(-1)?.[0]];
  const reaches = (name, start) => start + DAY > rangeOf(name, now_s).from;
  if (newest === undefined || reaches("today", oldest)) return "today";
  const found = ["week", "days"].find((name) => reaches(name, newest));
  if (found !== undefined) return found;
  let first = newest;
  for (const [start] of [...counted].reverse()) {
    if (first - start > GAP_SECONDS_MAX || newest - start > STRETCH_SECONDS_MAX) break;
    first = start;
  }
  const text = (start) => new Date(start * 1000).toISOString().slice(0, 10);
  return `${text(first)}..${text(newest)}`;
}

/**
 * Returns a time from whole hour to whole hour in words: by days of UTC where it is whole days, else by the clock of
 * this place.
 */
export function hoursWords(from, to) {
  const isOfDays = from % DAY === 0 && to % DAY === 0;
  if (isOfDays) {
    const [first, last] = [day(from, "1d"), day(to - 1, "1d")];
    return `${first === last ? first : `${first} to ${last}`}, by UTC`;
  }
  const at = (second) =>
    new Date(second * 1000).toLocaleString("en-GB", {
      day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit",
    });
  return `${at(from)} to ${at(to)}`;
}

/** Returns when something was counted, in words: "in the last hour", "today", "on 17 May 2015". */
export function during(words) {
  if (words === "all time") return "over all time";
  if (/^(the day|\d+ \S+ \d+$)/.test(words)) return `on ${words}`;
  if (/^\d/.test(words)) return `from ${words}`;
  return words.startsWith("the ") ? `in ${words}` : words;
}

/** Returns the path and query of a history over a part of time. */
export function historyQuery({ step, from, to }, more = "") {
  return `history?step=${step}&from=${from}&to=${to - 1}&numbers=string${more}`;
}
