// The gate that proxies ask: a request passes only by a verdict, and what cannot be read is refused.
import { afterEach, expect, test } from "vitest";
import { numbers } from "./calls.mjs";
import { items, peek, put } from "./limiting.mjs";
import { openWorld } from "./world.mjs";

let world;
afterEach(() => world.close());

const open = async () => {
  world = await openWorld({ vars: { TALLY_CLIENT_ADDRESS_HEADER: "x-forwarded-for" } });
};
const ask = (path, headers = {}, method = "GET") =>
  world.call(method, `/gate/${path}`, { headers: { "x-forwarded-for": "203.0.113.9", ...headers } });

test("exactly as many requests pass as the policy admits, whatever their method", async () => {
  await open();
  await put(world, "api", { limit: 5, window_seconds: 60 });
  // HEAD too, or clients would pass by it as often as they like.
  const methods = ["GET", "OPTIONS", "HEAD", "DELETE", "PATCH", "OPTIONS", "POST"];
  const answers = [];
  for (const method of methods) answers.push(await ask("api", {}, method));
  expect(answers.map(({ status }) => status)).toEqual([204, 204, 204, 204, 204, 429, 429]);
  const [passes] = answers;
  expect([passes.text, items(passes, "ratelimit")[0][1].r, items(passes, "ratelimit-policy")]).toEqual([
    "", 4, [["api", { q: 5, w: 60 }]],
  ]);
  const refused = answers.at(-1);
  expect(refused.json).toMatchObject({ code: "quota-exceeded", status: 429, "violated-policies": ["api"] });
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
  expect(await peek(world, "api", "203.0.113.9")).toMatchObject({ remaining: 0 });
});

test("the key is a header that the proxy names, or the client's address, of IPv6 its network", async () => {
  await open();
  await put(world, "api", { limit: 10, window_seconds: 60 });
  const left = async (path, headers) => items(await ask(path, headers), "ratelimit")[0][1].r;
  expect(await left("api;key=x-api-key", { "x-api-key": "ada" })).toBe(9);
  expect(await left("api;key=x-api-key", { "x-api-key": "bob" })).toBe(9);
  expect(await left("api;key=x-api-key", { "x-api-key": "ada" })).toBe(8);
  // Without the header, and without a name of one: the address.
  expect(await left("api;key=x-api-key", {})).toBe(9);
  expect(await left("api", { "x-api-key": "ada" })).toBe(8);
  expect(await left("api", { "x-forwarded-for": "2001:db8:1:2::3" })).toBe(9);
  expect(await left("api", { "x-forwarded-for": "2001:db8:1:2:ffff::4" })).toBe(8);
  expect(await left("api", { "x-forwarded-for": "2001:db8:1:3::3" })).toBe(9);
  expect(await left("api;cost=x-cost", { "x-cost": "4" })).toBe(4);
  expect(await peek(world, "api", "2001:db8:1:2::")).toMatchObject({ remaining: 8 });
});

test("what a client's browser says of its page is not said of the proxy that asks", async () => {
  await open();
  await put(world, "api", { limit: 10, window_seconds: 60 });
  for (const headers of [
    { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", referer: "https://search.example/" },
    { "sec-fetch-site": "same-origin", origin: "https://www.example.com" },
    { "sec-fetch-site": "cross-site", origin: "null" },
  ]) {
    expect((await ask("api", headers)).status, JSON.stringify(headers)).toBe(204);
    // Of any other call it is said of who calls.
    expect((await world.call("GET", "/counters", { headers })).status).toBe(403);
  }
  expect(await peek(world, "api", "203.0.113.9")).toMatchObject({ remaining: 7 });
});

test("several policies admit a request, or none consumes anything", async () => {
  await open();
  await put(world, "api", { limit: 10, window_seconds: 60 });
  await put(world, "tenant", { limit: 2, window_seconds: 3_600, scope: "global" });
  const statuses = [];
  for (const _ of numbers(4)) statuses.push((await ask("api,tenant;key=x-tenant", { "x-tenant": "acme" })).status);
  expect(statuses).toEqual([204, 204, 429, 429]);
  expect(await peek(world, "api", "acme")).toMatchObject({ remaining: 8 });
});

test("a path below the gate and the query are the client's, and choose nothing", async () => {
  await open();
  await put(world, "api", { limit: 2, window_seconds: 60 });
  const headers = { "x-any": "other" };
  const statuses = [];
  for (const path of ["api/users?key=x-any", "api/%zz/..?cost=x-cost&strange=1", "api?key=x-any"]) {
    statuses.push((await ask(path, headers)).status);
  }
  expect(statuses).toEqual([204, 204, 429]);
});

test("an idempotency key of the client lets it pass no second time", async () => {
  await open();
  await put(world, "api", { limit: 2, window_seconds: 60 });
  await put(world, "tenant", { limit: 2, window_seconds: 60 });
  for (const path of ["api;key=x-key", "api,tenant;key=x-key"]) {
    const statuses = [];
    for (const _ of numbers(3)) {
      statuses.push((await ask(path, { "idempotency-key": "again", "x-key": path })).status);
    }
    expect(statuses, path).toEqual([204, 204, 429]);
  }
});

test("what cannot be read never passes", async () => {
  await open();
  await put(world, "api", { limit: 10, window_seconds: 60 });
  await put(world, "held", { algorithm: "concurrency", limit: 2, ttl_seconds: 60 });
  const cases = [
    ["none", {}, 404, "policy-not-found"],
    ["", {}, 400, "invalid-policy"],
    ["api,", {}, 400, "invalid-policy"],
    ["api%2Fx", {}, 400, "invalid-policy"],
    [numbers(11).map(() => "api").join(","), {}, 400, "invalid-policy"],
    ["held", {}, 400, "needs-hold"],
    ["api;strange=1", {}, 400, "invalid-query"],
    ["api;key=", {}, 400, "invalid-query"],
    ["api;key=x-key", { "x-key": "k".repeat(513) }, 400, "invalid-id"],
    ["api;key=x-key", { "x-key": ".." }, 400, "invalid-id"],
    ["api;cost=x-cost", { "x-cost": "0" }, 400, "invalid-cost"],
    ["api;cost=x-cost", { "x-cost": "-1" }, 400, "invalid-cost"],
    ["api;cost=x-cost", { "x-cost": "1e3" }, 400, "invalid-cost"],
    ["api;cost=x-cost", { "x-cost": "99999999999999999999" }, 400, "invalid-cost"],
    ["api;cost=x-cost", { "x-cost": "11" }, 400, "cost-exceeds-limit"],
    ["api", { "x-forwarded-for": "nobody" }, 400, "no-client-address"],
  ];
  for (const [path, headers, status, code] of cases) {
    const answer = await ask(path, headers);
    expect([path, answer.status, answer.json?.code], answer.text).toEqual([path, status, code]);
  }
  expect(await peek(world, "api", "203.0.113.9")).toMatchObject({ remaining: 10 });
});
