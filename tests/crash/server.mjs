// The release build on plain workerd as `make serve` runs it, in a form that can be killed.
//
// Invariants: the process that is started becomes workerd (every program before it is replaced by `exec`), so
// its pid is workerd's own and a signal to it reaches nothing else; and workerd never outlives this process.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import workerd from "workerd";
import { workerVariables } from "../../scripts/serve-settings.mjs";
import { networksOf, workerdConfig } from "../../scripts/workerd-config.mjs";
import { CF_HEADER, send } from "./client.mjs";
import { NativeCrash } from "./native.mjs";
import { until } from "./wait.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** The folder of the build at hand. */
export const BUILD = resolve(ROOT, process.env.BUILD_DIR ?? "build");
const WORKERD = workerd.default ?? workerd;
const READY_MS_MAX = 30_000;
const END_MS_MAX = 5_000;
// Enough for the last messages.
const LOG_CHARACTERS_MAX = 4_000;

const running = new Set();
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));

// A limit of file sizes is an error that SQLite sees, not a signal that ends workerd. Open files and the end
// with this process are as in scripts/serve.mjs.
const SHELL = `trap '' XFSZ
ulimit -n "$(ulimit -Hn)"
if command -v setpriv >/dev/null; then set -- setpriv --pdeathsig KILL "$@"; fi
exec "$@"`;

/** One data folder and the workerd that lives on it, again and again. */
export class Server {
  #config;
  #variables;
  #edges;
  #before;
  #child;
  #exited;
  #log = "";

  /**
   * folder: of the data, made here. edges: isolates. variables: TALLY_ ones. before: a command that execs workerd.
   * build: folder of the build that is served.
   */
  constructor({ folder, edges = 1, variables = {}, before = [], build = BUILD }) {
    this.#edges = edges;
    this.#variables = workerVariables(variables, true);
    this.#before = before;
    this.#config = join(folder, "workerd.capnp");
    this.urls = [];
    mkdirSync(join(folder, "objects"), { recursive: true });
    mkdirSync(join(folder, "snapshots"), { recursive: true });
    writeFileSync(
      this.#config,
      workerdConfig({
        addresses: Array.from({ length: edges }, () => "127.0.0.1:0"),
        build,
        objects: join(folder, "objects"),
        snapshots: join(folder, "snapshots"),
        compatibilityDate: readFileSync(join(ROOT, "wrangler.jsonc"), "utf8").match(
          /"compatibility_date": "([\d-]+)"/,
        )[1],
        environment: Object.keys(this.#variables).sort(),
        networks: networksOf(this.#variables.TALLY_ALERTS_ALLOW),
        cfBlobHeader: CF_HEADER,
      }),
    );
  }

  get pid() {
    return this.#child.pid;
  }

  /** The last messages of all its lives. */
  get log() {
    return this.#log;
  }

  /** Whether workerd ended without being told to. */
  get isGone() {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Starts workerd, and resolves at once: it is not ready then. */
  spawn() {
    const command = [...this.#before, WORKERD, "serve", "--import-path", "/", "--control-fd=3", this.#config];
    const child = spawn("/bin/sh", ["-c", SHELL, "sh", ...command], {
      stdio: ["ignore", "pipe", "pipe", "pipe"],
      env: { PATH: process.env.PATH, ...this.#variables },
    });
    running.add(child);
    this.#child = child;
    this.#exited = once(child, "close").finally(() => running.delete(child));
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk) => {
        this.#log = `${this.#log}${chunk}`.slice(-LOG_CHARACTERS_MAX);
      });
    }
    let output = "";
    this.urls = [];
    child.stdio[3].on("data", (chunk) => {
      output += chunk;
      const ports = [...output.matchAll(/"event":"listen","socket":"http[^"]*","port":(\d+)/g)];
      if (ports.length === this.#edges) this.urls = ports.map(([, port]) => `http://127.0.0.1:${port}`);
    });
  }

  /** Starts workerd, and resolves once every edge is well. Errors: it ends, or is not ready after 30 s. */
  async start() {
    this.spawn();
    const isReady = async () => {
      if (this.isGone) throw new Error("workerd ended before it was ready");
      const answers = this.urls.map((url) => send(url, "GET", "/healthz").catch(() => undefined));
      return answers.length > 0 && (await Promise.all(answers)).every((answer) => answer?.status === 200);
    };
    await until(isReady, "workerd was not ready", READY_MS_MAX).catch((error) => {
      throw new Error(`${error.message}:\n${this.#log}`);
    });
  }

  /** Kills workerd: no handler of it runs, no file is closed in order. Resolves once it is gone. */
  async kill() {
    if (this.isGone) throw new Error(`workerd ended by itself:\n${this.#log}`);
    this.#child.kill("SIGKILL");
    const [, signal] = await this.#exited;
    if (signal !== "SIGKILL") throw new Error(`workerd ended by ${signal ?? "itself"} and not by SIGKILL:\n${this.#log}`);
  }

  /** Ends workerd in order. */
  async end() {
    if (this.#child === undefined) return;
    this.#child.kill("SIGTERM");
    const late = setTimeout(() => this.#child.kill("SIGKILL"), END_MS_MAX);
    await this.#exited;
    clearTimeout(late);
  }
}

/** A server that can be killed: the native one where NATIVE is set, and else the release build on workerd. */
export const serverOf = (options) => (process.env.NATIVE ? new NativeCrash(options) : new Server(options));
