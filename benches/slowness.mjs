// How slow the machine is just now, by two things that never change: so much arithmetic on one core, and durable
// writes.
//
//   node benches/slowness.mjs [folder of the data]
//
// prints both, for figures of benchmarks that this project does not run itself.
import { closeSync, fsyncSync, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { median, slownessSentence } from "./report.mjs";

// About 100 ms on the machine of BENCHMARKS.md.
const ROUNDS = 50_000_000;
const CPU_SAMPLES = 3;
const FSYNC_SAMPLES = 50;
// One page of SQLite.
const PAGE_BYTES = 4_096;

// The rounds of a generator of random numbers (xorshift32). Each needs the one before, so no optimisation shortens
// them.
function work() {
  let state = 1;
  for (let round = 0; round < ROUNDS; round += 1) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
  }
  return state;
}

function timed(samples, work) {
  return Array.from({ length: samples }, () => {
    const began = performance.now();
    work();
    return performance.now() - began;
  });
}

// The median time of one durable write in a folder: the least that a durable answer costs there.
function fsyncMilliseconds(folder) {
  const path = join(folder, "fsync");
  const file = openSync(path, "w");
  const page = Buffer.alloc(PAGE_BYTES);
  const samples = timed(FSYNC_SAMPLES, () => {
    writeSync(file, page);
    fsyncSync(file);
  });
  closeSync(file);
  rmSync(path);
  return median(samples);
}

/**
 * Returns {cpu_ms, fsync_ms}: the fixed arithmetic, and a durable write under `folder`. Cost: 0.4 s, and 50 such
 * writes.
 */
export function slowness(folder) {
  return { cpu_ms: median(timed(CPU_SAMPLES, work)), fsync_ms: fsyncMilliseconds(folder) };
}

if (process.argv[1] === import.meta.filename) {
  const folder = process.argv[2] ?? "bench-out";
  mkdirSync(folder, { recursive: true });
  console.log(slownessSentence([slowness(folder)]));
}
