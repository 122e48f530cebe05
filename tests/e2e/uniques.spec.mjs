// Unique elements: few are exact, shards and datacenters are joined, and what cannot be joined is refused.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openWorld } from "./world.mjs";

const KEYS = ["0".repeat(31) + "1", "f".repeat(32)];
/** Of `visitor 0` to `visitor 9999`. */
const PFCOUNT = 9_988;
const FRA = { colo: "FRA" };
const IAD = { colo: "IAD" };

const visitors = (key, from, to) => {
  const line = (_, index) => JSON.stringify({ id: key, unique: `visitor ${from + index}` });
  return Array.from({ length: to - from }, line).join("\n");
};

async function visit(world, key, from, to, options) {
  const accepted = await world.well("POST", "/events", { body: visitors(key, from, to), ...options });
  expect(accepted).toMatchObject({ accepted: to - from, rejected: 0 });
}

const union = (world, ids) => world.well("GET", `/uniques?consistency=strong&${ids.map((id) => `id=${id}`).join("&")}`);

test("with 16 shards in two datacenters 80,000 visitors are estimated to 0.3 %", async () => {
  const world = await openWorld({});
  try {
    await world.put("wide", { shards: 16 });
    await world.add("wide", { delta: 1 });
    await visit(world, "wide", 0, 50_000, FRA);
    // 20,000 come to both.
    await visit(world, "wide", 30_000, 80_000, IAD);
    const { value, uniques } = await world.strong("wide");
    expect(value).toBe(100_001);
    expect(uniques.standard_error).toBeLessThan(0.003 * uniques.estimate);
    expect(uniques.epochs).toBeUndefined();
    expect(Math.abs(uniques.estimate - 80_000)).toBeLessThan(4 * uniques.standard_error);
    // By one shard they are estimated as ever.
    await visit(world, "narrow", 0, 20_000, FRA);
    const narrow = (await world.strong("narrow")).uniques;
    expect(Math.abs(narrow.estimate - 20_000)).toBeLessThan(4 * narrow.standard_error);
    const both = await union(world, ["wide", "narrow"]);
    expect(Math.abs(both.estimate - 80_000)).toBeLessThan(4 * both.standard_error);
  } finally {
    await world.close();
  }
});

test("a changed key begins an epoch, and counters without one in common have no union", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tally-uniques-"));
  try {
    let world = await openWorld({ folder, vars: { TALLY_HASH_KEY: KEYS[0] } });
    await visit(world, "old", 0, 30);
    await visit(world, "both", 0, 100);
    expect((await union(world, ["old", "both"])).estimate).toBe(100);
    await world.close();

    world = await openWorld({ folder, vars: { TALLY_HASH_KEY: KEYS[1] } });
    await visit(world, "both", 0, 100);
    await visit(world, "new", 0, 10);
    const { uniques } = await world.strong("both", "&window=900");
    expect(uniques).toMatchObject({ estimate: 200, epochs: 2 });
    expect(await union(world, ["both", "new"])).toMatchObject({ estimate: 200, epochs: 2 });
    expect(await union(world, ["both", "old"])).toMatchObject({ estimate: 200, epochs: 2 });
    const apart = await world.refused(409, "hash-mismatch", "GET", "/uniques?id=old&id=new&consistency=strong");
    expect(apart.json.detail).toContain("`new`");
    await world.close();
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("a counter by Redis's hash estimates as Redis does, and never holds elements of both hashes", async () => {
  const world = await openWorld({ vars: { TALLY_SPLIT_FLUSHES_PER_SECOND: "1000" } });
  try {
    expect((await world.put("r", { unique_hash: "redis", shards: 4 })).settings.unique_hash).toBe("redis");
    // The first that comes does not know of the hash yet, nor does a keyed one.
    await world.add("r", { unique: "visitor 0" });
    await world.add("r", { unique: "visitor 1" }, { headers: { "idempotency-key": "k" }, colo: "IAD" });
    await visit(world, "r", 0, 10_000, FRA);
    const { value, uniques } = await world.strong("r");
    expect(value).toBe(10_002);
    // PFCOUNT of a real Redis after PFADD of the same 10,000.
    expect(uniques.estimate).toBe(PFCOUNT);
    const refused = await world.refused(409, "hash-mismatch", "PUT", "/counters/r", {
      body: '{"unique_hash":"keyed"}',
    });
    expect(refused.json.detail).toContain("of another hash");
    // Left out it stays.
    expect((await world.put("r", { shards: 2 })).settings.unique_hash).toBe("redis");
    await world.add("k", { unique: "ann" });
    await world.refused(409, "hash-mismatch", "PUT", "/counters/k", { body: '{"unique_hash":"redis"}' });
    await world.refused(409, "hash-mismatch", "GET", "/uniques?id=r&id=k&consistency=strong");
    // Counted, but nothing unique: it may still choose.
    await world.add("n");
    await world.put("n", { unique_hash: "redis" });
    await world.add("n", { unique: "ann" });
    expect((await world.strong("n")).uniques.estimate).toBe(1);
    await world.refused(400, "invalid-body", "PUT", "/counters/n", { body: '{"unique_hash":"md5"}' });
  } finally {
    await world.close();
  }
});

test("the first body of a counter by Redis's hash counts whole, and so does that of one which was such a counter", async () => {
  const world = await openWorld();
  try {
    const names = Array.from({ length: 40 }, (_, index) => index);
    const send = async (path, id, more) => {
      const body = names.map((index) => JSON.stringify({ id, unique: `visitor ${index}`, ...more(index) })).join("\n");
      expect(await world.well("POST", path, { body })).toEqual({ accepted: 40, rejected: 0, errors: [] });
    };
    const bodies = {
      plain: (key) => send("/events", key, () => ({})),
      keyed: (key, generation) => send("/events", key, (index) => ({ idempotency_key: `${generation} ${index}` })),
      past: (key) => send("/ingest?format=ndjson", key, () => ({ at: Math.floor(world.now() / 1_000) - 3_600 })),
    };
    for (const [name, sendAll] of Object.entries(bodies)) {
      for (const shards of [1, 4]) {
        const key = `${name}/${shards}`;
        for (const unique_hash of ["redis", "keyed"]) {
          await world.put(key, { unique_hash, shards });
          await sendAll(key, unique_hash);
          const { value, uniques } = await world.strong(key);
          expect([key, unique_hash, value]).toEqual([key, unique_hash, 40]);
          expect(Math.abs(uniques.estimate - 40)).toBeLessThanOrEqual(1);
          expect((await world.call("DELETE", `/counters/${encodeURIComponent(key)}`)).status).toBeLessThan(300);
        }
      }
    }
  } finally {
    await world.close();
  }
});

test("windows of minutes, hours and days hold who came in them, also of a log that is brought in late", async () => {
  const world = await openWorld({});
  const day = 86_400;
  try {
    const now = Math.floor(world.now() / 1_000);
    const stamp = (ago) => now - ago;
    const agos = [5 * 60, 3 * 3_600, 3 * day, 20 * day, 300 * day, 450 * day];
    const lines = agos.flatMap((ago, index) =>
      [`visitor ${index}`, "who always comes"].map((name) =>
        JSON.stringify({ id: "w", unique: name, at: stamp(ago) }),
      ),
    );
    const accepted = await world.well("POST", "/ingest?format=ndjson", { body: lines.join("\n") });
    expect(accepted).toMatchObject({ accepted: lines.length, rejected: 0 });
    await world.add("w", { unique: "ann" });
    // Less than minutes and days are kept for: the clock goes on while this runs.
    const windows = { 60: 1, 1_200: 3, 14_400: 4, 82_800: 4, [4 * day]: 5, [30 * day]: 6, [399 * day]: 7 };
    const look = async () => {
      const at = Math.floor(world.now() / 1_000);
      for (const [seconds, estimate] of Object.entries(windows)) {
        const union = await world.well("GET", `/uniques?id=w&window=${seconds}&at=${at}&consistency=strong`);
        expect([seconds, union.estimate]).toEqual([seconds, estimate]);
        const { starts_at, ends_at } = union.uniques_cover;
        expect(starts_at).toBeLessThanOrEqual((now - seconds + 60) * 1_000);
        expect(ends_at).toBeGreaterThan(now * 1_000);
        const read = await world.strong("w", `&window=${seconds}&at=${at}`);
        expect(read.window).toMatchObject({ uniques: { estimate }, uniques_cover: { starts_at, ends_at } });
      }
    };
    await look();
    expect((await world.strong("w")).uniques.estimate).toBe(8);
    const past = await world.well("GET", `/uniques?id=w&window=3600&at=${now - 20 * day}&consistency=strong`);
    expect(past.estimate).toBe(2);
    expect(past.uniques_cover.starts_at % (day * 1_000)).toBe(0);
    await world.evict();
    await look();
  } finally {
    await world.close();
  }
});
