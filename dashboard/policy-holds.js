// What open holds of a policy take now, and the keys that hold most.
import { Failure, json } from "./api.js";
import { Bars } from "./bars.js";
import { el } from "./dom.js";
import { repeat } from "./idle.js";
import { count, duration, whole } from "./numbers.js";

const PAUSE_MS = 15_000;
const KEYS = 10;

/** Returns what open holds are, in a sentence: how many, of how many keys, how much they take, and the oldest. */
export function holdsText({ held, holds, keys, oldest_at, complete }, now_ms) {
  const missing = complete ? "" : " Some limiters did not answer.";
  if (holds === 0) return `No open holds.${missing}`;
  const ones = (number, one, more) => `${count(number)} ${number === 1 ? one : more}`;
  const age = duration(Math.max(0, now_ms - oldest_at));
  const what = `${ones(holds, "open hold", "open holds")} of ${ones(keys, "key", "keys")} take ${count(held)}.`;
  return `${what} The oldest was opened ${age} ago.${missing}`;
}

/** Shows the open holds of a policy. Returns `{ nodes, stop }`. */
export function policyHolds(path, signal) {
  const bars = new Bars("holders", "Keys that hold most");
  bars.node.classList.add("wide");
  bars.node.append(el("p", { class: "sub" }, "Of an IP address only its network is shown."));
  const look = async () => {
    try {
      const { held } = await json(`${path}?include=held&limit=${KEYS}`, signal);
      const text = holdsText(held, Date.now());
      if (held.rows.length === 0) return bars.tell(el("p", {}, text));
      // Several addresses of a network are several rows.
      const rows = held.rows.map((row, at) => ({ key: `${at} ${row.key}`, name: row.key, count: whole(row.held) }));
      bars.show(rows, whole(held.held), text);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      if (!error.isOffline) bars.tell(el("p", { class: "sub" }, `${error.message}.`));
    }
  };
  return { nodes: [bars.node], stop: repeat(look, () => PAUSE_MS).stop };
}
