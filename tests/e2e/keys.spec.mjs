// Keys that calls make, on the real runtime: they are good at once everywhere, bounded by what they say, and end.
import { afterAll, beforeAll, expect, test } from "vitest";
import { bearer } from "./calls.mjs";
import { openWorld } from "./world.mjs";

const ADMIN = "admin-key-0123456789";
const OPS = "ops-key-0123456789-0123";
const CONFIG = {
  keys: [
    { name: "admin", key: ADMIN, scopes: ["admin"] },
    { name: "ops", key: OPS, scopes: ["write"], prefixes: ["blog/", "news/"], rate_per_minute: 3 },
  ],
};
// What an isolate goes by what it knows.
const REVOKED_MS = 30_000;
const admin = bearer(ADMIN);

let world;
beforeAll(async () => {
  world = await openWorld({ vars: { TALLY_ACCESS: undefined, TALLY_KEYS: JSON.stringify(CONFIG) }, edges: 2 });
});
afterAll(() => world.close());

const make = (body) => world.well("POST", "/keys", { ...admin, body: JSON.stringify(body) });

test("a key is made, changed, rotated and revoked, and each is noted", async () => {
  const made = await make({ name: "blog", scopes: ["read", "write"], prefixes: ["blog/"] });
  expect(made.key).toMatch(new RegExp(`^tally_${made.id}_[0-9a-f]{80}$`));
  await world.well("POST", "/counters/blog%2Fa/increment", bearer(made.key));
  await world.refused(403, "forbidden", "POST", "/counters/news%2Fa/increment", bearer(made.key));
  const changed = await world.well("PATCH", `/keys/${made.id}`, { ...admin, body: '{"prefixes":["blog/","news/"]}' });
  expect(changed).toMatchObject({ id: made.id, prefixes: ["blog/", "news/"] });
  await world.well("POST", "/counters/news%2Fa/increment", bearer(made.key));
  const { key } = await world.well("POST", `/keys/${made.id}/rotate`, { ...admin, body: "{}" });
  for (const one of [key, made.key]) {
    expect(await world.well("GET", "/counters/news%2Fa", bearer(one))).toMatchObject({ value: 1 });
  }
  const listed = await world.well("GET", "/keys", admin);
  expect(listed.entries.map(({ id, key }) => [id, key])).toEqual([[made.id, undefined]]);
  expect(await world.well("DELETE", `/keys/${made.id}`, admin)).toEqual({ id: made.id, status: "revoked" });
  await world.refused(401, "unauthorized", "GET", "/counters/news%2Fa", bearer(key));
  await world.refused(404, "key-not-found", "GET", `/keys/${made.id}`, admin);
  const { entries: acts } = await world.well("GET", "/audit?limit=4", admin);
  expect(acts.map(({ by, call, target, outcome }) => [by, call, target, outcome])).toEqual(
    ["DELETE /keys/{id}", "POST /keys/{id}/rotate", "PATCH /keys/{id}", "POST /keys"].map((call) => [
      "admin", call, made.id, "done",
    ]),
  );
});

test("a call that needs no key is answered whatever key is sent", async () => {
  const { id, key } = await make({ name: "short", scopes: ["read"], rate_per_minute: 1 });
  await world.well("DELETE", `/keys/${id}`, admin);
  for (const path of ["/healthz", "/openapi.json", "/problems/forbidden", "/tally.js"]) {
    for (const sent of [key, "unknown-key-of-sixteen", `tally_${"0".repeat(16)}_${"0".repeat(80)}`]) {
      expect((await world.call("GET", path, bearer(sent))).status, path).toBe(200);
    }
  }
  await world.refused(401, "unauthorized", "GET", "/counters/a", bearer(key));
});

test("a revoked key ends in another isolate within the bound", async () => {
  const { id, key } = await make({ name: "short", scopes: ["write"] });
  const elsewhere = bearer(key, { edge: 1 });
  await world.well("POST", "/counters/a/increment", elsewhere);
  await world.well("DELETE", `/keys/${id}`, admin);
  await world.advance(REVOKED_MS + 1);
  await world.refused(401, "unauthorized", "POST", "/counters/a/increment", elsewhere);
});

test("a key of the configuration has its budget, and several prefixes", async () => {
  for (const id of ["blog%2Fb", "news%2Fb"]) await world.well("POST", `/counters/${id}/increment`, bearer(OPS));
  await world.refused(403, "forbidden", "POST", "/counters/shop%2Fb/increment", bearer(OPS));
  const refused = await world.call("POST", "/counters/blog%2Fb/increment", bearer(OPS));
  expect([refused.status, refused.headers.get("ratelimit-policy")]).toEqual([429, '"key";q=3;w=60']);
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
  expect(await world.well("GET", "/counters/blog%2Fb?consistency=strong", admin)).toMatchObject({ value: 1 });
});

test("a key is the token of Redis's clients, and opens streams", async () => {
  const { key } = await make({ name: "redis", scopes: ["read", "write"] });
  expect(await world.well("POST", `/redis?_token=${key}`, { body: '["INCR","cart"]' })).toEqual({ result: 1 });
  expect(await world.well("POST", "/redis", bearer(key, { body: '["INCR","cart"]' }))).toEqual({ result: 2 });
  expect((await world.call("HEAD", "/live?id=cart", bearer(key))).status).toBe(200);
});
