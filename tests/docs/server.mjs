// Runs the commands of a page as a reader would: by bash, in a folder of its own, against a real server.
//
// Invariant: nothing that was started outlives `end()`, and nothing is written outside one temporary folder.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ROOT } from "./pages.mjs";
import { differences } from "./shape.mjs";

// As pages write it; each run has another one.
const ADDRESS = "127.0.0.1:8788";
const SERVE = /(^|\s)(?:make serve|(?:tally|npx edgetally) serve)\b/;
// A machine that is busy takes long; one that hangs is found out all the same.
const PATIENCE_MS = 120_000;
// A status on stderr for each answer of curl.
const CURLRC = 'silent\nshow-error\nwrite-out = "%{stderr}\\n@status %{http_code}\\n"\n';

// Fills a new folder with what commands of a page find: `desk`, where they run, `bin` and the settings of curl.
function furnish(folder) {
  const desk = join(folder, "desk");
  mkdirSync(desk);
  // What commands of a page read is there by the same names; what they write stays here.
  for (const name of readdirSync(ROOT)) if (!name.startsWith(".")) symlinkSync(join(ROOT, name), join(desk, name));
  writeFileSync(join(folder, ".curlrc"), CURLRC);
  // The command of the package, as its installation would put it on the PATH.
  mkdirSync(join(folder, "bin"));
  for (const [name, script] of Object.entries({ tally: '"$@"', npx: 'shift; "$@"' })) {
    const exec = script.replace('"$@"', `exec node "${join(ROOT, "package/command/tally.mjs")}" "$@"`);
    writeFileSync(join(folder, "bin", name), `#!/bin/sh\n${exec}\n`, { mode: 0o755 });
  }
}

function kill({ child }, signal) {
  try {
    process.kill(-child.pid, signal);
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}

// Waits until `done()` is true or the command has ended; resolves to its exit code, undefined while it runs.
async function until(job, done) {
  const late = performance.now() + PATIENCE_MS;
  let code;
  job.ended.then((ended) => (code = ended));
  while (code === undefined && !done()) {
    if (performance.now() > late) {
      kill(job, "SIGKILL");
      throw new Error(`no answer within ${PATIENCE_MS / 1000} s\n${job.stdout}${job.stderr}`);
    }
    await new Promise((next) => setTimeout(next, 10));
  }
  return code;
}

// Returns what differs between the statuses that curl was refused with and those that the block announces.
function refusals(block, stderr) {
  const refused = [...stderr.matchAll(/^@status ([45]\d\d)$/gm)].map(([, status]) => status);
  const announced = [...block.text.matchAll(/#.*?\b([45]\d\d)\b/g)].map(([, status]) => status);
  if (refused.join() === announced.join()) return [];
  return [`refused with ${refused.join(", ") || "nothing"}, the page says ${announced.join(", ") || "nothing"}`];
}

/** A place to run commands in. */
export class Workplace {
  #folder;
  #running = new Set();

  constructor() {
    if (!existsSync(join(ROOT, "build/index.js"))) throw new Error("build/index.js is missing: run make build first");
    this.#folder = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "tally-docs-"));
    furnish(this.#folder);
  }

  // Starts a script. Returns { child, stdout, stderr, ended }, the texts as far as they came.
  #bash(script, env) {
    // A group of its own, so that all it started can be ended.
    const child = spawn("bash", ["-c", script], {
      cwd: join(this.#folder, "desk"),
      env: {
        PATH: `${join(this.#folder, "bin")}:${join(ROOT, "node_modules/.bin")}:${process.env.PATH}`,
        TALLY_STATE: join(this.#folder, "state"),
        HOME: process.env.HOME,
        CURL_HOME: this.#folder,
        LANG: "C.UTF-8",
        ...env,
      },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    const job = { child, stdout: "", stderr: "", ended: once(child, "close").then(([code]) => code) };
    child.stdout.setEncoding("utf8").on("data", (text) => (job.stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text) => (job.stderr += text));
    this.#running.add(job);
    job.ended.then(() => this.#running.delete(job));
    return job;
  }

  /** Resolves to the address of the server that a command with `make serve` starts, and what it printed. */
  async server(command = "make serve") {
    const data = mkdtempSync(join(this.#folder, "data-"));
    // Any free port, whatever the page says: another server may have that one.
    const script = command.replace(/\bPORT=\d+ /, "").replace(SERVE, `$1node "${join(ROOT, "scripts/serve.mjs")}"`);
    const job = this.#bash(script, { PORT: "0", DATA: data });
    const ready = () => job.stdout.match(/http:\/\/(127\.0\.0\.1:\d+)/)?.[1];
    await until(job, ready);
    if (ready() === undefined) throw new Error(`the server did not start\n${job.stdout}${job.stderr}`);
    return {
      address: ready(),
      stdout: job.stdout.replaceAll(ready(), ADDRESS),
      end: async () => {
        kill(job, "SIGTERM");
        await job.ended;
      },
    };
  }

  /**
   * Runs a block against the server at `address`. Resolves to what is wrong, as sentences. `answer`: what is shown
   * after it.
   */
  async run(block, address, answer) {
    const job = this.#bash(`set -eu\n${block.text.replaceAll(ADDRESS, address)}`, { TALLY_URL: `http://${address}` });
    const isStream = block.directive === "until answered";
    const matches = () => answer !== undefined && differences(answer, job.stdout).length === 0;
    const code = await until(job, () => isStream && matches());
    kill(job, "SIGTERM");
    await job.ended;
    const output = job.stdout.replaceAll(address, ADDRESS);
    const wrong = [...(answer === undefined ? [] : differences(answer, output)), ...refusals(block, job.stderr)];
    if (!isStream && code !== 0) wrong.push(`it ended with ${code}`);
    return wrong.length === 0
      ? []
      : [...wrong, `stdout: ${output.slice(0, 4_000)}`, `stderr: ${job.stderr.slice(0, 2_000)}`];
  }

  async end() {
    const left = [...this.#running];
    for (const job of left) kill(job, "SIGTERM");
    await Promise.all(left.map(({ ended }) => ended));
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Returns whether a block starts a server, and whether it is one with settings of its own. */
export function startsServer({ text }) {
  if (!SERVE.test(text)) return undefined;
  return { isPlain: ["make serve", "npx edgetally serve"].includes(text.replace(/#.*$/gm, "").trim()) };
}
