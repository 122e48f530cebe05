// The native server: `tally-server` on this machine, in real time, over real sockets.
//
// Invariant: it offers what `Deployment` in native.mjs does, as far as a server can be asked from outside. Nothing
// reaches into it. An eviction is a restart: what is in memory is gone, what storage holds is not.
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { NativeServer } from "../server/program.mjs";

const CF_HEADER = "mf-cf-blob";
// What `serve` sets by itself, and a deployment does not.
const DEFAULTS = { TALLY_TABLETS: "", TALLY_LIMITERS: "8", TALLY_SUBREQUESTS: "10000" };
// Each thread is an edge: a request may reach either.
const THREADS = 2;
const ERROR = /^serve: error: (.*)$/gm;

const texts = (values) =>
  Object.fromEntries(
    Object.entries(values).filter(([, value]) => value !== undefined && value !== null)
      .map(([name, value]) => [name, String(value)]),
  );

async function bytesOf(body) {
  if (body === undefined || body === null) return undefined;
  return Buffer.from(typeof body === "string" ? body : await new Response(body).arrayBuffer());
}

function headersOf({ rawHeaders }) {
  const headers = new Headers();
  for (let at = 0; at < rawHeaders.length; at += 2) headers.append(rawHeaders[at], rawHeaders[at + 1]);
  return headers;
}

async function wholeOf(response) {
  const pieces = [];
  for await (const piece of response) pieces.push(piece);
  return Buffer.concat(pieces);
}

/** A deployment on the native server: see `openWorld` for its options. */
export class Served {
  #options;
  #folder;
  #isOwn;
  #server;
  #past = "";

  constructor(options) {
    this.#options = options;
    this.#isOwn = options.folder === undefined;
    this.#folder = options.folder ?? mkdtempSync(join(tmpdir(), "tally-served-"));
    this.#begin();
  }

  #begin() {
    const { vars, edgeVars, edges, lost } = this.#options;
    // A page reads on one connection what it has just written on another.
    const threads = expect.getState().testPath.includes("/browser/") ? 1 : THREADS;
    const options = [
      "--edges", String(Math.max(edges, 1)), "--cf-blob-header", CF_HEADER, "--threads", String(threads),
      ...(lost ? ["--accept-loss"] : []),
    ];
    // One environment has the settings of both Workers.
    const variables = { ...DEFAULTS, ...texts(vars), ...texts(edgeVars) };
    const data = join(this.#folder, "data");
    this.#server = new NativeServer({ folder: data, options, variables });
  }

  ready() {
    return this.#server.ready();
  }

  get errors() {
    return [...`${this.#past}${this.#server.errors}`.matchAll(ERROR)].map(([, text]) => text);
  }

  now() {
    return Date.now();
  }

  advance(milliseconds) {
    return new Promise((done) => setTimeout(done, milliseconds));
  }

  async #ask(url, { method = "GET", headers, body, colo, country, clientIp, edge = 0, signal }, agent) {
    const list = new Headers(headers);
    if (typeof body === "string" && !list.has("content-type")) list.set("content-type", "text/plain;charset=UTF-8");
    if (!list.has("user-agent")) list.set("user-agent", "node");
    if (!list.has("accept")) list.set("accept", "*/*");
    const facts = { ...(colo !== null && { colo }), country, clientIp };
    list.set(CF_HEADER, JSON.stringify(facts));
    const bytes = await bytesOf(body);
    const [named, door] = [new URL(url), new URL(this.#server.urls[edge])];
    if (!list.has("host")) list.set("host", named.host);
    if (bytes) list.set("content-length", String(bytes.length));
    return new Promise((done, failed) => {
      const options = {
        host: door.hostname, port: door.port, method, path: named.pathname + named.search,
        headers: Object.fromEntries(list), signal, agent,
      };
      const request = http.request(options, (response) => done({ request, response }));
      request.on("error", (error) => failed(new TypeError(`fetch failed: ${error.message}`)));
      request.end(bytes);
    });
  }

  async fetch(url, options) {
    const { response } = await this.#ask(url, options);
    return { status: response.statusCode, headers: headersOf(response), bytes: await wholeOf(response) };
  }

  /** Opens a stream of server-sent events: see `open` in native.mjs. A WebSocket is opened by `live-client.mjs`. */
  async listen(url, options, take) {
    const { request, response } = await this.#ask(url, options, false);
    const headers = [...headersOf(response)];
    const isLive = response.headers["content-type"]?.startsWith("text/event-stream") ?? false;
    const answer = { status: response.statusCode, headers, live: isLive };
    if (!isLive) return { ...answer, body: (await wholeOf(response)).toString("base64"), say: () => {} };
    response.setEncoding("utf8");
    response.on("data", (text) => take({ text, at_ms: Date.now() }));
    response.on("error", () => {});
    response.on("close", () => take({ closed: 1000, reason: "" }));
    const say = ({ hangs_up, pauses }) => {
      if (hangs_up) request.destroy();
      else if (pauses) response.pause();
      else response.resume();
    };
    return { ...answer, body: "", say };
  }

  /** Where the edge listens, for what only a socket can do. */
  url() {
    return new URL(this.#server.urls[0]);
  }

  /** The ids of all objects of a class that have written something. */
  objects(className) {
    const folder = join(this.#folder, "data/objects", `tally-${className.toLowerCase()}-v1`);
    const names = existsSync(folder) ? readdirSync(folder) : [];
    return names.filter((name) => name.endsWith(".sqlite"));
  }

  async evict() {
    await this.#server.end();
    this.#past += this.#server.errors;
    this.#begin();
    await this.ready();
  }

  async close() {
    await this.#server.end();
    if (this.#isOwn) rmSync(this.#folder, { recursive: true, force: true });
  }
}
