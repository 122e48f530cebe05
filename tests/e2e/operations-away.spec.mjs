// Set and reset while parts do not answer: who was away is named, adds nothing, and is settled later.
import { afterEach, beforeEach, expect, test } from "vitest";
import { keyed, numbers, partOf } from "./calls.mjs";
import { reset, resetting, set, setting } from "./operating.mjs";
import { each, openWorld, randomFrom, until } from "./world.mjs";

const SEED = 44;
const COLOS = ["FRA", "IAD", "SYD"];

let world;
beforeEach(async () => {
  world = await openWorld({ faults: true, edges: 2 });
});
afterEach(() => world.close());

const isOf = (name, colo) => name.includes(`/${colo}/`);
/** Nobody but the writers of a datacenter reaches it. */
const cutOff = (colo) =>
  world.fail(({ kind, name, path }) =>
    kind === "cell" && isOf(name, colo) && path !== "/flush" ? "before" : undefined,
  );
const second = () => Math.floor(world.now() / 1_000);
const nextSecond = () => {
  const now = second();
  return until(() => second() > now, "the next second");
};

test("a datacenter that is away is named, adds nothing, and is settled later", async () => {
  await world.add("a", { delta: 3 }, { colo: "FRA" });
  await world.add("a", { delta: 40 }, { colo: "IAD" });
  await nextSecond();
  cutOff("IAD");
  const answer = await reset(world, "a");
  expect(answer).toMatchObject({ value: 0, exact: false, pending_datacenters: ["IAD"] });
  expect(partOf(answer, "IAD")).toMatchObject({ value: 0, reachable: false });
  await world.add("a", { delta: 5 }, { colo: "FRA" });
  // It goes on counting for its own.
  await world.add("a", { delta: 7 }, { colo: "IAD" });
  expect(await world.strong("a")).toMatchObject({ value: 5, exact: false });
  world.mend();
  const counter = await until(async () => {
    const answer = await world.strong("a");
    return answer.exact && answer;
  }, "an exact sum");
  expect(counter.value, "what it counted before is gone, what it counted after is kept").toBe(12);
  expect(partOf(counter, "IAD").reachable).toBe(true);
  await world.add("a", { delta: 1 }, { colo: "IAD" });
  expect(await world.strong("a")).toMatchObject({ value: 13, exact: true });
  expect(await reset(world, "a")).toMatchObject({ value: 0, exact: true, pending_datacenters: [] });
});

test("two sets while a datacenter is away leave of it what came after the second", async () => {
  await world.add("a", { delta: 3 }, { colo: "FRA" });
  await world.add("a", { delta: 40 }, { colo: "IAD" });
  await nextSecond();
  cutOff("IAD");
  await set(world, "a", 100);
  await world.add("a", { delta: 5 }, { colo: "IAD" });
  await nextSecond();
  expect(await set(world, "a", 200)).toMatchObject({ value: 200, pending_datacenters: ["IAD"] });
  await world.add("a", { delta: 6 }, { colo: "IAD" });
  world.mend();
  await until(async () => (await world.strong("a")).exact, "an exact sum");
  expect(await world.strong("a")).toMatchObject({ value: 206, base: 206, exact: true });
});

test("without anybody reading, the root settles by itself", async () => {
  await world.add("a", { delta: 3 }, { colo: "FRA" });
  await world.add("a", { delta: 40 }, { colo: "IAD" });
  await nextSecond();
  cutOff("IAD");
  await reset(world, "a");
  let settled = 0;
  world.fail(({ kind, name, path }) => {
    if (kind === "cell" && isOf(name, "IAD") && path === "/sum") settled += 1;
    return undefined;
  });
  await until(() => settled > 0, "a question to the datacenter");
  expect(await world.strong("a")).toMatchObject({ value: 0, exact: true });
});

test("the only datacenter, and a home, must answer", async () => {
  await world.add("a", { delta: 3 });
  await world.put("b", { home: "FRA" });
  await world.add("b", { delta: 3 }, { colo: "IAD" });
  cutOff("FRA");
  for (const id of ["a", "b"]) {
    await world.refused(503, "unavailable", "PUT", `/counters/${id}/value`, { body: '{"value":9}' });
  }
  // A shard of it must answer as well.
  world.mend();
  await world.put("c", { shards: 4 });
  await each(numbers(40), 8, (index) => world.add("c", { unique: `u${index}` }));
  world.fail(({ kind, name, path }) =>
    kind === "cell" && name.startsWith("c1/FRA/2/") && path === "/ask" ? "before" : undefined,
  );
  await world.refused(503, "unavailable", "PUT", "/counters/c/value", { body: '{"value":0}' });
  world.mend();
  for (const [id, value] of [["a", 3], ["b", 3], ["c", 40]]) {
    const answer = await world.strong(id);
    expect(answer).toMatchObject({ value, exact: true });
    expect(answer).not.toHaveProperty("base");
    expect(await world.add(id)).toMatchObject({ delta: 1 });
    expect(await world.strong(id)).toMatchObject({ value: value + 1, exact: true });
  }
});

test("keyed operations and writes through lost calls and lost answers are each done once, in their order", async () => {
  const random = randomFrom(SEED);
  const paths = ["/operate", "/keep", "/claim", "/count", "/register", "/suspend"];
  world.fail(({ path }) => {
    if (!paths.includes(path)) return undefined;
    const drawn = random();
    return drawn < 0.12 ? "before" : drawn < 0.25 ? "after" : undefined;
  });
  const insist = async (call) => {
    for (let attempt = 0; ; attempt += 1) {
      const answer = await call({ colo: COLOS[Math.floor(random() * 3)], edge: attempt % 2 });
      if (answer.status < 300) return;
      expect([answer.status, answer.json.code]).toEqual([503, "unavailable"]);
      expect(attempt, "never acknowledged").toBeLessThan(60);
    }
  };
  const story = async (id) => {
    let value = 0;
    for (let step = 0; step < 14; step += 1) {
      const key = `k${step}`;
      const drawn = random();
      if (step === 0 || drawn < 0.6) {
        const delta = 1 + Math.floor(random() * 9);
        await insist((options) =>
          world.call("POST", `/counters/${id}/increment`, keyed(key, { body: `{"delta":${delta}}`, ...options })),
        );
        value += delta;
      } else if (drawn < 0.8) {
        const aim = Math.floor(random() * 1_000);
        await insist((options) => setting(world, id, aim, keyed(key, options)));
        value = aim;
      } else {
        await insist((options) => resetting(world, id, keyed(key, options)));
        value = 0;
      }
    }
    return value;
  };
  const ids = ["one", "two", "three", "four"];
  const values = await each(ids, ids.length, story);
  world.mend();
  for (const [index, id] of ids.entries()) {
    expect(await world.strong(id), `seed ${SEED}`).toMatchObject({ value: values[index], exact: true });
  }
});
