// The bounds of an inbox, and rows that nobody can read: reached by writing into its database while nothing runs.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { entriesOf } from "./calls.mjs";
import { databasesOf, framed, withDatabase } from "./databases.mjs";
import { openWorld, until } from "./world.mjs";

const LOG_ROWS_MAX = 20_000;
const DEAD_LETTERS_MAX = 10_000;
// As many batches that are not done end all gathering.
const BATCHES_MAX = 64;
const LATER_MS = 4_000_000_000_000;
const UNREADABLE = framed([255]);
// 300 for the counter "a", which could not hold it.
const LETTER = framed(Buffer.from("0161ac0200e0f4b18dbc67", "hex"));

let folder;
let world;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tally-inbox-"));
});
afterEach(async () => {
  await world?.close();
  world = undefined;
  rmSync(folder, { recursive: true, force: true });
});

/** Ends the world, changes the databases of all its inboxes, and opens another world on them. */
async function reopen(change, options = {}) {
  if (world === undefined) {
    world = await openWorld({ folder });
    // An isolate chooses one of four inboxes: this opens all of them.
    await world.well("GET", "/api/dead-letters");
  }
  await world.close();
  for (const path of databasesOf(folder, "Inbox")) {
    withDatabase(path, (database) => {
      database.exec("BEGIN");
      change(database);
      database.exec("COMMIT");
    });
  }
  world = await openWorld({ folder, ...options });
}

function insert(database, sql, count, values) {
  const statement = database.prepare(sql);
  for (let index = 1; index <= count; index += 1) statement.run(...values(index));
}

/** Keeps an inbox from gathering: batches of nothing, due in the far future. */
const block = (database) =>
  insert(database, "INSERT INTO batches VALUES (?, 0, ?, ?)", BATCHES_MAX, (number) => [
    number, LATER_MS, framed([0]),
  ]);
const unblock = (database) => database.exec("DELETE FROM batches");

const post = (key, increment = 1, headers = {}) =>
  world.call("POST", "/api/event", { body: JSON.stringify({ key, increment }), headers });
const accepted = async (...event) => expect((await post(...event)).status).toBe(202);
const countOf = async (key) => (await world.call("GET", `/api/counter?key=${key}`)).json.count;

test("a full log refuses events, says when to come again, and takes them once there is room", async () => {
  await reopen((database) => {
    block(database);
    insert(database, "INSERT INTO log VALUES (?, ?)", LOG_ROWS_MAX, (seq) => [seq, UNREADABLE]);
  });
  const refused = await post("a");
  expect([refused.status, refused.json.code, refused.headers.get("retry-after")]).toEqual([503, "overloaded", "1"]);
  // One with a key needs no queue while its counter can be reached.
  await accepted("b", 1, { "idempotency-key": "k" });
  await reopen((database) => database.exec(`DELETE FROM log WHERE seq = ${LOG_ROWS_MAX}`));
  await accepted("a");
  expect((await post("a")).status).toBe(503);
  expect(await countOf("b")).toBe(1);
});

test("of too many dead letters the oldest go, and are counted", async () => {
  await reopen((database) => {
    insert(database, "INSERT INTO dead (body) VALUES (?)", DEAD_LETTERS_MAX, () => [LETTER]);
    insert(database, "INSERT INTO log VALUES (?, ?)", 3, (seq) => [seq, UNREADABLE]);
  });
  await accepted("b");
  await until(async () => (await countOf("b")) === 1, "the count");
  const { dropped } = await world.well("GET", "/api/dead-letters");
  expect(dropped).toBe(3);
  const dead_letters = await entriesOf(world, "/api/dead-letters?limit=1000");
  expect(dead_letters.filter(({ code }) => code === "internal").map(({ id }) => id)).toEqual(["", "", ""]);
  const kept = [];
  await reopen((database) => kept.push(database.prepare("SELECT COUNT(*) AS count FROM dead").get().count));
  expect(kept).toEqual([1, 1, 1, 1].map(() => DEAD_LETTERS_MAX));
});

test("a counter that cannot be reached holds up only itself, however many of its batches wait", async () => {
  // One for the counter "s": tried once, and due.
  const key = (number) => [...Array(15).fill(7), number];
  const due = (number) => [1, 1, 115, 0, ...key(number), 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0];
  await reopen(
    (database) =>
      insert(database, "INSERT INTO batches VALUES (?, 1, 0, ?)", 2 * BATCHES_MAX, (number) => [
        number, framed(due(number)),
      ]),
    { faults: true },
  );
  world.fail(({ path }) => (path === "/look-up" ? "before" : undefined));
  await accepted("b", 3);
  await until(async () => (await countOf("b")) === 3, "the count");
  expect((await world.well("GET", "/api/dead-letters")).entries).toEqual([]);
});

test("a row that cannot be read becomes a dead letter, and those before and after it are counted", async () => {
  await reopen(block);
  await accepted("a", 1);
  await accepted("a", 2);
  await accepted("b", 4);
  await reopen((database) => {
    database.prepare("UPDATE log SET body = ? WHERE seq = 2").run(UNREADABLE);
    unblock(database);
  });
  // Nobody asks: the alarm that each append sets is enough.
  await until(async () => (await countOf("b")) === 4, "the count");
  expect(await world.strong("a")).toMatchObject({ value: 1, exact: true });
  const { entries: dead_letters } = await world.well("GET", "/api/dead-letters");
  expect(dead_letters).toMatchObject([{ id: "", delta: 0, code: "internal" }]);
});

test("a batch that cannot be read becomes a dead letter, and holds up no other", async () => {
  await reopen((database) => {
    database.prepare("INSERT INTO batches VALUES (1, 0, 0, ?)").run(UNREADABLE);
  });
  await accepted("a", 3);
  await until(async () => (await countOf("a")) === 3, "the count");
  expect(await world.strong("a")).toMatchObject({ value: 3, exact: true });
  const { entries: dead_letters } = await world.well("GET", "/api/dead-letters");
  expect(dead_letters).toMatchObject([{ id: "", delta: 0, code: "internal" }]);
});
