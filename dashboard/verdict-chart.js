// A chart of what checks of a policy came to, over time: what was allowed, and above it what was refused.
//
// Invariant: a column is a sum of whole steps; one of which nothing is known is left out.
import { moment } from "./chart.js";
import { el, setText, svg } from "./dom.js";
import { count, drawn, short, whole } from "./numbers.js";
import { factorFor, filled, firstStep, joined } from "./series.js";

const COLUMNS_MAX = 96;
const HEIGHT = 100;
const TABLE_ROWS_MAX = 120;
const KINDS = [
  ["allowed", "allowed"],
  ["refused", "refused"],
  ["error", "no verdict"],
];

/**
 * Returns the columns of points `[start, allowed, refused, error]`, joined so that they can be told apart: `{ columns:
 * [[start, …]], width_seconds }`.
 */
export function columnsOf(points, { from, until, step_seconds, step }) {
  const factor = factorFor(until - from, step_seconds, COLUMNS_MAX);
  const first = firstStep(from, step_seconds);
  const kinds = KINDS.map((_, index) => {
    const own = points.map((point) => [point[0], point[index + 1]]);
    return joined(filled(own, first, until, step_seconds), factor, step_seconds, step === "1d");
  });
  return {
    columns: kinds[0].map(([start, allowed], at) => [start, allowed, kinds[1][at][1], kinds[2][at][1]]),
    width_seconds: factor * step_seconds,
  };
}

const countWords = (value) => (value === null ? "not known" : count(value));
const sumOf = (column) => column.slice(1).reduce((sum, value) => sum + (value === null ? 0n : whole(value)), 0n);

/** The chart. `node` goes on the page. */
export class VerdictChart {
  #columns = [];
  #words = "";
  #moment = () => "";
  #plot = svg("svg", { class: "columns", preserveAspectRatio: "none", role: "img", "aria-label": "Checks over time" });
  #top = el("span", { class: "sub" });
  #ends = el("div", { class: "ends sub", "aria-hidden": "true" });
  #readout = el("p", { class: "readout" }, "\u00A0");
  #rows = el("tbody");

  constructor() {
    const heads = ["From", ...KINDS.map(([, label]) => label[0].toUpperCase() + label.slice(1))];
    const table = el(
      "table", {},
      el(
        "thead", {},
        el(
          "tr", {}, heads.map((head) => el("th", { scope: "col" }, head)),
        ),
      ),
      this.#rows,
    );
    this.node = el(
      "div",
      { class: "chart" },
      el("div", { class: "scale", "aria-hidden": "true" }, this.#top),
      this.#plot,
      this.#ends,
      this.#readout,
      el(
        "details", { class: "numbers" }, el("summary", {}, "The same as a table"),
        el("div", { class: "scrolls", tabindex: "0", role: "group", "aria-label": "Checks" }, table),
      ),
    );
    this.#plot.addEventListener("pointermove", (event) => this.#readAt(event.offsetX / this.#plot.clientWidth));
    this.#plot.addEventListener("pointerleave", () => setText(this.#readout, this.#words));
  }

  /** Shows points of a range, as `rangeOf` returns it. */
  show(points, range) {
    const { columns, width_seconds } = columnsOf(points, range);
    this.#columns = columns;
    const isUtc = range.step === "1d";
    this.#moment = (second) => moment(second, width_seconds, isUtc);
    const most = columns.reduce((top, column) => (sumOf(column) > top ? sumOf(column) : top), 0n);
    const height = (value) => (most === 0n || value === null ? 0 : (drawn(value) / Number(most)) * HEIGHT);
    this.#plot.setAttribute("viewBox", `0 0 ${Math.max(1, columns.length)} ${HEIGHT}`);
    this.#plot.replaceChildren(
      ...columns.flatMap((column, at) => {
        let base = HEIGHT;
        return KINDS.map(([kind], index) => {
          const part = height(column[index + 1]);
          base -= part;
          return part === 0
            ? undefined
            : svg("rect", { "data-verdict": kind, x: at + 0.1, width: 0.8, y: base, height: part });
        }).filter(Boolean);
      }),
    );
    setText(this.#top, most === 0n ? "" : short(most));
    const ends = columns.length === 0 ? [] : [columns[0], columns[Math.floor(columns.length / 2)], columns.at(-1)];
    this.#ends.replaceChildren(...ends.map(([start]) => el("span", {}, this.#moment(start))));
    const sum = columns.reduce((all, column) => all + sumOf(column), 0n);
    this.#words = sum === 0n ? "Nothing was checked in this time." : `At most ${count(most)} checks in a column. Point at one to read it.`;
    setText(this.#readout, this.#words);
    this.#plot.setAttribute("aria-label", `Checks over time, ${count(sum)} in all. The table below has the same numbers.`);
    const rows = columns.slice(-TABLE_ROWS_MAX).reverse();
    this.#rows.replaceChildren(
      ...rows.map(([start, ...values]) =>
        el(
          "tr", {}, el("td", {}, this.#moment(start)),
          values.map((value) => el("td", { class: "number" }, countWords(value))),
        ),
      ),
    );
  }

  #readAt(part) {
    const column =
      this.#columns[Math.min(this.#columns.length - 1, Math.max(0, Math.floor(part * this.#columns.length)))];
    if (column === undefined) return;
    const [start, allowed, refused, error] = column;
    const unjudged = error === null || whole(error) === 0n ? "" : `, ${countWords(error)} without a verdict`;
    setText(this.#readout, `${this.#moment(start)}: ${countWords(allowed)} allowed, ${countWords(refused)} refused${unjudged}`);
  }
}
