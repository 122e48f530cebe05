// The number of a range, in large, and how it compares with the range before.
import { el, setText } from "./dom.js";
import { count, isSafe, short } from "./numbers.js";
import { during } from "./ranges.js";

/** Returns a change in words: "+12 %", "−3 %", "0 %", "12 times". */
export function changeWords(part) {
  const percent = part * 100;
  if (Math.abs(percent) < 0.05) return "0 %";
  if (percent >= 1_000) return `${Math.round(part + 1).toLocaleString("en")} times`;
  const text =
    Math.abs(percent) < 10 ? Math.abs(percent).toFixed(1).replace(/\.0$/, "") : String(Math.round(Math.abs(percent)));
  return `${percent < 0 ? "−" : "+"}${text} %`;
}

/**
 * Returns how a range compares with the one before, `[change, words]`: what `compared` returned, in a sentence whose
 * first part is the change.
 */
export function comparedWords(range, { count: all, now, before, part }) {
  // What is under way is compared with as much of the range before.
  const isPart = range.until < range.to;
  const then = isPart ? `the same part of ${range.before}` : range.before;
  if (part === undefined) {
    const nothing = `othing was counted ${isPart ? `in ${then}` : during(then)}`;
    return now === 0n ? ["", `N${nothing}.`] : ["new:", `n${nothing}`];
  }
  const numbers = now === all ? count(before) : `${count(now)} against ${count(before)}`;
  const change = changeWords(part);
  if (change === "0 %") return ["as many as", `${then} (${numbers})`];
  return [change, `${change.endsWith(" times") ? "as many as" : "against"} ${then} (${numbers})`];
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
  show(range, comparison) {
    setText(this.#title, `Counted ${during(range.words)}`);
    const text = count(comparison.count);
    setText(this.#number, text);
    this.#number.classList.toggle("long", text.length > 15);
    const about = isSafe(comparison.count) ? "" : `about ${short(comparison.count)}`;
    if (comparison.before === undefined) {
      this.#change.dataset.tone = "none";
      setText(this.#change, about);
      return setText(this.#words, "");
    }
    const { part } = comparison;
    this.#change.dataset.tone = part === undefined || part === 0 ? "none" : part > 0 ? "up" : "down";
    const [change, words] = comparedWords(range, comparison);
    setText(this.#change, change);
    return setText(this.#words, words);
  }
}

/** A small number with its label. */
export function fact(label, node) {
  return el("div", {}, el("h3", { class: "label" }, label), node);
}
