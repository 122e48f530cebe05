// Parts of a counter's view: where it was counted, and by how many.
import { el, setText } from "./dom.js";
import { count, drawn, lasting, share, short, whole } from "./numbers.js";

// Of a normal distribution 95 % lie within so many standard errors.
const BAND = 1.96;
// A longer number leaves no room for its bar on a phone.
const DIGITS_MAX = 16;

/** The datacenters of a counter as bars, the largest first. */
export class Places {
  #list = el("ul", { class: "bars" });
  #empty = el("p", { class: "sub" }, "–");

  constructor() {
    this.node = el("section", { class: "panel", "aria-labelledby": "places-title" }, el("h2", { id: "places-title", class: "label" }, "By datacenter"), this.#empty, this.#list);
  }

  show(datacenters) {
    const all = datacenters.reduce((sum, { value }) => sum + whole(value ?? 0), 0n);
    const largest = datacenters.reduce((most, { value }) => (whole(value ?? 0) > most ? whole(value ?? 0) : most), 0n);
    const sorted = [...datacenters].sort((a, b) => (whole(a.value ?? 0) < whole(b.value ?? 0) ? 1 : whole(a.value ?? 0) > whole(b.value ?? 0) ? -1 : a.id < b.id ? -1 : 1));
    setText(this.#empty, sorted.length === 0 ? "No datacenter has counted it yet." : "");
    const rows = new Map([...this.#list.children].map((row) => [row.dataset.id, row]));
    const kept = sorted.map((datacenter) => {
      const row = rows.get(datacenter.id) ?? placeRow(datacenter.id);
      const isAway = datacenter.reachable === false;
      row.classList.toggle("away", isAway);
      const text = count(datacenter.value ?? 0);
      setText(row.querySelector(".number"), text.length > DIGITS_MAX ? short(datacenter.value) : text);
      setText(row.querySelector(".share"), share(datacenter.value ?? 0, all));
      setText(row.querySelector(".sub"), isAway ? `unreachable, as of ${lasting(datacenter.staleness_ms ?? 0)} ago` : "");
      const part = largest > 0n ? (drawn(datacenter.value ?? 0) / Number(largest)) * 100 : 0;
      row.querySelector("rect").setAttribute("width", `${Math.max(0, part)}%`);
      return row;
    });
    const isSame = kept.length === this.#list.children.length && kept.every((row, index) => this.#list.children[index] === row);
    if (!isSame) this.#list.replaceChildren(...kept);
  }
}

function placeRow(id) {
  const box = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  box.setAttribute("class", "bar");
  box.setAttribute("aria-hidden", "true");
  const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  bar.setAttribute("height", "100%");
  box.append(bar);
  return el("li", { "data-id": id }, el("span", { class: "place" }, id), box, el("span", { class: "number" }, ""), el("span", { class: "share" }, ""), el("span", { class: "sub" }, ""));
}

/** Unique elements, of all time and of the range in sight, each with the band that holds the true number. */
export class Bands {
  #all = bandRow("All time");
  #window;
  #none = el("p", { class: "sub" }, "Nothing was counted with a unique element yet.");
  #told = {};

  constructor(range) {
    this.#window = bandRow(range.words.replace(/^the l/, "L"));
    this.node = el("section", { class: "panel", "aria-labelledby": "uniques-title" }, el("h2", { id: "uniques-title", class: "label" }, "Unique elements, estimated"), this.#none, this.#window, this.#all);
    this.#window.hidden = true;
    this.#all.hidden = true;
  }

  showAll(uniques) {
    this.#told.all = uniques ?? undefined;
    this.#draw();
  }

  showWindow(window) {
    this.#told.window = window?.uniques ?? undefined;
    this.#draw();
  }

  #draw() {
    const { all, window } = this.#told;
    this.#none.hidden = all !== undefined;
    const top = Math.max(1, ...[all, window].filter(Boolean).map(({ estimate, standard_error }) => Number(estimate) + BAND * standard_error));
    drawBand(this.#all, all, top);
    drawBand(this.#window, all === undefined ? undefined : window, top);
  }
}

function bandRow(label) {
  const box = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  box.setAttribute("class", "band");
  box.setAttribute("aria-hidden", "true");
  for (const name of ["estimate", "error"]) {
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    bar.setAttribute("class", name);
    bar.setAttribute("height", "100%");
    box.append(bar);
  }
  return el("div", { class: "unique" }, el("h3", { class: "sub" }, label), el("p", { class: "fact" }, el("span", { class: "number" }), " ", el("span", { class: "error" })), box);
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
