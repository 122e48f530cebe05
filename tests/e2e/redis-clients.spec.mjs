// The clients that people have, as they are published, against the service.
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { Ratelimit } from "@upstash/ratelimit";
import { Redis } from "@upstash/redis";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { unknownScripts } from "../../scripts/ratelimit-scripts.mjs";
import { ORIGIN, each, openWorld } from "./world.mjs";

let world;
let redis;
beforeEach(async () => {
  world = await openWorld({});
  // The clients know `fetch` alone; the world's own time is theirs.
  vi.stubGlobal("fetch", async (url, { method, headers, body } = {}) => {
    const { status, headers: told, bytes } = await world.host.fetch(url, { method, headers: { ...headers }, body, colo: "FRA" });
    return new Response(bytes, { status, headers: told });
  });
  vi.spyOn(Date, "now").mockImplementation(() => world.now());
  redis = new Redis({ url: `${ORIGIN}/redis`, token: "any", enableTelemetry: false, retry: false });
});
afterEach(async () => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
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
  const told = await redis.multi().incrby("a", 4).set("b", 2).get("b").exec();
  expect(told).toEqual([5, "OK", 2]);
  await expect(redis.incr("hash")).rejects.toThrow("WRONGTYPE");
  await expect(redis.eval("return 1", [], [])).rejects.toThrow("ERR Tally runs the scripts of");
  expect(await redis.del("a", "b", "none")).toBe(2);
  expect(await redis.flushdb()).toBe("OK");
  expect(await redis.dbsize()).toBe(0);
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
  const limits = new Ratelimit({ redis, limiter: Ratelimit.fixedWindow(1, "10 s"), dynamicLimits: true, ephemeralCache: false });
  await limits.setDynamicLimit({ limit: 3 });
  const verdicts = await each(Array.from({ length: 5 }), 5, () => limits.limit("somebody"));
  expect(verdicts.filter(({ success }) => success).length).toBe(3);
  await redis.sadd("@upstash/ratelimit:denyList:all", "1.2.3.4");
  await redis.set("@upstash/ratelimit:ipDenyListStatus", "valid", { ex: 60 });
  const guarded = new Ratelimit({ redis, limiter: Ratelimit.fixedWindow(5, "10 s"), enableProtection: true });
  expect(await guarded.limit("me", { ip: "1.2.3.4" })).toMatchObject({ success: false, deniedValue: "1.2.3.4" });
  expect(await guarded.limit("me", { ip: "1.2.3.5" })).toMatchObject({ success: true });
});

test("every script of the installed version is known, but for those of analytics", () => {
  const entry = createRequire(import.meta.url).resolve("@upstash/ratelimit");
  expect(existsSync(entry)).toBe(true);
  expect(unknownScripts([readFileSync(entry, "utf8")])).toEqual([]);
});
