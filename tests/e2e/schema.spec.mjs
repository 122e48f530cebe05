// Rows of a build before this one: they are completed once, and what they say holds.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, test } from "vitest";
import { AGGREGATOR, openWorld } from "./world.mjs";

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

const open = async () => (world = await openWorld({ folder }));
const add = (id, key, options) =>
  world.call("POST", `/counters/${id}/increment`, { headers: { "idempotency-key": key }, ...options });

/** Stops the world, and does this to every partition of the directory that has claims. Returns how many it has. */
async function edit(work) {
  await world.close();
  const objects = join(folder, "do", `${AGGREGATOR}-Directory`);
  let claims = 0;
  for (const name of readdirSync(objects).filter((file) => file.endsWith(".sqlite"))) {
    const database = new DatabaseSync(join(objects, name));
    try {
      if (!database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'claims'").get()) continue;
      claims += database.prepare("SELECT COUNT(*) AS claims FROM claims").get().claims;
      work?.(database);
    } finally {
      database.close();
    }
  }
  await open();
  return claims;
}

test("claims of a build that did not number their moves are found, move, and stay where they are then", async () => {
  const ids = ["a", "b", "c"];
  const first = [];
  for (const id of ids) {
    await world.put(id, { home: "FRA" });
    first.push((await add(id, "k")).text);
  }
  const claims = await edit((database) => {
    database.exec("ALTER TABLE claims DROP COLUMN moves; DELETE FROM tally_schema; INSERT INTO tally_schema VALUES (3)");
  });
  expect(claims).toBe(ids.length);
  const again = async () => {
    for (const [index, id] of ids.entries()) {
      const answer = await add(id, "k", { colo: "SYD", edge: 0 });
      expect([answer.text, answer.headers.get("idempotency-replayed")]).toEqual([first[index], "true"]);
    }
  };
  await again();
  for (const home of ["IAD", "FRA"]) {
    await world.put("a", { home });
    expect((await add("a", `at ${home}`)).json).toMatchObject({ datacenter: home, exact: true });
    await again();
  }
  // Opened once more, the rows are of this build.
  expect(await edit()).toBe(ids.length + 2);
  await again();
  expect((await add("b", "k2")).json).toMatchObject({ value: 2 });
  expect(await world.strong("a")).toMatchObject({ value: 3, exact: true });
});
