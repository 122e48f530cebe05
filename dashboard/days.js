// What a counter was at the beginning of each day, by the deployment's snapshots: decrements and sets included.
import { Failure, counterPath, json } from "./api.js";
import { el } from "./dom.js";
import { count, whole } from "./numbers.js";

const DAYS = 30;
const DAY_MS = 86_400_000;

const dateOf = (ms) => new Date(ms).toISOString().slice(0, 10);

/** Returns the days that are asked for, `2026-10-03..2026-11-01`. */
export function daysUntil(now_ms, days = DAYS) {
  return `${dateOf(now_ms - (days - 1) * DAY_MS)}..${dateOf(now_ms)}`;
}

/**
 * Returns `{ on, value, change, updated_at }` of each day on which there was such a counter, the newest first; `change`
 * since the one before.
 */
export function dayRows(days) {
  const rows = days.filter(({ value }) => value !== null);
  const changed = rows.map((row, index) => {
    const before = rows[index - 1];
    return { ...row, change: before === undefined ? undefined : whole(row.value) - whole(before.value) };
  });
  return changed.reverse();
}

function signed(change) {
  if (change === undefined) return "";
  const zero = 0n;
  const by = BigInt(change);
  if (by === zero) return "±0";
  return by > zero ? `+${count(by)}` : `−${count(-by)}`;
}

/** The values of a counter by day; hidden where there are no snapshots of it. */
export class Days {
  #id;
  #signal;
  #body = el("tbody", {});
  #isRequested = false;

  constructor(id, signal) {
    this.#id = id;
    this.#signal = signal;
    this.node = el(
      "section",
      { class: "panel wide", hidden: true, "aria-labelledby": "days-title" },
      el("h2", { id: "days-title", class: "label" }, "Day by day"),
      el("p", { class: "sub" }, "The value when each day's snapshot was made (UTC), with what was set and taken away."),
      el(
        "table", {},
        el("thead", {}, el("tr", {}, ...["Day", "Value", "Change"].map((name) => el("th", { scope: "col" }, name)))),
        this.#body,
      ),
    );
  }

  /** Asks once: a snapshot is made once a day. */
  async show() {
    if (this.#isRequested) return;
    this.#isRequested = true;
    try {
      const answer = await json(`${counterPath(this.#id)}?on=${daysUntil(Date.now())}&numbers=string`, this.#signal);
      const rows = dayRows(answer.days);
      this.node.hidden = rows.length === 0;
      this.#body.replaceChildren(
        ...rows.map(({ on, value, change }) =>
          el("tr", {}, el("th", { scope: "row" }, on), el("td", {}, count(value)), el("td", {}, signed(change))),
        ),
      );
    } catch (error) {
      // A service without snapshots, or files that cannot be read: the page is whole without them.
      if (!this.#signal.aborted && !(error instanceof Failure)) throw error;
    }
  }
}
