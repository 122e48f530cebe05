// Limiters of other people on the native server's Redis port, as they are published: their scripts, and their plain
// commands. Each also runs on a real Redis where there is one, and answers there as here.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, describe, test } from "node:test";
import { createClient } from "@redis/client";
import express from "express";
import { rateLimit } from "express-rate-limit";
import { Redis } from "ioredis";
import { RedisStore } from "rate-limit-redis";
import { BurstyRateLimiter, RateLimiterQueue, RateLimiterRedis } from "rate-limiter-flexible";
import { MISSING, openRedis } from "../e2e/redis.mjs";
import { placeFor } from "./place.mjs";

const WITHIN = { timeout: 120_000 };
const place = placeFor("resp-limits");

const REJECTED = Symbol("rejected");
const points = ({ consumedPoints, remainingPoints, isFirstInDuration }) =>
  ({ consumedPoints, remainingPoints, isFirstInDuration });
const outcome = (asked) => asked.then(points, (refused) => {
  if (refused instanceof Error) throw refused;
  return { [REJECTED]: true, ...points(refused) };
});

/** What rate-limiter-flexible answers to these calls, and the times that must lie within its window. */
async function flexible(client, useRedisPackage = false) {
  const limiterOf = (options) =>
    new RateLimiterRedis({ storeClient: client, useRedisPackage, duration: 100, ...options });
  const limiter = limiterOf({ points: 3, keyPrefix: "flex" });
  const answers = [];
  for (const cost of [1, 1, 1, 1]) answers.push(await outcome(limiter.consume("ann", cost)));
  answers.push(await outcome(limiter.consume("bob", 2)));
  answers.push(points(await limiter.penalty("bob", 5)), points(await limiter.reward("bob", 4)));
  answers.push(points(await limiter.get("bob")), await limiter.get("nobody"), await limiter.delete("ann"));
  answers.push(await limiter.get("ann"), points(await limiter.block("cyd", 50)), await outcome(limiter.consume("cyd")));
  const left = (await limiter.get("bob")).msBeforeNext;
  assert.ok(left > 0 && left <= 100_000, `${left} ms are left of a window of 100 s`);
  answers.push(points(await limiter.set("dan", 2, 0)), points(await limiter.get("dan")));
  const burst = limiterOf({ points: 2, keyPrefix: "burst" });
  const both = new BurstyRateLimiter(limiter, burst);
  for (let left = 6; left > 0; left -= 1) {
    answers.push((await both.consume("eve").catch(() => REJECTED)) === REJECTED);
  }
  const queue = new RateLimiterQueue(limiterOf({ points: 5 }));
  answers.push(await Promise.all([queue.removeTokens(2), queue.removeTokens(1)]));
  return answers;
}

/** What an Express application with express-rate-limit and its Redis store answers. */
async function limited(sendCommand, prefix) {
  const store = new RedisStore({ sendCommand, prefix });
  const app = express();
  app.use(rateLimit({
    windowMs: 100_000, limit: 3, store, standardHeaders: "draft-7", legacyHeaders: false, keyGenerator: () => "one",
    skipFailedRequests: true,
  }));
  app.get("/", (_, response) => response.send("hello"));
  app.get("/fails", (_, response) => response.status(500).send("no"));
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  const answers = [];
  try {
    for (const path of ["/", "/fails", "/", "/", "/"]) {
      const answer = await fetch(`http://127.0.0.1:${server.address().port}${path}`);
      // How many seconds are left is a matter of the clock.
      const header = answer.headers.get("ratelimit")?.replace(/reset=(100|9\d)$/, "reset=soon");
      answers.push([answer.status, header]);
      // A failed request is given back after its answer.
      if (path === "/fails") while ((await store.get("one")).totalHits !== 1) await new Promise(setImmediate);
    }
    await store.resetKey("one");
    answers.push((await store.increment("one")).totalHits, (await store.get("nobody")).totalHits);
  } finally {
    server.close();
    server.closeAllConnections();
  }
  return answers;
}

describe("limiters of other people", WITHIN, () => {
  let redis;
  before(async () => (redis = MISSING === undefined ? await openRedis() : undefined));
  after(() => redis?.close());

  async function compare(work) {
    const { server } = await place.begin({ options: ["--resp", "0"] });
    const port = Number(new URL(server.respUrl).port);
    const own = await work({ port, host: "127.0.0.1", url: server.respUrl });
    if (redis !== undefined) {
      await redis.call("FLUSHALL");
      assert.deepEqual(own, await work({ path: redis.path }));
    }
    assert.deepEqual(await server.end(), { code: 0, signal: null });
    return own;
  }

  const withIoredis = (work) => async (options) => {
    const client = new Redis({ ...options, retryStrategy: () => null });
    try {
      return await work(client);
    } finally {
      client.disconnect();
    }
  };
  const withNodeRedis = (work) => async ({ url, path }) => {
    const client = await createClient(path === undefined ? { url } : { socket: { path } }).connect();
    try {
      return await work(client);
    } finally {
      await client.close();
    }
  };

  test("rate-limiter-flexible limits by ioredis, and its answers add up", async () => {
    const answers = await compare(withIoredis(flexible));
    assert.deepEqual(answers.slice(0, 4), [
      { consumedPoints: 1, remainingPoints: 2, isFirstInDuration: true },
      { consumedPoints: 2, remainingPoints: 1, isFirstInDuration: false },
      { consumedPoints: 3, remainingPoints: 0, isFirstInDuration: false },
      { [REJECTED]: true, consumedPoints: 4, remainingPoints: 0, isFirstInDuration: false },
    ]);
  });

  test("rate-limiter-flexible limits by node-redis", async () => {
    await compare(withNodeRedis((client) => flexible(client, true)));
  });

  test("express-rate-limit limits by ioredis", async () => {
    const answers = await compare(withIoredis((client) => limited((...words) => client.call(...words), "express:")));
    assert.deepEqual(answers.map((answer) => answer[0] ?? answer), [200, 500, 200, 200, 429, 1, NaN]);
  });

  test("express-rate-limit limits by node-redis", async () => {
    await compare(withNodeRedis((client) => limited((...words) => client.sendCommand(words), "express:")));
  });

  test("a window of one command counts as many as were let in", async () => {
    const { server } = await place.begin({ options: ["--resp", "0"] });
    const client = await createClient({ url: server.respUrl, RESP: 3 }).connect();
    const asked = Array.from({ length: 200 }, () =>
      client.sendCommand(["INCREX", "window", "UBOUND", "50", "EX", "100", "ENX"]));
    const replies = await Promise.all(asked);
    assert.equal(replies.filter(([, applied]) => applied === 1).length, 50);
    assert.deepEqual(replies.at(-1), [50, 0]);
    assert.ok((await client.ttl("window")) > 0);
    assert.deepEqual(await client.sendCommand(["INCREX", "floats", "BYFLOAT", "3"]), [3, 3]);
    assert.equal(await client.hSet("hash", { one: "1", two: "2" }), 2);
    assert.deepEqual(await client.hExpire("hash", "one", 100), [1]);
    assert.deepEqual(await client.hTTL("hash", ["one", "two", "none"]), [100, -1, -2]);
    assert.deepEqual(await client.hPersist("hash", "one"), [1]);
    const expiration = { type: "EX", value: 9 };
    assert.deepEqual(await client.hGetEx("hash", ["one", "none"], { expiration }), ["1", null]);
    assert.ok((await client.hpTTL("hash", "one"))[0] > 0);
    await client.close();
    await server.end();
  });
});
