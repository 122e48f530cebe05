// The native server, as tests run it: `cargo build -p tally-server` makes it.
//
// Invariant: a server that a test has begun never outlives the test's process.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
export const PROGRAM = process.env.TALLY_SERVER ?? `${ROOT}target/debug/tally-server`;
const READY_MS_MAX = 20_000;
const END_MS_MAX = 8_000;

const running = new Set();

/** Kills what still runs, as after a test that failed. */
export const killAll = () => running.forEach((child) => child.kill("SIGKILL"));
process.on("exit", killAll);

/** A server on a data folder, from its start to its end. */
export class NativeServer {
  #child;
  #ended;
  output = "";
  errors = "";
  urls = [];

  /**
   * folder: of the data. port: 0 for a free one. options: of the program. variables: TALLY_ ones. before: a command
   * that executes the program.
   */
  constructor({ folder, port = 0, options = [], variables = {}, before = [] }) {
    if (!existsSync(PROGRAM)) throw new Error(`${PROGRAM} is missing: cargo build -p tally-server makes it`);
    const [program, ...more] = [...before, PROGRAM, "--port", `${port}`, "--data", folder, ...options];
    const env = { PATH: process.env.PATH, ...variables };
    this.#child = spawn(program, more, { stdio: ["ignore", "pipe", "pipe"], env });
    running.add(this.#child);
    this.#ended = once(this.#child, "close").finally(() => running.delete(this.#child));
    this.#child.stdout.on("data", (text) => (this.output += text));
    this.#child.stderr.on("data", (text) => (this.errors += text));
  }

  get pid() {
    return this.#child.pid;
  }

  get isGone() {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Resolves to its addresses once it is ready. Rejects where it ends before. */
  async ready() {
    const until = performance.now() + READY_MS_MAX;
    for (;;) {
      const [line] = this.output.match(/^Tally is ready on .*$/m) ?? [];
      if (line !== undefined) return (this.urls = line.slice("Tally is ready on ".length).split(", "));
      if (this.isGone) throw new Error(`the server ended before it was ready:\n${this.errors}`);
      if (performance.now() > until) throw new Error(`the server is not ready:\n${this.errors}`);
      await new Promise((done) => setTimeout(done, 2));
    }
  }

  /** Where it speaks Redis's protocol, once it is ready. */
  get respUrl() {
    return this.output.match(/^Redis's clients connect to (\S+)$/m)?.[1];
  }

  kill(signal) {
    this.#child.kill(signal);
  }

  /** Resolves to { code, signal } once it has ended. */
  async ended() {
    const [code, signal] = await this.#ended;
    return { code, signal };
  }

  /** Sends a signal, and resolves to how it ended; one that does not end is killed. */
  async end(signal = "SIGTERM") {
    this.#child.kill(signal);
    const late = setTimeout(() => this.#child.kill("SIGKILL"), END_MS_MAX);
    const how = await this.ended();
    clearTimeout(late);
    return how;
  }
}
