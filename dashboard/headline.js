// The number of a range, in large, and how it compares with the range before.
import { el, setText } from "./dom.js";
import { count, isSafe, short } from "./numbers.js";
import { during } from "./ranges.js";

/** Returns a change in words: "+12 %", "−3 %", "12 times". */
export function changeWords(part) {
  const percent = part * 100;
  if (Math.abs(percent) < 0.05) return "as many as";
  if (percent >= 1_000) return `${Math.round(part + 1).toLocaleString("en")} times`;
  const text =
    Math.abs(percent) < 10 ? Math.abs(percent).toFixed(1).replace(/\.0$/, "") : String(Math.round(Math.abs(percent)));
  return `${percent < 0 ? "−" : "+"}${text} %`;
}

/** The number of a range. `node` goes on the page. */
export class Headline {
  #title = el("h2", { id: "headline-title", class: "label" });
  #number = el("p", { class: "value", id: "headline" }, "–");
  #change = el("span", { class: "change" });
  #words = el("span", {});
  #facts = el("div", { class: "facts" });

  constructor(...facts) {
    this.#facts.append(...facts);
    this.node = el(
      "section",
      { class: "panel now", "aria-labelledby": "headline-title" },
      this.#title,
      this.#number,
      el("p", { class: "sub compare" }, this.#change, " ", this.#words),
      this.#facts,
    );
  }

  /** Shows what `compared` returned for a range. */
  show(range, told) {
    setText(this.#title, range.name === "all" ? "Counted in all" : `Counted ${during(range.words)}`);
    const text = count(told.count);
    setText(this.#number, text);
    this.#number.classList.toggle("long", text.length > 15);
    const about = isSafe(told.count) ? "" : `about ${short(told.count)}`;
    if (told.before === undefined) {
      setText(this.#change, about);
      return setText(this.#words, "");
    }
    const isPart = told.now !== told.count;
    const what = `${isPart ? "than by this time of " : "than "}${range.before}`;
    const numbers = isPart ? `${count(told.now)} against ${count(told.before)}` : count(told.before);
    this.#change.dataset.tone = told.part === undefined || told.part === 0 ? "none" : told.part > 0 ? "up" : "down";
    if (told.part === undefined) {
      setText(this.#change, told.now === 0n ? "" : "new");
      return setText(this.#words, `Nothing was counted ${during(range.before)}.`);
    }
    const words = changeWords(told.part);
    setText(this.#change, words);
    return setText(this.#words, `${words === "as many as" ? what.replace(/^than /, "") : what} (${numbers})`);
  }
}

/** A small number with its label. */
export function fact(label, node) {
  return el("div", {}, el("h3", { class: "label" }, label), node);
}
