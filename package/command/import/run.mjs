// `tally import`: logs in, page views out, each line once.
//
// Life of a line: chunk → part → hit → left out, or a line of a body → /ingest, under the key of its part → noted as
// counted. Invariant: at most IN_FLIGHT_MAX bodies wait for their answers, so memory is bounded however large a log is.
import { gzipSync } from "node:zlib";
import { EXIT, Failure } from "../outcome.mjs";
import { HEAD_BYTES_MAX, keyOf, parts } from "./parts.mjs";
import { FORMATS, createReader, formatOf } from "./reader.mjs";
import { appended, open } from "./source.mjs";
import { State } from "./state.mjs";

const IN_FLIGHT_MAX = 4;
// What a format is told by.
const SAMPLE_BYTES = 64 * 1024;
// Of so many counters at least one must still be there, or the deployment is another one than the note is of.
const WITNESSES = 5;
// Codes of lines that another body may count: their counters had no room, or did not answer.
const AGAIN = new Set(["too-many-counters", "unavailable", "overloaded"]);
const AGAIN_MAX = 50;
const AGAIN_PAUSE_MS = 500;
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

export class Import {
  /**
   * client: a Tally. options: `{ format, reader, again, isLocal }`, `reader` being options of a reader. onProgress is
   * called after each part.
   */
  constructor(client, options, onProgress = () => {}) {
    this.client = client;
    this.options = options;
    this.onProgress = onProgress;
    this.state = new State(options.base, options.target);
    this.stop = new AbortController();
    this.lines = 0;
    this.counted = 0;
    this.repeated = 0;
    this.unreadable = 0;
    this.unread = [];
    this.skipped_bytes = 0;
    this.left = { status: 0, method: 0, static: 0, bots: 0 };
    this.rejected = {};
    this.counters = new Map();
    this.forgotten = 0;
    this.formats = {};
    this.began_ms = performance.now();
  }

  /** What was done so far. */
  summary() {
    const seconds = (performance.now() - this.began_ms) / 1000;
    const top = [...this.counters].sort(([a, one], [b, other]) => other - one || (a < b ? -1 : 1)).slice(0, TOP);
    return {
      lines: this.lines,
      counted: this.counted,
      counted_before: { lines: this.repeated, bytes: this.skipped_bytes },
      left_out: this.left,
      unreadable: this.unreadable,
      rejected: this.rejected,
      // Where some were forgotten, some of those were counted twice here.
      counters: this.counters.size + this.forgotten,
      counters_exact: this.forgotten === 0,
      formats: this.formats,
      seconds: Number(seconds.toFixed(2)),
      lines_per_second: Math.round(this.lines / Math.max(seconds, 0.001)),
      top: top.map(([id, count]) => ({ id, count })),
    };
  }

  /** Imports a whole file, or standard input. */
  async file(name) {
    const source = await open(name);
    this.source = source;
    try {
      const chunks = source.chunks()[Symbol.asyncIterator]();
      const { head, rest } = await sample(chunks);
      if (head.length === 0) return;
      const { parse, note } = await this.begin(head, name);
      const start = note.done;
      this.skipped_bytes += start;
      await this.parts(parts(skipping(rest, start), start, note.ends), parse, note);
    } finally {
      await source.close();
    }
  }

  /** Imports a file as it grows, and what takes its place, until it is stopped. */
  async follow(name) {
    while (!this.stop.signal.aborted) {
      const source = await this.whenThere(name);
      if (source === undefined) return;
      this.source = source;
      try {
        const head = await this.headOf(source);
        if (head === undefined) continue;
        const { parse, note } = await this.begin(head, name);
        this.skipped_bytes += note.done;
        await this.parts(parts(appended(source, note.done, this.stop.signal), note.done, note.ends), parse, note);
      } finally {
        await source.close();
      }
    }
  }

  async whenThere(name) {
    while (!this.stop.signal.aborted) {
      try {
        const source = await open(name);
        if (source.kind !== undefined) throw new Failure(EXIT.usage, `${name} is packed by ${source.kind}: only plain logs grow; leave --follow out`);
        return source;
      } catch (error) {
        if (!(error instanceof Failure) || error.exit !== EXIT.notFound) throw error;
        await new Promise((done) => setTimeout(done, 250));
      }
    }
    return undefined;
  }

  // The beginning of a log, once it has a line; undefined where another file took its place before that.
  async headOf(source) {
    const taken = [];
    for await (const chunk of appended(source, 0, this.stop.signal)) {
      if (chunk !== undefined) taken.push(chunk);
      if (chunk?.includes(10)) return Buffer.concat(taken);
    }
    return undefined;
  }

  async begin(head, name) {
    const format = this.options.format ?? formatOf(head);
    if (format === undefined && /^\{"(?:id|policy|board|end)":/.test(head.toString("latin1", 0, 16))) {
      throw new Failure(EXIT.usage, `${name} is an export of Tally: import it with --format tally`);
    }
    if (format === undefined) {
      throw new Failure(EXIT.failed, `${name}: no format fits its first lines; name it by --format (${FORMATS.join(", ")})`);
    }
    const parse = createReader({ ...this.options.reader, format });
    this.formats[parse.format] = (this.formats[parse.format] ?? 0) + 1;
    // Names of columns stand in the first lines, which a resumed run does not read again.
    const end = head.lastIndexOf(10) + 1;
    parse.read(head.subarray(0, end === 0 ? head.length : end));
    const found = this.options.again
      ? { ...this.state.find(head.subarray(0, HEAD_BYTES_MAX)), done: 0, ends: [], ids: [] }
      : this.state.find(head.subarray(0, HEAD_BYTES_MAX));
    const note = { ends: [], ids: [], ...found };
    if (note.done > 0 && !(await this.isSameDeployment(note.ids))) Object.assign(note, { done: 0, ends: [], ids: [] });
    return { parse, note };
  }

  // A deployment whose data is gone has counted nothing of what the note says.
  async isSameDeployment(ids) {
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

  async parts(all, parse, note) {
    const inFlight = new Set();
    const acknowledged = new Set();
    let failure;
    let isWhole = true;
    try {
      for await (const part of all) {
        if (failure !== undefined || this.stop.signal.aborted) {
          isWhole = false;
          break;
        }
        const read = this.read(part, parse);
        if (!note.ends.includes(part.end)) note.ends.push(part.end);
        this.state.save(note);
        const sent = this.count(part, read, note).then(
          () => {
            acknowledged.add(part.end);
            while (acknowledged.delete(note.ends[0])) note.done = note.ends.shift();
            this.state.save(note);
            this.onProgress(this);
          },
          (error) => (failure ??= error),
        );
        inFlight.add(sent);
        sent.finally(() => inFlight.delete(sent));
        if (inFlight.size >= IN_FLIGHT_MAX) await Promise.race(inFlight);
      }
    } finally {
      await Promise.all(inFlight);
    }
    if (failure !== undefined) throw failure;
    return isWhole;
  }

  // The lines of a part as lines of a body, and the counter that each counts.
  read(part, parse) {
    const { body, ids, lines, left, unreadable, unread } = parse.read(part.bytes);
    this.lines += lines;
    this.unreadable += unreadable;
    this.unread.push(...unread.slice(0, UNREAD_SHOWN_MAX - this.unread.length));
    for (const [reason, count] of Object.entries(left)) this.left[reason] += count;
    return { body, ids, query: parse.query };
  }

  async count(part, { body, ids, query }, note) {
    if (body.length === 0) return;
    const { salt } = this.options;
    // One key for all bodies of a part: it belongs to each counter, and all lines of a counter are in one body.
    const idempotencyKey = keyOf(note.file, part, salt);
    let at = body.map((_, index) => index);
    for (let tries = 0; at.length > 0; tries += 1) {
      const text = at.map((index) => body[index]).join("\n");
      const answer = await this.client.answer("POST", "/ingest", {
        query,
        body: this.options.isLocal ? text : gzipSync(text, { level: 1 }),
        headers: { "content-type": "application/x-ndjson" },
        idempotencyKey,
        isWrite: true,
      });
      const report = await answer.json();
      const isRepeat = answer.headers.get("idempotency-replayed") === "true";
      at = await this.settle(report, at, ids, isRepeat, note, tries);
    }
  }

  // Notes one for a counter, for the summary.
  note(id) {
    this.counters.set(id, (this.counters.get(id) ?? 0) + 1);
    if (this.counters.size <= COUNTERS_KEPT_MAX) return;
    const kept = [...this.counters].sort(([, one], [, other]) => other - one).slice(0, COUNTERS_KEPT_MAX / 2);
    this.forgotten += this.counters.size - kept.length;
    this.counters = new Map(kept);
  }

  // Notes what became of the lines, and returns those to send again.
  async settle(report, at, ids, isRepeat, note, tries) {
    const refused = new Map();
    for (const { code, lines } of report.rejected_lines ?? []) {
      for (const line of linesOf(lines)) {
        refused.set(line - 1, code);
      }
    }
    const again = [];
    at.forEach((index, place) => {
      const code = refused.get(place);
      if (code === undefined) {
        this[isRepeat ? "repeated" : "counted"] += 1;
        this.note(ids[index]);
        if (note.ids.length < WITNESSES && !note.ids.includes(ids[index])) note.ids.push(ids[index]);
      } else if (AGAIN.has(code) && tries < AGAIN_MAX) again.push(index);
      else this.rejected[code] = (this.rejected[code] ?? 0) + 1;
    });
    // Another body has room at once; what does not answer gets a while.
    if (again.length === at.length) await new Promise((done) => setTimeout(done, AGAIN_PAUSE_MS));
    return again;
  }
}

// Takes the first bytes of a source, and gives them back with the rest.
async function sample(chunks) {
  const taken = [];
  let length = 0;
  while (length < SAMPLE_BYTES) {
    const { done, value } = await chunks.next();
    if (done) break;
    taken.push(value);
    length += value.length;
  }
  const rest = async function* () {
    yield* taken;
    for (;;) {
      const { done, value } = await chunks.next();
      if (done) return;
      yield value;
    }
  };
  return { head: Buffer.concat(taken), rest: rest() };
}

async function* skipping(chunks, bytes) {
  let left = bytes;
  for await (const chunk of chunks) {
    if (left >= chunk.length) left -= chunk.length;
    else {
      yield left === 0 ? chunk : chunk.subarray(left);
      left = 0;
    }
  }
}
