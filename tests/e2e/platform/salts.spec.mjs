// Salts of visitors on disk: made when one is needed, and deleted by a question or an alarm of the platform's, from the
// file too.
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { framed, objectFolder, unlessWritten, withDatabase } from "../databases.mjs";
import { openWorld, until } from "../world.mjs";

let world;
let folder;
afterEach(async () => {
  await world?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
  world = folder = undefined;
});

const directories = () => objectFolder(folder, "Directory");
const databases = () => readdirSync(directories()).filter((name) => name.endsWith(".sqlite"));

// Does something with a database of the directory, and tells what tables it has.
function inDirectory(file, work) {
  const look = (database) => {
    const tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
    return work(database, new Set(tables.map(({ name }) => name)));
  };
  return withDatabase(join(directories(), file), look, { timeout: 2_000 });
}

// The salts that are kept, with the file that they are in.
const salts = () =>
  databases().flatMap((file) =>
    inDirectory(file, (database, tables) => {
      if (!tables.has("deployment")) return [];
      const rows = database.prepare("SELECT name, body FROM deployment WHERE name LIKE 'salt/%' ORDER BY name").all();
      return rows.map(({ name, body }) => ({ file, day: Number(name.slice("salt/".length)), body: Buffer.from(body) }));
    }),
  );

// As if a salt had been made so many days ago, of these letters.
function age({ file, day }, days, letter) {
  const values = [`salt/${String(day - days).padStart(7, "0")}`, framed(letter.repeat(16))];
  inDirectory(file, (database) => {
    database.prepare("INSERT INTO deployment VALUES (?, ?)").run(...values);
  });
}

// When the directory's alarms ring, unix milliseconds; with a time, they are set to that. The platform keeps
// nanoseconds.
const alarms = (at_ms) =>
  databases().flatMap((file) =>
    inDirectory(file, (database, tables) => {
      if (at_ms && tables.has("_cf_METADATA")) database.exec(`UPDATE _cf_METADATA SET value = ${at_ms}000000 WHERE key = 1`);
      if (!tables.has("_cf_ALARM")) return [];
      if (at_ms) database.exec(`UPDATE _cf_ALARM SET scheduled_time = ${at_ms}000000`);
      return database.prepare("SELECT scheduled_time / 1000000 AS at_ms FROM _cf_ALARM").all().map((row) => row.at_ms);
    }),
  );

const VISITOR = { headers: { "cf-connecting-ip": "203.0.113.9", "user-agent": "Mozilla/5.0 Firefox/140.0" } };
const DAY_MS = 86_400_000;

// A world that has counted a visitor, closed; returns the salt of that.
async function leaveSalt() {
  folder = mkdtempSync(join(tmpdir(), "tally-salts-"));
  world = await openWorld({ folder });
  await world.add("a", { unique: "bob" });
  await world.close();
  expect(salts()).toEqual([]);

  world = await openWorld({ folder });
  const days = [Date.now()];
  await world.add("a", { unique: "auto" }, VISITOR);
  days.push(Date.now());
  await world.close();
  world = undefined;
  const [salt] = salts();
  expect(days.map((at_ms) => Math.floor(at_ms / DAY_MS))).toContain(salt.day);
  // A frame and the salt.
  expect(salt.body.length).toBe(6 + 16);
  return salt;
}

test("a salt is made when a visitor needs it, kept through restarts, and deleted by the next question when its time has come", async () => {
  const made = await leaveSalt();
  age(made, 2, "K");
  age(made, 3, "G");
  age(made, 30, "O");
  world = await openWorld({ folder });
  await world.add("a", { unique: "auto" }, VISITOR);
  // The same visitor, by the salt that was kept.
  expect((await world.strong("a")).uniques.estimate).toBe(2);
  await world.close();
  world = undefined;
  expect(salts().map(({ day }) => day)).toEqual([made.day - 2, made.day]);
  expect(salts()[1].body.equals(made.body)).toBe(true);
  // Nor does the file hold what was deleted.
  const bytes = readFileSync(join(directories(), made.file));
  expect([bytes.includes("K".repeat(16)), bytes.includes("G".repeat(16)), bytes.includes("O".repeat(16))]).toEqual([
    true, false, false,
  ]);
});

test("where nobody asks, an alarm deletes it 48 hours after its day", async () => {
  const made = await leaveSalt();
  expect(alarms()).toContain((made.day + 3) * DAY_MS);
  age(made, 3, "G");
  alarms(Date.now());
  world = await openWorld({ folder });
  await world.well("GET", "/healthz");
  await until(() => unlessWritten(salts)?.length === 1, "the old salt is deleted");
  await world.close();
  world = undefined;
  expect(salts().map(({ day }) => day)).toEqual([made.day]);
  expect(alarms()).toContain((made.day + 3) * DAY_MS);
});
