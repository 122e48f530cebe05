// The uniques of several counters together, the key that they are hashed with, and what readers without a key see.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { bearer } from "./calls.mjs";
import { watch } from "./live-client.mjs";
import { openWorld } from "./world.mjs";

let world;
let folder;
afterEach(async () => {
  await world?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
  world = folder = undefined;
});

const ADMIN = "admin-key-0123456789";
const BLOG = "blog-key-0123456789ab";
const KEYS = JSON.stringify({
  keys: [
    { name: "ops", key: ADMIN, scopes: ["admin"] },
    { name: "blog", key: BLOG, scopes: ["admin"], prefix: "blog/" },
  ],
  public: [{ prefix: "", origins: ["*"], scopes: ["read", "write"] }],
});
const visitors = (id, first, count) =>
  Array.from({ length: count }, (_, index) => JSON.stringify({ id, unique: `visitor ${first + index}` })).join("\n");
const strong = (query, options) => world.well("GET", `/uniques?consistency=strong&${query}`, options);

test("an intersection is of two counters, and says how far it may be off", async () => {
  world = await openWorld();
  await world.well("POST", "/events", { body: `${visitors("a", 0, 300)}\n${visitors("b", 200, 300)}` });
  const common = await strong("id=a&id=b&op=intersection");
  expect(common).toMatchObject({ ids: ["a", "b"], op: "intersection", exact: true });
  expect(Math.abs(common.estimate - 100)).toBeLessThanOrEqual(4 * common.standard_error + 1);
  const union = await strong("id=a&id=b&op=union");
  expect(union).toEqual({ ...(await strong("id=a&id=b")), as_of: union.as_of, staleness_ms: union.staleness_ms });
  expect(Math.abs(union.estimate - 500)).toBeLessThanOrEqual(5);
  const now = await strong("id=a&id=b&op=intersection&window=300");
  expect(now).toMatchObject({ window_seconds: 300, estimate: common.estimate });
  await world.add("c", { unique: "nobody else" });
  expect(await strong("id=a&id=c&op=intersection")).toMatchObject({ estimate: 0 });
  await world.add("none");
  expect(await strong("id=a&id=none&op=intersection")).toMatchObject({ estimate: 0, standard_error: 0 });
});

test("an intersection of dense sketches errs by a part of the union", async () => {
  world = await openWorld();
  await world.well("POST", "/events", { body: `${visitors("a", 0, 30_000)}\n${visitors("b", 20_000, 30_000)}` });
  const common = await strong("id=a&id=b&op=intersection");
  expect(common.standard_error).toBeGreaterThan(100);
  expect(common.standard_error).toBeLessThan(600);
  expect(Math.abs(common.estimate - 10_000)).toBeLessThanOrEqual(4 * common.standard_error);
});

test("an intersection of any other number of counters, and another op, are refused", async () => {
  world = await openWorld();
  for (const id of ["a", "b", "c"]) await world.add(id, { unique: "x" });
  for (const query of [
    "id=a&op=intersection", "id=a&id=a&op=intersection", "id=a&id=b&id=c&op=intersection", "id=a&id=b&op=difference",
    "id=a&id=b&op=",
  ]) {
    await world.refused(400, "invalid-query", "GET", `/uniques?${query}`);
  }
});

test("readers without a key see rounded uniques, others exact ones, also when both ask at once", async () => {
  world = await openWorld({
    vars: { TALLY_ACCESS: undefined, TALLY_KEYS: KEYS }, edgeVars: { TALLY_UNIQUES_ROUNDING: "1" },
  });
  // Without a key a visitor may not write so much at once.
  await world.well("POST", "/events", {
    body: `${visitors("a", 0, 347)}\n${visitors("b", 100, 347)}`, ...bearer(ADMIN),
  });
  const read = async (options) => {
    const [counter, union, common] = await Promise.all([
      world.read("a", "?window=300", options),
      world.well("GET", "/uniques?id=a&id=b", options),
      world.well("GET", "/uniques?id=a&id=b&op=intersection", options),
    ]);
    return [counter.uniques, counter.window.uniques, union, common];
  };
  const [exact, rounded] = await Promise.all([read(bearer(ADMIN)), read()]);
  for (const [index, number] of [347, 347, 447, 247].entries()) {
    expect(Math.abs(exact[index].estimate - number)).toBeLessThanOrEqual(2);
  }
  expect(rounded.map(({ estimate }) => estimate)).toEqual([300, 300, 400, 200]);
  for (const [index, { standard_error }] of rounded.entries()) {
    expect(standard_error).toBeGreaterThan(28);
    expect(exact[index].standard_error).toBeLessThan(2);
  }
  // What one was told within a millisecond is not handed to the other.
  const both = await Promise.all(
    Array.from({ length: 40 }, (_, index) => world.read("a", "", index % 2 ? bearer(ADMIN) : undefined)),
  );
  expect(both.map(({ uniques }, index) => uniques.estimate === (index % 2 ? exact[0].estimate : 300))).not.toContain(
    false,
  );
  const answer = await world.well("GET", "/counters/a?explain=1");
  expect(answer.uniques).toEqual(rounded[0]);
});

test("streams tell rounded uniques to all who watch, with a key or not", async () => {
  world = await openWorld({ vars: { TALLY_ACCESS: undefined, TALLY_KEYS: KEYS, TALLY_UNIQUES_ROUNDING: "1" } });
  await world.well("POST", "/events", { body: visitors("a", 0, 347), ...bearer(ADMIN) });
  for (const options of [undefined, bearer(ADMIN)]) {
    const watcher = await watch(world, "/live?id=a", options);
    await watcher.sees("a", (a) => a.uniques.estimate === 300);
    watcher.close();
  }
});

test("a rounding that cannot be read shows uniques to nobody", async () => {
  world = await openWorld({ edgeVars: { TALLY_UNIQUES_ROUNDING: "a bit" } });
  await world.add("a", { unique: "x" });
  for (const path of ["/counters/a", "/uniques?id=a"]) {
    const { json } = await world.refused(503, "not-configured", "GET", path);
    expect(json.detail).toContain("TALLY_UNIQUES_ROUNDING");
  }
});

test("a rotation begins an epoch: elements of both are other elements, and retries are still found", async () => {
  world = await openWorld();
  const keyed = { headers: { "idempotency-key": "order-1" } };
  await world.add("a", { unique: "bob" }, keyed);
  const rotated = await world.well("POST", "/uniques/rotate");
  expect(rotated).toMatchObject({ status: "rotated", learned_within_ms: 60_000 });
  expect(rotated.hash_id).not.toBe(rotated.previous_hash_id);
  await world.add("b", { unique: "bob" });
  for (const op of ["union", "intersection"]) {
    await world.refused(409, "hash-mismatch", "GET", `/uniques?id=a&id=b&op=${op}&consistency=strong`);
  }
  await world.add("both", { unique: "alice" });
  expect(await strong("id=b&id=both&op=intersection")).toMatchObject({ estimate: 0 });
  // The names of idempotency keys do not rotate: a retry counts nothing.
  expect((await world.add("a", { unique: "bob" }, keyed)).value).toBe(1);
  expect(await world.strong("a")).toMatchObject({ value: 1 });
  const line = { id: "c", idempotency_key: "1" };
  await world.well("POST", "/events", { body: JSON.stringify(line) });
  const again = await world.well("POST", "/uniques/rotate", { body: "{}" });
  expect(again.previous_hash_id).toBe(rotated.hash_id);
  await world.well("POST", "/events", { body: JSON.stringify(line) });
  expect(await world.strong("c")).toMatchObject({ value: 1 });
  // The new key is the deployment's, not this isolate's.
  await world.evict();
  const third = await world.well("POST", "/uniques/rotate");
  expect(third.previous_hash_id).toBe(again.hash_id);
});

test("only an admin of all ids rotates, with nothing in the body, and not a key that is set", async () => {
  world = await openWorld({ vars: { TALLY_ACCESS: undefined, TALLY_KEYS: KEYS } });
  await world.refused(401, "unauthorized", "POST", "/uniques/rotate");
  await world.refused(403, "forbidden", "POST", "/uniques/rotate", bearer(BLOG));
  await world.refused(400, "unknown-field", "POST", "/uniques/rotate", { body: '{"id":1}', ...bearer(ADMIN) });
  await world.refused(405, "method-not-allowed", "GET", "/uniques/rotate");
  await world.well("POST", "/uniques/rotate", bearer(ADMIN));
  await world.close();
  world = await openWorld({ edgeVars: { TALLY_HASH_KEY: "0123456789abcdef0123456789abcdef" } });
  const { json } = await world.refused(409, "hash-key-set", "POST", "/uniques/rotate");
  expect(json.detail).toContain("TALLY_HASH_KEY");
});

test("another TALLY_HASH_KEY is another epoch, and retries are still found", async () => {
  folder = mkdtempSync(join(tmpdir(), "tally-uniques-"));
  const keyed = { headers: { "idempotency-key": "order-1" } };
  world = await openWorld({ folder, edgeVars: { TALLY_HASH_KEY: "0123456789abcdef0123456789abcdef" } });
  await world.add("a", { unique: "bob" }, keyed);
  await world.close();
  world = await openWorld({ folder, edgeVars: { TALLY_HASH_KEY: "123456789abcdef0123456789abcdef0" } });
  await world.add("b", { unique: "bob" });
  await world.refused(409, "hash-mismatch", "GET", "/uniques?id=a&id=b&consistency=strong");
  await world.add("a", { unique: "bob" });
  expect(await world.strong("a")).toMatchObject({ value: 2, uniques: { estimate: 2, epochs: 2 } });
  // Of two epochs that both have seen, each says what is in both.
  expect(await strong("id=a&id=b&op=intersection")).toMatchObject({ estimate: 1 });
  expect((await world.add("a", { unique: "bob" }, keyed)).value).toBe(1);
});
