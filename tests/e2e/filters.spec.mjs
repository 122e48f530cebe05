// A narrow key sees what is below its prefix and nothing else: in items, counts, totals, cursors and texts of errors.
// The attacker makes the same calls in two deployments that differ only in what another tenant has. The answers are
// the same.
import { afterAll, beforeAll, expect, test } from "vitest";
import { bearer, numbers } from "./calls.mjs";
import { listen } from "./listeners.mjs";
import { openWorld, until } from "./world.mjs";

const OPS = "ops-key-0123456789-01";
const ONE = "narrow-key-one-0123456";
const CONFIG = {
  keys: [
    { name: "ops", key: OPS, scopes: ["admin"], prefixes: ["", "limits/"] },
    { name: "one", key: ONE, scopes: ["admin"], prefix: "one/" },
  ],
};
const SECRET = "two/secret";
const SEEDED = 7;
const SNAPSHOT = "2026-01-01";
const ALERT = {
  webhook: "https://hooks.example.com/a", secret: `whsec_${"A".repeat(32)}`, when: { value: { above: 1 } },
};
const POLICY = { limit: 5, window_seconds: 60 };

const call = (world, method, path, key, body) =>
  world.call(method, path, bearer(key, { body: body && JSON.stringify(body) }));
const well = async (...request) => {
  const answer = await call(...request);
  expect(answer.status, `${request.slice(1)}: ${answer.text}`).toBeLessThan(300);
  return answer.json;
};
const redis = async (world, key, body, path = "/redis") => {
  const { status, bytes } = await world.host.fetch(`http://localhost${path}`, {
    method: body ? "POST" : "GET", headers: { authorization: `Bearer ${key}` }, body: body && JSON.stringify(body),
    colo: "FRA",
  });
  return { status, text: bytes.toString() };
};

/** What a tenant has: one of everything that has a name. */
async function fill(world, prefix, count) {
  const id = (number) => encodeURIComponent(`${prefix}/${number}`);
  for (const number of numbers(count)) {
    const event = { delta: 3, unique: "ann", by: { country: "se" } };
    await well(world, "POST", `/counters/${id(number)}/increment`, OPS, event);
    await well(world, "POST", `/boards/${id(number)}/members/ann`, OPS, { score: 4 });
    await redis(world, OPS, ["SET", `${prefix}/text-${number}`, "x"]);
    await redis(world, OPS, ["SADD", `${prefix}/set-${number}`, "x"]);
    await redis(world, OPS, ["ZADD", `${prefix}/zset-${number}`, "1", "x"]);
    const name = prefix.replace("/", "-");
    await well(world, "PUT", `/alerts/${name}-${number}`, OPS, { ...ALERT, counter: `${prefix}/${number}` });
    await well(world, "PUT", `/limits/${name}-${number}`, OPS, POLICY);
    await well(world, "POST", "/shares", OPS, { prefix: `${prefix}/${number}` });
    // One key of the attacker: the order of several, by their random ids, would differ.
    if (prefix === "one/own" && number > 0) continue;
    await well(world, "POST", "/keys", OPS, { name: "made", scopes: ["read"], prefixes: [`${prefix}/${number}`] });
  }
}

let full;
let empty;
let ids;
beforeAll(async () => {
  const open = () => openWorld({ vars: { TALLY_ACCESS: undefined, TALLY_KEYS: JSON.stringify(CONFIG) } });
  [full, empty] = [await open(), await open()];
  await fill(full, SECRET, SEEDED);
  for (const world of [full, empty]) {
    await fill(world, "one/own", 2);
    await world.advance(5_000);
  }
  // Ids are drawn by one seed in both, so the second may have an id of the other tenant too: such an id shows nothing.
  const others = async (path) => {
    const [here, there] = await Promise.all([full, empty].map((world) => well(world, "GET", path, OPS)));
    const known = new Set(there.entries.map(({ id }) => id));
    const prefixOf = ({ prefix, prefixes }) => prefix ?? prefixes[0];
    return here.entries.find((entry) => prefixOf(entry).startsWith("two/") && !known.has(entry.id)).id;
  };
  ids = { key: await others("/keys"), share: await others("/shares") };
}, 120_000);
afterAll(async () => {
  await full.close();
  await empty.close();
});

/** What differs by time and chance between two deployments, and says nothing of others. */
const scrubbed = (text) =>
  text
    .replace(/tally_[0-9a-zA-Z_.-]{20,}/g, "<token>")
    .replace(/(?<![0-9a-z])[0-9a-f]{16,64}(?![0-9a-z])/g, "<id>")
    .replace(/"(request_id|version|token|url|key|checksum|sha256)":"[^"]*"/g, '"$1":"<chance>"')
    .replace(/\b1[78]\d{8}(\d{3})?\b/g, "<time>")
    .replace(/\d{4}-\d\d-\d\d(T[0-9:.]+Z)?/g, "<time>")
    .replace(/"(staleness_ms|age_ms|rate_per_second|span_seconds|attempts)":[-0-9.e]+/g, '"$1":<time>');

const PREFIXES = [
  "", "o", "one", "one/", "one/own", "ONE/", "two/", SECRET, "one/../two/", "one/%2e%2e/two", "*", "one/*",
  "one/\u0000", "%6Fne/", "t", "limits/", "limits/two", "one\u0000", "\u{1F600}",
];
const CURSORS = [
  undefined, "", "one/", "two/", "two/secret/3", "zzz", "counters/two/secret", "boards/two/", "policies/", "alerts/",
  "0", "9999999999999999",
];
const IDS = ["one/own/0", "one/own/../../two/secret/0", "two/secret/0", "two%2Fsecret%2F0", "ONE/own/0", "one/none"];

/** The calls of an attacker: every GET of the description, with all names that may lead elsewhere. */
function calls(paths) {
  const encode = encodeURIComponent;
  // A hit and a pixel count, and are no reads.
  const others = /openapi|tally\.js|healthz|problems|hit|pixel/;
  const reads = Object.keys(paths).filter((path) => paths[path].get && !others.test(path));
  const found = [];
  const names = { date: [SNAPSHOT], rank: ["1"], member: ["ann"], key: [ids.key, ...IDS], code: ["x"] };
  for (const path of reads) {
    const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    const isOfKeys = path.startsWith("/keys/");
    const values = (name) => {
      if (name === "id") return isOfKeys ? [ids.key, "0000000000000001"] : IDS;
      if (name === "alert") return ["two-secret-0", "one-own-0", "none"];
      if (name === "policy") return ["two-secret-0", "one-own-0", "none"];
      return names[name] ?? (name === "prefix" ? PREFIXES : IDS);
    };
    let some = [path];
    for (const name of parameters) {
      some = some.flatMap((one) => values(name).map((value) => one.replace(`{${name}}`, encode(value))));
    }
    found.push(...some);
  }
  const queries = PREFIXES.flatMap((prefix) =>
    CURSORS.map((cursor) => `?prefix=${encode(prefix)}${cursor === undefined ? "" : `&cursor=${encode(cursor)}`}`));
  for (const list of ["/counters", "/boards", "/export"]) {
    for (const query of queries) {
      found.push(`${list}${query}`, `${list}${query}&limit=1`);
      if (list === "/counters") found.push(`${list}${query}&values=1`);
      if (list === "/export") found.push(`${list}${query}&alerts=1`, `${list}${query}&format=csv`);
    }
  }
  for (const prefix of PREFIXES) {
    for (const by of ["value", "rate", "change"]) found.push(`/top?prefix=${encode(prefix)}&by=${by}`);
  }
  for (const list of ["/keys", "/limits", "/audit"]) {
    for (const limit of [1, 2, 1_000]) {
      for (const cursor of ["", "&cursor=ffffffffffffffff", "&cursor=0000000000000000", "&cursor=two-secret-0"]) {
        found.push(`${list}?limit=${limit}${cursor}`);
      }
    }
  }
  for (const id of IDS) {
    found.push(`/uniques?id=one%2Fown%2F0&id=${encode(id)}`, `/api/counter?key=${encode(id)}`);
    found.push(`/limits?check=${encode(id)}`, `/top?id=${encode("one/own/0")}&prefix=${encode(id)}`);
  }
  return found.filter((path) => !path.startsWith("/live") && !path.startsWith("/metrics"));
}

test("all reads of a narrow key answer the same, whatever others have", async () => {
  const { paths } = await well(full, "GET", "/openapi.json", OPS);
  const all = calls(paths);
  expect(all.length).toBeGreaterThan(1_500);
  const faults = [];
  const statuses = {};
  for (const path of all) {
    const [one, other] = [await call(full, "GET", path, ONE), await call(empty, "GET", path, ONE)];
    statuses[one.status] = (statuses[one.status] ?? 0) + 1;
    if (one.status !== other.status || scrubbed(one.text) !== scrubbed(other.text)) {
      faults.push(`${path}\n  ${one.status} ${scrubbed(one.text)}\n  ${other.status} ${scrubbed(other.text)}`);
    }
  }
  expect(faults).toEqual([]);
  for (const status of [200, 400, 403, 404]) expect(statuses[status], `${status}`).toBeGreaterThan(20);
}, 240_000);

test("nor do calls that change something", async () => {
  const requests = [
    ["GET", `/keys/${ids.key}`], ["DELETE", `/keys/${ids.key}`], ["PATCH", `/keys/${ids.key}`, { name: "x" }],
    ["POST", `/keys/${ids.key}/rotate`, {}], ["DELETE", `/shares/${ids.share}`], ["DELETE", "/alerts/two-secret-0"],
    ["POST", "/alerts/two-secret-0/silence", { seconds: 60 }], ["POST", "/alerts/two-secret-0/test"],
    ["DELETE", "/limits/two-secret-0"], ["PUT", "/limits/two-secret-0", POLICY], ["DELETE", "/boards/two%2Fsecret%2F0"],
    ["POST", "/boards/two%2Fsecret%2F0/members/ann", { score: 9 }], ["PUT", "/counters/two%2Fsecret%2F0/value", { value: 0 }],
    ["PUT", "/counters/one%2F..%2Ftwo%2Fsecret%2F0/value", { value: 0 }], ["POST", "/snapshots/2026-01-01/restore?prefix=two%2F"],
    ["POST", "/events", { id: "two/secret/0" }], ["POST", "/events", { board: "two/secret/0", member: "a", score: 1 }],
    ["POST", "/ingest?format=ndjson", { id: "two/secret/0" }], ["POST", "/import", { x: 1 }],
    ["POST", "/limits", { checks: [{ policy: "two-secret-0", key: "a" }] }],
  ];
  for (const [method, path, body] of requests) {
    const answers = [];
    for (const world of [full, empty]) {
      const { status, text } = await call(world, method, path, ONE, body);
      answers.push(`${status} ${scrubbed(text)}`);
    }
    expect(answers[0], `${method} ${path}`).toBe(answers[1]);
  }
});

const COMMANDS = [
  ["KEYS", "*"], ["KEYS", "one/*"], ["KEYS", "one/[a-z]*"], ["KEYS", "[ot]*"], ["KEYS", "?ne/*"], ["KEYS", "one\\/*"],
  ["KEYS", "two/*"], ["KEYS", "one/../two/*"], ["SCAN", "0"], ["SCAN", "0", "MATCH", "*"], ["DBSIZE"], ["RANDOMKEY"],
  ["SCAN", "0", "MATCH", "one/*", "COUNT", "1000"], ["SCAN", "0", "MATCH", "one/*", "MATCH", "*"],
  ["SCAN", "0", "COUNT", "MATCH", "MATCH", "one/*"], ["SCAN", "0", "TYPE", "MATCH", "MATCH", "two/*"],
  ["SCAN", "0", "MATCH", "one/*", "TYPE", "zset"], ["SCAN", "0", "WITHTYPE", "MATCH", "one/*"],
  ["SCAN", "0", "MATCH", "one/*", "WITHTYPE", "MATCH", "two/*"], ["SCAN", "5", "MATCH", "one/*"],
  ["MGET", "one/own/0", "two/secret/0"], ["EXISTS", "one/own/0", "two/secret/0"], ["DEL", "two/secret/0"],
  ["UNLINK", "one/none", "two/secret/text-0"], ["TYPE", "two/secret/0"], ["RENAME", "two/secret/text-0", "one/x"],
  ["COPY", "two/secret/text-0", "one/x"], ["SUNION", "one/own/set-0", "two/secret/set-0"],
  ["SINTERSTORE", "one/x", "two/secret/set-0"], ["PFMERGE", "one/x", "two/secret/0"], ["OBJECT", "ENCODING", "two/secret/0"],
  ["ZUNION", "2", "one/own/zset-0", "two/secret/zset-0"], ["ZUNIONSTORE", "one/z", "1", "two/secret/zset-0"],
  ["ZRANGESTORE", "one/z", "two/secret/zset-0", "0", "-1"], ["MEMORY", "USAGE", "two/secret/0"], ["TTL", "two/secret/0"],
  ["FLUSHALL"], ["FLUSHDB"], ["EVAL", "return redis.call('KEYS','*')", "0"], ["INFO"], ["SORT", "two/secret/set-0"],
  ["DUMP", "two/secret/0"], ["TOUCH", "two/secret/0"], ["SMOVE", "two/secret/set-0", "one/s", "x"],
];

test("Redis's commands see what is below the prefix, and refuse the rest in the same words", async () => {
  let seen = 0;
  for (const command of COMMANDS) {
    const answers = [];
    for (const world of [full, empty]) {
      const { status, text } = await redis(world, ONE, command);
      answers.push(`${status} ${text}`);
    }
    expect(answers[0], command.join(" ")).toBe(answers[1]);
    expect(answers[0].includes('"two/secret/') && !answers[0].includes("NOPERM"), command.join(" ")).toBe(false);
    seen += Number(answers[0].includes("one/own/"));
  }
  expect(seen).toBeGreaterThan(3);
  const transaction = [["GET", "one/own/text-0"], ["GET", "two/secret/text-0"]];
  for (const path of ["/redis/multi-exec", "/redis/pipeline"]) {
    const [one, other] = [await redis(full, ONE, transaction, path), await redis(empty, ONE, transaction, path)];
    expect(one).toEqual(other);
  }
});

test("SCAN walks the prefix to its end, and nothing else", async () => {
  for (const world of [full, empty]) {
    const found = [];
    let cursor = "0";
    for (let page = 0; page < 50; page += 1) {
      const { text } = await redis(world, ONE, ["SCAN", cursor, "MATCH", "one/*", "COUNT", "2"]);
      const [next, keys] = JSON.parse(text).result;
      found.push(...keys);
      cursor = next;
      if (cursor === "0") break;
      // A cursor of another pattern leads nowhere else.
      expect((await redis(world, ONE, ["SCAN", cursor, "MATCH", "two/*"])).text).toMatch(/NOPERM/);
    }
    // Eight of its own, and the counter that it has set at `one/../two/secret/0`, which is below its prefix.
    expect([cursor, found.every((key) => key.startsWith("one/")), new Set(found).size]).toEqual(["0", true, 9]);
  }
});

test("a stream of changes tells of the prefix alone", async () => {
  const headers = { authorization: `Bearer ${ONE}` };
  for (const path of [
    "psubscribe/*", "psubscribe/__key*__:*", "psubscribe/__keyspace@0__:*", "psubscribe/__keyevent@0__:*",
    "subscribe/__keyevent@0__:set", "subscribe/__keyspace@0__:two/secret/text-0", "psubscribe/__keyspace@0__:[ot]*",
    "psubscribe/__keyspace@0__:one/*/__keyspace@0__:two/*", "subscribe/__keyspace@0__:one/a/__keyspace@0__:two/a",
    "psubscribe/__keyspace@0__:one%5C/*/__keyevent@0__:*",
  ]) {
    const refused = await listen(full, `/redis/${path}`, { headers });
    expect([refused.status, refused.isClosed], path).toEqual([400, true]);
    expect(JSON.stringify(refused.json), path).toMatch(/NOPERM|ERR/);
  }
  const own = await listen(full, "/redis/psubscribe/__keyspace@0__:one/*", { headers });
  for (const key of ["two/secret/text-0", "one/own/text-0", "onetwo", "one"]) await redis(full, OPS, ["SET", key, "y"]);
  await until(() => own.messages.length > 0, "a message");
  expect(own.messages.map(({ channel }) => channel)).toEqual(["__keyspace@0__:one/own/text-0"]);
  own.close();
});

test("a live stream is of what the key may read", async () => {
  for (const query of [
    "id=two/secret/0", "id=one/own/0&id=two/secret/0", "board=two/secret/0", "board=two/secret/0&member=ann",
    "id=one/own/0&board=two/secret/0&top=3", "id=one%2F..%2Ftwo%2Fsecret%2F0&id=two/secret/1",
  ]) {
    const answers = [];
    for (const world of [full, empty]) {
      const { status, text } = await call(world, "GET", `/live?${query}`, ONE);
      answers.push(`${status} ${scrubbed(text)}`);
    }
    expect(answers[0], query).toBe(answers[1]);
    expect(answers[0], query).toMatch(/^403 /);
  }
});

test("a bulk body reports the lines of others as refused, with their numbers alone", async () => {
  const lines = ["one/own/0", "two/secret/0", "one/own/1", "two/none"].map((id) => JSON.stringify({ id }));
  for (const path of ["/events", "/ingest?format=ndjson"]) {
    const answers = [];
    for (const world of [full, empty]) {
      const { status, text, json } = await world.call("POST", path, bearer(ONE, { body: lines.join("\n") }));
      answers.push(`${status} ${scrubbed(text)}`);
      expect(json).toMatchObject({ accepted: 2, rejected: 2 });
    }
    expect(answers[0], path).toBe(answers[1]);
  }
});

test("deliveries are filtered before the list is cut", async () => {
  const quiet = { ...ALERT, counter: "one/rare", when: { value: { above: 0 } } };
  await well(full, "PUT", "/alerts/rare", OPS, quiet);
  await well(full, "POST", "/alerts/rare/test", ONE);
  await full.advance(1_000);
  // Another tenant's alerts deliver more than a list has.
  for (const number of numbers(110)) {
    await well(full, "POST", `/alerts/two-secret-${number % SEEDED}/test`, OPS);
    await full.advance(10);
  }
  const own = (await well(full, "GET", "/alerts/*/deliveries", ONE)).entries;
  expect(own.map(({ alert }) => alert)).toContain("rare");
  expect(JSON.stringify(own)).not.toContain("two");
  expect((await well(full, "GET", "/alerts/*/deliveries", OPS)).entries).toHaveLength(100);
}, 60_000);
