// Bytes as parts of whole lines. A part is what is sent, and counted once, under one key.
//
// Invariant: where parts end depends on the bytes alone, not on how they arrive: so a repeat makes the same parts, and
// the same keys.
import { createHash } from "node:crypto";
import { EXIT, Failure } from "../outcome.mjs";

/** A body has at most 32 MiB (BULK_BYTES_MAX), and a line of a log grows to twice its size in it. */
export const PART_BYTES_MAX = 4 * 1024 * 1024;
/**
 * Sums of more lines might take more than a section of a body (SECTION_BYTES_MAX): 10,000 × some 800 bytes are 8 MB.
 */
export const PART_LINES_MAX = 10_000;
const NEWLINE = 10;

// Returns where the first part of these bytes ends; undefined where more bytes are needed to know.
function endOf(bytes, isLast) {
  const most = Math.min(bytes.length, PART_BYTES_MAX);
  let end = 0;
  for (let lines = 0; lines < PART_LINES_MAX; lines += 1) {
    const at = bytes.indexOf(NEWLINE, end);
    if (at === -1 || at >= most) {
      if (bytes.length >= PART_BYTES_MAX) {
        if (end > 0) return end;
        if (at !== -1) return at + 1;
        if (bytes.length > 4 * PART_BYTES_MAX) {
          throw new Failure(EXIT.failed, "a line has more than 16 MiB: this is no log");
        }
      }
      return isLast && end > 0 ? end : undefined;
    }
    end = at + 1;
  }
  return end;
}

/**
 * Yields `{ start, end, bytes }` for the chunks of a source, from the offset `start` on: whole lines. A chunk
 * `undefined` says that no more comes soon: the whole lines so far are a part then. `boundaries`: ends that parts must
 * have, which an earlier run has sent. `isClosed` returns whether the source has ended for good: then the last line
 * needs no newline, and else it is left out, because whoever writes it has not ended it.
 *
 * A file that was cut under a program that goes on at its old place begins with a hole of zeros: no part has them.
 */
export async function* parts(chunks, start, boundaries = [], isClosed = () => true) {
  let rest = Buffer.alloc(0);
  let offset = start;
  const wanted = boundaries.filter((end) => end > start).sort((one, other) => one - other);
  const part = (length) => {
    const taken = { start: offset, end: offset + length, bytes: rest.subarray(0, length) };
    offset += length;
    rest = rest.subarray(length);
    return taken;
  };
  const take = function* (isLast) {
    for (;;) {
      const zeros = rest[0] === 0 ? rest.findIndex((byte) => byte !== 0) : 0;
      part(zeros === -1 ? rest.length : zeros);
      while (wanted.length > 0 && wanted[0] <= offset) wanted.shift();
      const isKnown = wanted.length > 0 && offset + rest.length >= wanted[0];
      const end = isKnown ? wanted[0] - offset : wanted.length === 0 || isLast ? endOf(rest, isLast) : undefined;
      if (end === undefined) return;
      yield part(end);
    }
  };
  let failure;
  try {
    for await (const chunk of chunks) {
      if (chunk !== undefined) rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      yield* take(chunk === undefined);
    }
  } catch (error) {
    // What could be read before that is a part all the same.
    failure = error;
  }
  yield* take(true);
  if (failure !== undefined) throw failure;
  if (rest.length > 0 && isClosed()) yield part(rest.length);
}

/** Returns a short hash of texts and bytes. */
export function digest(...pieces) {
  const hash = createHash("sha256");
  for (const piece of pieces) hash.update(piece);
  return hash.digest("base64url").slice(0, 32);
}

/**
 * Returns the `Idempotency-Key` of a part: of what the file begins with, where the part lies in it, what it holds, and
 * `salt`, which lines of it were counted before among it.
 */
export const keyOf = (file, part, salt = "") => `import-${digest(`${file}\n${part.start}\n${salt}\n`, part.bytes)}`;
