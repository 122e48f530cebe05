// A list of names with numbers as bars: top pages, referrers, countries, devices.
import { el, nameOf, setText, svg } from "./dom.js";
import { count, drawn, share, short, whole } from "./numbers.js";

const DIGITS_MAX = 12;
// A longer list scrolls by itself.
const ROWS_TALL = 20;

/**
 * A panel with a list. Each row is `{ key, name, count, href, title, mark, filter, change }`: `name` is text, or the
 * name of a counter where `isId`; `href` leads on; `mark` stands before it; `filter` is `{ href, label }`; `change` is
 * `{ words, tone, title }`.
 */
export class Bars {
  #list = el("ul", { class: "bars ranked" });
  #note = el("div", { class: "sub note" });
  #more = el("p", { class: "sub" });
  #open = el(
    "button", { type: "button", class: "quiet small more", hidden: true, on: { click: () => this.#onOpen() } },
    "Show more",
  );
  #onOpen = () => {};
  #title;

  constructor(id, title, { head } = {}) {
    this.#title = el("h2", { id: `${id}-title`, class: "label" }, title);
    this.node = el(
      "section",
      { class: "panel", id, "aria-labelledby": `${id}-title` },
      el("div", { class: "head" }, this.#title, head),
      this.#list,
      this.#note,
      this.#more,
      this.#open,
    );
  }

  entitle(title) {
    setText(this.#title, title);
  }

  /** Shows rows, of `total` together; `more` says what is not among them, `open` shows more of it, where it can be. */
  show(rows, total, more = "", open = undefined) {
    this.#onOpen = open ?? (() => {});
    this.#open.hidden = open === undefined;
    const largest = rows.reduce((most, row) => (whole(row.count) > most ? whole(row.count) : most), 1n);
    const focused = document.activeElement?.closest?.("li")?.dataset.key;
    const before = new Map([...this.#list.children].map((node) => [node.dataset.key, node]));
    const nodes = rows.map((row) => {
      const node = before.get(row.key) ?? rowOf(row);
      setText(node.querySelector(".number"), numberOf(row.count));
      setText(node.querySelector(".share"), share(row.count, total));
      node.querySelector("rect").setAttribute("width", `${(drawn(row.count) / Number(largest)) * 100}%`);
      // Where a row leads, and how sure it is, follow the answer.
      if (row.href !== undefined) node.querySelector("a").setAttribute("href", row.href);
      const shown = node.querySelector(".place > :last-child");
      if (row.title === undefined) shown.removeAttribute("title");
      else shown.setAttribute("title", row.title);
      showChange(node.querySelector(".change"), row.change);
      return node;
    });
    const isSame = nodes.length === before.size && nodes.every((node, index) => this.#list.children[index] === node);
    if (!isSame && (focused === undefined || !this.#list.contains(document.activeElement))) {
      this.#list.replaceChildren(...nodes);
    }
    this.#list.hidden = rows.length === 0;
    this.#list.classList.toggle("tall", rows.length > ROWS_TALL);
    this.#list.classList.toggle("compared", rows.some((row) => row.change !== undefined));
    this.#note.replaceChildren();
    setText(this.#more, more);
  }

  /** Says something instead of rows. */
  tell(...nodes) {
    this.#list.replaceChildren();
    this.#list.hidden = true;
    this.#note.replaceChildren(...nodes);
    setText(this.#more, "");
    this.#open.hidden = true;
  }
}

const numberOf = (value) => (count(value).length > DIGITS_MAX ? short(value) : count(value));

function showChange(node, { words = "", tone = "none", title = "" } = {}) {
  setText(node, words);
  node.dataset.tone = tone;
  node.title = title;
}

function rowOf({ key, name, isId, href, title, mark, filter }) {
  const label = isId ? nameOf(name) : el("bdi", {}, name);
  const shown = href === undefined ? el("span", { title }, label) : el("a", { href, title }, label);
  const bar = svg("svg", { class: "bar", "aria-hidden": "true" }, svg("rect", { height: "100%" }));
  return el(
    "li",
    { "data-key": key },
    bar,
    el(
      "span", { class: "place" },
      mark === undefined ? undefined : el("span", { class: "mark", "aria-hidden": "true" }, mark), shown,
    ),
    filter === undefined
      ? el("span", {})
      : el("a", { class: "only", href: filter.href, title: filter.label, "aria-label": filter.label }, filter.text),
    el("span", { class: "number" }),
    el("span", { class: "share" }),
    el("span", { class: "change" }),
  );
}
