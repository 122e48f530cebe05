// The native server, in a form that can be killed: what server.mjs is for workerd.
import { CF_HEADER, send } from "./client.mjs";
import { until } from "./wait.mjs";
import { NativeServer } from "../server/program.mjs";

const READY_MS_MAX = 30_000;

// A limit of file sizes is an error that SQLite sees, not a signal that ends the server.
const SHELL = `trap '' XFSZ; exec "$@"`;

/** One data folder and the native server that lives on it, again and again: see `Server` in server.mjs. */
export class NativeCrash {
  #options;
  #server;
  #past = "";
  #urls = [];

  constructor({ folder, edges = 1, variables = {}, before = [] }) {
    this.#options = {
      folder, variables, options: ["--edges", String(edges), "--cf-blob-header", CF_HEADER],
      before: ["/bin/sh", "-c", SHELL, "sh", ...before],
    };
  }

  get urls() {
    return this.#urls;
  }

  get pid() {
    return this.#server.pid;
  }

  get log() {
    return this.#past + this.#server.errors;
  }

  get isGone() {
    return this.#server.isGone;
  }

  spawn() {
    if (this.#server) this.#past = this.log.slice(-4_000);
    this.#urls = [];
    const server = new NativeServer({ ...this.#options, variables: { TALLY_TABLETS: "", ...this.#options.variables } });
    this.#server = server;
    server.ready().then((urls) => (this.#urls = urls), () => {});
  }

  async start() {
    this.spawn();
    const isReady = async () => {
      if (this.isGone) throw new Error("the server ended before it was ready");
      const answers = this.urls.map((url) => send(url, "GET", "/healthz").catch(() => undefined));
      return answers.length > 0 && (await Promise.all(answers)).every((answer) => answer?.status === 200);
    };
    await until(isReady, "the server was not ready", READY_MS_MAX).catch((error) => {
      throw new Error(`${error.message}:\n${this.log}`);
    });
  }

  async kill() {
    if (this.isGone) throw new Error(`the server ended by itself:\n${this.log}`);
    const { signal } = await this.#server.end("SIGKILL");
    if (signal !== "SIGKILL") throw new Error(`the server ended by ${signal ?? "itself"}:\n${this.log}`);
  }

  async end() {
    if (this.#server !== undefined && !this.isGone) await this.#server.end();
  }
}
