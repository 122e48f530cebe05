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
export const ORDERS = ["rate", "value", "name"];

/** Returns the view that a fragment names: `{ view, id, range, prefix, order }`. What it does not know is the overview. */
export function parseRoute(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split("?");
  const parameters = new URLSearchParams(query);
  const range = Object.hasOwn(RANGES, parameters.get("range") ?? "") ? parameters.get("range") : RANGE_DEFAULT;
  const order = ORDERS.includes(parameters.get("order")) ? parameters.get("order") : ORDERS[0];
  const prefix = parameters.get("prefix") ?? "";
  const found = path.match(/^\/counter\/(.+)$/);
  const id = found === null ? undefined : decoded(found[1]);
  if (id !== undefined) return { view: "counter", id, range, prefix, order };
  return { view: path === "/limits" ? "limits" : "overview", range, prefix, order };
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
