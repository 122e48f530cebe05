// What answers the questions of an import (crates/tally-import/src/host.rs): notes as files, bytes of what is open,
// hashes, and expressions of the caller's.
import { createHash, randomUUID } from "node:crypto";
import {
  closeSync, existsSync, openSync, readFileSync, readSync, readdirSync, rmSync, statSync, truncateSync,
} from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, join } from "node:path";
import { appendPrivate, makeFolder, tighten, writePrivate } from "../../../scripts/private-files.mjs";

const SIBLINGS_MAX = 10_000;
const NOTE = ".ndjson";
const VERSIONS = "versions.json";

const home = ({ TALLY_STATE, XDG_STATE_HOME } = process.env) =>
  TALLY_STATE || join(XDG_STATE_HOME || join(homedir(), ".local", "state"), "tally");
const digest = (bytes) => createHash("sha256").update(bytes).digest("base64url").slice(0, 32);
const text = (string) => ({ bytes: Buffer.from(string) });
const utf8 = new TextDecoder();

/** What answers those who only need hashes. */
export const hashing = { digest: (_, bytes) => text(digest(bytes)) };

/** Returns the bytes of a file before an offset; undefined where it does not have as many. */
function tailOf(fd, end, length) {
  const buffer = Buffer.alloc(length);
  return end >= length && readSync(fd, buffer, 0, length, end - length) === length ? buffer : undefined;
}

// The file of a device and an inode: where it lies now, at `path` or beside it under another name, its first bytes, and
// those before an offset.
function neighbor([path, dev, ino, end, length]) {
  const folder = dirname(path);
  const names = existsSync(folder) ? readdirSync(folder).slice(0, SIBLINGS_MAX) : [];
  const place = [basename(path), ...names].map((name) => join(folder, name)).find((one) => {
    const stat = statSync(one, { throwIfNoEntry: false });
    return String(stat?.dev) === dev && String(stat?.ino) === ino;
  });
  if (place === undefined) return undefined;
  const fd = openSync(place);
  try {
    const bytes = tailOf(fd, end, length);
    return { json: { path: place, head: [...(tailOf(fd, 8, 8) ?? [])], hasTail: bytes !== undefined }, bytes };
  } finally {
    closeSync(fd);
  }
}

// Works with notes. No other file goes on where that fails, so it is no Failure.
function noting(folder, isBegun, work) {
  try {
    return work();
  } catch (error) {
    const why = `notes cannot be kept in ${folder} (${error.code ?? error.message}). They say which lines are counted, so that no line counts twice`;
    const what = isBegun
      ? "make room there, or let this user write there, and run the same command again within a day: lines that have counted without a note count once then"
      : "let this user write there, or set TALLY_STATE to another folder";
    throw new Error(`${why}: ${what}`);
  }
}

// What cannot be appended in full leaves nothing: behind a piece of a line the next one could not be read.
function append(path, text) {
  try {
    appendPrivate(path, text);
  } catch (error) {
    if (existsSync(path)) truncateSync(path, readFileSync(path).lastIndexOf("\n") + 1);
    throw error;
  }
}

/**
 * Returns what answers an import: with the notes of one deployment and one way of counting (`target`: the ids that it
 * leads to). `fdOf` returns the descriptor of an open source, by its number. Besides that, `folder` is where the notes
 * are, and `versions()` and `keepVersions(versions)` read and write how far counters were, by their ids.
 */
export function hostOf(base, target, fdOf, note) {
  const folder = join(home(), "imports", digest(`${base}\n${target}`).slice(0, 16));
  noting(folder, false, () => {
    makeFolder(folder);
    // Notes of earlier versions name files and counters to everybody.
    tighten(home(), ["imports"]);
  });
  const kept = (work) => (...words) => noting(folder, true, () => work(...words));
  const versions = join(folder, VERSIONS);
  const pathOf = (name) => join(folder, `${name}${NOTE}`);
  return {
    ...hashing,
    note: ([said]) => note(said),
    unique: () => text(randomUUID()),
    rewrite: ([rules], bytes) =>
      text(rules.reduce((path, [pattern, put]) => path.replace(new RegExp(pattern), put), utf8.decode(bytes))),
    folder,
    versions: kept(() => (existsSync(versions) ? JSON.parse(readFileSync(versions, "utf8")) : {})),
    keepVersions: kept((text) => writePrivate(versions, JSON.stringify(text))),
    names: kept(() => ({
      json: readdirSync(folder).filter((name) => name.endsWith(NOTE)).map((name) => name.slice(0, -NOTE.length)),
    })),
    read: kept(([name]) => ({ bytes: readFileSync(pathOf(name)) })),
    write: kept(([name], bytes) => writePrivate(pathOf(name), utf8.decode(bytes))),
    append: kept(([name], bytes) => append(pathOf(name), utf8.decode(bytes))),
    remove: kept(([name]) => rmSync(pathOf(name), { force: true })),
    tail: ([source, end, length]) => {
      const bytes = tailOf(fdOf(source), end, length);
      return { json: bytes !== undefined, bytes };
    },
    neighbor,
  };
}
