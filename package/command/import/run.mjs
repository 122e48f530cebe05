// `tally import`: logs in, page views out, each line once. What is counted, sent again and noted is decided by
// crates/tally-import; here files are opened, bodies are sent, and turns are given.
//
// Invariant: at most IN_FLIGHT_MAX bodies wait for their answers, so memory is bounded however large a log is.
import { setTimeout as pause } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { EXIT, Failure } from "../outcome.mjs";
import { PACKAGE } from "../place.mjs";
import { hostOf } from "./files.mjs";
import { STDIN, appended, open, piped } from "./source.mjs";
import { call } from "./wasm.mjs";
import { Witness } from "./witness.mjs";

const IN_FLIGHT_MAX = 4;
// So many lines that are ahead stay in memory; with more of them no more is read.
const HELD_LINES_MAX = 100_000;
const LOOK_MS = 1_000;

/** Returns lines as a body: packed, where they go to another machine. */
export const bodyOf = (bytes, isLocal) => ({
  body: isLocal ? bytes.toString() : gzipSync(bytes, { level: 1 }),
  headers: { "content-type": "application/x-ndjson" },
});

export class Import {
  #turns = IN_FLIGHT_MAX;
  #waiting = [];
  #held = 0;
  #began_ms = performance.now();
  #host;
  #import;
  #open = new Map();
  #last = 0;
  #witness;
  #missing;

  /**
   * client: a Tally. options: `{ reader, format, base, target, again, isLocal, isNoted, note, now, sleep }`: `reader`
   * being how lines are counted (CountSettings of crates/tally-import), `isNoted(exit)` whether `note(text)` tells of a
   * bad file at once, `now()` a clock and `sleep(ms)` a pause. onProgress is called after each part.
   */
  constructor(client, options, onProgress = () => {}) {
    this.client = client;
    this.stop = new AbortController();
    const sleep = (ms) => pause(ms, undefined, { signal: this.stop.signal }).catch(() => {});
    this.options = { note: () => {}, isNoted: () => true, now: Date.now, sleep, ...options };
    this.onProgress = onProgress;
    this.source = { read: 0 };
    // Files that could not be read, or not to their end: `{ file, why, exit }`.
    this.failed = [];
    // Whether lines that earlier runs counted may be missing.
    this.isBehind = false;
    const { reader, format = "", again = false, base, target } = options;
    this.#host = hostOf(base, target, (number) => this.#open.get(number).handle.fd, this.options.note);
    this.#witness = new Witness(client, this.#host);
    const settings = { ...reader, format };
    this.#import = call("import", { options: { settings, again, version: PACKAGE.version } }).json;
  }

  #call(name, args, bytes) {
    return call(name, { import: this.#import, ...args }, bytes, this.#host);
  }

  /** How far it is, in numbers with separators, and since when: `{ lines, counters, rate, seconds }`. */
  progress() {
    return this.#call("progress", { seconds: (performance.now() - this.#began_ms) / 1000 }).json;
  }

  /** What was done so far: `{ json, bytes }`, bytes being a text for people. */
  end({ isInterrupted = false, files = 1, hasColors = false } = {}) {
    return this.#call("summary", { seconds: this.progress().seconds, isInterrupted, files, hasColors });
  }

  /** Imports a whole file, or standard input. What is wrong with it is kept in `failed`, and other files can go on. */
  file(name) {
    return this.#guard(name, (source, job) => this.#whole(source, job, { chunksFrom: source.chunks }));
  }

  /**
   * Imports a file as it grows, and what takes its place, until it is stopped. What was renamed is followed for a while
   * beside that, because the program that writes it opens the new one later.
   */
  async follow(name) {
    if (name === STDIN) return this.file(name);
    const [{ sleep, now }, { signal }] = [this.options, this.stop];
    const poll = () => sleep(LOOK_MS / 4);
    const jobs = new Set();
    let isNew = false;
    const one = (onReplaced) => async (source, job) => {
      if (!source.isPlain) {
        const what = source.kind ? `packed by ${source.kind}` : "no file";
        throw new Failure(EXIT.usage, `${name} is ${what}: only plain logs grow; leave --follow out`);
      }
      const chunksFrom = (start, before) => appended(source, start, { before, signal, sleep, now, onReplaced });
      if (await this.#whole(source, job, { chunksFrom, isNew, isFollowed: true })) isNew = true;
      else await poll();
    };
    const begin = (next, failed) => {
      const job = this.#guard(name, one(() => next((isNew = true))), poll);
      jobs.add(job);
      job.then((isGood) => (jobs.delete(job), next(isGood)), failed);
    };
    while (!signal.aborted && (await new Promise(begin)));
    await Promise.all(jobs);
  }

  // Works with a file. Resolves to whether nothing is wrong with it; `wait`: what is done until it is there, where it
  // is followed.
  async #guard(name, work, wait) {
    const number = (this.#last += 1);
    let source;
    try {
      this.source = source = await open(name);
      this.#open.set(number, source);
      const { handle, chunks, close, isPlain, read, ...about } = source;
      const job = this.#call("open", { source: { number, ...about }, isFollowed: wait !== undefined }).json;
      await work(source, job);
      return true;
    } catch (error) {
      if (!(error instanceof Failure)) {
        this.stop.abort();
        throw error;
      }
      if (wait !== undefined && error.exit === EXIT.notFound) return wait().then(() => true);
      this.failed.push({ file: name, why: error.message, exit: error.exit });
      this.#call("failed", { file: name, why: error.message });
      if (this.options.isNoted(error.exit)) this.options.note(error.message);
      return false;
    } finally {
      this.#open.delete(number);
      await source?.close();
    }
  }

  // Imports what was opened. Resolves to whether its first lines say what it is.
  async #whole(source, job, { chunksFrom, isNew = false }) {
    const ahead = source.path === undefined ? piped(source.chunks(), this.stop.signal) : source.chunks();
    let broken;
    let begun = null;
    let isWhole = false;
    try {
      for (let isOver = false; begun === null; ) {
        if (isOver) return false;
        const { done, value } = await ahead.next().catch((error) => ((broken = error), { done: true }));
        isOver = done;
        const isClosed = done && !this.stop.signal.aborted;
        if (value === undefined) this.#call("ends", { job, how: isClosed ? "closed" : "idle" });
        const isEnough = value === undefined || this.#call("look", { job }, value).json;
        if (isEnough) begun = this.#call("begin", { job, isNew }).json;
      }
      const isGone = !(await this.#isSameDeployment(begun.ids));
      if (!isGone) await this.#tellMissing(begun.ids.length > 0);
      const { json: { from }, bytes: before } = this.#call("start", { job, isGone });
      const chunks = source.isPlain ? chunksFrom(from, before) : ahead;
      const work = { job, source, broken };
      await this.#parts(work, chunks);
      if (work.body !== undefined) await this.#witness.take(work.body);
      isWhole = true;
    } catch (error) {
      // Of an archive of which nothing could be read its damage says more.
      throw broken ?? error;
    } finally {
      this.#call("close", { job, isWhole });
    }
    return true;
  }

  // A deployment whose data is gone has counted nothing of what the note says.
  async #isSameDeployment(ids) {
    for (const id of ids) {
      const isThere = this.client.get(id, { consistency: "strong" }).then(() => true, ({ status }) => status !== 404);
      if (await isThere) return true;
    }
    return ids.length === 0;
  }

  // Says once what the deployment has lost. Who wants files counted again knows of it. Counters that are deleted say
  // nothing to a file that was not imported before.
  async #tellMissing(isKnown) {
    if (this.options.again) return;
    const found = await (this.#missing ??= this.#witness.look());
    if (found === undefined || this.isBehind || (found.isDeleted && !isKnown)) return;
    this.isBehind = true;
    this.options.note(found.why);
  }

  // Counts what a note does not say is done. A chunk `undefined` says that no more comes soon.
  async #parts(work, chunks) {
    const { job, source } = work;
    const jobs = new Set();
    const isEnding = () => work.failure !== undefined || this.stop.signal.aborted;
    const drain = async () => {
      while (!isEnding()) {
        while (this.#held > HELD_LINES_MAX && !this.stop.signal.aborted) await this.options.sleep(LOOK_MS);
        await this.#take();
        let part = null;
        try {
          part = this.#call("next", { job }).json;
        } finally {
          if (part === null) this.#give();
        }
        if (part === null) return;
        const counting = this.#count(work, part).finally(() => this.#give());
        jobs.add(counting);
        counting.catch((error) => (work.failure ??= error)).finally(() => jobs.delete(counting));
      }
    };
    try {
      await drain();
      for await (const chunk of chunks) {
        if (chunk === undefined) this.#call("ends", { job, how: "idle" });
        else this.#call("push", { job }, chunk);
        await drain();
        if (isEnding()) break;
      }
    } catch (error) {
      // What could be read before that is counted all the same.
      work.broken ??= error;
    }
    try {
      // Whoever writes a file may not have ended its last line.
      if (!isEnding()) this.#call("ends", { job, how: work.broken || source.isPlain ? "unfinished" : "closed" });
      await drain();
    } finally {
      await Promise.allSettled(jobs);
    }
    if ((work.failure ?? work.broken) !== undefined) throw work.failure ?? work.broken;
  }

  // Counts a part.
  async #count(work, part) {
    const of = () => ({ job: work.job, part, nowMs: this.options.now() });
    for (;;) {
      const isStopping = this.stop.signal.aborted || work.failure !== undefined;
      const { json: step, bytes } = this.#call("step", { ...of(), isStopping });
      if (step === null) break;
      if (step.key === undefined) await this.#wait(step);
      else {
        const { report, isRepeat } = await this.#post(bytes, step.key);
        this.#call("answered", { ...of(), isRepeat }, Buffer.from(JSON.stringify(report)));
        if (!isRepeat) work.body = bytes;
      }
    }
    this.onProgress(this);
  }

  // So many may go on at once; others wait for their turn.
  async #take() {
    if (this.#turns > 0) this.#turns -= 1;
    else await new Promise((turn) => this.#waiting.push(turn));
  }

  #give() {
    (this.#waiting.shift() ?? (() => (this.#turns += 1)))();
  }

  // Others have the turn meanwhile.
  async #wait({ wait, held }) {
    this.#give();
    this.#held += held;
    await this.options.sleep(wait);
    this.#held -= held;
    await this.#take();
  }

  // Sends a body. A body of which nothing was counted is refused, by a problem that has the report.
  async #post(bytes, idempotencyKey) {
    const sent = { ...bodyOf(bytes, this.options.isLocal), query: { format: "ndjson" }, idempotencyKey, isWrite: true };
    try {
      const answer = await this.client.answer("POST", "/ingest", sent);
      return { report: await answer.json(), isRepeat: answer.headers.get("idempotency-replayed") === "true" };
    } catch (error) {
      if (error.problem?.rejected_lines === undefined) throw error;
      return { report: error.problem, isRepeat: false };
    }
  }
}
