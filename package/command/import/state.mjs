// What earlier runs have imported, so that a run goes on where the last one ended, days later too.
//
// Invariant: lines are noted before they are sent, and as counted only once that was acknowledged. What was noted and
// not acknowledged is sent again, the same lines under the same key. Keys are forgotten by the server after a day: this
// note is not. A line that is not noted as counted was not counted.
//
// A note is a file of JSON lines, each of which has what changed: of the file (`about`), or of a part of it. A part:
// `{ start, end, lines, tail_bytes, tail, state, counted, settled, sent }`: where it lies; how many lines it has; the
// hash of the bytes before its end; what the format knows after it; the lines that were counted, a bit each; the
// settings by which all others were left out; and what was sent and not yet acknowledged, `{ key, lines, reader }`.
import { randomUUID } from "node:crypto";
import { readFileSync, readdirSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { appendPrivate, makeFolder, tighten, writePrivate } from "../../../scripts/private-files.mjs";
import { PART_BYTES_MAX, PART_LINES_MAX, digest } from "./parts.mjs";
import { TAIL_BYTES_MAX, open, placeOf } from "./source.mjs";

// What a file begins with, by which its note is found where it has another name, or is packed.
const HEAD_BYTES_MAX = 4_096;
// A note is written anew once it has so many lines more than twice its parts.
const CHANGES_MAX = 200;
// `<device>.<inode>.<hash of the first line>.<random>`, so that notes are found by the names of their files.
const NAME = /^((.*)\.([^.]+)\.[^.]+)\.ndjson$/;

const home = ({ TALLY_STATE, XDG_STATE_HOME } = process.env) =>
  TALLY_STATE || join(XDG_STATE_HOME || join(homedir(), ".local", "state"), "tally");

/** Returns numbers of lines as bits. */
export function bitsOf(lines) {
  const digits = [0];
  for (const line of lines) digits[line >> 2] = (digits[line >> 2] ?? 0) | (1 << (line & 3));
  return BigInt(`0x${Array.from(digits, (digit) => (digit ?? 0).toString(16)).reverse().join("")}`);
}
/** Returns whether a line is among bits. */
export const has = (bits, line) => ((bits >> BigInt(line)) & 1n) === 1n;

const packed = (_, value) => (typeof value === "bigint" ? `0x${value.toString(16)}` : value);
const read = (name, value) => (/^(?:counted|lines)$/.test(name) && typeof value === "string" ? BigInt(value) : value);

/** What is known of one file, for one way of counting. */
export class Note {
  #path;
  #changes = 0;

  constructor(folder, about, parts = []) {
    this.#path = join(folder, `${about.id}.ndjson`);
    this.about = about;
    this.parts = parts;
  }

  static read(folder, id) {
    const parts = new Map();
    const about = { id };
    for (const line of readFileSync(join(folder, `${id}.ndjson`), "utf8").split("\n")) {
      try {
        const { part, ...change } = JSON.parse(line, read);
        if (part !== undefined) parts.set(part.start, part);
        else Object.assign(about, change.about);
      } catch {
        // The machine failed while it was written: what it would say was not acknowledged.
      }
    }
    const note = new Note(folder, about);
    for (const part of [...parts.values()].sort((one, other) => one.start - other.start)) {
      // A part that became one with the part before it lies within that.
      if (part.start >= (note.parts.at(-1)?.end ?? 0)) note.parts.push(part);
    }
    return note;
  }

  /** Writes all of it. */
  write() {
    const lines = [{ about: this.about }, ...this.parts.map((part) => ({ part }))];
    writePrivate(this.#path, lines.map((line) => `${JSON.stringify(line, packed)}\n`).join(""));
    this.#changes = lines.length;
  }

  #append(change) {
    appendPrivate(this.#path, `${JSON.stringify(change, packed)}\n`);
    this.#changes += 1;
    if (this.#changes > 2 * this.parts.length + CHANGES_MAX) this.write();
  }

  set(about) {
    Object.assign(this.about, about);
    this.#append({ about });
  }

  /** Notes a part: a new one, or what has changed of one. Small ones that are settled alike become one. */
  put(part) {
    let at = this.parts.lastIndexOf(part);
    if (at === -1) at = this.parts.push(part) - 1;
    const before = this.parts[at - 1] ?? {};
    const lines = before.lines + part.lines;
    const isSmall = part.end - before.start <= PART_BYTES_MAX && lines <= PART_LINES_MAX;
    if (part.settled === undefined || before.settled !== part.settled || before.end !== part.start || !isSmall) {
      return this.#append({ part });
    }
    const counted = before.counted | (part.counted << BigInt(before.lines));
    this.parts.splice(at - 1, 2, { ...part, start: before.start, lines, counted });
    this.#append({ part: this.parts[at - 1] });
  }

  /** Forgets the parts that end after an offset. */
  forget(offset) {
    this.parts = this.parts.filter(({ end }) => end <= offset);
    this.write();
  }
}

/** The notes of one deployment and one way of counting (`target`: the ids that it leads to). */
export class State {
  constructor(base, target) {
    this.folder = join(home(), "imports", digest(`${base}\n${target}`).slice(0, 16));
    makeFolder(this.folder);
    // Notes of earlier versions name files and counters to everybody.
    tighten(home(), ["imports"]);
  }

  /**
   * Resolves to the note of a source that begins with `head`, a new one where there is none, and to the place of
   * another file, from which that note cannot tell it: `{ note, twin }`. `isNew`: it is no copy of another file.
   */
  async find(source, head, isNew = false) {
    const { dev, ino } = source;
    const first = firstOf(head);
    let isOther = isNew;
    let found;
    let longer;
    for (const name of readdirSync(this.folder)) {
      const [, id, inode, hash] = name.match(NAME) ?? [];
      const isSame = ino !== undefined && inode === `${dev}.${ino}`;
      if (id === undefined || !(isSame || (!isNew && hash === first))) continue;
      const note = Note.read(this.folder, id);
      const end = isSame ? Infinity : (note.parts.at(-1)?.end ?? 0);
      if (await holds(note, source, head, isSame)) {
        const isBetter = isSame || note.parts.some(({ counted }) => counted > 0n);
        if (isBetter && end > (found?.end ?? 0)) found = { note, end };
      } else if (isSame) {
        // The file was cut, or another one has its inode now.
        this.cut(note);
        isOther = true;
      } else if (begins(note, head)) longer = note;
    }
    if (found === undefined && longer !== undefined && !isOther) {
      return { note: longer, twin: longer.about.path ?? "a log" };
    }
    if (found?.end === Infinity || (found !== undefined && ino === undefined)) return found;
    const twin = found && (await twinOf(found.note, head));
    if (twin !== undefined) return { note: found.note, twin };
    const begin = head.subarray(0, HEAD_BYTES_MAX);
    const salt = isOther ? randomUUID() : "";
    const about = { file: digest(begin), head: begin.toString("base64"), first, salt, ids: [] };
    return { note: this.#bind(found?.note ?? new Note(this.folder, about), source) };
  }

  /** Says that a file no longer has what its note says. A copy of it may. */
  cut(note) {
    this.#bind(note, {});
  }

  // Names a note after the file that it is of, or after none.
  #bind({ about, parts }, { path, dev = "", ino = "" }) {
    const id = `${dev}.${ino}.${about.first}.${randomUUID()}`;
    const note = new Note(this.folder, { ...about, id, path, dev, ino }, parts);
    note.write();
    if (about.id !== undefined) rmSync(join(this.folder, `${about.id}.ndjson`));
    return note;
  }
}

/** Returns the hash of the bytes before an offset. */
export const tailOf = (bytes) => ({ tail_bytes: bytes.length, tail: digest(bytes) });

/** Returns whether the bytes before the end of a part are those that were there. */
export const fits = ({ tail_bytes, tail }, bytes) =>
  bytes?.length >= tail_bytes && digest(bytes.subarray(bytes.length - tail_bytes)) === tail;

// Whether a source has what a note is of: where it can be read anywhere, up to the end of that; else as far as its
// first bytes go. Parts of which nothing was counted, such as headers, say nothing where the file is another one.
async function holds({ parts }, source, head, isSame) {
  const last = parts.at(-1);
  if (source.kind === undefined && source.tail !== undefined) {
    return last === undefined || fits(last, await source.tail(last.end, last.tail_bytes));
  }
  const seen = parts.filter(({ end }) => end - source.hole <= head.length);
  const isEnough = isSame || head.length >= PART_BYTES_MAX || seen.some(({ counted }) => counted > 0n);
  return isEnough && seen.every((part) => fits(part, head.subarray(0, part.end - source.hole)));
}

const firstOf = (head) => digest(head.subarray(0, Math.min(head.indexOf(10) + 1 || head.length, HEAD_BYTES_MAX)));

// Whether a source that does not have all of what a note is of begins like that, as far as a line that was counted.
function begins({ about, parts }, head) {
  const known = Buffer.from(about.head, "base64");
  const common = head.subarray(0, known.length);
  const lines = BigInt(common.toString("latin1").split("\n").length - 1);
  const isCounted = ((parts[0]?.counted ?? 0n) & ((1n << lines) - 1n)) > 0n;
  return isCounted && common.equals(known.subarray(0, common.length));
}

// The place of the file that a note is of, if that still has what the note says.
async function twinOf(note, head) {
  const place = await placeOf(note.about);
  const source = place && (await open(place));
  try {
    return source?.kind !== undefined || (source && (await holds(note, source, head, true))) ? place : undefined;
  } finally {
    await source?.close();
  }
}
