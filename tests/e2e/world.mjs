// Worlds: a whole deployment for a test. The service runs natively, in memory and in virtual time (native.mjs), as the
// native server (server.mjs), or both Workers run as they are deployed, under Miniflare (miniflare.mjs).
//
// Invariants: worlds share nothing; every answer a test asks for is checked against the API's
// description; a world in which an error is logged fails the test that closes it, unless faults
// were asked for.
import { expect } from "vitest";
import { Deployment } from "./native.mjs";
import { answerFaults } from "./openapi.mjs";

export { randomFrom } from "../crash/random.mjs";

/** Whether the leads of counters lie in tablets here: then no counter has an object of its own to look into. */
export const TABLETS = process.env.TABLETS !== undefined;

// The random part of the isolate, and a number.
const REQUEST_ID = /^[0-9a-f]{16}-[1-9][0-9]*$/;

/**
 * Scheme and host of all requests, which nothing resolves: an open deployment answers to this machine's names alone.
 */
export const ORIGIN = "http://localhost";
const DEADLINE_MS = 20_000;
const POLL_MS = 10;

/** Parses JSON so that whole numbers which a double would not hold become bigints. */
export function parseExact(text) {
  return JSON.parse(text, (_, value, { source } = {}) =>
    typeof value === "number" && /^-?\d+$/.test(source) && !Number.isSafeInteger(value) ? BigInt(source) : value,
  );
}

/** Worlds that are open. The time of a test is that of the newest. */
const open = [];

const now = () => open.at(-1)?.now() ?? Date.now();

/** Lets a time pass in all open worlds. */
async function pass(milliseconds) {
  if (open.length === 0) return new Promise((done) => setTimeout(done, milliseconds));
  return Promise.all(open.map((world) => world.advance(milliseconds)));
}

/** Waits until `condition` returns something true, and returns it; undefined where that takes too long. */
export async function eventually(condition, deadline_ms) {
  const end = now() + deadline_ms;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (now() > end) return undefined;
    await pass(POLL_MS);
  }
}

/** Waits until `condition` returns something true, and returns it. */
export async function until(condition, what = "the condition", deadline_ms = DEADLINE_MS) {
  const found = await eventually(condition, deadline_ms);
  if (found) return found;
  throw new Error(`${what} did not come true within ${deadline_ms} ms`);
}

/** Runs `work` for every item, `width` at a time, and returns what it returned, in order. */
export async function each(items, width, work) {
  const results = new Array(items.length);
  let next = 0;
  const run = async () => {
    while (next < items.length) {
      const index = next++;
      results[index] = await work(items[index], index);
    }
  };
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, run));
  return results;
}

class World {
  #host;
  #isForgiving;

  constructor(host, isForgiving) {
    this.#host = host;
    this.#isForgiving = isForgiving;
  }

  /** The platform. */
  get host() {
    return this.#host;
  }

  /** Errors that were logged. */
  get errors() {
    return this.#host.errors;
  }

  /** Now, in unix milliseconds, in this world. */
  now() {
    return this.#host.now();
  }

  /** Lets a time pass. */
  advance(milliseconds) {
    return this.#host.advance(milliseconds);
  }

  /**
   * In a world with faults: `rule({ kind, name, path })` returns what becomes of a call, see faulty.mjs, or nothing, or
   * a promise of it.
   */
  fail(rule) {
    this.#host.fail(rule);
  }

  /** Lets all calls through again. */
  mend() {
    this.fail(() => undefined);
  }

  /**
   * Sends a request; `colo: null` is a platform that names no datacenter, `country` what it says of the client's;
   * `clientIp` what plain workerd says of the connection; `origin`: by which name it is called; `signal`: a client that
   * hangs up. Checks the answer's form.
   */
  async call(method, path, { body, headers, colo = "FRA", country, clientIp, edge = 0, origin = ORIGIN, signal } = {}) {
    const request = { method, headers, body, colo, country, clientIp, edge, signal };
    const { status, headers: answerHeaders, bytes } = await this.#host.fetch(origin + path, request);
    const text = bytes.toString();
    const type = answerHeaders.get("content-type") ?? "";
    const json = type.includes("json") && !type.includes("ndjson") && text !== "" ? parseExact(text) : undefined;
    const answer = { status, headers: answerHeaders, bytes, text, json };
    expect(answerHeaders.get("request-id"), `${method} ${path}`).toMatch(REQUEST_ID);
    const route = path.split("?")[0];
    if (method !== "OPTIONS" && method !== "HEAD") {
      expect(answerFaults(method, route, status, type, json, text), `${method} ${path}\n${text}`).toEqual([]);
    }
    return answer;
  }

  /** As `call`, and the answer must be 200 or 201: returns its JSON. */
  async well(method, path, options) {
    const answer = await this.call(method, path, options);
    expect(answer.status, `${method} ${path}\n${answer.text}`).toBeOneOf([200, 201]);
    return answer.json;
  }

  /** As `call`, and the answer must be this refusal. */
  async refused(status, code, method, path, options) {
    const answer = await this.call(method, path, options);
    expect([answer.status, answer.json?.code], `${method} ${path}\n${answer.text}`).toEqual([status, code]);
    return answer;
  }

  add(id, body, options) {
    const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
    return this.well("POST", `/counters/${encodeURIComponent(id)}/increment`, { body: text, ...options });
  }

  subtract(id, body, options) {
    const text = body === undefined ? undefined : JSON.stringify(body);
    return this.well("POST", `/counters/${encodeURIComponent(id)}/decrement`, { body: text, ...options });
  }

  read(id, query = "", options) {
    return this.well("GET", `/counters/${encodeURIComponent(id)}${query}`, options);
  }

  strong(id, more = "", options) {
    return this.read(id, `?consistency=strong${more}`, options);
  }

  history(id, query, options) {
    return this.well("GET", `/counters/${encodeURIComponent(id)}/history?consistency=strong${query}`, options);
  }

  put(id, settings, options) {
    return this.well("PUT", `/counters/${encodeURIComponent(id)}`, { body: JSON.stringify(settings), ...options });
  }

  /** Sends a request to the Worker in front of an origin. */
  visit(path, { colo = "FRA", headers } = {}) {
    return this.#host.visit(ORIGIN + path, { colo, headers });
  }

  /** Where the edge listens, for what only a socket can do. */
  url() {
    return this.#host.url();
  }

  /** All objects of a class that were ever opened. */
  objects(className) {
    return this.#host.objects(className);
  }

  /** The queue's own producer, for what no edge would send. */
  producer() {
    return this.#host.producer();
  }

  /** Lets all objects go from memory: the next call finds what storage holds. */
  evict() {
    return this.#host.evict();
  }

  /** The value of a metric, by its name and labels as they are printed; NaN where it is not there. */
  async metric(name, options) {
    const { text } = await this.call("GET", "/metrics", options);
    const line = text.split("\n").find((one) => one.startsWith(`${name} `));
    return Number(line?.slice(name.length));
  }

  /** `silently`: no alarm that is set rings when the folder is opened again; in memory alone. */
  async close(options) {
    open.splice(open.indexOf(this), 1);
    await this.#host.close(options);
    if (!this.#isForgiving) expect(this.errors, "errors that were logged").toEqual([]);
  }
}

/**
 * Opens a world. `platform`: "miniflare" where only the platform itself can show it; a project of vitest.config.mjs
 * says which. `vars`: variables (the edge's `TALLY_ACCESS` is "open" unless set to undefined). `edgeVars`: those of the
 * edge alone. `folder`: where objects are kept, in memory without. `edges`: how many edge isolates. `later_ms`: how
 * long nothing ran, where the folder was used before. `faults`: whether `fail` works. `logs`: whether errors may be
 * logged. `queue`: the consumer's settings, where a queue is bound; without, none is. `front`: a Worker in front of an
 * origin, under Miniflare: its `file`, its `vars`, and the `origin`, a function from a request to a response. `bucket`:
 * whether a bucket for snapshots is bound, `within`: whether the platform has jurisdictions, `oneWorker`: whether one
 * Worker has both roles, all under Miniflare.
 */
export async function openWorld({
  platform = process.env.PLATFORM ?? "native", vars = {}, edgeVars = {}, folder, edges = 1, faults = false, queue,
  front, bucket = false, later_ms = 0, logs = faults, lost = false, within = false, oneWorker,
} = {}) {
  const options = {
    vars, edgeVars: { TALLY_ACCESS: "open", ...vars, ...edgeVars }, folder, edges, faults, queue, front, bucket,
    later_ms, lost, within, oneWorker,
  };
  const hosts = {
    native: async () => Deployment,
    server: async () => (await import("./server.mjs")).Served,
    miniflare: async () => (await import("./platform/miniflare.mjs")).Workers,
  };
  const host = new (await hosts[platform]())(options);
  await host.ready();
  const world = new World(host, logs);
  open.push(world);
  return world;
}
