// What a server on workerd has moves to the native server and back by an export and an import, to the last byte.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { Server } from "../crash/server.mjs";
import { placeFor } from "./place.mjs";

const WITHIN = { timeout: 180_000 };
const EVERYTHING = "/export?history=1&uniques=1&samples=1";

const place = placeFor("moving");

async function well(url, path, method = "GET", body = undefined, headers = {}) {
  const answer = await fetch(url + path, { method, body, headers });
  const text = await answer.text();
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
  return text;
}

async function fill(url) {
  const put = (path, body) => well(url, path, "PUT", JSON.stringify(body));
  await put("/counters/wide", { shards: 2 });
  await put("/counters/huge/value", { value: String(2n ** 100n) });
  const lines = Array.from({ length: 400 }, (_, number) =>
    JSON.stringify({ id: `page-${number % 40}`, delta: number, unique: `v-${number % 7}`, by: { country: "ZZ" } }),
  );
  await well(url, "/events", "POST", lines.join("\n"));
  for (let number = 0; number < 20; number += 1) await well(url, "/counters/wide/increment", "POST");
  for (let number = 0; number < 20; number += 1) {
    await well(url, `/boards/scores/members/m-${number}`, "POST", JSON.stringify({ score: number * 3 }));
  }
  await put("/limits/login", { limit: 5, window_seconds: 60 });
}

const moved = (url, lines) => well(url, "/import?mode=replace", "POST", lines, { "idempotency-key": "move-1" });

test("an export of workerd is the native server's after an import, and workerd's again", WITHIN, async () => {
  const variables = { TALLY_TABLETS: "4" };
  const [first, last] = ["first", "last"].map((name) => new Server({ folder: join(place.root, name), variables }));
  const native = place.server({ variables });
  try {
    await first.start();
    await fill(first.urls[0]);
    const lines = await well(first.urls[0], EVERYTHING);
    assert.match(lines, /"end":true,"counters":42,.*"complete":true/);
    const [url] = await native.ready();
    await moved(url, lines);
    assert.equal(await well(url, EVERYTHING), lines);
    await last.start();
    await moved(last.urls[0], await well(url, EVERYTHING));
    assert.equal(await well(last.urls[0], EVERYTHING), lines);
    assert.deepEqual(await native.end(), { code: 0, signal: null });
  } finally {
    for (const server of [first, last]) await server.end();
  }
});
