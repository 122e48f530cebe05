// Which view an address shows. Invariant: all that a view shows can be linked to, and the key is no part of it.

/** Lengths of history: how far back, in which steps, and how often it is worth asking again. */
export const RANGES = {
  minutes: { label: "15 min", words: "the last 15 minutes", seconds: 900, step: "1s", step_seconds: 1, refresh_ms: 5_000 },
  hour: { label: "Hour", words: "the last hour", seconds: 3_600, step: "1m", step_seconds: 60, refresh_ms: 10_000 },
  day: { label: "Day", words: "the last day", seconds: 86_400, step: "1m", step_seconds: 60, refresh_ms: 60_000 },
  month: {
    label: "30 days",
    words: "the last 30 days",
    seconds: 2_592_000,
    step: "1h",
    step_seconds: 3_600,
    refresh_ms: 300_000,
  },
};
export const RANGE_DEFAULT = "hour";
// The same lengths as people write them.
const LENGTHS = { "15m": "minutes", "1h": "hour", "1d": "day", "24h": "day", "30d": "month" };
export const ORDERS = ["rate", "value", "name"];

/**
 * Returns the view that a fragment names: `{ view, id, range, prefix, order, unknown }`. Where it names none that there is, the
 * overview, and `unknown` is the sentence that says so.
 */
export function parseRoute(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split("?");
  const parameters = new URLSearchParams(query);
  const asked = parameters.get("range") ?? RANGE_DEFAULT;
  const length = Object.hasOwn(LENGTHS, asked) ? LENGTHS[asked] : asked;
  const range = Object.hasOwn(RANGES, length) ? length : RANGE_DEFAULT;
  const order = parameters.get("order") ?? ORDERS[0];
  const prefix = parameters.get("prefix") ?? "";
  const [, view, name] = path.match(/^\/(counter|limits)\/(.+)$/) ?? [];
  const id = name === undefined ? undefined : decoded(name);
  const route = { view: "overview", range, prefix, order: ORDERS.includes(order) ? order : ORDERS[0] };
  if (id !== undefined) Object.assign(route, { view, id });
  else if (path === "/limits") route.view = "limits";
  else if (!["", "/"].includes(path)) return { ...route, unknown: `There is no view #${path}: these are all counters.` };
  if (range !== length) return { ...route, unknown: `There is no range ${asked}: this is ${RANGES[range].words}. Known: ${Object.keys(LENGTHS).join(", ")}.` };
  if (route.order !== order) return { ...route, unknown: `There is no order ${order}. Known: ${ORDERS.join(", ")}.` };
  return route;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** Returns the fragment of a counter's view. */
export function counterHash(id, range = RANGE_DEFAULT) {
  const query = range === RANGE_DEFAULT ? "" : `?range=${range}`;
  return `#/counter/${encodeURIComponent(id)}${query}`;
}

/** Returns the fragment of the overview. */
export function overviewHash({ prefix = "", order = ORDERS[0] } = {}) {
  const parameters = new URLSearchParams();
  if (prefix !== "") parameters.set("prefix", prefix);
  if (order !== ORDERS[0]) parameters.set("order", order);
  const query = parameters.toString();
  return query === "" ? "#/" : `#/?${query}`;
}
