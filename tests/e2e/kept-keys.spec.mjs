// What is kept of keys: those of callers who show no API key take no room from anybody else, and queued writes no
// claims.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { bearer, isReplay } from "./calls.mjs";
import { FRAME_BYTES, databasesOf, framed, withDatabase } from "./databases.mjs";
import { TABLETS, openWorld, until } from "./world.mjs";

const KEY = "admin-key-0123456789";
const CONFIG = {
  keys: [{ key: KEY, scopes: ["admin"] }],
  public: [{ origins: ["*"], scopes: ["read", "write"] }],
};
const VARS = { TALLY_ACCESS: undefined, TALLY_KEYS: JSON.stringify(CONFIG) };
// The kind of the rows that count a cell's records, and more records than any of its ledgers takes.
const LEDGER = 9;
const MANY = 5_000_000;
// Version, form and checksum before each stored body.

let folder;
let world;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "tally-keys-"));
  world = await openWorld({ folder, vars: VARS });
});
afterEach(async () => {
  await world?.close();
  world = undefined;
  rmSync(folder, { recursive: true, force: true });
});

const send = (call, key, { body, admin = false, address = "203.0.113.7" } = {}) => {
  const headers = { "idempotency-key": key, "cf-connecting-ip": address };
  if (admin) headers.authorization = `Bearer ${KEY}`;
  return world.call("POST", call, { body, headers });
};
const CALLS = [
  ["/counters/a/increment", undefined],
  ["/events", '{"id":"a"}\n'],
  ["/api/event", '{"key":"a"}'],
];
const value = async () => (await world.well("GET", "/counters/a?consistency=strong")).value;

const varint = (number) => {
  const bytes = [];
  for (let left = BigInt(number); ; left >>= 7n) {
    if (left < 128n) return [...bytes, Number(left)];
    bytes.push(Number(left & 127n) | 128);
  }
};

/** Ends the world, has the only slot of each ledger that a class has rows of count many records, and opens it again. */
async function fill(className, select, update) {
  await world.close();
  let filled = 0;
  for (const path of databasesOf(folder, className)) {
    withDatabase(path, (database) => {
      for (const row of database.prepare(select).all()) {
        const body = row.body.slice(FRAME_BYTES);
        // One slot, and how many records it has: fewer than 128.
        expect(body[0], "one slot").toBe(1);
        database.prepare(update).run(framed([...body.slice(0, -1), ...varint(MANY)]), row.name);
        filled += 1;
      }
    });
  }
  expect(filled).toBe(1);
  world = await openWorld({ folder, vars: VARS });
}

async function onlyTheirsAreRefused() {
  for (const [number, [call, body]] of CALLS.entries()) {
    const refused = await send(call, `p${number}`, { body });
    const refusal = refused.json.errors?.[0].code ?? [refused.status, refused.json.code];
    expect(refusal, refused.text).toEqual(call === "/events" ? "overloaded" : [503, "overloaded"]);
    const taken = await send(call, `k${number}`, { body, admin: true });
    expect([200, 202], taken.text).toContain(taken.status);
    expect(taken.json.rejected ?? 0, taken.text).toBe(0);
    // Without a key of their own they go on.
    const plain = await world.call("POST", call, { body, headers: { "cf-connecting-ip": "203.0.113.7" } });
    expect([200, 202], plain.text).toContain(plain.status);
    // What was counted before is still known. Under the same text somebody with an API key has a key of their own.
    expect(isReplay(await send(call, "first", { body })), call).toBe(true);
    for (const again of [false, true]) {
      expect(isReplay(await send(call, "first", { body, admin: true })), call).toBe(again);
    }
  }
}

test.skipIf(TABLETS)("a counter whose public keys are too many refuses theirs, and takes those of everybody who has an API key", async () => {
  for (const [call, body] of CALLS) await send(call, "first", { body });
  await fill("Cell", `SELECT start AS name, body FROM rows WHERE kind = ${LEDGER}`, `UPDATE rows SET body = ? WHERE kind = ${LEDGER} AND start = ?`);
  await onlyTheirsAreRefused();
  expect(await value()).toBe(12);
});

test("a partition of the directory with too many public keys takes those of everybody who has an API key", async () => {
  for (const [call, body] of CALLS) await send(call, "first", { body });
  await fill("Directory", "SELECT name, body FROM deployment WHERE name LIKE '%claims'", "UPDATE deployment SET body = ? WHERE name = ?");
  await onlyTheirsAreRefused();
  expect(await value()).toBe(12);
});

test("queued writes that go home from elsewhere leave no claims at the root, and count once wherever home goes", async () => {
  const admin = bearer(KEY);
  const counted = async (expected) => until(async () => (await value()) === expected, `a value of ${expected}`);
  const homes = ["IAD", "SYD", "FRA"];
  for (const [index, home] of homes.entries()) {
    await world.put("a", { home }, admin);
    for (let event = 1; event <= 4; event += 1) {
      const queued = await world.call("POST", "/api/event", {
        body: '{"key":"a"}', colo: ["FRA", "IAD"][event % 2], ...admin,
      });
      expect(queued.status).toBe(202);
      // A batch for each of them.
      await counted(4 * index + event);
    }
  }
  await world.close();
  const claims = (database) => {
    const has = database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'claims'").all().length > 0;
    return has ? database.prepare("SELECT * FROM claims").all() : [];
  };
  expect(databasesOf(folder, "Directory").flatMap((path) => withDatabase(path, claims))).toEqual([]);
  world = undefined;
});
