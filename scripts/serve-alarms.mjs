// What was due while no server ran is spread over time before one starts.
//
// Invariant: an alarm is moved to later, never dropped, and only while no workerd has the data folder.
// workerd rings every overdue alarm as it starts, each in an object that it opens for it: those of 14,000 counters took
// all its file descriptors and ended it, and again at each start after that.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";

// An open object holds three descriptors, for 10 s after its alarm and what it sends: 13 s. A quarter of all
// descriptors may go to these, so nofile / 4 / 3 / 13 are opened in a second; and 100 at the most, of which each takes
// 3 to 14 ms.
const DESCRIPTORS_PER_ALARM_A_SECOND = 4 * 3 * 13;
const ALARMS_PER_SECOND_MAX = 100;
// What is due soon after the start is spread with the rest, or both would ring together.
const SOON_MS = 10_000;
// workerd keeps times in nanoseconds.
const NS_PER_MS = 1_000_000n;
const TIMEOUT_MS = 5_000;

/** Returns how many overdue alarms may ring in a second where a process may open `nofile` files. */
export function alarmsPerSecond(nofile) {
  return Math.max(1, Math.min(ALARMS_PER_SECOND_MAX, Math.floor(nofile / DESCRIPTORS_PER_ALARM_A_SECOND)));
}

/** Returns how many files a process started from here may open at most. */
export function descriptorsMax() {
  const { stdout } = spawnSync("/bin/sh", ["-c", "ulimit -Hn"], { encoding: "utf8" });
  const number = Number.parseInt(stdout, 10);
  return Number.isNaN(number) ? Number.MAX_SAFE_INTEGER : number;
}

// Loaded late and without Node's notice that the module is new, which would be the first line of each start. Node
// before 22.5 has none: alarms then ring as they are due.
async function sqlite() {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return await import("node:sqlite").catch(() => ({}));
  } finally {
    process.emitWarning = emitWarning;
  }
}

/**
 * Spreads the overdue alarms of a class of objects, `perSecond` a second from `now_ms` on, and returns how many they
 * are. folder: of the class, where workerd keeps its objects and, in `metadata.sqlite`, their alarms.
 */
export async function spreadAlarms(folder, now_ms, perSecond) {
  const file = join(folder, "metadata.sqlite");
  if (!existsSync(file)) return 0;
  const { DatabaseSync } = await sqlite();
  if (DatabaseSync === undefined) return 0;
  const database = new DatabaseSync(file, { timeout: TIMEOUT_MS });
  try {
    if (!database.prepare("SELECT 1 FROM sqlite_master WHERE name = '_cf_ALARM'").get()) return 0;
    const now = BigInt(now_ms) * NS_PER_MS;
    const soon = now + BigInt(SOON_MS) * NS_PER_MS;
    const step = (1_000n * NS_PER_MS) / BigInt(perSecond);
    // Ids are hashes, so their order spreads the counters of one body too.
    const spread = `WITH due AS (SELECT actor_id AS id, row_number() OVER (ORDER BY actor_id) AS place FROM _cf_ALARM WHERE scheduled_time < ?)
      UPDATE _cf_ALARM SET scheduled_time = max(scheduled_time, ? + due.place * ?) FROM due WHERE actor_id = due.id`;
    return Number(database.prepare(spread).run(soon, now, step).changes);
  } finally {
    database.close();
  }
}
