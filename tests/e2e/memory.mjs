// Where the worlds of tests keep their files: in memory, where there is plenty. Each commit waits for the disk, and
// each object is a file: on a busy disk tests take ten times as long, and fail at the times that calls may take.
import { accessSync, constants, statfsSync } from "node:fs";

const FOLDER = "/dev/shm";
// The largest world, of 3,000 counters, takes 0.3 GB.
const FREE_BYTES_MIN = 2e9;

/** The environment of tests: `TMPDIR` in memory, or nothing where there is too little of it or it is set already. */
export function environment() {
  if (process.env.TMPDIR) return {};
  try {
    accessSync(FOLDER, constants.W_OK);
    const { bavail, bsize } = statfsSync(FOLDER);
    return bavail * bsize >= FREE_BYTES_MIN ? { TMPDIR: FOLDER } : {};
  } catch {
    return {};
  }
}
