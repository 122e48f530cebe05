// Roots whose rows were lost: what cells hold is found again by whoever still writes, and nothing is counted twice.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { keyed, numbers } from "./calls.mjs";
import { databasesOf, withDatabase } from "./databases.mjs";
import { TABLETS, each, openWorld, until } from "./world.mjs";

let folder;
let world;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tally-e2e-"));
});
afterEach(async () => {
  await world?.close();
  world = undefined;
  rmSync(folder, { recursive: true, force: true });
});

const open = async (options) => (world = await openWorld({ folder, ...options }));

/**
 * Ends the world, with the checkpoints that its leads have still to send: one that came early would bring a root back.
 */
const closeSilently = () => world.close({ silently: true });

/** Stops the world, takes all that the directory knows of counters away, and opens it again. */
async function loseRoots() {
  await closeSilently();
  let lost = 0;
  for (const path of databasesOf(folder, "Directory")) {
    withDatabase(path, (database) => {
      for (const table of ["roots", "views", "duties", "claims", "operations"]) {
        lost += Number(database.prepare(`DELETE FROM ${table}`).run().changes);
      }
    });
  }
  expect(lost).toBeGreaterThan(0);
  await open();
}

/** Stops the world, deletes the directory with all that it holds, and opens the world again. */
async function loseDirectory() {
  await closeSilently();
  const files = databasesOf(folder, "Directory");
  expect(files.length).toBeGreaterThan(0);
  for (const file of files) for (const more of ["", "-wal", "-shm"]) rmSync(file + more, { force: true });
  await open({ lost: true });
}

test.skipIf(TABLETS)("a counter of one datacenter is whole again with its next keyed write", async () => {
  await open();
  await world.add("alone", { delta: 40, unique: "ann" });
  await loseRoots();
  await world.refused(404, "counter-not-found", "GET", "/counters/alone?consistency=strong");
  expect(await world.add("alone", { delta: 2 }, keyed("k1"))).toMatchObject({ value: 42 });
  expect(await world.strong("alone", "&window=300")).toMatchObject({
    value: 42,
    exact: true,
    uniques: { estimate: 1 },
    window: { count: 42 },
  });
  expect(await world.add("alone")).toMatchObject({ value: 43, exact: true });
});

test.skipIf(TABLETS)("it is whole again with a queued event, and with a setting", async () => {
  await open();
  await world.add("queued", { delta: 40 });
  await world.add("put", { delta: 50 });
  await loseRoots();
  const body = JSON.stringify({ key: "queued", increment: 2 });
  expect((await world.call("POST", "/api/event", { body })).status).toBe(202);
  await until(async () => (await world.strong("queued")).value === 42, "the event");
  expect(await world.put("put", { shards: 2 })).toMatchObject({ value: 50, settings: { shards: 2 } });
  await world.add("put");
  expect(await world.strong("put")).toMatchObject({ value: 51, exact: true });
});

test.skipIf(TABLETS)("datacenters of a lost root come back as they write, and until then nothing is called exact", async () => {
  await open();
  await world.add("many", { delta: 1 }, { colo: "FRA" });
  await world.add("many", { delta: 20 }, { colo: "IAD" });
  await world.add("many", { delta: 300 }, { colo: "SYD" });
  await loseRoots();
  await world.add("many", { delta: 1 }, keyed("k1", { colo: "FRA" }));
  expect(await world.strong("many")).toMatchObject({ value: 2, exact: false });
  await world.add("many", { delta: 1 }, keyed("k2", { colo: "IAD" }));
  expect(await world.strong("many")).toMatchObject({ value: 23, exact: false });
  expect((await world.add("many", { delta: 1 }, { colo: "FRA" })).exact).toBe(false);
  await world.add("many", { delta: 1 }, keyed("k3", { colo: "SYD" }));
  const answer = await world.strong("many");
  expect(answer).toMatchObject({ value: 325, exact: false });
  expect(answer.datacenters.map(({ id, value }) => [id, value])).toEqual([["FRA", 3], ["IAD", 21], ["SYD", 301]]);
  // The same keys count nothing again, though their claims were lost too.
  await loseRoots();
  await world.add("many", { delta: 1 }, keyed("k1", { colo: "FRA" }));
  await world.add("many", { delta: 1 }, keyed("k2", { colo: "IAD" }));
  await world.add("many", { delta: 1 }, keyed("k3", { colo: "SYD" }));
  expect((await world.strong("many")).value).toBe(325);
});

test("the shards of a counter come back with its lead, where the directory is a fresh one", async () => {
  await open();
  await world.put("wide", { shards: 4 });
  const visitors = numbers(60);
  await each(visitors, 10, (index) => world.add("wide", { delta: 2, unique: `visitor-${index}` }));
  expect((await world.strong("wide")).datacenters).toMatchObject([{ shards: 4 }]);
  await loseDirectory();
  await world.refused(404, "counter-not-found", "GET", "/counters/wide?consistency=strong");
  // A shard writes first: it counts on, though nobody can read it yet.
  for (let index = 0; index < 8; index++) {
    expect((await world.add("wide", { delta: 1, unique: `visitor-${index}` })).status).toBe("ok");
  }
  await world.add("wide", { delta: 3 }, keyed("k1"));
  const answer = await world.strong("wide", "&window=300");
  expect(answer).toMatchObject({
    value: 131, exact: true, window: { count: 131 }, datacenters: [{ id: "FRA", shards: 4 }],
  });
});

test.skipIf(TABLETS)("a plain write brings a lost root back with its datacenter's next checkpoint", async () => {
  await open();
  await world.add("plain", { delta: 40 });
  await loseRoots();
  expect((await world.add("plain", { delta: 2 })).status).toBe("ok");
  await until(
    async () => (await world.call("GET", "/counters/plain?consistency=strong")).status === 200, "the checkpoint",
  );
  expect(await world.strong("plain")).toMatchObject({ value: 42, exact: true });
});

test.skipIf(TABLETS)("what was deleted is not found again", async () => {
  await open();
  await world.add("gone", { delta: 40, unique: "ann" }, { colo: "FRA" });
  await world.add("gone", { delta: 40 }, { colo: "IAD" });
  expect(await world.well("DELETE", "/counters/gone")).toMatchObject({ pending_datacenters: [] });
  await loseRoots();
  await world.add("gone", { delta: 2 }, keyed("k1", { colo: "FRA" }));
  await world.add("gone", { delta: 3 }, keyed("k2", { colo: "IAD" }));
  expect(await world.strong("gone")).toMatchObject({ value: 5, exact: true, uniques: null });
});
