// What was counted in a range, and in the one before: of one counter, or of all whose names begin alike.
//
// Invariant: a sum is of what the answer says is known. Where hours are not kept any more, it is asked by days.
import { Failure, counterPath, json } from "./api.js";
import { whole } from "./numbers.js";
import { byDays, historyQuery } from "./ranges.js";

/** The path of what all counters have together whose names begin with a text. */
export function prefixPath(prefix) {
  return `/counters/${encodeURIComponent(prefix)}*/aggregate`;
}

/** The path of what a view shows: of a counter by its id, of a prefix else. */
export function subjectPath({ id, prefix }) {
  return id === undefined ? prefixPath(prefix) : counterPath(id);
}

/** Returns the sum of the points that begin in `from` until before `to`; null where nothing is known of one of them. */
export function sumOf(points, from, to) {
  let sum = 0n;
  for (const [start, value] of points) {
    if (start < from || start >= to) continue;
    if (value === null) return null;
    sum += whole(value);
  }
  return sum;
}

/**
 * Returns the points that begin at `from` or later. The service tells the whole hour in which a range begins, and where
 * a time zone is off by half an hour a day begins within one.
 */
const since = (points, from) => points.filter(([start]) => start >= from);

/** Returns a history with its points in unix seconds, as charts draw them. */
const inSeconds = (history) => ({
  ...history, points: history.points.map(([starts_at, ...counts]) => [starts_at / 1_000, ...counts]),
});

/** Returns the days on which something was counted, `[[unix second, count]]`, oldest first. */
export async function countedDays(path, now_s, signal) {
  const from = now_s - 9_999 * 86_400;
  const history = await json(`${path}/${historyQuery({ step: "1d", from, to: now_s + 1 }, "&zeros=0")}`, signal);
  return inSeconds(history).points.filter(([, value]) => whole(value) > 0n);
}

/** Returns `{ history, range }`: the history of a range, and the range that it is of. `more` goes into the query. */
export async function historyOf(path, range, signal, more = "") {
  // Of all time few days have something.
  const isLong = range.name === "all";
  const zeros = isLong ? "&zeros=0" : "";
  const query = (requested) => historyQuery({ ...requested, to: requested.until }, `${zeros}${more}`);
  const ask = async (requested) => {
    const answer = await read(path, query(requested), signal);
    return { ...answer, points: since(answer.points, requested.from) };
  };
  const history = await ask(range);
  if (isLong) return { history, range: trimmed(range, history.points) };
  const isLost = history.kept_from_at !== null && history.kept_from_at > range.from * 1_000 && range.step !== "1d";
  if (!isLost) return { history, range };
  const days = byDays(range);
  return { history: await ask(days), range: days };
}

/** Reads a history: a call of counters, a field of a policy. */
async function read(path, query, signal) {
  if (!path.startsWith("/limits/")) return inSeconds(await json(`${path}/${query}`, signal));
  return inSeconds((await json(`${path}?include=${query.replace("?", "&")}`, signal)).history);
}

/** Of all time only what lies after the first day that has something. */
function trimmed(range, points) {
  const first = points[0]?.[0] ?? range.until - 30 * 86_400;
  // A chart of few days needs some width.
  return { ...range, from: Math.min(first, range.to - 7 * 86_400) };
}

/** Returns the points of the range before, `[]` where none is compared or known. */
export async function pointsBefore(path, range, signal) {
  const { previous } = range;
  if (previous === undefined) return [];
  try {
    const history = await read(path, historyQuery({ ...previous, to: previous.from + previous.shift }), signal);
    return since(history.points, previous.from);
  } catch (error) {
    // What it is compared with is told where it can be had.
    if (error instanceof Failure && !error.isOffline) return [];
    throw error;
  }
}

/** Returns a change as a part of what was before; undefined where that was nothing. */
export function partOf(now, before) {
  return before === 0n ? undefined : Number(((now - before) * 10_000n) / before) / 10_000;
}

/**
 * Returns how a range compares with the one before: `{ count, now, before, part }`; `count` is its sum, `now` and
 * `before` are what is compared, `part` is the change as a part of what was before. Those are undefined where nothing
 * is compared.
 */
export function compared(range, points, before) {
  const count = since(points, range.from).reduce(
    (sum, [start, value]) => (start < range.to && value !== null ? sum + whole(value) : sum), 0n,
  );
  const { previous } = range;
  const was = previous === undefined || before.length === 0 ? null : sumOf(before, previous.from, previous.to);
  if (was === null) return { count };
  const now = sumOf(points, previous.compared_from, previous.compared_to);
  if (now === null) return { count };
  return { count, now, before: was, part: partOf(now, was) };
}
