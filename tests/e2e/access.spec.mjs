// Who may do what: closed by default, keys with scopes and prefixes, public entries for browsers.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openWorld } from "./world.mjs";

const KEYS = {
  admin: "admin-key-0123456789",
  reader: "reader-key-0123456789",
  writer: "writer-key-0123456789",
  blog: "blog-key-0123456789ab",
};
const SITE = "https://blog.example";
const CONFIG = {
  keys: [
    { name: "ops", key: KEYS.admin, scopes: ["admin"] },
    { name: "dashboard", key: KEYS.reader, scopes: ["read"] },
    { name: "beacon", key: KEYS.writer, scopes: ["write"] },
    { name: "blog", key: KEYS.blog, scopes: ["read", "write"], prefix: "blog/" },
  ],
  public: [{ prefix: "blog/", origins: [SITE], scopes: ["write"] }],
};
// The least scope of every call.
const CALLS = [
  ["write", "POST", "/counters/blog%2Fa/increment"],
  ["write", "POST", "/counters/blog%2Fa/decrement"],
  ["read", "GET", "/counters/blog%2Fa"],
  ["read", "GET", "/counters/blog%2Fa/history"],
  ["read", "GET", "/counters?prefix=blog%2F"],
  ["read", "GET", "/counters/blog%2F*/aggregate"],
  ["read", "GET", "/uniques?id=blog%2Fa"],
  ["admin", "PUT", "/counters/blog%2Fa"],
  ["admin", "DELETE", "/counters/blog%2Fa"],
];
const MAY = { admin: ["read", "write", "admin"], reader: ["read"], writer: ["write"], blog: ["read", "write"] };
const BATCHES = [
  ["/events", '{"key":"blog/b"}\n{"key":"shop/b"}'],
  ["/ingest?format=ndjson", '{"key":"blog/b"}\n{"key":"shop/b"}'],
];

const bearer = (key) => ({ authorization: `Bearer ${key}` });

describe("nothing is configured", () => {
  for (const [what, vars, isUnreadable] of [
    ["no variable at all", { TALLY_ACCESS: undefined }],
    ["an empty secret", { TALLY_ACCESS: undefined, TALLY_KEYS: " " }],
    ["another word than open", { TALLY_ACCESS: "yes" }],
    ["a secret that is no JSON, though access is open", { TALLY_KEYS: "{" }, true],
    ["a secret with an unknown scope", { TALLY_KEYS: '{"keys":[{"key":"0123456789abcdef","scopes":["root"]}]}' }, true],
  ]) {
    test(what, async () => {
      const world = await openWorld({ vars });
      try {
        const { json, headers } = await world.refused(503, "not-configured", "GET", "/counters/a");
        expect(json.detail).toContain("TALLY_KEYS");
        expect(headers.get("retry-after")).toBeNull();
        await world.refused(503, "not-configured", "POST", "/counters/a/increment");
        await world.refused(503, "not-configured", "POST", "/events", { body: '{"key":"a"}', headers: bearer("0123456789abcdef") });
        if (isUnreadable) await world.refused(503, "not-configured", "GET", "/healthz");
        else await world.well("GET", "/healthz");
        await world.well("GET", "/openapi.json");
      } finally {
        await world.close();
      }
    });
  }
});

describe("keys", () => {
  let world;
  beforeAll(async () => {
    world = await openWorld({ vars: { TALLY_KEYS: JSON.stringify(CONFIG) } });
    await world.add("blog/a", undefined, { headers: bearer(KEYS.admin) });
  });
  afterAll(() => world.close());

  const valueOf = async (id) => (await world.strong(id, "", { headers: bearer(KEYS.admin) })).value;

  test("liveness and the description are open", async () => {
    expect(await world.well("GET", "/healthz")).toEqual({ status: "ok" });
    expect((await world.well("GET", "/openapi.json")).openapi).toMatch(/^3\.1/);
  });

  for (const [name, scopes] of Object.entries(MAY)) {
    test(`the key of ${name} may ${scopes.join(", ")}`, async () => {
      for (const [scope, method, path] of CALLS) {
        await world.add("blog/a", undefined, { headers: bearer(KEYS.admin) });
        const answer = await world.call(method, path, { headers: bearer(KEYS[name]) });
        const wanted = scopes.includes(scope) ? [200, undefined] : [403, "forbidden"];
        expect([answer.status, answer.json.code], `${method} ${path}`).toEqual(wanted);
      }
    });
  }

  test("a key with a prefix may nothing beyond it", async () => {
    const headers = bearer(KEYS.blog);
    await world.add("shop/a", undefined, { headers: bearer(KEYS.admin) });
    const outside = ["/counters/shop%2Fa", "/counters/blog", "/counters?prefix=", "/counters?prefix=b", "/counters/*/aggregate", "/uniques?id=blog%2Fa&id=shop%2Fa"];
    for (const path of outside) await world.refused(403, "forbidden", "GET", path, { headers });
    await world.refused(403, "forbidden", "POST", "/counters/shop%2Fa/increment", { headers });
    await world.refused(403, "forbidden", "POST", "/counters/BLOG%2Fa/increment", { headers });
    expect(await valueOf("shop/a")).toBe(1);
  });

  test("no key, a wrong key and a wrong scheme are unauthorized", async () => {
    await world.add("blog/a", undefined, { headers: bearer(KEYS.admin) });
    const before = await valueOf("blog/a");
    const wrong = [
      {},
      bearer("wrong-key-0123456789"),
      bearer(KEYS.admin.slice(0, -1)),
      bearer(`${KEYS.admin}0`),
      { authorization: `Basic ${KEYS.admin}` },
      { authorization: KEYS.admin },
      { authorization: "Bearer" },
    ];
    for (const headers of wrong) {
      for (const [, method, path] of CALLS) {
        const answer = await world.refused(401, "unauthorized", method, path, { headers });
        expect(answer.headers.get("www-authenticate")).toMatch(/^Bearer/);
        expect(answer.text).not.toContain(KEYS.admin);
      }
    }
    expect(await valueOf("blog/a")).toBe(before);
  });

  test("a public entry is for its origin, prefix and scopes", async () => {
    const path = "/counters/blog%2Fa/increment";
    const headers = { origin: SITE };
    const answer = await world.call("POST", path, { headers: { ...headers, "content-type": "text/plain" } });
    expect(answer.status).toBe(200);
    expect(answer.headers.get("access-control-allow-origin")).toBe(SITE);
    expect(answer.headers.get("vary")).toMatch(/origin/i);
    await world.refused(401, "unauthorized", "GET", "/counters/blog%2Fa", { headers });
    await world.refused(401, "unauthorized", "POST", "/counters/shop%2Fa/increment", { headers });
    for (const origin of ["https://evil.example", "http://blog.example", `${SITE}.evil.example`, `${SITE}:8443`, "null"]) {
      const refused = await world.refused(401, "unauthorized", "POST", path, { headers: { origin } });
      expect(refused.headers.get("access-control-allow-origin")).toBeNull();
    }
  });

  test("a browser's preflight is answered without a key", async () => {
    const ask = (origin) => ({ origin, "access-control-request-method": "POST", "access-control-request-headers": "authorization, content-type" });
    const answer = await world.call("OPTIONS", "/counters/blog%2Fa/increment", { headers: ask(SITE) });
    expect(answer.status).toBe(204);
    expect(answer.headers.get("access-control-allow-origin")).toBe(SITE);
    expect(answer.headers.get("access-control-allow-methods")).toMatch(/\bPOST\b/);
    expect(answer.headers.get("access-control-allow-headers").toLowerCase()).toMatch(/authorization.*content-type/);
    const other = await world.call("OPTIONS", "/counters/blog%2Fa/increment", { headers: ask("https://evil.example") });
    expect(other.headers.get("access-control-allow-origin")).toBeNull();
    // The counter was not touched.
    const before = await valueOf("blog/a");
    await world.call("OPTIONS", "/counters/blog%2Fa/increment", { headers: ask(SITE) });
    expect(await valueOf("blog/a")).toBe(before);
  });

  test("a batch is refused line by line", async () => {
    for (const [path, body] of BATCHES) {
      const limited = await world.well("POST", path, { body, headers: bearer(KEYS.blog) });
      expect(limited).toMatchObject({ accepted: 1, rejected: 1, errors: [{ line: 2, code: "forbidden" }] });
      const page = await world.well("POST", path, { body, headers: { origin: SITE } });
      expect(page).toMatchObject({ accepted: 1, rejected: 1, errors: [{ line: 2, code: "unauthorized" }] });
      // Who may write nothing at all is told so before the body is read.
      await world.refused(403, "forbidden", "POST", path, { body, headers: bearer(KEYS.reader) });
      await world.refused(401, "unauthorized", "POST", path, { body });
    }
    expect(await valueOf("blog/b")).toBe(4);
    await world.refused(404, "counter-not-found", "GET", "/counters/shop%2Fb", { headers: bearer(KEYS.admin) });
  });

  test("a wrong key spoils the whole batch, though its lines are public", async () => {
    const [, body] = BATCHES[0];
    await world.refused(401, "unauthorized", "POST", "/events", { body, headers: { ...bearer("wrong-key-0123456789"), origin: SITE } });
  });
});
