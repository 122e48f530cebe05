// Histories as charts want them. Invariant: what is not known stays null, and a sum over it is null too.
import { whole } from "./numbers.js";

const HOUR = 3_600;
const DAY = 86_400;
const WEEK = 7 * DAY;
// Weeks begin on Mondays: 5 January 1970 was one, the day 4.
const MONDAY = 4;
const secondOf = (date) => Math.floor(date.getTime() / 1000);
const offsetOf = (second) => -60 * new Date(second * 1000).getTimezoneOffset();
const dayOf = (date) => Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) / (1000 * DAY);

/**
 * Returns when the stretch of `width` seconds begins that holds a second: by the clock of this place, or of UTC where
 * `isUtc`. A clock that is set back has one stretch for both passes of the same hours, which begins with the first.
 */
export function stretchStart(second, width, isUtc) {
  if (width <= HOUR) return Math.floor(second / width) * width;
  const date = new Date(second * 1000);
  if (width < DAY) {
    if (isUtc) return Math.floor(second / width) * width;
    const hours = width / HOUR;
    const hour = Math.floor(date.getHours() / hours) * hours;
    return secondOf(new Date(date.getFullYear(), date.getMonth(), date.getDate(), hour));
  }
  const days = width / DAY;
  const base = width >= WEEK ? MONDAY : 0;
  const day = Math.floor(((isUtc ? Math.floor(second / DAY) : dayOf(date)) - base) / days) * days + base;
  return isUtc ? day * DAY : secondOf(new Date(1970, 0, 1 + day));
}

// No clock is set back by more than this.
const SET_BACK_SECONDS_MAX = 3 * HOUR;

/** Whether the clock of this place shows the time of a second twice, because it is set back on that day. */
export function isShownTwice(second) {
  const shown = second + offsetOf(second);
  return [-SET_BACK_SECONDS_MAX, SET_BACK_SECONDS_MAX].some((by) => {
    const offset = offsetOf(second + by);
    const other = shown - offset;
    return other !== second && offsetOf(other) === offset;
  });
}

/** Returns the first whole step at a second or later: of a step that begins before, a part is of another time. */
export const firstStep = (second, step_seconds) => Math.ceil(second / step_seconds) * step_seconds;

/** Returns all points from `from` until before `to`: 0 where an answer left one out. */
export function filled(points, from, to, step_seconds) {
  const known = new Map(points);
  const all = [];
  for (let start = from; start < to; start += step_seconds) all.push([start, known.has(start) ? known.get(start) : 0]);
  return all;
}

/** Returns points joined by `factor`: sums, aligned to the clock, null only where all are. */
export function joined(points, factor, step_seconds, isUtc = true) {
  if (factor <= 1) return points;
  const width = factor * step_seconds;
  const found = new Map();
  for (const [second, value] of points) {
    const start = stretchStart(second, width, isUtc);
    const before = found.get(start) ?? null;
    if (value === null) found.set(start, before);
    else found.set(start, (before ?? 0n) + whole(value));
  }
  return [...found].sort(([a], [b]) => a - b);
}

// Widths that read well on a clock, in seconds.
const WIDTHS = [
  1, 5, 15, 30, 60, 300, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, WEEK, 4 * WEEK, 13 * WEEK, 52 * WEEK,
];

/** Returns how many steps to join so that `span_seconds` show as at most `most` points. */
export function factorFor(span_seconds, step_seconds, most) {
  const fits = WIDTHS.find(
    (width) => width >= step_seconds && width % step_seconds === 0 && span_seconds / width <= most,
  );
  return (fits ?? WIDTHS.at(-1)) / step_seconds;
}

/**
 * Returns `{ sum, peak, peak_at, known }` of points; sum and peak are bigints, `known` is how many points say
 * something.
 */
export function summary(points) {
  const known = points.filter(([, value]) => value !== null);
  const peak = known.reduce(
    (best, point) => (best === undefined || whole(point[1]) > whole(best[1]) ? point : best), undefined,
  );
  return {
    sum: known.reduce((sum, [, value]) => sum + whole(value), 0n),
    peak: peak === undefined ? 0n : whole(peak[1]),
    peak_at: peak?.[0],
    known: known.length,
  };
}

/**
 * Returns the path of a line through values in a box, in SVG's words; a gap where one is null, "" where none is known.
 * `most` is at the top.
 */
export function sparkline(values, width, height, most) {
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return "";
  const top = most ?? Math.max(1, ...known);
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  let isOpen = false;
  return values
    .map((value, index) => {
      if (value === null) {
        isOpen = false;
        return "";
      }
      const word = isOpen ? "L" : "M";
      isOpen = true;
      const y = height - (Math.min(top, Math.max(0, value)) / top) * height;
      return `${word}${(index * step).toFixed(1)} ${y.toFixed(1)}`;
    })
    .join("");
}
