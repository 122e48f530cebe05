// Who may do what: closed by default, keys with scopes and prefixes, public entries for browsers.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bearer } from "./calls.mjs";
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
  ["/events", '{"id":"blog/b"}\n{"id":"shop/b"}'],
  ["/ingest?format=ndjson", '{"id":"blog/b"}\n{"id":"shop/b"}'],
];


describe("nothing is configured", () => {
  for (const [what, vars, isUnreadable] of [
    ["no variable at all", { TALLY_ACCESS: undefined }],
    ["an empty secret", { TALLY_ACCESS: undefined, TALLY_KEYS: " " }],
    ["another word than open", { TALLY_ACCESS: "yes" }, true],
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
        await world.refused(503, "not-configured", "POST", "/events", {
          ...bearer("0123456789abcdef"), body: '{"id":"a"}',
        });
        if (isUnreadable) await world.refused(503, "not-configured", "GET", "/healthz");
        else await world.well("GET", "/healthz");
        await world.well("GET", "/openapi.json");
      } finally {
        await world.close();
      }
    });
  }
});

test("a setting that may not be so is named by /healthz, on either Worker, and all else goes on", async () => {
  for (const [name, value, detail, options] of [
    ["TALLY_LIMITERS", "0", "TALLY_LIMITERS must be a whole number from 1 to 4096, not `0`", { edgeVars: { TALLY_LIMITERS: "0" } }],
    ["TALLY_MERGE_AFTER_MS", "soon", "on the aggregator TALLY_MERGE_AFTER_MS must be", { vars: { TALLY_MERGE_AFTER_MS: "soon" }, edgeVars: { TALLY_MERGE_AFTER_MS: undefined } }],
  ]) {
    const world = await openWorld(options);
    try {
      const { json } = await world.refused(503, "not-configured", "GET", "/healthz");
      expect(json.detail).toContain(detail);
      expect(json.detail, `${name}=${value}`).toContain("correct it, or leave it out");
      await world.add("a");
      await world.well("POST", "/limits/a/b", { body: '{"limit":2,"window_seconds":60}' });
    } finally {
      await world.close();
    }
  }
});

describe("keys", () => {
  let world;
  beforeAll(async () => {
    world = await openWorld({ vars: { TALLY_KEYS: JSON.stringify(CONFIG) } });
    await world.add("blog/a", undefined, bearer(KEYS.admin));
  });
  afterAll(() => world.close());

  const valueOf = async (id) => (await world.strong(id, "", bearer(KEYS.admin))).value;

  test("liveness and the description are open", async () => {
    expect(await world.well("GET", "/healthz")).toMatchObject({
      status: "ok", build: expect.stringMatching(/^\d+\.\d+\.\d+$/), formats: { schema: 6, body: 1 },
    });
    expect((await world.well("GET", "/openapi.json")).openapi).toMatch(/^3\.1/);
  });

  for (const [name, scopes] of Object.entries(MAY)) {
    test(`the key of ${name} may ${scopes.join(", ")}`, async () => {
      for (const [scope, method, path] of CALLS) {
        await world.add("blog/a", undefined, bearer(KEYS.admin));
        const answer = await world.call(method, path, bearer(KEYS[name]));
        const wanted = scopes.includes(scope) ? [200, undefined] : [403, "forbidden"];
        expect([answer.status, answer.json.code], `${method} ${path}`).toEqual(wanted);
      }
    });
  }

  test("a key with a prefix may nothing beyond it", async () => {
    const { headers } = bearer(KEYS.blog);
    await world.add("shop/a", undefined, bearer(KEYS.admin));
    const outside = [
      "/counters/shop%2Fa", "/counters/blog", "/counters?prefix=", "/counters?prefix=b", "/counters/*/aggregate",
      "/uniques?id=blog%2Fa&id=shop%2Fa",
    ];
    for (const path of outside) await world.refused(403, "forbidden", "GET", path, { headers });
    await world.refused(403, "forbidden", "POST", "/counters/shop%2Fa/increment", { headers });
    await world.refused(403, "forbidden", "POST", "/counters/BLOG%2Fa/increment", { headers });
    expect(await valueOf("shop/a")).toBe(1);
  });

  test("no key, a wrong key and a wrong scheme are unauthorized", async () => {
    await world.add("blog/a", undefined, bearer(KEYS.admin));
    const before = await valueOf("blog/a");
    const wrong = [
      {},
      bearer("wrong-key-0123456789").headers,
      bearer(KEYS.admin.slice(0, -1)).headers,
      bearer(`${KEYS.admin}0`).headers,
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
    for (const origin of [
      "https://evil.example",
      "http://blog.example",
      `${SITE}.evil.example`, `${SITE}:8443`, "null",
    ]) {
      const refused = await world.refused(401, "unauthorized", "POST", path, { headers: { origin } });
      expect(refused.headers.get("access-control-allow-origin")).toBeNull();
    }
  });

  test("a browser's preflight is answered without a key", async () => {
    const ask = (origin) => ({
      origin, "access-control-request-method": "POST", "access-control-request-headers": "authorization, content-type",
    });
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
      const limited = await world.well("POST", path, bearer(KEYS.blog, { body }));
      expect(limited).toMatchObject({ accepted: 1, rejected: 1, errors: [{ line: 2, code: "forbidden" }] });
      if (path === "/events") {
        const page = await world.well("POST", path, { body, headers: { origin: SITE } });
        expect(page).toMatchObject({ accepted: 1, rejected: 1, errors: [{ line: 2, code: "unauthorized" }] });
      }
      // Who may write nothing at all is told so before the body is read.
      await world.refused(403, "forbidden", "POST", path, bearer(KEYS.reader, { body }));
      await world.refused(401, "unauthorized", "POST", path, { body });
    }
    expect(await valueOf("blog/b")).toBe(3);
    await world.refused(404, "counter-not-found", "GET", "/counters/shop%2Fb", bearer(KEYS.admin));
  });

  test("a wrong key spoils the whole batch, though its lines are public", async () => {
    const [, body] = BATCHES[0];
    const options = bearer("wrong-key-0123456789", { body, headers: { origin: SITE } });
    await world.refused(401, "unauthorized", "POST", "/events", options);
  });
});

describe("without a key", () => {
  let world;
  const all = ["at", "decrement", "hll", "if-match", "ingest", "policy", "ttl"];
  const config = {
    keys: [{ key: KEYS.admin, scopes: ["admin"] }, { key: KEYS.admin, scopes: ["admin"], prefix: "limits/" }],
    public: [
      { origins: ["*"], scopes: ["read", "write"], prefix: "page/" },
      { origins: ["*"], scopes: ["write"], prefix: "more/", delta_max: 5, allow: all },
      { origins: ["*"], scopes: ["write"], prefix: "limits/open/" },
      { origins: ["*"], scopes: ["write"], prefix: "limits/more/", delta_max: 5, allow: ["policy"] },
    ],
  };
  const admin = bearer(KEYS.admin);
  beforeAll(async () => {
    world = await openWorld({ vars: { TALLY_KEYS: JSON.stringify(config) } });
    for (const id of ["page/a", "more/a"]) await world.put(id, { unique_hash: "redis" }, admin);
  });
  afterAll(() => world.close());
  const state = (id) => world.strong(id, "", admin);
  const post = (id, call, body, headers) => [
    "POST", `/counters/${encodeURIComponent(id)}/${call}`, { body: body && JSON.stringify(body), headers },
  ];
  // What is an increment of one and of now is not among them.
  const beyond = async (id) => {
    const { version } = await state(id);
    const { bytes } = await world.call("GET", `/uniques?id=${encodeURIComponent(id)}&format=hll&consistency=strong`, admin);
    const octets = { "content-type": "application/octet-stream" };
    return [
      ["PUT", `/counters/${encodeURIComponent(id)}/uniques/hll`, { body: bytes, headers: octets }],
      post(id, "decrement"),
      post(id, "increment", { delta: 5 }),
      post(id, "increment", { delta: "5" }),
      post(id, "increment", { at: new Date(world.now()).toISOString() }),
      post(id, "increment", { ttl_seconds: 60 }),
      ["POST", "/api/event", { body: JSON.stringify({ key: id, increment: 5 }) }],
      ["POST", "/ingest?format=ndjson", { body: JSON.stringify({ id, at: "2024-05-01T12:00:00Z" }) }],
      // Last, as it gives the counter a home.
      post(id, "increment", undefined, { "if-match": `"${version}"` }),
      post(id, "increment", undefined, { "if-match": "*" }),
    ];
  };

  test("write is an increment by one and of now, with a unique or a sample, in every call that increments", async () => {
    await world.well(...post("page/b", "increment"));
    await world.well(...post("page/b", "increment", { delta: 1, unique: "ann", sample: 12.5 }));
    await world.well(...post("page/b", "increment", undefined, { "idempotency-key": "1" }));
    expect((await world.call("GET", "/pixel/page%2Fb.gif?unique=bob")).status).toBe(200);
    expect((await world.call("POST", "/api/event", { body: '{"key":"page/b"}' })).status).toBe(202);
    const lines = [
      { id: "page/b", unique: "cy" }, { id: "page/b", delta: 2 }, { id: "page/b", at: Math.floor(world.now() / 1_000) },
      { id: "page/b", idempotency_key: "x" },
    ];
    const report = await world.well("POST", "/events", { body: JSON.stringify(lines) });
    expect(report.errors.map(({ line, code }) => [line, code])).toEqual([[2, "unauthorized"], [3, "unauthorized"]]);
    expect(await state("page/b")).toMatchObject({ value: 7, uniques: { estimate: 3 } });
  });

  test("what goes beyond is refused, says what to name, and changes nothing", async () => {
    const before = await state("page/a");
    for (const request of await beyond("page/a")) {
      const { json } = await world.refused(401, "unauthorized", ...request);
      expect(json.detail, request[1]).toMatch(/`(allow|delta_max)`.*TALLY_KEYS|TALLY_KEYS/);
    }
    const after = await state("page/a");
    expect([after.value, after.version, after.uniques]).toEqual([before.value, before.version, before.uniques]);
    expect(
      (await world.history("page/a", "&step=1d&from=1714500000&to=1714700000", admin)).points.every(
        ([, count]) => count === 0,
      ),
    ).toBe(true);
  });

  test("an entry that names it allows it, up to its delta_max", async () => {
    for (const [method, path, options] of await beyond("more/a")) {
      const { status, text } = await world.call(method, path, options);
      expect([200, 202, 409, 412], `${path}: ${text}`).toContain(status);
    }
    await world.refused(401, "unauthorized", ...post("more/a", "increment", { delta: 6 }));
  });

  test("limits are reached by a prefix that begins with limits/ alone, and refunds by their own scope", async () => {
    for (const name of ["login", "open", "more"]) {
      await world.well("PUT", `/limits/${name}`, {
        body: JSON.stringify({ limit: 10, window_seconds: 3_600 }), ...admin,
      });
    }
    for (const path of ["/limits/login/bob", "/limits/login/bob/refund", "/limits/open/bob/refund"]) {
      await world.refused(401, "unauthorized", "POST", path);
    }
    const two = JSON.stringify({ checks: [{ policy: "open", key: "bob" }, { policy: "login", key: "bob" }] });
    await world.refused(401, "unauthorized", "POST", "/limits", { body: two });
    expect(await world.well("POST", "/limits/open/bob")).toMatchObject({ allowed: true, remaining: 9 });
    await world.refused(401, "unauthorized", "POST", "/limits/open/bob", { body: '{"cost":2}' });
    await world.refused(401, "unauthorized", "POST", "/limits/open/bob", {
      body: '{"limit":1000000,"window_seconds":1}',
    });
    expect(await world.well("POST", "/limits/more/bob", { body: '{"cost":5}' })).toMatchObject({ remaining: 5 });
    await world.well("POST", "/limits/more/bob", { body: '{"limit":1000000,"window_seconds":1}' });
    expect(await world.well("GET", "/limits/login/bob", admin)).toMatchObject({ remaining: 10 });
    expect(await world.well("GET", "/limits/open/bob", admin)).toMatchObject({ remaining: 9 });
  });
});

test("a policy that a visitor brings neither lifts nor uses up the limits of your own code", async () => {
  const config = {
    keys: [{ key: KEYS.admin, scopes: ["write"], prefix: "limits/" }],
    public: [{ origins: ["*"], scopes: ["write"], prefix: "limits/site/", allow: ["policy"] }],
  };
  const world = await openWorld({ vars: { TALLY_KEYS: JSON.stringify(config) } });
  const check = async (policy, more) =>
    (await world.call("POST", "/limits/site/bob", { body: JSON.stringify(policy), ...more })).json;
  const bucket = (limit) => ({ algorithm: "token-bucket", window_seconds: 2_000_000, limit, burst: 3 });
  const key = bearer(KEYS.admin);
  try {
    for (const remaining of [2, 1, 0]) expect(await check(bucket(3), key)).toMatchObject({ allowed: true, remaining });
    // It refills 3 tokens within 6 ms.
    expect(await check(bucket(1_000_000_000))).toMatchObject({ allowed: true });
    expect(await check(bucket(1_000_000_000))).toMatchObject({ allowed: true });
    expect(await check(bucket(3), key)).toMatchObject({ code: "quota-exceeded" });
    const other = async (policy, more) =>
      (await world.call("POST", "/limits/site/ann", { body: JSON.stringify(policy), ...more })).json;
    const minute = (limit) => ({ window_seconds: 60, limit });
    for (let round = 0; round < 5; round++) expect(await other(minute(100))).toMatchObject({ allowed: true });
    expect(await other(minute(5), key)).toMatchObject({ allowed: true, remaining: 4 });
  } finally {
    await world.close();
  }
});

test("a key checks and refunds limits only where its prefix says limits/", async () => {
  const entry = (name, scopes, prefix) => ({
    key: `${name}-key-0123456789`, scopes, ...(prefix === undefined ? {} : { prefix }),
  });
  const keys = [
    entry("backend", ["read", "write"]),
    entry("ops", ["admin"]),
    entry("checks", ["write"], "limits/"),
    entry("refunds", ["refund"], "limits/login/"),
    entry("limits", ["admin"], "limits/"),
  ];
  const world = await openWorld({ vars: { TALLY_KEYS: JSON.stringify({ keys }) } });
  const as = (name, more) => bearer(`${name}-key-0123456789`, more);
  try {
    await world.well("PUT", "/limits/login", as("limits", { body: '{"limit":10,"window_seconds":3600}' }));
    for (const name of ["backend", "ops"]) {
      for (const [method, path] of [
        ["POST", "/limits/login/bob"], ["POST", "/limits/login/bob/refund"], ["GET", "/limits/login/bob"],
        ["GET", "/limits"],
      ]) {
        const { json } = await world.refused(403, "forbidden", method, path, as(name));
        expect(json.detail).toContain("on a prefix that begins with `limits/`");
      }
    }
    await world.well("POST", "/limits/login/bob", as("checks"));
    await world.refused(403, "forbidden", "POST", "/limits/login/bob/refund", as("checks"));
    await world.refused(403, "forbidden", "POST", "/limits/login/bob", as("refunds"));
    expect(await world.well("POST", "/limits/login/bob/refund", as("refunds"))).toMatchObject({ remaining: 10 });
    await world.well("POST", "/limits/login/bob/refund", as("limits"));
  } finally {
    await world.close();
  }
});

describe("an open deployment", () => {
  let world;
  beforeAll(async () => {
    world = await openWorld();
    await world.add("a");
  });
  afterAll(() => world.close());
  const paths = [
    ["GET", "/counters/a"], ["POST", "/counters/a/increment"], ["GET", "/pixel/a.gif"], ["GET", "/live?id=a"],
    ["GET", "/healthz"], ["OPTIONS", "/counters/a"],
  ];

  test("answers to names of this machine alone: a page's own name may lead here", async () => {
    for (const origin of ["http://evil.example", "http://localhost.evil.example:8788", "http://10.0.0.1"]) {
      for (const [method, path] of paths) {
        expect((await world.call(method, path, { origin })).status, `${origin}${path}`).toBe(403);
      }
    }
    for (const origin of ["http://localhost:8788", "http://127.0.0.1", "http://[::1]:8788"]) {
      expect((await world.call("GET", "/counters/a", { origin })).status, origin).toBe(200);
    }
    expect((await world.strong("a")).value).toBe(1);
  });

  test("counts no image that another site's page shows, also where the page hides itself", async () => {
    for (const headers of [
      {},
      { referer: "https://evil.example/" },
      { origin: "https://evil.example" },
      { origin: "null" },
    ]) {
      for (const [method, path] of paths) {
        const answer = await world.call(method, path, { headers: { "sec-fetch-site": "cross-site", ...headers } });
        expect(answer.status, `${path} ${JSON.stringify(headers)}`).toBe(403);
      }
    }
    expect((await world.strong("a")).value).toBe(1);
    const local = { "sec-fetch-site": "cross-site", referer: "http://127.0.0.1:3000/page" };
    for (const headers of [
      local, { "sec-fetch-site": "same-site" }, { "sec-fetch-site": "none" }, { "sec-fetch-site": "same-origin" },
    ]) {
      expect((await world.call("GET", "/pixel/a.gif", { headers })).status).toBe(200);
    }
    expect((await world.strong("a")).value).toBe(5);
  });
});
