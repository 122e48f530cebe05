// Rows of another build: nothing is read from them that they do not say.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { databasesOf, withDatabase } from "./databases.mjs";
import { openWorld } from "./world.mjs";

let folder;
let world;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "tally-e2e-"));
  await open();
});
afterEach(async () => {
  await world?.close();
  world = undefined;
  rmSync(folder, { recursive: true, force: true });
});

// What cannot be read is logged.
const open = async (edgeVars) => (world = await openWorld({ folder, edgeVars, logs: true }));

/** Stops the world, and does this to every partition of the directory that has roots. */
async function edit(work, edgeVars) {
  await world.close();
  for (const path of databasesOf(folder, "Directory")) withDatabase(path, work);
  await open(edgeVars);
}

test("rows of another build's schema are refused, and told whose they are", async () => {
  await world.add("a");
  const version = (number, edgeVars) =>
    edit((database) => database.exec(`DELETE FROM tally_schema; INSERT INTO tally_schema VALUES (${number})`), edgeVars);
  await version(4);
  const older = await world.refused(503, "unavailable", "GET", "/counters/a?consistency=strong");
  expect(older.json.detail).toContain("has version 4");
  // One partition is looked at each time: the sixteenth look has found it.
  let unwell;
  do unwell = await world.call("GET", "/healthz");
  while (unwell.status === 200);
  expect(unwell).toMatchObject({ status: 503, json: { code: "unavailable" } });
  expect(unwell.json.detail).toContain("has version 4");
  // Where one process has all objects, the first look is at all of them.
  await version(99, { TALLY_OPEN_OBJECTS_MAX: "1000" });
  expect((await world.refused(503, "unavailable", "GET", "/healthz")).json.detail).toContain("deploy a newer build");
  const newer = await world.refused(503, "unavailable", "GET", "/counters/a?consistency=strong");
  expect(newer.json.detail).toContain("deploy a newer build");
  await version(6);
  await world.well("GET", "/healthz");
  expect(await world.strong("a")).toMatchObject({ value: 1, exact: true });
});
