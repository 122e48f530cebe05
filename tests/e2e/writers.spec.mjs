// A narrow writer fills its part of what remembers idempotency keys and of Redis's values: its account is refused, with
// the name of the account and of the limit, and all others go on.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { bearer, isReplay } from "./calls.mjs";
import { FRAME_BYTES, databasesOf, framed, withDatabase } from "./databases.mjs";
import { openWorld } from "./world.mjs";

const [OPS, APP] = ["ops-key-0123456789-01", "app-key-0123456789-01"];
const [TENANT, OTHER] = ["tenant-key-0123456789", "other-key-0123456789a"];
const ALL = ["read", "write", "admin"];
const CONFIG = {
  keys: [
    { name: "ops", key: OPS, scopes: ALL }, { name: "app", key: APP, scopes: ["read", "write"] },
    { name: "tenant", key: TENANT, scopes: ALL, prefix: "ten/" }, { name: "other", key: OTHER, scopes: ALL, prefix: "ten/a" },
  ],
};
const VARS = { TALLY_ACCESS: undefined, TALLY_KEYS: JSON.stringify(CONFIG) };
// A tenth of each, as crates/tally-core/src/callers/account.rs says.
const CLAIMS_OF_ACCOUNT = 400_000;
const BYTES_OF_ACCOUNT = 800_000_000;

let folder;
let world;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "tally-writers-"));
  world = await openWorld({ folder, vars: VARS });
});
afterEach(async () => {
  await world?.close();
  world = undefined;
  rmSync(folder, { recursive: true, force: true });
});

/** Changes databases while the world is closed. */
async function change(className, work) {
  await world.close();
  const changed = databasesOf(folder, className).map((path) => withDatabase(path, work)).filter(Boolean);
  expect(changed.length).toBeGreaterThan(0);
  world = await openWorld({ folder, vars: VARS });
  return changed[0];
}

const varint = (number) => {
  const bytes = [];
  for (let left = number; ; left = Math.floor(left / 128)) {
    if (left < 128) return [...bytes, left];
    bytes.push((left % 128) | 128);
  }
};

const CALLS = [
  ["POST", "/counters/ten%2Fa/increment", '{"delta":1}'], ["POST", "/counters/ten%2Fa/decrement", '{"delta":1}'],
  ["PUT", "/counters/ten%2Fa/value", '{"value":3}'],
  ["POST", "/events", '{"id":"ten/a"}'], ["POST", "/ingest?format=ndjson", '{"id":"ten/a"}'],
  ["POST", "/api/event", '{"key":"ten/a"}'], ["POST", "/redis", '["INCR","ten/a-count"]'],
];
const send = (key, name, [method, path, body]) => {
  const headers = name === undefined ? {} : { "idempotency-key": name };
  return world.call(method, path, { body, headers: { authorization: `Bearer ${key}`, ...headers } });
};
const made = async (key) => {
  const body = JSON.stringify({ name: "made", scopes: ALL, prefixes: ["ten/a"] });
  return (await world.well("POST", "/keys", bearer(key, { body }))).key;
};
/** Whether an answer says that something was done. */
const isDone = ({ status, json }) => status < 300 && !json.rejected;

test("a narrow writer fills its part of the keys that a partition remembers", async () => {
  for (const [number, call] of CALLS.entries()) {
    if (call[0] === "PUT" || call[1].endsWith("reset")) continue;
    expect(isDone(await send(TENANT, `first-${number}`, call)), call[1]).toBe(true);
  }
  const name = await change("Directory", (database) => {
    const rows = database.prepare("SELECT name, body FROM deployment WHERE name LIKE 'claims%'").all();
    for (const row of rows) {
      const body = row.body.slice(FRAME_BYTES);
      expect(body[0], "one slot").toBe(1);
      const full = framed([...body.slice(0, -1), ...varint(CLAIMS_OF_ACCOUNT)]);
      database.prepare("UPDATE deployment SET body = ? WHERE name = ?").run(full, row.name);
    }
    return rows.find((row) => row.name.startsWith("claims/"))?.name;
  });
  const account = name.slice("claims/".length);
  expect(account).toMatch(/^[0-9a-f]{16}$/);
  const callers = [TENANT, await made(TENANT)];
  for (const [number, call] of CALLS.entries()) {
    for (const caller of callers) {
      const refused = await send(caller, `more-${number}`, call);
      expect(isDone(refused), `${call}: ${refused.text}`).toBe(false);
      expect(refused.text).toContain(`account ${account}`);
      expect(refused.text).toContain(`${CLAIMS_OF_ACCOUNT} of 4000000`);
      if (call[1].startsWith("/counters")) expect([refused.status, refused.json.code]).toEqual([429, "quota-exceeded"]);
      // Without a key it goes on.
      const plain = await send(caller, undefined, call);
      expect(isDone(plain), `${call}: ${plain.text}`).toBe(true);
    }
    // Others go on: whoever writes everything, another account on the same counter, and the keys of others.
    for (const other of [OPS, APP, OTHER]) {
      if (other === APP && call[0] !== "POST") continue;
      if (other === APP && call[1].endsWith("reset")) continue;
      expect(isDone(await send(other, `other-${number}`, call)), `${call}`).toBe(true);
    }
  }
  // What was counted before is known.
  for (const [number, call] of CALLS.entries()) {
    if (call[0] === "PUT" || call[1].endsWith("reset") || call[1] === "/redis") continue;
    expect(isReplay(await send(TENANT, `first-${number}`, call)), call[1]).toBe(true);
  }
  // Keys that are forgotten make room.
  await world.advance(33 * 3_600_000);
  expect(isDone(await send(TENANT, "late", CALLS[0]))).toBe(true);
}, 60_000);

const redis = async (key, ...commands) =>
  (await world.call("POST", "/redis/pipeline", bearer(key, { body: JSON.stringify(commands) }))).json;
const sizes = (database) => {
  const has = database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'account_sizes'").all().length > 0;
  if (!has) return undefined;
  const parts = new Map();
  for (const { part } of database.prepare("SELECT part FROM keys WHERE part IS NOT NULL").all()) {
    const account = Buffer.from(part.slice(0, 8)).toString("hex");
    parts.set(account, (parts.get(account) ?? 0) + Number(Buffer.from(part.slice(8)).readBigUInt64LE()));
  }
  const stored = database.prepare("SELECT account, bytes FROM account_sizes").all();
  const pairs = stored.map(({ account, bytes }) => [Buffer.from(account).toString("hex"), bytes]);
  return { parts: [...parts].sort(), stored: pairs.filter(([, bytes]) => bytes > 0).sort() };
};

test("a narrow writer fills its part of Redis's values", async () => {
  await redis(TENANT, ["SET", "ten/a", "x".repeat(1_000)], ["SADD", "ten/a-set", "x"]);
  await change("Keyspace", (database) => {
    const [{ account }] = database.prepare("SELECT account FROM account_sizes").all();
    return database.prepare("UPDATE account_sizes SET bytes = ? WHERE account = ?").run(BYTES_OF_ACCOUNT - 50, account);
  });
  const child = await made(TENANT);
  const windows = "return redis.call('INCR', KEYS[1])";
  for (const caller of [TENANT, child]) {
    for (const command of [
      ["SET", "ten/a-more", "x"], ["GETSET", "ten/a", "y".repeat(1_100)], ["SADD", "ten/a-set", "z".repeat(60)],
      ["MSET", "ten/a", "x".repeat(1_000), "ten/ab", "y"], ["HSET", "ten/a-hash", "f", "v"], ["SETEX", "ten/ac", "100", "x"],
    ]) {
      const [{ error }] = await redis(caller, command);
      expect(error, command[0]).toMatch(/^ERR account [0-9a-f]{16} has as many bytes of values as it may have: at most 800000000 of/);
    }
    expect((await redis(caller, ["EVAL", windows, "1", "ten/a"]))[0].error).toBeDefined();
  }
  const [, kept] = await redis(TENANT, ["EXISTS", "ten/a-more", "ten/ab", "ten/a-hash"], ["GET", "ten/a"]);
  expect(kept.result.length).toBe(1_000);
  // Others go on, also on the same keys.
  for (const [number, other] of [OPS, OTHER].entries()) {
    expect(await redis(other, ["SADD", "ten/a-set", `${number}`.repeat(100)])).toEqual([{ result: 1 }]);
  }
  // It reads, shortens and deletes, and that makes room.
  for (const command of [["SET", "ten/a", "short"], ["SET", "ten/a-more", "x"]]) {
    expect(await redis(child, command)).toEqual([{ result: "OK" }]);
  }
});

test("the parts of Redis's values are the sums of what each account wrote last", async () => {
  const long = "x".repeat(3_000);
  await redis(
    TENANT, ["SET", "ten/a1", "x"], ["SET", "ten/a2", long], ["HSET", "ten/h", "f", long], ["SADD", "ten/s", "m", "n"],
    ["MSET", "ten/m1", "1", "ten/m2", long], ["SET", "ten/e", "x", "EX", "60"], ["INCR", "ten/count"], ["EXPIRE", "ten/count", "60"],
  );
  await redis(
    OTHER, ["SET", "ten/a1", long], ["SET", "ten/a2", `${long}more`], ["SET", "ten/a3", "x"], ["SET", "ten/a3", long],
    ["DEL", "ten/a1"],
  );
  await redis(OPS, ["SET", "ten/a3", "mine"], ["DEL", "ten/m2"], ["SREM", "ten/s", "m"], ["SET", "free", long]);
  const [first] = await closed();
  expect(first.stored).toEqual(first.parts);
  expect(first.stored).toHaveLength(2);
  await world.advance(120_000);
  await redis(OPS, ["EXISTS", "ten/e", "ten/count"]);
  await redis(TENANT, ["DEL", "ten/h", "ten/s"]);
  const [second] = await closed();
  expect(second.stored).toEqual(second.parts);
  await redis(OPS, ["FLUSHALL"]);
  const [last] = await closed();
  expect(last).toEqual({ parts: [], stored: [] });
});

/** Looks into the database of the keyspace. */
async function closed() {
  await world.close();
  const found = databasesOf(folder, "Keyspace").map((path) => withDatabase(path, sizes)).filter(Boolean);
  world = await openWorld({ folder, vars: VARS });
  return found;
}
