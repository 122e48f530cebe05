// The overrides of a policy: which keys have another limit, none, or a block, and until when.
import { json } from "./api.js";
import { el } from "./dom.js";
import { count, duration } from "./numbers.js";

const OVERRIDES_MAX = 100;
const HEADS = ["Keys", "Instead", "Until"];

/** Returns what an override says, in words. */
export function effectWords({ unlimited, blocked, limit, window_seconds, ttl_seconds, burst }) {
  if (unlimited) return "no limit";
  if (blocked) return "blocked";
  const time = (seconds) => duration(seconds * 1000).replace(/\.0 /, " ");
  return [
    limit === undefined ? "" : `limit ${count(limit)}`,
    window_seconds === undefined ? "" : `window ${time(window_seconds)}`,
    ttl_seconds === undefined ? "" : `holds of ${time(ttl_seconds)}`,
    burst === undefined ? "" : `burst ${count(burst)}`,
  ].filter(Boolean).join(", ");
}

/** Returns when an override ends, in words. */
export function endWords({ ends_at }) {
  if (ends_at === undefined) return "it is deleted";
  return new Date(ends_at).toISOString().replace(/:\d\d\.\d{3}Z$/, " UTC").replace("T", " ");
}

/** Resolves to the list of a policy's overrides; `path` is that of the policy. */
export async function overrideNodes(path, signal) {
  const page = await json(`${path}/overrides?limit=${OVERRIDES_MAX}`, signal);
  if (page.entries.length === 0) return [el("p", { class: "sub" }, "All keys have the limit of the policy.")];
  const row = (one) =>
    el(
      "tr", {}, el("th", { scope: "row" }, el("bdi", {}, one.pattern)),
      el("td", { "data-label": HEADS[1] }, effectWords(one)),
      el("td", { "data-label": HEADS[2] }, endWords(one)),
    );
  const heads = HEADS.map((head) => el("th", { scope: "col" }, head));
  const list = el(
    "table", { class: "policies overrides" }, el("thead", {}, el("tr", {}, heads)),
    el("tbody", {}, page.entries.map(row)),
  );
  const more = el("p", { class: "sub" }, `The first ${page.entries.length}: keys, then prefixes.`);
  return page.cursor === null ? [list] : [list, more];
}
