// The databases of objects, of a world with a folder: for specs that look into them, or write what no call would.
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { CLASSES } from "./classes.mjs";

/** Where the databases of a class are. */
export function objectFolder(folder, className) {
  const binding = Object.keys(CLASSES).find((name) => CLASSES[name] === className);
  const platform = join(folder, "do");
  const served = join(folder, "data/objects");
  if (existsSync(served)) return join(served, `tally-${className.toLowerCase()}-v1`);
  if (!existsSync(platform)) return join(folder, binding);
  // Objects are in a folder of the Worker that defines them.
  const folders = ["tally-aggregator", "tally-edge"].map((worker) => join(platform, `${worker}-${className}`));
  return folders.find(existsSync) ?? folders[0];
}

/** Returns the paths of the databases of all objects of a class that have written something. */
export function databasesOf(folder, className) {
  const objects = objectFolder(folder, className);
  const names = readdirSync(objects).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name));
  // One may be gone since the folder was read: that is what some specs wait for.
  const isWritten = (path) => (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0;
  return names.map((name) => join(objects, name)).filter(isWritten);
}

/** Returns what `work` returns of a database. options: those of `DatabaseSync`. */
export function withDatabase(path, work, options = {}) {
  const database = new DatabaseSync(path, options);
  try {
    return work(database);
  } finally {
    database.close();
  }
}

/** The bytes before a stored body: the version of its form, 0, and a checksum. */
export const FRAME_BYTES = 6;
const [VERSION, VERSION_BIT] = [1, 0x80];

/** A body as it is stored, in the first version of its form (crates/tally-wire/src/stored.rs). */
export function framed(body) {
  const frame = Buffer.from([VERSION_BIT | VERSION, 0, 0, 0, 0, 0]);
  frame.writeUInt32LE(xxh32(Buffer.from(body), VERSION), 2);
  return Uint8Array.from(Buffer.concat([frame, Buffer.from(body)]));
}

const PRIMES = [2_654_435_761, 2_246_822_519, 3_266_489_917, 668_265_263, 374_761_393];
const rotated = (number, bits) => (number << bits) | (number >>> (32 - bits));
const round = (lane, input) => Math.imul(rotated(lane + Math.imul(input, PRIMES[1]), 13), PRIMES[0]);

// XXH32. Source: the specification of xxHash, "XXH32 algorithm description".
function xxh32(bytes, seed) {
  let at = 0;
  let hash = seed + PRIMES[4];
  if (bytes.length >= 16) {
    const lanes = [seed + PRIMES[0] + PRIMES[1], seed + PRIMES[1], seed, seed - PRIMES[0]].map((lane) => lane | 0);
    for (; at + 16 <= bytes.length; at += 16) {
      lanes.forEach((lane, index) => (lanes[index] = round(lane, bytes.readInt32LE(at + 4 * index))));
    }
    hash = [1, 7, 12, 18].reduce((sum, bits, index) => (sum + rotated(lanes[index], bits)) | 0, 0);
  }
  hash = (hash + bytes.length) | 0;
  for (; at + 4 <= bytes.length; at += 4) {
    hash = Math.imul(rotated(hash + Math.imul(bytes.readInt32LE(at), PRIMES[2]), 17), PRIMES[3]);
  }
  for (; at < bytes.length; at += 1) {
    hash = Math.imul(rotated(hash + Math.imul(bytes[at], PRIMES[4]), 11), PRIMES[0]);
  }
  hash = Math.imul(hash ^ (hash >>> 15), PRIMES[1]);
  hash = Math.imul(hash ^ (hash >>> 13), PRIMES[2]);
  return (hash ^ (hash >>> 16)) >>> 0;
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
