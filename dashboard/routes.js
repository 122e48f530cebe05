// Which view an address shows. Invariant: all that a view shows can be linked to, and the key is no part of it.
import { RANGES, RANGE_WORDS, rangeFault, rangeNamed } from "./ranges.js";

export const ORDERS = ["rate", "value", "name"];
const PAGES = {
  "": "overview", "/": "overview", "/counters": "counters", "/limits": "limits", "/boards": "boards",
  "/shares": "shares", "/alerts": "alerts", "/keys": "keys", "/costs": "costs",
};

/**
 * Returns the view that a fragment names: `{ view, id, range, prefix, period, member, where, order, unknown }`; `where`
 * is `{ by, value }`, one value of a dimension; `range` is undefined where none is asked for. Where it names no view
 * that there is, the overview, and `unknown` is the sentence that says so.
 */
export function parseRoute(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split("?");
  const parameters = new URLSearchParams(query);
  const range_name = parameters.get("range") ?? undefined;
  const range = range_name === undefined ? undefined : rangeNamed(range_name);
  const order = parameters.get("order") ?? ORDERS[0];
  const prefix = parameters.get("prefix") ?? "";
  const [, view, name] = path.match(/^\/(counter|storage|limits|boards|share|keys|alerts)\/(.+)$/) ?? [];
  const id = name === undefined ? undefined : decoded(name);
  const [period, member, where] = ["period", "member", "where"].map((part) => parameters.get(part) ?? undefined);
  const route = {
    view: "overview", range, prefix, period, member, where: whereOf(where),
    order: ORDERS.includes(order) ? order : ORDERS[0],
  };
  if (id !== undefined) Object.assign(route, { view, id });
  else if (Object.hasOwn(PAGES, path)) route.view = PAGES[path];
  else return { ...route, unknown: `There is no view #${path}: this is the overview.` };
  const fault = range_name === undefined ? undefined : rangeFault(range_name, Math.floor(Date.now() / 1000));
  if (fault !== undefined) return { ...route, range: undefined, unknown: fault };
  if (range_name !== undefined && range === undefined) {
    return { ...route, unknown: `There is no range ${range_name}. Known: ${RANGE_WORDS}.` };
  }
  if (route.order !== order) return { ...route, unknown: `There is no order ${order}. Known: ${ORDERS.join(", ")}.` };
  return route;
}

/** Returns the dimension and the value of "referrer:news.example"; undefined where it is none. */
function whereOf(text) {
  const [, by, value] = text?.match(/^([a-z0-9_-]+):(.+)$/s) ?? [];
  return by === undefined ? undefined : { by, value };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

function withQuery(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString().replaceAll("%2F", "/");
  return query === "" ? path : `${path}?${query}`;
}

/** Returns the fragment of a counter's view. */
export function counterHash(id, range) {
  return withQuery(`#/counter/${encodeURIComponent(id)}`, { range });
}

/** Returns the fragment of what a counter's cells store. */
export const storageHash = (id) => `#/storage/${encodeURIComponent(id)}`;

/** Returns the fragment of the overview. */
export function overviewHash({ prefix, range, where } = {}) {
  return withQuery("#/", { prefix, range, where: where && `${where.by}:${where.value}` });
}

/** Returns the fragment of the list of counters. */
export function countersHash({ prefix, order = ORDERS[0] } = {}) {
  return withQuery("#/counters", { prefix, order: order === ORDERS[0] ? undefined : order });
}

/** Returns the fragment of the share links, with the prefix of one that is to be made. */
export function sharesHash({ prefix } = {}) {
  return withQuery("#/shares", { prefix });
}

/** Returns the fragment of the list of keys or of alerts, with one of them marked. */
export const rowHash = (view, id) => `#/${view}/${encodeURIComponent(id)}`;

/** Returns the fragment of the list of boards. */
export function boardsHash({ prefix } = {}) {
  return withQuery("#/boards", { prefix });
}

/** Returns the fragment of a board, in an ended period by its beginning, and of a member that is looked for. */
export function boardHash(id, { period, member } = {}) {
  return withQuery(`#/boards/${encodeURIComponent(id)}`, { period, member });
}

/** Returns the fragment of a policy's view. */
export function limitHash(id, range) {
  return withQuery(`#/limits/${encodeURIComponent(id)}`, { range });
}

/** Returns the fragment of a view with another range. */
export function hashWithRange(route, range) {
  if (route.view === "limits") return limitHash(route.id, range);
  return route.view === "counter" ? counterHash(route.id, range) : overviewHash({ ...route, range });
}

/** Whether a range is one of those with a name. */
export const isNamed = (range) => Object.hasOwn(RANGES, range);
