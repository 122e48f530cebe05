// Rate limits as clients use them: policies, checks, headers, refunds, several checks with one verdict.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { numbers } from "./calls.mjs";
import { databasesOf, unlessWritten, withDatabase } from "./databases.mjs";
import { body, check, items, peek, put } from "./limiting.mjs";
import { each, openWorld, until } from "./world.mjs";

let world;
afterEach(async () => {
  await world?.close();
  world = undefined;
});

describe("without faults", () => {
  beforeEach(async () => {
    world = await openWorld({ edges: 2 });
  });

  test("a policy is made, replaced, read, listed and deleted", async () => {
    const made = await world.call("PUT", "/limits/login", body({ limit: 5, window_seconds: 60 }));
    expect(made.status).toBe(201);
    expect(made.json).toEqual({
      policy: "login",
      limit: 5,
      window_seconds: 60,
      algorithm: "sliding-window",
      scope: "datacenter",
      on_error: "open",
      shadow: false,
      precise: false,
      durability: "memory",
    });
    const replaced = await world.call("PUT", "/limits/login", body({ limit: 6, window_seconds: 60 }));
    expect([replaced.status, replaced.json.limit]).toEqual([200, 6]);
    expect(await world.well("GET", "/limits/login", { edge: 1 })).toEqual(replaced.json);
    for (const name of ["c", "a", "b"]) await put(world, name, { limit: 1, window_seconds: 1 });
    const page = await world.well("GET", "/limits?limit=3");
    expect([page.entries.map(({ policy }) => policy), page.cursor]).toEqual([["a", "b", "c"], "c"]);
    const rest = await world.well("GET", `/limits?cursor=${page.cursor}`);
    expect([rest.entries.map(({ policy }) => policy), rest.cursor]).toEqual([["login"], null]);
    expect(await world.well("DELETE", "/limits/login")).toEqual({ policy: "login", status: "deleted" });
    for (const method of ["GET", "DELETE"]) await world.refused(404, "policy-not-found", method, "/limits/login");
    await world.refused(404, "policy-not-found", "POST", "/limits/login/a");
    await world.refused(404, "policy-not-found", "GET", "/limits/login/a");
  });

  test("a key is admitted up to its limit, and its headers say so; a refused call consumes nothing", async () => {
    await put(world, "login", { limit: 3, window_seconds: 60 });
    for (const left of [2, 1, 0]) {
      const answer = await check(world, "login", "a/b c");
      expect(answer.status, answer.text).toBe(200);
      expect(answer.json).toMatchObject({
        allowed: true, limit: 3, remaining: left, retry_after_ms: 0, policy: "login", datacenter: "FRA",
      });
      expect(items(answer, "ratelimit-policy")).toEqual([["login", { q: 3, w: 60 }]]);
      const { reset_after_ms } = answer.json;
      expect(items(answer, "ratelimit")).toEqual([["login", { r: left, t: Math.ceil(reset_after_ms / 1_000) }]]);
      expect([reset_after_ms > 50_000, reset_after_ms <= 61_000]).toEqual([true, true]);
      expect(answer.headers.get("retry-after")).toBe(null);
    }
    for (const edge of [0, 0, 1]) {
      const answer = await check(world, "login", "a/b c", undefined, { edge });
      expect(answer.status).toBe(429);
      expect(answer.headers.get("content-type")).toBe("application/problem+json");
      expect(answer.json).toMatchObject({
        type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
        status: 429,
        code: "quota-exceeded",
        "violated-policies": ["login"],
        allowed: false,
        remaining: 0,
      });
      const [[, { r, t }]] = items(answer, "ratelimit");
      const after = Number(answer.headers.get("retry-after"));
      expect([r, after >= t, after >= answer.json.retry_after_ms / 1_000]).toEqual([0, true, true]);
      expect([t >= 50, t <= 61]).toEqual([true, true]);
    }
    expect(await peek(world, "login", "a/b c")).toMatchObject({ allowed: false, remaining: 0 });
    expect(await peek(world, "login", "another")).toMatchObject({ allowed: true, remaining: 3, reset_after_ms: 0 });
    // Each datacenter for itself.
    expect((await check(world, "login", "a/b c", undefined, { colo: "SYD" })).json).toMatchObject({
      remaining: 2, datacenter: "SYD",
    });
  });

  test("quota returns when the answer said it would", async () => {
    await put(world, "quick", { limit: 2, window_seconds: 4 });
    for (const _ of numbers(2)) expect((await check(world, "quick", "a")).status).toBe(200);
    const began_ms = world.now();
    const refused = await check(world, "quick", "a");
    expect(refused.status).toBe(429);
    await until(async () => (await check(world, "quick", "a")).status === 200, "quota");
    const waited = world.now() - began_ms;
    expect(waited).toBeGreaterThanOrEqual(refused.json.retry_after_ms - 5);
  });

  test("costs add up; a cost that could never be admitted is refused by name", async () => {
    await put(world, "api", { limit: 10, window_seconds: 60 });
    expect((await check(world, "api", "a", { cost: 7 })).json).toMatchObject({ allowed: true, remaining: 3 });
    expect((await check(world, "api", "a", { cost: 4 })).status).toBe(429);
    expect((await check(world, "api", "a", { cost: 3 })).json).toMatchObject({ allowed: true, remaining: 0 });
    await world.refused(400, "cost-exceeds-limit", "POST", "/limits/api/a", body({ cost: 11 }));
    await world.refused(400, "invalid-cost", "POST", "/limits/api/a", body({ cost: 0 }));
    await world.refused(400, "invalid-body", "POST", "/limits/api/a", body({ cost: "1" }));
    await world.refused(400, "unknown-field", "POST", "/limits/api/a", body({ costs: 1 }));
    await world.refused(400, "invalid-policy", "PUT", "/limits/api", body({ limit: 0, window_seconds: 1 }));
    await world.refused(400, "invalid-policy", "PUT", "/limits/api", body({ limit: 1, window_seconds: 2_592_001 }));
    await world.refused(400, "invalid-policy", "PUT", "/limits/a%20b", body({ limit: 1, window_seconds: 1 }));
    await world.refused(400, "invalid-id", "POST", `/limits/api/${"x".repeat(513)}`);
    await world.refused(405, "method-not-allowed", "PATCH", "/limits/api");
  });

  test("what is given back can be consumed again, never more; a reset forgets", async () => {
    await put(world, "api", { limit: 5, window_seconds: 60 });
    await check(world, "api", "a", { cost: 5 });
    expect((await check(world, "api", "a")).status).toBe(429);
    const refund = (cost) => world.well("POST", "/limits/api/a/refund", body({ cost }));
    expect(await refund(2)).toMatchObject({ allowed: true, remaining: 2 });
    expect((await check(world, "api", "a", { cost: 2 })).status).toBe(200);
    expect(await refund(5)).toMatchObject({ remaining: 5 });
    expect(await refund(5)).toMatchObject({ remaining: 5 });
    await check(world, "api", "a", { cost: 5 });
    expect((await check(world, "api", "a")).status).toBe(429);
    const left = { allowed: true, remaining: 5, reset_after_ms: 0 };
    expect(await world.well("DELETE", "/limits/api/a")).toMatchObject(left);
    expect((await check(world, "api", "a")).json).toMatchObject({ remaining: 4 });
  });

  test("callers may keep the policy in their own code", async () => {
    const policy = { limit: 2, window_seconds: 60, algorithm: "fixed-window" };
    expect((await check(world, "mine", "a", policy)).json).toMatchObject({ remaining: 1, policy: "mine" });
    expect((await check(world, "mine", "a", { ...policy, cost: 1 })).json).toMatchObject({ remaining: 0 });
    expect((await check(world, "mine", "a", policy)).status).toBe(429);
    await world.refused(404, "policy-not-found", "POST", "/limits/mine/a");
    await world.refused(400, "invalid-policy", "POST", "/limits/mine/a", body({ limit: 2 }));
    // Another limit: what was used stays used.
    expect((await check(world, "mine", "a", { ...policy, limit: 5 })).json).toMatchObject({ remaining: 2 });
  });

  test("a token bucket has a burst, a precise window no sixtieth, a shadow refuses nobody", async () => {
    const bucket = { limit: 1, window_seconds: 60, algorithm: "token-bucket", burst: 3 };
    for (const left of [2, 1, 0]) {
      expect((await check(world, "bucket", "a", bucket)).json).toMatchObject({ remaining: left });
    }
    const refused = await check(world, "bucket", "a", bucket);
    expect(refused.status).toBe(429);
    expect([refused.json.retry_after_ms > 55_000, refused.json.retry_after_ms <= 60_000]).toEqual([true, true]);
    const precise = { limit: 1, window_seconds: 60, precise: true };
    expect((await check(world, "precise", "a", precise)).json.reset_after_ms).toBe(60_000);
    const shadow = { limit: 1, window_seconds: 60, shadow: true };
    expect((await check(world, "shadow", "a", shadow)).json).toMatchObject({
      allowed: true, shadow: { would_allow: true },
    });
    for (const cost of [1, 1, 2]) {
      const watched = await check(world, "shadow", "a", { ...shadow, cost });
      expect([watched.status, watched.json.allowed, watched.json.shadow.would_allow]).toEqual([200, true, false]);
    }
  });

  test("many at once from two isolates are admitted to the limit, and not one more", async () => {
    await put(world, "hot", { limit: 100, window_seconds: 60 });
    const answers = await each(numbers(300), 60, (index) => check(world, "hot", "a", undefined, { edge: index % 2 }));
    expect(answers.filter(({ status }) => status === 200).length).toBe(100);
    expect(answers.filter(({ status }) => status === 429).length).toBe(200);
    const left = answers.filter(({ status }) => status === 200).map(({ json }) => json.remaining);
    expect(new Set(left).size, "each was told its own remainder").toBe(100);
    expect(await world.metric('tally_limit_checks_total{verdict="allowed"}')).toBeGreaterThan(30);
    expect(await world.metric("tally_limit_denials_cached_total"), "denials from memory").toBeGreaterThan(0);
    expect(await world.metric("tally_limit_messages_total"), "checks are joined").toBeLessThan(120);
    expect(await world.metric("tally_limit_remote_calls_total")).toBe(0);
  });

  test("several checks are all admitted or none consumes", async () => {
    await put(world, "user", { limit: 10, window_seconds: 60 });
    await put(world, "tenant", { limit: 3, window_seconds: 60 });
    await put(world, "world", { limit: 50, window_seconds: 60, scope: "global" });
    const checks = (user) => [
      { policy: "user", key: user },
      { policy: "tenant", key: "t", cost: 1 },
      { policy: "world", key: "w", cost: 2 },
      { policy: "user", key: user, cost: 2 },
    ];
    const ask = (user, options) => world.call("POST", "/limits", body({ checks: checks(user) }, options));
    for (const left of [7, 4, 1]) {
      const answer = await ask("u");
      expect(answer.status, answer.text).toBe(200);
      expect(answer.json.allowed).toBe(true);
      expect(answer.json.checks.map(({ policy, key }) => [policy, key])).toEqual(
        checks("u").map(({ policy, key }) => [policy, key]),
      );
      expect(answer.json.checks[3].remaining).toBe(left);
      expect(items(answer, "ratelimit").map(([name]) => name)).toEqual(["user", "tenant", "world", "user"]);
    }
    for (const user of ["u", "v", "v"]) {
      const refused = await ask(user);
      expect(refused.status, refused.text).toBe(429);
      expect(new Set(refused.json["violated-policies"])).toEqual(
        new Set(user === "u" ? ["user", "tenant"] : ["tenant"]),
      );
      expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    }
    expect(await peek(world, "user", "u")).toMatchObject({ remaining: 1 });
    expect(await peek(world, "user", "v")).toMatchObject({ remaining: 10 });
    expect(await peek(world, "tenant", "t")).toMatchObject({ remaining: 0 });
    await world.refused(400, "invalid-body", "POST", "/limits", body({ checks: [] }));
    // One that only watches stops nobody, and is no reason to consume nothing.
    const watched = { policy: "watched", key: "k", limit: 1, window_seconds: 60, shadow: true };
    for (const [left, wouldAllow] of [[9, true], [8, false], [7, false]]) {
      const { checks } = await world.well("POST", "/limits", body({ checks: [{ policy: "user", key: "y" }, watched] }));
      expect([checks[0].remaining, checks[1].shadow.would_allow]).toEqual([left, wouldAllow]);
    }
    const missing = body({ checks: [{ policy: "user", key: "x" }, { policy: "none", key: "x" }] });
    await world.refused(404, "policy-not-found", "POST", "/limits", missing);
    expect(await peek(world, "user", "x")).toMatchObject({ remaining: 10 });
  });

  test("a limit of the world holds over datacenters, with few calls", async () => {
    await put(world, "world", { limit: 60, window_seconds: 60, scope: "global" });
    const colos = ["FRA", "IAD", "SYD", "NRT"];
    const answers = await each(numbers(200), 20, (index) =>
      check(world, "world", "k", undefined, { colo: colos[index % 4], edge: index % 2 }),
    );
    const admitted = answers.filter(({ status }) => status === 200);
    expect(admitted.length).toBeLessThanOrEqual(60);
    // What one datacenter holds and does not need comes back, and then all of it can be had.
    let total = admitted.length;
    await until(async () => {
      for (const colo of colos) total += (await check(world, "world", "k", undefined, { colo })).status === 200 ? 1 : 0;
      return total >= 60;
    }, "all of the quota");
    expect(total).toBe(60);
    expect(await peek(world, "world", "k")).toMatchObject({ remaining: 0 });
  });

  test("what limiters hold is there again after a restart", async () => {
    const policy = { limit: 5, window_seconds: 600, durability: "commit" };
    for (const left of [4, 3]) {
      expect((await check(world, "kept", "a", policy)).json).toMatchObject({ remaining: left });
    }
    await world.evict();
    expect((await check(world, "kept", "a", policy)).json).toMatchObject({ remaining: 2 });
  });

  test("pages of other origins may read the headers", async () => {
    const answer = await check(
      world, "x", "a", { limit: 1, window_seconds: 1 },
      { headers: { origin: "http://localhost:1" } },
    );
    expect(answer.headers.get("access-control-expose-headers")).toMatch(/ratelimit-policy, ratelimit/);
  });
});

test("what is not said to be committed is written soon, and survives a crash from then on", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tally-limits-"));
  try {
    world = await openWorld({ folder });
    const policy = { limit: 10, window_seconds: 3_600 };
    expect((await check(world, "soon", "a", { ...policy, cost: 3 })).json).toMatchObject({ remaining: 7 });
    const hasRow = (database) => database.prepare("SELECT count(*) AS rows FROM limits").get().rows > 0;
    const written = () => databasesOf(folder, "Limiter").some((path) => withDatabase(path, hasRow, { readOnly: true }));
    await until(() => unlessWritten(written), "a row");
    await world.evict();
    expect((await check(world, "soon", "a", policy)).json).toMatchObject({ remaining: 6 });
  } finally {
    await world?.close();
    world = undefined;
    rmSync(folder, { recursive: true, force: true });
  }
});

test("where the number of limiters changes, keys keep what was used, and edges that have not heard of it are sent on", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tally-limits-"));
  const keys = numbers(40).map((index) => `k${index}`);
  const kept = { limit: 10, window_seconds: 3_600, durability: "commit" };
  const global = { ...kept, scope: "global" };
  const ask = async (cost, more = {}) => {
    const lefts = await each(
      keys, 8, async (key) => (await check(world, "p", key, { ...kept, cost }, more)).json.remaining,
    );
    expect(lefts, "each key has as much left").toEqual(keys.map(() => lefts[0]));
    return lefts[0];
  };
  const both = (key) => body({ checks: [{ policy: "p", key, ...kept }, { policy: "p", key: "k0", ...kept }] });
  try {
    world = await openWorld({ folder, vars: { TALLY_LIMITERS: "2" } });
    expect(await ask(3)).toBe(7);
    for (const _ of numbers(4)) expect((await check(world, "w", "k", global)).status).toBe(200);
    await world.close();
    // The aggregator is deployed first.
    const grown = { TALLY_LIMITERS: "5", TALLY_LIMITERS_BEFORE: "2" };
    world = await openWorld({ folder, vars: grown, edgeVars: { TALLY_LIMITERS: "2" } });
    expect(await ask(1), "through an edge of before").toBe(6);
    await world.close();
    world = await openWorld({ folder, vars: grown });
    expect(await ask(2)).toBe(4);
    expect((await world.well("POST", "/limits", both("k1"))).checks.map(({ remaining }) => remaining)).toEqual([3, 3]);
    let admitted = 4;
    while (admitted <= 10 && (await check(world, "w", "k", global)).status === 200) admitted += 1;
    expect(admitted).toBeLessThanOrEqual(10);
    await world.close();
    // Isolates of before still run: what was handed over is not judged by its old place again.
    world = await openWorld({ folder, vars: { TALLY_LIMITERS: "2" } });
    expect((await check(world, "p", "k2", { ...kept, cost: 4 })).json.remaining).toBe(0);
    const two = (key) => ({ policy: "p", key, ...kept, cost: 2 });
    const several = await world.well("POST", "/limits", body({ checks: keys.slice(3, 13).map(two) }));
    expect(several.checks.map(({ remaining }) => remaining)).toEqual(numbers(10).map(() => 2));
    while (admitted <= 10 && (await check(world, "w", "k", global)).status === 200) admitted += 1;
    expect(admitted).toBeLessThanOrEqual(10);
    await world.close();
    world = await openWorld({ folder, vars: { TALLY_LIMITERS: "5" } });
    expect((await check(world, "p", "k3", kept)).json.remaining).toBe(1);
  } finally {
    await world?.close();
    world = undefined;
    rmSync(folder, { recursive: true, force: true });
  }
});

test("keys need the right to a limit, by its policy and key", async () => {
  const keys = {
    keys: [
      { key: "reader-0123456789abcdef", scopes: ["read"], prefix: "limits/api/" },
      { key: "writer-0123456789abcdef", scopes: ["write"], prefix: "limits/api/" },
      { key: "admin-0123456789abcdef", scopes: ["admin"], prefix: "limits/" },
    ],
  };
  world = await openWorld({ vars: { TALLY_KEYS: JSON.stringify(keys), TALLY_ACCESS: undefined } });
  const as = (key, more = {}) => ({ headers: { authorization: `Bearer ${key}-0123456789abcdef` }, ...more });
  const policy = JSON.stringify({ limit: 2, window_seconds: 60 });
  await world.refused(401, "unauthorized", "POST", "/limits/api/a");
  await world.refused(403, "forbidden", "PUT", "/limits/api", as("writer", { body: policy }));
  for (const name of ["api", "other"]) await world.well("PUT", `/limits/${name}`, as("admin", { body: policy }));
  await world.well("POST", "/limits/api/a", as("writer"));
  await world.refused(403, "forbidden", "POST", "/limits/other/a", as("writer"));
  await world.refused(403, "forbidden", "POST", "/limits/api/a", as("reader"));
  await world.refused(403, "forbidden", "DELETE", "/limits/api/a", as("writer"));
  await world.well("GET", "/limits/api/a", as("reader"));
  await world.refused(403, "forbidden", "GET", "/limits", as("reader"));
  const both = JSON.stringify({ checks: [{ policy: "api", key: "a" }, { policy: "other", key: "a" }] });
  await world.refused(403, "forbidden", "POST", "/limits", as("writer", { body: both }));
  expect(await world.well("GET", "/limits/api/a", as("reader"))).toMatchObject({ remaining: 1 });
  // Who may not ask is not told either what others are told at the same moment.
  await world.well("POST", "/limits/api/a", as("writer"));
  await each(numbers(400), 40, async (index) => {
    const who = ["writer", "reader", "admin", undefined][index % 4];
    const answer = await world.call("POST", "/limits/api/a", who && as(who));
    expect([who, answer.status]).toEqual([who, { writer: 429, reader: 403, admin: 429 }[who] ?? 401]);
  });
});

test("what was refused is told again alike, and no longer once it was given back", async () => {
  world = await openWorld();
  await put(world, "p", { limit: 2, window_seconds: 3_600 });
  for (const key of ["a", "b"]) expect((await check(world, "p", key, { cost: 2 })).status).toBe(200);
  const ask = (index) => check(world, "p", index % 3 === 0 ? "a" : "b");
  const answers = await each(numbers(300), 30, ask);
  for (const { status, json, headers } of answers) {
    expect([status, json.allowed, json.remaining, json["violated-policies"]]).toEqual([429, false, 0, ["p"]]);
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(3_500);
    expect(headers.get("ratelimit")).toBe(`"p";r=0;t=${Math.ceil(json.reset_after_ms / 1_000)}`);
  }
  // Another datacenter has quota of its own, also for one that asks at the same moment.
  const places = await each(numbers(300), 30, (index) =>
    check(world, "p", "c", undefined, { colo: ["FRA", "JFK", "SIN"][index % 3] }),
  );
  for (const colo of ["FRA", "JFK", "SIN"]) {
    const there = places.filter(({ json }) => json.datacenter === colo);
    expect([colo, there.length, there.filter(({ status }) => status === 200).length]).toEqual([colo, 100, 2]);
  }
  await world.well("POST", "/limits/p/a/refund", body({ cost: 1 }));
  expect((await ask(0)).json).toMatchObject({ allowed: true, remaining: 0 });
  expect((await ask(1)).status, "another key").toBe(429);
  await put(world, "p", { limit: 3, window_seconds: 60 });
  expect((await ask(1)).json).toMatchObject({ allowed: true, limit: 3, remaining: 0 });
});
