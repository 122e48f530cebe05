// Histories as charts want them. Invariant: what is not known stays null, and a sum over it is null too.
import { drawn, whole } from "./numbers.js";

/** Returns `[times, counts]` of a history's points: unix seconds and doubles, null where nothing is known. */
export function columns(points) {
  return [points.map(([second]) => second), points.map(([, value]) => drawn(value))];
}

/** Returns points joined by `factor`: sums, aligned to the clock as their steps are, null only where all are. */
export function joined(points, factor, step_seconds) {
  if (factor <= 1) return points;
  const width = factor * step_seconds;
  const found = new Map();
  for (const [second, value] of points) {
    const start = Math.floor(second / width) * width;
    const before = found.get(start) ?? null;
    if (value === null) found.set(start, before);
    else found.set(start, (before ?? 0n) + whole(value));
  }
  return [...found].sort(([a], [b]) => a - b);
}

// Widths that read well on a clock, in seconds.
const WIDTHS = [1, 5, 15, 30, 60, 300, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400];

/** Returns how many steps to join so that `span_seconds` show as at most `most` points. */
export function factorFor(span_seconds, step_seconds, most) {
  const fits = WIDTHS.find((width) => width >= step_seconds && width % step_seconds === 0 && span_seconds / width <= most);
  return (fits ?? WIDTHS.at(-1)) / step_seconds;
}

/** Returns `{ sum, peak, peak_at, known }` of points; sum and peak are bigints, `known` is how many points say something. */
export function summary(points) {
  const told = points.filter(([, value]) => value !== null);
  const peak = told.reduce((best, point) => (best === undefined || whole(point[1]) > whole(best[1]) ? point : best), undefined);
  return {
    sum: told.reduce((sum, [, value]) => sum + whole(value), 0n),
    peak: peak === undefined ? 0n : whole(peak[1]),
    peak_at: peak?.[0],
    known: told.length,
  };
}

/** Returns the path of a line through values in a box, in SVG's words; a gap where one is null, "" where none is known. `most` is at the top. */
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

/** Returns counters in order: by "rate", "value" or "name"; equals by name. Each is `{ id, value, rate }`. */
export function ranked(counters, order) {
  const byName = (a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
  const byValue = (a, b) => (whole(a.value) < whole(b.value) ? 1 : whole(a.value) > whole(b.value) ? -1 : 0);
  const byRate = (a, b) => (b.rate ?? 0) - (a.rate ?? 0);
  const orders = { name: [byName], value: [byValue, byName], rate: [byRate, byValue, byName] };
  return [...counters].sort((a, b) => orders[order].map((compare) => compare(a, b)).find((found) => found !== 0) ?? 0);
}
