// How many different elements a counter has seen: estimates, each with the band that holds the true number.
import { el, setText, svg } from "./dom.js";
import { count } from "./numbers.js";

// Of a normal distribution 95 % lie within so many standard errors.
const BAND = 1.96;

/** Unique elements, of all time and of the range in sight, each with the band that holds the true number. */
export class Bands {
  #all = bandRow("All time");
  #window = bandRow("");
  #none = el("p", { class: "sub" }, "None were counted yet.");
  #uniques = {};

  constructor() {
    this.node = el(
      "section",
      { class: "panel uniques", "aria-labelledby": "uniques-title" },
      el("h2", { id: "uniques-title", class: "label" }, "Unique visitors or elements, estimated"),
      this.#none,
      this.#window,
      this.#all,
    );
    this.#window.hidden = true;
    this.#all.hidden = true;
  }

  showAll(uniques) {
    this.#uniques.all = uniques ?? undefined;
    this.#draw();
  }

  /** Shows those of a window, which `words` name. */
  showWindow(window, words) {
    setText(this.#window.querySelector("h3"), words.replace(/^the l/, "L").replace(/^t/, "T"));
    this.#uniques.window = window?.uniques ?? undefined;
    this.#draw();
  }

  #draw() {
    const { all, window } = this.#uniques;
    this.#none.hidden = all !== undefined;
    const top = Math.max(
      1,
      ...[all, window].filter(Boolean).map(({ estimate, standard_error }) => Number(estimate) + BAND * standard_error),
    );
    drawBand(this.#all, all, top);
    drawBand(this.#window, all === undefined ? undefined : window, top);
  }
}

function bandRow(label) {
  const bars = ["estimate", "error"].map((name) => svg("rect", { class: name, height: "100%" }));
  const box = svg("svg", { class: "band", "aria-hidden": "true" }, bars);
  return el(
    "div",
    { class: "unique" },
    el("h3", { class: "sub" }, label),
    el("p", { class: "fact" }, el("span", { class: "number" }), " ", el("span", { class: "error" })),
    box,
  );
}

function drawBand(row, uniques, top) {
  row.hidden = uniques === undefined;
  if (uniques === undefined) return;
  const estimate = Number(uniques.estimate);
  const half = BAND * uniques.standard_error;
  setText(row.querySelector(".number"), count(uniques.estimate));
  // Below half an element the estimate is the number.
  setText(row.querySelector(".fact .error"), half < 0.5 ? "± less than 1" : `± ${count(Math.ceil(half))} (95 %)`);
  const percent = (value) => `${Math.max(0, Math.min(100, (value / top) * 100))}%`;
  const [bar, error] = row.querySelectorAll("rect");
  bar.setAttribute("width", percent(estimate));
  error.setAttribute("x", percent(estimate - half));
  error.setAttribute("width", percent(Math.min(top, 2 * half)));
}
