// What is written into the fixture: some of everything that is stored, in five acts of a clock of its own, so that
// minutes, hours and days are over between them as they are where a service runs.
//
// Invariant: each act tells what it sends through `scene`, which fails where an answer is not the one that is told
// here. What a scene keeps (`scene.keep`) is sent again by the test, and gets the same answer.
import { BOT_FREE, OCTETS, json, keyed } from "./scene.mjs";

export const COLOS = ["FRA", "IAD", "SYD"];
const numbers = (length, first = 0) => Array.from({ length }, (_, index) => first + index);
const moment = (text) => Date.parse(text);

/** The elements of `uniques/dense`: so many that their sketch is kept as registers. */
const DENSE_ELEMENTS = 6_000;
/** Of one line each, with times long past. */
const LOG = numbers(40)
  .map((index) => {
    const at = `${17 + (index % 3)}/May/2015:10:${String(index).padStart(2, "0")}:03 +0000`;
    return `10.0.0.${index % 7} - - [${at}] "GET ${index % 2 ? "/log/a" : "/log/b"} HTTP/1.1" 200 1 "-" "-"\n`;
  })
  .join("");
/** The most that one increment may add. */
const LARGE = String(2n ** 63n);

const increments = async (scene, id, amount, part) => {
  for (const colo of COLOS) await scene.add(id, { delta: amount, unique: `${part}-${colo}` }, { colo });
};

const samples = async (scene, values) => {
  for (const [index, sample] of values.entries()) await scene.add("samples", { sample }, { colo: COLOS[index % 2] });
};

const sharded = async (scene, id, first) => {
  for (const index of numbers(30, first)) {
    await scene.add(id, { delta: 2, unique: `u${index}` }, { colo: COLOS[index % 2] });
  }
};

async function settings(scene) {
  await scene.put("shards", { shards: 4 });
  await scene.put("sealed", { shards: 4 });
  await scene.put("seconds", { seconds_kept: 86_400 });
  await scene.put("uniques/redis", { unique_hash: "redis" });
  await scene.put("ttl/fixed", { ttl_seconds: 126_230_400 });
  await scene.put("ttl/sliding", { ttl_seconds: 126_230_400, ttl_mode: "sliding" });
  await scene.put("ttl/over", { ttl_seconds: 30 });
  for (const id of ["ttl/fixed", "ttl/sliding", "ttl/over"]) await scene.add(id, { delta: 4 });
}

async function first(scene) {
  await settings(scene);
  await increments(scene, "seconds", 2, "first");
  await scene.add("plain", { delta: 3 });
  await increments(scene, "world", 10, "first");
  await sharded(scene, "shards", 0);
  await sharded(scene, "sealed", 0);
  await samples(scene, [12.5, 8.25, 250, 0.5]);
  for (const name of ["ann", "bob", "cyd"]) await scene.add("uniques/keyed", { unique: name }, { colo: "FRA" });
  await scene.add("uniques/keyed", { unique: "ann" }, { colo: "IAD" });
  for (const name of ["ann", "bob"]) await scene.add("uniques/redis", { unique: name });
  const dense = numbers(DENSE_ELEMENTS).map((index) => `{"id":"uniques/dense","unique":"e${index}"}`);
  await scene.call("POST", "/events", { body: dense.join("\n") });
  await scene.call("POST", "/ingest?format=clf&id=path&unique=ip", { body: LOG });
  for (const colo of COLOS) await scene.add("large", { delta: LARGE }, { colo });
  await scene.add("negative", { delta: 1 });
  await scene.subtract("negative", { delta: 6 });
  for (const id of ["deleted", "again"]) await increments(scene, id, 5, "gone");
  await scene.call("POST", "/counters/keys%2Fold/increment", keyed("old", json({ delta: 5 })));
  await makeBoards(scene);
  await boards(scene, 0);
  await breakdowns(scene, 0);
}

const by = (scene, site, referrer, options) =>
  scene.add("site", { delta: 2, unique: referrer, by: { site, referrer, country: "DE" } }, options);

async function breakdowns(scene, first) {
  for (const index of numbers(12, first)) {
    await by(scene, `site-${index % 4}`, `from-${index}`, { colo: COLOS[index % 2] });
  }
}

const score = (scene, board, member, body, options) =>
  scene.call("POST", `/boards/${board}/members/${member}`, json(body, options));

async function boards(scene, first) {
  for (const index of numbers(9, first)) {
    await score(
      scene, "race", `m${index % 12}`, { score: (index * 7) % 31, metadata: { car: index } },
      { colo: COLOS[index % 2] },
    );
    await score(scene, "spread", `m${index}`, { delta: index + 1 });
    await score(scene, "laps", `m${index % 5}`, { score: 100 - index });
  }
}

async function makeBoards(scene) {
  await scene.call(
    "PUT", "/boards/laps", json({ order: "asc", keep: "best", ties: "shared", period: "day", archive: 50 }),
  );
  await scene.call("PUT", "/boards/spread", json({ keep: "sum", scores: "integer", shards: 3, home: "IAD" }));
  await scene.call("PUT", "/boards/empty", json({ members_max: 10 }));
}

async function lastOfBoards(scene) {
  const away = { expires_in_seconds: 315_360_000 };
  await score(scene, "race", "kept", { score: 50, ...away });
  await scene.call("POST", "/boards/race/members/m1", json({ hidden: true }));
  await scene.call("DELETE", "/boards/race/members/m2");
  await score(scene, "gone", "ann", { score: 1 });
  await scene.call("DELETE", "/boards/gone");
  await scene.keep("POST", "/boards/race/members/keyed", keyed("lap", json({ score: 12 })));
  await scene.call("POST", "/events", { body: '{"board":"race","member":"line","score":3}' });
}

const redis = async (scene, commands) => {
  const { json: replies } = await scene.call("POST", "/redis/pipeline", json(commands));
  const failed = replies.find(({ error }) => error !== undefined);
  if (failed !== undefined) throw new Error(failed.error);
};

async function dialect(scene) {
  await redis(scene, [
    ["SET", "redis:text", "grün"],
    ["SET", "redis:passing", "soon", "EX", "315360000"],
    ["HSET", "redis:hash", "one", "1", "two", "zwei"],
    ["SADD", "redis:set", "ann", "bob"],
    ["INCRBY", "redis:number", "42"],
    ["INCR", "redis:ended"],
    ["DEL", "redis:ended"],
    ["ZADD", "redis:sorted", "1.5", "ann", "2", "bob"],
    ["PFADD", "redis:hll", "ann", "bob", "cyd"],
  ]);
  await scene.call("POST", "/redis", keyed("order", json(["INCR", "redis:orders"])));
  await scene.call("POST", "/redis", keyed("text", json(["SET", "redis:tried", "once"])));
}

async function second(scene) {
  await increments(scene, "seconds", 3, "second");
  await scene.add("plain", { delta: 5 });
  await increments(scene, "world", 20, "second");
  await samples(scene, [99, 1024]);
  await scene.add("uniques/keyed", { unique: "dan" });
  await scene.call("DELETE", "/counters/deleted");
  await scene.call("DELETE", "/counters/again", { colo: "IAD" });
  await scene.add("again", { delta: 2 }, { colo: "SYD" });
}

async function third(scene) {
  await increments(scene, "seconds", 5, "third");
  await boards(scene, 3);
  await breakdowns(scene, 6);
  await scene.add("plain", { delta: 7 });
  await increments(scene, "world", 40, "third");
  await scene.put("sealed", { shards: 1 });
  await sharded(scene, "sealed", 20);
  await sharded(scene, "shards", 20);
  for (const [id, value] of [["set", 1_000], ["reset", 0]]) {
    await increments(scene, id, 6, "before");
    await scene.call("PUT", `/counters/${id}/value`, json({ value }));
    await increments(scene, id, 1, "after");
  }
}

async function fourth(scene) {
  await scene.add("plain", { delta: 11 });
  await samples(scene, [3.5, 7, 14, 28]);
  await scene.add("uniques/keyed", { unique: "eve" });
  await scene.add("uniques/redis", { unique: "eve" }, { colo: "IAD" });
  const { bytes } = await scene.call("GET", "/uniques?id=uniques%2Fredis&format=hll&consistency=strong");
  await scene.put("uniques/imported", { unique_hash: "redis" });
  await scene.call("PUT", "/counters/uniques%2Fimported/uniques/hll", { body: bytes, headers: OCTETS });
  for (const ip of ["203.0.113.9", "203.0.113.10"]) {
    await scene.add("visitors", { unique: "auto", ip, user_agent: BOT_FREE });
  }
  await scene.put("home", {});
  await increments(scene, "home", 3, "before");
  await scene.put("home", { home: "FRA" });
}

async function keys(scene) {
  await scene.keep("POST", "/counters/keys/increment", keyed("k1", json({ delta: 5, unique: "ann" })));
  await scene.keep("POST", "/counters/keys/decrement", keyed("k2", json({ delta: 2 }, { colo: "IAD" })));
  await scene.keep("POST", "/counters/keys/increment", keyed("k3", json({ sample: 7.5 })));
  await scene.call("POST", "/events", { body: '{"id":"keys","delta":3,"idempotency_key":"line-1"}\n{"id":"keys","idempotency_key":"line-2"}' });
  await scene.call("POST", "/events", keyed("body", { body: '{"id":"keys","delta":30}' }));
  await scene.call("POST", "/api/event", keyed("event", json({ key: "keys", increment: 100 })));
  await scene.call("POST", "/counters/ended/increment", keyed("k", json({ delta: 5 })));
  await scene.keep("DELETE", "/counters/ended", keyed("end"));
  await scene.keep("PUT", "/counters/operations/value", keyed("monday", json({ value: 70 })));
  await scene.keep("PUT", "/counters/operations/value", keyed("tuesday", json({ value: 0 })));
  await scene.keep("PUT", "/counters/operations", keyed("wednesday", json({ shards: 2 })));
  await scene.add("operations", { delta: 8 });
}

async function homes(scene) {
  await scene.add("home", { delta: 1 }, { colo: "SYD" });
  await scene.keep("POST", "/counters/home/increment", keyed("at-first", json({ delta: 2 }, { colo: "IAD" })));
  await scene.put("home", { home: "IAD" });
  await scene.keep("POST", "/counters/home/increment", keyed("later", json({ delta: 4 })));
  await scene.put("floor", { home: "FRA", floor: -3 });
  await scene.call("PUT", "/counters/floor/value", json({ value: 10 }));
  await scene.subtract("floor", { delta: 12 }, { colo: "SYD" });
  await scene.keep("POST", "/counters/floor/decrement", keyed("too-much", json({ delta: 9 }, { status: 409 })));
  await scene.call("POST", "/counters/floor/decrement", json({ delta: 2 }, { status: 409 }));
  await scene.add("match", { delta: 6 });
  const { version } = (await scene.call("GET", "/counters/match?consistency=strong")).json;
  await scene.call("PUT", "/counters/match/value", json({ value: 60 }, { headers: { "if-match": `"${version}"` } }));
}

async function limits(scene) {
  const month = { limit: 1_000, window_seconds: 2_592_000 };
  const policies = {
    sliding: month,
    precise: { ...month, precise: true },
    fixed: { ...month, algorithm: "fixed-window" },
    bucket: { ...month, algorithm: "token-bucket", burst: 50 },
    world: { ...month, scope: "global", on_error: "closed" },
    committed: { ...month, durability: "commit" },
    shadow: { ...month, limit: 3, shadow: true },
  };
  for (const [name, policy] of Object.entries(policies)) {
    await scene.call("PUT", `/limits/${name}`, json(policy));
    for (const cost of name === "shadow" ? [1, 2] : [3, 4, 5]) {
      await scene.call("POST", `/limits/${name}/bob`, json({ cost }));
    }
  }
  await scene.call("POST", "/limits/sliding/bob/refund", json({ cost: 2 }));
  await scene.call("POST", "/limits/sliding/ann", json({ cost: 9 }, { colo: "IAD" }));
  await scene.call("POST", "/limits/world/bob", json({ cost: 20 }, { colo: "IAD" }));
  await scene.call("POST", "/limits/precise/used-up", json({ cost: 1_000 }));
  await scene.call("POST", "/limits/own/bob", json({ cost: 7, ...month }));
  await scene.call("PUT", "/limits/gone", json(month));
  await scene.call("DELETE", "/limits/gone");
}

async function queue(scene) {
  const event = (key, increment, more) =>
    scene.call("POST", "/api/event", json({ key, increment }, { status: 202, ...more }));
  for (const colo of COLOS) await event("queued/a", 4, { colo });
  await scene.call("GET", "/api/counter?key=queued%2Fa&consistency=strong");
  // An event of before a deletion is a dead letter.
  await event("queued/ended", 9);
  await scene.call("DELETE", "/counters/queued%2Fended");
  await scene.call("GET", "/api/counter?key=queued%2Fended&consistency=strong", { status: 404 });
}

const SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

// What an admin of a prefix does and gives away is of its account.
async function gifts(scene) {
  const made = { name: "blog", scopes: ["read", "write", "admin"], prefixes: ["blog/"], rate_per_minute: 6_000 };
  const { json: blog } = await scene.call("POST", "/keys", json(made));
  const headers = { authorization: `Bearer ${blog.key}` };
  const child = { name: "reader", scopes: ["read"], prefixes: ["blog/ann/"], rate_per_minute: 60 };
  await scene.call("POST", "/keys", json(child, { headers }));
  await scene.call("PUT", "/counters/blog%2Fnarrow", json({ shards: 1 }, { headers }));
  // Its values of Redis and its idempotency keys count for its account.
  await scene.call("POST", "/redis", json(["SET", "blog/note", "kept"], { headers }));
  const once = { headers: { ...headers, "idempotency-key": "narrow-1" } };
  await scene.call("POST", "/counters/blog%2Fnarrow/increment", once);
  const fay = { prefix: "blog/ann/", name: "for Fay", expires_in_seconds: 31_536_000 };
  await scene.call("POST", "/shares", json(fay, { headers }));
  const webhook = { webhook: "https://hooks.example.com/", secret: SECRET };
  const alert = { counter: "blog/narrow", when: { value: { above: 1_000_000 } }, ...webhook };
  await scene.call("PUT", "/alerts/quiet", json(alert, { headers }));
}

async function last(scene) {
  // The audit log has it as refused.
  await scene.call("DELETE", "/counters/nobody", { status: 404 });
  await scene.call("POST", "/uniques/rotate");
  await scene.add("plain", { delta: 13 });
  await scene.subtract("plain", { delta: 2 });
  await increments(scene, "world", 80, "first");
  await samples(scene, [5, 50]);
  for (const name of ["ann", "fay"]) await scene.add("uniques/keyed", { unique: name });
  await scene.add("visitors", { unique: "auto", ip: "203.0.113.9", user_agent: BOT_FREE });
  await keys(scene);
  await homes(scene);
  await limits(scene);
  await boards(scene, 8);
  await lastOfBoards(scene);
  await breakdowns(scene, 12);
  await dialect(scene);
  await scene.call("POST", "/shares", json({ prefix: "blog/", name: "for Ann", expires_in_seconds: 31_536_000 }));
  await gifts(scene);
  await queue(scene);
  await scene.watch("/live?id=plain&id=world");
}

/**
 * The acts: what is done, what time it is when each begins, and how many tablets there are; whether their logs are
 * folded. The server is started anew for each. Leads of the first acts have objects of their own, and move into tablets
 * when they are next needed.
 */
export const ACTS = [
  { begins_ms: moment("2026-10-01T10:58:30Z"), act: first },
  { begins_ms: moment("2026-10-01T11:02:00Z"), act: second },
  { begins_ms: moment("2026-10-02T09:00:00Z"), act: third, tablets: 3, folds: true },
  { begins_ms: moment("2026-11-20T11:58:30Z"), act: fourth, tablets: 3 },
  { begins_ms: moment("2026-11-20T12:00:05Z"), act: last, tablets: 3 },
];

/**
 * Events that are acknowledged last: most lie in their inboxes when the server is killed. [counter, amount, datacenter]
 * each.
 */
export const WAITING = numbers(12).flatMap((index) => [
  ["queued/a", 5 + index, COLOS[index % 3]],
  ["queued/new", 7, "SYD"],
]);
