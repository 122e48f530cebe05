// Several policies at once: of one key, of several checks with one verdict, of callers and of the deployment; and
// limits of the world.
import { afterEach, expect, test } from "vitest";
import { numbers } from "./calls.mjs";
import { body, check, items, peek, put } from "./limiting.mjs";
import { each, openWorld, until } from "./world.mjs";

let world;
afterEach(() => world.close());

const many = (checks, options) => world.call("POST", "/limits", body({ checks }, options));

test("a burst and an hourly limit of one key, both in the caller's code, hold together", async () => {
  world = await openWorld();
  const burst = { policy: "api", key: "k", limit: 10, window_seconds: 600 };
  const hourly = { policy: "api", key: "k", limit: 15, window_seconds: 3_600 };
  for (const order of [[burst, hourly], [hourly, burst]]) {
    const key = `k${order.indexOf(burst)}`;
    const statuses = [];
    for (const _ of numbers(30)) statuses.push((await many(order.map((one) => ({ ...one, key })))).status);
    expect(statuses.filter((status) => status === 200).length).toBe(10);
    expect((await check(world, "api", key, { limit: 15, window_seconds: 3_600 })).json).toMatchObject({
      remaining: 4, policy: "api",
    });
  }
});

test("a policy that a caller brings touches nothing of the one of that name", async () => {
  world = await openWorld();
  await put(world, "login", { limit: 5, window_seconds: 3_600 });
  for (const left of [4, 3, 2]) expect((await check(world, "login", "a")).json).toMatchObject({ remaining: left });
  const own = { limit: 1, window_seconds: 1 };
  expect((await check(world, "login", "a", own)).json).toMatchObject({ allowed: true, policy: "login", limit: 1 });
  await until(async () => (await check(world, "login", "a", own)).status === 200, "its second is over");
  expect(await peek(world, "login", "a")).toMatchObject({ remaining: 2 });
  expect((await check(world, "login", "a")).json).toMatchObject({ remaining: 1 });
  // The rest of an own policy is given back under it.
  const hour = { limit: 3, window_seconds: 3_600 };
  await check(world, "login", "a", hour);
  expect(await world.well("POST", "/limits/login/a/refund", body(hour))).toMatchObject({ remaining: 3, limit: 3 });
  expect(await peek(world, "login", "a")).toMatchObject({ remaining: 1 });
});

test("a refused call tells of each check how it stands without it", async () => {
  world = await openWorld();
  const limit = { limit: 10, window_seconds: 3_600 };
  const full = { policy: "full", key: "b", limit: 1, window_seconds: 3_600 };
  await many([full]);
  const one = { policy: "p", key: "a", cost: 3, ...limit };
  const world_one = { policy: "w", key: "a", cost: 2, scope: "global", ...limit };
  for (const checks of [[one, full], [one, { ...one, cost: 4 }, full], [world_one, full], [one, world_one, full]]) {
    // What is given back while a request for more is on its way is told to the world within a second.
    await world.advance(2_000);
    const refused = await many(checks);
    expect(refused.status, refused.text).toBe(429);
    expect(refused.json["violated-policies"]).toEqual(["full"]);
    const left = refused.json.checks.map(({ remaining }) => remaining);
    expect(left, JSON.stringify(checks)).toEqual([...checks.slice(0, -1).map(() => 10), 0]);
    expect(items(refused, "ratelimit").map(([, { r }]) => r)).toEqual(left);
    expect(items(refused, "ratelimit-policy").map(([, { q, w }]) => [q, w])).toEqual(
      checks.map((each) => [each.limit, 3_600]),
    );
    const wait = Number(refused.headers.get("retry-after"));
    expect([wait > 3_500, wait <= 3_661], `${wait}`).toEqual([true, true]);
  }
  // Nothing of it was consumed, in the world neither.
  expect((await check(world, "p", "a", limit)).json).toMatchObject({ remaining: 9 });
  const all = await check(world, "w", "a", { ...limit, scope: "global", cost: 10 });
  expect(all.json).toMatchObject({ allowed: true, remaining: 0 });
});

test("costs of one key that could never be admitted together are refused by name", async () => {
  world = await openWorld();
  const limit = { limit: 10, window_seconds: 60 };
  const half = { policy: "p", key: "a", cost: 6, ...limit };
  const { json } = await world.refused(400, "cost-exceeds-limit", "POST", "/limits", body({ checks: [half, half] }));
  expect(json.detail).toContain("add up to 12");
  expect((await many([half, { ...half, key: "b" }])).status).toBe(200);
  // One that only watches need not be admitted.
  const other = { ...half, key: "c" };
  expect((await many([other, { ...other, shadow: true }])).status).toBe(200);
});

test("what a limit of the world gives back can be consumed in any datacenter", async () => {
  world = await openWorld();
  await put(world, "world", { limit: 1, window_seconds: 3_600, scope: "global" });
  const ask = (key, colo) => check(world, "world", key, undefined, { colo });
  const refund = (key, colo) => world.well("POST", `/limits/world/${key}/refund`, { colo });
  // Where it was consumed, and by another once that is known in the world.
  expect((await ask("a", "FRA")).status).toBe(200);
  expect((await ask("a", "SYD")).status).toBe(429);
  expect(await refund("a", "FRA")).toMatchObject({ allowed: true, remaining: 1 });
  await until(async () => (await ask("a", "SYD")).status === 200, "the quota");
  expect((await ask("a", "FRA")).status).toBe(429);
  expect(await refund("a", "SYD")).toMatchObject({ remaining: 1 });
  expect((await ask("a", "SYD")).status, "no refusal is believed any more").toBe(200);
  expect(await world.metric("tally_limit_remote_calls_total")).toBeGreaterThan(4);
});

test("a limit of the world that is lowered holds at once where that is known", async () => {
  world = await openWorld();
  const policy = { limit: 100_000, window_seconds: 3_600, scope: "global" };
  await put(world, "world", policy);
  for (const _ of numbers(40)) expect((await check(world, "world", "k")).status).toBe(200);
  await put(world, "world", { ...policy, limit: 50 });
  let admitted = 0;
  for (const _ of numbers(60)) admitted += (await check(world, "world", "k")).status === 200 ? 1 : 0;
  expect(admitted).toBe(10);
});

test("five datacenters that ask for less than the limit of the world are all admitted, with few calls", async () => {
  world = await openWorld();
  const colos = ["FRA", "IAD", "SYD", "NRT", "GRU"];
  const ask = (key, many) => async (colo) => {
    const answers = await each(numbers(many), 16, () => check(world, "world", key, undefined, { colo }));
    return answers.filter(({ status }) => status === 200).length;
  };
  await put(world, "world", { limit: 500, window_seconds: 600, scope: "global" });
  // One after the other, as much each; then nine tenths of the limit, most of it in one.
  expect(await each(colos, 1, ask("even", 50))).toEqual(colos.map(() => 50));
  const parts = { FRA: 250, IAD: 100, SYD: 50, NRT: 25, GRU: 25 };
  for (const colo of colos) expect([colo, await ask("uneven", parts[colo])(colo)]).toEqual([colo, parts[colo]]);
  expect(await peek(world, "world", "uneven")).toMatchObject({ allowed: true, remaining: 50 });
  expect(await ask("uneven", 60)("GRU"), "and all of the rest").toBe(50);
  const refused = await check(world, "world", "uneven", undefined, { colo: "SYD" });
  expect([refused.status, refused.json.remaining]).toEqual([429, 0]);
  expect(refused.json.retry_after_ms, "until the first of it has left the window").toBeGreaterThan(500_000);
});

test("looks, refunds and resets have the headers of a check", async () => {
  world = await openWorld();
  await put(world, "p", { limit: 4, window_seconds: 3_600 });
  await check(world, "p", "a", { cost: 3 });
  for (const [method, path, left] of [
    ["GET", "/limits/p/a", 1], ["POST", "/limits/p/a/refund", 2], ["DELETE", "/limits/p/a", 4],
  ]) {
    const answer = await world.call(method, path);
    expect([method, answer.status]).toEqual([method, 200]);
    expect(items(answer, "ratelimit-policy")).toEqual([["p", { q: 4, w: 3_600 }]]);
    expect(items(answer, "ratelimit")).toEqual([["p", { r: left, t: Math.ceil(answer.json.reset_after_ms / 1_000) }]]);
    expect([answer.json.reset_after_ms > 3_500_000, answer.json.reset_after_ms === 0]).toEqual([left < 4, left === 4]);
  }
});
