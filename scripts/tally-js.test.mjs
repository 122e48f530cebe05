// The script for pages is small: it is part of every page that uses it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

const GZIP_BYTES_MAX = 2_000;

test("tally.js has at most 2 KB gzipped", () => {
  const source = readFileSync(new URL("../src/edge/tally.js", import.meta.url));
  const bytes = gzipSync(source, { level: 9 }).length;
  assert.ok(bytes <= GZIP_BYTES_MAX, `${bytes} of ${GZIP_BYTES_MAX} bytes`);
});
