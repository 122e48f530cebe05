// How large the Wasm is that a deploy uploads.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

/**
 * What the Wasm may take, gzipped: 2,048 KB = 2,048 × 1,024 bytes. It was 980 KB before breakdowns, shares, leads that
 * move, boards and the words of Redis, and 1,524 KB before keys that calls make, alerts, snapshots, repairs, the sums
 * of the fleet and a directory that grows, and 1,860 KB before listeners to keys, hot leads that leave their tablets,
 * and repairs from snapshots and of objects. A deployment may leave features out, see docs/internals/features.md. A
 * Worker may be 3 MB gzipped on the free plan (10 MB on the paid one); the rest of the distance is start-up time, which
 * grows with the code. `make check` fails above it.
 */
export const WASM_GZIP_BYTES_MAX = 2_097_152;

/**
 * Returns the bytes of the built Wasm, gzipped at level 9. root: the project's folder, with a build. Cost: about 0.1 s.
 */
export function wasmGzipBytes(root) {
  return gzipSync(readFileSync(join(root, "build/index_bg.wasm")), { level: 9 }).length;
}
