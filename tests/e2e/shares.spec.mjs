// Shares: whoever has a link reads one prefix, and nothing else, until it is revoked or has ended.
import { afterAll, beforeAll, expect, test } from "vitest";
import { bearer, numbers } from "./calls.mjs";
import { connect, watch } from "./live-client.mjs";
import { openWorld } from "./world.mjs";

const ADMIN = "admin-key-0123456789";
const BLOG = "blog-admin-0123456789";
const READER = "reader-key-0123456789";
const CONFIG = {
  keys: [
    { key: ADMIN, scopes: ["admin"] },
    { key: BLOG, scopes: ["admin"], prefix: "blog/" },
    { key: READER, scopes: ["read"] },
  ],
};
// What an isolate goes by what it knows, and a little more.
const REVOKED_MS = 60_000;
// As crates/tally-api/src/live/mod.rs says.
const VISITOR_COUNTERS_MAX = 500;

let world;
beforeAll(async () => {
  world = await openWorld({ vars: { TALLY_ACCESS: undefined, TALLY_KEYS: JSON.stringify(CONFIG) }, edges: 2 });
  for (const id of ["blog/a", "blog/b", "shop/a"]) {
    await world.well("POST", `/counters/${encodeURIComponent(id)}/increment`, {
      ...bearer(ADMIN), body: '{"delta":3}',
    });
  }
});
afterAll(() => world.close());

const share = (body, key = ADMIN) => world.well("POST", "/shares", bearer(key, { body: JSON.stringify(body) }));

test("a share reads what begins with its prefix, and nothing else", async () => {
  const { token, url, prefix } = await share({ prefix: "blog/", name: "for Ann" });
  expect(prefix).toBe("blog/");
  expect(url).toBe(`/dashboard/#/share/${token}?prefix=blog%2F`);
  const guest = bearer(token);
  expect(await world.well("GET", "/counters/blog%2Fa", guest)).toMatchObject({ value: 3 });
  const listed = await world.well("GET", "/counters?prefix=blog%2F", guest);
  expect(listed.entries.map(({ id }) => id)).toEqual(["blog/a", "blog/b"]);
  await world.well("GET", "/top?prefix=blog%2F", guest);
  await world.well("GET", "/counters/blog%2F*/aggregate/history?top=5", guest);
  await world.well("GET", "/top?id=blog%2Fa&prefix=blog%2F", guest);
  for (const [method, path] of [
    ["GET", "/counters/shop%2Fa"],
    ["GET", "/counters/blog"],
    ["GET", "/counters/*/aggregate/history"],
    ["GET", "/counters/bl*/aggregate"],
    ["POST", "/counters/blog%2Fa/increment"],
    ["PUT", "/counters/blog%2Fa/value", '{"value":0}'],
    ["DELETE", "/counters/blog%2Fa"],
    ["GET", "/counters"],
    ["GET", "/top"],
    ["GET", "/uniques?id=shop%2Fa"],
    ["GET", "/limits"],
    ["GET", "/limits/login"],
    ["POST", "/limits/login/bob"],
    ["GET", "/metrics"],
    ["GET", "/shares"],
    ["POST", "/uniques/rotate"],
  ])
    await world.refused(403, "forbidden", method, path, guest);
  await world.refused(403, "forbidden", "POST", "/shares", { ...guest, body: '{"prefix":"blog/"}' });
});

test("a share reads no boards, no exports and nothing of Redis's keys below its prefix", async () => {
  await world.well("POST", "/boards/blog%2Fgame/members/ann", bearer(ADMIN, { body: '{"score":1}' }));
  await world.well("POST", "/redis", bearer(ADMIN, { body: '["SET","blog/text","secret"]' }));
  const { token } = await share({ prefix: "blog/" });
  const guest = bearer(token);
  for (const path of [
    "/boards", "/boards?prefix=blog%2F", "/boards/blog%2Fgame", "/boards/blog%2Fgame/members",
    "/boards/blog%2Fgame/members?format=ndjson", "/live?board=blog%2Fgame", "/uniques?id=blog%2Fa&format=hll",
    "/top?boards=blog%2Fgame", "/top?by=rate",
    "/export?prefix=blog%2F", "/keys", "/audit", "/alerts",
  ])
    await world.refused(403, "forbidden", "GET", path, guest);
  const listener = await watch(world, "/redis/psubscribe/__keyspace@0__:blog%2F*", guest);
  expect(listener.status).toBe(403);
  listener.close();
  for (const [path, body] of [
    ["/redis", '["GET","blog/text"]'],
    ["/redis", '["KEYS","blog/*"]'],
    ["/redis/pipeline", '[["GET","blog/text"]]'],
    ["/redis/multi-exec", '[["GET","blog/text"]]'],
  ]) {
    const { status, json } = await world.call("POST", path, { ...guest, body });
    expect([path, status]).toEqual([path, 403]);
    expect(json.error).toMatch(/^NOPERM /);
  }
});

test("whoever reads by a share has the streams of an address, and others of the same share have theirs", async () => {
  const { token } = await share({ prefix: "blog/" });
  const from = (address) => bearer(token, { headers: { "cf-connecting-ip": address } });
  const path = (stream) => `/live?${numbers(100).map((index) => `id=blog%2F${stream}%2F${index}`).join("&")}`;
  const sockets = [];
  for (const stream of numbers(VISITOR_COUNTERS_MAX / 100)) {
    sockets.push(await connect(world, path(stream), from("192.0.2.1")));
  }
  const one = (address) => watch(world, "/live?id=blog%2Fa", from(address));
  expect((await one("192.0.2.1")).status).toBe(429);
  const other = await one("192.0.2.2");
  expect(other.status).toBe(200);
  for (const watcher of [other, ...sockets]) watcher.close();
});

test("a token that is changed, or of another deployment, is refused", async () => {
  const { token } = await share({ prefix: "" });
  for (const other of [
    `${token.slice(0, -1)}${token.endsWith("0") ? "1" : "0"}`, token.slice(0, -1),
    "share_0000000000000000_00000000000000000000000000000000",
  ])
    await world.refused(401, "unauthorized", "GET", "/counters/blog%2Fa", bearer(other));
});

test("a revoked share ends at once here, and within a minute everywhere; it stays revoked", async () => {
  const { id, token } = await share({ prefix: "blog/" });
  for (const edge of [0, 1]) await world.well("GET", "/counters/blog%2Fa", bearer(token, { edge }));
  await world.refused(403, "forbidden", "DELETE", `/shares/${id}`, bearer(READER));
  expect(await world.well("DELETE", `/shares/${id}`, bearer(ADMIN, { edge: 0 }))).toEqual({ id, status: "revoked" });
  await world.refused(401, "unauthorized", "GET", "/counters/blog%2Fa", bearer(token, { edge: 0 }));
  await world.advance(REVOKED_MS);
  await world.refused(401, "unauthorized", "GET", "/counters/blog%2Fa", bearer(token, { edge: 1 }));
  await world.refused(404, "share-not-found", "DELETE", `/shares/${id}`, bearer(ADMIN));
  const { entries: shares } = await world.well("GET", "/shares", bearer(ADMIN));
  expect(shares.map((one) => one.id)).not.toContain(id);
});

test("a share ends when it was to end", async () => {
  const { id, token, expires_at, created_at } = await share({ prefix: "blog/", expires_in_seconds: 90 });
  expect(expires_at - created_at).toBe(90_000);
  await world.well("GET", "/counters/blog%2Fa", bearer(token));
  await world.advance(90_000);
  await world.refused(401, "unauthorized", "GET", "/counters/blog%2Fa", bearer(token));
  const { entries: shares } = await world.well("GET", "/shares", bearer(ADMIN));
  expect(shares.map((one) => one.id)).not.toContain(id);
});

test("whoever administers a prefix shares what is below it, and sees those shares alone", async () => {
  const own = await share({ prefix: "blog/2026/" }, BLOG);
  const other = await share({ prefix: "shop/" });
  await world.refused(403, "forbidden", "POST", "/shares", bearer(BLOG, { body: '{"prefix":"shop/"}' }));
  await world.refused(404, "share-not-found", "DELETE", `/shares/${other.id}`, bearer(BLOG));
  await world.refused(403, "forbidden", "POST", "/shares", bearer(READER, { body: '{"prefix":"blog/"}' }));
  await world.refused(403, "forbidden", "GET", "/shares", bearer(READER));
  await world.refused(401, "unauthorized", "GET", "/shares");
  const ids = (await world.well("GET", "/shares", bearer(BLOG))).entries.map(({ id }) => id);
  expect(ids).toContain(own.id);
  expect(ids).not.toContain(other.id);
});

test("what is no share is refused", async () => {
  for (const [code, body] of [
    ["invalid-body", '{"prefix":"limits/"}'],
    ["invalid-body", '{"prefix":"a","expires_in_seconds":1}'],
    ["invalid-body", "{}"],
    ["unknown-field", '{"prefix":"a","scopes":["admin"]}'],
    ["invalid-json", "{"],
  ])
    await world.refused(400, code, "POST", "/shares", bearer(ADMIN, { body }));
  await world.refused(404, "share-not-found", "DELETE", "/shares/nothing", bearer(ADMIN));
});
