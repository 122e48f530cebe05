// Kills workerd in the middle of a load, again and again, and compares the counters with the books.
//
//   node tests/crash/run.mjs KILLS=20 CLIENTS=24 SEED=<number>
//
// The seed decides what clients send and when kills come, not how the machine interleaves them: a run asked
// for again is alike, not the same. SIGKILL ends a process and not the machine: what the system had not yet
// written to the disk is not lost here.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { look, send } from "./client.mjs";
import { Load } from "./load.mjs";
import { between, randomFrom, settings } from "./random.mjs";
import { serverOf } from "./server.mjs";
import { pause, until } from "./wait.mjs";
import { RESTORED, SHARDED, SHARDS } from "./writes.mjs";

const EDGES = 2;
// Acknowledgements that an incarnation of the server is to see, and from the last of them to its kill.
const ACKNOWLEDGED = [1, 120];
const LIFE_MS = [30, 300];
// What a slow machine may take to those: then the kill comes anyway.
const KNOWN_MS_MAX = 2_000;
// How long the last incarnation may take to the least that is to be acknowledged.
const LEAST_MS_MAX = 40_000;
// One incarnation of so many is not waited for: its kill comes while the first requests open their objects.
const COLD_EACH = 5;
// One kill of so many comes while the server starts, which takes about 0.4 s.
const EARLY_EACH = 6;
const EARLY_MS = [20, 400];
const COMPARE_MS_MAX = 15_000;
const SAMPLE = 40;
// Low, so that shards are split and sealed between kills.
const VARIABLES = { TALLY_SPLIT_FLUSHES_PER_SECOND: "40", TALLY_MERGE_AFTER_MS: "500" };

/** Resolves to the faults of every counter at rest, seen from every edge, as sentences. */
export async function compare(server, load) {
  const faults = new Set();
  for (const book of load.books) {
    for (const url of server.urls) {
      // Right after a start not every part may have been reached: a read says so, and is repeated.
      let last;
      const answer = await until(async () => {
        last = await look(url, book.id, load.begun);
        return last?.exact ? last : undefined;
      }, book.id, COMPARE_MS_MAX).catch(() => last);
      if (answer === undefined) faults.add(`${book.id} cannot be read`);
      else book.faultsOf(answer).forEach((fault) => faults.add(fault));
    }
  }
  return [...faults];
}

/** Resolves to whether the server knows the queued path. */
async function knowsQueue(url) {
  const answer = await send(url, "POST", "/api/event", { body: "{}" });
  return answer.status !== 404;
}

/** Sets the counters that are restored later. */
export async function setRestored(server) {
  for (const { id, base } of RESTORED) {
    const { status, text } = await send(server.urls[0], "PUT", `/counters/${encodeURIComponent(id)}/value`, {
      body: `{"value":${base}}`,
    });
    if (status !== 200 && status !== 201) throw new Error(`PUT ${id}: ${status} ${text}`);
  }
}

// Lets clients send, and resolves when their server's time is over.
async function live(load, random) {
  const wanted = load.stats.acknowledged + between(random, ...ACKNOWLEDGED);
  const isCold = between(random, 1, COLD_EACH) === 1;
  load.resume();
  if (!isCold) await until(() => load.stats.acknowledged >= wanted, "acknowledgements", KNOWN_MS_MAX).catch(() => {});
  await pause(between(random, ...LIFE_MS));
}

/**
 * Runs the load over `kills` kills, and resolves to {faults, stats, inFlight, hasQueue, counters, books}.
 *
 * server: start(), spawn(), kill() and urls. least: so many writes are acknowledged in all, however long that takes.
 * load: which writes, see writes.mjs. prepare: what is done before, which resolves to the date of a snapshot. Errors:
 * the server does not start, or ends by itself.
 */
export async function crash({ server, kills, clients, seed, least = 0, load: writes, prepare }) {
  const random = randomFrom(seed);
  await server.start();
  const date = await prepare?.(server);
  // Other loads than the mixed one queue nothing, and have no counter of several shards.
  const isMixed = writes === undefined;
  const hasQueue = isMixed && (await knowsQueue(server.urls[0]));
  if (isMixed) await until(async () => {
    const body = JSON.stringify({ shards: SHARDS });
    const { status } = await send(server.urls[0], "PUT", `/counters/${encodeURIComponent(SHARDED)}`, { body });
    return status < 300;
  }, "a counter of several shards", COMPARE_MS_MAX);
  const begun = Math.floor(Date.now() / 1000) - 60;
  const load = new Load({ server, seed, clients, hasQueue, begun, load: writes, date });
  const inFlight = [];
  for (let kill = 1; kill <= kills; kill += 1) {
    load.incarnation = kill;
    await live(load, random);
    inFlight.push(load.inFlight);
    load.halt();
    await server.kill();
    load.killed();
    if (kill < kills && between(random, 1, EARLY_EACH) === 1) {
      server.spawn();
      await pause(between(random, ...EARLY_MS));
      inFlight.push(0);
      kill += 1;
      await server.kill();
    }
    await server.start();
  }
  load.incarnation = kills + 1;
  await live(load, random);
  await until(() => load.stats.acknowledged >= least, `${least} acknowledgements`, LEAST_MS_MAX);
  await load.finish();
  await load.repeatSample(random, SAMPLE);
  const faults = [...load.faults, ...(await compare(server, load))];
  // Kills that broke nothing off and lives that counted nothing would prove nothing.
  const { stats } = load;
  if (stats.acknowledged < kills)
    faults.push(`only ${stats.acknowledged} writes were acknowledged in ${kills} kills: the load did not run`);
  if (kills > 0 && inFlight.every((requests) => requests === 0)) {
    faults.push("no kill broke off a request: the load did not run");
  }
  return {
    faults, stats, inFlight, hasQueue: isMixed ? hasQueue : undefined, counters: load.books.length, books: load.books,
  };
}

/** Tells how a run went; `again`: how it is asked for again. */
export function tell({ faults, stats, inFlight, hasQueue, counters }, seconds, again) {
  const broken = inFlight.reduce((sum, requests) => sum + requests, 0);
  if (hasQueue === false) console.log("crash: POST /api/event is 404 here: queued events were SKIPPED");
  console.log(
    `crash: ${inFlight.length} kills broke off ${broken} requests in ${seconds.toFixed(1)} s; ${stats.sent} writes: ${stats.acknowledged} acknowledged (${stats.operations} operations), ` +
      `${stats.inDoubt} in doubt; ${stats.retried} retries, ${stats.repeated} repetitions, ${stats.replayed} answered as replayed, ${stats.refused} answers 503, ${stats.ended} for what was deleted, ${stats.reads} reads; ${counters} counters compared`,
  );
  for (const fault of faults) console.error(`crash: WRONG: ${fault}`);
  if (faults.length === 0) console.log("crash: nothing acknowledged is missing, nothing keyed is double");
  else console.error(`crash: ${faults.length} faults. Run it again: ${again}`);
}

async function main() {
  const fresh = Math.floor(Date.now() % 2 ** 32);
  const {
    KILLS: kills, CLIENTS: clients, SEED: seed,
  } = settings({ KILLS: 20, CLIENTS: 24, SEED: fresh }, process.argv.slice(2), process.env);
  console.log(`crash: ${kills} kills, ${clients} clients, SEED=${seed}`);
  const folder = mkdtempSync(join(tmpdir(), "tally-crash-"));
  const server = serverOf({ folder, edges: EDGES, variables: VARIABLES });
  const began = performance.now();
  try {
    const result = await crash({ server, kills, clients, seed });
    tell(result, (performance.now() - began) / 1000, `node tests/crash/run.mjs KILLS=${kills} SEED=${seed}`);
    return result.faults.length === 0 ? 0 : 1;
  } catch (error) {
    console.error(`crash: ${error.message} (SEED=${seed})`);
    return 1;
  } finally {
    await server.end();
    rmSync(folder, { recursive: true, force: true });
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) process.exit(await main());
