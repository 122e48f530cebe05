// What a table of ratios was measured on and with: without it nobody can say why two of them differ.
import { spawnSync } from "node:child_process";
import { closeSync, fsyncSync, openSync, rmSync, writeSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import { join } from "node:path";
import workerd from "workerd";
import { median } from "./report.mjs";

const FSYNC_SAMPLES = 50;
// One page of SQLite.
const PAGE_BYTES = 4_096;

// Returns what a program prints, or undefined where it could not be run.
function said(cwd, program, ...args) {
  const { status, stdout } = spawnSync(program, args, { cwd, encoding: "utf8" });
  return status === 0 ? stdout.trim() : undefined;
}

// Returns the median time of one durable write in a folder: the least that a durable answer costs there.
function fsyncMilliseconds(folder) {
  const path = join(folder, "fsync");
  const file = openSync(path, "w");
  const page = Buffer.alloc(PAGE_BYTES);
  const samples = Array.from({ length: FSYNC_SAMPLES }, () => {
    const began = performance.now();
    writeSync(file, page);
    fsyncSync(file);
    return performance.now() - began;
  });
  closeSync(file);
  rmSync(path);
  return median(samples);
}

/**
 * Returns how busy the machine is: the load average of the last minute, and the milliseconds of a durable
 * write under `data`. Both change while others work there. Cost: 50 such writes.
 */
export function business(data) {
  return { load: loadavg()[0], fsync_ms: fsyncMilliseconds(data) };
}

/**
 * Returns sentences on the machine, the disk under `data` and the versions. root: the project's folder.
 * before: what `business` returned before the load.
 */
export function machine({ root, data, wrk, before }) {
  const after = business(data);
  const commit = said(root, "git", "rev-parse", "--short", "HEAD") ?? "unknown";
  const changed = said(root, "git", "status", "--porcelain") ? " with uncommitted changes" : "";
  const disk = said(root, "stat", "-f", "-c", "%T", data) ?? "an unknown file system";
  return [
    `${cpus().length} cores of ${cpus()[0]?.model ?? "an unknown model"}; load average ${before.load.toFixed(2)} before, ${after.load.toFixed(2)} after (the benchmark's own included)`,
    `data on ${disk}, where writing a page and fsync take ${before.fsync_ms.toFixed(2)} ms before, ${after.fsync_ms.toFixed(2)} ms after`,
    `${said(root, workerd.default ?? workerd, "--version") ?? "workerd of an unknown version"}, wrk ${wrk}, node ${process.version}, commit ${commit}${changed}`,
  ];
}
