// What a deployment does in a month, out of the sums of all its isolates that `/metrics` tells. Source: Prometheus text
// format 0.0.4.
//
// Invariant: a rate is of a time that is told with it: since the sums began, or between two looks at them.

const DAY_S = 86_400;
/** A month, as docs/operate/costs.md has it. */
export const MONTH_S = 30 * DAY_S;

// Names of calls as metrics have them.
const WRITES = [
  "increment", "decrement", "put", "set", "delete", "pixel", "hit", "events", "ingest", "api_event",
];
const CHECKS = ["limit_check", "limit_checks", "limit_refund"];
// What whoever looks at the numbers asks for.
const LOOKS = ["metrics", "dashboard"];
const LINES = ["event", "queued", "ingest"];

// From how many writes in each flush on they are taken for those of hot counters: between the 1 and the 32 that
// docs/operate/costs.md counts.
const HOT_FLUSH_WRITES = 8;
// From how many counters on they are taken for many pages.
const MANY_COUNTERS = 10_000;

/**
 * Returns the sums that the text tells, and since when they are, `{ begun_s, counters, sums: { requests, writes, lines,
 * reads, checks, flushes, joined } }`: `lines` are the writes that came in bodies, `reads` all requests that neither
 * write nor check, `joined` the writes of all flushes. Undefined where a part of the deployment did not tell its sums.
 */
export function usageOf(text) {
  const series = new Map(
    [...text.matchAll(/^tally_fleet_([a-z_]+)(?:\{[a-z]+="([^"]*)"\})? (\S+)$/gm)].map(([, name, label, value]) => [
      `${name} ${label ?? ""}`, Number(value),
    ]),
  );
  const one = (name, label = "") => series.get(`${name} ${label}`);
  const sum = (name, labels) =>
    [...series]
      .filter(([key]) => key.startsWith(`${name} `) && (labels?.includes(key.slice(name.length + 1)) ?? true))
      .reduce((all, [, value]) => all + value, 0);
  if (one("acknowledged_total", "increment") === undefined) return undefined;
  const requestsOf = (routes) => sum("request_duration_seconds_count", routes);
  const requests = requestsOf() - requestsOf(LOOKS);
  const sums = {
    requests,
    writes: sum("acknowledged_total"),
    lines: sum("acknowledged_total", LINES),
    reads: requests - requestsOf(WRITES) - requestsOf(CHECKS),
    checks: sum("limit_checks_total"),
    flushes: sum("flushes_total"),
    joined: one("flush_writes_sum") ?? 0,
  };
  return { begun_s: one("start_time_seconds"), counters: one("counters") ?? 0, sums };
}

/**
 * Returns what was counted between two looks, or undefined where a sum fell: it is not the same deployment any more.
 */
export function usageBetween(before, after) {
  const sums = Object.fromEntries(Object.entries(after.sums).map(([name, sum]) => [name, sum - before.sums[name]]));
  return Object.values(sums).every((sum) => sum >= 0) ? { ...after, sums } : undefined;
}

/** Returns what a month has at the rate of so many seconds: `{ writes, reads, checks, requests, way }`. */
export function monthOf({ sums, counters }, seconds) {
  const month = (sum) => Math.round((sum * MONTH_S) / Math.max(seconds, 1));
  const [writes, reads, checks, requests] = [sums.writes, sums.reads, sums.checks, sums.requests].map(month);
  return { writes, reads, checks, requests, way: wayOf(sums, counters) };
}

function wayOf({ writes, lines, flushes, joined }, counters) {
  if (lines * 2 > writes) return "bodies";
  if (flushes > 0 && joined >= flushes * HOT_FLUSH_WRITES) return "hot";
  return counters >= MANY_COUNTERS ? "tablets" : "alone";
}
