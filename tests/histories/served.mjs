// Writes histories of a real server under faults, and judges them by the contract alone:
//
//   node tests/histories/served.mjs KILLS=5 SECONDS=3 SEED=<number>
//
// Three runs: SIGKILL again and again, a disk that is full, a clock that stands still. The server is workerd; with
// NATIVE=1 it is the native one. HISTORY=folder keeps the histories, LEDGER=1 adds what was judged to the ledger.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { send } from "../crash/client.mjs";
import { WAYS, mountOn, runWithMounts } from "../crash/disk.mjs";
import { between, randomFrom, settings } from "../crash/random.mjs";
import { serverOf } from "../crash/server.mjs";
import { pause, until } from "../crash/wait.mjs";
import { judge, record } from "./check.mjs";
import { Clients } from "./clients.mjs";
import { History } from "./written.mjs";

const HOST = process.env.NATIVE ? "native" : "workerd";
const CLIENTS = 8;
const EDGES = 2;
// From the start of a server to its kill, by chance.
const LIFE_MS = [150, 600];
const ACKNOWLEDGED_MIN = 40;
const WITHIN_MS_MAX = 40_000;
const SHOWN_MAX = 5;
// Low, so that shards are split and joined meanwhile.
const VARIABLES = {
  TALLY_SPLIT_FLUSHES_PER_SECOND: "20", TALLY_MERGE_AFTER_MS: "500", TALLY_OPEN_OBJECTS_MAX: "10000",
};
const CLOCK = fileURLToPath(new URL("../server/clock.c", import.meta.url));

const more = (clients, count, what) => {
  const { acknowledged } = clients.stats;
  return until(() => clients.stats.acknowledged >= acknowledged + count, what, WITHIN_MS_MAX);
};

const isWell = (server) => send(server.urls[0], "GET", "/healthz").then(({ status }) => status === 200, () => false);

async function kill({ server, clients, history, random, kills }) {
  for (let number = 0; number < kills; number += 1) {
    await more(clients, between(random, 1, ACKNOWLEDGED_MIN), "acknowledgements before a kill");
    await pause(between(random, ...LIFE_MS));
    history.note("kill");
    await server.kill();
    await server.start();
  }
  return kills;
}

async function fillDisk({ server, clients, history, folder, seconds, way }) {
  await more(clients, ACKNOWLEDGED_MIN, "acknowledgements before");
  history.note("disk", "full");
  await way.take({ server, folder });
  await pause(seconds * 1_000);
  await way.give({ server, folder });
  history.note("disk", "free");
  const isBack = async () => {
    if (server.isGone) {
      // Once in some twenty runs workerd ends by itself while the disk is full. Who runs it starts it again.
      console.log(`histories: ${HOST} ended by itself and is started again:\n${server.log}`);
      history.note("kill");
      await server.start();
    }
    return isWell(server);
  };
  await until(isBack, "200 of /healthz", WITHIN_MS_MAX);
  return 1;
}

function setClock(file, text) {
  writeFileSync(`${file}.new`, text);
  renameSync(`${file}.new`, file);
}

async function stopClock({ clients, history, clock, seconds }) {
  await more(clients, ACKNOWLEDGED_MIN, "acknowledgements before");
  history.note("clock", "stopped");
  setClock(clock, `@${Math.floor(Date.now() / 1_000)}`);
  await pause(seconds * 1_000);
  setClock(clock, "0");
  history.note("clock", "right");
  return 1;
}

/** The faults: missing() says why one cannot be made here, run() makes it, and resolves to how often it did. */
function faultsOf(root) {
  const clock = join(root, "offset");
  const library = join(root, "clock.so");
  setClock(clock, "0");
  const built = spawnSync("cc", ["-shared", "-fPIC", "-o", library, CLOCK, "-ldl"], { encoding: "utf8" });
  const full = WAYS["a full file system"];
  const way = full.missing() === undefined ? full : WAYS["a limit of file sizes"];
  return {
    kill: { run: kill },
    disk: { run: fillDisk, missing: way.missing(), way },
    clock: {
      run: stopClock, clock, missing: built.status === 0 ? undefined : "cc is missing",
      before: ["env", `LD_PRELOAD=${library}`, `CLOCK_OFFSET=${clock}`],
    },
  };
}

/** Runs clients while a fault happens. Returns what the checker says, and what clients know. */
async function goThrough(name, fault, { root, seed, kills, seconds, file }) {
  const folder = join(root, name);
  mkdirSync(folder);
  if (fault.way?.mounts) mountOn(folder);
  const server = serverOf({ folder, edges: EDGES, variables: VARIABLES, before: fault.before });
  const history = History.toFile(file, { source: HOST, seed, fault: name });
  try {
    await server.start();
    const clients = new Clients({ server, history, seed, count: CLIENTS });
    const random = randomFrom(seed);
    const times = await fault.run({ server, clients, history, folder, kills, seconds, random, ...fault });
    await more(clients, ACKNOWLEDGED_MIN, "acknowledgements after");
    await clients.finish();
    history.close();
    return { ...judge(readFileSync(file, "utf8")), ...clients.stats, times };
  } finally {
    await server.end();
    if (fault.way?.mounts) spawnSync("umount", [folder]);
  }
}

function keep(name, result) {
  const { violations, calls, judged, undecided, times, sent, acknowledged, unknown } = result;
  record("histories", { source: HOST, histories: 1, wrong: violations.length > 0 ? 1 : 0, calls, judged, undecided });
  record("kills", { host: HOST, fault: name, times, sent, acknowledged, unknown, violations: violations.length });
}

// Says what became of a run. Returns how much is wrong.
function tell(name, file, result) {
  const { violations, times, calls, judged, undecided, sent, acknowledged, unknown } = result;
  const shown = violations.slice(0, SHOWN_MAX);
  for (const { line, why } of shown) console.error(`histories: WRONG: ${file}:${line}: ${why}`);
  const answers = `${calls} calls, ${judged} answers judged, ${undecided} undecided`;
  const writes = `${sent} writes, ${acknowledged} acknowledged, ${unknown} unknown`;
  console.log(`histories: ${HOST}, ${name} (${times}): ${answers}; ${writes}; ${violations.length} violations`);
  if (process.env.LEDGER) keep(name, result);
  return violations.length;
}

async function main() {
  const inside = runWithMounts();
  if (inside !== undefined) return inside;
  const fresh = Math.floor(Date.now() % 2 ** 32);
  const { KILLS: kills, SECONDS: seconds, SEED: seed } =
    settings({ KILLS: 5, SECONDS: 2, SEED: fresh }, process.argv.slice(2), process.env);
  const root = mkdtempSync(join(tmpdir(), "tally-served-"));
  const kept = process.env.HISTORY || root;
  mkdirSync(kept, { recursive: true });
  let wrong = 0;
  for (const [name, fault] of Object.entries(faultsOf(root))) {
    if (fault.missing !== undefined) {
      console.log(`histories: ${HOST}, ${name} was SKIPPED: ${fault.missing}`);
      continue;
    }
    const file = join(kept, `${HOST}-${name}-${seed}.jsonl`);
    try {
      wrong += tell(name, file, await goThrough(name, fault, { root, seed, kills, seconds, file }));
    } catch (error) {
      console.error(`histories: WRONG: ${HOST}, ${name}: ${error.message}`);
      wrong += 1;
    }
  }
  if (wrong === 0) rmSync(root, { recursive: true, force: true });
  else console.error(`histories: run it again: node tests/histories/served.mjs KILLS=${kills} SEED=${seed}`);
  return wrong === 0 ? 0 : 1;
}

process.exit(await main());
