// Without a Redis the tests that need none go on, and it is said what to do.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

const folder = mkdtempSync(join(tmpdir(), "tally-redis-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const run = () => {
  const script = fileURLToPath(new URL("redis.mjs", import.meta.url));
  return spawnSync(process.execPath, [script], { env: { PATH: folder }, encoding: "utf8" });
};

test("where none can be installed it says so, and fails nothing", () => {
  const { status, stdout } = run();
  assert.equal(status, 0);
  assert.match(stdout, /no apt-get\nwhat to do: apt-get install redis-server/);
});

test("one that is on the PATH is named with its version", () => {
  const path = join(folder, "redis-server");
  writeFileSync(path, "#!/bin/sh\necho 'Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc'\n");
  chmodSync(path, 0o755);
  const { status, stdout } = run();
  assert.equal(status, 0);
  assert.equal(stdout, `redis: ${path}, Redis server v=7.0.15\n`);
});
