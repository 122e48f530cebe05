// How the samples of a counter are distributed: percentiles of the range in sight, and how they went.
import { Failure, counterPath, json } from "./api.js";
import { el, setText, svg } from "./dom.js";
import { count, measured } from "./numbers.js";
import { during } from "./ranges.js";
import { sparkline } from "./series.js";

// Samples are kept by the hour for 90 days.
const KEPT_SECONDS = 90 * 86_400 - 3_600;
const MINUTES_KEPT_SECONDS = 86_400;
const MARKS = [
  ["min", "min"],
  ["p50", "p50"],
  ["p90", "p90"],
  ["p99", "p99"],
  ["p999", "p99.9"],
  ["max", "max"],
];
const LINES = ["p50", "p95", "p99"];
const BOX = { width: 240, height: 56 };

/** Returns the step of a series over a range: one that is kept, of a number of points that can be seen. */
export function stepOf(seconds, ago_seconds) {
  if (seconds <= 6 * 3_600 && ago_seconds < MINUTES_KEPT_SECONDS) return "1m";
  return seconds <= 10 * 86_400 ? "1h" : "1d";
}

/**
 * Returns the outline of what is between two lines in a box, in SVG's words: one piece for each run of known values.
 * `most` is at the top.
 */
export function bandOf(lower, upper, { width, height }, most) {
  const x = (index) => (lower.length > 1 ? (index * width) / (lower.length - 1) : 0).toFixed(1);
  const y = (value) => (height - (Math.min(most, Math.max(0, value)) / most) * height).toFixed(1);
  const runs = [[]];
  for (const [index, value] of lower.entries()) {
    if (value === null || upper[index] === null) runs.push([]);
    else runs.at(-1).push(index);
  }
  return runs
    .filter((run) => run.length > 1)
    .map((run) => {
      const there = run.map((index) => `${x(index)} ${y(upper[index])}`);
      const back = run.toReversed().map((index) => `${x(index)} ${y(lower[index])}`);
      return `M${[...there, ...back].join("L")}Z`;
    })
    .join("");
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
      const query = `step=${stepOf(seconds, range.now - from)}&from=${from}&to=${range.until - 1}`;
      const { points } = await json(`${counterPath(this.#id)}/distribution?${query}&numbers=string`, this.#signal);
      this.#draw(points);
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
    const valuesOf = (name) => parts.map((part) => part[name]);
    const band = svg("path", { class: "between", d: bandOf(valuesOf("p50"), valuesOf("p99"), BOX, top) });
    const paths = LINES.map((name) =>
      svg("path", { class: `line ${name}`, d: sparkline(valuesOf(name), BOX.width, BOX.height, top) }),
    );
    this.#lines.replaceChildren(band, ...paths);
    setText(this.#trend, `Over time: p50 (solid), p95 (dashed) and p99 (dotted), with the band from p50 to p99. The top of the chart is ${measured(top)}.`);
  }
}
