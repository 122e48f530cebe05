// The programs under load. Each listens on a free port of loopback with its data in a folder of its own.
//
// Invariants: a server ends with this process (on Linux even when this one is killed), and its data starts empty.
// To add one: a function like `tally` below, and its name in SERVERS.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import workerd from "workerd";
import { BenchError } from "./load.mjs";

const path = (name) => fileURLToPath(new URL(name, import.meta.url));
const READY_MS_MAX = 40_000;
const END_MS_MAX = 10_000;
// Enough to see why a server ended.
const LOG_CHARACTERS_MAX = 4_000;

const running = new Set();
process.on("exit", () => running.forEach((child) => child.kill()));

// Runs a command that is sent SIGTERM when this process ends, with as many open files as may be: an
// open object costs about three. `announced` finds the URL in a line of the output stream `stream`.
async function start(name, command, { env = {}, stream = 1, announced }) {
  const script = `ulimit -n "$(ulimit -Hn)"
if command -v setpriv >/dev/null; then set -- setpriv --pdeathsig TERM "$@"; fi
exec "$@"`;
  const child = spawn("/bin/sh", ["-c", script, "sh", ...command], {
    stdio: ["ignore", "pipe", "pipe", "pipe"],
    // Not the user's own: keys of theirs would close what is to be measured.
    env: { PATH: process.env.PATH, ...env },
  });
  running.add(child);
  const ended = once(child, "close").finally(() => running.delete(child));
  let log = "";
  for (const output of child.stdio.slice(1)) {
    output.on("data", (chunk) => {
      log = `${log}${chunk}`.slice(-LOG_CHARACTERS_MAX);
    });
  }
  let written = "";
  const url = await new Promise((done, failed) => {
    const refuse = (why) => failed(new BenchError(`${name} ${why}:\n${log}`));
    const late = setTimeout(() => {
      child.kill();
      refuse(`was not ready after ${READY_MS_MAX / 1000} s`);
    }, READY_MS_MAX);
    ended.then(() => {
      clearTimeout(late);
      refuse("ended before it was ready");
    });
    child.stdio[stream].on("data", (chunk) => {
      written += chunk;
      const found = announced(written);
      if (found === undefined) return;
      clearTimeout(late);
      done(found);
    });
  });
  return {
    url,
    log: () => log,
    async end() {
      child.kill();
      const late = setTimeout(() => child.kill("SIGKILL"), END_MS_MAX);
      await ended;
      clearTimeout(late);
    },
  };
}

// Resolves to what a counter holds: 0 where it does not exist, as no write of it has landed yet.
async function value(url) {
  const answer = await fetch(url);
  const body = await answer.text();
  if (answer.status === 404 && JSON.parse(body).code === "counter-not-found") return 0;
  if (answer.status !== 200) throw new BenchError(`${url} answers ${answer.status}: ${body}`);
  return Number(JSON.parse(body).value);
}

// The release build, as `make serve` runs it.
async function tally(folder) {
  const server = await start("Tally", [process.execPath, path("../scripts/serve.mjs")], {
    env: { PORT: "0", DATA: folder },
    announced: (text) => text.match(/^Tally is ready on (http:\S+)$/m)?.[1],
  });
  return { ...server, total: (id) => value(`${server.url}/counters/${id}?consistency=strong`) };
}

// The baseline: a Worker in JavaScript with one Durable Object per counter.
async function javascript(folder) {
  const command = [
    ...[workerd.default ?? workerd, "serve", path("baseline/workerd.capnp"), "--control-fd=3"],
    ...["--socket-addr=http=127.0.0.1:0", `--directory-path=objects=${folder}`],
  ];
  const server = await start("the JavaScript baseline", command, {
    stream: 3,
    announced: (text) => {
      const port = text.match(/"socket":"http","port":(\d+)/)?.[1];
      return port && `http://127.0.0.1:${port}`;
    },
  });
  return { ...server, total: (id) => value(`${server.url}/counters/${id}`) };
}

const SERVERS = { tally, javascript };

/**
 * Resolves to a running server: url, total(id) (what it says a counter holds, nothing cached), log()
 * and end(). name: one of SERVERS. folder: made for its data.
 * Errors: BenchError where it does not get ready. Cost: about 1 s.
 */
export async function startServer(name, folder) {
  mkdirSync(folder, { recursive: true });
  return SERVERS[name](folder);
}
