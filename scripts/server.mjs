// Runs the built Workers on plain workerd with their data on local disk: `make serve` and `tally serve`.
//
// Invariants: one workerd per data folder (two would be two owners of one counter); the ready line is printed once and
// only after /healthz of this very workerd answered 200; workerd never outlives this process, and this process never
// the make or npx that started it, however they end.
// Life: settings → free ports → configuration → free folder → workerd → ready → signal → workerd's end → exit 0. The
// ports and the folder of a server that is ending are waited for. A workerd that ends by itself is started again, but
// for the fifth within a minute.
import { spawn, spawnSync } from "node:child_process";
import { lookup } from "node:dns/promises";
import { accessSync, constants, existsSync, readFileSync, readdirSync, realpathSync, rmSync } from "node:fs";
import { createServer, isIPv6 } from "node:net";
import { totalmem } from "node:os";
import { join, resolve } from "node:path";
import workerd from "workerd";
import { keepPrivate, makeFolder, tighten, writePrivate } from "./private-files.mjs";
import { alarmsPerSecond, descriptorsMax, spreadAlarms } from "./serve-alarms.mjs";
import { HOST_DEFAULT, SettingError, ailment, openObjectsMax, ownSetting, serveSettings } from "./serve-settings.mjs";
import { UNIQUE_KEYS, networksOf, workerdConfig } from "./workerd-config.mjs";

// workerd compiles the Wasm before it listens: well under 1 s here, on a loaded machine several.
const READY_MS_MAX = 30_000;
const READY_POLL_MS = 50;
// A Worker that answers with an error logs each time: it is asked less often.
const UNHEALTHY_POLL_MS = 1_000;
// Requests in flight get this long after SIGTERM. Watching clients never end by themselves.
const DRAIN_MS_MAX = 5_000;
// A server that is ending has its ports and its folder for as long as it drains, and a moment more.
const PREDECESSOR_MS_MAX = DRAIN_MS_MAX + 2_000;
const PREDECESSOR_POLL_MS = 100;
// How often the process that started this one is looked for, where there is no other sign of its end.
const PARENT_POLL_MS = 500;
// How often a server that runs is looked at: a disk that takes no writes is said by then.
const DISK_POLL_MS = 5_000;
// What a Worker says of a disk that takes no writes (crates/tally-wire/src/health.rs).
const UNWRITABLE = /^storage takes no writes/;
// The exit code of `flock` itself where the lock is another's.
const LOCKED = 1;
// `flock` answers with this exit code when another process holds the data folder.
const EXIT_LOCKED = 75;
// workerd ends where it cannot go on, as without file descriptors: a client can bring that about, so the server comes
// back. One that ends as often as this within a minute has a reason that a new start does not mend.
const ENDS_MAX = 5;
const ENDS_WITHIN_MS = 60_000;
// A tablet is an object of some 60 KB: 64 of them hold a million counters.
const TABLETS_DEFAULT = "64";
// TABLETS_MAX of crates/tally-wire/src/settings.rs.
const TABLETS_MAX = 4_096;
// What the server makes in its data folder.
const OWN_NAMES = [
  "objects", "snapshots", "lock", "tablets", "tablets.new", "workerd.capnp", "workerd.capnp.new", "proof", "proof.new",
];
// A block of most file systems.
const PROOF_BYTES = 4_096;
// Fewer overdue alarms than this are nothing to tell of.
const ALARMS_TOLD_MIN = 1_000;

// Signals this process to the one that started it: exit code 1 and one sentence.
function refuse(sentence) {
  console.error(`serve: ${sentence}`);
  process.exit(1);
}

async function resolveHost(host) {
  try {
    return (await lookup(host, { all: true })).map(({ address }) => address);
  } catch {
    throw new SettingError(`TALLY_HOST=${host} is unknown: give an address of this machine or a name that leads to one`);
  }
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// Resolves to true once `isFree()` does; to false where it does not within the time that a server needs to end. `what`
// is said once where it has to be waited for.
async function freed(isFree, what) {
  const deadline = performance.now() + PREDECESSOR_MS_MAX;
  for (let isSaid = false; !(await isFree()); isSaid = true) {
    if (performance.now() > deadline) return false;
    if (!isSaid) console.error(`serve: ${what}: waiting up to ${PREDECESSOR_MS_MAX / 1000} s for a server that is ending`);
    await pause(PREDECESSOR_POLL_MS);
  }
  return true;
}

// Resolves to a port that can be listened on, `port` or any free one for 0, or to what is wrong with it.
function probed(address, port) {
  return new Promise((done) => {
    const probe = createServer();
    probe.once("error", done);
    probe.listen({ host: address, port, exclusive: true }, () => {
      const found = probe.address().port;
      probe.close(() => done(found));
    });
  });
}

// Resolves to a port that can be listened on, once who had it has ended.
async function freePort(place, host, address, port) {
  let found;
  const isFree = async () => {
    found = await probed(address, port);
    return found.code !== "EADDRINUSE";
  };
  await freed(isFree, `port ${port} on ${host} is taken`);
  if (typeof found === "number") return found;
  const sentence = {
    EADDRINUSE: `port ${port} on ${host} is taken: end what listens there, or choose another one: ${place.withPort(port + 10)}`,
    EADDRNOTAVAIL: `TALLY_HOST=${host} is not an address of this machine`,
    EACCES: `port ${port} needs more rights than this user has: choose one from 1024: ${place.withPort(8788)}`,
  }[found.code];
  throw new SettingError(sentence ?? `cannot listen on ${host}:${port}: ${found.message}`);
}

// Takes the rights of others away from data of earlier versions, which left them to the umask.
function closeToOthers(path, data) {
  const { narrowed, failed } = tighten(path, OWN_NAMES);
  if (narrowed > 0) console.error(`serve: ${narrowed} files and folders of TALLY_DATA=${data} were open to other users of this machine: now their owner alone can read them`);
  if (failed !== undefined) console.error(`serve: ${failed.path} is open to other users of this machine, and its mode cannot be changed (${failed.code}): give it to the user of the server, or run chmod -R go-rwx as its owner`);
}

// What is in the way of writes to a folder, and what to do, as one sentence.
function diskSentence(folder, error) {
  const what = {
    ENOSPC: "its disk is full: free some space there",
    EDQUOT: "the quota of this user is used up: free some space there, or raise the quota",
    EROFS: "it is mounted read-only: mount it writable, and look for the reason in the log of the system",
    EACCES: "its rights keep this user out: give it and all in it to the user of the server",
    EPERM: "its rights keep this user out: give it and all in it to the user of the server",
    EIO: "its disk fails: look at the log of the system, and put the data on another disk",
  }[error?.code];
  return `the data folder ${folder} takes no writes, so every write is answered 503: ${what ?? `look at its disk, its rights and the limits of this process (${error?.code ?? "the messages of workerd are above"})`}`;
}

// Writes to the data folder and to those in it as workerd would; returns the first error of the system, if there is
// one.
function writeError(folder) {
  const objects = join(folder, "objects");
  try {
    const entries = readdirSync(objects, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    const classes = entries.map(({ name }) => join(objects, name));
    for (const place of [folder, objects, join(folder, "snapshots"), ...classes]) proveWritable(place);
    return undefined;
  } catch (error) {
    return error;
  }
}

function proveWritable(place) {
  const path = join(place, "proof");
  try {
    writePrivate(path, "x".repeat(PROOF_BYTES));
  } finally {
    for (const left of [path, `${path}.new`]) if (existsSync(left)) rmSync(left, { force: true });
  }
}

// Returns the data folder as an absolute path without links, made if it was not there.
function dataFolder(place, data) {
  const path = resolve(place.base, data);
  try {
    makeFolder(join(path, "objects"));
    makeFolder(join(path, "snapshots"));
    accessSync(join(path, "objects"), constants.W_OK | constants.X_OK);
    accessSync(path, constants.W_OK | constants.X_OK);
    closeToOthers(realpathSync(path), data);
    return realpathSync(path);
  } catch (error) {
    if (["ENOSPC", "EDQUOT", "EROFS", "EIO"].includes(error.code)) throw new SettingError(diskSentence(path, error));
    throw new SettingError(`TALLY_DATA=${data} cannot be written (${error.code}): choose a folder of yours: ${place.withData("/path")}`);
  }
}

function compatibilityDate(root) {
  const found = readFileSync(join(root, "wrangler.jsonc"), "utf8").match(/"compatibility_date": "([\d-]+)"/);
  if (!found) throw new SettingError("wrangler.jsonc has no compatibility_date: restore it");
  return found[1];
}

// What becomes workerd: a shell that raises the limit of open files first, since one open object costs about three. On
// Linux `flock` holds the data folder for as long as workerd lives, and `setpriv` has the kernel kill workerd where
// this process ends in any way. Both become workerd, so there is no process between. The watcher does the same where
// there is no setpriv: it reads a pipe that this process alone can write to, whose end is this process's end. A line
// says that workerd has ended before, so its number may be another's.
const BECOME_WORKERD = `ulimit -n "$(ulimit -Hn)"
(read -r ended <&3 || kill -KILL $$) >/dev/null 2>&1 &
if command -v flock >/dev/null; then set -- flock --nonblock --no-fork --conflict-exit-code ${EXIT_LOCKED} "$0" "$@"; fi
if command -v setpriv >/dev/null; then set -- setpriv --pdeathsig KILL "$@"; fi
exec "$@" 3<&-`;

function startWorkerd(folder, config, variables) {
  // The import path is the root of the file system: the configuration embeds by absolute path.
  const command = [workerd.default ?? workerd, "serve", "--import-path", "/", config];
  const child = spawn("/bin/sh", ["-c", BECOME_WORKERD, join(folder, "lock"), ...command], {
    // A group of its own: Ctrl-C reaches this process alone, which then ends workerd in order.
    detached: true,
    stdio: ["ignore", "inherit", "inherit", "pipe"],
    env: { PATH: process.env.PATH, ...variables },
  });
  const watcher = child.stdio[3];
  watcher.on("error", () => {});
  // The pipe alone keeps nothing running.
  watcher.unref();
  child.on("exit", () => watcher.end("ended\n"));
  return child;
}

// Whether no other workerd has the folder, as far as this machine can tell.
function isFolderFree(folder) {
  const { error, status } = spawnSync("flock", ["--nonblock", join(folder, "lock"), "true"], { stdio: "ignore" });
  // Other codes say that the file could not be made or locked: workerd's own attempt names that.
  return error !== undefined || status !== LOCKED;
}

// Spreads what became due while no server ran. Only where no other workerd has the folder: that one's alarms are its
// own.
async function spreadOverdue(folder) {
  if (!isFolderFree(folder)) return;
  const alarms = join(folder, "objects", UNIQUE_KEYS.Cell);
  const spread = await spreadAlarms(alarms, Date.now(), alarmsPerSecond(descriptorsMax())).catch((error) => {
    throw new SettingError(diskSentence(folder, writeError(folder) ?? { code: error.message }));
  });
  if (spread > ALARMS_TOLD_MIN)
    console.error(`serve: ${spread} counters have something to do since before the start: it is spread over time`);
}

// Resolves to undefined when the Worker at `url` is well and of the workerd that began at `startedAt`, else to what is
// wrong, when to ask again, and whether that could help.
async function wrongAt(url, folder, startedAt) {
  try {
    const found = await ailment(url, startedAt);
    if (found === undefined) return undefined;
    const { status, detail, isFinal } = found;
    if (status === 200) return { sentence: "another server answers on the port", pause_ms: READY_POLL_MS };
    if (UNWRITABLE.test(detail)) {
      return { sentence: diskSentence(folder, writeError(folder)), pause_ms: UNHEALTHY_POLL_MS, isDisk: true };
    }
    const sentence = isFinal ? detail : `/healthz answers ${status}${detail === undefined ? "" : `: ${detail}`}`;
    return { sentence, pause_ms: UNHEALTHY_POLL_MS, isFinal };
  } catch {
    return { sentence: "nothing answers on the port", pause_ms: READY_POLL_MS, isFinal: false };
  }
}

async function waitUntilHealthy(urls, folder, startedAt, stopped) {
  const deadline = performance.now() + READY_MS_MAX;
  for (const url of urls) {
    let wrong = await wrongAt(url, folder, startedAt);
    while (wrong !== undefined && !stopped()) {
      if (wrong.isFinal) return wrong.sentence;
      if (performance.now() > deadline) {
        return wrong.isDisk ? wrong.sentence : `${url}: ${wrong.sentence} after ${READY_MS_MAX / 1000} s`;
      }
      await pause(wrong.pause_ms);
      wrong = await wrongAt(url, folder, startedAt);
    }
  }
  return undefined;
}

// How many tablets the counters of a data folder lie in, where the environment does not say it (empty: none): as many
// as the last time. A folder that was made without tablets goes on so.
function tabletsOf(folder, setting) {
  if (setting !== undefined) return setting.trim();
  const note = join(folder, "tablets");
  if (existsSync(note)) return readFileSync(note, "utf8").trim();
  return existsSync(join(folder, "objects", UNIQUE_KEYS.Directory)) ? "" : TABLETS_DEFAULT;
}

async function start(place, env) {
  const addresses = await resolveHost(ownSetting(env, "HOST") || HOST_DEFAULT);
  const settings = serveSettings(env, addresses, place.settings);
  const { host, address } = settings;
  const ports = [];
  for (const port of settings.ports) ports.push(await freePort(place, host, address, port));
  const folder = dataFolder(place, settings.data);
  const unwritable = writeError(folder);
  if (unwritable !== undefined) throw new SettingError(diskSentence(folder, unwritable));
  // All objects share one thread here, and each costs three files: cold counters share objects.
  const tablets = tabletsOf(folder, env.TALLY_TABLETS);
  if (tablets === "") delete settings.variables.TALLY_TABLETS;
  else settings.variables.TALLY_TABLETS = tablets;
  // What may not be so is said by the Workers, and not kept.
  if (tablets === "" || (/^\d+$/.test(tablets) && Number(tablets) >= 1 && Number(tablets) <= TABLETS_MAX)) {
    writePrivate(join(folder, "tablets"), `${tablets}\n`);
  }
  settings.variables.TALLY_OPEN_OBJECTS_MAX ??= String(openObjectsMax(descriptorsMax(), totalmem(), ports.length));
  const bracketed = (name) => (isIPv6(name) ? `[${name}]` : name);
  const config = join(folder, "workerd.capnp");
  writePrivate(
    config,
    workerdConfig({
      addresses: ports.map((port) => `${bracketed(address)}:${port}`),
      build: join(place.root, "build"),
      objects: join(folder, "objects"),
      snapshots: join(folder, "snapshots"),
      compatibilityDate: compatibilityDate(place.root),
      environment: [...Object.keys(settings.variables), "TALLY_STARTED_AT"].sort(),
      networks: networksOf(settings.variables.TALLY_ALERTS_ALLOW),
      cfBlobHeader: settings.cfBlobHeader,
    }),
  );

  // A wildcard address is not one that can be called: ask on loopback, and say so.
  const called = { "0.0.0.0": "127.0.0.1", "::": "[::1]" }[address] ?? bracketed(host);
  const urls = ports.map((port) => `http://${called}:${port}`);
  const begin = (startedAt) =>
    startWorkerd(folder, config, { ...settings.variables, TALLY_STARTED_AT: String(startedAt) });
  await supervise(begin, { folder, urls, data: settings.data, place });
}

// Calls `ended` once the process that started this one is gone: this one then has another parent.
function watchParent(parent, ended) {
  const look = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(look);
    ended();
  }, PARENT_POLL_MS);
  look.unref();
}

// Says once that the disk takes no writes, and once that it does again, whoever asks.
function watchDisk(url, folder, startedAt, isOver) {
  let isSaid = false;
  const look = async () => {
    const found = await ailment(url, startedAt).catch(() => ({ detail: "" }));
    if (isOver()) return;
    const isFull = UNWRITABLE.test(found?.detail ?? "");
    if (isFull && !isSaid) console.error(`serve: ${diskSentence(folder, writeError(folder))}`);
    if (found === undefined && isSaid) console.error(`serve: the data folder ${folder} takes writes again`);
    isSaid = isFull || (isSaid && found !== undefined);
    setTimeout(look, DISK_POLL_MS).unref();
  };
  setTimeout(look, DISK_POLL_MS).unref();
}

// Runs workerd until a signal ends this process; `begin` starts one, which is told when.
async function supervise(begin, { folder, urls, data, place }) {
  let child;
  let stopping = false;
  let isReady = false;
  const ends_ms = [];
  const end = (code) => {
    // A second signal does not wait for requests in flight.
    if (stopping) return child?.kill("SIGKILL");
    stopping = true;
    process.exitCode = code;
    if (child === undefined) process.exit();
    child.kill("SIGTERM");
    setTimeout(() => child.kill("SIGKILL"), DRAIN_MS_MAX).unref();
  };
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => end(0));
  if (place.parent !== undefined) watchParent(place.parent, () => end(0));

  const ended = (code, signal) => {
    if (stopping) process.exit();
    if (code === EXIT_LOCKED) refuse(`TALLY_DATA=${data} is in use by another ${place.command}: end that one, or choose another folder`);
    const how = `workerd ended by itself (${signal ?? `exit code ${code}`}): its messages are above`;
    const now_ms = performance.now();
    ends_ms.push(now_ms);
    while (now_ms - ends_ms[0] > ENDS_WITHIN_MS) ends_ms.shift();
    if (ends_ms.length >= ENDS_MAX) {
      const unwritable = writeError(folder);
      if (unwritable !== undefined) refuse(diskSentence(folder, unwritable));
      const mend = isReady
        ? "mend what they name, then start anew"
        : `if they name SQLite or a disk, the data folder ${folder} takes no writes: free space on its disk, or give it and all in it to the user of the server; then start anew`;
      refuse(`${how}. It did so ${ENDS_MAX} times within a minute, so it is not started again: ${mend}`);
    }
    console.error(`serve: ${how}. It is started again`);
    run().catch((error) => refuse(error.message));
  };
  const run = async () => {
    await freed(() => stopping || isFolderFree(folder), `TALLY_DATA=${data} is in use`);
    await spreadOverdue(folder);
    if (stopping) return;
    let isGone = false;
    const startedAt = Date.now();
    child = begin(startedAt);
    child.on("error", (error) => refuse(`workerd could not be started: ${error.message}`));
    child.on("exit", (code, signal) => {
      isGone = true;
      ended(code, signal);
    });
    const wrong = await waitUntilHealthy(urls, folder, startedAt, () => stopping || isGone);
    if (stopping || isGone) return;
    if (wrong !== undefined) console.error(`serve: ${wrong}`);
    else if (isReady) console.error("serve: workerd is ready again");
    else if (place.ready !== undefined) place.ready(urls);
    else console.log(`Tally is ready on ${urls.join(", ")}\nThe dashboard is on ${urls[0]}/dashboard/`);
    // One that was ready before may be busy: who watches /healthz sees so.
    if (wrong !== undefined && !isReady) end(1);
    isReady = true;
    watchDisk(urls[0], folder, startedAt, () => stopping || isGone);
  };
  await run();
}

/**
 * Serves until a signal ends this process, with the settings of `env`. What cannot be is said in one sentence, and ends
 * it with exit code 1. place: `root`, the folder of `build/` and `wrangler.jsonc`; `base`, which a relative data
 * folder is below; and how the command is called: `command`, `settings` (by `variables` or `options`),
 * `withPort(port)`, `withData(path)`. `parent`: the process whose end ends this one, if any. `ready(urls)`, where it is
 * given, is called once it answers; else that is printed.
 */
export function serve(place, env) {
  keepPrivate();
  return start(place, env).catch((error) => {
    if (error instanceof SettingError) refuse(error.message);
    throw error;
  });
}
