// Redis's dialect as it is deployed: the published client listens to keys.
import { Redis } from "@upstash/redis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openWorld, until } from "../world.mjs";

let world;
let url;
beforeAll(async () => {
  world = await openWorld();
  url = new URL("/redis", await world.url()).href;
});
afterAll(() => world.close());

test("@upstash/redis subscribes to a key and to a pattern of keys", async () => {
  // What it is told are words, no JSON.
  const redis = new Redis({ url, token: "any", enableTelemetry: false, automaticDeserialization: false });
  const [one, all] = [redis.subscribe("__keyspace@0__:home"), redis.psubscribe("__keyspace@0__:ho*")];
  const [messages, allMessages, begun, failed] = [[], [], [], []];
  one.on("subscribe", (count) => begun.push(count));
  one.on("message", ({ channel, message }) => messages.push([channel, message]));
  all.on("psubscribe", (count) => begun.push(count));
  all.on("pmessage", ({ pattern, channel, message }) => allMessages.push([pattern, channel, message]));
  for (const subscriber of [one, all]) subscriber.on("error", (error) => failed.push(error));
  await until(() => begun.length === 2, "both streams");
  expect(await redis.incr("home")).toBe(1);
  await redis.zadd("house", { score: 1, member: "a" });
  await redis.del("home");
  await until(() => messages.length === 2 && allMessages.length === 3, "what happened");
  expect(messages).toEqual([
    ["__keyspace@0__:home", "incrby"], ["__keyspace@0__:home", "del"],
  ]);
  expect(allMessages).toEqual(
    [
      ["home", "incrby"], ["house", "zadd"], ["home", "del"],
    ].map(([key, event]) => ["__keyspace@0__:ho*", `__keyspace@0__:${key}`, event]),
  );
  await Promise.all([one.unsubscribe(), all.unsubscribe()]);
  expect(failed).toEqual([]);
});

test("a subscriber to a channel of messages is told why not", async () => {
  const redis = new Redis({ url, token: "any", enableTelemetry: false });
  const subscriber = redis.subscribe("news");
  const failed = [];
  subscriber.on("error", (error) => failed.push(error.message));
  await until(() => failed.length === 1, "the refusal");
  expect(failed[0]).toContain("messages are not what Tally is for");
});
