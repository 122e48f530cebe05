// What logs of each server say, which of it counts, and how parts and their keys are made: without a server.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { WORDS, isBot } from "../command/import/bots.mjs";
import { filter, pathOf, statuses } from "../command/import/filters.mjs";
import { FORMATS, formatOf } from "../command/import/formats.mjs";
import { PART_BYTES_MAX, PART_LINES_MAX, keyOf, parts } from "../command/import/parts.mjs";
import { linesOf } from "../command/import/run.mjs";
import { packing } from "../command/import/source.mjs";
import { listed } from "../command/import/values.mjs";
import { ROOT } from "./server.mjs";

const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const AT_MS = Date.UTC(2026, 10, 1, 12, 30, 5);
const HIT = { target: "/a?b=c", at_ms: AT_MS, address: "203.0.113.9", method: "GET", status: "200" };

// One request as each server writes it. Sources as in formats.mjs.
const LINES = {
  clf: [
    `203.0.113.9 - - [01/Nov/2026:13:30:05 +0100] "GET /a?b=c HTTP/1.1" 200 512 "https://example.com/" "${FIREFOX}"`,
    `203.0.113.9 - a user [01/Nov/2026:12:30:05 +0000] "GET /a?b=c HTTP/2.0" 200 512 "https://example.com/" "${FIREFOX}" "extra"`,
    `www.example.com:443 203.0.113.9 - - [01/Nov/2026:12:30:05 +0000] "GET /a?b=c HTTP/1.1" 200 512 "https://example.com/" "${FIREFOX}"`,
  ],
  caddy: [
    JSON.stringify({
      level: "info", ts: AT_MS / 1000, logger: "http.log.access", msg: "handled request",
      request: {
        remote_ip: "203.0.113.9", client_ip: "203.0.113.9", proto: "HTTP/2.0", method: "GET", host: "example.com",
        uri: "/a?b=c",
        headers: { "User-Agent": [FIREFOX], Referer: ["https://example.com/"] },
      },
      duration: 0.001, size: 512, status: 200,
    }),
    JSON.stringify({
      ts: "2026-11-01T12:30:05.000Z",
      request: {
        remote_addr: "203.0.113.9:40000", method: "GET", uri: "/a?b=c",
        headers: { "User-Agent": [FIREFOX], Referer: ["https://example.com/"] },
      },
      status: 200,
    }),
  ],
  cloudfront: [
    [
      "2026-11-01", "12:30:05", "FRA56-P1", "512", "203.0.113.9", "GET", "d1.cloudfront.net", "/a", "200",
      "https://example.com/",
      encodeURIComponent(FIREFOX), "b=c", "-", "Hit",
    ].join("\t"),
  ],
  alb: [
    `https 2026-11-01T12:30:05.000000Z app/my/50dc6c495c0c9188 203.0.113.9:2817 10.0.0.1:80 0.000 0.001 0.000 200 200 34 366 "GET https://www.example.com:443/a?b=c HTTP/2.0" "${FIREFOX}" ECDHE TLSv1.2 arn:aws "Root=1" "www.example.com"`,
    `2026-11-01T12:30:05.000000Z my-elb 203.0.113.9:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 "GET http://www.example.com:80/a?b=c HTTP/1.1" "${FIREFOX}" - -`,
  ],
  logpush: [
    JSON.stringify({
      ClientRequestURI: "/a?b=c", ClientRequestPath: "/a", ClientIP: "203.0.113.9", EdgeStartTimestamp: AT_MS * 1e6,
      ClientRequestMethod: "GET", EdgeResponseStatus: 200,
      ClientRequestReferer: "https://example.com/",
      ClientRequestUserAgent: FIREFOX, ClientCountry: "de",
    }),
    JSON.stringify({
      ClientRequestURI: "/a?b=c", ClientIP: "203.0.113.9", EdgeStartTimestamp: "2026-11-01T12:30:05Z",
      ClientRequestMethod: "GET", EdgeResponseStatus: 200,
      ClientRequestReferer: "https://example.com/",
      ClientRequestUserAgent: FIREFOX,
    }),
  ],
  "nginx-json": [
    JSON.stringify({
      time_iso8601: "2026-11-01T12:30:05+00:00", remote_addr: "203.0.113.9", request_uri: "/a?b=c",
      request_method: "GET", status: "200",
      http_referer: "https://example.com/",
      http_user_agent: FIREFOX,
    }),
    JSON.stringify({
      msec: String(AT_MS / 1000), remote_addr: "203.0.113.9", request: "GET /a?b=c HTTP/1.1", status: 200,
      http_referer: "https://example.com/",
      http_user_agent: FIREFOX,
    }),
  ],
};

test("each server's lines are known by looking, and say the same of the same request", () => {
  for (const [format, lines] of Object.entries(LINES)) {
    for (const line of lines) {
      assert.equal(formatOf([line]), format, line);
      const { country, path, referrer, user_agent, ...hit } = FORMATS[format]()(line);
      assert.deepEqual(hit, HIT, line);
      assert.equal(user_agent, FIREFOX, line);
      if (format !== "alb") assert.equal(referrer, "https://example.com/", line);
    }
  }
  assert.equal(formatOf(["hello", "world"]), undefined);
});

test("columns are taken by their names, where a file names them", () => {
  const cloudfront = FORMATS.cloudfront();
  assert.equal(formatOf(["#Version: 1.0", "#Fields: date time cs-uri-stem sc-status"]), "cloudfront");
  assert.equal(cloudfront("#Fields: time date cs-method cs-uri-stem sc-status c-ip"), null);
  assert.deepEqual(
    [cloudfront("12:30:05\t2026-11-01\tGET\t/a\t404\t203.0.113.9")].map(({ target, status, at_ms }) => [
      target, status, at_ms,
    ])[0],
    ["/a", "404", AT_MS],
  );
  const goatcounter = FORMATS.goatcounter();
  const names = "2Path,Title,Event,UserAgent,Browser,System,Session,Bot,Referrer,Referrer scheme,Screen size,Location,FirstVisit,Date";
  assert.equal(formatOf([names]), "goatcounter");
  assert.equal(goatcounter(names), null);
  const row = goatcounter('/a,"A ""title"", quoted",,,Firefox 140,Linux,1a2b3c,0,https://example.com,h,"1920,1080,1",DE-BY,1,2026-11-01T12:30:05Z');
  assert.deepEqual([row.path, row.address, row.country, row.at_ms], ["/a", "1a2b3c", "DE", AT_MS]);
});

test("lines that cannot be read are told apart from lines that are none", () => {
  assert.equal(FORMATS.clf()('203.0.113.9 - - [01/Nov/2026:12:30:05 +0000] "\\x16\\x03\\x01" 400 0 "-" "-"'), undefined);
  assert.equal(FORMATS.logpush()('{"content":"tests"}'), null);
  assert.equal(FORMATS.caddy()('{"level":"info","logger":"admin","msg":"stopped"}'), null);
  assert.equal(FORMATS.caddy()("{"), undefined);
});

test("page views count; pages' files, programs, errors and forms are left out, each for its reason", () => {
  const page = { bots: false, statics: false, method: "GET", status: statuses("200-299,304") };
  const reason = (hit, options = page) => filter(options)({ ...HIT, user_agent: FIREFOX, ...hit }, hit.path ?? "/a");
  assert.equal(reason({}), undefined);
  assert.equal(reason({ status: "304" }), undefined);
  assert.equal(reason({ status: "404" }), "status");
  assert.equal(reason({ method: "POST" }), "method");
  for (const path of ["/a.css", "/b/c.JS", "/favicon.ico", "/x.min.js.map"]) {
    assert.equal(reason({ path }), "static", path);
  }
  for (const path of ["/", "/a.html", "/v1.2", "/js", "/feed.xml"]) assert.equal(reason({ path }), undefined, path);
  assert.equal(reason({ user_agent: "curl/8.0" }), "bots");
  assert.equal(reason({ user_agent: "" }), "bots");
  assert.equal(reason({ user_agent: undefined }), undefined, "Common Log Format says nothing of it");
  assert.equal(
    reason(
      { status: "500", method: "POST", path: "/a.css", user_agent: "curl/8.0" },
      { bots: true, statics: true, method: "any", status: statuses("any") },
    ),
    undefined,
  );
  assert.equal(statuses("2xx"), undefined);
});

test("programs are known by the words of the server", () => {
  const source = readFileSync(join(ROOT, "crates/tally-protocol/src/bots.rs"), "utf8");
  const words = source
    .slice(source.indexOf("const WORDS"), source.indexOf("];\n\n"))
    .match(/"[^"]*"/g)
    .map((word) => word.slice(1, -1));
  assert.deepEqual(WORDS, words);
  assert.equal(isBot("Mozilla/5.0 (Linux; Android 9; CUBOT X19) Chrome/120"), false);
  assert.equal(isBot("Mozilla/5.0 (Linux; Android 9; CUBOT X19) Googlebot/2.1"), true);
});

test("paths of one page become one counter, by a rule", () => {
  const ids = (options, targets) =>
    targets.map(
      (target) => pathOf({ paths: "keep", rewrites: [], stripQuery: true, prefix: "", ...options })({ target }).id,
    );
  const same = ["/a", "/a/", "/a/index.html", "/", "/index.html", "/b.html"];
  assert.deepEqual(ids({}, same), same);
  assert.deepEqual(ids({ paths: "strip" }, same), ["/a", "/a", "/a", "/", "/", "/b.html"]);
  assert.deepEqual(ids({ paths: "add" }, same), ["/a/", "/a/", "/a/", "/", "/", "/b.html"]);
  assert.deepEqual(ids({ prefix: "x.com" }, ["/a?b"]), ["x.com/a"]);
  assert.deepEqual(ids({ stripQuery: false }, ["/a?b", "/a"]), ["/a?b", "/a"]);
  assert.deepEqual(ids({ rewrites: [[/^\/old\/(.*)/, "/new/$1"]] }, ["/old/x"]), ["/new/x"]);
});

async function partsOf(chunks, start, ends) {
  const found = [];
  for await (const part of parts(chunks, start, ends)) found.push(part);
  return found;
}

test("parts are whole lines, and end where the bytes say, however they arrive", async () => {
  const lines = Array.from({ length: 25_000 }, (_, index) => `${"x".repeat(index % 300)}${index}\n`);
  const bytes = Buffer.from(lines.join(""));
  const cut = (size) =>
    Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) => bytes.subarray(at * size, (at + 1) * size));
  const whole = await partsOf([bytes], 0);
  assert.ok(whole.length > 2);
  for (const size of [1_000, 65_536, 262_144]) {
    const some = await partsOf(cut(size), 0);
    assert.deepEqual(some.map(({ start, end }) => [start, end]), whole.map(({ start, end }) => [start, end]));
    assert.deepEqual(some.map((part) => keyOf("f", part)), whole.map((part) => keyOf("f", part)));
  }
  assert.equal(Buffer.concat(whole.map((part) => part.bytes)).compare(bytes), 0);
  for (const part of whole) {
    assert.equal(part.bytes.at(-1), 10);
    assert.ok(part.bytes.length <= PART_BYTES_MAX && part.bytes.toString().split("\n").length - 1 <= PART_LINES_MAX);
  }
  assert.equal(new Set(whole.map((part) => keyOf("f", part))).size, whole.length);
});

test("a resumed run makes the parts again that an earlier one had sent", async () => {
  const bytes = Buffer.from("a\nbb\nccc\ndddd\n");
  assert.deepEqual(
    (await partsOf([bytes], 0, [5])).map(({ start, end }) => [start, end]),
    [
      [0, 5], [5, 14],
    ],
  );
  assert.deepEqual(
    (await partsOf([bytes.subarray(5)], 5, [5, 9])).map(({ start, end }) => [start, end]),
    [
      [5, 9], [9, 14],
    ],
  );
});

test("small things: ranges of lines, packings, lists of values", () => {
  assert.deepEqual(linesOf("3,5-7"), [3, 5, 6, 7]);
  assert.equal(packing(Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, 0])), "zstd");
  assert.equal(packing(Buffer.from("127.0.0.1")), undefined);
  const want = [["site/visits", 12n], ["site/likes", -3n]];
  const read = (text) => listed(text).map(({ id, value }) => [id, value]);
  assert.deepEqual(read('{"site/visits": 12, "site/likes": -3}'), want);
  assert.deepEqual(read('[{"namespace":"site","key":"visits","value":12},{"namespace":"site","key":"likes","value":-3}]'), want);
  assert.deepEqual(read("namespace,key,value\nsite,visits,12\nsite,likes,-3\n"), want);
  assert.deepEqual(read("# mine\nhttps://abacus.example/hit/site/visits 12\nsite/likes -3\n"), want);
  assert.throws(() => listed('{"a": 1.5}'), /no whole number/);
});
