// Kills workerd in the middle of imports, snapshots, folds of tablets and restores, and compares the counters, and what
// the last snapshot says of each, with the books.
//
//   node tests/crash/data.mjs KILLS=6 CLIENTS=16 SEED=<number>
//
// All leads of a datacenter lie in one tablet, so its log is folded every few hundred commits. KILLS are those of each
// of the two loads.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { databases, rows } from "../upgrade/files.mjs";
import { send } from "./client.mjs";
import { settings } from "./random.mjs";
import { crash, setRestored, tell } from "./run.mjs";
import { serverOf } from "./server.mjs";
import { until } from "./wait.mjs";

const EDGES = 2;
const VARIABLES = { TALLY_TABLETS: "1" };
const MADE_MS_MAX = 30_000;

/** Makes a snapshot of all that the server holds, and resolves to its date. */
async function snapshot(server) {
  const made = await until(async () => {
    const { status, json } = await send(server.urls[0], "POST", "/snapshots");
    return status === 200 && json.complete && json;
  }, "a snapshot", MADE_MS_MAX);
  return made.date;
}

/** Resolves to the faults of the last snapshot: values that cannot have been so between the times that it names. */
async function faultsOn(server, books, date) {
  const faults = [];
  let count = 0;
  for (const book of books) {
    const { status, json } = await send(server.urls[0], "GET", `/counters/${encodeURIComponent(book.id)}?on=${date}&numbers=string`);
    if (status === 200) count += 1;
    const wrong = status === 200 ? book.wrongOn(json) : status === 404 ? book.wrongOn({ value: 0, as_of: -Infinity, taken_at: Infinity }) : `${book.id} on ${date} was answered ${status} ${json?.detail}`;
    if (wrong !== undefined) faults.push(wrong);
  }
  if (count === 0) faults.push("the snapshot has none of the counters");
  return faults;
}

/** Sets the counters that are restored later, and resolves to the date of a snapshot that has them. */
async function prepare(server) {
  await setRestored(server);
  return snapshot(server);
}

/** Returns a sentence unless the log of a tablet was folded. */
function foldFaults(folder) {
  const tablets = databases(join(folder, "objects")).filter(({ kind }) => kind === "tally-tablet-v1");
  const folded = tablets.filter(({ path }) => rows(path, "SELECT 1 FROM rows LIMIT 1").length > 0);
  return folded.length > 0 ? [] : [`none of ${tablets.length} tablets was folded`];
}

async function main() {
  const fresh = Math.floor(Date.now() % 2 ** 32);
  const {
    KILLS: kills, CLIENTS: clients, SEED: seed,
  } = settings({ KILLS: 6, CLIENTS: 16, SEED: fresh }, process.argv.slice(2), process.env);
  const again = `node tests/crash/data.mjs KILLS=${kills} CLIENTS=${clients} SEED=${seed}`;
  const folder = mkdtempSync(join(tmpdir(), "tally-crash-data-"));
  const server = serverOf({ folder, edges: EDGES, variables: VARIABLES });
  let wrong = 0;
  const round = async (load, more) => {
    console.log(`crash: ${load}, ${kills} kills, ${clients} clients, SEED=${seed}`);
    const began = performance.now();
    const result = await crash({
      server, kills, clients, seed, load, prepare: load === "restores" ? prepare : undefined,
    });
    result.faults.push(...(await more(result)));
    wrong += result.faults.length;
    tell(result, (performance.now() - began) / 1000, again);
    await server.end();
  };
  try {
    await round("imports", async ({ books }) => faultsOn(server, books, await snapshot(server)));
    await round("restores", async () => []);
    const faults = foldFaults(folder);
    for (const fault of faults) console.error(`crash: WRONG: ${fault}`);
    return wrong + faults.length === 0 ? 0 : 1;
  } catch (error) {
    console.error(`crash: ${error.message} (${again})`);
    return 1;
  } finally {
    await server.end();
    rmSync(folder, { recursive: true, force: true });
  }
}

process.exit(await main());
