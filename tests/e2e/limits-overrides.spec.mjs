// Overrides: another limit for some keys of a policy, none, or a block.
import { afterEach, beforeEach, expect, test } from "vitest";
import { bearer, keyed, numbers } from "./calls.mjs";
import { body, check, items, peek, put } from "./limiting.mjs";
import { each, openWorld } from "./world.mjs";

// More than isolates get together with their policy.
const MANY = 130;
// A change is in effect everywhere after this time.
const EVERYWHERE_MS = 5_000;

let world;
beforeEach(async () => {
  world = await openWorld();
});
afterEach(() => world.close());

const path = (policy, pattern) => `/limits/${policy}/overrides/${encodeURIComponent(pattern)}`;
const override = (policy, pattern, value, options) => world.well("PUT", path(policy, pattern), body(value, options));
const remove = (policy, pattern) => world.well("DELETE", path(policy, pattern));
const limitOf = async (policy, key, options) => {
  const { limit, override: pattern } = await peek(world, policy, key, options);
  return pattern === undefined ? limit : [limit, pattern];
};
/** Makes a policy with many overrides of other keys, so that isolates ask for those of a key. */
async function many(policy) {
  await each(numbers(MANY), 8, (number) => override(policy, `other-${number}`, { limit: 1 }));
}

test("an override is put, replaced, read, listed page by page and deleted", async () => {
  await world.refused(404, "policy-not-found", "PUT", path("p", "a"), body({ limit: 5 }));
  await put(world, "p", { limit: 10, window_seconds: 60 });
  const made = await world.call("PUT", path("p", "acme-*"), body({ limit: 20 }));
  expect([made.status, made.json]).toEqual([201, { policy: "p", pattern: "acme-*", limit: 20 }]);
  const ends_at = Math.ceil(world.now() / 1_000) + 3_600;
  const replaced = await world.call("PUT", path("p", "acme-*"), body({ blocked: true, ends_at }));
  const json = { policy: "p", pattern: "acme-*", blocked: true, ends_at: ends_at * 1_000 };
  expect([replaced.status, replaced.json]).toEqual([200, json]);
  expect(await world.well("GET", path("p", "acme-*"))).toEqual(json);
  for (const pattern of ["b", "é/a", "a", "a*", "*"]) await override("p", pattern, { window_seconds: 30 });
  const listed = [];
  let query = "?limit=2";
  for (;;) {
    const page = await world.well("GET", `/limits/p/overrides${query}`);
    expect(page.entries.length).toBeLessThanOrEqual(2);
    listed.push(...page.entries.map(({ pattern }) => pattern));
    if (page.cursor === null) break;
    query = `?limit=2&cursor=${encodeURIComponent(page.cursor)}`;
  }
  expect(listed, "keys, then prefixes").toEqual(["a", "b", "é/a", "*", "a*", "acme-*"]);
  expect(await remove("p", "a")).toEqual({ policy: "p", pattern: "a", status: "deleted" });
  for (const method of ["GET", "DELETE"]) await world.refused(404, "override-not-found", method, path("p", "a"));
  await world.refused(400, "invalid-query", "GET", "/limits/p/overrides?cursor=a*b");
  expect(await world.well("GET", "/limits/p/%6Fverrides"), "a key of that name").toMatchObject({ remaining: 10 });
  // They go with their policy, and none comes back with it.
  await world.well("DELETE", "/limits/p");
  await world.refused(404, "policy-not-found", "GET", "/limits/p/overrides");
  await world.refused(404, "policy-not-found", "DELETE", path("p", "b"));
  await put(world, "p", { limit: 10, window_seconds: 60 });
  expect(await world.well("GET", "/limits/p/overrides")).toEqual({ entries: [], cursor: null });
});

test("a bad override is refused, and nothing is stored", async () => {
  await put(world, "p", { limit: 10, window_seconds: 60 });
  for (const pattern of ["a**", "a*b*", "a*b", "*a", ".", "\u0007*", "a".repeat(513)]) {
    for (const method of ["PUT", "GET", "DELETE"]) {
      const sent = method === "PUT" ? body({ limit: 5 }) : {};
      await world.refused(400, "invalid-pattern", method, path("p", pattern).replace("/.", "/%2E"), sent);
    }
  }
  for (const [code, value] of [
    ["invalid-override", { limit: 0 }],
    ["invalid-override", { limit: 5, ends_at: 1 }],
    ["invalid-override", { limit: 5, ends_at: "2020-01-01" }],
    ["invalid-override", { limit: 5, unlimited: true }],
    ["invalid-override", { blocked: true, unlimited: true }],
    ["invalid-override", { burst: 5 }],
    ["invalid-override", {}],
    ["unknown-field", { limit: 5, scope: "global" }],
    ["invalid-body", { limit: "5" }],
    ["invalid-body", { limit: 5, ends_at: "soon" }],
  ]) {
    await world.refused(400, code, "PUT", path("p", "a"), body(value));
  }
  expect(await world.well("GET", "/limits/p/overrides")).toEqual({ entries: [], cursor: null });
  expect(await limitOf("p", "a")).toBe(10);
});

for (const size of ["few", "many"]) {
  test(`a key has its own override, or that of its longest prefix, among ${size}`, async () => {
    await put(world, "p", { limit: 10, window_seconds: 60 });
    if (size === "many") await many("p");
    expect(await limitOf("p", "acme-eu-7")).toBe(10);
    await override("p", "acme-*", { limit: 20 });
    expect(await limitOf("p", "acme-eu-7")).toEqual([20, "acme-*"]);
    await override("p", "acme-eu-*", { limit: 30 });
    await override("p", "acme-eu-7", { limit: 40 });
    await override("p", "acme-eu-7*", { limit: 50 });
    expect(await limitOf("p", "acme-eu-7")).toEqual([40, "acme-eu-7"]);
    expect(await limitOf("p", "acme-eu-77")).toEqual([50, "acme-eu-7*"]);
    expect(await limitOf("p", "acme-eu-8")).toEqual([30, "acme-eu-*"]);
    expect(await limitOf("p", "acme-us")).toEqual([20, "acme-*"]);
    expect(await limitOf("p", "acme")).toBe(10);
    await remove("p", "acme-eu-7");
    expect(await limitOf("p", "acme-eu-7")).toEqual([50, "acme-eu-7*"]);
    await override("p", "*", { limit: 60 });
    expect(await limitOf("p", "acme")).toEqual([60, "*"]);
    // A policy of the check itself has no overrides.
    const inline = await check(world, "p", "acme-us", { limit: 3, window_seconds: 60 });
    expect([inline.json.limit, inline.json.override]).toEqual([3, undefined]);
  });

  test(`an override and its end are in effect everywhere within 5 s, among ${size}`, async () => {
    await world.close();
    world = await openWorld({ edges: 2 });
    await put(world, "p", { limit: 10, window_seconds: 60 });
    if (size === "many") await many("p");
    const everywhere = async (key) => [await limitOf("p", key), await limitOf("p", key, { edge: 1 })];
    expect(await everywhere("acme-1")).toEqual([10, 10]);
    const ends_at = Math.ceil(world.now() / 1_000) + 60;
    await override("p", "acme-*", { limit: 20, ends_at });
    // Once more in the meantime, so that what is read anew is in the background.
    await world.advance(EVERYWHERE_MS / 2);
    await everywhere("acme-1");
    await world.advance(EVERYWHERE_MS / 2);
    expect(await everywhere("acme-1")).toEqual([[20, "acme-*"], [20, "acme-*"]]);
    await override("p", "acme-1", { blocked: true });
    await world.advance(EVERYWHERE_MS);
    expect(await everywhere("acme-1")).toEqual([[0, "acme-1"], [0, "acme-1"]]);
    await remove("p", "acme-1");
    await world.advance(EVERYWHERE_MS);
    expect(await everywhere("acme-1")).toEqual([[20, "acme-*"], [20, "acme-*"]]);
    // Its end needs no message.
    await world.advance(ends_at * 1_000 - world.now());
    expect(await everywhere("acme-1")).toEqual([10, 10]);
    await world.refused(404, "override-not-found", "GET", path("p", "acme-*"));
    // Nobody has asked for a while.
    await override("p", "acme-2", { limit: 30 });
    await world.advance(600_000);
    expect(await everywhere("acme-2")).toEqual([[30, "acme-2"], [30, "acme-2"]]);
  });
}

test("what a key has used stays used under an override, and after it", async () => {
  await put(world, "p", { limit: 10, window_seconds: 60 });
  await check(world, "p", "a", { cost: 8 });
  await override("p", "a", { limit: 20 });
  const more = await check(world, "p", "a", { cost: 5 });
  expect(more.json).toMatchObject({ allowed: true, limit: 20, remaining: 7, override: "a" });
  expect(items(more, "ratelimit-policy")).toEqual([["p", { q: 20, w: 60 }]]);
  await remove("p", "a");
  const after = await check(world, "p", "a");
  expect([after.status, after.json.limit, after.json.override]).toEqual([429, 10, undefined]);
  // Another window counts on too.
  await override("p", "b", { window_seconds: 3_600 });
  await check(world, "p", "b", { cost: 10 });
  expect(await peek(world, "p", "b")).toMatchObject({ allowed: false, remaining: 0, override: "b" });
  await world.advance(120_000);
  expect((await check(world, "p", "b")).status).toBe(429);
  await remove("p", "b");
  await world.advance(EVERYWHERE_MS);
  expect(await peek(world, "p", "b")).toMatchObject({ limit: 10 });
});

test("a refusal of memory ends with the override that lifts it", async () => {
  await put(world, "p", { limit: 1, window_seconds: 3_600 });
  await check(world, "p", "a");
  expect((await check(world, "p", "a")).status).toBe(429);
  await override("p", "a", { limit: 2 });
  expect((await check(world, "p", "a")).json).toMatchObject({ allowed: true, remaining: 0 });
  expect((await check(world, "p", "a")).status).toBe(429);
  await override("p", "a", { unlimited: true });
  expect((await check(world, "p", "a")).status).toBe(200);
});

for (const scope of ["datacenter", "global"]) {
  test(`an unlimited key is admitted whatever it costs, and consumes nothing, with the scope ${scope}`, async () => {
    await put(world, "p", { limit: 10, window_seconds: 60, scope });
    await check(world, "p", "a", { cost: 4 });
    await override("p", "a", { unlimited: true });
    for (const cost of [1_000, 1_000_000_000]) {
      const admitted = await check(world, "p", "a", { cost });
      expect(admitted.json).toMatchObject({
        allowed: true, limit: null, remaining: null, retry_after_ms: 0, override: "a", policy: "p",
      });
      expect([items(admitted, "ratelimit"), items(admitted, "ratelimit-policy")]).toEqual([null, null]);
    }
    for (const _ of numbers(2)) {
      const once = await check(world, "p", "a", { cost: 99 }, keyed("once"));
      expect(once.json).toMatchObject({ allowed: true, limit: null });
    }
    expect(await peek(world, "p", "a")).toMatchObject({ allowed: true, limit: null, override: "a" });
    const refunded = await world.well("POST", "/limits/p/a/refund", body({ cost: 100 }));
    expect(refunded).toMatchObject({ limit: null, remaining: null });
    // A hold of it can be settled.
    const held = await world.well("POST", "/limits/p/a/holds", body({ amount: 5_000 }));
    expect(held).toMatchObject({ allowed: true, limit: null, hold: { amount: 5_000 } });
    expect(await peek(world, "p", "a")).toMatchObject({ limit: null, held: 5_000 });
    const lifted = { limit: null, remaining: null, reset_after_ms: 0 };
    const released = await world.well("DELETE", `/limits/p/a/holds/${held.hold.id}`);
    expect(released).toMatchObject({ returned: 5_000, ...lifted });
    const other = await world.well("POST", "/limits/p/a/holds", body({ amount: 3 }));
    const settled = await world.call("POST", `/limits/p/a/holds/${other.hold.id}/settle`, body({ amount: 0 }));
    expect(settled.json).toMatchObject({ held: 3, settled: 0, ...lifted });
    expect([items(settled, "ratelimit"), items(settled, "ratelimit-policy")]).toEqual([null, null]);
    await remove("p", "a");
    const { limit, remaining } = await peek(world, "p", "a");
    // A datacenter may keep a part of what is left of a global limit.
    const least = scope === "global" ? 4 : 6;
    expect([limit, remaining >= least, remaining <= 6]).toEqual([10, true, true]);
  });

  test(`a blocked key is refused, and gives back what it holds, with the scope ${scope}`, async () => {
    await put(world, "p", { limit: 10, window_seconds: 60, scope });
    const held = await world.well("POST", "/limits/p/a/holds", body({ amount: 4 }));
    const ends_at = Math.ceil(world.now() / 1_000) + 600;
    await override("p", "a", { blocked: true, ends_at });
    const refused = await check(world, "p", "a");
    expect(refused.status).toBe(429);
    expect(refused.json).toMatchObject({
      code: "quota-exceeded", allowed: false, limit: 0, remaining: 0, override: "a", "violated-policies": ["p"],
    });
    expect(refused.json.detail).toContain("the override a of policy p blocks this key");
    const wait_s = Number(refused.headers.get("retry-after"));
    expect([wait_s > 590, wait_s <= 601]).toEqual([true, true]);
    expect(items(refused, "ratelimit-policy")[0][1]).toMatchObject({ q: 0, w: 60 });
    expect((await check(world, "p", "a", {}, keyed("once"))).status).toBe(429);
    expect((await world.call("POST", "/limits/p/a/holds")).status).toBe(429);
    expect(await peek(world, "p", "a")).toMatchObject({ allowed: false, limit: 0, override: "a", held: 4 });
    const settled = await world.well("POST", `/limits/p/a/holds/${held.hold.id}/settle`, body({ amount: 1 }));
    expect(settled).toMatchObject({ settled: 1, returned: 3, limit: 0, remaining: 0 });
    await override("p", "a", { blocked: true });
    expect(Number((await check(world, "p", "a")).headers.get("retry-after")), "the window").toBe(60);
    await remove("p", "a");
    expect(await peek(world, "p", "a")).toMatchObject({ limit: 10, remaining: 9 });
  });
}

test("overrides hold for several checks, for the gate, for limits of concurrency and for shadow policies", async () => {
  await put(world, "p", { limit: 10, window_seconds: 60 });
  await put(world, "q", { limit: 10, window_seconds: 60 });
  await override("p", "vip", { unlimited: true });
  await override("p", "bad", { blocked: true });
  const both = (key, more = {}, options = {}) => {
    const checks = ["p", "q"].map((policy) => ({ policy, key, cost: 2 }));
    return world.call("POST", "/limits", body({ checks, ...more }, options));
  };
  for (const options of [{}, keyed("a")]) {
    const admitted = await both("vip", {}, options);
    const told = admitted.json.checks.map(({ limit, override: pattern }) => [limit, pattern]);
    expect(told).toEqual([[null, "vip"], [10, undefined]]);
  }
  expect(await peek(world, "q", "vip")).toMatchObject({ remaining: 6 });
  for (const [options, more] of [[{}, {}], [keyed("b"), {}], [{}, { hold: { ttl_seconds: 9 } }]]) {
    const refused = await both("bad", more, options);
    expect([refused.status, refused.json["violated-policies"]]).toEqual([429, ["p"]]);
    const told = refused.json.checks.map(({ allowed, override: pattern }) => [allowed, pattern]);
    expect(told).toEqual([[false, "bad"], [true, undefined]]);
  }
  expect(await peek(world, "q", "bad"), "nothing is consumed").toMatchObject({ remaining: 10 });
  const gate = (policies, key) => world.call("GET", `/gate/${policies};key=x-key`, { headers: { "x-key": key } });
  for (const [policies, key, status] of [
    ["p", "vip", 204], ["p", "bad", 429], ["p,q", "vip", 204], ["p,q", "bad", 429],
  ]) {
    expect([policies, key, (await gate(policies, key)).status]).toEqual([policies, key, status]);
  }
  await put(world, "renders", { algorithm: "concurrency", limit: 1, ttl_seconds: 60 });
  await override("renders", "a", { limit: 2, ttl_seconds: 9 });
  const hold = () => world.call("POST", "/limits/renders/a/holds");
  const first = await hold();
  expect(first.json).toMatchObject({ limit: 2, remaining: 1, override: "a" });
  expect(first.json.hold.expires_at).toBeLessThanOrEqual(world.now() + 9_000);
  expect([(await hold()).status, (await hold()).status]).toEqual([200, 429]);
  for (const [key, status] of [["vip", 200], ["bad", 429], ["other", 400]]) {
    expect((await world.call("POST", `/limits/p/${key}`, body({ cost: 11 }))).status, key).toBe(status);
  }
  await put(world, "watch", { limit: 10, window_seconds: 60, shadow: true });
  await override("watch", "a", { blocked: true });
  const watched = (await check(world, "watch", "a")).json;
  expect(watched).toMatchObject({ allowed: true, override: "a", shadow: { would_allow: false } });
});

test("a key that an isolate holds a part of has its override too", async () => {
  await put(world, "hot", { limit: 100_000, window_seconds: 60 });
  for (const _ of numbers(40)) await check(world, "hot", "a");
  await override("hot", "a", { limit: 50 });
  await world.advance(EVERYWHERE_MS);
  let admitted = 0;
  for (const _ of numbers(60)) admitted += Number((await check(world, "hot", "a")).status === 200);
  expect(admitted).toBe(10);
  await override("hot", "a", { blocked: true });
  expect((await check(world, "hot", "a")).status).toBe(429);
});

test("an override that is too large for a policy that was replaced is cut to what the policy can have", async () => {
  await put(world, "p", { limit: 10, window_seconds: 60 });
  await override("p", "a", { limit: 5_000 });
  await put(world, "p", { limit: 10, window_seconds: 60, precise: true });
  expect(await limitOf("p", "a")).toEqual([1_000, "a"]);
});

test("an export has the overrides, and an import brings them back", async () => {
  await put(world, "p", { limit: 10, window_seconds: 60 });
  await put(world, "renders", { algorithm: "concurrency", limit: 1, ttl_seconds: 60 });
  const ends_at = Math.ceil(world.now() / 1_000) + 3_600;
  await override("p", "acme-*", { limit: 20, window_seconds: 30, ends_at });
  await override("p", "a\"b", { blocked: true });
  await override("renders", "a", { ttl_seconds: 9 });
  const exported = (await world.call("GET", "/export")).text;
  const end = JSON.parse(exported.trimEnd().split("\n").at(-1));
  expect([end.policies, end.overrides]).toEqual([2, 3]);
  const listed = async () => [
    ...(await world.well("GET", "/limits/p/overrides")).entries,
    ...(await world.well("GET", "/limits/renders/overrides")).entries,
  ];
  const before = await listed();
  for (const policy of ["p", "renders"]) await world.well("DELETE", `/limits/${policy}`);
  const report = await world.well("POST", "/import", { body: exported });
  expect([report.policies, report.overrides, report.rejected]).toEqual([2, 3, 0]);
  expect(await listed()).toEqual(before);
  expect(await limitOf("p", "acme-1")).toEqual([20, "acme-*"]);
  await put(world, "p", { limit: 11, window_seconds: 60 });
  await override("p", "acme-*", { limit: 21 });
  const again = await world.well("POST", "/import?mode=add", { body: exported });
  expect([again.policies, again.overrides, again.rejected]).toEqual([2, 3, 0]);
  expect([await limitOf("p", "other"), await limitOf("p", "acme-1")], "what exists stays").toEqual([
    11, [21, "acme-*"],
  ]);
});

test("whoever may change a policy may change its overrides, and the audit log says who did", async () => {
  await world.close();
  const secret = (letter) => `${letter}-key-0123456789-01234567`;
  const keys = [
    { name: "root", scopes: ["admin"], prefixes: ["", "limits/"], key: secret("k") },
    { name: "p", scopes: ["admin"], prefixes: ["limits/p/"], key: secret("p") },
    { name: "q", scopes: ["admin"], prefixes: ["limits/q/"], key: secret("q") },
    { name: "reader", scopes: ["write", "read"], prefixes: ["limits/"], key: secret("w") },
  ];
  world = await openWorld({ vars: { TALLY_ACCESS: undefined, TALLY_KEYS: JSON.stringify({ keys }) } });
  const by = (letter, more = {}) => ({ ...bearer(secret(letter)), ...more });
  await world.well("PUT", "/limits/p", by("k", body({ limit: 10, window_seconds: 60 })));
  for (const letter of ["q", "w"]) {
    await world.refused(403, "forbidden", "PUT", path("p", "a"), by(letter, body({ limit: 5 })));
    await world.refused(403, "forbidden", "DELETE", path("p", "a"), by(letter));
  }
  await world.refused(401, "unauthorized", "GET", "/limits/p/overrides");
  await world.well("PUT", path("p", "a*"), by("p", body({ limit: 5 })));
  expect((await world.well("GET", "/limits/p/overrides", by("w"))).entries).toHaveLength(1);
  const { entries } = await world.well("GET", "/audit", by("k"));
  expect(entries.find(({ call }) => call.startsWith("PUT /limits/{policy}/overrides"))).toMatchObject({
    target: "p/overrides/a*", outcome: "done",
  });
});
