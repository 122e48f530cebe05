// `tally import`: logs in, page views out, each line once.
//
// Life of a line: chunk → part → left out, or a line of a body → noted → /ingest, under the key of its part → noted as
// counted. Invariant: at most IN_FLIGHT_MAX bodies wait for their answers, so memory is bounded however large a log is.
import { setTimeout as pause } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { EXIT, Failure } from "../outcome.mjs";
import { PACKAGE } from "../place.mjs";
import { PART_BYTES_MAX, digest, keyOf, parts } from "./parts.mjs";
import { FORMATS, createReader, formatOf } from "./reader.mjs";
import { TAIL_BYTES_MAX, appended, open } from "./source.mjs";
import { State, bitsOf, fits, has, tailOf } from "./state.mjs";

const IN_FLIGHT_MAX = 4;
// What a format is told by.
const SAMPLE_BYTES = 64 * 1024;
// Of so many counters at least one must still be there, or the deployment is another one than the note is of.
const WITNESSES = 5;
// Codes of lines that another body may count, under the same key: their counters had no room, or did not answer.
const AGAIN = new Set(["too-many-counters", "unavailable", "overloaded"]);
const AGAIN_MAX = 50;
const AGAIN_PAUSE_MS = 500;
// Codes of lines that a later run may count. All others are refused for what they are.
const LATER = new Set([...AGAIN, "clock-skew", "quota-exceeded", "rate-limited", "unauthorized", "forbidden"]);
// Lines may be 5 s ahead of the server's clock (CLOCK_SKEW_MS), which is known by less than a second.
const AHEAD_MS_MAX = 4_000;
const AHEAD_PATIENCE_MS = 60_000;
// So many lines that are ahead stay in memory; with more of them no more is read.
const HELD_LINES_MAX = 100_000;
const LOOK_MS = 1_000;
const UNREAD_SHOWN_MAX = 5;
const TOP = 10;
// Counters of which the summary knows how often they were counted. Where there are more the smaller half is forgotten:
// one that comes again after that begins anew, so a top of a log with more names than this may name a counter lower
// than it is.
const COUNTERS_KEPT_MAX = 200_000;

/** Returns the lines that `"3,5-7"` names. */
export function linesOf(text) {
  return text.split(",").flatMap((part) => {
    const [from, to = from] = part.split("-").map(Number);
    return Array.from({ length: to - from + 1 }, (_, index) => from + index);
  });
}

// The time of a line of a body.
const timeOf = (line) => JSON.parse(line).at;
const isExport = (head) => /^\{"(?:id|policy|board|end)":/.test(head.toString("latin1", 0, 16));
const last = (bytes) => bytes.subarray(-TAIL_BYTES_MAX);

// A reader for settings as JSON has them, which begins where the format knows `state`. Zeros are what a machine that
// failed left in place of bytes.
function readerOf({ rewrites, ...settings }, state) {
  const reader = createReader({
    ...settings, state, rewrites: rewrites.map(([pattern, text]) => [new RegExp(pattern), text]),
  });
  const read = (bytes) => reader.read(bytes.includes(0) ? bytes.filter((byte) => byte !== 0) : bytes);
  return {
    format: reader.format,
    read: (bytes) => ({ ...read(bytes), query: reader.query }),
    get state() { return reader.state; },
  };
}

// So many may go on at once; others wait for their turn.
class Slots {
  #free = IN_FLIGHT_MAX;
  #waiting = [];

  async take() {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise((turn) => this.#waiting.push(turn));
  }

  give() {
    const turn = this.#waiting.shift();
    if (turn === undefined) this.#free += 1;
    else turn();
  }
}

export class Import {
  #slots = new Slots();
  #held = 0;
  // How far the server's clock is from ours, once it has refused a line by it.
  #offset_ms;
  #counters = new Map();
  #forgotten = 0;
  #began_ms = performance.now();
  #done = {
    lines: 0, counted: 0, counted_before: { lines: 0, bytes: 0 }, unreadable: 0, unfinished: 0,
    left_out: { status: 0, method: 0, static: 0, bots: 0 }, ahead_ms: 0, rejected: {}, formats: {},
  };

  /**
   * client: a Tally. options: `{ format, reader, base, target, again, isLocal, note, now, sleep }`: `reader` being
   * options of a reader, `note(text)` telling what should be known at once, `now()` a clock and `sleep(ms)` a pause.
   * onProgress is called after each part.
   */
  constructor(client, options, onProgress = () => {}) {
    this.client = client;
    this.stop = new AbortController();
    const sleep = (ms) => pause(ms, undefined, { signal: this.stop.signal }).catch(() => {});
    this.options = { note: () => {}, now: Date.now, sleep, ...options };
    this.onProgress = onProgress;
    this.state = new State(options.base, options.target);
    this.source = { read: 0 };
    this.unread = [];
    // Files that could not be read, or not to their end: `{ file, why, exit }`.
    this.failed = [];
  }

  /** What was done so far. */
  summary() {
    const seconds = (performance.now() - this.#began_ms) / 1000;
    const top = [...this.#counters].sort(([a, one], [b, other]) => other - one || (a < b ? -1 : 1)).slice(0, TOP);
    return {
      ...this.#done,
      failed: this.failed.map(({ file, why }) => ({ file, why })),
      // Where some were forgotten, some of those were counted twice here.
      counters: this.#counters.size + this.#forgotten,
      counters_exact: this.#forgotten === 0,
      seconds: Number(seconds.toFixed(2)),
      lines_per_second: Math.round(this.#done.lines / Math.max(seconds, 0.001)),
      top: top.map(([id, count]) => ({ id, count })),
    };
  }

  /** Imports a whole file, or standard input. What is wrong with it is kept in `failed`, and other files can go on. */
  file(name) {
    return this.#guard(name, async (source) => {
      const isPlain = source.tail !== undefined && source.kind === undefined;
      const { head, hole, rest } = await (isPlain ? source.head(SAMPLE_BYTES) : sample(source.chunks()));
      if (head.length === 0) throw new Failure(EXIT.partly, `${name} is empty`);
      const begun = await this.#begin(Object.assign(source, { hole }), head);
      await this.#parts({ ...begun, source, isClosed: !isPlain }, (start) => rest ?? source.chunks(start));
    });
  }

  /** Imports a file as it grows, and what takes its place, until it is stopped. */
  async follow(name) {
    const { sleep, format } = this.options;
    const { signal } = this.stop;
    const poll = () => sleep(LOOK_MS / 4);
    let isNew = false;
    let isTold = false;
    const one = async (source) => {
      if (source.kind !== undefined || source.head === undefined) {
        const what = source.kind ? `packed by ${source.kind}` : "no file";
        throw new Failure(EXIT.usage, `${name} is ${what}: only plain logs grow; leave --follow out`);
      }
      const { head, hole } = await source.head(SAMPLE_BYTES);
      if (!head.includes(10)) return poll();
      if ((format ?? formatOf(head, name)) === undefined && head.length < SAMPLE_BYTES && !isExport(head)) {
        if (!isTold) this.options.note(`${name}: no format fits its first lines so far`);
        isTold = true;
        return poll();
      }
      const begun = await this.#begin(Object.assign(source, { hole }), head, isNew);
      isNew = true;
      const chunksFrom = (start, before) => appended(source, start, { before, signal, sleep });
      const { end, tail } = await this.#parts({ ...begun, source, isFollowed: true }, chunksFrom);
      if (!(await source.tail(end, tail.length))?.equals(tail)) this.state.cut(begun.note);
    };
    while (!signal.aborted && (await this.#guard(name, one, poll)));
  }

  // Works with a file. Resolves to whether nothing is wrong with it; `wait`: what is done until it is there.
  async #guard(name, work, wait) {
    let source;
    try {
      this.source = source = await open(name);
      await work(source);
      return true;
    } catch (error) {
      if (!(error instanceof Failure)) {
        this.stop.abort();
        throw error;
      }
      if (wait !== undefined && error.exit === EXIT.notFound) return wait().then(() => true);
      this.failed.push({ file: name, why: error.message, exit: error.exit });
      this.options.note(error.message);
      return false;
    } finally {
      await source?.close();
    }
  }

  // Finds the format of a source, and what earlier runs have done of it. `isNew`: it took the place of another one.
  async #begin(source, head, isNew = false) {
    const { name } = source;
    // A named format does not make UTF-16 readable.
    const found = formatOf(head, name);
    const format = this.options.format ?? found;
    if (format === undefined && isExport(head)) throw new Failure(EXIT.usage, `${name} is an export of Tally: import it with --format tally`);
    if (format === undefined) throw new Failure(EXIT.failed, `${name}: no format fits its first lines; name it by --format (${FORMATS.join(", ")})`);
    const settings = { ...this.options.reader, format };
    const { formats, counted_before } = this.#done;
    const called = readerOf(settings).format;
    formats[called] = (formats[called] ?? 0) + 1;
    const isAgain = this.options.again && !isNew;
    const { note, twin } = await this.state.find(source, head, isNew || isAgain);
    if (isAgain) note.set({ salt: crypto.randomUUID(), ids: [] });
    else if (twin !== undefined) {
      const { end } = note.parts.at(-1);
      counted_before.bytes += source.kind === undefined ? Math.min(end, source.bytes ?? end) : end;
      throw new Failure(EXIT.partly, `${name} begins with the same bytes as ${twin}, which was imported: nothing of it is counted. If it is a log of its own, import it by itself with --again; a copy needs nothing`);
    }
    if (isAgain || !(await this.#isSameDeployment(note.about.ids))) note.forget(0);
    return { note, settings };
  }

  // A deployment whose data is gone has counted nothing of what the note says.
  async #isSameDeployment(ids) {
    for (const id of ids) {
      try {
        await this.client.get(id, { consistency: "strong" });
        return true;
      } catch (error) {
        if (error.status !== 404) return true;
      }
    }
    return ids.length === 0;
  }

  // Counts what a note does not say is done. Resolves to where that ends, and to the bytes before it.
  async #parts(job, chunksFrom) {
    const { source, note, settings } = job;
    const mark = digest(JSON.stringify(settings));
    // Another version may read what this one cannot.
    job.marks = [mark, digest(mark, PACKAGE.version)];
    const isDone = (part) => job.marks.includes(part?.settled);
    const isPlain = source.tail !== undefined && source.kind === undefined;
    const undone = note.parts.findIndex((part) => !isDone(part));
    const before = isPlain ? note.parts.at(undone === -1 ? -1 : undone - 1) : undefined;
    const first = undone === 0 ? undefined : before;
    let [end, state] = [isPlain ? (note.parts[undone]?.start ?? first?.end ?? 0) : 0, first?.state ?? ""];
    let tail = isPlain ? await source.tail(end, Math.min(end, TAIL_BYTES_MAX)) : Buffer.alloc(0);
    this.#done.counted_before.bytes += end;
    const isClosed = () => job.isClosed || ((this.#done.unfinished += 1), false);
    const jobs = new Set();
    let reader;
    try {
      const all = parts(chunksFrom(end, tail), end, note.parts.map((part) => part.end), isClosed);
      for await (const part of all) {
        if (job.failure !== undefined || this.stop.signal.aborted) break;
        tail = last(Buffer.concat([part.start === end ? tail : Buffer.alloc(0), last(part.bytes)]));
        end = part.end;
        const known = this.#known(note, part, tail);
        if (isDone(known)) {
          this.#done.counted_before.bytes += end - part.start;
          state = known.state;
          continue;
        }
        while (this.#held > HELD_LINES_MAX && !this.stop.signal.aborted) await this.options.sleep(LOOK_MS);
        await this.#slots.take();
        if (reader?.state !== state) reader = readerOf(settings, state);
        const read = this.#read(part, reader);
        const lines = part.bytes.toString("latin1").split("\n").length - 1;
        const entry = known ?? { start: part.start, end, lines, ...tailOf(tail), counted: 0n };
        note.put(Object.assign(entry, { state: reader.state, settled: undefined }));
        const counting = this.#count(job, part, entry, read, state).finally(() => this.#slots.give());
        state = reader.state;
        jobs.add(counting);
        counting.catch((error) => (job.failure ??= error)).finally(() => jobs.delete(counting));
      }
    } finally {
      await Promise.allSettled(jobs);
    }
    if (job.failure !== undefined) throw job.failure;
    return { end, tail };
  }

  // What a note says of a part. Where its bytes are others, the file is another one from there on, which begins alike.
  #known(note, part, tail) {
    const known = note.parts.find(({ start }) => start === part.start);
    if (known === undefined || known.end > part.end || (known.end === part.end && fits(known, tail))) return known;
    note.forget(part.start);
    return undefined;
  }

  // The lines of a part as lines of a body, and the counter that each counts.
  #read(part, reader) {
    const read = reader.read(part.bytes);
    this.#done.lines += read.lines;
    this.#done.unreadable += read.unreadable;
    this.unread.push(...read.unread.slice(0, UNREAD_SHOWN_MAX - this.unread.length));
    const { left_out } = this.#done;
    for (const [reason, count] of Object.entries(read.left)) left_out[reason] = (left_out[reason] ?? 0) + count;
    return read;
  }

  // Counts the lines of a part that were not counted. `state`: what the format knows before it.
  async #count({ note, settings, marks, ...job }, part, entry, read, state) {
    const isOpen = (index) => !has(entry.counted, read.numbers[index]);
    let left = [...read.numbers.keys()].filter(isOpen);
    this.#done.counted_before.lines += read.numbers.length - left.length;
    if (entry.sent !== undefined) {
      // An earlier run has sent them, and does not know what became of that: the same again.
      const { lines, reader } = entry.sent;
      const old = readerOf(reader, reader.state).read(part.bytes);
      await this.#send(note, entry, old, [...old.numbers.keys()].filter((index) => has(lines, old.numbers[index])));
      left = left.filter(isOpen);
    }
    let isWhole = true;
    const since = this.options.now();
    while (left.length > 0 && entry.sent === undefined) {
      const ready = [];
      const held = [];
      for (const index of left) (this.#isAhead(read.body[index]) ? held : ready).push(index);
      left = held;
      if (ready.length > 0) {
        const lines = bitsOf(ready.map((index) => read.numbers[index]));
        const key = keyOf(note.about.file, part, `${note.about.salt}${entry.counted}`);
        entry.sent = { key, lines, reader: { ...settings, state } };
        const { ahead, isLater } = await this.#send(note, entry, read, ready);
        isWhole &&= !isLater;
        left.push(...ahead);
      }
      if (left.length > 0 && !(await this.#wait(job, left.map((index) => timeOf(read.body[index])), since))) break;
    }
    if (left.length > 0) this.#reject("clock-skew", left.length);
    else if (isWhole && entry.sent === undefined) entry.settled = marks[read.unreadable > 0 ? 1 : 0];
    note.put(entry);
    this.onProgress(this);
  }

  #reject(code, lines) {
    this.#done.rejected[code] = (this.#done.rejected[code] ?? 0) + lines;
  }

  // Sends the lines of `entry.sent`, which are at these places of a body, until each is counted or refused. Resolves to
  // those that are ahead of the server's clock, and to whether a later run may count others.
  async #send(note, entry, { body, ids, numbers, query }, places) {
    note.put(entry);
    const ahead = [];
    let isLater = false;
    let at = places;
    for (let tries = 0; at.length > 0 && tries <= AGAIN_MAX && !(tries > 0 && this.stop.signal.aborted); tries += 1) {
      const text = at.map((index) => body[index]).join("\n");
      // One key for all bodies: it belongs to each counter, and all lines of a counter are in one body.
      const { report, isRepeat } = await this.#post(text, query, entry.sent.key);
      this.#learn(report, at.map((index) => body[index]));
      const refused = new Map(
        (report.rejected_lines ?? []).flatMap(({ code, lines }) => linesOf(lines).map((line) => [at[line - 1], code])),
      );
      const counted = at.filter((index) => !refused.has(index));
      entry.counted |= bitsOf(counted.map((index) => numbers[index]));
      this.#note(note, counted.map((index) => ids[index]), isRepeat);
      const again = [];
      for (const [index, code] of refused) {
        if (code === "clock-skew") ahead.push(index);
        else if (AGAIN.has(code) && tries < AGAIN_MAX) again.push(index);
        else {
          isLater ||= LATER.has(code);
          this.#reject(code, 1);
          // Nobody knows whether it was counted: it keeps its key.
          if (code === "unavailable") again.push(index);
        }
      }
      // Another body has room at once; what does not answer gets a while.
      if (again.length === at.length && tries < AGAIN_MAX) await this.options.sleep(AGAIN_PAUSE_MS);
      at = again;
    }
    entry.sent = at.length > 0 ? { ...entry.sent, lines: bitsOf(at.map((index) => numbers[index])) } : undefined;
    note.put(entry);
    return { ahead, isLater };
  }

  // Sends a body. A body of which nothing was counted is refused, by a problem that has the report.
  async #post(text, query, idempotencyKey) {
    const body = this.options.isLocal ? text : gzipSync(text, { level: 1 });
    const call = { query, body, headers: { "content-type": "application/x-ndjson" }, idempotencyKey, isWrite: true };
    try {
      const answer = await this.client.answer("POST", "/ingest", call);
      const isRepeat = answer.headers.get("idempotency-replayed") === "true";
      return { report: await answer.json(), isRepeat };
    } catch (error) {
      if (error.problem?.rejected_lines === undefined) throw error;
      return { report: error.problem, isRepeat: false };
    }
  }

  // Takes the server's clock from what it says of lines that are ahead of it.
  #learn({ errors = [] }, body) {
    for (const { line, code, detail } of errors) {
      const ahead_ms = code === "clock-skew" ? detail?.match(/(\d+) ms ahead/)?.[1] : undefined;
      if (ahead_ms !== undefined) this.#offset_ms = timeOf(body[line - 1]) - Number(ahead_ms) - this.options.now();
    }
  }

  #isAhead(line) {
    return this.#offset_ms !== undefined && timeOf(line) - this.options.now() - this.#offset_ms > AHEAD_MS_MAX;
  }

  // Waits until the first of these times may be there; resolves to whether that is worth it. Others have the slot
  // meanwhile. A log that is followed waits for as long as it takes, and any other for a minute.
  async #wait(job, times, since) {
    const { now, sleep, note } = this.options;
    const clock = now() + (this.#offset_ms ?? 0);
    times.sort((one, other) => one - other);
    const due_ms = this.#offset_ms === undefined ? LOOK_MS : times[0] - clock - AHEAD_MS_MAX;
    const ahead_ms = times.at(-1) - clock;
    const left_ms = since + AHEAD_PATIENCE_MS - now();
    const isWaiting = job.isFollowed || due_ms <= left_ms;
    this.#done.ahead_ms = Math.max(this.#done.ahead_ms, ahead_ms);
    if ((left_ms <= 0 || !isWaiting) && !job.source.isLate) {
      job.source.isLate = true;
      note(`lines of ${job.source.name} are ${(ahead_ms / 1000).toFixed(1)} s ahead of the server's clock, and ${isWaiting ? "wait until it is there" : "are left for the next run"}: compare the clocks of both machines`);
    }
    if (!isWaiting) return false;
    this.#slots.give();
    this.#held += times.length;
    await sleep(Math.min(Math.max(due_ms, LOOK_MS / 20), LOOK_MS));
    this.#held -= times.length;
    await this.#slots.take();
    return !this.stop.signal.aborted && job.failure === undefined;
  }

  // Notes one for each counter, for the summary, and some of them as witnesses.
  #note(note, ids, isRepeat) {
    const done = isRepeat ? this.#done.counted_before : this.#done;
    done[isRepeat ? "lines" : "counted"] += ids.length;
    for (const id of ids) this.#counters.set(id, (this.#counters.get(id) ?? 0) + 1);
    const known = [...new Set([...note.about.ids, ...ids.slice(0, WITNESSES)])].slice(0, WITNESSES);
    if (known.length > note.about.ids.length) note.set({ ids: known });
    if (this.#counters.size <= COUNTERS_KEPT_MAX) return;
    const kept = [...this.#counters].sort(([, one], [, other]) => other - one).slice(0, COUNTERS_KEPT_MAX / 2);
    this.#forgotten += this.#counters.size - kept.length;
    this.#counters = new Map(kept);
  }
}

// Takes the first bytes of a stream that are not zeros, and gives all back with the rest.
async function sample(chunks) {
  const taken = [];
  let [length, hole, failure] = [0, 0, undefined];
  while (length < PART_BYTES_MAX) {
    const { done, value } = await chunks.next().catch((error) => ((failure = error), { done: true }));
    if (done) break;
    taken.push(value);
    const zeros = length > 0 ? 0 : value.findIndex((byte) => byte !== 0);
    hole += zeros === -1 ? value.length : zeros;
    length += zeros === -1 ? 0 : value.length - zeros;
  }
  if (length === 0 && failure !== undefined) throw failure;
  const rest = async function* () {
    yield* taken.splice(0);
    if (failure !== undefined) throw failure;
    yield* chunks;
  };
  return { head: Buffer.concat(taken).subarray(hole), hole, rest: rest() };
}
