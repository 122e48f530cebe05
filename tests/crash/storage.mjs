// Takes the disk away under a load: nothing is acknowledged that cannot be kept, the answer is 503, and what is
// counted is right once the disk is back, before and after a restart.
//
//   node tests/crash/storage.mjs SEED=<number>
//
// Three ways, each skipped and said where the machine has no means for it: a limit of file sizes (SQLite's
// writes fail with EFBIG), a file system that is full (ENOSPC), a data folder that is read-only (EACCES).
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { send } from "./client.mjs";
import { WAYS, mountOn, runWithMounts, works } from "./disk.mjs";
import { Load } from "./load.mjs";
import { randomFrom, settings } from "./random.mjs";
import { compare } from "./run.mjs";
import { serverOf } from "./server.mjs";
import { until } from "./wait.mjs";

const CLIENTS = 12;
const EDGES = 2;
const WITHIN_MS_MAX = 20_000;
// Refusals that are waited for while nothing can be written, and acknowledgements before and after.
const REFUSED_MIN = 60;
const ACKNOWLEDGED_MIN = 100;

const healthOf = async (server) => (await send(server.urls[0], "GET", "/healthz")).status;

async function quiet(load) {
  load.halt();
  await until(() => load.inFlight === 0, "answers to what was in flight", WITHIN_MS_MAX);
}

async function goThrough(name, way, seed) {
  const folder = mkdtempSync(join(tmpdir(), "tally-storage-"));
  if (way.mounts) mountOn(folder);
  // A limit of open objects says that one process has all of them, as under `make serve`.
  const variables = { TALLY_OPEN_OBJECTS_MAX: "10000" };
  const server = serverOf({ folder, edges: EDGES, before: way.before, variables });
  const faults = [];
  try {
    await server.start();
    const load = new Load({
      server, seed, clients: CLIENTS, hasQueue: false, begun: Math.floor(Date.now() / 1000) - 60,
    });
    const { stats } = load;
    const more = async (acknowledged, when) => {
      const before = stats.acknowledged;
      load.resume();
      await until(() => stats.acknowledged >= before + acknowledged, `writes ${when}`, WITHIN_MS_MAX);
    };
    await more(ACKNOWLEDGED_MIN, "before");
    await quiet(load);
    await way.take({ server, folder });
    const [known, refused] = [stats.acknowledged, stats.refused];
    load.resume();
    await until(() => stats.refused >= refused + REFUSED_MIN, "refusals", WITHIN_MS_MAX);
    await quiet(load);
    // Health tries what it promises, and says so whoever asks.
    await until(async () => (await healthOf(server)) === 503, "503 of /healthz", WITHIN_MS_MAX);
    if (stats.acknowledged > known) faults.push(`${stats.acknowledged - known} writes were acknowledged while nothing could be written`);
    if (server.isGone) throw new Error(`workerd ended:\n${server.log}`);
    await way.give({ server, folder });
    await until(async () => (await healthOf(server)) === 200, "200 of /healthz", WITHIN_MS_MAX);
    await more(ACKNOWLEDGED_MIN, "after it came back");
    load.halt();
    await server.kill();
    load.killed();
    load.incarnation += 1;
    await server.start();
    await more(ACKNOWLEDGED_MIN, "after the restart");
    await load.finish();
    await load.repeatSample(randomFrom(seed), CLIENTS);
    faults.push(...load.faults, ...(await compare(server, load)));
    console.log(`storage: ${name}: ${stats.refused} answers 503; ${stats.acknowledged} acknowledged, ${stats.inDoubt} in doubt, ${stats.retried} retries, ${stats.replayed} replayed`);
  } finally {
    await server.end();
    if (way.mounts) works("umount", folder);
    rmSync(folder, { recursive: true, force: true });
  }
  return faults;
}

async function main() {
  const inside = runWithMounts();
  if (inside !== undefined) return inside;
  const { SEED: seed } = settings({ SEED: Math.floor(Date.now() % 2 ** 32) }, process.argv.slice(2), process.env);
  let wrong = 0;
  for (const [name, way] of Object.entries(WAYS)) {
    const missing = way.missing();
    if (missing !== undefined) {
      console.log(`storage: ${name} was SKIPPED: ${missing}`);
      continue;
    }
    const faults = await goThrough(name, way, seed).catch((error) => [error.message]);
    for (const fault of faults) console.error(`storage: WRONG: ${name}: ${fault}`);
    wrong += faults.length;
  }
  if (wrong > 0) console.error(`storage: ${wrong} faults. Run it again: node tests/crash/storage.mjs SEED=${seed}`);
  else console.log("storage: 503 while nothing could be written, and no wrong count after");
  return wrong === 0 ? 0 : 1;
}

process.exit(await main());
