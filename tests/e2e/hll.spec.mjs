// Unique elements to and from a real Redis: the same bytes, and the same counts to the digit. Without one only what
// needs none is looked at.
import { expect, test } from "vitest";
import { MISSING, openRedis } from "./redis.mjs";
import { each, openWorld, until } from "./world.mjs";

const COLOS = ["FRA", "IAD", "SYD"];
const OCTETS = { "content-type": "application/octet-stream" };
/** Magic, encoding and reserved bytes, before the cached count. */
const COUNT_AT = 8;
const HEADER_BYTES = 16;
const DENSE_BYTES = 12_304;
const STALE = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0x80]);

const path = (id, more = "") => `/counters/${id}/uniques/hll${more}`;
const exportOf = (id, more = "") => `/uniques?id=${id}&format=hll${more}`;
const names = (from, to) => Array.from({ length: to - from }, (_, index) => `visitor ${from + index}`);
const created = (world, id, more) => world.put(id, { unique_hash: "redis", ...more });
const imported = (world, id, body, options) => world.well("PUT", path(id), { body, headers: OCTETS, ...options });

async function exported(world, id, more = "") {
  const answer = await world.call("GET", exportOf(id, `&consistency=strong${more}`));
  expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "application/octet-stream"]);
  expect(answer.headers.get("tally-exact")).toBe("true");
  expect(answer.bytes.subarray(COUNT_AT, HEADER_BYTES)).toEqual(STALE);
  return answer.bytes;
}

async function count(world, id, elements, colo) {
  const body = elements.map((unique) => JSON.stringify({ id, unique })).join("\n");
  // Whoever does not know of the counter's hash yet learns of it by a refusal: nothing was counted, and it is sent
  // again.
  await until(async () => {
    const { accepted, rejected } = await world.well("POST", "/events", { body, colo });
    expect([0, elements.length]).toContain(accepted);
    return rejected === 0;
  }, `${id} in ${colo}`);
}

async function pfadd(redis, key, elements) {
  await redis.call("PFADD", key);
  for (let from = 0; from < elements.length; from += 1_000) {
    await redis.call("PFADD", key, ...elements.slice(from, from + 1_000));
  }
}

// What a merge in Redis leaves in a new key: one way to write registers down.
async function merged(redis, ...keys) {
  await redis.call("DEL", "merged");
  await redis.call("PFMERGE", "merged", ...keys);
  return redis.call("GET", "merged");
}

const estimate = async (world, id) => (await world.strong(id)).uniques?.estimate ?? 0;
const isSame = (one, other) => expect(one.equals(other), `${one.length} and ${other.length} bytes`).toBe(true);

test.skipIf(MISSING)(`thousands of elements go to Redis and come from it${MISSING ? `: ${MISSING}` : ""}`, async () => {
  const world = await openWorld({ vars: { TALLY_SPLIT_FLUSHES_PER_SECOND: "1000" } });
  const redis = await openRedis();
  try {
    for (const [id, size] of [["none", 0], ["few", 7], ["some", 900], ["many", 9_000]]) {
      await created(world, id, { shards: 4 });
      // Every colo has its own third, and the first tenth.
      const own = names(0, size);
      await each(COLOS, 3, (colo, index) =>
        count(world, id, own.filter((_, place) => place % 3 === index || place < size / 10), colo),
      );
      await pfadd(redis, id, own);
      const string = await exported(world, id);
      isSame(string, await merged(redis, id));
      await redis.call("SET", "from-tally", string);
      const counted = await redis.call("PFCOUNT", id);
      expect(await redis.call("PFCOUNT", "from-tally")).toBe(counted);
      expect(await estimate(world, id)).toBe(counted);
      expect(await redis.call("PFCOUNT", "from-tally", id)).toBe(counted);

      // The other way: Redis has seen others since, of which half are known here.
      await pfadd(redis, `${id}-there`, names(Math.floor(size / 2), 2 * size));
      const value = (await world.strong(id)).value;
      const there = await redis.call("GET", `${id}-there`);
      const both = await redis.call("PFCOUNT", id, `${id}-there`);
      expect(await imported(world, id, there, { colo: "IAD" })).toMatchObject({ id, estimate: both, exact: true });
      isSame(await exported(world, id), await merged(redis, id, `${id}-there`));
      // From anywhere once more, also what Tally has itself: nothing changes.
      await imported(world, id, there, { colo: "GRU" });
      await imported(world, id, await exported(world, id), { colo: "FRA" });
      isSame(await exported(world, id), await merged(redis, id, `${id}-there`));
      expect(await world.strong(id)).toMatchObject({ value });
      expect(await estimate(world, id)).toBe(both);
    }
    // Of some it is the registers, so what is counted afterwards is joined to them.
    await count(world, "some", names(100, 3_000), "SYD");
    await pfadd(redis, "some-there", names(100, 3_000));
    expect(await estimate(world, "some")).toBe(await redis.call("PFCOUNT", "some", "some-there"));
    // Whoever has learned of the hash keeps it, whatever else is set: no line is refused for it.
    await world.put("few", { shards: 2 });
    const known = await world.well("POST", "/events", { body: JSON.stringify({ id: "few", unique: "visitor 0" }) });
    expect(known).toMatchObject({ accepted: 1, rejected: 0 });
    // Together with another counter as by PFCOUNT of both.
    const union = await world.well("GET", "/uniques?id=some&id=many&consistency=strong");
    expect(union.estimate).toBe(await redis.call("PFCOUNT", "some", "some-there", "many", "many-there"));
    const before = await exported(world, "many");
    await world.evict();
    isSame(await exported(world, "many"), before);
    // A default read has it soon, by what datacenters push.
    await until(
      async () => (await world.call("GET", exportOf("many"))).bytes.equals(before), "the read of all datacenters",
    );
  } finally {
    await redis.close();
    await world.close();
  }
});

test.skipIf(MISSING)("a counter with a home, one in a window and one of a single datacenter give what they have", async () => {
  const world = await openWorld({});
  const redis = await openRedis();
  try {
    await created(world, "h", { home: "FRA" });
    await pfadd(redis, "h", names(0, 2_000));
    const all = await redis.call("PFCOUNT", "h");
    expect(await imported(world, "h", await redis.call("GET", "h"), { colo: "SYD" })).toMatchObject({ estimate: all });
    expect((await world.strong("h")).datacenters.map(({ id }) => id)).toEqual(["FRA"]);

    await created(world, "w");
    await imported(world, "w", await redis.call("GET", "h"), { colo: "IAD" });
    await count(world, "w", names(1_990, 2_010), "FRA");
    await redis.call("SET", "window", await exported(world, "w", "&window=600"));
    expect(await redis.call("PFCOUNT", "window")).toBe(20);
    const { window, uniques } = await world.strong("w", "&window=600");
    expect(window.uniques.estimate).toBe(20);
    await pfadd(redis, "h", names(1_990, 2_010));
    expect(uniques.estimate).toBe(await redis.call("PFCOUNT", "h"));
    await redis.call("SET", "fra", await exported(world, "w", "&datacenter=FRA"));
    expect(await redis.call("PFCOUNT", "fra")).toBe(20);
  } finally {
    await redis.close();
    await world.close();
  }
});

test("what is no string is refused with the reason, and so is a counter of another hash; nothing changes", async () => {
  const world = await openWorld({});
  try {
    await created(world, "r");
    await world.add("r", { unique: "ann" });
    const one = await exported(world, "r");
    const dense = Buffer.concat([one.subarray(0, HEADER_BYTES), Buffer.alloc(DENSE_BYTES - HEADER_BYTES)]);
    dense[4] = 0;
    const high = Buffer.from(dense);
    high.fill(0xff, HEADER_BYTES, HEADER_BYTES + 3);
    const unknown = Buffer.from(one);
    unknown[4] = 2;
    const wrong = [
      [Buffer.alloc(0), "the string does not begin with HYLL"],
      [Buffer.from("{}"), "the string does not begin with HYLL"],
      [one.subarray(0, 9), "the string ends after 9 bytes, within its header of 16"],
      [unknown, "encoding 2 is unknown; 0 is dense, 1 sparse"],
      [dense.subarray(1), "the string does not begin with HYLL"],
      [dense.subarray(0, -1), "a dense string has 12304 bytes, this one 12303"],
      [high, "a register is above 51"],
      [one.subarray(0, HEADER_BYTES), "the opcodes cover 0 of 16384 registers"],
      [one.subarray(0, -1), "the string ends within an opcode"],
      [Buffer.concat([one, one.subarray(HEADER_BYTES)]), "the opcodes cover more than 16384 registers"],
      [Buffer.concat([one, Buffer.from("\n")]), "redis-cli adds it unless you pass -D ''"],
      [Buffer.concat([dense, Buffer.from("\n")]), "redis-cli adds it unless you pass -D ''"],
    ];
    for (const [body, reason] of wrong) {
      const refused = await world.refused(400, "invalid-hll", "PUT", path("r"), { body, headers: OCTETS });
      expect(refused.json.detail).toContain(reason);
      expect(refused.json.detail).toContain("nothing was changed");
    }
    await world.refused(400, "invalid-hll", "PUT", path("r"));
    const large = { body: Buffer.alloc(1024 * 1024 + 1), headers: OCTETS };
    await world.refused(413, "body-too-large", "PUT", path("r"), large);
    isSame(await exported(world, "r"), one);
    // One of nothing is one, and adds nothing.
    expect(await imported(world, "r", dense)).toMatchObject({ estimate: 1 });
    isSame(await exported(world, "r"), one);

    await world.add("k", { unique: "ann" });
    await world.refused(409, "hash-mismatch", "GET", exportOf("k"));
    await world.refused(409, "hash-mismatch", "PUT", path("k"), { body: one, headers: OCTETS });
    expect(await estimate(world, "k")).toBe(1);
    // A string creates no counter: its hash is a setting.
    const none = await world.refused(404, "counter-not-found", "PUT", path("none"), { body: one, headers: OCTETS });
    expect(none.json.detail).toContain("unique_hash");
    await world.refused(404, "counter-not-found", "GET", exportOf("none"));
    await world.refused(404, "counter-not-found", "GET", "/counters/none");
    await world.refused(400, "invalid-query", "GET", "/uniques?id=r&format=dense");
    await world.refused(405, "method-not-allowed", "POST", path("r"), { body: one });
    // A deleted one is forgotten, registers and all.
    await world.well("DELETE", "/counters/r");
    await created(world, "r");
    expect((await exported(world, "r")).length).toBe(18);
  } finally {
    await world.close();
  }
});

test("who may only write imports, who may only read exports, and rounded readers get no registers", async () => {
  const keys = { admin: "admin-key-0123456789", reader: "reader-key-0123456789", writer: "writer-key-0123456789" };
  const as = (key) => ({ headers: { ...OCTETS, authorization: `Bearer ${keys[key]}` } });
  const config = {
    keys: [
      { name: "ops", key: keys.admin, scopes: ["admin"] },
      { name: "dashboard", key: keys.reader, scopes: ["read"] },
      { name: "beacon", key: keys.writer, scopes: ["write"] },
    ],
  };
  let world = await openWorld({ vars: { TALLY_ACCESS: undefined, TALLY_KEYS: JSON.stringify(config) } });
  try {
    await world.put("r", { unique_hash: "redis" }, as("admin"));
    const { bytes } = await world.call("GET", exportOf("r"), as("reader"));
    expect(bytes.length).toBe(18);
    expect(await world.well("PUT", path("r"), { body: bytes, ...as("writer") })).toMatchObject({ estimate: 0 });
    await world.refused(403, "forbidden", "GET", exportOf("r"), as("writer"));
    await world.refused(403, "forbidden", "PUT", path("r"), { body: bytes, ...as("reader") });
    await world.refused(401, "unauthorized", "GET", exportOf("r"));
    await world.close();

    world = await openWorld({ edgeVars: { TALLY_UNIQUES_ROUNDING: "2" } });
    await created(world, "r");
    const rounded = await world.refused(401, "unauthorized", "GET", exportOf("r"));
    expect(rounded.json.detail).toContain("send a key");
  } finally {
    await world.close();
  }
});

test("an import whose answer is lost is merged once more, and one that reaches nobody says so and changes nothing", async () => {
  const world = await openWorld({ faults: true });
  try {
    for (const id of ["r", "s"]) await created(world, id);
    await world.add("r", { unique: "ann" });
    const one = await exported(world, "r");
    let lost = 0;
    world.fail(({ path: called }) => (called === "/flush" && lost++ === 0 ? "after" : undefined));
    expect(await imported(world, "s", one)).toMatchObject({ estimate: 1, exact: true });
    expect(lost).toBeGreaterThan(1);
    isSame(await exported(world, "s"), one);
    await world.add("r", { unique: "bob" });
    const two = await exported(world, "r");
    world.fail(({ path: called }) => (called === "/flush" ? "before" : undefined));
    await world.refused(503, "unavailable", "PUT", path("s"), { body: two, headers: OCTETS });
    world.mend();
    isSame(await exported(world, "s"), one);
    expect(await imported(world, "s", two)).toMatchObject({ estimate: 2 });
    expect(await world.strong("s")).toMatchObject({ value: 0 });
  } finally {
    await world.close();
  }
});
