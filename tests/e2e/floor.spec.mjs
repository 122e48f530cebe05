// A floor: no decrement takes the value below it, however many come at once and wherever they enter.
import { afterEach, beforeEach, expect, test } from "vitest";
import { keyed, numbers } from "./calls.mjs";
import { each, openWorld } from "./world.mjs";

const COLOS = ["FRA", "IAD", "SYD"];
const DECREMENT = "/counters/a/decrement";
const anywhere = (index) => ({ colo: COLOS[index % COLOS.length], edge: index % 2 });
const homeOf = (answer) => answer.settings.home;

let world;
beforeEach(async () => {
  world = await openWorld({ edges: 2 });
});
afterEach(() => world.close());

const below = (method, path, options) => world.refused(409, "below-floor", method, path, options);
const needsHome = (method, path, options) => world.refused(409, "needs-home", method, path, options);

test("a decrement that would go below is refused and changes nothing", async () => {
  await world.add("a", { delta: 10 });
  expect((await world.put("a", { floor: 3 })).settings).toMatchObject({ floor: 3, home: "FRA" });
  expect(await world.subtract("a", { delta: 4 })).toMatchObject({ value: 6, exact: true });
  await below("POST", DECREMENT, { body: '{"delta":4}' });
  await below("POST", DECREMENT, { body: '{"delta":4,"unique":"x"}', colo: "IAD", edge: 1 });
  expect(await world.strong("a", "&window=60")).toMatchObject({
    value: 6, exact: true, uniques: null, window: { count: 10 },
  });
  expect(await world.subtract("a", { delta: 3, unique: "x" }, { colo: "IAD", edge: 1 })).toMatchObject({
    value: 3, exact: true,
  });
  await below("POST", DECREMENT);
  expect(await world.add("a", { delta: 1 }, { colo: "SYD" })).toMatchObject({ value: 4, exact: true });
  expect(await world.strong("a")).toMatchObject({ value: 4, uniques: { estimate: 1 } });
  await world.evict();
  await below("POST", DECREMENT, { body: '{"delta":2}' });
});

test("a keyed decrement that was refused is refused for good, and another key counts once there is room", async () => {
  await world.put("a", { floor: 0, home: "IAD" });
  const send = (key, options) =>
    world.call("POST", DECREMENT, keyed(key, { body: '{"delta":4,"unique":"x"}', ...options }));
  const refused = await send("k");
  expect([refused.status, refused.json.code, refused.headers.get("idempotency-replayed")]).toEqual([
    409, "below-floor", null,
  ]);
  await world.add("a", { delta: 5 }, { colo: "SYD" });
  await world.evict();
  for (const colo of COLOS) {
    const again = await send("k", { colo, edge: 1 });
    expect([again.status, again.text, again.headers.get("idempotency-replayed")]).toEqual([409, refused.text, "true"]);
  }
  await world.refused(422, "idempotency-key-reused", "POST", DECREMENT, keyed("k", { body: '{"delta":3}' }));
  expect(await world.strong("a")).toMatchObject({ value: 5, exact: true, uniques: null });
  const first = await send("other");
  expect(first.json).toMatchObject({ value: 1, exact: true, datacenter: "IAD" });
  const again = await send("other", { colo: "SYD" });
  expect([again.text, again.headers.get("idempotency-replayed")]).toEqual([first.text, "true"]);
  expect(await world.strong("a")).toMatchObject({ value: 1, exact: true });
});

for (const [what, before] of [
  ["from a home that is named", async () => world.put("a", { home: "IAD", floor: 0 })],
  ["after several counted", async () => {
    await each(numbers(30), 10, (index) => world.add("a", { delta: 1 }, anywhere(index)));
    await world.well("PUT", "/counters/a/value", { body: '{"value":0}' });
    await world.put("a", { home: "IAD", floor: 0 });
  }],
  ["after a split", async () => {
    await world.put("a", { shards: 4 });
    await each(numbers(40), 8, (index) => world.add("a", { unique: `u${index}` }));
    await world.put("a", { floor: 0 });
    await world.well("PUT", "/counters/a/value", { body: '{"value":0}' });
  }],
]) {
  test(`of many decrements at once exactly those succeed that there is room for: ${what}`, async () => {
    await before();
    await world.well("PUT", "/counters/a/value", { body: '{"value":50}' });
    const answers = await each(numbers(140), 20, async (index) => {
      const options = { body: '{"delta":1}', ...anywhere(index) };
      const answer = await world.call("POST", DECREMENT, index % 2 ? keyed(`k${index}`, options) : options);
      if (answer.status === 200) expect(answer.json).toMatchObject({ exact: true });
      else expect([answer.status, answer.json.code], answer.text).toEqual([409, "below-floor"]);
      return answer;
    });
    const done = answers.filter(({ status }) => status === 200).map(({ json }) => json.value);
    expect(done.sort((one, other) => one - other), "each answer has its own value").toEqual(numbers(50));
    expect(await world.strong("a")).toMatchObject({ value: 0, exact: true });
  });
}

test("increments and decrements at once never go below, and every answer adds up", async () => {
  await world.put("a", { home: "FRA", floor: -5 });
  let value = 0;
  await each(numbers(150), 15, async (index) => {
    const delta = 1 + (index % 4);
    const isUp = index % 3 === 0;
    const path = `/counters/a/${isUp ? "increment" : "decrement"}`;
    const answer = await world.call("POST", path, { body: JSON.stringify({ delta }), ...anywhere(index) });
    if (answer.status === 200) {
      value += isUp ? delta : -delta;
      expect(answer.json.value).toBeGreaterThanOrEqual(-5);
    } else {
      expect([isUp, answer.status, answer.json.code], answer.text).toEqual([false, 409, "below-floor"]);
    }
  });
  expect(await world.strong("a")).toMatchObject({ value, exact: true });
  expect(value).toBeGreaterThanOrEqual(-5);
});

test("a value is not set below the floor, nor a floor above the value", async () => {
  await world.put("a", { floor: 10 }).then(
    () => expect.unreachable("a floor above nothing"),
    () => undefined,
  );
  await below("PUT", "/counters/a", { body: '{"floor":1}' });
  await world.refused(404, "counter-not-found", "GET", "/counters/a?consistency=strong");
  await world.add("a", { delta: 10 });
  await below("PUT", "/counters/a", { body: '{"floor":11}' });
  await below("PUT", "/counters/a", { body: '{"floor":"11","ttl_seconds":60}' });
  expect(await world.put("a", { floor: 10 })).toMatchObject({ value: 10, expires_at: null, settings: { floor: 10 } });
  await below("PUT", "/counters/a/value", { body: '{"value":9}' });
  await below("PUT", "/counters/a/value", { body: '{"value":0}' });
  await below("POST", DECREMENT);
  expect(await world.strong("a")).toMatchObject({ value: 10, exact: true });
  await world.well("PUT", "/counters/a/value", { body: '{"value":12}' });
  expect(await world.subtract("a", { delta: 2 })).toMatchObject({ value: 10, exact: true });
  // A lower floor holds at once, and so does none.
  expect((await world.put("a", { floor: "-2" })).settings).toMatchObject({ floor: -2, home: "FRA" });
  expect(await world.subtract("a", { delta: 12 })).toMatchObject({ value: -2 });
  await below("POST", DECREMENT, { colo: "IAD", edge: 1 });
  expect((await world.put("a", {})).settings).toMatchObject({ floor: null, home: null });
  expect(await world.subtract("a", { delta: 1 })).toMatchObject({ value: -3 });
});

test("floors have either sign and 128 bits", async () => {
  const most = 2n ** 128n - 1n;
  await world.put("a", { floor: String(-most) });
  await world.well("PUT", "/counters/a/value", { body: `{"value":${-most}}` });
  await below("POST", DECREMENT);
  expect((await world.add("a", { delta: 1 })).value).toBe(-most + 1n);
  await world.well("PUT", "/counters/a/value", { body: `{"value":${most}}` });
  expect((await world.put("a", { floor: String(most) })).settings.floor).toBe(most);
  await below("POST", DECREMENT);
});

test("a floor makes a home: the one that is named, the only datacenter, or the first writer's", async () => {
  expect(homeOf(await world.put("named", { floor: 0, home: "SYD" }, { colo: "FRA" }))).toBe("SYD");
  expect(homeOf(await world.put("named", { floor: 0 }))).toBe("SYD");

  await world.add("only", { delta: 1 }, { colo: "IAD" });
  expect(homeOf(await world.put("only", { floor: 0 }, { colo: "FRA" }))).toBe("IAD");

  expect(homeOf(await world.put("first", { floor: 0 }, { colo: "FRA" }))).toBeNull();
  const answers = await each(numbers(12), 12, (index) => world.add("first", { delta: 1 }, anywhere(index)));
  expect(new Set(answers.map(({ datacenter }) => datacenter)).size).toBe(1);
  expect(homeOf(await world.put("first", { floor: 0 }))).toBe(answers[0].datacenter);
  expect(await world.strong("first")).toMatchObject({ value: 12, exact: true });

  for (const colo of COLOS) await world.add("several", { delta: 1 }, { colo });
  await needsHome("PUT", "/counters/several", { body: '{"floor":0}' });
  expect(homeOf(await world.put("several", { floor: 3, home: "FRA" }))).toBe("FRA");
  await world.refused(409, "below-floor", "POST", "/counters/several/decrement", { colo: "IAD" });
});

test("the floor goes with the home, and with its counter", async () => {
  await world.put("a", { floor: 0, home: "FRA" });
  await world.add("a", { delta: 2 });
  for (const home of ["IAD", "SYD", "FRA"]) {
    await world.put("a", { floor: 0, home });
    await below("POST", DECREMENT, { body: '{"delta":3}', colo: "IAD" });
    expect(await world.subtract("a", { delta: 2 }, { colo: "SYD", edge: 1 })).toMatchObject({
      value: 0, datacenter: home,
    });
    await world.add("a", { delta: 2 }, { colo: "IAD", edge: 1 });
  }
  await world.well("DELETE", "/counters/a");
  expect(await world.subtract("a", { delta: 2 }, { colo: "IAD" })).toMatchObject({ value: -2 });
});
