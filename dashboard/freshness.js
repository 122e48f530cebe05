// How true what is shown is, in a few words. Invariant: "exact" is said only of an answer that says so itself and
// that came by a connection that is up; a page that heard nothing for a while never looks current.
import { duration } from "./numbers.js";

// A view that is older than the longest pause between two pushes of an idle datacenter (2.5 s) and a round trip.
const STALE_MS = 3_000;

/**
 * Returns `{ tone, text }`; tone is "good", "fair", "bad" or "none". connection: "live" (a stream), "polling",
 * "connecting" or "offline". reading: what an answer says of itself (`exact`, `staleness_ms`, `unreachable`: names), or
 * undefined before the first. silent_ms: how long nothing was heard.
 */
export function freshness({ connection, reading, silent_ms = 0 }) {
  if (connection === "offline") {
    const seen = reading === undefined ? "" : ` · last seen ${duration(silent_ms)} ago`;
    return { tone: "bad", text: `offline${seen}` };
  }
  if (reading === undefined) return { tone: "none", text: "connecting" };
  if (connection === "connecting") return { tone: "fair", text: `reconnecting · last seen ${duration(silent_ms)} ago` };
  const stale_ms = reading.staleness_ms ?? 0;
  const missing = reading.unreachable ?? [];
  if (missing.length > 0) {
    const names = missing.slice(0, 3).join(", ") + (missing.length > 3 ? " …" : "");
    return { tone: "bad", text: `stale ${duration(stale_ms)} · ${names} unreachable` };
  }
  if (stale_ms >= STALE_MS) return { tone: "fair", text: `stale ${duration(stale_ms)}` };
  if (reading.exact) return { tone: "good", text: `${connection} · exact` };
  return { tone: "good", text: `${connection} · ${duration(stale_ms)} old` };
}

/** Returns the same in a sentence, `clock` being the moment that the reading shows: `{ tone, text }`. */
export function truthOf({ connection, reading, clock }) {
  const missing = reading.unreachable ?? [];
  if (connection === "offline") return { tone: "bad", text: `The service cannot be reached. The numbers are of ${clock}.` };
  if (missing.length > 0) {
    const text = `${missing.join(", ")} ${missing.length === 1 ? "does" : "do"} not answer. The sum has the last known value, of ${clock}.`;
    return { tone: "bad", text };
  }
  if (reading.exact) return { tone: "good", text: `Exact: it includes every write acknowledged before ${clock}, each once.` };
  const tone = (reading.staleness_ms ?? 0) >= STALE_MS ? "fair" : "good";
  return { tone, text: `As of ${clock}. Later writes may be missing.` };
}

/** Returns the names of the datacenters that did not answer. */
export function unreachable(datacenters = []) {
  return datacenters.filter(({ reachable }) => reachable === false).map(({ id }) => id);
}

/**
 * Returns datacenters as a list, each with its `staleness_ms` at `at_ms`, whether they came as one or as an object by
 * name.
 */
export function datacenterList(datacenters, at_ms) {
  if (Array.isArray(datacenters)) return datacenters;
  return Object.entries(datacenters ?? {}).map(([id, datacenter]) => ({
    id,
    staleness_ms: Math.max(0, at_ms - datacenter.as_of) || 0,
    ...datacenter,
  }));
}
