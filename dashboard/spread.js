// How the samples of a counter are distributed: percentiles of the range in sight, and how they went.
import { Failure, counterPath, json } from "./api.js";
import { el, setText, svg } from "./dom.js";
import { count, measured } from "./numbers.js";
import { during } from "./ranges.js";
import { sparkline } from "./series.js";

// Samples are kept by the hour for 90 days.
const KEPT_SECONDS = 90 * 86_400 - 3_600;
// Each slice is a question of its own, so they are asked for once.
const SLICES = 12;
const MARKS = [
  ["min", "min"],
  ["p50", "p50"],
  ["p90", "p90"],
  ["p99", "p99"],
  ["p999", "p99.9"],
  ["max", "max"],
];
const LINES = ["p50", "p90", "p99"];
const BOX = { width: 240, height: 56 };

/** Returns the ends of equal slices of the last `seconds`, oldest first, in whole minutes where a slice has some. */
export function slicesOf(seconds, to_s, slices = SLICES) {
  const width = Math.max(60, Math.floor(seconds / slices / 60) * 60);
  const n = Math.max(1, Math.floor(seconds / width));
  // The slice that is under way is part of the last.
  return Array.from({ length: n }, (_, index) => ({ at: to_s - (n - 1 - index) * width, seconds: width }));
}

/** The distribution of a counter's samples; hidden while there are none. */
export class Spread {
  #id;
  #signal;
  #list = el("ul", { class: "bars marks" });
  #words = el("p", { class: "sub" });
  #lines = svg("svg", {
    class: "spark lines gone",
    viewBox: `0 -2 ${BOX.width} ${BOX.height + 4}`,
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  });
  #trend = el("p", { class: "sub" });
  #title = el("h2", { id: "spread-title", class: "label" }, "Samples");
  #isMissing = false;
  #isDrawn = false;

  constructor(id, signal) {
    this.#id = id;
    this.#signal = signal;
    this.node = el(
      "section",
      { class: "panel spread", hidden: true, "aria-labelledby": "spread-title" },
      this.#title,
      this.#words,
      this.#list,
      this.#lines,
      this.#trend,
    );
  }

  /** Asks again. A service without samples is asked once. */
  async refresh(range) {
    if (this.#isMissing) return;
    const from = Math.max(range.from, range.now - KEPT_SECONDS);
    const seconds = range.until - from;
    if (seconds <= 0) return;
    setText(this.#title, `Samples ${during(range.words)}`);
    try {
      const distribution = await this.#ask(seconds, range.until - 1);
      this.node.hidden = distribution.count === 0 || distribution.count === "0";
      if (this.node.hidden) return;
      this.#show(distribution);
      if (this.#isDrawn) return;
      this.#isDrawn = true;
      const slices = slicesOf(seconds, range.until - 1);
      const parts = [];
      for (const slice of slices) parts.push(await this.#ask(slice.seconds, slice.at));
      this.#draw(parts);
    } catch (error) {
      if (this.#signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      if (error.isNoCall) this.#isMissing = true;
      // Otherwise what was shown stays; that the service is away is said elsewhere.
    }
  }

  #ask(seconds, at) {
    return json(`${counterPath(this.#id)}/distribution?window=${seconds}&at=${at}&numbers=string`, this.#signal);
  }

  #show(distribution) {
    const off =
      distribution.max_relative_error > 0
        ? `; percentiles are off by at most ${measured(Number((distribution.max_relative_error * 100).toPrecision(2)))} %`
        : "";
    setText(
      this.#words,
      `${count(distribution.count)} ${Number(distribution.count) === 1 ? "sample" : "samples"}, ${measured(distribution.mean)} on average${off}`,
    );
    const largest = Math.max(...MARKS.map(([name]) => Number(distribution[name]) || 0));
    const rows = MARKS.map(([name, label]) => {
      const part = largest > 0 ? Math.max(0, (Number(distribution[name]) / largest) * 100) : 0;
      return el(
        "li",
        {},
        el("span", { class: "place" }, label),
        svg("svg", { class: "bar", "aria-hidden": "true" }, svg("rect", { height: "100%", width: `${part}%` })),
        el("span", { class: "number" }, measured(Number(distribution[name]))),
      );
    });
    this.#list.replaceChildren(...rows);
  }

  #draw(parts) {
    // One point is no line.
    const isLine = parts.filter(({ p50 }) => p50 !== null).length > 1;
    this.#lines.classList.toggle("gone", !isLine);
    setText(this.#trend, "");
    if (!isLine) return;
    const top = Math.max(1e-300, ...parts.flatMap((part) => LINES.map((name) => Number(part[name] ?? 0))));
    const paths = LINES.map((name) => {
      const values = parts.map((part) =>
        part[name] === null || part[name] === undefined ? null : (Number(part[name]) / top) * BOX.height,
      );
      return svg("path", { class: `line ${name}`, d: sparkline(values, BOX.width, BOX.height, BOX.height) });
    });
    this.#lines.replaceChildren(...paths);
    setText(this.#trend, `Over time: p50 (solid), p90 (dashed), p99 (dotted). The top of the chart is ${measured(top)}.`);
  }
}
