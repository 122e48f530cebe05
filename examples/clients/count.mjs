// Counts one, surely and once: node count.mjs <address> <counter>
import { randomUUID } from "node:crypto";

async function count(address, id, headers = {}) {
  // One key for all tries: however many arrive, one counts.
  const key = randomUUID();
  for (let pause_ms = 200; ; pause_ms = Math.min(2 * pause_ms, 10_000)) {
    try {
      const answer = await fetch(`${address}/counters/${encodeURIComponent(id)}/increment`, {
        method: "POST",
        headers: { "idempotency-key": key, ...headers },
        signal: AbortSignal.timeout(10_000),
      });
      if (answer.ok) return await answer.json();
      const problem = await answer.json();
      if (answer.status < 500 && answer.status !== 429) throw new TypeError(problem.detail);
    } catch (error) {
      if (error.constructor === TypeError && error.cause === undefined) throw error;
    }
    await new Promise((next) => setTimeout(next, pause_ms));
  }
}

const [address, id] = process.argv.slice(2);
console.log((await count(address, id)).value);
