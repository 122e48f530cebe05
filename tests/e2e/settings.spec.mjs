// Settings, and the ends of counters: shards that come and go, time to live, deletion, re-creation.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TABLETS, each, openWorld, until } from "./world.mjs";

// A timer of the platform may fire a little late; what lived too long is looked for within this.
const END_MS_MAX = 5_000;

let world;
beforeAll(async () => {
  world = await openWorld({ edges: 2 });
});
afterAll(() => world.close());

const pointsOf = ({ points }) => points.reduce((sum, [, count]) => sum + (count ?? 0), 0);
const isGone = async (id) => (await world.call("GET", `/counters/${id}?consistency=strong`)).status === 404;

// Nothing of an earlier counter of that name is left: value, history, windows, uniques, datacenters.
async function expectNew(id, value, unique) {
  const answer = await world.strong(id, "&window=900");
  expect(answer).toMatchObject({ value, exact: true });
  expect(answer.window.count).toBe(value);
  expect(answer.uniques?.estimate ?? 0).toBe(unique);
  expect(answer.window.uniques?.estimate ?? 0).toBe(unique);
  expect(pointsOf(await world.history(id, "&step=1d"))).toBe(value);
  expect(pointsOf(await world.history(id, "&step=1m"))).toBe(value);
  return answer;
}

test("a setting creates a counter once", async () => {
  const created = await world.call("PUT", "/counters/set", { body: '{"shards":2,"ttl_seconds":3600}' });
  expect(created.status).toBe(201);
  expect(created.json).toMatchObject({
    id: "set", value: 0, settings: { shards: 2, ttl_seconds: 3600, ttl_mode: "fixed" },
  });
  const left_ms = created.json.expires_at - world.now();
  expect(left_ms).toBeGreaterThan(3_500_000);
  expect(left_ms).toBeLessThanOrEqual(3_600_000);
  await world.add("set", { delta: 4 });
  const replaced = await world.call("PUT", "/counters/set", { body: "{}" });
  expect(replaced.status).toBe(200);
  expect(replaced.json).toMatchObject({ value: 4, expires_at: null, settings: { shards: "auto", ttl_seconds: null } });
});

test("a setting of a counter that was written to answers with its state", async () => {
  await world.add("set-later", { delta: 4, unique: "ann" });
  const answer = await world.call("PUT", "/counters/set-later", { body: '{"shards":4}', colo: "IAD" });
  expect(answer.status).toBe(200);
  expect(answer.json).toMatchObject({ value: 4, exact: true, settings: { shards: 4 } });
  expect(answer.json.uniques.estimate).toBe(1);
});

test.skipIf(TABLETS)("shards take the writes, and lowering them loses nothing", async () => {
  const id = "sharded";
  const before = (await world.objects("Cell")).length;
  await world.put(id, { shards: 4 });
  let total = 0;
  const visit = async (count, tag) => {
    const visits = Array.from({ length: count }, (_, index) => index);
    await each(visits, 20, (index) =>
      world.add(
        id, { delta: 2, unique: `${tag}-${index}` }, { colo: index % 2 ? "FRA" : "IAD", edge: index % 3 === 0 ? 1 : 0 },
      ),
    );
    total += count * 2;
  };
  await visit(120, "one");
  let answer = await world.strong(id, "&window=900");
  expect(answer).toMatchObject({ value: total, exact: true });
  expect(answer.datacenters.map(({ shards }) => shards)).toEqual([4, 4]);
  expect((await world.objects("Cell")).length - before, "cells of two datacenters with four shards").toBe(8);
  await world.put(id, { shards: 1 });
  await visit(60, "two");
  await world.put(id, { shards: 8 });
  await visit(60, "three");
  answer = await world.strong(id, "&window=900");
  expect(answer).toMatchObject({ value: total, exact: true });
  expect(answer.window.count).toBe(total);
  expect(answer.datacenters.map(({ shards }) => shards)).toEqual([8, 8]);
  expect(Math.abs(answer.uniques.estimate - 240)).toBeLessThanOrEqual(3 * answer.uniques.standard_error + 1);
  expect(pointsOf(await world.history(id, "&step=1h"))).toBe(total);
});

test("writes that race changes of shards are counted once", async () => {
  const id = "resharded";
  let acknowledged = 0;
  let changing = true;
  const write = async (edge) => {
    for (let round = 0; changing || round < 10; round++) {
      await world.add(id, { unique: `${edge}-${round}` }, { edge: edge % 2, colo: edge < 2 ? "FRA" : "IAD" });
      acknowledged += 1;
    }
  };
  const writing = Promise.all([0, 1, 2, 3].map(write));
  for (const shards of [2, 8, 1, 4, 1, 2]) {
    await world.put(id, { shards });
    const known = acknowledged;
    const answer = await world.strong(id);
    expect(answer.exact).toBe(true);
    expect(answer.value).toBeGreaterThanOrEqual(known);
  }
  changing = false;
  await writing;
  expect(await world.strong(id)).toMatchObject({ value: acknowledged, exact: true });
});

describe("time to live", () => {
  test("a fixed one ends from the setting, whatever is written", async () => {
    const id = "fixed";
    const began_ms = world.now();
    const { expires_at } = await world.put(id, { ttl_seconds: 5, ttl_mode: "fixed" });
    expect(expires_at).toBeGreaterThanOrEqual(began_ms + 5_000);
    let last_alive_ms = 0;
    await until(async () => {
      const at_ms = world.now();
      const answer = await world.call("GET", `/counters/${id}?consistency=strong`);
      if (answer.status === 404) return true;
      expect(answer.json.expires_at).toBe(expires_at);
      last_alive_ms = at_ms;
      // Writes stop long before the end, so that none creates the counter anew.
      if (at_ms < expires_at - 4_000) await world.add(id, { delta: 3, unique: "old" });
      return false;
    }, "the end");
    expect(world.now()).toBeGreaterThanOrEqual(expires_at);
    expect(last_alive_ms).toBeLessThan(expires_at + 5);
    expect(await world.add(id, { unique: "new" })).toMatchObject({ value: 1 });
    const counter = await expectNew(id, 1, 1);
    expect(counter).toMatchObject({ expires_at: null });
  });

  test("a default read does not show an expired counter for longer than its view lives", async () => {
    const id = "fixed-cached";
    const { expires_at } = await world.put(id, { ttl_seconds: 4 });
    await world.add(id);
    await until(async () => (await world.call("GET", `/counters/${id}`)).status === 404, "the end");
    expect(world.now()).toBeGreaterThanOrEqual(expires_at);
    expect(world.now()).toBeLessThan(expires_at + END_MS_MAX);
  });

  test("a sliding one ends after the last write, not before", async () => {
    const id = "sliding";
    const ttl_ms = 4_000;
    await world.put(id, { ttl_seconds: 4, ttl_mode: "sliding" });
    const end_ms = world.now() + 2 * ttl_ms;
    let total = 0;
    let last_ms = 0;
    await until(async () => {
      last_ms = world.now();
      await world.add(id, { unique: "old" }, { colo: total % 2 ? "FRA" : "IAD" });
      total += 1;
      expect(await world.strong(id)).toMatchObject({ value: total, exact: true });
      return world.now() > end_ms;
    }, "twice its life");
    const { expires_at } = await world.strong(id);
    expect(expires_at).toBeGreaterThanOrEqual(last_ms + ttl_ms);
    await until(() => isGone(id), "the end");
    expect(world.now()).toBeGreaterThanOrEqual(expires_at);
    expect(world.now()).toBeLessThan(expires_at + END_MS_MAX);
    await world.add(id);
    await expectNew(id, 1, 0);
  });

  test("an expired counter is in no listing and no sum", async () => {
    await world.add("listed-ends", { delta: 5 });
    await world.add("listed-stays", { delta: 7 });
    await world.put("listed-ends", { ttl_seconds: 4 });
    expect(await world.well("GET", "/counters/listed-*/aggregate?consistency=strong")).toMatchObject({
      counters: 2, value: 12,
    });
    await until(() => isGone("listed-ends"), "the end");
    expect((await world.well("GET", "/counters?prefix=listed-")).entries).toEqual([{ id: "listed-stays" }]);
    expect(await world.well("GET", "/counters/listed-*/aggregate?consistency=strong")).toMatchObject({
      counters: 1, value: 7,
    });
  });

  test("a setting without it lets the counter live", async () => {
    const { expires_at } = await world.put("kept", { ttl_seconds: 4 });
    await world.add("kept");
    await world.put("kept", {});
    await until(() => world.now() > expires_at + 300, "the old end");
    expect(await world.strong("kept")).toMatchObject({ value: 1, expires_at: null });
  });
});

describe("deletion", () => {
  test("a deleted counter is gone at once, for every reader", async () => {
    await world.add("gone", { delta: 9, unique: "ann" });
    await world.add("gone", { delta: 9, unique: "bob" }, { colo: "IAD" });
    await world.read("gone");
    expect(await world.well("DELETE", "/counters/gone")).toEqual({
      id: "gone", status: "deleted", pending_datacenters: [],
    });
    await world.refused(404, "counter-not-found", "GET", "/counters/gone");
    await world.refused(404, "counter-not-found", "GET", "/counters/gone?consistency=strong", { colo: "IAD", edge: 1 });
    await world.refused(404, "counter-not-found", "GET", "/counters/gone/history?step=1d");
    await world.refused(404, "counter-not-found", "DELETE", "/counters/gone");
    expect((await world.well("GET", "/counters?prefix=gone")).entries).toEqual([]);
  });

  test("nothing of the old comes back with the new", async () => {
    await world.put("again", { shards: 4, ttl_seconds: 3600 });
    await each(Array.from({ length: 40 }, (_, index) => index), 10, (index) =>
      world.add("again", { delta: 5, unique: `old-${index}` }, { colo: index % 2 ? "FRA" : "IAD", edge: index % 2 }),
    );
    await world.well("DELETE", "/counters/again");
    // Another isolate may still hold a view and the number of shards of the old one.
    const first = await world.add("again", { unique: "new" }, { edge: 1 });
    if (first.exact) expect(first.value).toBe(1);
    const answer = await expectNew("again", 1, 1);
    expect(answer.expires_at).toBeNull();
    expect(answer.datacenters.map(({ id }) => id)).toEqual(["FRA"]);
    expect(await world.add("again", { delta: 2 }, { colo: "IAD" })).toMatchObject({ delta: 2 });
    await expectNew("again", 3, 1);
  });

  // A write is before or after the deletion. One that began after the deletion was answered is after
  // it, one that was acknowledged before the deletion began is before it, the others are either.
  for (const shards of [1, 4]) {
    test(`increments that race a deletion are counted in one life alone (shards ${shards})`, async () => {
      const id = `raced-${shards}`;
      for (let life = 0; life < 4; life++) {
        if (shards > 1) await world.put(id, { shards });
        let deleted = "not yet";
        let writing = true;
        let surely = 0;
        let perhaps = 0;
        const write = async (colo, edge) => {
          for (let round = 0; writing || round < 5; round++) {
            const began = deleted;
            await world.add(id, { delta: 1, unique: `${colo}-${edge}-${round}` }, { colo, edge });
            if (began === "done") surely += 1;
            if (deleted !== "not yet") perhaps += 1;
          }
        };
        const all = Promise.all(["FRA", "IAD"].flatMap((colo) => [0, 1, 0, 1].map((edge) => write(colo, edge))));
        await until(async () => (await world.call("GET", `/counters/${id}`)).json?.value > 20, "some writes");
        deleted = "under way";
        await world.well("DELETE", `/counters/${id}`);
        deleted = "done";
        await until(() => surely > 20, "writes after the deletion");
        writing = false;
        await all;
        const answer = await world.strong(id, "&window=900");
        expect(answer.exact).toBe(true);
        expect(answer.value).toBeGreaterThanOrEqual(surely);
        expect(answer.value).toBeLessThanOrEqual(perhaps);
        expect(answer.window.count).toBe(answer.value);
        expect(pointsOf(await world.history(id, "&step=1d"))).toBe(answer.value);
        await world.well("DELETE", `/counters/${id}`);
      }
    });
  }
});

describe("bad settings are refused and change nothing", () => {
  const table = [
    ["invalid-json", "{"],
    ["invalid-body", "[]"],
    ["invalid-body", '{"shards":3}'],
    ["invalid-body", '{"shards":0}'],
    ["invalid-body", '{"shards":128}'],
    ["invalid-body", '{"shards":-1}'],
    ["invalid-body", '{"shards":1.5}'],
    ["invalid-body", '{"shards":"many"}'],
    ["invalid-body", '{"ttl_seconds":0}'],
    ["invalid-body", '{"ttl_seconds":-5}'],
    ["invalid-body", '{"ttl_seconds":1.5}'],
    ["invalid-body", '{"ttl_seconds":"60"}'],
    ["invalid-body", '{"ttl_seconds":99999999999}'],
    ["invalid-body", '{"ttl_seconds":60,"ttl_mode":"never"}'],
    ["invalid-body", '{"ttl_mode":"sliding"}'],
    ["unknown-field", '{"shard":4}'],
  ];
  for (const [index, [code, body]] of table.entries()) {
    test(`${code}: ${body}`, async () => {
      const path = `/counters/never-set-${index}`;
      await world.refused(400, code, "PUT", path, { body });
      await world.refused(404, "counter-not-found", "GET", path);
    });
  }
});
