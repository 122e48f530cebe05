// Whose an idempotency key is: its sender's alone, in every call. What two requests under it must have in common. HEAD
// changes nothing.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bearer, isReplay, keyed, numbers } from "./calls.mjs";
import { databasesOf, withDatabase } from "./databases.mjs";
import { openWorld } from "./world.mjs";

const KEYS = {
  shop: "shop-key-0123456789ab",
  other: "other-key-0123456789a",
  reader: "reader-key-0123456789",
  admin: "admin-key-0123456789a",
  nameless: "nameless-key-01234567",
  tenant: "tenant-key-0123456789",
};
const CONFIG = {
  keys: [
    { name: "shop", key: KEYS.shop, scopes: ["read", "write", "admin"] },
    { name: "other", key: KEYS.other, scopes: ["read", "write", "admin"] },
    { name: "reader", key: KEYS.reader, scopes: ["read"], prefix: "pub/" },
    { name: "ops", key: KEYS.admin, scopes: ["read", "write", "admin"] },
    { key: KEYS.nameless, scopes: ["write"] },
    { name: "tenant", key: KEYS.tenant, scopes: ["read", "write", "admin"], prefix: "ten/" },
  ],
  public: [
    { prefix: "pub/", origins: ["*"], scopes: ["read", "write"], delta_max: 9, allow: ["decrement", "ingest", "board"] },
  ],
};

let world;
beforeAll(async () => {
  world = await openWorld({ vars: { TALLY_ACCESS: undefined, TALLY_KEYS: JSON.stringify(CONFIG) } });
});
afterAll(() => world.close());

const encoded = (id) => encodeURIComponent(id);
const visitor = { headers: { origin: "https://anywhere.example" } };
const as = (who) => (who === "visitor" ? visitor : bearer(KEYS[who]));
const call = (who, method, path, key, body) =>
  world.call(method, path, keyed(key, { ...as(who), body, headers: { ...as(who).headers, "idempotency-key": key } }));
const valueOf = async (id) => {
  const read = await world.call("GET", `/counters/${encoded(id)}?consistency=strong`, as("admin"));
  return read.json.value;
};

/** Calls that take a key and that the public may make on a counter of its prefix: path, body, value. */
const SHARED = [
  ["increment", (id) => [`/counters/${encoded(id)}/increment`, '{"delta":2}'], 2],
  ["event", (id) => ["/api/event", JSON.stringify({ key: id, increment: 2 })], 2],
  ["events", (id) => ["/events", JSON.stringify({ id, delta: 2 })], 2],
  ["ingest", (id) => ["/ingest?format=ndjson", JSON.stringify({ id, delta: 2 })], 2],
];

describe("a visitor who guesses a key", () => {
  for (const [name, request, delta] of SHARED) {
    test(`${name}: neither swallows nor refuses the write of a key holder`, async () => {
      const ids = [`pub/${name}/same`, `pub/${name}/other`];
      // The same write: it would be swallowed.
      const [path, body] = request(ids[0]);
      expect((await call("visitor", "POST", path, "ord-1", body)).status).toBeLessThan(300);
      const own = await call("shop", "POST", path, "ord-1", body);
      expect([own.status < 300, isReplay(own)]).toEqual([true, false]);
      expect(await valueOf(ids[0])).toBe(2 * delta);
      // Another write: it would be refused.
      const [otherPath, otherBody] = request(ids[1]);
      await call("visitor", "POST", otherPath, "ord-1", otherBody.replace("2", "1"));
      const second = await call("shop", "POST", otherPath, "ord-1", otherBody);
      expect(second.status).toBeLessThan(300);
      expect(second.json.rejected ?? 0).toBe(0);
      expect(await valueOf(ids[1])).toBe(delta + 1);
      // Each sender's own retries count once.
      for (const who of ["visitor", "shop"]) {
        const again = await call(who, "POST", path, "ord-1", body);
        expect([again.status < 300, isReplay(again)], who).toEqual([true, true]);
      }
      expect(await valueOf(ids[0])).toBe(2 * delta);
    });
  }

  test("an id of an event is its sender's too", async () => {
    const line = (increment) => JSON.stringify({ id: "pub/ids", delta: increment, idempotency_key: "e-1" });
    await world.well("POST", "/events", { ...as("visitor"), body: line(1) });
    for (const again of [false, true]) {
      const report = await world.well("POST", "/events", { ...as("shop"), body: line(2) });
      expect(report, `${again}`).toMatchObject({ accepted: 1, rejected: 0 });
    }
    expect(await valueOf("pub/ids")).toBe(3);
  });

  test("a decrement, a set, a reset, settings and a deletion are free of a visitor's keys", async () => {
    const id = "pub/operations";
    await call("visitor", "POST", `/counters/${encoded(id)}/increment`, "k", '{"delta":9}');
    await call("visitor", "POST", `/counters/${encoded(id)}/increment`, "v", '{"delta":1}');
    for (const [method, path, body, key] of [
      ["POST", "/decrement", '{"delta":1}', "k"],
      ["PUT", "/value", '{"value":5}', "v"],
      ["PUT", "/value", '{"value":0}', "k"],
      ["PUT", "", "{}", "k"],
      ["DELETE", "", undefined, "k"],
    ]) {
      // The key holder's own keys are one namespace for these calls: another key for each.
      const own = await call("shop", method, `/counters/${encoded(id)}${path}`, `${key}${path}${method}`, body);
      expect(own.status, method + path).toBeLessThan(300);
    }
    await call("visitor", "POST", `/counters/${encoded(id)}/increment`, "k2", '{"delta":3}');
    expect((await call("shop", "PUT", `/counters/${encoded(id)}/value`, "k2", '{"value":5}')).status).toBeLessThan(300);
  });

  test("members of boards", async () => {
    const one = "/boards/pub%2Frace/members/ann";
    expect((await call("visitor", "POST", one, "m", '{"score":1}')).status).toBe(200);
    const own = await call("shop", "POST", one, "m", '{"score":2}');
    expect([own.status, isReplay(own)]).toEqual([200, false]);
    const many = "/boards/pub%2Frace/members";
    expect((await call("visitor", "POST", many, "n", '{"member":"ann","score":3}')).status).toBe(200);
    const lines = await call("shop", "POST", many, "n", '{"member":"ann","score":4}');
    expect([lines.status, isReplay(lines)]).toEqual([200, false]);
    expect((await world.call("GET", one, as("admin"))).json.score).toBe(4);
  });
});

describe("two programs with keys of their own", () => {
  test("that both send order-1 do not collide", async () => {
    for (const who of ["shop", "other", "nameless", "admin"]) {
      const answer = await call(who, "POST", "/counters/orders/increment", "order-1", '{"delta":1}');
      expect([answer.status, isReplay(answer)], who).toEqual([200, false]);
      expect(isReplay(await call(who, "POST", "/counters/orders/increment", "order-1", '{"delta":1}'))).toBe(true);
    }
    expect(await valueOf("orders")).toBe(4);
  });

  // Each call that takes a key, with what each of the two sends.
  const call_of = (path, method = "POST") => (body) => [method, path, body && JSON.stringify(body)];
  const BOTH = [
    ["set", call_of("/counters/both/value", "PUT"), { value: 3 }, { value: 4 }],
    ["settings", call_of("/counters/both", "PUT"), { floor: null }, { floor: 0 }],
    ["increment", call_of("/counters/both/increment"), { delta: 1 }, { delta: 2 }],
    ["decrement", call_of("/counters/both/decrement"), { delta: 1 }, { delta: 2 }],
    ["event", call_of("/api/event"), { key: "both", increment: 1 }, { key: "both", increment: 2 }],
    ["events", call_of("/events"), { id: "both", delta: 1 }, { id: "both", delta: 2 }],
    ["ingest", call_of("/ingest?format=ndjson"), { id: "both", delta: 1 }, { id: "both", delta: 2 }],
    ["import", call_of("/import?mode=replace"), "both", "both"],
    ["board", call_of("/boards/both-board/members/ann"), { score: 1 }, { score: 2 }],
    ["board lines", call_of("/boards/both-board/members"), { member: "a", score: 1 }, { member: "a", score: 2 }],
    ["redis", call_of("/redis"), ["SET", "both-text", "a"], ["SET", "both-text", "b"]],
    ["redis count", call_of("/redis"), ["INCRBY", "both-count", 1], ["INCRBY", "both-count", 2]],
  ];

  for (const [name, request, mine, theirs] of BOTH) {
    test(`${name}: the same key of two callers, with the same request and with another`, async () => {
      const exported = async (by) => {
        await world.add("both-import", { delta: by }, as("admin"));
        return (await world.call("GET", "/export?prefix=both-import", as("admin"))).text;
      };
      const key = `both-${name.replace(" ", "-")}`;
      for (const [who, body] of [["shop", mine], ["other", mine], ["admin", theirs]]) {
        const [method, path, text] = request(body);
        const sent = name === "import" ? await exported(who === "admin" ? 2 : 1) : text;
        const answer = await call(who, method, path, key, sent);
        expect([answer.status < 300, isReplay(answer)], `${who}: ${answer.text}`).toEqual([true, false]);
      }
    });
  }

  test("a key that was made keeps its name when its secret is rotated", async () => {
    const options = { ...as("admin"), body: JSON.stringify({ name: "app", scopes: ["write"], prefixes: ["made/"] }) };
    const made = (await world.call("POST", "/keys", options)).json;
    const send = (key) =>
      world.call("POST", "/counters/made%2Fa/increment", keyed("k", { ...bearer(key), body: "{}", headers: {
        authorization: `Bearer ${key}`, "idempotency-key": "k",
      } }));
    expect((await send(made.key)).json.value).toBe(1);
    const rotated = (await world.call("POST", `/keys/${made.id}/rotate`, { ...as("admin"), body: "{}" })).json;
    expect(rotated.key).not.toBe(made.key);
    expect(isReplay(await send(rotated.key))).toBe(true);
    expect(await valueOf("made/a")).toBe(1);
  });
});

describe("on /redis", () => {
  const redis = async (who, key, body, path = "/redis", method = "POST") => {
    const headers = { ...as(who).headers, ...(key && { "idempotency-key": key }) };
    const { bytes, status } = await world.host.fetch(`https://tally.test${path}`, {
      method, colo: "FRA", headers, body: body && JSON.stringify(body),
    });
    return { status, ...(method !== "HEAD" && JSON.parse(bytes.toString())) };
  };

  test("a key that only reads takes no name, not its own either", async () => {
    expect(await redis("reader", "ord-4", ["GET", "pub/n"])).toMatchObject({ result: null });
    expect(await redis("reader", "ord-4", ["EXISTS", "pub/n"])).toMatchObject({ result: 0 });
    expect(await redis("shop", "ord-4", ["SET", "pub/text", "x"])).toMatchObject({ result: "OK" });
    expect(await redis("shop", "ord-4", ["INCR", "pub/n"])).toMatchObject({ result: 1 });
    // A read is done again: it is never answered from before.
    expect(await redis("reader", "ord-4", ["GET", "pub/n"])).toMatchObject({ result: "1" });
  });

  test("two programs with order-1 do not collide, nor do two keys of Redis", async () => {
    for (const [who, value] of [["shop", 1], ["other", 2]]) {
      for (const again of [1, 2]) {
        const added = await redis(who, "order-1", ["INCR", "orders-of-all"]);
        expect(added, `${who} ${again}`).toMatchObject({ result: value });
        expect(await redis(who, "order-1", ["SET", `last-of-${who}`, "x"])).toMatchObject({ result: "OK" });
        expect(await redis(who, "order-1", ["HINCRBY", "hash", "f", 1])).toMatchObject({ result: value });
        expect(await redis(who, "order-1", ["ZINCRBY", "zset", 1, "m"])).toMatchObject({ result: `${value}` });
      }
    }
    const { error } = await redis("shop", "order-1", ["INCRBY", "orders-of-all", 5]);
    expect(error).toMatch(/^ERR this idempotency key was used/);
  });

  test("in a pipeline reads are read anew, and writes are done once, also of a set that ended", async () => {
    const body = [["ZADD", "gone", 1, "m"], ["ZREM", "gone", "m"], ["ZSCORE", "gone", "m"], ["GET", "note"]];
    const first = [{ result: 1 }, { result: 1 }, { result: null }, { result: null }];
    const headers = { ...as("shop").headers, "idempotency-key": "mixed" };
    const send = async () =>
      (await world.call("POST", "/redis/pipeline", { headers, body: JSON.stringify(body) })).json;
    expect(await send()).toEqual(first);
    await redis("shop", undefined, ["SET", "note", "now"]);
    expect(await send()).toEqual([...first.slice(0, 3), { result: "now" }]);
  });

  test("HEAD changes nothing", async () => {
    for (const command of ["incr/headed", "set/headed/1", "zadd/headed/1/m", "pfadd/headed/a", "flushall"]) {
      expect((await redis("admin", undefined, undefined, `/redis/${command}`, "HEAD")).status, command).toBe(405);
    }
    expect((await redis("shop", undefined, undefined, "/redis/get/headed", "HEAD")).status).toBe(200);
    expect(await redis("shop", undefined, ["EXISTS", "headed"])).toMatchObject({ result: 0 });
  });
});

describe("replies that are stored", () => {
  const SIZE = 60_000;
  const send = async (own, who, key, body) => {
    const headers = { ...as(who).headers, "idempotency-key": key };
    return (await own.call("POST", "/redis/pipeline", { headers, body: JSON.stringify(body) })).json;
  };
  const stored = (folder) => {
    const query = "SELECT count(*) AS replies, total(length(reply)) AS bytes FROM tries";
    const sizes = (database) => database.prepare(query).get();
    return databasesOf(folder, "Keyspace").map((path) => withDatabase(path, sizes));
  };

  test("are none of reads, and of one caller at most 64 MiB: that caller is refused, and nobody else", async () => {
    const folder = mkdtempSync(join(tmpdir(), "tally-replies-"));
    const own = await openWorld({ folder, vars: { TALLY_ACCESS: undefined, TALLY_KEYS: JSON.stringify(CONFIG) } });
    try {
      await send(own, "shop", "begin", [["SET", "pub/large", "x".repeat(SIZE)]]);
      // The attack: a few requests of 5 KB by a key that only reads.
      const reads = numbers(250).map(() => ["GET", "pub/large"]);
      for (let request = 0; request < 3; request += 1) await send(own, "reader", `read-${request}`, reads);
      let refused;
      const gets = numbers(250).map(() => ["GETEX", "pub/large"]);
      for (let request = 0; request < 6 && !refused; request += 1) {
        const replies = await send(own, "shop", `fill-${request}`, gets);
        refused = replies.find(({ error }) => error)?.error;
      }
      expect(refused).toMatch(/^ERR this caller has as many stored replies/);
      const more = [["SET", "pub/x", "1"], ["ZADD", "pub/z", 1, "m"], ["GETEX", "pub/large"]];
      expect((await send(own, "shop", "more", more))[2].error).toBe(refused);
      // What was done before is known, reads go on, and so does everything without a key.
      expect((await send(own, "shop", "begin", [["SET", "pub/large", "x".repeat(SIZE)]]))[0]).toEqual({ result: "OK" });
      expect((await send(own, "shop", "more", [["GET", "pub/x"]]))[0]).toEqual({ result: "1" });
      expect((await send(own, "other", "fill-0", [["GETEX", "pub/large"]]))[0].result.length).toBe(SIZE);
    } finally {
      await own.close();
    }
    const [{ replies, bytes }] = stored(folder);
    expect(bytes).toBeLessThan(65 * 1024 * 1024);
    expect(bytes).toBeGreaterThan(60 * 1024 * 1024);
    expect(replies).toBeLessThan(1_200);
    rmSync(folder, { recursive: true, force: true });
  }, 120_000);

  test("are counted for the account: keys that a key makes have no room of their own", async () => {
    const own = await openWorld({ vars: { TALLY_ACCESS: undefined, TALLY_KEYS: JSON.stringify(CONFIG) } });
    const make = async (key) => {
      const body = JSON.stringify({ name: "made", scopes: ["read", "write", "admin"], prefixes: ["ten/"] });
      return (await own.call("POST", "/keys", bearer(key, { body }))).json.key;
    };
    const post = async (key, name, body) => {
      const headers = { authorization: `Bearer ${key}`, "idempotency-key": name };
      return (await own.call("POST", "/redis/pipeline", { headers, body: JSON.stringify(body) })).json;
    };
    try {
      await send(own, "shop", "begin", [["SET", "ten/large", "x".repeat(SIZE)]]);
      // The attack: each of a few keys, and each of those that they make, fills what one caller may.
      const child = await make(KEYS.tenant);
      const callers = [child, await make(KEYS.tenant), await make(child), KEYS.tenant];
      const gets = numbers(250).map(() => ["GETEX", "ten/large"]);
      let done = 0;
      const refused = new Set();
      for (let request = 0; request < 8; request += 1) {
        for (const reply of await post(callers[request % 4], `fill-${request}`, gets)) {
          if (reply.error) refused.add(request % 4);
          else done += 1;
        }
      }
      expect(done * SIZE).toBeLessThanOrEqual(64 * 1024 * 1024);
      expect(done * SIZE).toBeGreaterThan(60 * 1024 * 1024);
      expect(refused).toEqual(new Set([0, 1, 2, 3]));
      // Others go on: a key of another account, and one whose prefix is the same.
      expect((await send(own, "shop", "other", [["GETEX", "ten/large"]]))[0].result.length).toBe(SIZE);
      const neighbour = await make(KEYS.shop);
      expect((await post(neighbour, "other", [["GETEX", "ten/large"]]))[0].result.length).toBe(SIZE);
    } finally {
      await own.close();
    }
  }, 120_000);

  test("are so small that they can be stored", async () => {
    const [popped, plain] = await send(world, "shop", "pop", [["ZPOPMIN", "none", 1_001], ["ZPOPMIN", "none", 1_000]]);
    const refusal = "a command removes at most 1000 members, not 1001; nothing was done, send several";
    expect(popped.error).toBe(`ERR with an Idempotency-Key ${refusal}`);
    expect(plain).toEqual({ result: [] });
  });
});

test("HEAD on a hit or a pixel counts nothing", async () => {
  for (const path of ["/hit/pub%2Fhead", "/pixel/pub%2Fhead.gif"]) {
    expect((await world.call("HEAD", path, visitor)).status, path).toBe(200);
  }
  await world.refused(404, "counter-not-found", "GET", "/counters/pub%2Fhead", as("admin"));
});

test("HEAD of no call changes a counter, a board, a key or a share, or makes one", async () => {
  const own = await openWorld();
  try {
    await own.add("here", { delta: 3 });
    await own.call("POST", "/boards/here/members/ann", { body: '{"score":1}' });
    const state = async () => {
      const reads = ["/counters?values=1", "/boards/here/members", "/keys", "/shares", "/alerts", "/limits"];
      const answers = [];
      for (const path of reads) answers.push((await own.call("GET", path)).json);
      return JSON.stringify(answers, (name, value) => (/as_of|staleness|_at$|version/.test(name) ? undefined : value));
    };
    const before = await state();
    const { paths } = (await own.call("GET", "/openapi.json")).json;
    const gets = Object.keys(paths).filter((path) => paths[path].get);
    expect(gets.length).toBeGreaterThan(30);
    for (const name of ["here", "nobody"]) {
      for (const path of gets) {
        const { status } = await own.call("HEAD", path.replace(/\{[^}]*\}/g, name));
        expect(status, path).toBeLessThan(500);
      }
    }
    await own.advance(2_000);
    expect(await state()).toBe(before);
  } finally {
    await own.close();
  }
});

describe("what two requests under one key must have in common", () => {
  // The same meaning, other bytes: a space.
  const CALLS = [
    ["POST", "/counters/same/increment", '{"delta":1}'],
    ["POST", "/counters/same/decrement", '{"delta":1}'],
    ["PUT", "/counters/same/value", '{"value":3}'],
    ["PUT", "/counters/same", '{"floor":null}'],
    ["PUT", "/counters/same/value", '{"value":0}'],
    ["POST", "/api/event", '{"key":"same","increment":1}'],
    ["POST", "/events", '{"id":"same","delta":1}'],
    ["POST", "/ingest?format=ndjson", '{"id":"same","delta":1}'],
    ["POST", "/boards/same-board/members/ann", '{"score":1}'],
    ["POST", "/boards/same-board/members", '{"member":"ann","score":1}'],
    ["POST", "/redis", '["SADD","same-set","m"]'],
  ];
  const outcome = ({ status, json }) => {
    const reused = JSON.stringify(json).match(/idempotency[- ]key[- ](was used|reused)/);
    return reused ? "reused" : status < 300 ? "replayed" : `${status}`;
  };

  for (const [index, [method, path, body]] of CALLS.entries()) {
    test(`${method} ${path}: the bytes of the body`, async () => {
      const key = `same-${index}`;
      expect((await call("shop", method, path, key, body)).status).toBeLessThan(300);
      expect(outcome(await call("shop", method, path, key, body))).toBe("replayed");
      const spaced = body.replace(/([{[])/, "$1 ");
      expect(outcome(await call("shop", method, path, key, spaced))).toBe("reused");
    });
  }

  test("headers are no part of it, the values of the query are, and no body is {}", async () => {
    const path = "/counters/common/increment";
    expect(isReplay(await call("shop", "POST", path, "k", undefined))).toBe(false);
    expect(isReplay(await call("shop", "POST", path, "k", "{}"))).toBe(true);
    const headers = { ...as("shop").headers, "idempotency-key": "k", "content-type": "text/plain" };
    expect(isReplay(await world.call("POST", path, { headers, body: "{}" }))).toBe(true);
    expect((await world.call("POST", `${path}?numbers=string`, { headers, body: "{}" })).status).toBe(422);
  });
});
