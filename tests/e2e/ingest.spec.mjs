// Real logs: every path, its visitors and its hours against an independent count of the same file.
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { each, openWorld } from "./world.mjs";

const LOG = readFileSync(new URL("../fixtures/access.log", import.meta.url));
const LINES = LOG.toString("utf8").trimEnd().split("\n");
const CLF = "/ingest?format=clf&id=path&unique=ip";
// Worlds that are compared hash elements alike.
const vars = { TALLY_HASH_KEY: "000102030405060708090a0b0c0d0e0f" };
const MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec";

let world;
beforeAll(async () => {
  world = await openWorld({ vars });
});
afterAll(() => world.close());

// The independent count: per path the hits, the addresses and the hits of each hour.
function countOf(lines) {
  const paths = new Map();
  for (const line of lines) {
    const [, ip, day, month, year, hour, minute, second, sign, zone_h, zone_m, target] = line.match(
      /^(\S+) \S+ \S+ \[(\d\d)\/(\w{3})\/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)\] "\S+ (\S+)/,
    );
    const offset = (sign === "-" ? -1 : 1) * (zone_h * 3_600 + zone_m * 60);
    const at = Date.UTC(year, MONTHS.indexOf(month) / 3, day, hour, minute, second) / 1000 - offset;
    const path = target.split("?")[0];
    const known = paths.get(path) ?? { hits: 0, ips: new Set(), hours: new Map() };
    known.hits += 1;
    known.ips.add(ip);
    known.hours.set(at - (at % 3_600), (known.hours.get(at - (at % 3_600)) ?? 0) + 1);
    paths.set(path, known);
  }
  return paths;
}

const TRUTH = countOf(LINES);
const hours = [...TRUTH.values()].flatMap((path) => [...path.hours.keys()]);
const FROM = Math.min(...hours);
const TO = Math.max(...hours);

async function expectTruth(of) {
  const paths = [...TRUTH.keys()];
  const listed = await of.well("GET", "/counters?limit=1000");
  expect(listed.entries.map(({ id }) => id).sort()).toEqual([...paths].sort());
  return each(paths, 8, async (path) => {
    const truth = TRUTH.get(path);
    const answer = await of.strong(path);
    expect([path, answer.value, answer.exact]).toEqual([path, truth.hits, true]);
    const off = Math.abs(answer.uniques.estimate - truth.ips.size);
    expect(off, `uniques of ${path}`).toBeLessThanOrEqual(3 * answer.uniques.standard_error);
    const { points } = await of.history(path, `&step=1h&from=${FROM}&to=${TO}`);
    expect(points.filter(([, count]) => count !== 0)).toEqual(
      [...truth.hours].sort(([one], [other]) => one - other).map(([hour, count]) => [hour * 1_000, count]),
    );
    return [path, answer.value, answer.uniques];
  });
}

test("a real access log is counted exactly, and the same through three datacenters", async () => {
  expect(LINES).toHaveLength(2_000);
  expect(await world.well("POST", CLF, { body: LOG })).toEqual({ accepted: 2_000, rejected: 0, errors: [] });
  const one = await expectTruth(world);
  const spread = await openWorld({ vars });
  try {
    await Promise.all(
      ["FRA", "IAD", "SYD"].map(async (colo, third) => {
        const part = LINES.filter((_, index) => index % 3 === third);
        const body = gzipSync(`${part.join("\n")}\n`);
        const report = await spread.well("POST", CLF, { body, colo, headers: { "content-encoding": "gzip" } });
        expect(report).toEqual({ accepted: part.length, rejected: 0, errors: [] });
      }),
    );
    expect(await expectTruth(spread)).toEqual(one);
  } finally {
    await spread.close();
  }
});

const log = (target, rest = '200 1 "-" "-"', time = "17/May/2015:10:05:03 +0000") =>
  `1.2.3.4 - - [${time}] "GET ${target} HTTP/1.1" ${rest}`;

test("an id is the target without its query, as logged", async () => {
  const targets = {
    "/as%20logged?x=1": "/as%20logged", "/ü?y": "/ü", "/?": "/",
    "http://a.example:8080/b?c": "/b",
  };
  const body = Object.keys(targets)
    .map((target) => log(target))
    .join("\n");
  expect(await world.well("POST", "/ingest?format=clf", { body, colo: "IAD" })).toMatchObject({
    accepted: 4, rejected: 0,
  });
  for (const id of Object.values(targets)) {
    const answer = await world.strong(id, "&datacenter=IAD");
    expect([id, answer.value, answer.uniques]).toEqual([id, 1, null]);
  }
});

test("a log line counts if its request parses, whatever follows; others cost themselves", async () => {
  const lines = [
    log("/damage/common", "304 -"),
    log("/damage/cut", '200 1 "http://ref'),
    log("/damage/nothing", ""),
    "not a log line",
    "",
    log(`/damage/${"x".repeat(512)}`),
    '1.2.3.4 - - [99/May/2015:10:05:03 +0000] "GET /damage/date HTTP/1.1" 200 1',
    log("/damage/zone", undefined, "17/May/2015:23:30:00 -0700"),
    log("/damage/future", undefined, "17/May/2215:10:05:03 +0000"),
  ];
  const report = await world.well("POST", CLF, { body: lines.join("\n") });
  expect(report.errors.map(({ line }) => line)).toEqual([4, 6, 7, 9]);
  expect(report.errors[3].code).toBe("clock-skew");
  expect(report).toMatchObject({ accepted: 4, rejected: 4 });
  const { entries: counters } = await world.well("GET", "/counters?prefix=%2Fdamage%2F");
  expect(counters.map(({ id }) => id)).toEqual(["/damage/common", "/damage/cut", "/damage/nothing", "/damage/zone"]);
  const hour = Date.UTC(2015, 4, 18, 6) / 1000;
  expect((await world.history("/damage/zone", `&step=1h&from=${hour}&to=${hour}`)).points).toEqual([[hour * 1_000, 1]]);
});

test("Logpush is counted, and its destination check answered", async () => {
  const headers = { "content-encoding": "gzip" };
  const send = (body) => world.well("POST", "/ingest?format=logpush&unique=ip", { body: gzipSync(body), headers });
  expect(await send('{"content":"tests"}')).toEqual({ accepted: 0, rejected: 0, errors: [] });
  const at = Date.UTC(2024, 0, 2, 3, 4, 5);
  const stamps = ['"2024-01-02T03:04:05Z"', at / 1000, at, `${at}000000`, '"2024-01-02T05:04:05.250+02:00"'];
  const lines = stamps.map(
    (stamp, index) =>
      `{"ClientIP":"10.0.0.${index % 2}","ClientRequestPath":"/push","EdgeStartTimestamp":${stamp},"EdgeColoCode":"SIN","RayID":"x"}`,
  );
  lines.push('{"ClientRequestPath":"/push"}', '{"ClientRequestURI":"/push?q=1","EdgeStartTimestamp":"2024-01-02T03:04:05Z"}');
  const report = await send(lines.join("\n"));
  expect([report.accepted, report.errors.map(({ line }) => line)]).toEqual([6, [6]]);
  const answer = await world.strong("/push");
  expect([answer.value, answer.uniques.estimate]).toEqual([6, 2]);
  const hour = Date.UTC(2024, 0, 2, 3) / 1000;
  expect((await world.history("/push", `&step=1h&from=${hour}&to=${hour}`)).points).toEqual([[hour * 1_000, 6]]);
});

test("NDJSON brings its own times and amounts", async () => {
  const hour = Date.UTC(2019, 6, 1, 12) / 1000;
  const body = [
    JSON.stringify({ id: "nd", delta: 3, at: hour, unique: "ann" }),
    JSON.stringify({ id: "nd", delta: "4", at: hour + 3_600, unique: "ann" }),
    JSON.stringify({ id: "nd", at: new Date(world.now() + 60_000).toISOString() }),
    JSON.stringify({ id: "nd", wrong: 1 }),
  ].join("\n");
  const report = await world.well("POST", "/ingest?format=ndjson", { body });
  expect(report.errors.map(({ line, code }) => [line, code])).toEqual([
    [3, "clock-skew"],
    [4, "unknown-field"],
  ]);
  const { points } = await world.history("nd", `&step=1h&from=${hour}&to=${hour + 3_600}`);
  expect(points).toEqual([
    [hour * 1_000, 3],
    [(hour + 3_600) * 1_000, 4],
  ]);
  expect((await world.strong("nd")).uniques.estimate).toBe(1);
});

test("a query that is not known is refused with what is", async () => {
  const body = LINES[0].replace("GET ", "GET /never");
  for (const query of ["", "?format=csv", "?format=clf&id=host", "?format=clf&unique=cookie", "?format=clf&forma=x"]) {
    await world.refused(400, "invalid-query", "POST", `/ingest${query}`, { body });
  }
});
