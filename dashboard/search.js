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
  let asked_ms = -Infinity;
  let of;
  return async (signal) => {
    const own = key();
    if (own === of && performance.now() - asked_ms < HELD_MS) return list;
    try {
      list = await ask(signal);
    } catch (error) {
      if (!signal.aborted && !(error instanceof Failure)) throw error;
      if (signal.aborted || error.isOffline) return [];
      list = [];
    }
    [asked_ms, of] = [performance.now(), own];
    return list;
  };
}

// The counters that have most: names begin with something else than what is looked for.
const heldCounters = held(async (signal) => {
  const prefix = encodeURIComponent(sharedPrefix() ?? "");
  const { rows } = await json(`/top?by=value&limit=${TOP_MAX}&prefix=${prefix}`, signal);
  return rows.map(({ id }) => ({ kind: "counter", name: id, href: counterHash(id) }));
});
const heldOthers = [
  held(async (signal) =>
    (await json(`/limits?limit=${POLICIES_MAX}`, signal)).policies.map(({ policy }) => ({
      kind: "policy", name: policy, href: limitHash(policy),
    })),
  ),
  held(async (signal) =>
    (await json(`/keys?limit=${KEYS_MAX}`, signal)).keys.map(({ id, name }) => ({
      kind: "key", name, href: rowHash("keys", id),
    })),
  ),
  held(async (signal) =>
    (await json("/alerts", signal)).alerts.map(({ name }) => ({ kind: "alert", name, href: rowHash("alerts", name) })),
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

/** Completes what is typed into the field of a form. */
export function completes(form, field) {
  const list = el("ul", { id: "find-list", role: "listbox", "aria-label": "What was found", hidden: true });
  form.append(list);
  for (const [name, value] of Object.entries({
    role: "combobox", "aria-expanded": "false", "aria-controls": "find-list", "aria-autocomplete": "list",
  })) {
    field.setAttribute(name, value);
  }
  let asked = new AbortController();
  let timer;
  let chosen = -1;

  const close = () => {
    clearTimeout(timer);
    asked.abort();
    list.hidden = true;
    list.replaceChildren();
    chosen = -1;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  };
  const choose = (index) => {
    const options = [...list.querySelectorAll("[role=option]")];
    if (options.length === 0) return;
    chosen = (index + options.length) % options.length;
    options.forEach((option, at) => option.setAttribute("aria-selected", String(at === chosen)));
    field.setAttribute("aria-activedescendant", options[chosen].id);
    options[chosen].scrollIntoView({ block: "nearest" });
  };
  const go = (href) => {
    form.reset();
    close();
    location.hash = href;
  };
  const show = (found) => {
    chosen = -1;
    field.removeAttribute("aria-activedescendant");
    list.replaceChildren(
      ...found.map(({ kind, name, href }, index) =>
        el(
          "li",
          { role: "option", id: `find-${index}`, "aria-selected": "false", "data-href": href, on: { pointerdown: (event) => event.preventDefault(), click: () => go(href) } },
          ["counter", "board"].includes(kind) ? nameOf(name) : el("bdi", {}, name),
          el("span", { class: "sub" }, kind),
        ),
      ),
    );
    list.hidden = found.length === 0;
    field.setAttribute("aria-expanded", String(found.length > 0));
    return found;
  };

  const countersOf = async (text, signal) => {
    const pagesOf = await Promise.all(
      prefixesOf(text, sharedPrefix()).map((prefix) => json(`/counters?limit=${COUNTERS_MAX}&prefix=${encodeURIComponent(prefix)}`, signal).catch(() => ({ counters: [] }))),
    );
    const found = pagesOf.flatMap(({ counters }) =>
      counters.map(({ id }) => ({ kind: "counter", name: id, href: counterHash(id) })),
    );
    // Those that begin so are first.
    const names = new Set(found.map(({ name }) => name));
    const others = containing(await heldCounters(signal), text).filter(({ name }) => !names.has(name));
    return [...found, ...others].slice(0, COUNTERS_MAX);
  };
  const boardsOf = async (text, signal) => {
    if (sharedPrefix() !== undefined) return [];
    const page = await json(`/boards?limit=${BOARDS_MAX}&prefix=${encodeURIComponent(text)}`, signal).catch(() => ({ boards: [] }));
    return page.boards.map((board) => ({ kind: "board", name: board, href: boardHash(board) }));
  };
  const othersOf = async (text, signal) => {
    if (sharedPrefix() !== undefined) return [];
    const lists = await Promise.all(heldOthers.map((list) => list(signal)));
    return lists.flatMap((list) => containing(list, text).slice(0, OTHERS_MAX));
  };
  const find = async () => {
    const text = field.value.trim();
    asked.abort();
    asked = new AbortController();
    const { signal } = asked;
    if (text === "") return close();
    const own = matching(pages(), text).map((page) => ({ kind: "page", ...page })).slice(0, 4);
    show(own);
    const [counters, boards, others] = await Promise.all([
      countersOf(text, signal), boardsOf(text, signal), othersOf(text, signal),
    ]);
    if (signal.aborted) return undefined;
    return show([...counters, ...boards, ...others, ...own]);
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
    if (list.hidden) return find();
    return choose(event.key === "ArrowDown" ? chosen + 1 : chosen === -1 ? -1 : chosen - 1);
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const option = list.querySelector("[aria-selected=true]");
    if (option !== null) return go(option.dataset.href);
    const text = field.value;
    if (text === "") return undefined;
    clearTimeout(timer);
    // What is shown may be of a text before.
    const found = text.trim() === "" ? [] : await find();
    if (found === undefined) return undefined;
    return go(wanted(found, text.trim())?.href ?? counterHash(text));
  });
}
