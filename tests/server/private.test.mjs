// What the native server writes is open to its owner alone, whatever the umask and whatever was there before.
import assert from "node:assert/strict";
import { chmodSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { placeFor } from "./place.mjs";

const WITHIN = { timeout: 60_000 };
const OPEN = ["sh", "-c", 'umask 000; exec "$@"', "sh"];

const place = placeFor("private");

const modeOf = (path) => statSync(path).mode & 0o777;

/** The entries below a folder that others may use in any way. */
function openOnes(folder) {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const paths = entries.map((entry) => join(entry.parentPath, entry.name));
  return paths.filter((path) => (modeOf(path) & 0o077) !== 0);
}

async function write(url) {
  await fetch(`${url}/counters/a/increment`, { method: "POST" });
  await fetch(`${url}/boards/a/members/ann`, { method: "POST", body: '{"score":1}' });
  assert.equal((await fetch(`${url}/snapshots`, { method: "POST" })).status, 200);
}

test("folders are 0700 and files 0600, also in a folder that was open to all", WITHIN, async () => {
  mkdirSync(place.data);
  chmodSync(place.data, 0o777);
  const { server, url } = await place.begin({ before: OPEN });
  await write(url);
  assert.deepEqual([modeOf(place.data), openOnes(place.data)], [0o700, []]);
  assert.ok(readdirSync(join(place.data, "snapshots"), { recursive: true }).length > 2, "no snapshot was written");
  await server.end();
  assert.deepEqual(openOnes(place.data), []);
});

test("what an earlier build left open is closed at the start", WITHIN, async () => {
  const { server: first } = await place.begin();
  await first.end();
  for (const name of readdirSync(place.data)) {
    const path = join(place.data, name);
    if (statSync(path).isFile()) chmodSync(path, 0o666);
  }
  chmodSync(place.data, 0o755);
  const { server, url } = await place.begin({ before: OPEN });
  await write(url);
  assert.deepEqual([modeOf(place.data), openOnes(place.data)], [0o700, []]);
  await server.end();
});

test("a folder that has something else in it keeps its mode, and so does that", WITHIN, async () => {
  mkdirSync(place.data);
  const other = join(place.data, "of-others");
  writeFileSync(other, "");
  chmodSync(other, 0o644);
  chmodSync(place.data, 0o755);
  const { server, url } = await place.begin({ before: OPEN });
  await write(url);
  assert.deepEqual([modeOf(place.data), openOnes(place.data)], [0o755, [other]]);
  await server.end();
});
