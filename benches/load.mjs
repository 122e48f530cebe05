// The load generator: finds or installs wrk, and runs it once.
//
// Invariants: what a run acknowledged is counted answer by answer (load.lua), never derived from a rate;
// and a run ends only when every request has its answer, so it leaves nothing to slow the next one.
import { spawn, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const SCRIPT = fileURLToPath(new URL("load.lua", import.meta.url));
// Slowness is measured and not refused: this is for servers that hang.
const HANG_SECONDS = 1_800;
// Beyond that wrk hangs.
const STOP_MS_MAX = 10_000;

// What still runs when this process ends would load the machine for half an hour.
const running = new Set();
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));

/** What stops a benchmark. Its message says what to do or what went wrong. */
export class BenchError extends Error {}

// wrk has no answer with exit code 0 to a question for its version.
function wrkVersion() {
  return spawnSync("wrk", ["--version"], { encoding: "utf8" }).stdout?.match(/^wrk (\S+)/m)?.[1];
}

function install() {
  const apt = (...args) => spawnSync("apt-get", args, { stdio: ["ignore", "ignore", "inherit"] }).status === 0;
  const wrk = ["install", "--yes", "--no-install-recommends", "wrk"];
  // A fresh machine has no lists of packages yet.
  return apt(...wrk) || (apt("update") && apt(...wrk));
}

/**
 * Returns the version of wrk, installed by apt-get first where it is missing and this user may.
 * Errors: BenchError that says how to install it.
 */
export function loadGenerator() {
  const found = wrkVersion();
  if (found !== undefined) return found;
  if (process.platform === "linux" && process.getuid?.() === 0) {
    console.error("bench: installing wrk by apt-get");
    install();
  }
  const installed = wrkVersion();
  if (installed !== undefined) return installed;
  throw new BenchError("install wrk: `apt-get install wrk` on Debian and Ubuntu, `brew install wrk` on macOS");
}

/**
 * Resolves to what one run of wrk saw: rate_s (acknowledged per second until the last good answer; 0 where
 * there was none), acknowledged, answers, failed, socket_errors, p50_us, p99_us (over all answers, as wrk
 * corrects them: a pause counts as often as a client that asks steadily would have met it), mean_us (not
 * corrected) and sample (of the first answer that was not good).
 *
 * urls: one per isolate, all of this machine; the connections spread evenly, and must be a multiple. load: method,
 * path, expect (a Lua pattern) and optionally content_type, status (of a good answer), keys and follow (see load.lua)
 * and authorization. body_file: what is sent, or undefined. Errors: BenchError where wrk fails, or requests stay
 * without an answer for half an hour. Cost: `seconds`, and the time of the last answers, which a slow machine may take
 * minutes for.
 */
export async function runLoad({ urls, load, body_file, connections, seconds }) {
  const seconds_max = seconds + HANG_SECONDS;
  // One thread of wrk asks for more than 100,000 answers/s, where workerd gives a fraction of that: more than
  // one are for more than one port.
  const threads = urls.length;
  const [url] = urls;
  const args = [
    ...["--threads", threads, "--connections", connections, "--duration", `${seconds_max}s`],
    ...["--timeout", `${seconds_max}s`, "--script", SCRIPT, url, "--", seconds],
    ...[
      load.method, load.path, body_file ?? "-", load.content_type ?? "-", load.expect, load.status ?? 200,
      load.keys ?? 0,
    ],
    ...(load.follow ? [load.follow.path, load.follow.body, load.follow.id, load.follow.counts] : []),
  ];
  const child = spawn("wrk", args.map(String), {
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      ...process.env, BENCH_PORTS: urls.map((each) => new URL(each).port).join(","),
      ...(load.authorization && { BENCH_AUTHORIZATION: load.authorization }),
    },
    timeout: seconds_max * 1000 + STOP_MS_MAX,
  });
  running.add(child);
  let output = "";
  let drained = false;
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => {
      output += chunk;
      if (drained || (output.match(/^DRAINED$/gm) ?? []).length < threads) return;
      drained = true;
      // wrk then ends as if its time were up.
      child.kill("SIGINT");
    });
  }
  const code = await new Promise((done) => {
    child.on("error", done);
    child.on("close", done);
  });
  running.delete(child);
  const result = output.match(/^RESULT (.*)$/m)?.[1];
  if (code !== 0 || result === undefined) throw new BenchError(`wrk ended with ${code}:\n${output}`);
  const sample = output.match(/^SAMPLE (.*)$/m)?.[1];
  if (!drained) {
    const more = sample === undefined ? "" : `; the first answer that was not good: ${sample}`;
    throw new BenchError(`${load.method} ${url}${load.path}: requests without an answer after ${HANG_SECONDS / 60} minutes${more}`);
  }
  const { duration_us, answers, ...seen } = JSON.parse(result);
  // Little's law: as many requests as connections were in flight all the time. wrk's own mean is of samples
  // that it has corrected, which showed 1.6 ms where one connection had 4,200 answers/s.
  const mean_us = (connections * duration_us) / answers;
  const rate_s = seen.acknowledged > 0 ? seen.acknowledged / (duration_us / 1e6) : 0;
  return { ...seen, answers, mean_us, rate_s, sample };
}
