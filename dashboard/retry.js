// When to try again. Randomness is an argument.

const FIRST_MS = 500;
// Somebody looks at the page: half a minute is as long as they should wait once the service is back.
const LONGEST_MS = 30_000;

/**
 * Returns the pause before attempt `attempt` (from 1), in milliseconds: doubled each time, 50 to 100 % of it by
 * `random` (0 to 1).
 */
export function pause(attempt, random, retry_after_seconds = 0) {
  const doubled = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt - 1, 16));
  const spread = doubled * (0.5 + random / 2);
  // A server that says when to come back is not asked before.
  return Math.max(spread, Math.min(retry_after_seconds, 600) * 1000);
}

/** Returns the seconds from `now_ms` that a `Retry-After` says, as a number or, from a proxy, a date; 0 without one. */
export function retryAfterSeconds(header, now_ms) {
  const said = header ?? "";
  if (/^\d{1,15}$/.test(said)) return Number(said);
  // Date.parse takes much else for a date, as a negative number.
  const time_ms = /^[A-Z][a-z]+, /.test(said) ? Date.parse(said) : NaN;
  return Number.isNaN(time_ms) ? 0 : Math.max(0, Math.ceil((time_ms - now_ms) / 1000));
}

/** Resolves after a time, or at once when the browser says that it is online again, or when `signal` aborts. */
export function rest(ms, signal) {
  return new Promise((done) => {
    const end = () => {
      clearTimeout(timer);
      globalThis.removeEventListener?.("online", end);
      signal?.removeEventListener("abort", end);
      done();
    };
    const timer = setTimeout(end, ms);
    globalThis.addEventListener?.("online", end);
    signal?.addEventListener("abort", end);
  });
}
