// The clock of the machine is set back while the native server runs: it counts on, and what it knew it still knows.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { placeFor } from "./place.mjs";

const SOURCE = fileURLToPath(new URL("clock.c", import.meta.url));
const WITHIN = { timeout: 120_000 };
const UNTIL_MS_MAX = 60_000;
const DAY = 86_400;

const place = placeFor("clock");

function shim() {
  const file = join(place.root, "clock.so");
  const { status, stderr } = spawnSync("cc", ["-shared", "-fPIC", "-o", file, SOURCE, "-ldl"], { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return file;
}

/** Sets the clock, in one step. */
function step(file, seconds) {
  writeFileSync(`${file}.new`, String(seconds));
  renameSync(`${file}.new`, file);
}

async function until(condition) {
  const late = performance.now() + UNTIL_MS_MAX;
  for (;;) {
    const found = await condition();
    if (found !== undefined) return found;
    assert.ok(performance.now() < late, "it did not come true in time");
    await new Promise((done) => setTimeout(done, 50));
  }
}

for (const [name, seconds] of [["back by an hour", -3_600], ["back by two days", -2 * DAY], ["on by a day", DAY]]) {
  test(`a clock that steps ${name} loses and repeats nothing`, WITHIN, async () => {
    const clock = join(place.root, `offset-${seconds}`);
    step(clock, 0);
    const variables = { LD_PRELOAD: shim(), CLOCK_OFFSET: clock };
    const server = place.server({ variables });
    let [url] = await server.ready();
    const add = async (key) => {
      const headers = { "idempotency-key": key };
      const answer = await fetch(`${url}/counters/a/increment`, { method: "POST", headers });
      const body = await answer.json();
      assert.equal(answer.status, 200, JSON.stringify(body));
      return body;
    };
    const strong = async () => (await fetch(`${url}/counters/a?consistency=strong`)).json();
    for (let number = 0; number < 10; number += 1) await add(`before-${number}`);
    const moved = Date.now() + seconds * 1_000;
    step(clock, seconds);
    await fetch(`${url}/counters/fresh/increment`, { method: "POST" });
    const { as_of } = await (await fetch(`${url}/counters/fresh?consistency=strong`)).json();
    assert.ok(Math.abs(as_of - moved) < 60_000, `the server sees the step: ${as_of}, ${moved}`);
    for (let number = 0; number < 10; number += 1) await add(`after-${number}`);
    // A key is known on both sides of a step back. One step forward of a day may outlive it.
    if (seconds < 0) for (let number = 0; number < 10; number += 1) await add(`before-${number}`);
    for (let number = 0; number < 10; number += 1) await add(`after-${number}`);
    const { value } = await strong();
    assert.equal(value, 20);
    const cached = await until(async () => {
      const read = await (await fetch(`${url}/counters/a`)).json();
      return read.value === 20 ? read : undefined;
    });
    assert.equal(cached.value, 20);
    await server.end("SIGKILL");
    const again = place.server({ variables });
    [url] = await again.ready();
    assert.equal((await strong()).value, 20);
    await add("later");
    assert.equal((await strong()).value, 21);
    assert.deepEqual(await again.end(), { code: 0, signal: null });
  });
}
