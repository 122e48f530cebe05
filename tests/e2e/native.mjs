// The service in memory and in virtual time: deployments of the program `deployments` of the crate `simulation`.
//
// Invariant: nothing happens there between two lines, so time stands still while a test computes. A deployment runs
// while a test waits for something there, and only then.
import { execFileSync, spawn } from "node:child_process";
import { closeSync, existsSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CLASSES } from "./classes.mjs";

const PROGRAM = process.env.DEPLOYMENTS ?? fileURLToPath(new URL("../../target/debug/deployments", import.meta.url));
const PIECE_BYTES = 1 << 20;
// When each deployment begins: the same seed is the same run. A day before its end changes what a day counts.
const BEGINS_MS = Date.UTC(2026, 0, 15, 12);

/** The program, and a line to it and one from it in turn. Both are files that wait, so a turn takes some 20 µs. */
class Program {
  #input;
  #output;
  #piece = Buffer.alloc(PIECE_BYTES);

  constructor() {
    if (!existsSync(PROGRAM)) throw new Error(`${PROGRAM} is not there: cargo build -p tally-simulation --bin deployments makes it`);
    const folder = mkdtempSync(join(tmpdir(), "tally-native-"));
    const pipe = (name) => {
      const path = join(folder, name);
      execFileSync("mkfifo", [path]);
      // Opened for both it does not wait for the other end.
      const both = openSync(path, "r+");
      const ends = [openSync(path, "r"), openSync(path, "w")];
      closeSync(both);
      return ends;
    };
    const [[inside, input], [output, outside]] = [pipe("input"), pipe("output")];
    const child = spawn(PROGRAM, { stdio: [inside, outside, "inherit"] });
    closeSync(inside);
    closeSync(outside);
    rmSync(folder, { recursive: true });
    child.unref();
    this.#input = input;
    this.#output = output;
  }

  #write(bytes) {
    for (let sent = 0; sent < bytes.length; ) sent += writeSync(this.#input, bytes, sent);
  }

  /** A line, and the bodies of its requests. */
  exchange(line, bodies = []) {
    const payload = bodies.reduce((sum, { length }) => sum + length, 0);
    this.#write(Buffer.from(`${JSON.stringify({ ...line, payload })}\n`));
    for (const body of bodies) this.#write(body);
    const pieces = [];
    for (;;) {
      const length = readSync(this.#output, this.#piece);
      if (length === 0) throw new Error("the program that runs the service has ended: see what it said above");
      pieces.push(Buffer.from(this.#piece.subarray(0, length)));
      if (this.#piece[length - 1] === 10) return JSON.parse(Buffer.concat(pieces).toString());
    }
  }
}

let program;
const exchange = (line, bodies) => (program ??= new Program()).exchange(line, bodies);

// What stays where a folder was named: it is opened again with the folder.
const kept = new Map();

function forget() {
  for (const [folder, deployment] of kept) {
    if (existsSync(folder)) continue;
    kept.delete(folder);
    deployment.end();
  }
}

const KINDS = {
  ...Object.fromEntries(Object.entries(CLASSES).map(([binding, name]) => [binding, name.toLowerCase()])),
  TABLETS: "cell", AGGREGATOR: "aggregator", QUEUE: "queue",
};
const bindingOf = (className) => Object.keys(CLASSES).find((binding) => CLASSES[binding] === className);

// TABLETS=64 runs every spec with the leads in so many tablets.
const TABLETS = process.env.TABLETS ? { TALLY_TABLETS: process.env.TABLETS } : {};

function settingsOf({ vars, edgeVars }, before = {}) {
  const taken = Object.fromEntries(Object.keys({ ...before.edge, ...before.others }).map((name) => [name, null]));
  const set = (values) =>
    Object.fromEntries(
      Object.entries(values).map(([name, value]) => [
        name, value === undefined || value === null ? null : String(value),
      ]),
    );
  return {
    edge: { ...taken, ...set({ ...TABLETS, ...edgeVars }) }, others: { ...taken, ...set({ ...TABLETS, ...vars }) },
  };
}

async function bytesOf(body) {
  if (body === undefined || body === null) return undefined;
  return Buffer.from(typeof body === "string" ? body : await new Response(body).arrayBuffer());
}

/** A deployment: see `openWorld` for its options. */
export class Deployment {
  #number;
  #now_ms;
  #rule = () => undefined;
  #ids = 0;
  #commands = [];
  /** Those of the requests among the commands. */
  #bodies = [];
  #waiting = new Map();
  #streams = new Map();
  #isPumping = false;
  #folder;
  #settings;
  /** Errors that were logged, and how many of them before it was opened again. */
  #errors = [];
  #forgiven = 0;
  #isClosed = false;

  constructor(options) {
    const { folder, edges, faults, queue } = options;
    forget();
    const known = kept.get(folder);
    if (known) return known.#again(options);
    this.#folder = folder;
    this.#settings = settingsOf(options);
    this.#now_ms = BEGINS_MS;
    const consumer = queue && {
      batch: queue.maxBatchSize,
      wait_ms: (queue.maxBatchTimeout ?? 5) * 1000,
      retries: queue.maxRetries,
    };
    const request = {
      seed: Number(process.env.SEED ?? 1), begins_ms: this.#now_ms, edges: Math.max(edges, 1), folder, judged: faults,
      settings: this.#settings, queue: consumer,
    };
    this.#number = exchange({ open: request }).world;
    if (folder) kept.set(folder, this);
  }

  #again(options) {
    this.#settings = settingsOf(options, this.#settings);
    this.#rule = () => undefined;
    this.#forgiven = this.#errors.length;
    this.#ask({ restart: true, judged: options.faults, settings: this.#settings, later_ms: options.later_ms });
    return this;
  }

  ready() {}

  get errors() {
    if (!this.#isClosed) this.#errors = this.#ask({ errors: true }).errors;
    return this.#errors.slice(this.#forgiven);
  }

  fail(rule) {
    this.#rule = rule;
  }

  now() {
    return this.#now_ms;
  }

  async advance(milliseconds) {
    await this.#begin({ sleep: Math.ceil(milliseconds) });
  }

  /** Lets something end that others wait for; it needs no time. */
  #ask(command) {
    const id = ++this.#ids;
    const events = this.#take(exchange({ world: this.#number, do: [{ ...command, id }] }));
    return events.find((event) => event.id === id);
  }

  /** Begins something, and waits for its end. */
  #begin(command) {
    return this.#wait(++this.#ids, command);
  }

  #wait(id, command) {
    this.#commands.push({ ...command, id });
    const ended = new Promise((done, fail) => this.#waiting.set(id, { done, fail }));
    this.#pump();
    return ended;
  }

  /** Lets the deployment run until nobody waits for anything there. What a test does next is begun before. */
  #pump() {
    if (this.#isPumping) return;
    this.#isPumping = true;
    setImmediate(() => this.#turn());
  }

  #turn() {
    if (this.#isClosed || (this.#waiting.size === 0 && this.#commands.length === 0)) {
      this.#isPumping = false;
      return;
    }
    try {
      let events;
      do events = this.#take(exchange({ world: this.#number, do: this.#commands.splice(0) }, this.#bodies.splice(0)));
      while (this.#commands.length > 0 && events.length === 0);
      for (const event of events) {
        this.#waiting.get(event.id)?.done(event);
        this.#waiting.delete(event.id);
      }
    } catch (error) {
      // What somebody hears, or decides, may be wrong: whoever waits is told.
      for (const { fail } of this.#waiting.values()) fail(error);
      this.#waiting.clear();
    }
    setImmediate(() => this.#turn());
  }

  /** Takes a line: what has ended is returned, the rest is dealt with. */
  #take({ now, events, texts }) {
    this.#now_ms = now;
    for (const text of texts) this.#streams.get(text.id)?.(text);
    return events.filter((event) => {
      if (event.judges === undefined) return true;
      this.#judge(event);
      return false;
    });
  }

  #judge({ judges, binding, name, path }) {
    const verdict = this.#rule({ kind: KINDS[binding], name, path });
    const say = (verdict) => {
      this.#commands.push({ judged: judges, verdict: verdict ?? "" });
      this.#pump();
    };
    if (verdict instanceof Promise) verdict.then(say);
    else say(verdict);
  }

  async fetch(url, { method, headers, body, colo, country, clientIp, edge = 0, signal }) {
    const answer = await this.#fetch(url, { method, headers, body, colo, country, clientIp, edge, signal });
    return { status: answer.status, headers: new Headers(answer.headers), bytes: Buffer.from(answer.body, "base64") };
  }

  async #fetch(url, { method, headers, body, colo, country, clientIp, edge = 0, signal, take }) {
    const list = new Headers(headers);
    if (typeof body === "string" && !list.has("content-type")) list.set("content-type", "text/plain;charset=UTF-8");
    if (!list.has("user-agent")) list.set("user-agent", "node");
    if (!list.has("accept")) list.set("accept", "*/*");
    const bytes = await bytesOf(body);
    const fetch = {
      method, url: new URL(url).href, headers: [...list], length: bytes?.length, colo, country, address: clientIp, edge,
    };
    const id = ++this.#ids;
    if (take) this.#streams.set(id, take);
    if (bytes) this.#bodies.push(bytes);
    const ended = this.#wait(id, { fetch });
    signal?.addEventListener("abort", () => {
      this.#commands.push({ abort: id });
      this.#pump();
    });
    const answer = await ended;
    if (answer.failed !== undefined) throw new TypeError(`fetch failed: ${answer.failed}`);
    return answer;
  }

  /**
   * Opens a stream. Resolves with its answer; `take({ text, at_ms })` and `take({ closed, reason })` are called as it
   * goes, and `say` sends what the client does: `{ says }`, `{ pauses }`, `{ code, reason }`, `{ hangs_up }`.
   */
  async open(url, { method = "GET", headers, body, colo, clientIp, edge }, take) {
    const answer = await this.#fetch(url, { method, headers, body, colo, clientIp, edge, take });
    if (!answer.live) this.#streams.delete(answer.id);
    const say = (what) => {
      if (what.hangs_up) this.#streams.delete(answer.id);
      this.#commands.push({ stream: answer.id, ...what });
      this.#pump();
    };
    return { ...answer, say };
  }

  async objects(className) {
    return this.#ask({ objects: bindingOf(className) }).names;
  }

  async evict() {
    const { left } = await this.#begin({ evict: true });
    if (left > 0) throw new Error(`${left} objects stay busy and are not evicted`);
  }

  close({ silently = false } = {}) {
    this.#streams.clear();
    if (this.errors && this.#folder) this.#ask({ restart: true, silently });
    else this.end();
  }

  end() {
    exchange({ world: this.#number, do: [{ errors: true, id: 0 }], closes: true });
    this.#isClosed = true;
  }
}
