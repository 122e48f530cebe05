// Files and standard input as bytes: opened, unpacked, followed.
//
// Invariant: offsets are of the unpacked bytes. A file that is packed later has the same ones.
import { createReadStream, promises as files } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import zlib from "node:zlib";
import bzip2 from "unbzip2-stream";
import { EXIT, Failure } from "../outcome.mjs";

const STDIN = "-";
const READ_BYTES = 256 * 1024;
// What is unpacked at once: a thousand times as much comes out of it at most.
const UNPACK_BYTES = 16 * 1024;
const FOLLOW_POLL_MS = 250;
/** A file is known again by so many bytes before an offset. */
export const TAIL_BYTES_MAX = 4_096;
const SIBLINGS_MAX = 10_000;

const MAGIC = [
  ["gzip", [0x1f, 0x8b]],
  ["zstd", [0x28, 0xb5, 0x2f, 0xfd]],
  ["bzip2", [0x42, 0x5a, 0x68]],
  ["xz", [0xfd, 0x37, 0x7a, 0x58]],
  ["zip", [0x50, 0x4b, 0x03, 0x04]],
];

/** Returns how bytes are packed, by the first of them; undefined where they are not. */
export function packing(head) {
  return MAGIC.find(([, bytes]) => bytes.every((byte, at) => head[at] === byte))?.[0];
}

// What is packed in members, which `cat a.gz b.gz` puts one behind the other. `head` returns how many bytes stand
// before what a member packs: -1 where none begins, undefined where more bytes say. Behind it come `tail` bytes, which
// `check` compares.
const MEMBERS = {
  gzip: {
    open: () => zlib.createInflateRaw(), head: headOfGzip, tail: 8,
    check: (tail, sum, size) => tail.readUInt32LE(0) === sum && tail.readUInt32LE(4) === size % 2 ** 32,
  },
  // The decoder compares the checksum.
  zstd: {
    open: () => zlib.createZstdDecompress(), tail: 0, check: () => true,
    head: (bytes) => (bytes.length < 4 ? undefined : packing(bytes) === "zstd" || isSkippable(bytes) ? 0 : -1),
  },
};
const isSkippable = (bytes) => bytes.readUInt32LE(0) >>> 4 === 0x184d2a5;

// Source: RFC 1952, section 2.3.
function headOfGzip(bytes) {
  if (bytes.some((byte, at) => at < 3 && byte !== [0x1f, 0x8b, 8][at])) return -1;
  const flags = bytes[3];
  let end = 10 + (flags & 4 ? 2 + (bytes[10] ?? 0) + 256 * (bytes[11] ?? 0) : 0);
  // The name, and a comment, each with a zero behind it.
  for (const flag of [8, 16]) if (flags & flag) end = (bytes.indexOf(0, end) + 1 || Infinity);
  if (flags & 2) end += 2;
  return end < bytes.length ? end : undefined;
}

// Each takes bytes, calls `out` with what they hold, and rejects where they are damaged, or end too early.
const UNPACKERS = {
  undefined: (out) => async (bytes) => out(bytes),
  gzip: (out) => members(MEMBERS.gzip, out),
  zstd: (out) => members(MEMBERS.zstd, out),
  bzip2: (out) => {
    const stream = bzip2().on("data", out);
    let failure;
    stream.on("error", (error) => (failure ??= error));
    return async (bytes, isLast) => {
      if (isLast) stream.end();
      else stream.write(bytes);
      if (failure !== undefined) throw failure;
    };
  },
};

function members({ open: openOne, head, tail, check }, out) {
  let rest = Buffer.alloc(0);
  let one;
  let isFirst = true;
  return async (bytes, isLast) => {
    rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes]);
    for (;;) {
      if (one === undefined) {
        // Tapes end in zeros.
        if (!isFirst && rest.every((byte) => byte === 0)) rest = rest.subarray(rest.length);
        const begin = rest.length === 0 ? undefined : head(rest);
        if (begin === -1) throw new Error(isFirst ? "its head is damaged" : "other bytes follow what is packed");
        if (begin === undefined && isLast && rest.length > 0) throw new Error("unexpected end");
        if (begin === undefined) return;
        rest = rest.subarray(begin);
        one = inflating(openOne(), out);
      }
      rest = rest.subarray(await one.push(rest, isLast));
      if (!one.isOver || rest.length < tail) {
        if (isLast) throw new Error("unexpected end");
        return;
      }
      if (!check(rest, one.sum, one.size)) throw new Error("its checksum is another one");
      rest = rest.subarray(tail);
      [one, isFirst] = [undefined, false];
    }
  };
}

// One member. `push` resolves to how many of the bytes belong to it. No decoder says that the last byte was its end,
// but none takes one more: that of zstd takes it for the beginning of another frame, and refuses it.
function inflating(stream, out) {
  const one = { sum: 0, size: 0, isOver: false };
  let failure;
  let next = () => {};
  stream.on("data", (bytes) => {
    one.sum = zlib.crc32(bytes, one.sum);
    one.size += bytes.length;
    out(bytes);
  });
  stream.on("error", (error) => {
    if (error.code === "ZSTD_error_prefix_unknown" && one.size > 0) one.isOver = true;
    else failure ??= error;
    next();
  });
  stream.on("end", () => next((one.isOver = true)));
  one.push = async (bytes, isLast) => {
    if (one.isOver) return 0;
    const before = stream.bytesWritten;
    const write = (some) => new Promise((done) => ((next = done), stream.write(some, done)));
    if (bytes.length > 0) await write(bytes);
    const taken = stream.errored === null ? stream.bytesWritten - before : 0;
    if (isLast && !one.isOver && failure === undefined) await write(Buffer.alloc(1));
    if (failure !== undefined) throw failure;
    return taken;
  };
  return one;
}

// Yields the bytes that a stream holds, and keeps how many of its own were read.
async function* unpacked(stream, source, start) {
  const { name } = source;
  const ready = [];
  let unpack;
  let step;
  source.read = start;
  try {
    for await (const chunk of stream) {
      if (unpack === undefined) {
        const kind = start === 0 ? packing(chunk) : undefined;
        step = kind === undefined ? chunk.length : UNPACK_BYTES;
        if (UNPACKERS[kind] === undefined) throw new Failure(EXIT.failed, `${name} is packed by ${kind}: unpack it, and give it by standard input: ${kind === "xz" ? "xz -dc" : "unzip -p"} ${name} | tally import -`);
        unpack = UNPACKERS[kind]((bytes) => ready.push(bytes));
      }
      source.read += chunk.length;
      for (let at = 0; at < chunk.length; at += step) {
        await unpack(chunk.subarray(at, at + step), false);
        yield* ready.splice(0);
      }
    }
    await unpack?.(new Uint8Array(0), true);
  } catch (error) {
    yield* ready.splice(0);
    if (error instanceof Failure) throw error;
    const why = error instanceof TypeError ? "unexpected end" : (error.message ?? error);
    throw new Failure(EXIT.partly, `${name} is damaged or cut (${why}): the part that could be read is counted; import it again once it is complete`);
  }
  yield* ready;
}

/**
 * Opens a file, or standard input for `-`. Resolves to `{ name, path, dev, ino, bytes, kind, read, chunks(from),
 * head(length), tail(end, length), close() }`: where it is (of files alone), its size as it lies there, how it is
 * packed, how much of that was read so far, its unpacked bytes, and of a file its first bytes and those before an
 * offset as they lie there.
 */
export async function open(name) {
  const source = { name: name === STDIN ? "standard input" : name, read: 0, close: async () => {} };
  if (name === STDIN) return Object.assign(source, { chunks: () => unpacked(process.stdin, source, 0) });
  try {
    const handle = (source.handle = await files.open(name));
    source.close = () => handle.close();
    const stat = await handle.stat();
    if (stat.isDirectory()) throw Object.assign(new Error("a folder"), { code: "a folder: name the files in it" });
    const options = { fd: handle, autoClose: false, highWaterMark: READ_BYTES };
    const stream = (start) => createReadStream(name, { ...options, start });
    // A pipe has a name too, and no offsets.
    if (!stat.isFile()) return Object.assign(source, { chunks: () => unpacked(stream(), source, 0) });
    const { buffer } = await handle.read(Buffer.alloc(8), 0, 8, 0);
    const { dev, ino, size: bytes } = stat;
    return Object.assign(source, {
      path: resolve(name), dev, ino, bytes, kind: packing(buffer),
      chunks: (from = 0) => unpacked(stream(from), source, from),
      head: (length) => headOf(handle, length),
      tail: async (end, length) => {
        const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, end - length);
        return bytesRead === length ? buffer : undefined;
      },
    });
  } catch (error) {
    await source.close();
    const exit = error.code === "ENOENT" ? EXIT.notFound : EXIT.failed;
    throw new Failure(exit, `${name} cannot be read (${error.code ?? error.message})`);
  }
}

// The first bytes of a file that are not zeros, and how many zeros stand before them.
async function headOf(handle, length) {
  const buffer = Buffer.alloc(READ_BYTES);
  for (let hole = 0; ; hole += buffer.length) {
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, hole);
    const at = buffer.subarray(0, bytesRead).findIndex((byte) => byte !== 0);
    if (at !== -1) {
      const head = await handle.read(Buffer.alloc(length), 0, length, hole + at);
      return { head: head.buffer.subarray(0, head.bytesRead), hole: hole + at };
    }
    if (bytesRead < buffer.length) return { head: Buffer.alloc(0), hole: hole + bytesRead };
  }
}

/** Returns where the file of a device and an inode lies now: at `path`, or beside it under another name. */
export async function placeOf({ path, dev, ino }) {
  if (path === undefined) return undefined;
  const folder = dirname(path);
  const names = (await files.readdir(folder).catch(() => [])).slice(0, SIBLINGS_MAX);
  for (const name of [basename(path), ...names]) {
    const stat = await files.stat(join(folder, name)).catch(() => undefined);
    if (stat?.dev === dev && stat.ino === ino) return join(folder, name);
  }
  return undefined;
}

/**
 * Yields what is appended to an unpacked file, from an offset on, until the signal. `before`: the bytes before that
 * offset, which must still be there. Between two pieces it yields `undefined` whenever all is read for now. It returns
 * once another file has taken its place and all of the old one is read, or once the file was cut.
 */
export async function* appended(source, from, { before, signal, sleep }) {
  let offset = from;
  let tail = before;
  let last;
  const buffer = Buffer.alloc(TAIL_BYTES_MAX + READ_BYTES);
  // Reads what is new together with what is known: the file may be cut, and grow past its old size, between two looks.
  const next = async () => {
    const { bytesRead } = await source.handle.read(buffer, 0, buffer.length, offset - tail.length);
    if (bytesRead < tail.length || tail.compare(buffer, 0, tail.length) !== 0) return undefined;
    const fresh = Buffer.from(buffer.subarray(tail.length, bytesRead));
    tail = Buffer.from(buffer.subarray(Math.max(0, bytesRead - TAIL_BYTES_MAX), bytesRead));
    source.read = offset += fresh.length;
    return fresh;
  };
  for (;;) {
    const now = await files.stat(source.name).catch(() => undefined);
    const isReplaced = now !== undefined && now.size > 0 && (now.ino !== source.ino || now.dev !== source.dev);
    const { size, mtimeMs, ctimeMs } = await source.handle.stat();
    const look = `${size} ${mtimeMs} ${ctimeMs}`;
    for (let isMore = look !== last || size !== offset; isMore; ) {
      const fresh = await next();
      if (fresh === undefined) return;
      if ((isMore = fresh.length > 0)) yield fresh;
    }
    last = look;
    yield undefined;
    if (signal.aborted || isReplaced) return;
    await sleep(FOLLOW_POLL_MS);
  }
}
