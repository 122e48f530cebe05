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
/** What a file begins with tells it from others. */
export const HEAD_BYTES_MAX = 4_096;
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
      return isLast && bytes.length > 0 ? bytes.length : undefined;
    }
    end = at + 1;
  }
  return end;
}

/**
 * Yields `{ start, end, bytes }` for the chunks of a source, from the offset `start` on. A chunk `undefined` says that
 * no more comes soon: the whole lines so far are a part then. `boundaries`: ends that parts must have, which an earlier
 * run has sent.
 */
export async function* parts(chunks, start, boundaries = []) {
  let rest = Buffer.alloc(0);
  let offset = start;
  const wanted = boundaries.filter((end) => end > start).sort((one, other) => one - other);
  const take = function* (isLast) {
    for (;;) {
      while (wanted.length > 0 && wanted[0] <= offset) wanted.shift();
      let end;
      if (wanted.length > 0) {
        end = offset + rest.length >= wanted[0] ? wanted[0] - offset : isLast ? endOf(rest, true) : undefined;
      } else {
        end = endOf(rest, isLast);
      }
      if (end === undefined) return;
      yield { start: offset, end: offset + end, bytes: rest.subarray(0, end) };
      offset += end;
      rest = rest.subarray(end);
    }
  };
  for await (const chunk of chunks) {
    if (chunk === undefined) {
      yield* take(false);
      const whole = rest.lastIndexOf(NEWLINE) + 1;
      if (whole === 0) continue;
      yield { start: offset, end: offset + whole, bytes: rest.subarray(0, whole) };
      offset += whole;
      rest = rest.subarray(whole);
      continue;
    }
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    yield* take(false);
  }
  yield* take(true);
}

/** Returns what a file is told from others by. */
export function fingerprint(head) {
  return createHash("sha256").update(head.subarray(0, HEAD_BYTES_MAX)).digest("base64url").slice(0, 22);
}

/**
 * Returns the `Idempotency-Key` of a part: of what the file begins with, where the part lies in it, and what it holds.
 */
export function keyOf(file, part, salt = "") {
  const hash = createHash("sha256").update(`${file}\n${part.start}\n${salt}\n`).update(part.bytes).digest("base64url");
  return `import-${hash.slice(0, 32)}`;
}
