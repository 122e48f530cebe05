// The script for pages is small: it is part of every page that uses it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { servedFiles } from "./dashboard.mjs";

const GZIP_BYTES_MAX = 2_000;

test("tally.js has at most 2 KB gzipped", () => {
  const bytes = gzipSync(servedFiles().get("tally.js"), { level: 9 }).length;
  assert.ok(bytes <= GZIP_BYTES_MAX, `${bytes} of ${GZIP_BYTES_MAX} bytes`);
});
