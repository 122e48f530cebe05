// Breakdowns: what was counted of each value of a dimension, over datacenters and shards, once with its write.
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { numbers } from "./calls.mjs";
import { openPage } from "./page.mjs";
import { each, openWorld, randomFrom } from "./world.mjs";

const COLOS = ["FRA", "IAD", "SYD"];
const HOUR_S = 3_600;
const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";
const IPHONE =
  "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1";

let world;
afterEach(async () => {
  await world?.close();
  world = undefined;
});

const look = (id, by, query = "", options) =>
  world.well("GET", `/counters/${encodeURIComponent(id)}/breakdown?by=${by}&consistency=strong${query}`, options);

// Values by what was counted of them.
const counts = ({ rows }) => Object.fromEntries(rows.map(({ value, count }) => [value, count]));

function expectSums(answer) {
  const rows = answer.rows.reduce((sum, { count }) => sum + count, 0);
  expect(rows + answer.other.count + answer.none, JSON.stringify(answer)).toBe(answer.total);
}

const hit = (id, body, headers, options) =>
  world.well("POST", `/counters/${id}/increment`, { body: JSON.stringify(body), headers, ...options });

describe("without faults", () => {
  beforeEach(async () => {
    world = await openWorld({ edges: 2 });
  });

  test("increments and events of several datacenters and shards are in one breakdown, and sums are the counter's", async () => {
    const random = randomFrom(7);
    await world.put("site", { shards: 4 });
    const truth = {};
    const by = () => {
      const referrer = `host-${Math.floor(8 * random() ** 2)}.example`;
      truth[referrer] = (truth[referrer] ?? 0) + 2;
      return { referrer, country: "DE" };
    };
    await each(numbers(60).map(by), 6, (dimensions, index) =>
      world.add("site", { delta: 2, by: dimensions }, { colo: COLOS[index % 3], edge: index % 2 }),
    );
    await each(COLOS, 3, (colo, index) => {
      const lines = numbers(40).map(() => JSON.stringify({ id: "site", delta: 2, by: by() }));
      return world.well("POST", "/events", { body: lines.join("\n"), colo, edge: index % 2 });
    });
    await world.add("site", { delta: 100 });
    for (const query of ["", "&window=3600", "&window=30d", `&from=${Math.floor(world.now() / 1_000) - HOUR_S}`]) {
      const answer = await look("site", "referrer", query);
      expect(counts(answer)).toEqual(truth);
      expect(answer).toMatchObject({
        id: "site", by: "referrer", total: 460, none: 100, other: { count: 0, error: 0, each_max: 0 }, exact: true,
      });
      expect(answer.dimensions).toEqual(["country", "referrer"]);
      expect(answer.rows.map(({ count }) => count)).toEqual(Object.values(truth).sort((one, other) => other - one));
      expect(answer.rows[0].share).toBeCloseTo(answer.rows[0].count / 460, 6);
      expectSums(answer);
    }
    const few = await look("site", "referrer", "&limit=2");
    expect(few.rows).toHaveLength(2);
    expect(few.values).toBe(Object.keys(truth).length);
    expect(few.other.each_max).toBe(Object.values(truth).sort((one, other) => other - one)[2]);
    expectSums(few);
    const here = await look("site", "country", "&datacenter=IAD");
    expect(here.datacenters).toMatchObject([{ id: "IAD", count: here.total, reachable: true }]);
    expect(await look("site", "nothing")).toMatchObject({ rows: [], none: 460, total: 460 });
    // A default read is shared.
    expect((await world.well("GET", "/counters/site/breakdown?by=country")).rows).toEqual([
      { value: "DE", count: 360, share: expect.any(Number) },
    ]);
  });

  test("a key counts its values once, from wherever it is sent again; another value is another write", async () => {
    const add = (by, options) =>
      world.call("POST", "/counters/a/increment", {
        body: JSON.stringify({ by }), headers: { "idempotency-key": "k" }, ...options,
      });
    const first = await add({ page: "/x" });
    for (const options of [{}, { colo: "IAD" }, { edge: 1 }]) {
      expect((await add({ page: "/x" }, options)).text).toBe(first.text);
    }
    expect((await add({ page: "/y" })).json.code).toBe("idempotency-key-reused");
    const lines = JSON.stringify([
      { id: "a", by: { page: "/x" }, idempotency_key: "e" }, { id: "a", by: { page: "/z" } },
    ]);
    for (const colo of ["FRA", "IAD"]) {
      const headers = { "idempotency-key": "batch" };
      expect(await world.well("POST", "/events", { body: lines, headers, colo })).toMatchObject({
        accepted: 2, rejected: 0,
      });
    }
    const body = '[{"id":"a","by":{"page":"/q"},"idempotency_key":"e"}]';
    await world.refused(422, "idempotency-key-reused", "POST", "/events", { body });
    const answer = await look("a", "page");
    expect(counts(answer)).toEqual({ "/x": 2, "/z": 1 });
    expectSums(answer);
  });

  test("a home has the values of all datacenters, and a write that is refused leaves none", async () => {
    await world.put("a", { home: "SYD" });
    await each(COLOS, 3, (colo) => world.add("a", { by: { colo: colo.toLowerCase() } }, { colo }));
    const { version } = await world.read("a", "?consistency=strong");
    const conditional = { body: '{"by":{"colo":"if"}}', headers: { "if-match": `"${version}"` } };
    await world.well("POST", "/counters/a/increment", conditional);
    await world.refused(412, "precondition-failed", "POST", "/counters/a/increment", conditional);
    expect(counts(await look("a", "colo"))).toEqual({ fra: 1, iad: 1, syd: 1, if: 1 });
  });

  test("a set, a reset and a decrement leave breakdowns as they are, a deletion does not", async () => {
    await world.add("a", { delta: 5, by: { page: "/" } });
    await world.well("PUT", "/counters/a/value", { body: '{"value":100}' });
    await world.well("PUT", "/counters/a/value", { body: '{"value":0}' });
    await world.subtract("a", { delta: 2 });
    expect(await look("a", "page")).toMatchObject({ total: 5, rows: [{ value: "/", count: 5 }], none: 0 });
    await world.well("DELETE", "/counters/a");
    await world.refused(404, "counter-not-found", "GET", "/counters/a/breakdown?by=page");
    await world.add("a");
    expect(await look("a", "page")).toMatchObject({ total: 1, rows: [], none: 1, dimensions: [] });
  });

  test("`auto` stands for what the request says of country, device and browser, and for nothing else", async () => {
    const by = { country: "auto", device: "auto", browser: "auto", word: "auto" };
    await hit("a", { by }, { "user-agent": FIREFOX }, { country: "DE" });
    await hit("a", { by }, { "user-agent": IPHONE }, { country: "US" });
    await hit("a", { by }, { "user-agent": IPHONE });
    const pixel = "/pixel/a.gif?by=country,browser,campaign:spring";
    expect((await world.call("GET", pixel, { headers: { "user-agent": FIREFOX }, country: "DE" })).status).toBe(200);
    expect(await look("a", "country")).toMatchObject({
      rows: [
        { value: "DE", count: 2 }, { value: "US", count: 1 },
      ],
      none: 1,
    });
    expect(counts(await look("a", "device"))).toEqual({ desktop: 1, phone: 2 });
    expect(counts(await look("a", "browser"))).toEqual({ Firefox: 2, Safari: 2 });
    expect(counts(await look("a", "word"))).toEqual({ auto: 3 });
    expect(counts(await look("a", "campaign"))).toEqual({ spring: 1 });
  });

  test("bad dimensions are refused with a reason, and nothing is counted", async () => {
    const nine = Object.fromEntries(numbers(9).map((number) => [`n${number}`, "x"]));
    const bad = [
      [nine, /at most 8 dimensions/],
      [{ Name: "x" }, /a-z, 0-9/],
      [{ ["n".repeat(65)]: "x" }, /64/],
      [{ "": "x" }, /a-z/],
      [{ page: "" }, /`page`.*1 to 256 bytes/],
      [{ page: "x".repeat(257) }, /256/],
      [{ page: "a\u0007b" }, /control/],
    ];
    for (const [by, why] of bad) {
      const { json } = await world.refused(400, "invalid-body", "POST", "/counters/a/increment", {
        body: JSON.stringify({ by }),
      });
      expect(json.detail).toMatch(why);
    }
    const raw = [
      '{"by":{"page":7}}', '{"by":{"page":null}}', '{"by":{"page":["x"]}}', '{"by":"page"}', '{"by":null}',
      '{"by":{"a":"1","a":"2"}}',
    ];
    for (const body of raw) await world.refused(400, "invalid-body", "POST", "/counters/a/increment", { body });
    await world.refused(400, "invalid-body", "POST", "/counters/a/decrement", { body: '{"by":{"page":"/"}}' });
    await world.refused(400, "unknown-field", "POST", "/api/event", { body: '{"key":"a","by":{"page":"/"}}' });
    for (const by of ["page", "country,page", "Page:x", "page:"]) {
      await world.refused(400, "invalid-query", "GET", `/hit/a?by=${by}`);
    }
    const lines = [
      '{"id":"a","by":{"page":1}}', '{"id":"a","by":{"country":"auto"}}', JSON.stringify({ id: "a", by: nine }),
    ];
    const { json } = await world.refused(400, "invalid-body", "POST", "/events", { body: lines.join("\n") });
    expect(json).toMatchObject({ accepted: 0, rejected: 3 });
    await world.refused(404, "counter-not-found", "GET", "/counters/a");
    await world.add("a");
    const queries = [
      "", "?by=", "?by=A", "?by=page&window=0", "?by=page&window=1h", "?by=page&limit=0", "?by=page&limit=1001",
      "?by=page&from=9&to=8", "?by=page&to=8", "?by=page&window=7d&from=1", "?by=page&from=x",
      "?by=page&to=99999999999999&from=1", "?by=page&foo=1",
    ];
    for (const query of queries) await world.refused(400, "invalid-query", "GET", `/counters/a/breakdown${query}`);
  });

  test("old lines are in the days that they are of, and windows are whole hours and days", async () => {
    const now_s = Math.floor(world.now() / 1_000);
    const day = (ago) => now_s - ago * 24 * HOUR_S;
    const lines = [0, 3, 20, 4_000].map((ago) =>
      JSON.stringify({ path: "/a", at: day(ago), by: { age: `${ago}` } }),
    );
    expect(await world.well("POST", "/ingest?format=ndjson", { body: lines.join("\n") })).toMatchObject({
      accepted: 4,
    });
    const seen = async (query) => counts(await look("/a", "age", query));
    expect(await seen("")).toEqual({ 0: 1, 3: 1, 20: 1, 4000: 1 });
    expect(await seen("&window=3600")).toEqual({ 0: 1 });
    expect(await seen("&window=7d")).toEqual({ 0: 1, 3: 1 });
    expect(await seen("&window=30d")).toEqual({ 0: 1, 3: 1, 20: 1 });
    const old = await look("/a", "age", `&from=${day(4_000)}&to=${day(4_000)}`);
    expect(old).toMatchObject({ total: 1, rows: [{ value: "4000", count: 1 }], exact: true });
    expect(old.window.ends_at - old.window.starts_at).toBe(24 * HOUR_S * 1_000);
    const hour = await look("/a", "age", `&from=${day(3)}&to=${day(3)}`);
    expect(hour).toMatchObject({ total: 1, rows: [{ value: "3", count: 1 }] });
    expect(hour.window.ends_at - hour.window.starts_at).toBe(HOUR_S * 1_000);
  });
});

test("a datacenter that does not answer is named, and what it counted is missing from total and rows alike", async () => {
  world = await openWorld({ faults: true });
  for (const colo of COLOS) await world.add("a", { by: { page: "/" } }, { colo });
  world.fail(({ name, path }) => (name.includes("SYD") && path.endsWith("/sum") ? "before" : undefined));
  const answer = await look("a", "page");
  expect(answer).toMatchObject({ total: 2, rows: [{ value: "/", count: 2 }], none: 0, exact: false });
  expect(answer.datacenters.map(({ id, count, reachable }) => [id, count, reachable])).toEqual([
    ["FRA", 1, true], ["IAD", 1, true], ["SYD", 0, false],
  ]);
});

test("a log of a site is one counter with its pages, referrers and browsers, and a page of it another with its own", async () => {
  world = await openWorld();
  const log = readFileSync(new URL("../fixtures/access.log", import.meta.url));
  const lines = log.toString().trimEnd().split("\n");
  const path = "/ingest?format=clf&id=site&site=semicomplete.com&by=page,referrer,browser,status";
  expect(await world.well("POST", path, { body: log })).toMatchObject({ accepted: lines.length, rejected: 0 });
  // By another way: what the lines say, taken apart here.
  const truth = { page: {}, status: {}, referrer: {} };
  const count = (name, value) => (truth[name][value] = (truth[name][value] ?? 0) + 1);
  for (const line of lines) {
    const [, target, status, referrer] = line.match(/"[A-Z]+ (\S+) HTTP[^"]*" (\d{3}) \S+ "([^"]*)"/);
    count("page", target.split("?")[0]);
    count("status", status);
    const host = URL.canParse(referrer) ? new URL(referrer).hostname.replace(/^www\./, "") : "";
    if (host && host !== "semicomplete.com") count("referrer", host);
  }
  for (const [name, values] of Object.entries(truth)) {
    const answer = await look("semicomplete.com", name, "&limit=1000");
    expectSums(answer);
    expect(answer.total).toBe(lines.length);
    expect(counts(answer), name).toEqual(values);
  }
  const browsers = await look("semicomplete.com", "browser");
  expect(browsers.rows.map(({ value }) => value)).toEqual(expect.arrayContaining(["Chrome", "Firefox", "Bot"]));
  expect(await world.well("POST", "/ingest?format=clf&by=referrer", { body: log })).toMatchObject({
    accepted: lines.length,
  });
  const page = await look("/", "referrer");
  expect(page.total).toBe(truth.page["/"]);
  expectSums(page);
  for (const query of ["id=site", "by=agent", "by=page,page", "by=country", "by="]) {
    await world.refused(400, "invalid-query", "POST", `/ingest?format=clf&${query}`, { body: log });
  }
  // The same body under a key, asked otherwise, is another.
  const keyed = (query) =>
    world.call("POST", `/ingest?format=clf${query}`, { body: lines[0], headers: { "idempotency-key": "k" } });
  expect((await keyed("&by=page")).json).toMatchObject({ accepted: 1 });
  expect((await keyed("&by=status")).json).toMatchObject({ rejected: 1, errors: [{ code: "idempotency-key-reused" }] });
});

test("the script for pages says what data-by names, and where a visitor came from once", async () => {
  world = await openWorld();
  const source = (await world.call("GET", "/tally.js")).text;
  const [requests, sends] = [[], []];
  const open = (attributes, referrer, search = "") =>
    openPage(`<script src="https://tally.test/tally.js" ${attributes}></script>`, {
      url: `https://site.test/blog/${search}`,
      source,
      referrer,
      fetch: async (url, { body }) => {
        requests.push({ path: decodeURIComponent(url.pathname), body });
        const sent = world.call("POST", url.pathname, { body, headers: { "user-agent": FIREFOX }, country: "SE" });
        sends.push(sent);
        const { status } = await sent;
        return { ok: status === 200, status };
      },
    });
  const by = 'data-by="page referrer country device browser utm_source"';
  open(`data-id="site" ${by}`, "https://www.news.test/item?id=secret", "?utm_source=mail");
  open(`data-id="site" ${by}`, "https://site.test/other");
  open("", "https://www.news.test/");
  // What logs say of the same address.
  open(`data-id="v6" ${by}`, "http://[2001:db8::1]:8080/item");
  await Promise.all(sends);
  expect(requests.map(({ path }) => path)).toEqual([
    "/counters/site/increment", "/counters/site/increment",
    "/counters//blog//increment", "/counters/v6/increment",
  ]);
  expect(counts(await look("v6", "referrer"))).toEqual({ "[2001:db8::1]": 1 });
  expect(requests[2].body).toBe("");
  expect(JSON.stringify(requests)).not.toContain("secret");
  const rows = async (name) => counts(await look("site", name));
  expect(await rows("page")).toEqual({ "/blog/": 2 });
  expect(await rows("referrer")).toEqual({ "news.test": 1 });
  expect(await rows("country")).toEqual({ SE: 2 });
  expect(await rows("device")).toEqual({ desktop: 2 });
  expect(await rows("browser")).toEqual({ Firefox: 2 });
  expect(await rows("utm_source")).toEqual({ mail: 1 });
});
