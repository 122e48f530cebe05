// Calls that a seed decides, and what of their answers must be alike on every host.
import { between, oneOf, randomFrom } from "../crash/random.mjs";

const COLOS = ["FRA", "IAD"];
const IDS = ["plain", "blog/2026", "größe", "shut", "none"];
const BOARDS = ["race", "laps"];
const KEYS = ["one", "two", "three"];
const NAMES = ["ann", "bob", "cyd", "dan"];
const counter = (id, rest = "") => `/counters/${encodeURIComponent(id)}${rest}`;
const json = (value) => ({ body: JSON.stringify(value) });
const keyed = (key, more) => ({ ...more, headers: { "idempotency-key": key } });

/** What is sent, by its weight: each takes the random source, and returns [method, path, options]. */
const CALLS = [
  [8, (random) => ["POST", counter(oneOf(random, IDS), "/increment"), json({ delta: between(random, 1, 9) })]],
  [3, (random) => ["POST", counter(oneOf(random, IDS), "/decrement"), json({ delta: between(random, 1, 9) })]],
  [3, (random) => ["POST", counter(oneOf(random, IDS), "/increment"), json({ unique: oneOf(random, NAMES) })]],
  [3, (random) => ["POST", counter("timed", "/increment"), json({ sample: between(random, 1, 1_000) / 4 })]],
  // Some keys come again with another body.
  [4, (random) => [
    "POST", counter("plain", "/increment"), keyed(oneOf(random, KEYS), json({ delta: between(random, 1, 2) })),
  ]],
  [2, (random) => ["PUT", counter(oneOf(random, IDS)), json(oneOf(random, [
    { shards: between(random, 1, 3) }, { floor: 0 }, { home: oneOf(random, COLOS) }, { ttl_seconds: 86_400 },
    { shards: 0 }, { unknown: 1 },
  ]))]],
  [2, (random) => ["PUT", counter(oneOf(random, IDS), "/value"), json({ value: between(random, -5, 50) })]],
  [1, (random) => ["DELETE", counter(oneOf(random, IDS)), {}]],
  [6, (random) => ["GET", counter(oneOf(random, IDS), "?consistency=strong"), {}]],
  [1, (random) => ["GET", counter(oneOf(random, IDS), `?consistency=strong&datacenter=${oneOf(random, COLOS)}`), {}]],
  [1, () => ["GET", counter("timed", "/distribution?consistency=strong"), {}]],
  [1, () => ["GET", counter("*", "/aggregate?consistency=strong"), {}]],
  [1, (random) => ["GET", `/uniques?consistency=strong&id=plain&id=${encodeURIComponent(oneOf(random, IDS))}`, {}]],
  [2, (random) => ["POST", "/events", {
    body: Array.from({ length: between(random, 1, 6) }, () => oneOf(random, [
      `{"id":"plain","delta":${between(random, 1, 5)}}`, `{"id":"blog/2026","unique":"${oneOf(random, NAMES)}"}`, "bad",
      '{"id":"","delta":1}', '{"id":"plain","delta":0}', '{"id":"plain","at":1000}',
    ])).join("\n"),
  }]],
  [1, (random) => ["POST", "/ingest?format=clf&id=path&unique=ip", {
    body: `10.0.0.${between(random, 1, 3)} - - [17/May/2015:10:05:03 +0000] "GET /log HTTP/1.1" 200 1 "-" "-"\n`,
  }]],
  [3, (random) => [
    "POST", `/boards/${oneOf(random, BOARDS)}/members/${oneOf(random, NAMES)}`, json({ score: between(random, 1, 99) }),
  ]],
  [2, (random) => ["GET", `/boards/${oneOf(random, BOARDS)}/members?limit=${between(random, 1, 4)}`, {}]],
  [1, (random) => ["DELETE", `/boards/race/members/${oneOf(random, NAMES)}`, {}]],
  [1, (random) => [
    "PUT", "/limits/month",
    json({ limit: between(random, 5, 20), window_seconds: 2_592_000, algorithm: "fixed-window" }),
  ]],
  [3, (random) => ["POST", `/limits/month/${oneOf(random, NAMES)}`, json({ cost: between(random, 1, 4) })]],
  [4, (random) => ["POST", "/redis", json(oneOf(random, [
    ["INCR", "redis:number"], ["INCRBY", "redis:number", String(between(random, -3, 3))], ["GET", "redis:number"],
    ["SET", "redis:text", oneOf(random, NAMES)], ["GET", "redis:text"], ["DEL", "redis:text"], ["NOTHING"],
    ["HSET", "redis:hash", oneOf(random, NAMES), "1"], ["HGETALL", "redis:hash"],
    ["SADD", "redis:set", oneOf(random, NAMES)], ["SCARD", "redis:set"],
    ["ZADD", "redis:sorted", String(between(random, 1, 9)), oneOf(random, NAMES)],
    ["ZRANGE", "redis:sorted", "0", "-1", "WITHSCORES"], ["GET"], ["PFADD", "redis:hll", oneOf(random, NAMES)],
    ["PFCOUNT", "redis:hll"],
  ]))]],
  [2, (random) => oneOf(random, [
    ["GET", "/nowhere", {}], ["POST", "/counters", {}], ["GET", counter("."), {}],
    ["POST", counter("a", "/increment"), { body: "{" }], ["POST", counter("a", "/increment"), json({ delta: 0 })],
    ["POST", counter("a", "/increment"), json({ delta: "9".repeat(30) })],
    ["GET", counter("plain", "?window=soon"), {}], ["GET", counter("plain", "?consistency=weak"), {}],
    ["POST", counter("plain", "/increment"), keyed("", {})], ["OPTIONS", counter("plain"), {}],
    ["PUT", counter("plain", "/value"), { body: '{"value":1}', headers: { "if-match": '"none"' } }],
    ["GET", "/limits/none", {}], ["POST", "/redis", { body: "[]" }], ["GET", "/uniques", {}],
  ])],
];
const WEIGHT = CALLS.reduce((sum, [weight]) => sum + weight, 0);

/** Returns the calls of a seed, in order. */
export function callsOf(seed, length) {
  const random = randomFrom(seed);
  return Array.from({ length }, () => {
    let at = random() * WEIGHT;
    const [, call] = CALLS.find(([weight]) => (at -= weight) < 0);
    const [method, path, options] = call(random);
    return { method, path, ...options, colo: oneOf(random, COLOS) };
  });
}

/** What differs between hosts, by the name of its field: moments, and names that are made of them or drawn. */
const FIELDS = [
  "version", "as_of", "staleness_ms", "starts_at", "ends_at", "reset_after_ms", "retry_after_ms", "updated_at",
  "expires_at",
];
/** Times within sentences: of a late line, and of a refused check. */
const MILLISECONDS = /(?<=\btry again in )\d+(?= ms)|\d+(?= ms behind\b)/g;
/** Headers that are compared. The others are of the connection, the moment or the request. */
const HEADERS = [
  "content-type", "cache-control", "allow", "idempotency-replayed", "ratelimit-policy", "accept-post", "vary",
  "access-control-allow-origin", "www-authenticate",
];

function stripped(value) {
  if (typeof value === "string") return value.replace(MILLISECONDS, "…");
  if (Array.isArray(value)) return value.map(stripped);
  if (value === null || typeof value !== "object") return value;
  const entries = Object.entries(value);
  const one = ([name, part]) => [name, FIELDS.includes(name) ? typeof part : stripped(part)];
  return Object.fromEntries(entries.map(one));
}

/** Returns what of an answer is alike on every host. headers: a function from a name to its value, or undefined. */
export function alikeOf({ status, headers, text }) {
  const type = headers("content-type") ?? "";
  return {
    status,
    headers: Object.fromEntries(HEADERS.map((name) => [name, headers(name) ?? null])),
    body: type.includes("json") && text !== "" ? stripped(JSON.parse(text)) : text,
  };
}
