// `make bench-export`: an export of many counters in 64 tablets streams, and the longest time between two pieces of it.
//
//   COUNTERS=1000000 make bench-export
//
// Invariant: the export is whole, has all counters, and its checksum is that of its bytes; else the run fails.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { crc32 } from "node:zlib";
import { BenchError } from "./load.mjs";
import { startTally } from "./servers.mjs";

const OUT = fileURLToPath(new URL("../bench-out", import.meta.url));
const VARIABLES = { TALLY_TABLETS: "64" };
const BODY_EVENTS = 50_000;
const PAUSE_MS_MAX = 2_000;
// The last line is shorter.
const TAIL_BYTES = 4_096;

const COUNTERS = Number(process.env.COUNTERS ?? 1_000_000);
if (!Number.isSafeInteger(COUNTERS) || COUNTERS < 1) throw new BenchError("COUNTERS must be a whole number from 1");

async function fill(url) {
  for (let from = 0; from < COUNTERS; from += BODY_EVENTS) {
    const ids = Array.from({ length: Math.min(BODY_EVENTS, COUNTERS - from) }, (_, index) => `page/${from + index}`);
    const body = ids.map((key, index) => JSON.stringify({ id: key, unique: `visitor ${index % 97}` })).join("\n");
    const answer = await fetch(`${url}/events`, { method: "POST", body });
    const { accepted } = await answer.json();
    if (accepted !== ids.length) throw new BenchError(`${accepted} of ${ids.length} new counters were counted`);
  }
}

/**
 * Streams an export. Resolves to {seconds, bytes, first_ms, pause_ms}: until the first piece, and the longest time
 * between two.
 */
function stream(url, query) {
  return new Promise((done, failed) => {
    const began = performance.now();
    let [last, first_ms, pause_ms, bytes, checksum] = [began, undefined, 0, 0, 0];
    let tail = Buffer.alloc(0);
    const clientRequest = request(`${url}/export?${query}`, (answer) => {
      if (answer.statusCode !== 200) return failed(new BenchError(`GET /export answers ${answer.statusCode}`));
      answer.on("data", (piece) => {
        const now = performance.now();
        first_ms ??= now - began;
        pause_ms = Math.max(pause_ms, now - last);
        last = now;
        bytes += piece.length;
        // What may be of the last line is not summed yet.
        const held = Buffer.concat([tail, piece]);
        const sure = Math.max(0, held.length - TAIL_BYTES);
        checksum = crc32(held.subarray(0, sure), checksum);
        tail = held.subarray(sure);
      });
      answer.on("error", failed);
      answer.on("end", () => {
        const end = tail.lastIndexOf(10, tail.length - 2) + 1;
        const summary = JSON.parse(tail.subarray(end).toString());
        const sum = crc32(tail.subarray(0, end), checksum).toString(16).padStart(8, "0");
        if (!summary.end || !summary.complete || summary.counters !== COUNTERS || summary.checksum !== `crc32:${sum}`) {
          return failed(new BenchError(`the export ends ${JSON.stringify(summary)}, and its bytes make crc32:${sum}`));
        }
        done({ seconds: (performance.now() - began) / 1_000, bytes, first_ms, pause_ms });
      });
    });
    clientRequest.on("error", failed);
    clientRequest.end();
  });
}

const figure = (number, digits = 0) =>
  number.toLocaleString("en-US", { maximumFractionDigits: digits, minimumFractionDigits: digits });

async function main() {
  mkdirSync(OUT, { recursive: true });
  const folder = mkdtempSync(join(process.env.BENCH_DATA ?? OUT, "export-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(1));
  const server = await startTally(join(folder, "data"), { variables: VARIABLES });
  let isSlow = false;
  try {
    const [url] = server.urls;
    const began = performance.now();
    await fill(url);
    console.log(`export: ${figure(COUNTERS)} counters in ${VARIABLES.TALLY_TABLETS} tablets, written in ${figure((performance.now() - began) / 1_000, 1)} s`);
    for (const query of ["", "history=1&uniques=1"]) {
      const { seconds, bytes, first_ms, pause_ms } = await stream(url, query);
      isSlow ||= pause_ms > PAUSE_MS_MAX;
      console.log(
        `export: /export?${query}: ${figure(seconds, 1)} s, ${figure(COUNTERS / seconds)} counters/s, ${figure(bytes / 1e6, 1)} MB; first piece after ${figure(first_ms)} ms, ` +
          `longest pause ${figure(pause_ms)} ms (≤ ${figure(PAUSE_MS_MAX)})`,
      );
    }
  } finally {
    await server.end();
  }
  if (isSlow) throw new BenchError(`a pause was longer than ${PAUSE_MS_MAX} ms`);
}

main().catch((error) => {
  if (!(error instanceof BenchError)) throw error;
  console.error(`export: ${error.message}`);
  process.exitCode = 1;
});
