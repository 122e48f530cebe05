// Data of every release opens in the build at hand: reads are as they were recorded, and all that there is can be
// written to.
//
// Each fixture is of one host: plain workerd, or the native server. It is opened at three times: a second after it was
// recorded, two days and three years later. The host's clock is set for that (hosts.mjs), so nothing depends on the day
// on which this runs.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { unpack } from "./archive.mjs";
import { HOSTS, serverOf } from "./hosts.mjs";
import { agrees, stableParts } from "./reads.mjs";
import { Scene } from "./scene.mjs";
import { writeAll, writeSoon } from "./writes.mjs";

const FIXTURES = fileURLToPath(new URL("../fixtures/data/", import.meta.url));
const DAY_MS = 86_400_000;
// Takes about 3 s; a loaded machine gets the rest.
const WITHIN = { timeout: 180_000 };

const fixtures = readdirSync(FIXTURES)
  .filter((name) => name.endsWith(".json"))
  .map((name) => ({ name: name.slice(0, -".json".length), ...JSON.parse(readFileSync(join(FIXTURES, name), "utf8")) }));

// Serves the data of a fixture with the build at hand, at a time, for as long as `work` takes.
async function opened({ name, host, variables }, now_ms, work) {
  const folder = mkdtempSync(join(tmpdir(), "tally-upgrade-"));
  try {
    unpack(readFileSync(join(FIXTURES, `${name}.tar.br`)), join(folder, "data"));
    const server = serverOf(host, { folder, variables, now_ms });
    try {
      await server.start();
      await work(new Scene(server.urls[0]));
    } catch (error) {
      error.message += `\n${server.log}`;
      throw error;
    } finally {
      await server.end();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function compare(scene, reads, days) {
  const lasts = reads.filter((read) => read.days === null || read.days > days);
  for (const { path, colo, days: _, ...recorded } of lasts) {
    agrees(stableParts(await scene.ask("GET", path, { colo })), recorded, path);
  }
  return lasts.length;
}

test("there is a fixture of each host", () => {
  assert.deepEqual(new Set(fixtures.map(({ host }) => host)), new Set(HOSTS));
});

for (const fixture of fixtures) {
  const { name, ended_ms, kept, reads } = fixture;
  const recorded = new Map(reads.map(({ path, json }) => [path, json]));
  for (const [when, days] of [["a second", 1 / 86_400], ["two days", 2], ["three years", 1_096]]) {
    test(`data of ${name} opens ${when} later, is read as it was, and is written to`, WITHIN, async () => {
      await opened(fixture, ended_ms + days * DAY_MS, async (scene) => {
        const compared = await compare(scene, reads, days);
        assert.ok(compared > reads.length / 2);
        if (days < 1) await writeSoon(scene, recorded, kept, agrees);
        await writeAll(scene, recorded);
      });
    });
  }
}
