// Worlds: both Workers as they are deployed, from the built module, under Miniflare.
//
// Invariants: worlds share nothing; every answer a test asks for is checked against the API's
// description; a Worker that logs an error fails the test that closes its world, unless faults
// were asked for.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import miniflare from "miniflare";
import { expect } from "vitest";
import { answerFaults } from "./openapi.mjs";

const { Miniflare } = miniflare;
const HERE = new URL(".", import.meta.url);
const BUILD = new URL(`${process.env.BUILD_DIR ?? "../../build"}/`, HERE);
const ROOT = new URL("../../", HERE);

export { randomFrom } from "../crash/random.mjs";

/** Scheme and host of all requests, which nothing resolves: an open deployment answers to this machine's names alone. */
export const ORIGIN = "http://localhost";
export const EDGE = "tally-edge";
export const AGGREGATOR = "tally-aggregator";
export const CLASSES = {
  CELLS: "Cell",
  DIRECTORY: "Directory",
  INBOXES: "Inbox",
  LIMITERS: "Limiter",
  WATCHERS: "Watcher",
};
const FRONT = "front";
const QUEUE = "tally-events";
const DEADLINE_MS = 20_000;
const POLL_MS = 10;

const compatibilityDate = readFileSync(new URL("wrangler.toml", ROOT), "utf8").match(
  /^compatibility_date = "([\d-]+)"/m,
)[1];
const module = {
  "index.js": { type: "esm", contents: readFileSync(new URL("index.js", BUILD), "utf8") },
  "index_bg.wasm": { type: "wasm", contents: readFileSync(new URL("index_bg.wasm", BUILD)) },
};
const faulty = {
  "faulty.mjs": { type: "esm", contents: readFileSync(new URL("faulty.mjs", HERE), "utf8") },
  ...module,
};

const texts = (values) =>
  Object.fromEntries(
    Object.entries(values)
      .filter(([, value]) => value !== undefined)
      // Plain workerd gives `null` for what its environment lacks.
      .map(([name, value]) => [name, { type: value === null ? "json" : "text", value }]),
  );
const objects = Object.fromEntries(
  Object.entries(CLASSES).map(([name, exportName]) => [name, { type: "durable-object", worker: AGGREGATOR, exportName }]),
);

function worker(name, mainModule, modules, env, exports = {}, triggers = []) {
  const manifest = { mainModule, modulesRoot: fileURLToPath(BUILD), modules };
  return { config: { name, compatibilityDate, manifest, env, exports, triggers }, dev: { rootPath: fileURLToPath(ROOT) } };
}

// A Worker in front of an origin, bound to the edge as TALLY.
function inFront({ file, vars, origin }) {
  const code = { "worker.mjs": { type: "esm", contents: readFileSync(new URL(file, ROOT), "utf8") } };
  const env = { ...texts(vars), TALLY: { type: "worker", worker: EDGE } };
  const made = worker(FRONT, "worker.mjs", code, env);
  const handler = async (request) => origin(request, miniflare.Response);
  return { ...made, dev: { ...made.dev, outboundService: { type: "fetcher", handler } } };
}

/** Parses JSON so that whole numbers which a double would not hold become bigints. */
export function parseExact(text) {
  return JSON.parse(text, (_, value, { source } = {}) =>
    typeof value === "number" && /^-?\d+$/.test(source) && !Number.isSafeInteger(value) ? BigInt(source) : value,
  );
}

/** Waits until `condition` returns something true, and returns it; undefined where that takes too long. */
export async function eventually(condition, deadline_ms) {
  const end = performance.now() + deadline_ms;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (performance.now() > end) return undefined;
    await new Promise((done) => setTimeout(done, POLL_MS));
  }
}

/** Waits until `condition` returns something true, and returns it. */
export async function until(condition, what = "the condition", deadline_ms = DEADLINE_MS) {
  const found = await eventually(condition, deadline_ms);
  if (found) return found;
  throw new Error(`${what} did not come true within ${deadline_ms} ms`);
}

/** What `look` returns of databases that are in use, or undefined where one is being written just then. */
export function unlessWritten(look) {
  try {
    return look();
  } catch (error) {
    if (error.code === "ERR_SQLITE_ERROR") return undefined;
    throw error;
  }
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
  #miniflare;
  #rule;
  #reports;

  constructor({ vars, edgeVars, folder, edges, faults, queue, front }) {
    this.errors = [];
    this.#rule = () => undefined;
    const main = faults ? "faulty.mjs" : "index.js";
    const modules = faults ? faulty : module;
    const handler = async (request) => {
      const asked = await request.json();
      return new miniflare.Response((await this.#rule(asked)) ?? "");
    };
    const edgeEnv = {
      ...texts({ TALLY_ROLE: "edge", TALLY_ACCESS: "open", ...vars, ...edgeVars }),
      ...objects,
      AGGREGATOR: { type: "worker", worker: AGGREGATOR },
      ...(queue ? { TALLY_QUEUE: { type: "queue", name: QUEUE } } : {}),
    };
    const triggers = queue ? [{ type: "queue", name: QUEUE, ...queue }] : [];
    const aggregatorEnv = {
      ...texts({ ...vars, TALLY_ROLE: "aggregator" }),
      ...objects,
      ...(faults ? { FAULTS: { type: "fetcher", handler } } : {}),
    };
    const classes = Object.fromEntries(
      Object.values(CLASSES).map((name) => [name, { type: "durable-object", storage: "sqlite" }]),
    );
    this.#reports = !faults;
    this.#miniflare = new Miniflare({
      workers: [
        ...Array.from({ length: edges }, (_, index) =>
          worker(index === 0 ? EDGE : `${EDGE}-${index + 1}`, "index.js", module, edgeEnv),
        ),
        worker(AGGREGATOR, main, modules, aggregatorEnv, classes, triggers),
        ...(front ? [inFront(front)] : []),
      ],
      // What `request.cf` holds where a request says nothing: no datacenter.
      cf: {},
      enableDevRegistry: false,
      logRequests: false,
      telemetry: { enabled: false },
      resourcePersistencePath: folder,
      handleStructuredLogs: ({ level, message }) => {
        if (level === "error") this.errors.push(message);
      },
      handleUncaughtError: (error) => this.errors.push(String(error)),
    });
  }

  ready() {
    return this.#miniflare.ready;
  }

  /** In a world with faults: `rule({ kind, name, path })` returns "before", "after", "hang", "cut", "over" or nothing. */
  fail(rule) {
    this.#rule = rule;
  }

  /**
   * Sends a request; `colo: null` is a platform that names no datacenter, `clientIp` what plain workerd says of the
   * connection; `origin`: by which name it is called. Checks the answer's form.
   */
  async call(method, path, { body, headers, colo = "FRA", clientIp, edge = 0, origin = ORIGIN } = {}) {
    const init = { method, headers };
    if (colo !== null) init.cf = clientIp === undefined ? { colo } : { colo, clientIp };
    if (body !== undefined) init.body = body;
    if (body instanceof ReadableStream) init.duplex = "half";
    const url = origin + path;
    const response =
      edge === 0
        ? await this.#miniflare.dispatchFetch(url, init)
        : await (await this.#miniflare.getWorker(`${EDGE}-${edge + 1}`)).fetch(url, init);
    const bytes = Buffer.from(await response.arrayBuffer());
    const text = bytes.toString();
    const type = response.headers.get("content-type") ?? "";
    const json = type.includes("json") && text !== "" ? parseExact(text) : undefined;
    const answer = { status: response.status, headers: response.headers, bytes, text, json };
    const route = path.split("?")[0];
    if (method !== "OPTIONS" && method !== "HEAD") {
      expect(answerFaults(method, route, response.status, type, json, text), `${method} ${path}\n${text}`).toEqual([]);
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
  async visit(path, { colo = "FRA", headers } = {}) {
    const front = await this.#miniflare.getWorker(FRONT);
    const response = await front.fetch(ORIGIN + path, { headers, cf: { colo } });
    return { status: response.status, headers: response.headers, text: await response.text() };
  }

  /** Where the edge listens, for what only a socket can do. */
  url() {
    return this.#miniflare.ready;
  }

  /** The ids of all objects of a class that were ever opened. */
  objects(className) {
    return this.#miniflare.listDurableObjectIds(className, AGGREGATOR);
  }

  /** The queue's own producer, for what no edge would send. */
  producer() {
    return this.#miniflare.getQueueProducer("TALLY_QUEUE", EDGE);
  }

  /** Lets all objects go from memory: the next call finds what storage holds. */
  async evict() {
    for (const className of Object.values(CLASSES)) {
      for (const id of await this.objects(className)) await this.#evict(className, id);
    }
  }

  /** The value of a metric, by its name and labels as they are printed; NaN where it is not there. */
  async metric(name, options) {
    const { text } = await this.call("GET", "/metrics", options);
    const line = text.split("\n").find((one) => one.startsWith(`${name} `));
    return Number(line?.slice(name.length));
  }

  /** Lets one object go. One that is busy, as with the attempts of an inbox, is asked again: workerd waits a moment each time for its calls to end. */
  async #evict(className, id, attempts = 30) {
    try {
      await this.#miniflare.unsafeEvictDurableObject(AGGREGATOR, className, { id });
    } catch (error) {
      if (/not currently running/.test(error.message)) return;
      if (!/active references/.test(error.message) || attempts === 1) throw error;
      await this.#evict(className, id, attempts - 1);
    }
  }

  async close() {
    await this.#miniflare.dispose();
    if (this.#reports) expect(this.errors, "errors that the Workers logged").toEqual([]);
  }
}

/**
 * Opens a world. `vars`: variables (the edge's `TALLY_ACCESS` is "open" unless set to undefined). `edgeVars`: those of the edge alone.
 * `folder`: where objects are kept, in memory without. `edges`: how many edge isolates.
 * `faults`: whether `fail` works. `queue`: the consumer's settings, where a queue is bound; without, none is.
 * `front`: a Worker in front of an origin: its `file`, its `vars`, and the `origin`, a function from a request to a response.
 */
export async function openWorld({ vars = {}, edgeVars = {}, folder, edges = 1, faults = false, queue, front } = {}) {
  const world = new World({ vars, edgeVars, folder, edges, faults, queue, front });
  await world.ready();
  return world;
}
