// Runs the built Workers on plain workerd with their data on local disk: `make serve` and `tally serve`.
//
// Invariants: one workerd per data folder (two would be two owners of one counter), the ready line
// is printed once and only after /healthz answered 200, and workerd never outlives this process.
// Life: settings → free ports → configuration → workerd → ready → signal → workerd's end → exit 0. A workerd that ends
// by itself is started again, but for the fifth within a minute.
import { spawn, spawnSync } from "node:child_process";
import { lookup } from "node:dns/promises";
import { accessSync, constants, existsSync, readFileSync, realpathSync } from "node:fs";
import { createServer, isIPv6 } from "node:net";
import { totalmem } from "node:os";
import { join, resolve } from "node:path";
import workerd from "workerd";
import { keepPrivate, makeFolder, tighten, writePrivate } from "./private-files.mjs";
import { alarmsPerSecond, descriptorsMax, spreadAlarms } from "./serve-alarms.mjs";
import { HOST_DEFAULT, SettingError, ailment, openObjectsMax, serveSettings } from "./serve-settings.mjs";
import { UNIQUE_KEYS, networksOf, workerdConfig } from "./workerd-config.mjs";

// workerd compiles the Wasm before it listens: well under 1 s here, on a loaded machine several.
const READY_MS_MAX = 30_000;
const READY_POLL_MS = 50;
// A Worker that answers with an error logs each time: it is asked less often.
const UNHEALTHY_POLL_MS = 1_000;
// Requests in flight get this long after SIGTERM. Watching clients never end by themselves.
const DRAIN_MS_MAX = 5_000;
// `flock` answers with this exit code when another process holds the data folder.
const EXIT_LOCKED = 75;
// workerd ends where it cannot go on, as without file descriptors: a client can bring that about, so the server comes
// back. One that ends as often as this within a minute has a reason that a new start does not mend.
const ENDS_MAX = 5;
const ENDS_WITHIN_MS = 60_000;
// A tablet is an object of some 60 KB: 64 of them hold a million counters.
const TABLETS_DEFAULT = "64";
// TABLETS_MAX of crates/tally-protocol/src/settings.rs.
const TABLETS_MAX = 4_096;
// What the server makes in its data folder.
const OWN_NAMES = ["objects", "snapshots", "lock", "tablets", "tablets.new", "workerd.capnp", "workerd.capnp.new"];
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
    throw new SettingError(`HOST=${host} is unknown: give an address of this machine or a name that leads to one`);
  }
}

// Resolves to a port that can be listened on: `port`, or any free one for 0.
function freePort(place, host, address, port) {
  return new Promise((done, failed) => {
    const probe = createServer();
    probe.once("error", ({ code, message }) => {
      const sentence = {
        EADDRINUSE: `port ${port} on ${host} is taken: end what listens there, or choose another one: ${place.withPort(port + 10)}`,
        EADDRNOTAVAIL: `HOST=${host} is not an address of this machine`,
        EACCES: `port ${port} needs more rights than this user has: choose one from 1024: ${place.withPort(8788)}`,
      }[code];
      failed(new SettingError(sentence ?? `cannot listen on ${host}:${port}: ${message}`));
    });
    probe.listen({ host: address, port, exclusive: true }, () => {
      const found = probe.address().port;
      probe.close(() => done(found));
    });
  });
}

// Takes the rights of others away from data of earlier versions, which left them to the umask.
function closeToOthers(path, data) {
  const { narrowed, failed } = tighten(path, OWN_NAMES);
  if (narrowed > 0) console.error(`serve: ${narrowed} files and folders of DATA=${data} were open to other users of this machine: now their owner alone can read them`);
  if (failed !== undefined) console.error(`serve: ${failed.path} is open to other users of this machine, and its mode cannot be changed (${failed.code}): give it to the user of the server, or run chmod -R go-rwx as its owner`);
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
    throw new SettingError(`DATA=${data} cannot be written (${error.code}): choose a folder of yours: ${place.withData("/path")}`);
  }
}

function compatibilityDate(root) {
  const found = readFileSync(join(root, "wrangler.toml"), "utf8").match(/^compatibility_date = "([\d-]+)"/m);
  if (!found) throw new SettingError("wrangler.toml has no compatibility_date: restore it");
  return found[1];
}

// Starts workerd through a shell that raises the limit of open files first: one open object costs
// about three. On Linux `flock` holds the data folder for as long as workerd lives, and `setpriv`
// ends workerd should this process be killed; both become workerd, so there is no process between.
function startWorkerd(folder, config, variables) {
  const script = `ulimit -n "$(ulimit -Hn)"
if command -v flock >/dev/null; then set -- flock --nonblock --no-fork --conflict-exit-code ${EXIT_LOCKED} "$0" "$@"; fi
if command -v setpriv >/dev/null; then set -- setpriv --pdeathsig TERM "$@"; fi
exec "$@"`;
  // The import path is the root of the file system: the configuration embeds by absolute path.
  const command = [workerd.default ?? workerd, "serve", "--import-path", "/", config];
  return spawn("/bin/sh", ["-c", script, join(folder, "lock"), ...command], {
    // A group of its own: Ctrl-C reaches this process alone, which then ends workerd in order.
    detached: true,
    stdio: ["ignore", "inherit", "inherit"],
    env: { PATH: process.env.PATH, ...variables },
  });
}

// Spreads what became due while no server ran. Only where no other workerd has the folder: that one's alarms are its
// own.
async function spreadOverdue(folder) {
  const { error, status } = spawnSync("flock", ["--nonblock", join(folder, "lock"), "true"]);
  if (error === undefined && status !== 0) return;
  const spread = await spreadAlarms(
    join(folder, "objects", UNIQUE_KEYS.Cell), Date.now(), alarmsPerSecond(descriptorsMax()),
  );
  if (spread > ALARMS_TOLD_MIN)
    console.error(`serve: ${spread} counters have something to do since before the start: it is spread over time`);
}

// Resolves to undefined when the Worker at `url` is well, else to what is wrong, when to ask again, and whether that
// could help.
async function wrongAt(url) {
  try {
    const found = await ailment(url);
    if (found === undefined) return undefined;
    const { status, detail, isFinal } = found;
    const sentence = isFinal ? detail : `/healthz answers ${status}${detail === undefined ? "" : `: ${detail}`}`;
    return { sentence, pause_ms: UNHEALTHY_POLL_MS, isFinal };
  } catch {
    return { sentence: "nothing answers on the port", pause_ms: READY_POLL_MS, isFinal: false };
  }
}

async function waitUntilHealthy(urls, stopped) {
  const deadline = performance.now() + READY_MS_MAX;
  for (const url of urls) {
    let wrong = await wrongAt(url);
    while (wrong !== undefined && !stopped()) {
      if (wrong.isFinal) return wrong.sentence;
      if (performance.now() > deadline) return `${url}: ${wrong.sentence} after ${READY_MS_MAX / 1000} s`;
      await new Promise((done) => setTimeout(done, wrong.pause_ms));
      wrong = await wrongAt(url);
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
  const settings = serveSettings(env, await resolveHost(env.HOST || HOST_DEFAULT));
  const { host, address } = settings;
  const ports = [];
  for (const port of settings.ports) ports.push(await freePort(place, host, address, port));
  const folder = dataFolder(place, settings.data);
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
      environment: Object.keys(settings.variables).sort(),
      networks: networksOf(settings.variables.TALLY_ALERTS_ALLOW),
      cfBlobHeader: settings.cfBlobHeader,
    }),
  );

  // A wildcard address is not one that can be called: ask on loopback, and say so.
  const called = { "0.0.0.0": "127.0.0.1", "::": "[::1]" }[address] ?? bracketed(host);
  const urls = ports.map((port) => `http://${called}:${port}`);
  await supervise(() => startWorkerd(folder, config, settings.variables), { folder, urls, data: settings.data, place });
}

// Runs workerd until a signal ends this process; `begin` starts one.
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

  const ended = (code, signal) => {
    if (stopping) process.exit();
    if (code === EXIT_LOCKED) refuse(`DATA=${data} is in use by another ${place.command}: end that one, or choose another folder`);
    const how = `workerd ended by itself (${signal ?? `exit code ${code}`}): its messages are above`;
    const now_ms = performance.now();
    ends_ms.push(now_ms);
    while (now_ms - ends_ms[0] > ENDS_WITHIN_MS) ends_ms.shift();
    if (ends_ms.length >= ENDS_MAX) {
      refuse(`${how}. It did so ${ENDS_MAX} times within a minute, so it is not started again: mend what they name, then start anew`);
    }
    console.error(`serve: ${how}. It is started again`);
    run().catch((error) => refuse(error.message));
  };
  const run = async () => {
    await spreadOverdue(folder);
    if (stopping) return;
    let isGone = false;
    child = begin();
    child.on("error", (error) => refuse(`workerd could not be started: ${error.message}`));
    child.on("exit", (code, signal) => {
      isGone = true;
      ended(code, signal);
    });
    const wrong = await waitUntilHealthy(urls, () => stopping || isGone);
    if (stopping || isGone) return;
    if (wrong !== undefined) console.error(`serve: ${wrong}`);
    else if (isReady) console.error("serve: workerd is ready again");
    else if (place.ready !== undefined) place.ready(urls);
    else console.log(`Tally is ready on ${urls.join(", ")}\nThe dashboard is on ${urls[0]}/dashboard/`);
    // One that was ready before may be busy: who watches /healthz sees so.
    if (wrong !== undefined && !isReady) end(1);
    isReady = true;
  };
  await run();
}

/**
 * Serves until a signal ends this process, with the settings of `env`. What cannot be is said in one sentence, and ends
 * it with exit code 1. place: `root`, the folder of `build/` and `wrangler.toml`; `base`, which a relative DATA is
 * below; and how the command is called: `command`, `withPort(port)`, `withData(path)`. `ready(urls)`, where it is
 * given, is called once it answers; else that is printed.
 */
export function serve(place, env) {
  keepPrivate();
  return start(place, env).catch((error) => {
    if (error instanceof SettingError) refuse(error.message);
    throw error;
  });
}
