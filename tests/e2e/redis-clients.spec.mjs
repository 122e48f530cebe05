// The clients that people have, as they are published, against the service.
import { execFile } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Analytics } from "@upstash/core-analytics";
import { MultiRegionRatelimit, Ratelimit } from "@upstash/ratelimit";
import { Redis } from "@upstash/redis";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { PYTHON, WITHOUT_VERSIONS, pythonVersions, versionsIn } from "../../scripts/python-clients.mjs";
import { unknownScripts } from "../../scripts/ratelimit-scripts.mjs";
import { ORIGIN, each, openWorld } from "./world.mjs";

// Where the client of another region calls.
const OTHER = "http://other.example";
let world;
let second;
let redis;
beforeEach(async () => {
  world = await openWorld({});
  // The clients know `fetch` alone; the world's own time is theirs.
  vi.stubGlobal("fetch", async (url, { method, headers, body } = {}) => {
    const [to, target] = url.startsWith(OTHER) ? [second, url.replace(OTHER, ORIGIN)] : [world, url];
    const {
      status, headers: answerHeaders, bytes,
    } = await to.host.fetch(target, { method, headers: { ...headers }, body, colo: "FRA" });
    return new Response(bytes, { status, headers: answerHeaders });
  });
  vi.spyOn(Date, "now").mockImplementation(() => world.now());
  redis = new Redis({ url: `${ORIGIN}/redis`, token: "any", enableTelemetry: false, retry: false });
});
afterEach(async () => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
  await second?.close();
  second = undefined;
  await world.close();
});

test("@upstash/redis counts, sets, expires, lists and ends keys", async () => {
  // What is sent in one tick goes as one pipeline.
  const counted = await Promise.all(Array.from({ length: 100 }, () => redis.incr("home")));
  expect(counted).toEqual(Array.from({ length: 100 }, (_, index) => index + 1));
  expect(await redis.get("home")).toBe(100);
  expect((await world.strong("home")).value).toBe(100);
  expect(await redis.set("text", { deep: ["ö", 1] }, { ex: 60 })).toBe("OK");
  expect(await redis.get("text")).toEqual({ deep: ["ö", 1] });
  expect(await redis.set("text", "other", { nx: true })).toBe(null);
  expect(await redis.ttl("text")).toBe(60);
  expect(await redis.mset({ a: 1, b: "two" })).toBe("OK");
  expect(await redis.mget("a", "b", "none")).toEqual([1, "two", null]);
  expect(await redis.hset("hash", { one: 1, two: "zwei" })).toBe(2);
  expect(await redis.hgetall("hash")).toEqual({ one: 1, two: "zwei" });
  expect(await redis.type("hash")).toBe("hash");
  expect(await redis.ping()).toBe("PONG");
  const [cursor, keys] = await redis.scan(0);
  expect([cursor, keys.toSorted()]).toEqual(["0", ["a", "b", "hash", "home", "text"]]);
  const replies = await redis.multi().incrby("a", 4).set("b", 2).get("b").exec();
  expect(replies).toEqual([5, "OK", 2]);
  await expect(redis.incr("hash")).rejects.toThrow("WRONGTYPE");
  await expect(redis.eval("return 1", [], [])).rejects.toThrow("ERR Tally runs only the scripts of");
  expect(await redis.del("a", "b", "none")).toBe(2);
  expect(await redis.flushdb()).toBe("OK");
  expect(await redis.dbsize()).toBe(0);
});

test("@upstash/redis repeats what got no answer, which counts once if its middleware adds a key", async () => {
  const answered = globalThis.fetch;
  let lost;
  vi.stubGlobal("fetch", async (...call) => {
    const answer = await answered(...call);
    lost -= 1;
    if (lost >= 0) throw new TypeError("the answer is lost");
    return answer;
  });
  const open = () => new Redis({ url: `${ORIGIN}/redis`, token: "any", retry: { retries: 5, backoff: () => 0 } });
  const keyed = open();
  keyed.use((request, next) =>
    next({ ...request, headers: { ...request.headers, "Idempotency-Key": crypto.randomUUID() } }));
  lost = 2;
  expect(await Promise.all([keyed.incr("keyed"), keyed.incr("keyed")])).toEqual([1, 2]);
  lost = 2;
  expect(await keyed.pipeline().incr("keyed").get("keyed").exec()).toEqual([3, 3]);
  expect(await keyed.get("keyed")).toBe(3);
  lost = 2;
  expect(await open().incr("twice"), "without the middleware").toBe(3);
  lost = 1;
  const single = new Redis({ url: `${ORIGIN}/redis`, token: "any", retry: { retries: 0 } });
  await expect(single.incr("single")).rejects.toThrow("the answer is lost");
  expect(await keyed.get("single")).toBe(1);
});

const limiters = {
  "fixed window": Ratelimit.fixedWindow(5, "10 s"),
  "sliding window": Ratelimit.slidingWindow(5, "10 s"),
  "token bucket": Ratelimit.tokenBucket(5, "10 s", 5),
};

for (const [name, limiter] of Object.entries(limiters)) {
  test(`@upstash/ratelimit admits as much as its ${name} says, to everybody at once`, async () => {
    const limits = new Ratelimit({ redis, limiter, ephemeralCache: false });
    const verdicts = await each(Array.from({ length: 12 }), 12, () => limits.limit("somebody"));
    expect(verdicts.filter(({ success }) => success).length).toBe(5);
    expect((await limits.getRemaining("somebody")).remaining).toBeLessThanOrEqual(0);
    expect((await limits.limit("another")).success).toBe(true);
    await limits.resetUsedTokens("somebody");
    expect(await limits.getRemaining("somebody")).toMatchObject({ remaining: 5, limit: 5 });
    expect(await limits.limit("somebody", { rate: 3 })).toMatchObject({ success: true, remaining: 2 });
    expect(await limits.limit("somebody", { rate: -2 })).toMatchObject({ success: true, remaining: 4 });
    await world.advance(25_000);
    expect(await limits.limit("somebody")).toMatchObject({ success: true, remaining: 4, limit: 5 });
  });
}

test("@upstash/ratelimit takes another limit from a key, and knows who is denied", async () => {
  const limits = new Ratelimit({
    redis, limiter: Ratelimit.fixedWindow(1, "10 s"), dynamicLimits: true, ephemeralCache: false,
  });
  await limits.setDynamicLimit({ limit: 3 });
  const verdicts = await each(Array.from({ length: 5 }), 5, () => limits.limit("somebody"));
  expect(verdicts.filter(({ success }) => success).length).toBe(3);
  await redis.sadd("@upstash/ratelimit:denyList:all", "1.2.3.4");
  await redis.set("@upstash/ratelimit:ipDenyListStatus", "valid", { ex: 60 });
  const guarded = new Ratelimit({ redis, limiter: Ratelimit.fixedWindow(5, "10 s"), enableProtection: true });
  expect(await guarded.limit("me", { ip: "1.2.3.4" })).toMatchObject({ success: false, deniedValue: "1.2.3.4" });
  expect(await guarded.limit("me", { ip: "1.2.3.5" })).toMatchObject({ success: true });
});

test("@upstash/redis keeps boards", async () => {
  expect(
    await redis.zadd(
      "race", { score: 2, member: "ann" }, { score: 1.5, member: "bob" }, { score: 2, member: { deep: 1 } },
    ),
  ).toBe(3);
  expect(await redis.zrange("race", 0, -1, { withScores: true })).toEqual(["bob", 1.5, "ann", 2, { deep: 1 }, 2]);
  expect(await redis.zrange("race", 0, 7, { rev: true, offset: 1, count: 1 })).toEqual(["ann"]);
  expect(await redis.zrange("race", "(1.5", "+inf", { byScore: true })).toEqual(["ann", { deep: 1 }]);
  expect(await redis.zincrby("race", 5, "bob")).toBe(6.5);
  expect(await redis.zadd("race", { gt: true, ch: true }, { score: 1, member: "bob" })).toBe(0);
  expect(await redis.zrank("race", "bob")).toBe(2);
  expect(await redis.zmscore("race", ["ann", "none"])).toEqual([2, null]);
  expect(await redis.zscan("race", 0)).toEqual(["0", ["ann", 2, { deep: 1 }, 2, "bob", 6.5]]);
  expect(await redis.zunionstore("all", 2, ["race", "none"], { weights: [2, 1], aggregate: "max" })).toBe(3);
  expect(await redis.zpopmax("all", 2)).toEqual(["bob", 13, { deep: 1 }, 4]);
  expect(await redis.zremrangebyscore("race", 2, 2)).toBe(2);
  expect((await world.call("GET", "/boards/race/members")).json.entries).toMatchObject([{ member: "bob", score: 6.5 }]);
});

test("analytics of @upstash/ratelimit are kept and read", async () => {
  const limits = new Ratelimit({
    redis, limiter: Ratelimit.fixedWindow(2, "10 s"), analytics: true, ephemeralCache: false,
  });
  for (const identifier of ["ann", "ann", "ann", "bob"]) {
    const { pending } = await limits.limit(identifier);
    await pending;
  }
  const analytics = new Analytics({ redis, prefix: "@upstash/ratelimit", window: "1h" });
  expect(await analytics.aggregateBucket("events", "success", world.now())).toMatchObject({
    success: { true: 3, false: 1 },
  });
  expect(await analytics.getAllowedBlocked("events", 24, world.now())).toEqual({
    ann: { success: 2, blocked: 1 }, bob: { success: 1, blocked: 0 },
  });
  const tops = await analytics.getMostAllowedBlocked("events", 24, 5, world.now());
  expect(tops).toEqual({
    allowed: [
      { identifier: "ann", count: 2 }, { identifier: "bob", count: 1 },
    ],
    ratelimited: [{ identifier: "ann", count: 1 }], denied: [],
  });
});

test("@upstash/ratelimit joins several regions", async () => {
  // Each region is a deployment of its own: the client sums what it finds in both, and tells each what the other had
  // first.
  second = await openWorld({});
  const other = new Redis({ url: `${OTHER}/redis`, token: "any", enableTelemetry: false, retry: false });
  for (const limiter of [MultiRegionRatelimit.fixedWindow(3, "10 s"), MultiRegionRatelimit.slidingWindow(3, "10 s")]) {
    const limits = new MultiRegionRatelimit({
      redis: [redis, other], limiter, prefix: "regions", ephemeralCache: false,
    });
    const verdicts = [];
    for (let call = 0; call < 5; call += 1) {
      const { success, pending } = await limits.limit("me");
      await pending;
      verdicts.push(success);
    }
    expect(verdicts).toEqual([true, true, true, false, false]);
    await Promise.all([redis.flushdb(), other.flushdb()]);
  }
});

const WITHOUT_PYTHON = existsSync(PYTHON) ? undefined : "the Python clients are not installed (scripts/python-clients.mjs)";

test.skipIf(WITHOUT_PYTHON)(`the Python clients${WITHOUT_PYTHON ? `: ${WITHOUT_PYTHON}` : ""}`, async () => {
  const server = createServer(async (request, response) => {
    const pieces = await request.toArray();
    const { method, url, headers } = request;
    const answer = await world.host.fetch(ORIGIN + url, { method, headers, body: Buffer.concat(pieces), colo: "FRA" });
    response.writeHead(answer.status, { "content-type": "application/json" }).end(answer.bytes);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    const script = fileURLToPath(new URL("../python/clients.py", import.meta.url));
    const { stdout } = await promisify(execFile)(PYTHON, [script, `http://127.0.0.1:${server.address().port}/redis`]);
    expect(JSON.parse(stdout)).toEqual([]);
  } finally {
    server.close();
  }
});

test("every script of the installed versions is known", () => {
  const { resolve } = createRequire(import.meta.url);
  const entries = [
    resolve("@upstash/ratelimit"), createRequire(resolve("@upstash/ratelimit")).resolve("@upstash/core-analytics"),
  ];
  expect(entries.every((entry) => existsSync(entry))).toBe(true);
  expect(unknownScripts(entries.map((entry) => readFileSync(entry, "utf8")))).toEqual([]);
});

test.skipIf(WITHOUT_VERSIONS)(`every script of all versions for Python is known${WITHOUT_VERSIONS ? `: ${WITHOUT_VERSIONS}` : ""}`, () => {
  expect(versionsIn("versions.txt")).toContain(versionsIn("requirements.txt")[0]);
  for (const { version, scripts, programs } of pythonVersions()) {
    expect([version, scripts.length, unknownScripts(programs)]).toEqual([version, 3, []]);
  }
});
