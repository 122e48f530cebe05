// What a month costs on Cloudflare, worked out from requests, calls of objects and rows. Prices and what is counted of
// each request are those of docs/operate/costs.md, which tests/dashboard/costs.test.mjs compares.

/** Dollars a million, and what the plan includes of each, in a month. */
export const PRICES = {
  requests: { name: "Requests", dollars: 0.3, included: 10_000_000 },
  calls: { name: "Calls of objects", dollars: 0.15, included: 1_000_000 },
  rows: { name: "Rows written", dollars: 1, included: 50_000_000 },
};

/** Dollars a month of the plan itself. */
export const PLAN = 5;

/**
 * What one write takes, by how writes come: of a blog, of many pages in tablets, of those that name no visitor and no
 * referrer, in bodies of ten seconds, to a few counters all the time.
 */
export const WAYS = {
  alone: { name: "one at a time", requests: 1, calls: 2.13, rows: 9.55 },
  tablets: { name: "over many pages", requests: 1, calls: 2.08, rows: 12.46 },
  plain: { name: "over many pages, no visitors named", requests: 1, calls: 1.93, rows: 10.57 },
  bodies: { name: "in bodies of /events", requests: 0, calls: 0.32, rows: 7.01 },
  hot: { name: "to hot counters", requests: 1, calls: 0.0285, rows: 0.0287 },
};
/** What a cached read and a check of a limit take. */
export const READ = { requests: 1, calls: 0, rows: 0 };
export const CHECK = { requests: 1, calls: 0.45, rows: 0.011 };

/**
 * Returns `{ rows, dollars }` for what happens in a month: a row for each price `{ name, amount, dollars }`, beyond
 * what the plan includes, and all of it with the plan. `requests` is how many there are where that was counted: a body
 * holds many writes, a request many checks.
 */
export function costsOf({ writes, reads, checks, requests, way }) {
  const rows = Object.entries(PRICES).map(([what, { name, dollars, included }]) => {
    const taken = Math.round(writes * WAYS[way][what] + reads * READ[what] + checks * CHECK[what]);
    const amount = what === "requests" ? (requests ?? taken) : taken;
    return { name, amount, dollars: (Math.max(0, amount - included) / 1e6) * dollars };
  });
  return { rows, dollars: rows.reduce((sum, row) => sum + row.dollars, PLAN) };
}
