// The platform itself: both Workers as they are deployed, from the built module, under Miniflare.
//
// Invariant: it offers what `Deployment` in native.mjs does, and what only a real socket, queue or Worker in front can
// show.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import miniflare from "miniflare";
import { CLASSES } from "../classes.mjs";

const { Miniflare } = miniflare;
const HERE = new URL(".", import.meta.url);
const BUILD = new URL(`${process.env.BUILD_DIR ?? "../../../build"}/`, HERE);
const ROOT = new URL("../../../", HERE);

export const EDGE = "tally-edge";
export const AGGREGATOR = "tally-aggregator";
const FRONT = "front";
const QUEUE = "tally-events";
const BUCKET = "TALLY_SNAPSHOTS_BUCKET";
const ONE_WORKER = process.env.ONE_WORKER !== undefined;

const compatibilityDate = readFileSync(new URL("wrangler.jsonc", ROOT), "utf8").match(
  /"compatibility_date": "([\d-]+)"/,
)[1];
const module = {
  "index.js": { type: "esm", contents: readFileSync(new URL("index.js", BUILD), "utf8") },
  "index_bg.wasm": { type: "wasm", contents: readFileSync(new URL("index_bg.wasm", BUILD)) },
};
const faulty = {
  "faulty.mjs": { type: "esm", contents: readFileSync(new URL("faulty.mjs", HERE), "utf8") },
  ...module,
};

const jurisdictions = {
  "within.mjs": { type: "esm", contents: readFileSync(new URL("within.mjs", HERE), "utf8") },
};

const texts = (values) =>
  Object.fromEntries(
    Object.entries(values)
      .filter(([, value]) => value !== undefined)
      // Plain workerd gives `null` for what its environment lacks.
      .map(([name, value]) => [name, { type: value === null ? "json" : "text", value }]),
  );
const objectsOf = (worker) =>
  Object.fromEntries(
    Object.entries(CLASSES).map(([name, exportName]) => [name, { type: "durable-object", worker, exportName }]),
  );

function worker(name, mainModule, modules, env, exports = {}, triggers = []) {
  const manifest = { mainModule, modulesRoot: fileURLToPath(BUILD), modules };
  return {
    config: { name, compatibilityDate, manifest, env, exports, triggers }, dev: { rootPath: fileURLToPath(ROOT) },
  };
}

// A Worker in front of an origin, bound to the edge as TALLY: `binding` has more of that, such as an entrypoint.
// `date`: its own compatibility date.
function inFront({ file, vars = {}, origin, binding, date }) {
  const code = { "worker.mjs": { type: "esm", contents: readFileSync(new URL(file, ROOT), "utf8") } };
  const env = { ...texts(vars), TALLY: { type: "worker", worker: EDGE, ...binding } };
  const made = worker(FRONT, "worker.mjs", code, env);
  if (date !== undefined) made.config.compatibilityDate = date;
  const handler = async (request) => origin(request, miniflare.Response);
  return { ...made, dev: { ...made.dev, outboundService: { type: "fetcher", handler } } };
}

/** A deployment under Miniflare: see `openWorld` for its options. */
export class Workers {
  #miniflare;
  #rule = () => undefined;
  #later_ms;
  // The Worker that defines the objects.
  #owner;
  errors = [];

  /** oneWorker: one Worker has both roles, and its edge binds its own aggregator. */
  constructor({
    vars, edgeVars, folder, edges, faults, queue, front, bucket, later_ms, within, oneWorker = ONE_WORKER,
  }) {
    this.#later_ms = later_ms;
    this.#owner = oneWorker ? EDGE : AGGREGATOR;
    const objects = objectsOf(this.#owner);
    const inEdge = within ? "within.mjs" : "index.js";
    const main = faults ? "faulty.mjs" : inEdge;
    const modules = faults ? faulty : { ...module, ...jurisdictions };
    const handler = async (request) => {
      const call = await request.json();
      return new miniflare.Response((await this.#rule(call)) ?? "");
    };
    const edgeEnv = {
      ...texts({ TALLY_ROLE: "edge", ...edgeVars }),
      ...objects,
      AGGREGATOR: { type: "worker", worker: this.#owner, ...(oneWorker ? { exportName: "Aggregator" } : {}) },
      ...(queue ? { TALLY_QUEUE: { type: "queue", name: QUEUE } } : {}),
    };
    const triggers = queue ? [{ type: "queue", name: QUEUE, ...queue }] : [];
    const aggregatorEnv = {
      ...texts({ ...vars, TALLY_ROLE: "aggregator" }),
      ...objects,
      ...(faults ? { FAULTS: { type: "fetcher", handler } } : {}),
      ...(bucket ? { [BUCKET]: { type: "r2", name: "tally-snapshots" } } : {}),
    };
    const classes = Object.fromEntries(
      Object.values(CLASSES).map((name) => [name, { type: "durable-object", storage: "sqlite" }]),
    );
    const code = { ...module, ...jurisdictions };
    const edgeOf = (index) => worker(index === 0 ? EDGE : `${EDGE}-${index + 1}`, inEdge, code, edgeEnv);
    const both = [
      worker(EDGE, main, modules, { ...aggregatorEnv, ...edgeEnv }, classes, triggers),
      ...Array.from({ length: edges - 1 }, (_, index) => edgeOf(index + 1)),
    ];
    const apart = [
      ...Array.from({ length: edges }, (_, index) => edgeOf(index)),
      worker(AGGREGATOR, main, modules, aggregatorEnv, classes, triggers),
    ];
    this.#miniflare = new Miniflare({
      workers: [...(oneWorker ? both : apart), ...(front ? [inFront(front)] : [])],
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
    return this.advance(this.#later_ms).then(() => this.#miniflare.ready);
  }

  fail(rule) {
    this.#rule = rule;
  }

  now() {
    return Date.now();
  }

  advance(milliseconds) {
    return new Promise((done) => setTimeout(done, milliseconds));
  }

  async fetch(url, { method, headers, body, colo, country, clientIp, edge }) {
    const init = { method, headers };
    if (colo !== null) {
      init.cf = { colo, ...(country !== undefined && { country }), ...(clientIp !== undefined && { clientIp }) };
    }
    if (body !== undefined) init.body = body;
    if (body instanceof ReadableStream) init.duplex = "half";
    const response =
      edge === 0
        ? await this.#miniflare.dispatchFetch(url, init)
        : await (await this.#miniflare.getWorker(`${EDGE}-${edge + 1}`)).fetch(url, init);
    return { status: response.status, headers: response.headers, bytes: Buffer.from(await response.arrayBuffer()) };
  }

  /** Sends a request to the Worker in front of an origin. */
  async visit(url, { colo, headers }) {
    const front = await this.#miniflare.getWorker(FRONT);
    const response = await front.fetch(url, { headers, cf: { colo } });
    return { status: response.status, headers: response.headers, text: await response.text() };
  }

  /** Where the edge listens, for what only a socket can do. */
  url() {
    return this.#miniflare.ready;
  }

  objects(className) {
    return this.#miniflare.listDurableObjectIds(className, this.#owner);
  }

  /** The queue's own producer, for what no edge would send. */
  producer() {
    return this.#miniflare.getQueueProducer("TALLY_QUEUE", EDGE);
  }

  /** The bucket of snapshots, where one is bound. */
  bucket() {
    return this.#miniflare.getR2Bucket(BUCKET, this.#owner);
  }

  async evict() {
    for (const className of Object.values(CLASSES)) {
      for (const id of await this.objects(className)) await this.#evict(className, id);
    }
  }

  /**
   * Lets one object go. One that is busy, as with the attempts of an inbox, is asked again: workerd waits a moment each
   * time for its calls to end.
   */
  async #evict(className, id, attempts = 30) {
    try {
      await this.#miniflare.unsafeEvictDurableObject(this.#owner, className, { id });
    } catch (error) {
      if (/not currently running/.test(error.message)) return;
      if (!/active references/.test(error.message) || attempts === 1) throw error;
      await this.#evict(className, id, attempts - 1);
    }
  }

  close() {
    return this.#miniflare.dispose();
  }
}
