// A machine without randomness: the native server makes no secret then.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { placeFor } from "./place.mjs";

const SOURCE = fileURLToPath(new URL("randomness.c", import.meta.url));
const WITHIN = { timeout: 120_000 };
const TRIES = 20;

const place = placeFor("randomness");

test("without randomness no key and no share is made: the call fails, or the server ends", WITHIN, async () => {
  const library = join(place.root, "randomness.so");
  const made = spawnSync("cc", ["-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], { encoding: "utf8" });
  assert.equal(made.status, 0, made.stderr);
  const missing = join(place.root, "missing");
  const { server, url } = await place.begin({ variables: { LD_PRELOAD: library, NO_RANDOMNESS: missing } });
  const make = async (path, body) => {
    const answer = await fetch(url + path, { method: "POST", body: JSON.stringify(body) });
    return { status: answer.status, ...(await answer.json()) };
  };
  const key = { name: "a", scopes: ["read"], prefixes: ["a/"] };
  assert.equal((await make("/keys", key)).status, 201);
  writeFileSync(missing, "");
  for (let index = 0; index < TRIES && !server.isGone; index += 1) {
    for (const [path, body] of [["/keys", key], ["/shares", { prefix: "a/" }]]) {
      const refused = await make(path, body).catch(() => undefined);
      if (refused === undefined) break;
      assert.deepEqual([refused.status, refused.code], [503, "unavailable"]);
      assert.match(refused.detail, /no randomness/);
    }
  }
  const { code } = await server.end();
  if (code !== 0) assert.match(server.errors, /the system has no randomness/);
  const { url: again } = await place.begin();
  const lists = await Promise.all(["/keys", "/shares"].map(async (path) => (await fetch(again + path)).json()));
  assert.deepEqual(lists.map(({ entries }) => entries.length), [1, 0]);
});
