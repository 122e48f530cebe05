// Set and reset, and keys on all operations: what raced is kept, and what is repeated is done once.
import { afterEach, beforeEach, expect, test } from "vitest";
import { isReplay, keyed, numbers, partOf } from "./calls.mjs";
import { reset, resetting, set, setting } from "./operating.mjs";
import { each, openWorld, until } from "./world.mjs";

const COLOS = ["FRA", "IAD", "SYD"];

let world;
beforeEach(async () => {
  world = await openWorld({ edges: 2 });
});
afterEach(() => world.close());

test("a value is set, and counted on from", async () => {
  const created = await setting(world, "a", 40);
  expect(created.status).toBe(201);
  expect(created.json).toMatchObject({
    id: "a",
    value: 40,
    base: 40,
    exact: true,
    datacenters: [],
    settings: { shards: "auto", floor: null, home: null },
    pending_datacenters: [],
  });
  expect(await world.add("a", { delta: 2 })).toMatchObject({ value: 42, exact: true });
  const again = await setting(world, "a", -7, { colo: "IAD" });
  expect(again.status).toBe(200);
  expect(again.json).toMatchObject({ value: -7, base: -7, exact: true });
  expect(await world.add("a", { delta: 2 })).toMatchObject({ value: -5, exact: true });
  const answer = await world.strong("a");
  expect(answer).toMatchObject({ value: -5, base: -7, exact: true });
  expect(partOf(answer, "FRA").value).toBe(2);
  expect(answer).not.toHaveProperty("settings");
  expect(answer).not.toHaveProperty("pending_datacenters");
  expect(await world.well("GET", "/counters/a*/aggregate?consistency=strong")).toMatchObject({
    value: -5, exact: true,
  });
  expect((await world.call("GET", "/counters/a?consistency=strong", { headers: { accept: "text/plain" } })).text).toBe(
    "-5",
  );
});

test("a set to nothing keeps what was counted in the history", async () => {
  await world.refused(404, "counter-not-found", "GET", "/counters/a?consistency=strong");
  await world.refused(404, "counter-not-found", "DELETE", "/counters/a");
  // An object that was opened has a file.
  expect(await world.objects("Cell")).toEqual([]);
  await world.add("a", { delta: 9, unique: "ann" });
  for (const body of [undefined, '{"value":"0"}', ' {"value": -0} ', '{"value":0}']) {
    const answer = await reset(world, "a", body === undefined ? {} : { body });
    expect(answer).toMatchObject({ value: 0, base: 0, exact: true, pending_datacenters: [] });
    expect(await world.add("a", { delta: 9 })).toMatchObject({ value: 9, exact: true });
  }
  // What was counted stays in its history.
  const counter = await world.strong("a", "&window=300");
  expect(counter).toMatchObject({ value: 9, window: { count: 45 }, uniques: { estimate: 1 } });
});

test("values have either sign and 128 bits, as numbers and as strings", async () => {
  const most = 2n ** 128n - 1n;
  for (const value of [most, -most, 2n ** 53n + 1n]) {
    for (const text of [`${value}`, `"${value}"`]) {
      expect((await set(world, "a", text)).value).toBe(value);
      expect((await world.strong("a")).base).toBe(value);
    }
  }
  expect((await world.strong("a", "&numbers=string")).value).toBe(String(2n ** 53n + 1n));
  expect((await world.add("a", { delta: 1 })).value).toBe(2n ** 53n + 2n);
  expect(await set(world, "a", '"-0"')).toMatchObject({ value: 0, base: 0 });
});

test("what is no value is refused and changes nothing", async () => {
  await world.add("a", { delta: 9 });
  for (const [code, body] of [
    ["invalid-json", "{"],
    ["invalid-json", ""],
    ["invalid-body", "5"],
    ["invalid-body", "{}"],
    ["invalid-body", '{"value":null}'],
    ["invalid-body", '{"value":1.5}'],
    ["invalid-body", '{"value":15e-1}'],
    ["invalid-body", '{"value":"x"}'],
    ["invalid-body", '{"value":""}'],
    ["invalid-body", `{"value":${2n ** 128n}}`],
    ["unknown-field", '{"value":1,"by":2}'],
  ]) {
    const answer = await world.call("PUT", "/counters/a/value", { body });
    expect([answer.status, answer.json.code], body).toEqual([400, code]);
  }
  await world.refused(404, "not-found", "POST", "/counters/a/reset");
  await world.refused(400, "invalid-query", "PUT", "/counters/a/value?x=1", { body: '{"value":1}' });
  const counter = await world.strong("a");
  expect(counter).toMatchObject({ value: 9, exact: true });
  expect(counter).not.toHaveProperty("base");
});

test("of several datacenters and shards the sum is what was set and what came after", async () => {
  await world.put("a", { shards: 4 });
  await each(numbers(60), 10, (index) =>
    world.add("a", { unique: `u${index}` }, { colo: COLOS[index % 3], edge: index % 2 }),
  );
  const answer = await set(world, "a", 1_000, { colo: "NRT" });
  expect(answer).toMatchObject({ value: 1_000, exact: true, pending_datacenters: [] });
  await each(numbers(30), 10, (index) =>
    world.add("a", { unique: `v${index}` }, { colo: COLOS[index % 3], edge: index % 2 }),
  );
  await world.subtract("a", { delta: 5 }, { colo: "SYD" });
  await world.add("a", { delta: 100 }, { colo: "GRU" });
  const counter = await world.strong("a");
  expect(counter).toMatchObject({ value: 1_125, base: 1_000, exact: true });
  const parts = Object.fromEntries(counter.datacenters.map(({ id, value }) => [id, value]));
  expect(parts).toEqual({ FRA: 10, IAD: 10, SYD: 5, GRU: 100 });
  // Shards that are sealed keep their baselines.
  await world.put("a", { shards: 1 });
  await until(async () => (await world.add("a")).datacenter && (await world.strong("a")).exact, "an exact sum");
  await world.evict();
  expect((await reset(world, "a")).value).toBe(0);
  expect(await world.strong("a")).toMatchObject({ value: 0, exact: true });
});

test("resets at once and one after the other subtract once", async () => {
  for (const colo of COLOS) await world.add("a", { delta: 10 }, { colo });
  await Promise.all(numbers(8).map((index) => reset(world, "a", { colo: COLOS[index % 3], edge: index % 2 })));
  expect(await world.strong("a")).toMatchObject({ value: 0, exact: true });
  await world.add("a", { delta: 3 }, { colo: "IAD" });
  expect(await world.strong("a")).toMatchObject({ value: 3, exact: true });
  await reset(world, "a");
  await reset(world, "a", { colo: "SYD" });
  expect(await world.strong("a")).toMatchObject({ value: 0, exact: true });
});

// Each write adds its own bit, so the sum tells which writes are in it, and a write that counted twice would show.
const stories = [
  ["one datacenter", ["FRA"], {}],
  ["one datacenter of four shards", ["FRA"], { shards: 4 }],
  ["three datacenters", COLOS, {}],
  ["a home", COLOS, { home: "IAD" }],
];
for (const [what, colos, settings] of stories) {
  test(`writes that race a set are before it or after it: ${what}`, async () => {
    const width = 12;
    await world.put("a", settings);
    for (const [round, base] of [0n, 2n ** 120n].entries()) {
      let stage = "before";
      const writes = [];
      const isSet = Promise.withResolvers();
      const write = async (bit) => {
        // However fast the others are, the last come after the set.
        if (bit >= 50) await isSet.promise;
        // They come all the while that the set takes.
        await world.advance((bit % width) * 5);
        const began = stage;
        const body = { delta: String(2n ** BigInt(bit)), unique: `${round}-${bit}` };
        await world.add("a", body, { colo: colos[bit % colos.length], edge: bit % 2 });
        writes.push({ bit, began, ended: stage });
      };
      const writing = each(numbers(62), width, write);
      await until(() => writes.length > 10, "some writes");
      stage = "meanwhile";
      const answer = await set(world, "a", base, { colo: "NRT" });
      stage = "after";
      isSet.resolve();
      expect(answer).toMatchObject({ pending_datacenters: [] });
      await writing;
      const counter = await world.strong("a");
      expect(counter.exact).toBe(true);
      const counted = BigInt(counter.value) - base;
      expect(counted >= 0n && counted < 2n ** 62n, `${counter.value}`).toBe(true);
      for (const { bit, began, ended } of writes) {
        const isIn = ((counted >> BigInt(bit)) & 1n) === 1n;
        if (ended === "before") expect(isIn, `write ${bit} was acknowledged before the set`).toBe(false);
        if (began === "after") expect(isIn, `write ${bit} began after the set`).toBe(true);
      }
      expect(writes.filter(({ began }) => began === "after").length).toBeGreaterThan(10);
    }
  });
}

test("a repeated operation is the same one and gets the first answer", async () => {
  await world.add("a", { delta: 3 }, { colo: "IAD" });
  const first = await setting(world, "a", 5, keyed("k"));
  expect(first.json).toMatchObject({ value: 5, base: 5 });
  expect(isReplay(first)).toBe(false);
  await world.add("a", { delta: 2 });
  for (const options of [{}, { colo: "SYD" }, { edge: 1 }]) {
    const again = await setting(world, "a", 5, keyed("k", options));
    expect(again.text).toBe(first.text);
    expect([again.status, isReplay(again)]).toEqual([first.status, true]);
  }
  expect(await world.strong("a")).toMatchObject({ value: 7, exact: true });
  const made = await setting(world, "new", 5, keyed("k"));
  expect(made.status).toBe(201);
  expect((await setting(world, "new", 5, keyed("k"))).status).toBe(201);
  await world.evict();
  const afterwards = await setting(world, "a", 5, keyed("k"));
  expect([afterwards.text, isReplay(afterwards)]).toEqual([first.text, true]);

  const down = await resetting(world, "a", keyed("r"));
  await world.add("a", { delta: 1 });
  expect((await resetting(world, "a", keyed("r", { colo: "SYD" }))).text).toBe(down.text);
  expect(await world.strong("a")).toMatchObject({ value: 1, exact: true });
  expect((await world.strong("a")).datacenters.map(({ id }) => id).sort()).toEqual(["FRA", "IAD"]);
});

test("many at once under one key are one", async () => {
  for (const colo of COLOS) await world.add("a", { delta: 10 }, { colo });
  const answers = await Promise.all(
    numbers(20).map((index) => resetting(world, "a", keyed("same", { colo: COLOS[index % 3], edge: index % 2 }))),
  );
  expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
  expect(answers.filter((answer) => !isReplay(answer)).length).toBe(1);
  expect(await world.strong("a")).toMatchObject({ value: 0, exact: true });
});

test("a key names one thing", async () => {
  const reused = (method, path, body) =>
    world.refused(422, "idempotency-key-reused", method, path, keyed("k", { body }));
  await set(world, "a", 5, keyed("k"));
  await reused("PUT", "/counters/a/value", '{"value":6}');
  await reused("PUT", "/counters/a/value?numbers=string", '{"value":5}');
  await reused("PUT", "/counters/a/value", '{"value":0}');
  await reused("PUT", "/counters/a", "{}");
  await reused("DELETE", "/counters/a");
  await reused("POST", "/counters/a/increment");
  await reused("POST", "/counters/a/decrement");
  expect(await world.strong("a")).toMatchObject({ value: 5, exact: true });
  await world.add("b", { delta: 2 }, keyed("k"));
  for (const [method, path, body] of [
    ["PUT", "/counters/b/value", '{"value":5}'],
    ["PUT", "/counters/b/value", '{"value":0}'],
    ["PUT", "/counters/b", "{}"],
    ["DELETE", "/counters/b"],
  ]) {
    await reused(method, path, body);
  }
  expect(await world.strong("b")).toMatchObject({ value: 2, exact: true });
  await world.refused(400, "invalid-idempotency-key", "DELETE", "/counters/a", keyed("x".repeat(256)));
});

test("settings and deletions take keys too", async () => {
  const body = '{"shards":2}';
  const first = await world.call("PUT", "/counters/a", keyed("s", { body }));
  expect(first.status).toBe(201);
  await world.put("a", { shards: 4 });
  const again = await world.call("PUT", "/counters/a", keyed("s", { body, colo: "IAD" }));
  expect([again.status, again.text, isReplay(again)]).toEqual([201, first.text, true]);
  expect((await world.put("a", { shards: 4 })).settings.shards).toBe(4);

  await world.add("a", { delta: 3 });
  const gone = await world.call("DELETE", "/counters/a", keyed("d"));
  expect([gone.status, isReplay(gone)]).toEqual([200, false]);
  const repeated = await world.call("DELETE", "/counters/a", keyed("d", { colo: "IAD" }));
  expect([repeated.status, repeated.text, isReplay(repeated)]).toEqual([200, gone.text, true]);
  await world.add("a", { delta: 8 });
  const late = await world.call("DELETE", "/counters/a", keyed("d"));
  expect([late.status, late.text, isReplay(late)]).toEqual([200, gone.text, true]);
  expect(await world.strong("a")).toMatchObject({ value: 8, exact: true });
  // A set of the generation that ended is done, and answered, once.
  await set(world, "a", 1, keyed("v"));
  await world.well("DELETE", "/counters/a");
  expect(await set(world, "a", 1, keyed("v"))).toMatchObject({ value: 1 });
  await world.refused(404, "counter-not-found", "GET", "/counters/a?consistency=strong");
});

test("a set ends with its counter", async () => {
  await set(world, "a", 100);
  await world.add("a", { delta: 1 });
  await world.well("DELETE", "/counters/a");
  expect(await world.add("a", { delta: 1 })).toMatchObject({ value: 1, exact: true });
  expect(await world.strong("a")).not.toHaveProperty("base");
});

test("whoever sends the version of a set back sees it", async () => {
  for (const colo of COLOS) await world.add("a", { delta: 10 }, { colo });
  for (const value of [5, 77, 12]) {
    // A view from before, in another isolate.
    await world.read("a", "", { edge: 1 });
    const { version } = await set(world, "a", value);
    const answer = await world.read("a", `?at_least=${version}`, { edge: 1, colo: "SYD" });
    expect(answer).toMatchObject({ value, base: value });
  }
  const { version } = await reset(world, "a");
  expect((await world.read("a", `?at_least=${version}`, { edge: 1 })).value).toBe(0);
});

test("queued events count after a set that they came after", async () => {
  const queue = (increment) => world.call("POST", "/api/event", { body: JSON.stringify({ key: "a", increment }) });
  await queue(5);
  expect(await world.strong("a")).toMatchObject({ value: 5, exact: true });
  await set(world, "a", 100);
  expect((await queue(7)).status).toBe(202);
  expect(await world.strong("a")).toMatchObject({ value: 107, exact: true });
});

test("operations are counted in the metrics", async () => {
  await set(world, "a", 1, keyed("k"));
  await set(world, "a", 1, keyed("k"));
  await reset(world, "a");
  const { text } = await world.call("GET", "/metrics");
  for (const line of [
    'tally_acknowledged_total{operation="set"} 2',
    "tally_replayed_total 1",
  ]) {
    expect(text.split("\n")).toContain(line);
  }
});
