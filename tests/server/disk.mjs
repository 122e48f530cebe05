// A disk that loses power, from the notes of power.c: what was synced stays, and of the rest whatever chance leaves.
//
// Invariants: the bytes of a file are durable once it is synced, a name once its folder is. Of the writes to a file
// after that, each is there, not there, or there up to a sector; of the names of a folder, those up to some point are,
// as file systems with a journal have it.
import { mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { between } from "../crash/random.mjs";

const SECTOR_BYTES = 512;
const LINE_END = 0x0a;

function* notesOf(trace) {
  const bytes = readFileSync(trace);
  for (let at = 0; at < bytes.length; ) {
    const end = bytes.indexOf(LINE_END, at);
    // The process was killed while it wrote this one.
    if (end < 0) return;
    const [operation, inode, offset, length, ...path] = bytes.toString("utf8", at, end).split(" ");
    at = end + 1;
    const count = operation === "W" ? Number(length) : 0;
    if (at + count > bytes.length) return;
    yield { operation, inode, offset: Number(offset), bytes: bytes.subarray(at, at + count), path: path.join(" ") };
    at += count;
  }
}

function changed(content, { operation, offset, bytes }) {
  if (operation === "T") {
    return offset <= content.length ? content.subarray(0, offset) : Buffer.concat([content], offset);
  }
  const made = Buffer.alloc(Math.max(content.length, offset + bytes.length));
  content.copy(made);
  bytes.copy(made, offset);
  return made;
}

/** One file: what is durable of it, and what was done to it since it was synced. */
class File {
  content;
  pending = [];

  constructor(content) {
    this.content = content;
  }

  sync() {
    this.content = this.pending.splice(0).reduce(changed, this.content);
  }

  /** Loses power. */
  lose(random) {
    for (const change of this.pending.splice(0)) {
      const kept = between(random, 0, 2);
      const bytes = kept === 2 ? change.bytes
        : change.bytes.subarray(0, SECTOR_BYTES * between(random, 0, Math.floor(change.bytes.length / SECTOR_BYTES)));
      if (kept > 0) this.content = changed(this.content, { ...change, bytes });
    }
  }
}

/** The files below a folder, at first as they are there. */
export class Disk {
  #folder;
  // By the number that the system gives a file, which it gives again once a file is gone.
  #files = new Map();
  #all = [];
  // By path: a file, or undefined for a folder.
  #names = new Map();
  #pending = new Map();

  constructor(folder) {
    this.#folder = folder;
    this.#names.set(folder, undefined);
    for (const name of readdirSync(folder, { recursive: true })) {
      const path = join(folder, name);
      const found = statSync(path);
      this.#names.set(path, found.isDirectory() ? undefined : this.#begin(String(found.ino), readFileSync(path)));
    }
  }

  #begin(inode, content) {
    const file = new File(content);
    this.#files.set(inode, file);
    this.#all.push(file);
    return file;
  }

  #name(path, change) {
    const folder = dirname(path);
    if (!this.#pending.has(folder)) this.#pending.set(folder, []);
    this.#pending.get(folder).push(change);
  }

  #syncNames(folder, count = Infinity) {
    for (const change of (this.#pending.get(folder) ?? []).splice(0, count)) change(this.#names);
  }

  /** Does what was noted. */
  play(trace) {
    for (const note of notesOf(trace)) {
      const { operation, inode, path } = note;
      if (operation === "W" || operation === "T") this.#files.get(inode).pending.push(note);
      else if (operation === "S") this.#files.get(inode).sync();
      else if (operation === "D") this.#syncNames(path);
      else if (operation === "U") this.#name(path, (names) => names.delete(path));
      else if (operation === "M") this.#name(path, (names) => names.set(path, undefined));
      else if (operation === "C") {
        const file = this.#begin(inode, Buffer.alloc(0));
        this.#name(path, (names) => names.set(path, file));
      } else {
        const [from, to] = path.split("\t");
        const file = this.#files.get(inode);
        this.#name(to, (names) => {
          names.delete(from);
          names.set(to, file);
        });
      }
    }
  }

  /** Loses power, and leaves in the folder what the disk has then. */
  lose(random) {
    for (const folder of this.#pending.keys()) {
      this.#syncNames(folder, between(random, 0, this.#pending.get(folder).length));
    }
    this.#pending.clear();
    for (const file of this.#all) file.lose(random);
    rmSync(this.#folder, { recursive: true });
    mkdirSync(this.#folder);
    const paths = [...this.#names.keys()].toSorted((one, other) => one.length - other.length);
    for (const path of paths) {
      const [file, above] = [this.#names.get(path), dirname(path)];
      if (path === this.#folder || statSync(above, { throwIfNoEntry: false }) === undefined) continue;
      if (file === undefined) mkdirSync(path);
      else writeFileSync(path, file.content);
    }
  }
}
