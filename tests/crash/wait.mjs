// Waiting: for a time where time is the subject, else for a condition.
const POLL_MS = 5;

/** Resolves after so many milliseconds. */
export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/**
 * Resolves to the first true value that `attempt` gives, asked every few milliseconds.
 * Errors: a sentence that begins with `what`, after `ms_max` milliseconds.
 */
export async function until(attempt, what, ms_max) {
  const deadline = performance.now() + ms_max;
  for (;;) {
    const found = await attempt();
    if (found) return found;
    if (performance.now() > deadline) throw new Error(`${what}: not within ${ms_max / 1000} s`);
    await pause(POLL_MS);
  }
}
