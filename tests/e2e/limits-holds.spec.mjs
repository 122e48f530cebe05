// Holds, limits of concurrency, and calls of limits that are repeated under their `Idempotency-Key`.
import { afterEach, expect, test } from "vitest";
import { keyed, numbers } from "./calls.mjs";
import { body, check, items, peek, put } from "./limiting.mjs";
import { openWorld } from "./world.mjs";

let world;
afterEach(() => world.close());

const path = (policy, key, rest = "") => `/limits/${policy}/${key}/holds${rest}`;
const hold = (policy, key, value, options = {}) => world.call("POST", path(policy, key), body(value, options));
const settle = (policy, key, id, value, options = {}) =>
  world.call("POST", path(policy, key, `/${id}/settle`), body(value, options));
const release = (policy, key, id, options) => world.call("DELETE", path(policy, key, `/${id}`), options);
const SCOPES = ["datacenter", "global"];

test("a repeated check takes once, a repeated refund gives once, and both get the first answer", async () => {
  world = await openWorld();
  for (const scope of SCOPES) {
    await put(world, scope, { limit: 100, window_seconds: 60, scope });
    const first = await check(world, scope, "k", { cost: 30 }, keyed("a"));
    expect(first.json).toMatchObject({ allowed: true, remaining: 70 });
    expect(first.headers.get("idempotency-replayed")).toBeNull();
    for (const _ of numbers(3)) {
      const again = await check(world, scope, "k", { cost: 30 }, keyed("a"));
      expect([again.status, again.text, again.headers.get("idempotency-replayed")]).toEqual([200, first.text, "true"]);
      expect(again.headers.get("ratelimit")).toBe(first.headers.get("ratelimit"));
    }
    expect(await peek(world, scope, "k")).toMatchObject({ remaining: 70 });
    const refund = () => world.call("POST", `/limits/${scope}/k/refund`, body({ cost: 10 }, keyed("b")));
    const given = await refund();
    expect([given.status, given.json.remaining]).toEqual([200, 80]);
    expect((await refund()).text).toBe(given.text);
    expect(await peek(world, scope, "k")).toMatchObject({ remaining: 80 });
    // The window is over, and the first answer stays.
    await world.advance(120_000);
    expect((await check(world, scope, "k", { cost: 30 }, keyed("a"))).text).toBe(first.text);
    expect(await peek(world, scope, "k")).toMatchObject({ remaining: 100 });
  }
});

test("a refused check gets its refusal again, and another body is another request", async () => {
  world = await openWorld();
  await put(world, "p", { limit: 10, window_seconds: 60 });
  await check(world, "p", "k", { cost: 10 });
  const refused = await check(world, "p", "k", { cost: 5 }, keyed("a"));
  expect([refused.status, refused.json.code]).toEqual([429, "quota-exceeded"]);
  await world.advance(120_000);
  expect((await check(world, "p", "k", { cost: 5 }, keyed("a"))).status).toBe(429);
  const reused = await check(world, "p", "k", { cost: 4 }, keyed("a"));
  expect([reused.status, reused.json.code]).toEqual([422, "idempotency-key-reused"]);
  // Another key of the policy, another kind of call: other names.
  expect((await check(world, "p", "other", { cost: 4 }, keyed("a"))).status).toBe(200);
  expect((await hold("p", "k", { amount: 4 }, keyed("a"))).status).toBe(200);
  const invalid = await check(world, "p", "k", {}, keyed("é"));
  expect([invalid.status, invalid.json.code]).toEqual([400, "invalid-idempotency-key"]);
});

test("a key belongs to its sender", async () => {
  world = await openWorld({ vars: { TALLY_KEYS: JSON.stringify({ public: [], keys: ["first", "other"].map((name) => (
    { key: `${name}-key-of-sixteen`, scopes: ["admin"], prefix: "limits/", name }
  )) }) } });
  const by = (key) => ({ headers: { authorization: `Bearer ${key}-key-of-sixteen`, "idempotency-key": "a" } });
  await world.well("PUT", "/limits/p", body({ limit: 10, window_seconds: 60 }, by("first")));
  for (const [sender, left] of [["first", 9], ["other", 8], ["first", 9]]) {
    expect((await check(world, "p", "k", {}, by(sender))).json).toMatchObject({ remaining: left });
  }
});

test("several windows with one verdict are taken once", async () => {
  world = await openWorld();
  await put(world, "minute", { limit: 10, window_seconds: 60 });
  await put(world, "hour", { limit: 100, window_seconds: 3_600 });
  await put(world, "world", { limit: 100, window_seconds: 3_600, scope: "global" });
  const checks = ["minute", "hour", "world"].map((policy) => ({ policy, key: "k", cost: 6 }));
  const many = (key, value = { checks }) => world.call("POST", "/limits", body(value, keyed(key)));
  const left = async () => Promise.all(checks.map(async ({ policy }) => (await peek(world, policy, "k")).remaining));
  const first = await many("a");
  expect([first.status, first.json.checks.map(({ remaining }) => remaining)]).toEqual([200, [4, 94, 94]]);
  const again = await many("a");
  expect([again.status, again.text, again.headers.get("idempotency-replayed")]).toEqual([200, first.text, "true"]);
  expect(await left()).toEqual([4, 94, 94]);
  const refused = await many("b");
  expect([refused.status, refused.json["violated-policies"]]).toEqual([429, ["minute"]]);
  expect((await many("b")).text).toBe(refused.text);
  expect(await left()).toEqual([4, 94, 94]);
  expect((await many("b", { checks: checks.slice(1) })).json.code).toBe("idempotency-key-reused");
});

test("what was used of a hold stays, and the rest comes back, once", async () => {
  world = await openWorld();
  for (const scope of SCOPES) {
    await put(world, scope, { limit: 10_000, window_seconds: 60, scope });
    const opened = await hold(scope, "k", { amount: 4_000, ttl_seconds: 120 });
    expect(opened.json).toMatchObject({ allowed: true, remaining: 6_000, hold: { amount: 4_000 } });
    const { id, expires_at } = opened.json.hold;
    expect(id).toMatch(/^[0-9a-f]{32}$/);
    expect(expires_at).toBeGreaterThan(1.7e12);
    expect(await peek(world, scope, "k")).toMatchObject({ remaining: 6_000, held: 4_000, holds: 1 });
    const refused = await hold(scope, "k", { amount: 7_000, ttl_seconds: 120 });
    expect([refused.status, refused.json.hold]).toEqual([429, undefined]);
    const settled = await settle(scope, "k", id, { amount: 1_275 });
    expect(settled.json).toMatchObject({
      hold: id, held: 4_000, settled: 1_275, returned: 2_725, over: 0, remaining: 8_725,
    });
    for (const twice of [await settle(scope, "k", id, { amount: 1_275 }), await release(scope, "k", id)]) {
      expect([twice.status, twice.json.code]).toEqual([409, "hold-settled"]);
    }
    expect((await peek(world, scope, "k")).remaining).toBe(8_725);
    const released = (await hold(scope, "k", { amount: 8_725, ttl_seconds: 5 })).json.hold.id;
    expect((await release(scope, "k", released)).json).toMatchObject({ held: 8_725, settled: 0, returned: 8_725 });
    // More than was held, as far as there is room.
    const small = (await hold(scope, "k", { amount: 100 })).json.hold.id;
    const all = await settle(scope, "k", small, { amount: 9_000 });
    expect(all.json).toMatchObject({ settled: 8_725, over: 275, remaining: 0 });
  }
});

test("a hold that nobody settles ends by itself, used or not", async () => {
  world = await openWorld();
  for (const scope of SCOPES) {
    await put(world, scope, { limit: 100, window_seconds: 60, scope });
    const used = (await hold(scope, "k", { amount: 30, ttl_seconds: 10 })).json.hold.id;
    const unused = (await hold(scope, "k", { amount: 40, ttl_seconds: 10, on_expiry: "release" })).json.hold.id;
    expect(await peek(world, scope, "k")).toMatchObject({ remaining: 30, holds: 2 });
    await world.advance(10_100);
    expect((await peek(world, scope, "k")).remaining).toBe(70);
    for (const id of [used, unused]) {
      const late = await settle(scope, "k", id, { amount: 1 });
      expect([late.status, late.json.code]).toEqual([409, "hold-ended"]);
    }
    await world.advance(130_000);
    expect((await peek(world, scope, "k")).remaining).toBe(100);
  }
});

test("a repeated reservation is one hold, and a repeated settlement one answer", async () => {
  world = await openWorld();
  for (const scope of SCOPES) {
    await put(world, scope, { limit: 100, window_seconds: 60, scope });
    const first = await hold(scope, "k", { amount: 40, ttl_seconds: 30 }, keyed("a"));
    const again = await hold(scope, "k", { amount: 40, ttl_seconds: 30 }, keyed("a"));
    expect([again.text, again.headers.get("idempotency-replayed")]).toEqual([first.text, "true"]);
    expect((await peek(world, scope, "k")).remaining).toBe(60);
    const { id } = first.json.hold;
    const settled = await settle(scope, "k", id, { amount: 5 }, keyed("b"));
    expect((await settle(scope, "k", id, { amount: 5 }, keyed("b"))).text).toBe(settled.text);
    expect((await settle(scope, "k", id, { amount: 6 }, keyed("b"))).json.code).toBe("idempotency-key-reused");
    expect((await hold(scope, "k", { amount: 40, ttl_seconds: 30 }, keyed("a"))).text).toBe(first.text);
    expect((await peek(world, scope, "k")).remaining).toBe(95);
  }
});

test("several policies are held together, or none", async () => {
  world = await openWorld();
  await put(world, "tokens", { limit: 100, window_seconds: 60 });
  await put(world, "tenant", { limit: 50, window_seconds: 60, scope: "global" });
  const checks = ["tokens", "tenant"].map((policy) => ({ policy, key: "k", cost: 30 }));
  const held = () => world.call("POST", "/limits", body({ checks, hold: { ttl_seconds: 60 } }));
  const first = await held();
  expect([first.status, first.json.checks.map(({ remaining }) => remaining)]).toEqual([200, [70, 20]]);
  const refused = await held();
  expect([refused.status, refused.json["violated-policies"], refused.json.hold]).toEqual([429, ["tenant"], undefined]);
  expect((await peek(world, "tokens", "k")).remaining).toBe(70);
  for (const { policy } of checks) {
    const settled = await settle(policy, "k", first.json.hold.id, { amount: 10 });
    expect(settled.json).toMatchObject({ settled: 10, returned: 20 });
  }
  expect((await peek(world, "tenant", "k")).remaining).toBe(40);
  const twice = await world.call("POST", "/limits", body({ checks: [checks[0], checks[0]], hold: {} }));
  expect([twice.status, twice.json.code]).toEqual([400, "invalid-body"]);
});

test("a limit of concurrency counts what is held now", async () => {
  world = await openWorld();
  const policy = { algorithm: "concurrency", limit: 3, ttl_seconds: 60 };
  for (const scope of SCOPES) {
    const made = await put(world, scope, { ...policy, scope });
    expect(made).toMatchObject({ algorithm: "concurrency", limit: 3, ttl_seconds: 60 });
    expect(made).not.toHaveProperty("window_seconds");
    expect(await peek(world, scope, "k")).toMatchObject({ remaining: 3, held: 0, holds: 0, oldest_at: null });
    const ids = [];
    for (const _ of numbers(3)) ids.push((await hold(scope, "k", {})).json.hold.id);
    const refused = await hold(scope, "k", {});
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "1"]);
    expect(items(refused, "ratelimit-policy")).toMatchObject([[scope, { q: 3, qu: "concurrent-requests" }]]);
    const { oldest_at } = await peek(world, scope, "k");
    await world.advance(5_000);
    expect((await release(scope, "k", ids[2])).json).toMatchObject({ settled: 0, returned: 1, remaining: 1 });
    // What was used is nothing here: all comes back.
    expect((await settle(scope, "k", ids[1], { amount: 1 })).json).toMatchObject({ settled: 0, over: 0, remaining: 2 });
    expect((await hold(scope, "k", {})).status).toBe(200);
    const open = { remaining: 1, held: 2, holds: 2, oldest_at };
    expect(await peek(world, scope, "k")).toMatchObject(open);
    // The answer to a reset shows the holds that stay, and a refund returns none of them.
    expect((await world.call("DELETE", `/limits/${scope}/k`)).json).toMatchObject(open);
    const refunded = await world.call("POST", `/limits/${scope}/k/refund`);
    expect([refunded.status, refunded.json.code]).toEqual([400, "needs-hold"]);
    expect(await peek(world, scope, "k")).toMatchObject(open);
    // A leaked hold ends with its time.
    await world.advance(61_000);
    expect(await peek(world, scope, "k")).toMatchObject({ remaining: 3, held: 0 });
    const checked = await check(world, scope, "k");
    expect([checked.status, checked.json.code]).toEqual([400, "needs-hold"]);
  }
});

test("a policy tells its open holds, and the keys that hold most", async () => {
  world = await openWorld();
  for (const scope of SCOPES) {
    await put(world, scope, { limit: 100, window_seconds: 60, scope });
    const held = async (query = "") => (await world.well("GET", `/limits/${scope}?include=held${query}`)).held;
    expect(await held()).toMatchObject({ held: 0, holds: 0, oldest_at: null, keys: 0, rows: [], complete: true });
    const begun = world.now();
    for (const [key, amount] of [["ann", 5], ["ip:203.0.113.9", 40], ["bob", 7], ["ann", 10]]) {
      await hold(scope, key, { amount });
    }
    const all = await held();
    expect(all).toMatchObject({ policy: scope, held: 62, holds: 4, keys: 3, complete: true });
    expect(all.rows.map(({ key, held: amount, holds }) => [key, amount, holds])).toEqual([
      ["ip:203.0.113.0/24", 40, 1], ["ann", 15, 2], ["bob", 7, 1],
    ]);
    expect(all.oldest_at).toBeGreaterThanOrEqual(begun);
    expect(all.rows[1].oldest_at).toBe(all.oldest_at);
    expect((await held("&limit=1")).rows.length).toBe(1);
  }
  const wrong = await world.call("GET", "/limits/global?include=holders");
  expect([wrong.status, wrong.json.code]).toEqual([400, "invalid-query"]);
});

test("bad input is refused by a code, and takes nothing", async () => {
  world = await openWorld();
  await put(world, "p", { limit: 10, window_seconds: 60 });
  await put(world, "q", { limit: 10, window_seconds: 60 });
  const { id } = (await hold("p", "k", { amount: 1 })).json.hold;
  const cases = [
    [await hold("p", "k", { amount: 0 }), 400, "invalid-cost"],
    [await hold("p", "k", { amount: -1 }), 400],
    [await hold("p", "k", { amount: 1.5 }), 400],
    [await hold("p", "k", { amount: "1" }), 400],
    [await hold("p", "k", { amount: 11 }), 400, "cost-exceeds-limit"],
    [await hold("p", "k", { ttl_seconds: 0 }), 400, "invalid-body"],
    [await hold("p", "k", { ttl_seconds: 86_401 }), 400, "invalid-body"],
    [await hold("p", "k", { on_expiry: "never" }), 400, "invalid-body"],
    [await hold("p", "k", { cost: 1 }), 400, "unknown-field"],
    [await hold("p", "k", { limit: 1, window_seconds: 1 }), 400, "unknown-field"],
    [await hold("none", "k", {}), 404, "policy-not-found"],
    [await check(world, "p", "k", { amount: 1 }), 400, "unknown-field"],
    [await settle("p", "k", id, { amount: -1 }), 400],
    [await settle("p", "k", id, { amount: 1_000_000_001 }), 400, "invalid-cost"],
    [await settle("p", "k", id, { ttl_seconds: 1 }), 400, "unknown-field"],
    [await settle("q", "k", id, {}), 404, "hold-not-found"],
    [await settle("p", "other", id, {}), 404, "hold-not-found"],
    [await settle("p", "k", "0".repeat(32), {}), 404, "hold-not-found"],
    [await settle("p", "k", "short", {}), 404, "hold-not-found"],
    [await release("p", "k", `${id}0`), 404, "hold-not-found"],
    [await world.call("PUT", "/limits/c", body({ algorithm: "concurrency", limit: 3 })), 400, "invalid-policy"],
    [await world.call("PUT", "/limits/c", body({ algorithm: "concurrency", limit: 3, ttl_seconds: 1, window_seconds: 1 })), 400, "invalid-policy"],
    [await world.call("PUT", "/limits/c", body({ limit: 3, window_seconds: 1, ttl_seconds: 1 })), 400, "unknown-field"],
  ];
  for (const [index, [answer, status, code]] of cases.entries()) {
    expect([index, answer.status, answer.json.code], answer.text).toEqual([index, status, code ?? "invalid-body"]);
  }
  expect(await peek(world, "p", "k")).toMatchObject({ remaining: 9, held: 1 });
  expect((await settle("p", "k", id, {})).json).toMatchObject({ settled: 1, returned: 0 });
});

test("fifty callers at once never hold more than there is", async () => {
  world = await openWorld();
  for (const scope of SCOPES) {
    await put(world, scope, { limit: 100, window_seconds: 600, scope });
    const all = await Promise.all(numbers(50).map(() => hold(scope, "k", { amount: 7 })));
    const open = all.filter(({ status }) => status === 200);
    expect(open.length).toBe(14);
    await Promise.all(open.map(({ json }) => settle(scope, "k", json.hold.id, { amount: 2 })));
    expect(await peek(world, scope, "k")).toMatchObject({ remaining: 72 });
  }
});
