// Files and standard input as bytes: opened, unpacked, followed.
//
// Invariant: offsets are of the unpacked bytes. A file that is packed later has the same ones.
import { spawn } from "node:child_process";
import { createReadStream, promises as files } from "node:fs";
import { PassThrough, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import zlib from "node:zlib";
import bzip2 from "unbzip2-stream";
import { EXIT, Failure } from "../outcome.mjs";

const STDIN = "-";
const READ_BYTES = 256 * 1024;
const FOLLOW_POLL_MS = 250;

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

// Node has zstd from 22.15; before that the program does it.
function zstd(input, name) {
  if (zlib.createZstdDecompress !== undefined) return frames(input);
  const child = spawn("zstd", ["--decompress", "--stdout", "--quiet"], { stdio: ["pipe", "pipe", "inherit"] });
  const failed = () => new Failure(EXIT.failed, `${name} is packed by zstd: install the program zstd, or use Node 22.15 or later`);
  const out = new PassThrough();
  child.on("error", () => out.destroy(failed()));
  child.on("close", (code) => (code === 0 ? out.end() : out.destroy(failed())));
  child.stdout.pipe(out, { end: false });
  pipeline(Readable.from(input), child.stdin).catch((error) => out.destroy(error));
  return out;
}

// Node's decoder ends with the first frame, and `cat a.zst b.zst` makes two: what it left goes to the next decoder.
async function* frames(input) {
  const chunks = input[Symbol.asyncIterator]();
  let rest = Buffer.alloc(0);
  let isLast = false;
  while (!isLast) {
    const decoder = zlib.createZstdDecompress();
    const feed = async () => {
      for (;;) {
        const { done, value } = rest.length > 0 ? { value: rest } : await chunks.next();
        rest = Buffer.alloc(0);
        if (done) {
          isLast = true;
          return void decoder.end();
        }
        const before = decoder.bytesWritten;
        await new Promise((next) => {
          decoder.once("close", next);
          decoder.write(value, () => (decoder.off("close", next), next()));
        });
        rest = value.subarray(decoder.bytesWritten - before);
        if (rest.length > 0 || decoder.destroyed) return;
      }
    };
    const fed = feed().catch((error) => decoder.destroy(error));
    yield* decoder;
    await fed;
  }
}

async function* unpacked(input, kind, name) {
  if (kind === undefined) return yield* input;
  if (kind === "xz" || kind === "zip") {
    throw new Failure(EXIT.failed, `${name} is packed by ${kind}: unpack it, and give it by standard input: ${kind === "xz" ? "xz -dc" : "unzip -p"} ${name} | tally import -`);
  }
  try {
    yield* { gzip: gunzipped, bzip2: bunzipped, zstd }[kind](input, name);
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new Failure(EXIT.partly, `${name} is damaged, or not whole (${error.message}): what was read up to there is counted`);
  }
}

function gunzipped(input) {
  const out = zlib.createGunzip();
  pipeline(Readable.from(input), out).catch((error) => out.destroy(error));
  return out;
}

function bunzipped(input) {
  const stream = bzip2();
  const out = fromOldStream(stream);
  pipeline(Readable.from(input), stream).catch((error) => out.destroy(error));
  return out;
}

// A stream of the first kind, which has no iterator.
function fromOldStream(stream) {
  const out = new PassThrough();
  stream.on("data", (chunk) => out.write(chunk) || (stream.pause(), out.once("drain", () => stream.resume())));
  stream.on("end", () => out.end());
  stream.on("error", (error) => out.destroy(error instanceof Error ? error : new Error(String(error))));
  return out;
}

/**
 * Opens a file, or standard input for `-`. Resolves to `{ name, bytes, kind, read, chunks(), close() }`: its size as it
 * lies there (undefined where nobody knows), how it is packed, how much of that was read so far, and its unpacked
 * bytes.
 */
export async function open(name) {
  if (name === STDIN) {
    const source = { name: "standard input", bytes: undefined, kind: undefined, read: 0, close: async () => {} };
    source.chunks = () => counted(process.stdin, source);
    return source;
  }
  let handle;
  try {
    handle = await files.open(name);
  } catch (error) {
    throw new Failure(error.code === "ENOENT" ? EXIT.notFound : EXIT.failed, `${name} cannot be read (${error.code})`);
  }
  const { size, ino } = await handle.stat();
  const { buffer } = await handle.read(Buffer.alloc(8), 0, 8, 0);
  const source = { name, bytes: size, kind: packing(buffer), read: 0, ino, handle, close: () => handle.close() };
  source.chunks = (from = 0) => {
    const start = source.kind === undefined ? from : 0;
    return counted(
      createReadStream(name, { fd: handle, autoClose: false, start, highWaterMark: READ_BYTES }), source, start,
    );
  };
  return source;
}

// Yields unpacked bytes, and keeps how many bytes of the source were read.
async function* counted(stream, source, start = 0) {
  source.read = start;
  const taken = (async function* () {
    for await (const chunk of stream) {
      source.read += chunk.length;
      yield chunk;
    }
  })();
  const first = await taken.next();
  if (first.done) return;
  const whole = (async function* () {
    yield first.value;
    yield* taken;
  })();
  yield* unpacked(whole, start === 0 ? packing(first.value) : undefined, source.name);
}

/**
 * Yields what is appended to an unpacked file, from an offset on, until the signal. Between two pieces it yields
 * `undefined` whenever all is read for now. It returns once the file has been replaced (it was renamed, or became
 * shorter) and all of the old one is read.
 */
export async function* appended(source, from, signal) {
  let offset = from;
  const buffer = Buffer.alloc(READ_BYTES);
  const readAll = async function* () {
    for (;;) {
      const { bytesRead } = await source.handle.read(buffer, 0, buffer.length, offset);
      if (bytesRead === 0) return;
      offset += bytesRead;
      source.read = offset;
      yield Buffer.from(buffer.subarray(0, bytesRead));
    }
  };
  for (;;) {
    yield* readAll();
    yield undefined;
    if (signal.aborted) return;
    const now = await files.stat(source.name).catch(() => undefined);
    const isCut = (await source.handle.stat()).size < offset;
    if (isCut || (now !== undefined && now.ino !== source.ino)) {
      // What was written to the old one between the last read and the rename.
      yield* readAll();
      return;
    }
    // The listener goes with the pause: a log may be followed for months.
    await new Promise((done) => {
      const end = () => (clearTimeout(timer), signal.removeEventListener("abort", end), done());
      const timer = setTimeout(end, FOLLOW_POLL_MS);
      signal.addEventListener("abort", end);
    });
  }
}
