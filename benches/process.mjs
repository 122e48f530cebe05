// Programs that a benchmark starts.
//
// Invariant: what is started ends with this process, on Linux even when this one is killed.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:net";
import { BenchError } from "./load.mjs";

// About 1 s. A machine that is a hundred times slower still gets there.
const READY_MS_MAX = 600_000;
const READY_POLL_MS = 50;
const END_MS_MAX = 10_000;
// Enough to see why a server ended.
const LOG_CHARACTERS_MAX = 4_000;

// Source: proc(5), /proc/pid/stat; a tick is 1/100 s on all Linux that has it.
const [TICK_US, TICKS_AT] = [10_000, 11];

/** Returns what a program, and those that it has started and that still run, have used of processors, microseconds. */
export function cpuOf(pid) {
  const file = `/proc/${pid}/stat`;
  if (!existsSync(file)) return NaN;
  // The name of the program, in brackets, may have spaces.
  const fields = readFileSync(file, "utf8").split(") ").at(-1).split(" ");
  const own = TICK_US * (Number(fields[TICKS_AT]) + Number(fields[TICKS_AT + 1]));
  const tasks = readdirSync(`/proc/${pid}/task`);
  const listed = tasks.map((task) => readFileSync(`/proc/${pid}/task/${task}/children`, "utf8"));
  const children = listed.flatMap((text) => text.split(" ").filter(Boolean));
  return children.reduce((sum, child) => sum + cpuOf(child), own);
}

const running = new Set();
process.on("exit", () => running.forEach((child) => child.kill()));

/** Resolves to a port of loopback that nothing listened on a moment ago, for a program that cannot choose its own. */
export async function freePort() {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address();
  probe.close();
  await once(probe, "close");
  return port;
}

/**
 * Resolves to a program that is ready: urls (what it listens on), log() (its last messages), cpu_us() (what it has used
 * of processors, user and system; NaN where the system does not say) and end().
 *
 * It is sent SIGTERM when this process ends, and has as many open files as may be: an open object costs
 * about three; or nofile of them. cwd: where it runs. env: all that it gets besides PATH. announced: finds the urls in
 * what it wrote to the stream `stream`; or answers(): resolves to them once the program answers.
 * Errors: BenchError where it ends, or is not ready after 10 minutes.
 */
export async function start(
  name, command, { cwd, env = {}, stream = 1, announced, answers, nofile = "$(ulimit -Hn)" },
) {
  const script = `ulimit -n "${nofile}"
if command -v setpriv >/dev/null; then set -- setpriv --pdeathsig TERM "$@"; fi
exec "$@"`;
  const child = spawn("/bin/sh", ["-c", script, "sh", ...command], {
    cwd,
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
  const urls = await new Promise((done, failed) => {
    let poll;
    const settle = (act, what) => {
      clearTimeout(late);
      clearInterval(poll);
      act(what);
    };
    const refuse = (why) => settle(failed, new BenchError(`${name} ${why}:\n${log}`));
    const late = setTimeout(() => {
      child.kill();
      refuse(`was not ready after ${READY_MS_MAX / 1000} s`);
    }, READY_MS_MAX);
    ended.then(() => refuse("ended before it was ready"));
    if (answers !== undefined) {
      poll = setInterval(async () => {
        const found = await answers().catch(() => undefined);
        if (found !== undefined) settle(done, found);
      }, READY_POLL_MS);
      return;
    }
    child.stdio[stream].on("data", (chunk) => {
      written += chunk;
      const found = announced(written);
      if (found !== undefined) settle(done, found);
    });
  });
  return {
    urls,
    pid: child.pid,
    cpu_us: () => cpuOf(child.pid),
    log: () => log,
    async end() {
      child.kill();
      const late = setTimeout(() => child.kill("SIGKILL"), END_MS_MAX);
      await ended;
      clearTimeout(late);
    },
  };
}
