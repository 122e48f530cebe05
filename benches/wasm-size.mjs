// How large the Wasm is that a deploy uploads.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

/**
 * What the Wasm may take, gzipped: 2,000,000 bytes. A Worker may be 3 MB gzipped on the free plan (10 MB on the paid
 * one); the rest of the distance is start-up time, which grows with the code. A deployment may leave features out, see
 * docs/internals/features.md. `make check` fails above it.
 */
export const WASM_GZIP_BYTES_MAX = 2_000_000;

/**
 * Returns the bytes of the built Wasm, gzipped at level 9. root: the project's folder, with a build. Cost: about 0.1 s.
 */
export function wasmGzipBytes(root) {
  return gzipSync(readFileSync(join(root, "build/index_bg.wasm")), { level: 9 }).length;
}
