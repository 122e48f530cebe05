// How the command reads logs, by the Wasm of crates/tally-logs, whose laws show what lines say; and how parts and their
// keys are made: without a server.
import assert from "node:assert/strict";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { PART_BYTES_MAX, PART_LINES_MAX, keyOf, parts } from "../command/import/parts.mjs";
import { FORMATS, createReader, formatOf } from "../command/import/reader.mjs";
import { linesOf } from "../command/import/run.mjs";
import { packing } from "../command/import/source.mjs";
import { listed } from "../command/import/values.mjs";
import { readText, textOf } from "../command/text.mjs";
import { ROOT, folder } from "./server.mjs";

const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const OPTIONS = {
  format: "clf", status: "200-299,304", method: "GET", bots: false, statics: false, paths: "keep", rewrites: [],
  stripQuery: true, prefix: "", by: [], unique: "ip",
};
const line = (target, { before = "203.0.113.9", status = 200, agent = FIREFOX, method = "GET" } = {}) =>
  `${before} - - [17/May/2015:10:05:03 +0000] "${method} ${target} HTTP/1.1" ${status} 1 "-" "${agent}"\n`;
const reader = (options = {}) => createReader({ ...OPTIONS, ...options });
const ids = (options, targets) => reader(options).read(Buffer.from(targets.map((target) => line(target)).join(""))).ids;

test("lines are counted, left out for a reason, or unreadable", () => {
  const log = [
    line("/a?x=1"), line("/b"), "nonsense\n", "\n", line("http://shop.example:8080/a"), line("/a.css"),
    line("/gone", { status: 404 }), line("/form", { method: "POST" }), line("/probe", { agent: "kube-probe/1.30" }),
    line("/x").replace('"GET /x HTTP/1.1" 200', '"-" 408'),
    line("/x").replace('"GET /x HTTP/1.1" 200', '"\\x16\\x03\\x01" 400'),
    line("/x").replace("17/May", "31/Feb"),
  ].join("");
  const read = reader().read(Buffer.from(log));
  assert.deepEqual(read.ids, ["/a", "/b", "/a"]);
  assert.deepEqual(read.numbers, [0, 1, 4]);
  assert.deepEqual(read.body.map((text) => JSON.parse(text)), ["/a", "/b", "/a"].map((key) => ({
    id: key, at: Date.UTC(2015, 4, 17, 10, 5, 3), unique: "203.0.113.9",
  })));
  assert.deepEqual([read.lines, read.unreadable], [11, 2]);
  assert.deepEqual(read.left, { status: 3, method: 1, static: 1, bots: 1 });
  assert.equal(read.unread[0], "nonsense");
  const all = reader({ status: "any", method: "any", bots: true, statics: true }).read(Buffer.from(log));
  assert.deepEqual([all.body.length, all.left.request], [7, 2]);
  assert.deepEqual(reader().query, { format: "ndjson" });
});

test("a reader goes on with the columns that a log named last", () => {
  const named = "#Fields: date time s-ip cs-method cs-uri-stem c-ip cs(User-Agent) sc-status";
  const row = `2026-11-01 12:30:05 10.0.0.1 GET /a 203.0.113.9 ${FIREFOX.replaceAll(" ", "+")} 200\n`;
  const first = reader({ format: "iis" });
  assert.equal(first.read(Buffer.from(`#Fields: date time cs-uri-stem\n${named}\n`)).lines, 0);
  assert.equal(first.state, named);
  assert.deepEqual(reader({ format: "iis", state: first.state }).read(Buffer.from(row)).ids, ["/a"]);
  assert.equal(reader({ format: "iis", state: "#Fields: date time cs-uri-stem" }).read(Buffer.from(row)).unreadable, 1);
});

test("formats are known by looking, and UTF-16 is named", () => {
  const first = Buffer.from(line("/a"));
  assert.equal(formatOf(first), "clf");
  assert.equal(formatOf(Buffer.from(`\ufeff${line("/a")}`)), "clf");
  assert.equal(formatOf(Buffer.from("hello\nworld\n")), undefined);
  for (const name of FORMATS) assert.equal(createReader({ ...OPTIONS, format: name }).format, name);
  for (const head of [Buffer.from(`\ufeff${line("/a")}`, "utf16le"), Buffer.from(line("/a"), "utf16le")]) {
    assert.throws(() => formatOf(head, "x.log"), /^Error: x\.log is UTF-16, which is not read here: convert it by `iconv/);
  }
});

test("what is wrong with an option is said by its name", () => {
  for (const [options, said] of [
    [{ format: "csv" }, /--format csv is not known: logpush, .*nginx/],
    [{ status: "2xx" }, /--status 2xx is no list of statuses: write it as 200-299,304/],
    [{ paths: "cut" }, /--paths cut is not known: keep, strip, add/],
    [{ by: ["page", "page"] }, /--by page,page is no list of dimensions/],
  ]) {
    assert.throws(() => reader(options), (error) => error.exit === 2 && said.test(error.message));
  }
});

test("paths of one page become one counter, by a rule or by the caller's own", () => {
  const same = ["/a", "/a/", "/a/index.html", "/", "/index.html", "/b.html"];
  assert.deepEqual(ids({ paths: "strip" }, same), ["/a", "/a", "/a", "/", "/", "/b.html"]);
  assert.deepEqual(ids({ paths: "add" }, same), ["/a/", "/a/", "/a/", "/", "/", "/b.html"]);
  assert.deepEqual(ids({ prefix: "https://x.com" }, ["/a?b"]), ["https://x.com/a"]);
  assert.deepEqual(ids({ stripQuery: false }, ["/a?b", "/a"]), ["/a?b", "/a"]);
  const rewrites = [[/^\/old\/(.*)/, "/new/$1"], [/ü/, "ue\n"]];
  assert.deepEqual(ids({ rewrites }, ["/old/xü", "/y"]), ["/new/xue\n", "/y"]);
  assert.deepEqual(ids({ site: "x.com", by: ["page"] }, ["/a", "/b"]), ["x.com", "x.com"]);
});

test("a text has no mark, and UTF-16 is named with the file", (context) => {
  const place = folder();
  context.after(() => rmSync(place, { recursive: true, force: true }));
  const file = join(place, "list.txt");
  writeFileSync(file, "\ufeffmysite/hits 12\n");
  assert.equal(readText(file), "mysite/hits 12\n");
  for (const text of ["\ufeffa 1", "a 1"]) {
    assert.throws(() => textOf(Buffer.from(text, "utf16le"), "x.txt"), /x\.txt is UTF-16, .*iconv -f UTF-16 -t UTF-8/);
  }
  assert.throws(() => readText(join(place, "nothing")), (error) => error.exit === 3);
});

test("a log of a real server is read to its end", () => {
  const log = readFileSync(join(ROOT, "tests/fixtures/access.log"));
  const { lines, unreadable, body } = reader({ status: "any", bots: true, statics: true, method: "any" }).read(log);
  assert.deepEqual([lines, unreadable, body.length], [2_000, 0, 2_000]);
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
