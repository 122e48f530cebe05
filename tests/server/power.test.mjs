// The power fails while the native server counts, again and again: what it acknowledged is there after each start.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { between, randomFrom } from "../crash/random.mjs";
import { Disk } from "./disk.mjs";
import { placeFor } from "./place.mjs";

const SOURCE = fileURLToPath(new URL("power.c", import.meta.url));
const WITHIN = { timeout: 240_000 };
const FAILURES = 8;
const CLIENTS = 8;
const COUNTERS = 12;
const ACKNOWLEDGED = [1, 60];
const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 32));

const place = placeFor("power");

/** Adds under keys, until the server is gone. A key whose answer did not come is sent again in the next life. */
async function client(url, books, life) {
  for (let number = 0; !life.isOver; number += 1) {
    const book = books[number % books.length];
    book.key ??= `${book.id}-${book.next++}`;
    const request = { method: "POST", headers: { "idempotency-key": book.key } };
    const status = await fetch(`${url}/counters/${book.id}/increment`, request).then(
      async (answer) => (await answer.json(), answer.status), () => undefined,
    );
    if (status === 200) {
      book.acknowledged += 1;
      life.acknowledged += 1;
      book.key = undefined;
    }
  }
}

for (const [name, tablets] of [["of its own for each counter", ""], ["for all counters", "1"]]) {
  test(`nothing acknowledged is lost when the power fails, with an object ${name}`, WITHIN, async (context) => {
    context.diagnostic(`SEED=${SEED}`);
    const random = randomFrom(SEED);
    const shim = join(place.root, "power.so");
    const built = spawnSync("cc", ["-shared", "-fPIC", "-o", shim, SOURCE, "-ldl"], { encoding: "utf8" });
    assert.equal(built.status, 0, built.stderr);
    const folder = place.data;
    mkdirSync(folder);
    const clients = Array.from({ length: CLIENTS }, (_, number) =>
      Array.from({ length: COUNTERS }, (_, other) => ({ id: `c-${number}-${other}`, next: 0, acknowledged: 0 })),
    );
    for (let failure = 0; failure < FAILURES; failure += 1) {
      const trace = join(place.root, `trace-${tablets}-${failure}`);
      const disk = new Disk(folder);
      const variables = { LD_PRELOAD: shim, POWER_ROOT: folder, POWER_TRACE: trace, TALLY_TABLETS: tablets };
      const server = place.server({ variables, options: ["--threads", "2"] });
      const [url] = await server.ready();
      const life = { isOver: false, acknowledged: 0 };
      const load = clients.map((books) => client(url, books, life));
      const wanted = between(random, ...ACKNOWLEDGED);
      while (life.acknowledged < wanted) await new Promise((done) => setTimeout(done, 1));
      life.isOver = true;
      await server.end("SIGKILL");
      await Promise.all(load);
      assert.doesNotMatch(server.errors, /cannot be opened/, `failure ${failure}`);
      disk.play(trace);
      disk.lose(random);
      rmSync(trace);
    }
    const server = place.server({ variables: { TALLY_TABLETS: tablets } });
    const [url] = await server.ready();
    for (const { id, acknowledged, key } of clients.flat()) {
      const answer = await fetch(`${url}/counters/${id}?consistency=strong`);
      const { value = 0 } = await answer.json();
      assert.ok([200, 404].includes(answer.status), `${id}: ${answer.status}`);
      const inDoubt = key === undefined ? 0 : 1;
      assert.ok(
        value >= acknowledged && value <= acknowledged + inDoubt, `${id}: ${value}, ${acknowledged} acknowledged`,
      );
    }
    assert.deepEqual(await server.end(), { code: 0, signal: null });
    assert.equal(server.errors, "");
  });
}
