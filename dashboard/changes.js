// How the rows of a list compare with what they were in the range before.
//
// Invariants: a change is told where both times were counted as they were asked for, and no part is missing; where a
// count is known between bounds, so is its change.
import { Failure, json } from "./api.js";
import { changeWords } from "./headline.js";
import { partOf } from "./history.js";
import { count, whole } from "./numbers.js";
import { byDays, hoursWords } from "./ranges.js";

const HOUR = 3_600;
const DAY = 86_400;
// What was counted of values is kept by the hour for so long, by the day of UTC after that.
const HOURS_KEPT = 7 * DAY;
// The rows that are asked for of each of both times: what is in none of them had at most what the last one had.
const ROWS_COMPARED = 100;
// Times that are over change only where a log is imported.
const KEPT_MS = 300_000;
const FRESH_MS = 3_000;

/**
 * Returns the two times by which rows of a range are compared, `{ now, before }`, each `{ from, until, step }`;
 * undefined where nothing is.
 */
export function comparedTimes({ from, previous }) {
  if (previous === undefined) return undefined;
  const { step } = previous;
  return {
    now: { from, until: previous.compared_to, step }, before: { from: previous.from, until: previous.to, step },
  };
}

/** Returns the same for what is kept by the hour for a week, and by the day of UTC after that. */
export function comparedValueTimes(range) {
  const isOld = range.previous !== undefined && range.previous.from < range.now - HOURS_KEPT && range.step !== "1d";
  const times = comparedTimes(isOld ? byDays(range) : range);
  const width = isOld || range.step === "1d" ? DAY : HOUR;
  const isWhole = ({ from, until }) => from % width === 0 && until % width === 0;
  return times !== undefined && isWhole(times.now) && isWhole(times.before) ? times : undefined;
}

/** Returns which times the changes of values are of, in a sentence; "" where they are those of the range. */
export function timesWords(range, { now, before }) {
  const whole = comparedTimes(range);
  if (now.from === whole.now.from && now.until === whole.now.until) return "";
  const words = ({ from, until }) => hoursWords(from, until);
  return `Changes compare ${words(now)}, with ${words(before)}: values that are older than a week are kept by the day of UTC.`;
}

const larger = (one, other) => (one > other ? one : other);

/**
 * Returns what an answer knows of rows, as a function from key to `[least, most]`; undefined where it does not say all
 * of the time from `from` until before `until`. It is the answer of a breakdown, of one value of it, or of a history
 * with a top.
 */
export function countsIn(answer, { from, until }) {
  const { window, omitted } = answer;
  const isOther = window !== undefined && (window.starts_at !== from * 1_000 || window.ends_at !== until * 1_000);
  const isStale = !answer.exact && !omitted && answer.staleness_ms >= FRESH_MS;
  const isCut = answer.kept_from_at !== null && answer.kept_from_at > from * 1_000;
  if (isOther || isStale || isCut || answer.missing_partitions?.length > 0) return undefined;
  const rows = answer.rows ?? answer.top;
  const known = new Map(rows.map((row) => [row.value ?? row.id, [whole(row.count), whole(row.error ?? 0)]]));
  // Counters that were not asked may have any value of a dimension, but are in no row themselves.
  const hidden = whole((answer.by !== undefined && answer.value === undefined ? omitted?.count_max : 0) ?? 0);
  const absent = absentMost(answer, rows);
  return (key) => {
    const [least, error] = known.get(key) ?? [0n, absent];
    return [least, least + error + hidden];
  };
}

/** The most that was counted of what is in no row. */
function absentMost({ other, error, omitted }, rows) {
  if (other?.each_max !== undefined) return whole(other.each_max);
  const of_omitted = whole(omitted?.each_max ?? 0);
  if (other !== undefined) return larger(whole(other) + whole(error), of_omitted);
  return rows.length < ROWS_COMPARED ? of_omitted : larger(whole(rows.at(-1).count), of_omitted);
}

const percentOf = (part) => Math.round(part * 10_000) / 100;

function percentBetween(now, before) {
  if (before[1] === 0n) return now[1] === 0n ? 0 : "new";
  const [low, high] = [partOf(now[0], before[1]), partOf(now[1], before[0])];
  if (low === high) return percentOf(low);
  return low > 0 ? `>= ${percentOf(low)}` : `<= ${percentOf(high)}`;
}

/**
 * Returns how a count changed, as columns of an export: both counts, of which times they are, and the change in
 * percent. A count that is known by bounds alone is "10 to 20", a change ">= 25"; one from nothing is "new".
 */
export function changeColumns(now, before, times) {
  const number = ([least, most]) => (least === most ? least : `${least} to ${most}`);
  return {
    count_compared: number(now), compared_from: times.now.from, compared_to: times.now.until,
    count_before: number(before), before_from: times.before.from, before_to: times.before.until,
    change_percent: percentBetween(now, before),
  };
}

const between = ([least, most]) => (least === most ? count(least) : `${count(least)} to ${count(most)}`);

/**
 * Returns how a count changed, `{ words, tone, title, columns }`, where both are known as `[least, most]`; undefined
 * where that says nothing.
 */
export function changeOf(now, before, times) {
  const columns = changeColumns(now, before, times);
  const title = `${hoursWords(times.now.from, times.now.until)}: ${between(now)}. ${hoursWords(times.before.from, times.before.until)}: ${between(before)}.`;
  if (before[1] === 0n) return now[0] === 0n ? undefined : { words: "new", tone: "up", title, columns };
  const low = partOf(now[0], before[1]);
  const high = partOf(now[1], before[0]);
  const tone = low > 0 ? "up" : high < 0 ? "down" : "none";
  if (high !== undefined && changeWords(low) === changeWords(high)) {
    return { words: changeWords(low), tone, title, columns };
  }
  if (tone === "up") return { words: `≥ ${changeWords(low)}`, tone, title, columns };
  return tone === "down" ? { words: `≤ ${changeWords(high)}`, tone, title, columns } : undefined;
}

/** Returns the number of a range, as `compared` returned it, as a row of an export. */
export function totalRow({ count: all, now, before }, times) {
  const columns = before === undefined ? {} : changeColumns([now, now], [before, before], times);
  return { section: "total", name: "counted", count: all, ...columns };
}

/** What is asked for to compare with, and asked for again rarely. */
export class Comparison {
  #signal;
  #held = new Map();

  constructor(signal) {
    this.#signal = signal;
  }

  async #ask(path) {
    const now_ms = performance.now();
    for (const [other, { at_ms }] of this.#held) if (now_ms - at_ms >= KEPT_MS) this.#held.delete(other);
    if (!this.#held.has(path)) this.#held.set(path, { at_ms: now_ms, answer: await json(path, this.#signal) });
    return this.#held.get(path).answer;
  }

  /**
   * Returns `{ of, now, before }`: the change of a row by its key, and both answers; undefined where nothing is
   * compared. `pathOf(time, rows)` is the path of that many rows of a time; `own` is what is shown, which need not be
   * asked for again where it is of the same time.
   */
  async between(times, pathOf, own) {
    if (times === undefined) return undefined;
    try {
      const isOwn = own !== undefined && countsIn(own, times.now) !== undefined;
      const now = isOwn ? own : await this.#ask(pathOf(times.now, ROWS_COMPARED));
      const before = await this.#ask(pathOf(times.before, ROWS_COMPARED));
      const [after, was] = [countsIn(now, times.now), countsIn(before, times.before)];
      if (after === undefined || was === undefined) return undefined;
      // What is shown has few rows: of one that came in since, nothing is known yet.
      const shown = isOwn ? new Set((own.rows ?? own.top).map((row) => row.value ?? row.id)) : undefined;
      const of = (key) => (shown?.has(key) === false ? undefined : changeOf(after(key), was(key), times));
      return { of, now, before };
    } catch (error) {
      // What it is compared with is told where it can be had.
      if (error instanceof Failure) return undefined;
      throw error;
    }
  }
}
