// Redis's dialect: the same replies as a real Redis, and the same counters as by the other calls.
import { expect, test } from "vitest";
import { WITHOUT_VERSIONS, pythonVersions } from "../../scripts/python-clients.mjs";
import { numbers } from "./calls.mjs";
import { listen } from "./listeners.mjs";
import { MISSING, openRedis } from "./redis.mjs";
import { commandFrom, elementsCommandFrom, sortedCommandFrom } from "./redis-random.mjs";
import { ORIGIN, each, openWorld, randomFrom, until } from "./world.mjs";

const SEED = Number(process.env.SEED ?? 1);
// So many commands are compared with what was told of them at once.
const STRIDE = 10;

async function send(world, path, { method = "POST", body, ...options } = {}) {
  const text = body === undefined ? undefined : JSON.stringify(body);
  const { status, headers, bytes } = await world.host.fetch(ORIGIN + path, {
    method, body: text, colo: "FRA", ...options,
  });
  return { status, headers, json: JSON.parse(bytes.toString()) };
}

const run = async (world, ...body) => (await send(world, "/redis", { body })).json;
const result = async (world, ...body) => {
  const { result, error } = await run(world, ...body);
  expect(error, body.join(" ")).toBe(undefined);
  return result;
};
const pipeline = async (world, ...body) => (await send(world, "/redis/pipeline", { body })).json;

async function inWorld(options, work) {
  const world = await openWorld(options);
  try {
    await work(world);
  } finally {
    await world.close();
  }
}

test("a counter is the same by both interfaces, and has a home", () =>
  inWorld({}, async (world) => {
    expect(await result(world, "INCR", "a")).toBe(1);
    expect(await result(world, "incrby", "a", 41)).toBe(42);
    expect(await world.strong("a")).toMatchObject({ value: 42, exact: true });
    // Others count it too, from elsewhere.
    expect(await world.add("a", { delta: 8 }, { colo: "SYD" })).toMatchObject({
      value: 50, exact: true, datacenter: "FRA",
    });
    expect(await result(world, "GET", "a")).toBe("50");
    expect(await result(world, "DECRBY", "a", "60")).toBe(-10);
    expect(await result(world, "SET", "a", "7", "GET")).toBe("-10");
    expect((await world.strong("a")).value).toBe(7);
    expect(await result(world, "GETDEL", "a")).toBe("7");
    expect((await world.call("GET", "/counters/a")).status).toBe(404);
    expect(await result(world, "EXISTS", "a")).toBe(0);
    // What was made by the other calls is a key here.
    await world.add("b", { delta: 3 });
    expect(await result(world, "MGET", "a", "b")).toEqual([null, "3"]);
    expect(await result(world, "SET", "b", "x", "NX")).toBe(null);
    expect(await result(world, "INCR", "b")).toBe(4);
    expect(await result(world, "SET", "b", "words")).toBe("OK");
    expect((await world.call("GET", "/counters/b")).status).toBe(404);
    expect((await run(world, "INCR", "b")).error).toBe("ERR value is not an integer or out of range");
    expect(await result(world, "TYPE", "b")).toBe("string");
    // A text hides nothing that is found again when it becomes a number.
    await world.add("b", { delta: 100 });
    expect(await result(world, "GET", "b")).toBe("words");
    expect(await result(world, "SET", "b", "6")).toBe("OK");
    expect((await world.strong("b")).value).toBe(6);
    expect(await result(world, "SET", "zero", "0")).toBe("OK");
    expect(await result(world, "GET", "zero")).toBe("0");
    expect(await result(world, "SETNX", "zero", "1")).toBe(0);
    // A text that is a whole number in another form is one for INCRBYFLOAT alone.
    await result(world, "SET", "form", "+1.0");
    expect(await result(world, "INCRBYFLOAT", "form", "2e0")).toBe("3");
    expect((await run(world, "INCRBYFLOAT", "text", "1")).error).toBe(undefined);
    await result(world, "SET", "text", "words");
    expect((await run(world, "INCRBYFLOAT", "text", "1")).error).toBe("ERR value is not a valid float");
  }));

test("additions of many clients at once are replied each number once, and what replaces a value is one step", () =>
  inWorld({}, async (world) => {
    const clients = numbers(20);
    const replies = await each(clients, 20, () => pipeline(world, ...numbers(25).map(() => ["INCR", "hot"])));
    const replied = replies.flat().map(({ result }) => result);
    expect(replied.toSorted((one, other) => one - other)).toEqual(numbers(500).map((number) => number + 1));
    for (const one of replies) {
      const own = one.map(({ result }) => result);
      expect(own).toEqual(own.toSorted((one, other) => one - other));
    }
    // Each takes what was there, and nothing between two of them is lost.
    const taken = await each(clients, 10, async (client) => {
      const adds = client % 2 === 0;
      return adds
        ? { added: await result(world, "INCRBY", "moved", 5) }
        : { took: await result(world, "GETSET", "moved", "0") };
    });
    const took = taken.reduce((sum, { took }) => sum + Number(took ?? 0), 0);
    expect(took + Number(await result(world, "GET", "moved"))).toBe(50);
    expect(await each(clients, 20, () => result(world, "SETNX", "once", "1"))).toSatisfy(
      (flags) => flags.filter((flag) => flag === 1).length === 1,
    );
  }));

test("a counter with queued events and one with shards are added to", () =>
  inWorld({}, async (world) => {
    const queue = (increment) =>
      world.call("POST", "/api/event", { body: JSON.stringify({ key: "queued", increment }) });
    await queue(5);
    expect(await result(world, "INCR", "queued")).toBe(6);
    expect(await result(world, "INCR", "queued")).toBe(7);
    await queue(2);
    expect(await result(world, "INCREX", "queued", "UBOUND", 100)).toEqual([10, 1]);
    await world.well("PUT", "/counters/spread", { body: '{"shards":8}' });
    for (let number = 0; number < 20; number += 1) await world.add("spread");
    expect(await result(world, "INCR", "spread")).toBe(21);
  }));

test("a key ends when it is told to, a counter too", () =>
  inWorld({}, async (world) => {
    await result(world, "INCR", "window");
    expect(await result(world, "EXPIRE", "window", 10)).toBe(1);
    expect(await result(world, "EXPIRE", "window", 5, "GT")).toBe(0);
    expect(await result(world, "TTL", "window")).toBe(10);
    expect(await result(world, "INCR", "window")).toBe(2);
    await result(world, "SET", "text", "x", "PX", 3000);
    await world.advance(4_000);
    expect(await result(world, "GET", "text")).toBe(null);
    expect(await result(world, "TTL", "window")).toBe(6);
    await world.advance(8_000);
    // The alarm has ended it, with nobody asking for it here.
    expect((await world.call("GET", "/counters/window?consistency=strong")).status).toBe(404);
    expect(await result(world, "INCR", "window")).toBe(1);
    expect(await result(world, "TTL", "window")).toBe(-1);
    await result(world, "EXPIRE", "window", 100);
    await world.call("DELETE", "/counters/window");
    expect(await result(world, "TTL", "window")).toBe(-2);
    await result(world, "INCR", "window");
    expect(await result(world, "TTL", "window")).toBe(-1);
    // Many who come at once to one that has just ended begin a new one, and none ends that of another.
    await result(world, "PEXPIRE", "window", 700);
    await world.advance(710);
    const anew = await each(Array.from({ length: 30 }), 30, () => result(world, "INCR", "window"));
    expect(anew.toSorted((one, other) => one - other)).toEqual(anew.map((_, index) => index + 1));
  }));

test("requests have three forms, strings go in base64 where that is asked for, and refusals have Redis's statuses", () =>
  inWorld({}, async (world) => {
    const base64 = { "upstash-encoding": "base64" };
    const encoded = (text) => Buffer.from(text).toString("base64");
    const set = await send(world, "/redis", { body: ["set", "k", 5], headers: base64 });
    expect([set.status, set.json]).toEqual([200, { result: encoded("OK") }]);
    expect(set.headers.get("upstash-sync-token")).not.toBe("");
    const several = await send(world, "/redis/pipeline", {
      body: [["get", "k"], ["nope"], ["incr", "k"], ["mget", "k", "no"]], headers: base64,
    });
    expect(several.status).toBe(200);
    expect(several.json).toEqual([
      { result: encoded("5") },
      { error: "ERR unknown command 'nope', with args beginning with: " },
      { result: 6 },
      { result: [encoded("6"), null] },
    ]);
    const by = (path, options) =>
      send(world, `/redis/${path}`, { method: "GET", ...options }).then(({ status, json }) => [status, json]);
    expect(await by("set/path%2Fkey/v?EX=100")).toEqual([200, { result: "OK" }]);
    expect(await by("ttl/path%2Fkey")).toEqual([200, { result: 100 }]);
    expect(await by("get")).toEqual([400, { error: "ERR wrong number of arguments for 'get' command" }]);
    expect(await by("ping", { method: "DELETE" })).toEqual([405, { error: "ERR send GET, HEAD, POST or PUT" }]);
    const transaction = (...body) =>
      send(world, "/redis/multi-exec", { body }).then(({ status, json }) => [status, json]);
    expect(await transaction(["set", "t", "x"], ["incr", "t"], ["get", "t"])).toEqual([
      200,
      [{ result: "OK" }, { error: "ERR value is not an integer or out of range" }, { result: "x" }],
    ]);
    expect(await transaction(["incr", "t2"], ["incr"])).toEqual([400, { error: "EXECABORT Transaction discarded because of previous errors." }]);
    expect(await result(world, "GET", "t2")).toBe(null);
    expect((await run(world, "LPUSH", "list", "x")).error).toBe("ERR LPUSH is not what Tally is for");
    for (const name of ["multi", "EXEC", "discard", "watch", "UNWATCH"]) {
      expect((await run(world, name, "t")).error).toMatch(new RegExp(`^ERR ${name.toUpperCase()} .*/multi-exec$`));
    }
    expect(
      (await send(world, "/redis/pipeline", { body: Array.from({ length: 1_001 }, () => ["ping"]) })).status,
    ).toBe(400);
    // 1 MiB a command: several have more together.
    const text = "x".repeat(600_000);
    expect(
      (
        await send(world, "/redis/pipeline", {
          body: [
            ["echo", text], ["echo", text],
          ],
        })
      ).json,
    ).toEqual([{ result: text }, { result: text }]);
    expect((await send(world, "/redis/pipeline", { body: [["echo", text, text]] })).json.error).toBe(
      "ERR a command has at most 1048576 bytes of JSON; nothing was done",
    );
    const large = await send(world, "/redis", { body: ["echo", text + text] });
    expect([large.status, large.json.error.slice(0, 4)]).toEqual([413, "ERR "]);
    // 2^53 and more go as strings, which keep their digits.
    await result(world, "SET", "large", "9223372036854775806");
    expect(await result(world, "INCR", "large")).toBe("9223372036854775807");
    expect((await run(world, "INCR", "large")).error).toBe("ERR increment or decrement would overflow");
    expect(await result(world, "GET", "large")).toBe("9223372036854775807");
  }));

const OWN_HOST = { TALLY_REDIS: "redis.example.com" };

test("browsers may ask with all headers of the clients, and a host may be the dialect's own", () =>
  inWorld({ vars: OWN_HOST, edgeVars: OWN_HOST }, async (world) => {
    for (const path of ["/redis", "/redis/pipeline", "/redis/get/k"]) {
      const { status, headers } = await world.host.fetch(ORIGIN + path, {
        method: "OPTIONS",
        headers: { origin: "https://a.example" },
        colo: "FRA",
      });
      expect([status, headers.get("access-control-allow-methods")]).toEqual([204, expect.stringContaining("POST")]);
      expect(headers.get("access-control-allow-headers")).toMatch(/upstash-encoding.*upstash-sync-token.*upstash-telemetry-retry/);
    }
    const headers = { host: "redis.example.com" };
    expect((await send(world, "/", { body: ["INCR", "n"], headers })).json).toEqual({ result: 1 });
    expect((await send(world, "/pipeline", { body: [["INCR", "n"]], headers })).json).toEqual([{ result: 2 }]);
    expect((await send(world, "/get/n", { method: "GET", headers })).json).toEqual({ result: "2" });
    expect((await send(world, "/get/n", { method: "GET" })).status).toBe(404);
  }));

test("a key's scopes decide each command, and nobody may without one", () => {
  const keys = [
    { key: "reader-reader-reader", scopes: ["read"], prefix: "a" },
    { key: "writer-writer-writer", scopes: ["write"], prefix: "a" },
    { key: "ruler-ruler-ruler-ruler", scopes: ["read", "write", "admin"] },
  ];
  const vars = { TALLY_KEYS: JSON.stringify({ keys }), TALLY_ACCESS: "closed" };
  return inWorld({ vars, edgeVars: vars }, async (world) => {
    const by = async (key, ...body) => {
      const { status, json } = await send(world, "/redis", { body, headers: { authorization: `Bearer ${key}` } });
      return [status, json.error?.split(" ")[0] ?? json.result];
    };
    expect((await send(world, "/redis", { body: ["ping"] })).json.error).toMatch(/^WRONGPASS /);
    expect(await by("somebody-somebody-else", "ping")).toEqual([401, "WRONGPASS"]);
    expect(await by("writer-writer-writer", "incr", "a1")).toEqual([200, 1]);
    expect(await by("writer-writer-writer", "incr", "b1")).toEqual([400, "NOPERM"]);
    expect(await by("writer-writer-writer", "set", "a1", "5")).toEqual([400, "NOPERM"]);
    expect(await by("reader-reader-reader", "get", "a1")).toEqual([200, "1"]);
    expect(await by("reader-reader-reader", "keys", "*")).toEqual([400, "NOPERM"]);
    expect(await by("reader-reader-reader", "keys", "a*")).toEqual([200, ["a1"]]);
    expect(await by("ruler-ruler-ruler-ruler", "del", "a1")).toEqual([200, 1]);
    const token = await send(world, "/redis/ping?_token=reader-reader-reader", { method: "GET" });
    expect(token.json).toEqual({ result: "PONG" });
  });
});

test("a try with a name counts once, whatever of it was lost", () =>
  inWorld({ faults: true }, async (world) => {
    const headers = { "idempotency-key": "try-1" };
    const body = [["INCR", "n"], ["INCR", "n"], ["SET", "t", "x", "GET"], ["INCRBY", "n", 5]];
    await result(world, "SET", "t", "before");
    let lost = 1;
    world.fail(({ path }) => (path === "/run-commands" && lost-- > 0 ? "after" : undefined));
    const first = await send(world, "/redis/pipeline", { body, headers });
    expect(first.status).toBe(503);
    const again = await send(world, "/redis/pipeline", { body, headers });
    expect(again.json).toEqual([{ result: 1 }, { result: 2 }, { result: "before" }, { result: 7 }]);
    expect(await result(world, "GET", "n")).toBe("7");
    const other = await send(world, "/redis/pipeline", { body: [["DECR", "n"]], headers });
    expect(other.json[0].error).toMatch(/^ERR this idempotency key was used/);
  }));

test("a try with a name counts once as a command, in a pipeline and in a transaction; one that says only that it is a retry counts again", () =>
  inWorld({}, async (world) => {
    const forms = [
      ["/redis", ["INCRBY", "one", 5], { result: 5 }],
      ["/redis/pipeline", [["INCR", "two"], ["INCRBY", "two", 2], ["SADD", "set", "m"]], [{ result: 1 }, { result: 3 }, { result: 1 }]],
      ["/redis/multi-exec", [["INCR", "three"], ["ZINCRBY", "z", 2, "m"], ["PFADD", "h", "x"]], [{ result: 1 }, { result: "2" }, { result: 1 }]],
    ];
    for (const [path, body, wanted] of forms) {
      const headers = { "idempotency-key": `try-of-${path}` };
      for (let again = 0; again < 3; again += 1) {
        expect((await send(world, path, { body, headers })).json, path).toEqual(wanted);
      }
    }
    expect(await pipeline(world, ["MGET", "one", "two", "three"], ["ZSCORE", "z", "m"])).toEqual([
      { result: ["5", "3", "1"] }, { result: "2" },
    ]);
    const headers = { "upstash-telemetry-retry": "1" };
    expect((await send(world, "/redis", { body: ["INCRBY", "one", 5], headers })).json).toEqual({ result: 10 });
  }));

test("keys are listed and all of them ended", () =>
  inWorld({}, async (world) => {
    const names = Array.from({ length: 40 }, (_, index) => `k:${index}`);
    await pipeline(world, ...names.map((name) => ["INCR", name]));
    await result(world, "SET", "text", "x");
    await result(world, "HSET", "hash", "f", "v");
    expect(await result(world, "DBSIZE")).toBe(42);
    expect((await result(world, "KEYS", "k:?")).toSorted()).toEqual(names.slice(0, 10));
    const [cursor, found] = await result(world, "SCAN", "0", "MATCH", "k:*");
    expect([cursor, found.toSorted()]).toEqual(["0", names.toSorted()]);
    expect((await result(world, "SCAN", "0", "TYPE", "hash"))[1]).toEqual(["hash"]);
    expect(await result(world, "FLUSHDB")).toBe("OK");
    expect(await result(world, "DBSIZE")).toBe(0);
    expect((await world.call("GET", "/counters/k:1?consistency=strong")).status).toBe(404);
  }));

test("a board is the same by both interfaces: a sorted set here", () =>
  inWorld({}, async (world) => {
    const board = async (method, path, body) => (await world.call(method, `/boards/${path}`, { body })).json;
    expect(await result(world, "ZADD", "race", "81.5", "ann", "83", "bob", "83", "al")).toBe(3);
    expect(await board("GET", "race/members?limit=10")).toMatchObject({
      total: 3,
      entries: [
        { member: "bob", score: 83, rank: 1 }, { member: "al", rank: 2 }, { member: "ann", score: 81.5, rank: 3 },
      ],
    });
    await board("POST", "race/members/cat", '{"score":90,"metadata":{"car":"red"}}');
    expect(await result(world, "ZREVRANGE", "race", 0, 1, "WITHSCORES")).toEqual(["cat", "90", "bob", "83"]);
    expect(await result(world, "ZREVRANK", "race", "ann", "WITHSCORE")).toEqual([3, "81.5"]);
    expect(await result(world, "ZINCRBY", "race", "-10", "cat")).toBe("80");
    expect(await board("GET", "race/members/cat")).toMatchObject({ score: 80, rank: 4, metadata: { car: "red" } });
    // Those who are hidden there are not seen here.
    await board("POST", "race/members/bob", '{"hidden":true}');
    expect(await result(world, "ZMSCORE", "race", "bob", "al")).toEqual([null, "83"]);
    expect(await result(world, "TYPE", "race")).toBe("zset");
    expect(await result(world, "KEYS", "*")).toEqual(["race"]);
    expect(await result(world, "SCAN", 0, "TYPE", "zset")).toEqual(["0", ["race"]]);
    // A name is one thing at a time for those who speak so.
    const wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    expect(
      (await pipeline(world, ["INCR", "race"], ["GET", "race"], ["SADD", "race", "x"])).map(({ error }) => error),
    ).toEqual([wrong, wrong, wrong]);
    await world.add("counted", { delta: 3 });
    expect((await run(world, "ZADD", "counted", 1, "x")).error).toBe(wrong);
    expect((await run(world, "ZSCORE", "counted", "x")).error).toBe(wrong);
    expect(await result(world, "SET", "race", "5")).toBe("OK");
    expect((await world.call("GET", "/boards/race")).status).toBe(404);
    expect((await world.strong("race")).value).toBe(5);
    // One that was configured stays, and its settings hold.
    await board("PUT", "laps", '{"keep":"best","order":"asc","scores":"integer"}');
    await world.well("PUT", "/boards/two", { body: '{"members_max":2}' });
    expect(await result(world, "ZADD", "two", "1", "a", "2", "a", "3", "b")).toBe(2);
    expect(await result(world, "ZREM", "two", "b")).toBe(1);
    const { error } = await run(world, "ZADD", "two", "9", "a", "2", "b", "3", "c");
    expect(error).toMatch(/members_max.*nothing was changed$/);
    expect(await result(world, "ZRANGE", "two", "0", "-1", "WITHSCORES")).toEqual(["a", "2"]);
    expect(await result(world, "ZADD", "laps", "70", "ann")).toBe(1);
    expect(await result(world, "ZADD", "laps", "CH", "80", "ann")).toBe(0);
    expect((await run(world, "ZADD", "laps", "1", "bob", "70.5", "ann")).error).toBe(
      "ERR this board holds whole numbers from -(2^53 - 1) to 2^53 - 1",
    );
    expect((await run(world, "ZINCRBY", "laps", "1", "ann")).error).toBe(
      "ERR this board keeps the best score: send ZADD",
    );
    expect(await result(world, "ZRANGE", "laps", 0, -1)).toEqual(["ann"]);
    expect(await result(world, "ZREM", "laps", "ann")).toBe(1);
    expect(await board("GET", "laps")).toMatchObject({ total: 0, settings: { keep: "best" } });
    // An end is the board's, and that of the next one of its name is its own.
    await result(world, "ZADD", "brief", 1, "x");
    expect(await result(world, "PEXPIRE", "brief", 5_000)).toBe(1);
    await world.advance(8_000);
    expect((await world.call("GET", "/boards/brief")).status).toBe(404);
    await pipeline(
      world, ["ZADD", "brief", 1, "x"], ["EXPIRE", "brief", 100], ["ZREM", "brief", "x"], ["ZADD", "brief", 1, "y"],
    );
    expect(await result(world, "TTL", "brief")).toBe(-1);
    expect(await result(world, "FLUSHDB")).toBe("OK");
    expect((await world.call("GET", "/boards")).json.entries).toEqual([]);
  }));

test("a sorted set has the home of its first client, whichever command has made it", () =>
  inWorld({}, async (world) => {
    await result(world, "ZADD", "race", 1, "ann");
    await send(world, "/redis", { body: ["ZADD", "race", 2, "bob"], colo: "SYD" });
    await send(world, "/redis", { body: ["ZUNIONSTORE", "all", 1, "race"], colo: "SYD" });
    await send(world, "/redis", { body: ["ZRANGESTORE", "first", "race", 0, 0], colo: "SYD" });
    const home = async (name) => (await world.call("GET", `/boards/${name}`)).json.settings.home;
    expect([await home("race"), await home("all"), await home("first")]).toEqual(["FRA", "SYD", "SYD"]);
  }));

test("a set of any size is read page by page, and replies have a bound", () =>
  inWorld({}, async (world) => {
    const names = Array.from({ length: 2_500 }, (_, index) => `player:${String(index).padStart(5, "0")}`);
    await result(world, "ZADD", "many", ...names.flatMap((name, index) => [index % 7, name]));
    const found = [];
    let cursor = "0";
    do {
      let members;
      [cursor, members] = await result(world, "ZSCAN", "many", cursor, "MATCH", "*[02468]");
      found.push(...members.filter((_, index) => index % 2 === 0));
      // What moves meanwhile is found once all the same.
      await result(world, "ZINCRBY", "many", 100, found[0]);
    } while (cursor !== "0");
    expect(found).toEqual(names.filter((_, index) => index % 2 === 0));
    expect(new Set(await result(world, "ZRANDMEMBER", "many", 2_499)).size).toBe(2_499);
    expect((await result(world, "ZRANDMEMBER", "many", -5_000, "WITHSCORES")).length).toBe(10_000);
    expect((await run(world, "ZRANDMEMBER", "many", -100_001)).error).toMatch(/^ERR a command works on 100000 members/);
    // The longest names that are taken here have cursors too.
    const long = Array.from({ length: 3 }, (_, index) => `${index}${"x".repeat(1_023)}`);
    await result(world, "ZADD", "long", ...long.flatMap((name) => [5, name]));
    const first = (await world.call("GET", "/boards/long/members?limit=2")).json;
    const { status, json } = await world.call("GET", `/boards/long/members?limit=2&cursor=${first.cursor}`);
    expect([status, [...first.entries, ...(json.entries ?? [])].map(({ member }) => member)]).toEqual([
      200, long.toReversed(),
    ]);
  }));

test("commands of sorted sets count once under a key, also where their set has ended meanwhile", () =>
  inWorld({ faults: true }, async (world) => {
    const headers = { "idempotency-key": "once" };
    const body = [["ZINCRBY", "z", 2, "m"], ["ZPOPMAX", "z"], ["ZINCRBY", "n", 1, "m"]];
    let lost = 2;
    world.fail(({ path }) => (path === "/run-sorted" && lost-- > 0 ? "after" : undefined));
    await send(world, "/redis/pipeline", { body, headers });
    const again = await send(world, "/redis/pipeline", { body, headers });
    expect(again.json).toEqual([{ result: "2" }, { result: ["m", "2"] }, { result: "1" }]);
    expect((await send(world, "/redis/pipeline", { body, headers })).json).toEqual(again.json);
    expect(await pipeline(world, ["EXISTS", "z"], ["ZSCORE", "n", "m"])).toEqual([{ result: 0 }, { result: "1" }]);
  }));

test("unique elements are the same by both interfaces: a HyperLogLog here", () =>
  inWorld({}, async (world) => {
    await world.call("PUT", "/counters/readers", { body: '{"unique_hash":"redis"}' });
    await world.add("readers", { delta: 1, unique: "ann" });
    await world.add("readers", { delta: 1, unique: "bob" }, { colo: "SYD" });
    expect(
      await pipeline(
        world, ["PFCOUNT", "readers"], ["PFADD", "readers", "ann"], ["PFADD", "readers", "cat"],
        ["PFADD", "new", "dan"],
      ),
    ).toEqual([2, 0, 1, 1].map((result) => ({ result })));
    expect(await world.strong("readers")).toMatchObject({ value: 2, uniques: { estimate: 3 } });
    expect(await world.strong("new")).toMatchObject({ value: 0, uniques: { estimate: 1 } });
    expect(await result(world, "PFMERGE", "all", "readers", "new")).toBe("OK");
    expect(await result(world, "PFCOUNT", "readers", "new")).toBe(4);
    expect((await world.strong("all")).uniques.estimate).toBe(4);
    // What goes through the secret hash is none.
    await world.add("secret", { delta: 1, unique: "ann" });
    expect((await run(world, "PFADD", "secret", "x")).error).toBe(
      "WRONGTYPE Key is not a valid HyperLogLog string value.",
    );
    await result(world, "PEXPIRE", "all", 3_000);
    await world.advance(5_000);
    expect((await world.call("GET", "/counters/all?consistency=strong")).status).toBe(404);
  }));

// Without shebang: Redis 7.0 refuses its flag.
const FIXED = `
  local r = redis.call("INCRBY", KEYS[1], ARGV[2])`;

test("a counter that ends by its own setting ends no later, and no command says it does", () =>
  inWorld({}, async (world) => {
    for (const ttl_mode of ["fixed", "sliding"]) {
      const key = `own:${ttl_mode}`;
      await world.add(key);
      const body = JSON.stringify({ ttl_seconds: 30, ttl_mode });
      await world.well("PUT", `/counters/${encodeURIComponent(key)}`, { body });
      for (const command of [
        ["SET", key, 9], ["SET", key, 9, "EX", 500], ["SETEX", key, 500, 9], ["EXPIRE", key, 500], ["PERSIST", key],
        ["GETEX", key, "PERSIST"], ["GETSET", key, 9], ["MSET", "other", 1, key, 9], ["EXPIRE", key, 500, "GT"],
      ]) {
        const { error } = await run(world, ...command);
        expect(error, command.join(" ")).toMatch(/^ERR the counter ends by its own ttl_seconds/);
      }
      expect(await result(world, "EXISTS", "other")).toBe(0);
      expect(await result(world, "EXPIRE", key, 500, "LT")).toBe(0);
      expect(await result(world, "EXPIRE", key, 500, "NX")).toBe(0);
      expect(await result(world, "GET", key)).toBe("1");
      expect(await result(world, "SET", key, 9, "KEEPTTL")).toBe("OK");
      expect(await result(world, "INCRBY", key, 3)).toBe(12);
      const [moved] = await pipeline(world, ["INCR", key]);
      expect(moved).toEqual({ result: 13 });
      expect(await result(world, "TTL", key)).toBe(ttl_mode === "fixed" ? 30 : -1);
      await world.advance(31_000);
      expect(await result(world, "GET", key)).toBe(null);
      // Without it, it ends as any other.
      expect(await result(world, "SET", key, 5, "EX", 100)).toBe("OK");
      expect(await result(world, "TTL", key)).toBe(100);
    }
  }));

test("scripts of rate limits are known by their names, and no others", () =>
  inWorld({}, async (world) => {
    const fixed = "b2efc02798c8e9b471a10f9b1d5745db89923ff3";
    expect(await result(world, "EVALSHA", fixed, 1, "rl:1", 3, 60_000, 1)).toEqual([1, 3]);
    expect(await result(world, "EVALSHA", fixed, 1, "rl:1", 3, 60_000, 2)).toEqual([3, 3]);
    expect(await result(world, "PTTL", "rl:1")).toBeGreaterThan(59_000);
    expect((await run(world, "EVALSHA", "0".repeat(40), 1, "k")).error).toBe(
      "NOSCRIPT No matching script. Please use EVAL. Tally runs only the scripts of @upstash/ratelimit, upstash-ratelimit, rate-limit-redis and rate-limiter-flexible",
    );
    expect((await run(world, "EVAL", FIXED, 1, "k", 1, 1)).error).toMatch(/^ERR Tally runs only the scripts of/);
    expect(await result(world, "SCRIPT", "LOAD", "return 1")).toBe("e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    expect(await result(world, "SCRIPT", "EXISTS", fixed, "0".repeat(40))).toEqual([1, 0]);
    await result(world, "EVALSHA", "54bd274ddc59fb3be0f42deee2f64322a10e2b50", 1, "rl:*");
    expect(await result(world, "EXISTS", "rl:1")).toBe(0);
  }));

// Numbers as numbers: what they are printed as has become shorter with Redis's versions. Scores have one zero here.
const plain = (reply) => {
  if (Buffer.isBuffer(reply)) return plain(reply.toString());
  if (Array.isArray(reply)) return reply.map(plain);
  if (reply instanceof Error) return { error: reply.message };
  return typeof reply === "string" && reply !== "" && !Number.isNaN(Number(reply)) ? Number(reply) + 0 : reply;
};

const exact = (reply) => {
  if (Buffer.isBuffer(reply)) return reply.toString();
  if (reply instanceof Error) return { error: reply.message };
  return reply;
};

const lacking = MISSING ? `: ${MISSING}` : "";

for (const [what, makes, normalize, steps] of [
  ["strings, hashes and sets", commandFrom, exact, 600],
  ["sorted sets", sortedCommandFrom, plain, 600],
  ["HyperLogLogs", elementsCommandFrom, plain, 300],
]) {
  test.skipIf(MISSING)(`random commands of ${what} are replied and told of as by a real Redis${lacking}`, () =>
    inWorld({}, async (world) => {
      const redis = await openRedis();
      try {
        const random = randomFrom(SEED);
        const commands = [];
        const [wantedEvents, listener] = [
          await redis.listen(), await listen(world, "/redis/psubscribe/__keyevent@0__:*"),
        ];
        for (let step = 0; step < steps; step += 1) {
          const command = makes(random);
          commands.push(command.join(" "));
          const wanted = normalize(await redis.call(...command).catch((error) => error));
          const { result, error } = await run(world, ...command);
          let own = error === undefined ? normalize(result) : { error };
          // The clocks of the two go each at its own pace.
          if (command[0] === "ttl" && Math.abs(own - wanted) <= 2) own = wanted;
          expect(own, `seed ${SEED}, step ${step}: ${command.join(" ")}`).toEqual(wanted);
          // What was told of these stands before this.
          if (step % STRIDE === STRIDE - 1) {
            await Promise.all([redis.call("set", "stride", "over"), run(world, "set", "stride", "over")]);
          }
        }
        const strides = steps / STRIDE;
        const overs = (events) => events.filter((event) => event === "set stride").length;
        const ownEvents = () => listener.messages.map(({ channel, text }) => `${channel.split(":")[1]} ${text}`);
        await until(() => overs(wantedEvents) === strides && overs(ownEvents()) === strides, "all events");
        const inStrides = (events) => events.join("\n").split("\nset stride");
        const [own, wanted] = [inStrides(ownEvents()), inStrides(wantedEvents)];
        for (let stride = 0; stride < strides; stride += 1) {
          const those = commands.slice(stride * STRIDE, (stride + 1) * STRIDE).join("; ");
          expect(own[stride], `seed ${SEED}, after ${stride * STRIDE} steps: ${those}`).toBe(wanted[stride]);
        }
        listener.close();
      } finally {
        await redis.close();
      }
    }));
}

// Steps of each script, in which its windows pass several times.
const SCRIPT_STEPS = 40;
const WINDOW_MS = 600_000;
const WITHOUT = MISSING ?? WITHOUT_VERSIONS;

test.skipIf(WITHOUT)(`scripts of all versions for Python reply as on a real Redis${WITHOUT ? `: ${WITHOUT}` : ""}`, () =>
  inWorld({}, async (world) => {
    const redis = await openRedis();
    try {
      const random = randomFrom(SEED);
      const pick = (items) => items[Math.floor(random() * items.length)];
      for (const [sha, text] of new Map(pythonVersions().flatMap(({ scripts }) => scripts))) {
        await Promise.all([redis.call("flushall"), run(world, "flushall")]);
        // The flag of the service that the clients come from is none of a real Redis.
        const script = text.replace(/^#!lua.*\n/, "");
        let now = 1_700_000_000_000;
        for (let step = 0; step < SCRIPT_STEPS; step += 1) {
          now += Math.floor(random() * WINDOW_MS * pick([0.1, 0.1, 3]));
          const window = Math.floor(now / WINDOW_MS);
          const [limit, by] = [5, pick([1, 1, 2, 7, 0])];
          let call = [1, `fixed:${window}`, WINDOW_MS, by];
          if (text.includes("KEYS[2]")) call = [2, `${window}`, `${window - 1}`, limit, now, WINDOW_MS, by];
          if (text.includes("HMGET")) call = [1, "bucket", limit, WINDOW_MS, pick([2, 1, 2]), now, by];
          const wanted = plain(await redis.call("eval", script, ...call));
          const { result } = await run(world, ...pick([["eval", text], ["evalsha", sha]]), ...call);
          expect(plain(result), `seed ${SEED}, step ${step}: ${sha} ${call.join(" ")}`).toEqual(wanted);
          const ends = await Promise.all([redis.call("pttl", call[1]), run(world, "pttl", call[1])]);
          expect(Math.abs(ends[0] - ends[1].result), `the expiry at step ${step}: ${sha}`).toBeLessThan(WINDOW_MS / 2);
        }
      }
    } finally {
      await redis.close();
    }
  }));

// Not those whose words are a text or a script, or that are answered by a stream.
const NAMES_OF_COMMANDS = `get mget set setex psetex setnx mset msetnx getset getdel getex incr decr incrby decrby incrbyfloat del unlink exists touch type expire pexpire
  expireat pexpireat ttl pttl expiretime pexpiretime persist hset hmset hget hmget hgetall hdel hincrby sadd srem smembers srandmember scard sismember smismember sunionstore
  sdiffstore zadd zincrby zscore zmscore zcard zrank zrevrank zcount zlexcount zrange zrevrange zrangebyscore zrevrangebyscore zrangebylex zrevrangebylex zrandmember
  zscan zrem zremrangebyrank zremrangebyscore zremrangebylex zpopmin zpopmax zrangestore zunion zinter zdiff zintercard zunionstore zinterstore zdiffstore pfadd
  pfcount pfmerge ping echo keys scan dbsize nonsense`.split(/\s+/);
const WORDS = [
  "x", "1", "2", "-1", "1.5", "nx", "xx", "ex", "px", "get", "keepttl", "withscores", "withscore", "weights",
  "aggregate", "byscore", "bylex", "rev", "match", "count", "(1", "[a", "-", "+", "9223372036854775808",
];

test.skipIf(MISSING)(`wrong commands are refused with the words of a real Redis${lacking}`, () =>
  inWorld({}, async (world) => {
    const redis = await openRedis();
    try {
      const random = randomFrom(SEED);
      const pick = (items) => items[Math.floor(random() * items.length)];
      let refused = 0;
      for (let step = 0; step < 1_500; step += 1) {
        const [name, rest] = [
          pick(NAMES_OF_COMMANDS), Array.from({ length: Math.floor(random() * 6) }, () => pick(WORDS)),
        ];
        // A key of its own, so that nothing ends meanwhile; these begin with a count.
        if (rest.length > 0 && !/^z(union|inter|diff|intercard)$/.test(name)) rest[0] = `key:${step}`;
        // Counters hold whole numbers, and WITHSCORE came with Redis 7.2.
        if (
          (name === "incrbyfloat" && ["1.5", "9223372036854775808"].includes(rest[1])) ||
          (/^z(rev)?rank$/.test(name) && rest.length > 2)
        ) {
          continue;
        }
        // The service that the clients come from takes it without keys.
        if (name === "unlink" && rest.length === 0) continue;
        // Redis takes -1 for the largest cursor.
        if (name === "zscan" && rest[1] === "-1") continue;
        const command = [name, ...rest];
        const wanted = await redis.call(...command).catch((error) => error);
        const { error } = await run(world, ...command);
        expect(error, `seed ${SEED}, step ${step}: ${JSON.stringify(command)}`).toBe(
          wanted instanceof Error ? wanted.message : undefined,
        );
        refused += wanted instanceof Error;
      }
      expect(refused).toBeGreaterThan(500);
    } finally {
      await redis.close();
    }
  }));
