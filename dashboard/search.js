// The search box: counters, boards, policies, keys, alerts and pages of the dashboard, completed while one types.
//
// Invariant: it is a combobox as ARIA has it: the focus stays in the field, the arrows choose, Enter opens, Escape
// closes.
import { Failure, json, key } from "./api.js";
import { el, nameOf } from "./dom.js";
import { RANGES } from "./ranges.js";
import { boardHash, counterHash, limitHash, overviewHash, rowHash } from "./routes.js";
import { sharedPrefix } from "./share.js";

const COUNTERS_MAX = 8;
const BOARDS_MAX = 4;
const OTHERS_MAX = 4;
const POLICIES_MAX = 100;
// What one answer holds.
const TOP_MAX = 1000;
const KEYS_MAX = 1000;
const ALERTS_MAX = 1000;
// Lists that are asked for whole are kept for so long.
const HELD_MS = 60_000;
// Somebody who types is not asked for at each letter.
const TYPING_MS = 150;

function pages() {
  const isShared = sharedPrefix() !== undefined;
  const own = [
    { name: "Overview", href: overviewHash({ prefix: sharedPrefix() }) },
    { name: "Counters", href: "#/counters" },
    ...(isShared
      ? []
      : [
          { name: "Boards", href: "#/boards" }, { name: "Rate limits", href: "#/limits" },
          { name: "Alerts", href: "#/alerts" }, { name: "Share links", href: "#/shares" },
          { name: "Keys", href: "#/keys" }, { name: "Costs", href: "#/costs" },
        ]),
  ];
  const ranges = Object.entries(RANGES).map(([name, { label }]) => ({
    name: `Overview: ${label}`, href: overviewHash({ prefix: sharedPrefix(), range: name }),
  }));
  return [...own, ...ranges];
}

/** Returns the entries whose words, or one of them, begin with a text, in any case. */
export function matching(entries, text) {
  const wanted = text.toLowerCase();
  return entries.filter(
    ({ name }) =>
      name.toLowerCase().startsWith(wanted) ||
      name
        .toLowerCase()
        .split(/[ :]+/)
        .some((word) => word.startsWith(wanted)),
  );
}

/** Returns the entries whose names have a text anywhere, in any case. */
export function containing(entries, text) {
  const wanted = text.toLowerCase();
  return entries.filter(({ name }) => name.toLowerCase().includes(wanted));
}

/**
 * Returns a function that resolves to a list: asked for by `ask`, and again after a minute or with another key. What
 * may not be read is empty.
 */
function held(ask) {
  let list = [];
  let at_ms = -Infinity;
  let of;
  return async (signal) => {
    const own = key();
    if (own === of && performance.now() - at_ms < HELD_MS) return list;
    try {
      list = await ask(signal);
    } catch (error) {
      if (!signal.aborted && !(error instanceof Failure)) throw error;
      if (signal.aborted || error.isOffline) return [];
      list = [];
    }
    [at_ms, of] = [performance.now(), own];
    return list;
  };
}

// The counters that have most: names begin with something else than what is looked for.
const heldCounters = held(async (signal) => {
  const prefix = encodeURIComponent(sharedPrefix() ?? "");
  const { entries } = await json(`/top?by=value&limit=${TOP_MAX}&prefix=${prefix}`, signal);
  return entries.map(({ id }) => ({ kind: "counter", name: id, href: counterHash(id) }));
});
const heldOthers = [
  held(async (signal) =>
    (await json(`/limits?limit=${POLICIES_MAX}`, signal)).entries.map(({ policy }) => ({
      kind: "policy", name: policy, href: limitHash(policy),
    })),
  ),
  held(async (signal) =>
    (await json(`/keys?limit=${KEYS_MAX}`, signal)).entries.map(({ id, name }) => ({
      kind: "key", name, href: rowHash("keys", id),
    })),
  ),
  held(async (signal) =>
    (await json(`/alerts?limit=${ALERTS_MAX}`, signal)).entries.map(({ alert: name }) => ({
      kind: "alert", name, href: rowHash("alerts", name),
    })),
  ),
];

/** Returns the prefixes under which a text may be found: what is typed, and the path that it may be. */
export function prefixesOf(text, only = "") {
  const all = text.startsWith("/") ? [text] : [text, `/${text}`];
  const within = all.map((prefix) => (prefix.startsWith(only) ? prefix : only + prefix.replace(/^\//, "")));
  return [...new Set(within)];
}

/**
 * Returns the entry that Enter opens where none is chosen: the one that has this name, or the only one; undefined where
 * there is neither.
 */
export function wanted(found, text) {
  const same = (one) => one.name.toLowerCase() === text.toLowerCase();
  return found.find(({ name }) => name === text) ?? found.find(same) ?? (found.length === 1 ? found[0] : undefined);
}

async function countersFor(text, signal) {
  const askFor = (prefix) =>
    json(`/counters?limit=${COUNTERS_MAX}&prefix=${encodeURIComponent(prefix)}`, signal).catch(() => ({ entries: [] }));
  const pagesOf = await Promise.all(prefixesOf(text, sharedPrefix()).map(askFor));
  const found = pagesOf.flatMap(({ entries }) =>
    entries.map(({ id }) => ({ kind: "counter", name: id, href: counterHash(id) })),
  );
  // Those that begin so are first.
  const names = new Set(found.map(({ name }) => name));
  const others = containing(await heldCounters(signal), text).filter(({ name }) => !names.has(name));
  return [...found, ...others].slice(0, COUNTERS_MAX);
}

async function boardsFor(text, signal) {
  if (sharedPrefix() !== undefined) return [];
  const path = `/boards?limit=${BOARDS_MAX}&prefix=${encodeURIComponent(text)}`;
  const page = await json(path, signal).catch(() => ({ entries: [] }));
  return page.entries.map((board) => ({ kind: "board", name: board, href: boardHash(board) }));
}

/** Returns what has the text anywhere in its name, of policies, keys and alerts. */
async function othersFor(text, signal) {
  if (sharedPrefix() !== undefined) return [];
  const lists = await Promise.all(heldOthers.map((list) => list(signal)));
  return lists.flatMap((list) => containing(list, text).slice(0, OTHERS_MAX));
}

/** The list below a field, as ARIA has it. `open(href)` is called with where a click leads. */
class Options {
  #field;
  #open;
  #chosen = -1;
  node = el("ul", { id: "find-list", role: "listbox", "aria-label": "What was found", hidden: true });

  constructor(field, open) {
    this.#field = field;
    this.#open = open;
    for (const [name, value] of Object.entries({
      role: "combobox", "aria-expanded": "false", "aria-controls": "find-list", "aria-autocomplete": "list",
    })) {
      field.setAttribute(name, value);
    }
  }

  get isOpen() {
    return !this.node.hidden;
  }

  /** Where the one that is chosen leads; undefined where none is. */
  get href() {
    return this.node.querySelector("[aria-selected=true]")?.dataset.href;
  }

  show(found) {
    this.#chosen = -1;
    this.#field.removeAttribute("aria-activedescendant");
    this.node.replaceChildren(...found.map((one, index) => this.#optionOf(one, index)));
    this.node.hidden = found.length === 0;
    this.#field.setAttribute("aria-expanded", String(found.length > 0));
  }

  /** Chooses the next one, or the one before; from none the first and the last. */
  move(step) {
    const options = [...this.node.querySelectorAll("[role=option]")];
    if (options.length === 0) return;
    const next = this.#chosen === -1 && step < 0 ? -1 : this.#chosen + step;
    this.#chosen = (next + options.length) % options.length;
    options.forEach((option, at) => option.setAttribute("aria-selected", String(at === this.#chosen)));
    this.#field.setAttribute("aria-activedescendant", options[this.#chosen].id);
    options[this.#chosen].scrollIntoView({ block: "nearest" });
  }

  #optionOf({ kind, name, href }, index) {
    // The field keeps the focus.
    const on = { pointerdown: (event) => event.preventDefault(), click: () => this.#open(href) };
    return el(
      "li", { role: "option", id: `find-${index}`, "aria-selected": "false", "data-href": href, on },
      ["counter", "board"].includes(kind) ? nameOf(name) : el("bdi", {}, name),
      el("span", { class: "sub" }, kind),
    );
  }
}

/** What is looked for: each search ends the one before. */
class Search {
  #show;
  #controller = new AbortController();

  /** `show(found)` is called with what is found: at once, and when the service has answered. */
  constructor(show) {
    this.#show = show;
  }

  end() {
    this.#controller.abort();
  }

  /** Resolves to what is found; undefined where the search was ended. */
  async find(text) {
    this.end();
    this.#controller = new AbortController();
    const { signal } = this.#controller;
    const own = matching(pages(), text).map((page) => ({ kind: "page", ...page })).slice(0, 4);
    this.#show(own);
    const [counters, boards, others] = await Promise.all([
      countersFor(text, signal), boardsFor(text, signal), othersFor(text, signal),
    ]);
    if (signal.aborted) return undefined;
    const found = [...counters, ...boards, ...others, ...own];
    this.#show(found);
    return found;
  }
}

/** Completes what is typed into the field of a form. */
export function completes(form, field) {
  let timer;
  const go = (href) => {
    form.reset();
    close();
    location.hash = href;
  };
  const options = new Options(field, go);
  const search = new Search((found) => options.show(found));
  form.append(options.node);
  const close = () => {
    clearTimeout(timer);
    search.end();
    options.show([]);
  };
  const find = () => {
    const text = field.value.trim();
    return text === "" ? close() : search.find(text);
  };

  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(find, TYPING_MS);
  });
  field.addEventListener("blur", close);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return close();
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return undefined;
    event.preventDefault();
    if (!options.isOpen) return find();
    return options.move(event.key === "ArrowDown" ? 1 : -1);
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (options.href !== undefined) return go(options.href);
    const text = field.value;
    if (text === "") return undefined;
    clearTimeout(timer);
    // What is shown may be of a text before.
    const found = text.trim() === "" ? [] : await find();
    if (found === undefined) return undefined;
    return go(wanted(found, text.trim())?.href ?? counterHash(text));
  });
}
