// Files and standard input as bytes: opened, unpacked, followed.
//
// Invariant: offsets are of the unpacked bytes. A file that is packed later has the same ones.
import { constants, createReadStream, openSync, promises as files } from "node:fs";
import { Socket } from "node:net";
import { resolve } from "node:path";
import zlib from "node:zlib";
import bzip2 from "unbzip2-stream";
import { EXIT, Failure } from "../outcome.mjs";
import { call } from "./wasm.mjs";

/** The name of standard input. */
export const STDIN = "-";
const READ_BYTES = 256 * 1024;
// What is unpacked at once: a thousand times as much comes out of it at most.
const UNPACK_BYTES = 16 * 1024;
const FOLLOW_POLL_MS = 250;
// So long nothing comes through a pipe before what it has brought is sent.
const PIPE_IDLE_MS = 1_000;
// So long a file that was renamed is read on: a server opens the new one once logrotate has done all of its files, and
// those of Apache's processes that end "gracefully" write to the old one until their requests are answered.
const LATE_MS = 60_000;
// A file is known again by so many bytes before an offset.
const TAIL_BYTES_MAX = 4_096;
/** Returns how bytes are packed, by the first of them; undefined where they are not. */
export const packing = (head) => call("packing", {}, head.subarray(0, 8)).json ?? undefined;

// Each takes bytes, calls `out` with what they hold, and rejects where they are damaged, or end too early.
const UNPACKERS = {
  undefined: (out) => async (bytes) => out(bytes),
  gzip: (out) => members("gzip", () => zlib.createInflateRaw(), 8, out),
  // The decoder compares the checksum itself.
  zstd: (out) => members("zstd", () => zlib.createZstdDecompress(), 0, out),
  bzip2: (out) => {
    let failure;
    // The decoder reads behind the end of what was cut, and fails as a program does.
    const why = (error) => (error instanceof TypeError ? new Error("unexpected end") : error);
    const stream = bzip2().on("data", out).on("error", (error) => (failure ??= why(error)));
    return async (bytes, isLast) => {
      if (isLast) stream.end();
      else stream.write(bytes);
      if (failure !== undefined) throw failure;
    };
  },
};

// What has members, which `cat a.gz b.gz` puts one behind the other. Behind each come `tail` bytes: gzip's checksum and
// the size.
function members(kind, decoder, tail, out) {
  let rest = Buffer.alloc(0);
  let [one, isFirst] = [undefined, true];
  return async (bytes, isLast) => {
    rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes]);
    for (;;) {
      // Tapes end in zeros.
      if (one === undefined && !isFirst && rest.every((byte) => byte === 0)) rest = rest.subarray(rest.length);
      const begin = one === undefined && rest.length > 0 ? call("member", { kind }, rest).json : 0;
      if (begin === -1) throw new Error(isFirst ? "its head is damaged" : "other bytes follow what is packed");
      if (one === undefined && rest.length > 0 && begin !== null) one = inflating(decoder(), out);
      if (one !== undefined) rest = rest.subarray(begin + (await one.push(rest.subarray(begin), isLast)));
      if (!one?.isOver || rest.length < tail) {
        if (isLast && (one !== undefined || rest.length > 0)) throw new Error("unexpected end");
        return;
      }
      const isSame = tail === 0 || (rest.readUInt32LE(0) === one.sum && rest.readUInt32LE(4) === one.size % 2 ** 32);
      if (!isSame) throw new Error("its checksum is another one");
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
  let next;
  const write = (some) => new Promise((done) => ((next = done), stream.write(some, done)));
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
    const before = stream.bytesWritten;
    if (!one.isOver && bytes.length > 0) await write(bytes);
    const taken = stream.errored === null ? stream.bytesWritten - before : 0;
    if (!one.isOver && isLast && failure === undefined) await write(Buffer.alloc(1));
    if (failure !== undefined) throw failure;
    return taken;
  };
  return one;
}

// Yields the bytes that a stream holds, and keeps how many of its own were read.
async function* unpacked(stream, source, start) {
  const { name } = source;
  const ready = [];
  let [unpack, step] = [];
  source.read = start;
  try {
    // A stream that is destroyed closes the file, which is read on.
    for await (const chunk of stream.iterator({ destroyOnReturn: false })) {
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
    const why = error.message ?? error;
    throw new Failure(EXIT.partly, `${name} is damaged or cut (${why}): the part that could be read is counted; import it again once it is complete`);
  }
  yield* ready;
}

/**
 * Opens a file, or standard input for `-`. Resolves to `{ name, path, dev, ino, bytes, kind, isPlain, handle, read,
 * chunks(from), close() }`: where it is (of files alone), its size there, how it is packed, whether it can be read from
 * any offset on, how much of it was read so far, and its unpacked bytes.
 */
export async function open(name) {
  const source = { name: name === STDIN ? "standard input" : name, read: 0, close: async () => {} };
  if (name === STDIN) {
    const close = async () => process.stdin.destroy();
    return Object.assign(source, { chunks: () => unpacked(process.stdin, source, 0), close });
  }
  try {
    const handle = (source.handle = await files.open(name));
    source.close = () => handle.close();
    const stat = await handle.stat();
    if (stat.isDirectory()) throw Object.assign(new Error("a folder"), { code: "a folder: name the files in it" });
    const options = { fd: handle, autoClose: false, highWaterMark: READ_BYTES };
    const stream = (start) => createReadStream(name, { ...options, start });
    // A pipe has a name too, and no offsets. Node cannot end with a read of it that waits, but of a socket it can.
    if (stat.isFIFO()) {
      const pipe = new Socket({ fd: openSync(name, constants.O_RDONLY | constants.O_NONBLOCK), writable: false });
      await handle.close();
      const close = async () => pipe.destroy();
      return Object.assign(source, { chunks: () => unpacked(pipe, source, 0), close });
    }
    if (!stat.isFile()) return Object.assign(source, { chunks: () => unpacked(stream(), source, 0) });
    const { buffer } = await handle.read(Buffer.alloc(8), 0, 8, 0);
    const chunks = (from = 0) => unpacked(stream(from), source, from);
    const about = { path: resolve(name), dev: String(stat.dev), ino: String(stat.ino), bytes: stat.size };
    return Object.assign(source, { ...about, kind: packing(buffer), isPlain: packing(buffer) === undefined, chunks });
  } catch (error) {
    await source.close();
    const exit = error.code === "ENOENT" ? EXIT.notFound : EXIT.failed;
    throw new Failure(exit, `${name} cannot be read (${error.code ?? error.message})`);
  }
}

// Resolves as `next` does, or to undefined after a while or at the signal.
const soon = (next, signal) => new Promise((resolve, reject) => {
  const end = () => resolve(undefined);
  const timer = setTimeout(end, PIPE_IDLE_MS);
  signal.addEventListener("abort", end);
  const settle = (answer) => (value) => {
    clearTimeout(timer);
    signal.removeEventListener("abort", end);
    answer(value);
  };
  next.then(settle(resolve), settle(reject));
});

/** Yields the chunks of a pipe, and `undefined` whenever no more come for now. It ends at the signal, after that. */
export async function* piped(chunks, signal) {
  let next;
  while (!signal.aborted) {
    const one = await soon((next ??= chunks.next()), signal);
    if (one?.done) return;
    if (one !== undefined) next = undefined;
    yield one?.value;
  }
}

/**
 * Yields what is appended to an unpacked file, from an offset on, until the signal. `before`: the bytes before that
 * offset, which must still be there. Between two pieces it yields `undefined` whenever all is read for now. Once
 * another file has taken its place, it calls `onReplaced`, and returns when nothing was appended for a minute by
 * `now()`. It returns at once when the file was cut.
 */
export async function* appended(source, from, { before, signal, sleep, now, onReplaced }) {
  let offset = from;
  let tail = before;
  let last;
  let late_ms;
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
    const there = late_ms === undefined ? await files.stat(source.name).catch(() => ({ size: 0 })) : source;
    const isReplaced = there.size > 0 && `${there.dev} ${there.ino}` !== `${source.dev} ${source.ino}`;
    const { size, mtimeMs, ctimeMs } = await source.handle.stat();
    const look = `${size} ${mtimeMs} ${ctimeMs}`;
    for (let isMore = look !== last || size !== offset; isMore; ) {
      const fresh = await next();
      if (fresh === undefined) return;
      if ((isMore = fresh.length > 0)) yield fresh;
      if (isMore && late_ms !== undefined) late_ms = now();
    }
    last = look;
    yield undefined;
    if (isReplaced) {
      late_ms = now();
      onReplaced();
    }
    if (signal.aborted || now() - late_ms > LATE_MS) return;
    await sleep(FOLLOW_POLL_MS);
  }
}
