// What pages embed: the script, the pixel and the badge; under which entries they work; what visitors without a key may
// write.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openWorld } from "./world.mjs";

const SITE = "https://blog.example";
const KEY = "admin-key-0123456789";
const ADMIN = { authorization: `Bearer ${KEY}` };
const CONFIG = {
  keys: [{ key: KEY, scopes: ["admin"] }],
  public: [
    { prefix: "blog/", origins: [SITE], scopes: ["read", "write"], allow: ["decrement"] },
    { prefix: "mail/", origins: ["*"], scopes: ["write"] },
    { prefix: "stars/", origins: ["*"], scopes: ["read"] },
  ],
};
// Writes that a visitor may make at once, as crates/tally-core/src/callers/visitors.rs says.
const WRITES_PER_MINUTE = 60;

const valueOf = (svg) => svg.match(/<text class="value"[^>]*>([^<]*)<\/text>/)[1];

describe("in an open deployment", () => {
  let world;
  beforeAll(async () => {
    world = await openWorld();
  });
  afterAll(() => world.close());

  test("the script is served for every page, and is kept for an hour", async () => {
    const { status, headers } = await world.call("GET", "/tally.js");
    expect(status).toBe(200);
    expect(headers.get("content-type")).toBe("text/javascript; charset=utf-8");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("access-control-allow-origin")).toBe("*");
    expect(headers.get("cross-origin-resource-policy")).toBe("cross-origin");
    expect(headers.get("cache-control")).toBe("public, max-age=3600");
    const etag = headers.get("etag");
    const again = await world.call("GET", "/tally.js", { headers: { "if-none-match": etag } });
    expect([again.status, again.text]).toEqual([304, ""]);
  });

  test("a pixel counts one and is a GIF of one point that nobody keeps", async () => {
    const { status, headers } = await world.call("GET", "/pixel/letters%2F1.gif");
    expect(status).toBe(200);
    expect(headers.get("content-type")).toBe("image/gif");
    expect(headers.get("cache-control")).toBe("no-store");
    const { bytes } = await world.call("GET", "/pixel/letters%2F1.gif");
    expect(bytes.length).toBe(43);
    expect(Buffer.from(bytes).toString("latin1", 0, 6)).toBe("GIF89a");
    await world.call("HEAD", "/pixel/letters%2F1.gif");
    expect((await world.strong("letters/1")).value).toBe(2);
  });

  test("a hit counts one by GET, and answers as an increment; its id may hold slashes", async () => {
    const first = await world.call("GET", "/hit/site%2Fvisits");
    expect([first.status, first.json.id, first.json.value, first.json.exact]).toEqual([200, "site/visits", 1, true]);
    expect(first.headers.get("cache-control")).toBe("no-store");
    expect((await world.call("GET", "/hit/site%2Fvisits?numbers=string&by=campaign:spring")).json.value).toBe(2);
    await world.call("HEAD", "/hit/site%2Fvisits");
    expect((await world.strong("site/visits")).value).toBe(2);
    expect((await world.call("GET", "/hit/site%2Fvisits?_=3&callback=show")).json.value).toBe(3);
    await world.refused(400, "invalid-query", "GET", "/hit/site%2Fvisits?numbers=roman");
    await world.refused(405, "method-not-allowed", "POST", "/hit/site%2Fvisits");
    await world.refused(400, "invalid-id", "GET", "/hit/");
    await world.refused(404, "not-found", "GET", "/hit");
  });

  test("a pixel counts the visitor that it names once", async () => {
    for (const unique of ["a", "b", "a"]) await world.call("GET", `/pixel/letters%2F2.gif?unique=${unique}`);
    const read = await world.strong("letters/2");
    expect([read.value, read.uniques.estimate]).toEqual([3, 2]);
    const mailed = await world.call("GET", "/pixel/letters%2F2.gif?utm_source=mail&utm_campaign=%E4&unique=a");
    expect([mailed.status, (await world.strong("letters/2")).uniques.estimate]).toEqual([200, 2]);
  });

  test("a badge shows the value, or what was counted today, or that nothing is", async () => {
    expect(valueOf((await world.call("GET", "/badge/badged.svg")).text)).toBe("none yet");
    await world.add("badged", { delta: 12_345 });
    await world.strong("badged");
    const { status, text, headers } = await world.call("GET", "/badge/badged.svg?label=views");
    expect([status, valueOf(text)]).toEqual([200, "12k"]);
    expect(text).toContain("<title>views: 12k</title>");
    expect(headers.get("content-type")).toBe("image/svg+xml");
    expect(headers.get("cache-control")).toMatch(/max-age=60$/);
    expect(headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(headers.get("tally-as-of")).toMatch(/^\d+$/);
    const again = await world.call("GET", "/badge/badged.svg?label=views", {
      headers: { "if-none-match": headers.get("etag") },
    });
    expect(again.status).toBe(304);
    expect(valueOf((await world.call("GET", "/badge/badged.svg?format=full&show=today")).text)).toBe("12345");
    // Logs of another day are in the total, and not in today's.
    await world.well("POST", "/ingest?format=ndjson", {
      body: `{"id":"old","at":"2024-05-01T12:00:00Z"}`,
    });
    await world.add("old");
    await world.strong("old");
    expect(valueOf((await world.call("GET", "/badge/old.svg?show=today")).text)).toBe("1");
    expect(valueOf((await world.call("GET", "/badge/old.svg")).text)).toBe("2");
  });

  test("what mail programs, caches and image proxies add to an address changes nothing", async () => {
    const added = [
      "utm_source=mail&utm_source=mail", "_=3", "fbclid=", "x=%E4%zz", "%FF=1", "&&=&", "callback=a&callback=b",
      "amp;by=x", "logo=github&style=social&cacheSeconds=60&labelColor=rgb(0,0,0)",
    ];
    for (const [index, query] of added.entries()) {
      const id = `added-${index}`;
      for (const path of [`/pixel/${id}.gif`, `/hit/${id}`, `/badge/${id}.svg`, "/tally.js"]) {
        expect((await world.call("GET", `${path}?${query}`)).status, `${path}?${query}`).toBe(200);
      }
      expect((await world.strong(id)).value, query).toBe(2);
    }
  });

  test("an image with a value that does not fit is an image, and counts without the value", async () => {
    const long = "x".repeat(1_025);
    const bad = [
      "unique=", `unique=${long}`, "unique=%FF", "by=", "by=page", "by=country,page", "by=Page:x", "by=page:",
      "by=a:b,a:c", "by=%FF", `by=page:${long}`, "by=x&by=x",
    ];
    for (const [index, query] of bad.entries()) {
      const { status, headers } = await world.call("GET", `/pixel/bad-${index}.gif?${query}`);
      expect([status, headers.get("content-type")], query).toEqual([200, "image/gif"]);
      const { value, uniques } = await world.strong(`bad-${index}`);
      expect([value, uniques?.estimate ?? 0], query).toEqual([1, 0]);
    }
    const { status } = await world.call("GET", "/pixel/bad-of-two.gif?by=page&unique=ann");
    expect([status, (await world.strong("bad-of-two")).uniques.estimate]).toEqual([200, 1]);
    const decorations = [
      "color=bluish", "color=%22/%3E", "color=red&colour=green", "label_color=ggg", "style=round", "show=yesterday",
      "format=string", "label=a%00b", `label=${long}`, "label=%FF", "label=x&label=y",
    ];
    for (const query of decorations) {
      const { status, text, headers } = await world.call("GET", `/badge/bad-0.svg?${query}`);
      expect([status, headers.get("content-type"), valueOf(text)], query).toEqual([200, "image/svg+xml", "1"]);
    }
    // An id that cannot be one stays an error: there is nothing to count or to show.
    for (const id of ["%00", "%FF", "a%0Ab", "x".repeat(513)]) {
      await world.refused(400, "invalid-id", "GET", `/pixel/${id}.gif`);
      await world.refused(400, "invalid-id", "GET", `/badge/${id}.svg`);
      await world.refused(400, "invalid-id", "GET", `/hit/${id}`);
    }
    // A hit is no image: its caller reads the answer.
    for (const query of [...bad.slice(0, 11), "unique=a&unique=b", "numbers=roman", "numbers="]) {
      await world.refused(400, "invalid-query", "GET", `/hit/bad-hit?${query}`);
    }
    await world.refused(404, "counter-not-found", "GET", "/counters/bad-hit");
  });

  test("labels are escaped, and what is no image is not found", async () => {
    const label = encodeURIComponent(`"><script>alert(1)</script>&'`);
    const { text } = await world.call("GET", `/badge/badged.svg?label=${label}`);
    expect(text).not.toContain("<script>");
    expect(text).toContain("&quot;&gt;&lt;script&gt;");
    await world.refused(404, "not-found", "GET", "/badge/badged");
    await world.refused(404, "not-found", "GET", "/pixel/badged.png");
    await world.refused(405, "method-not-allowed", "POST", "/pixel/badged.gif");
  });

  test("who asks for a callback is told of CORS", async () => {
    const { json } = await world.refused(400, "invalid-query", "GET", "/counters/badged?callback=show");
    expect(json.detail).toContain("CORS");
  });
});

describe("under public entries", () => {
  let world;
  const visitor = (address) => ({ "cf-connecting-ip": address, origin: SITE });
  beforeAll(async () => {
    world = await openWorld({ vars: { TALLY_ACCESS: undefined, TALLY_KEYS: JSON.stringify(CONFIG) } });
  });
  afterAll(() => world.close());
  const strong = (id) => world.strong(id, "", { headers: ADMIN });

  test("a pixel works where a page's or everybody's entry allows it", async () => {
    const pixel = (id, headers) => world.call("GET", `/pixel/${encodeURIComponent(id)}.gif`, { headers });
    expect((await pixel("blog/a", { referer: `${SITE}/posts/1?x` })).status).toBe(200);
    expect((await pixel("blog/a", { referer: `${SITE}.evil.example/` })).status).toBe(401);
    expect((await pixel("blog/a", { referer: "https://evil.example/?https://blog.example" })).status).toBe(401);
    expect((await pixel("blog/a")).status).toBe(401);
    expect((await pixel("mail/a")).status).toBe(200);
    expect((await strong("blog/a")).value).toBe(1);
    expect((await strong("mail/a")).value).toBe(1);
  });

  test("a hit works where a public entry allows it, and other origins may read its answer", async () => {
    const hit = (id, headers) => world.call("GET", `/hit/${encodeURIComponent(id)}`, { headers });
    const counted = await hit("blog/hits", { origin: SITE });
    expect([counted.status, counted.json.value]).toEqual([200, 1]);
    expect(counted.headers.get("access-control-allow-origin")).toBe("*");
    expect((await hit("blog/hits", { referer: `${SITE}/posts/1` })).status).toBe(200);
    expect((await hit("blog/hits", { origin: "https://evil.example" })).status).toBe(401);
    expect((await hit("blog/hits")).status).toBe(401);
    expect((await hit("stars/hits", { origin: SITE })).status).toBe(401);
    expect((await hit("mail/hits")).status).toBe(200);
    expect((await strong("blog/hits")).value).toBe(2);
  });

  test("a badge is public where its entry is, and private with a key", async () => {
    await world.add("stars/a", { delta: 5 }, { headers: ADMIN });
    const shown = await world.call("GET", "/badge/stars%2Fa.svg");
    expect([shown.status, valueOf(shown.text)]).toEqual([200, "5"]);
    expect(shown.headers.get("cache-control")).toBe("public, max-age=60");
    const keyed = await world.call("GET", "/badge/stars%2Fa.svg", { headers: ADMIN });
    expect(keyed.headers.get("cache-control")).toBe("private, max-age=60");
    await world.refused(401, "unauthorized", "GET", "/badge/mail%2Fa.svg");
    await world.refused(401, "unauthorized", "GET", "/badge/blog%2Fa.svg");
  });

  test("the script needs nothing", async () => {
    expect((await world.call("GET", "/tally.js", { headers: { origin: "https://evil.example" } })).status).toBe(200);
  });

  test("a visitor without a key writes so often, and others go on", async () => {
    const write = (headers, id = "blog/limited") =>
      world.call("POST", `/counters/${encodeURIComponent(id)}/increment`, { headers });
    const one = visitor("2001:db8:1:2::1");
    for (let n = 0; n < WRITES_PER_MINUTE; n++) expect((await write(one)).status).toBe(200);
    // Time passes meanwhile, and gives back one a second.
    let refused;
    for (let n = 0; n < WRITES_PER_MINUTE && refused === undefined; n++) {
      const answer = await write(visitor("2001:db8:1:2::2"));
      if (answer.status !== 200) refused = answer;
    }
    expect([refused?.status, refused?.json.code]).toEqual([429, "quota-exceeded"]);
    expect(refused.headers.get("retry-after")).toBe("1");
    expect(refused.headers.get("access-control-allow-origin")).toBe("*");
    const before = (await strong("blog/limited")).value;
    expect((await write(visitor("2001:db8:1:3::1"))).status).toBe(200);
    expect((await write(one, "blog/other")).status).toBe(200);
    expect((await write({ ...ADMIN, "cf-connecting-ip": "2001:db8:1:2::1" })).status).toBe(200);
    expect((await strong("blog/limited")).value).toBe(before + 2);
  });

  test("pixels, events and lines of bodies are limited too", async () => {
    const headers = { "cf-connecting-ip": "192.0.2.9", origin: SITE };
    const statuses = async (ask) => {
      for (let n = 0; n < 3 * WRITES_PER_MINUTE; n++) {
        const { status } = await ask();
        if (status !== 200) return status;
      }
      return 200;
    };
    expect(await statuses(() => world.call("GET", "/pixel/mail%2Fb.gif", { headers }))).toBe(429);
    expect(await statuses(() => world.call("POST", "/counters/blog%2Fd/decrement", { headers }))).toBe(429);
    // A line counts as a write: the rest of a body is taken, and of other counters all.
    const lines = [...Array(100).fill('{"id":"blog/e"}'), '{"id":"blog/f"}'];
    const { accepted, rejected, errors } = await world.well("POST", "/events", { headers, body: lines.join("\n") });
    expect([accepted, rejected, errors[0].line, errors[0].code]).toEqual([61, 40, 61, "quota-exceeded"]);
    expect((await strong("blog/e")).value).toBe(60);
  });

  test("a preflight allows the origins of entries alone", async () => {
    const ask = (origin) =>
      world.call("OPTIONS", "/counters/blog%2Fa", { headers: { origin, "access-control-request-method": "GET" } });
    expect((await ask(SITE)).headers.get("access-control-allow-methods")).toContain("GET");
    const everybody = await ask("https://other.example");
    // Two entries name everybody: browsers of any page may look at the answer, which is a refusal elsewhere.
    expect(everybody.headers.get("access-control-allow-origin")).toBe("*");
  });
});
