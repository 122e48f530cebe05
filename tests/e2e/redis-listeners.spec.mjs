// Who listens to keys is told what happens to them, in order, and what waits for whoever does not read is bounded.
import { expect, test } from "vitest";
import { listen } from "./listeners.mjs";
import { ORIGIN, openWorld, until } from "./world.mjs";

async function inWorld(options, work) {
  const world = await openWorld(options);
  try {
    await work(world);
  } finally {
    await world.close();
  }
}

async function run(world, ...commands) {
  const { bytes } = await world.host.fetch(`${ORIGIN}/redis/pipeline`, {
    method: "POST", body: JSON.stringify(commands), colo: "FRA",
  });
  return JSON.parse(bytes.toString());
}

const texts = ({ messages }) => messages.map(({ text }) => text);

test("a listener is told of its keys alone, by the key and by the event, in the order in which they were changed", () =>
  inWorld({}, async (world) => {
    // The clients send an empty command along.
    const one = await listen(world, "/redis/subscribe/__keyspace@0__:a", { method: "POST", body: "[]" });
    expect([one.status, one.headers["content-type"], one.begun]).toEqual([
      200, "text/event-stream", [["subscribe", "__keyspace@0__:a", "1"]],
    ]);
    const several = await listen(world, "/redis/subscribe/__keyspace@0__:blog/post/__keyevent@0__:del");
    expect(several.begun.map(([, channel, count]) => [channel, count])).toEqual([
      ["__keyspace@0__:blog/post", "1"], ["__keyevent@0__:del", "2"],
    ]);
    const pattern = await listen(world, "/redis/psubscribe/__keyspace@0__:a*");
    await run(
      world, ["INCR", "a"], ["INCRBY", "a", 4], ["INCR", "other"], ["SET", "ab", "x", "EX", 100], ["GET", "a"],
      ["ZADD", "blog/post", 1, "m"], ["DEL", "a", "none"],
    );
    await until(
      () => [one, several, pattern].every(({ messages }, index) => messages.length === [3, 2, 5][index]),
      "all messages",
    );
    expect(one.messages).toEqual(["incrby", "incrby", "del"].map((text) => ({ channel: "__keyspace@0__:a", text })));
    expect(several.messages).toEqual([
      { channel: "__keyspace@0__:blog/post", text: "zadd" }, { channel: "__keyevent@0__:del", text: "a" },
    ]);
    expect(pattern.messages.map(({ channel, text }) => `${channel} ${text}`)).toEqual([
      "__keyspace@0__:a incrby",
      "__keyspace@0__:a incrby",
      "__keyspace@0__:ab set",
      "__keyspace@0__:ab expire",
      "__keyspace@0__:a del",
    ]);
    expect(new Set(pattern.messages.map(({ pattern }) => pattern))).toEqual(new Set(["__keyspace@0__:a*"]));
    // A try that is sent again is told once.
    const again = { method: "POST", headers: { "idempotency-key": "once" }, body: '["INCR","a"]', colo: "FRA" };
    await world.host.fetch(`${ORIGIN}/redis`, again);
    await world.host.fetch(`${ORIGIN}/redis`, again);
    await run(world, ["SET", "a", "5"]);
    await until(() => one.messages.length === 5, "what came after");
    expect(texts(one).slice(3)).toEqual(["incrby", "set"]);
    // What is told has been done.
    one.close();
    await run(world, ["INCR", "a"]);
  }));

test("keys that end by themselves are told of, and a silent stream is kept open", () =>
  inWorld({}, async (world) => {
    const listener = await listen(world, "/redis/psubscribe/__keyevent@0__:expire*");
    await run(
      world, ["SET", "text", "x", "PX", 2_000], ["INCR", "n"], ["PEXPIRE", "n", 3_000], ["ZADD", "z", 1, "m"],
      ["PEXPIRE", "z", 4_000],
    );
    await until(() => listener.messages.length === 6, "the ends");
    const ended = ["n", "text", "z"].map((key) => `__keyevent@0__:expired ${key}`);
    expect(listener.messages.map(({ channel, text }) => `${channel} ${text}`).toSorted()).toEqual([
      ...["n", "text", "z"].map((key) => `__keyevent@0__:expire ${key}`), ...ended,
    ]);
    await world.advance(60_000);
    expect(listener.pings).toBeGreaterThanOrEqual(3);
    expect([listener.isClosed, listener.errors]).toEqual([false, []]);
  }));

test("scripts of rate limits and reads of others are told as what they do", () =>
  inWorld({}, async (world) => {
    const listener = await listen(world, "/redis/psubscribe/__keyspace@0__:rl:*");
    const fixed = "b2efc02798c8e9b471a10f9b1d5745db89923ff3";
    await run(world, ["EVALSHA", fixed, 1, "rl:1", 3, 60_000, 1], ["EVALSHA", fixed, 1, "rl:1", 3, 60_000, 1]);
    await run(world, ["EVALSHA", "d60be5bd3d83482ae229309f1f7425424f891204", 1, "rl:b", 5, 1_000, 5, world.now(), 1]);
    await run(world, ["EVALSHA", "54bd274ddc59fb3be0f42deee2f64322a10e2b50", 1, "rl:*"]);
    await until(() => listener.messages.length === 7, "the events");
    expect(texts(listener)).toEqual(["incrby", "expire", "incrby", "hset", "expire", "del", "del"]);
  }));

test("who does not read is told so and let go, and so much else waits for nobody", () =>
  inWorld({}, async (world) => {
    const slow = await listen(world, "/redis/psubscribe/__key*__:*");
    const quick = await listen(world, "/redis/subscribe/__keyspace@0__:n");
    slow.pause();
    const many = Array.from({ length: 1_000 }, () => ["INCR", "n"]);
    for (let pipeline = 1; pipeline <= 8; pipeline += 1) {
      await run(world, ...many);
      // A thousand events at once are too many for nobody who reads.
      await until(() => quick.messages.length === pipeline * 1_000, "all of them");
    }
    await until(() => slow.isClosed, "the end of the slow one");
    expect(slow.errors).toEqual([expect.stringMatching(/^ERR this stream was not read fast enough/)]);
    expect(quick.isClosed).toBe(false);
    // One that reads nothing for long is let go with little that waits.
    quick.pause();
    await run(world, ["INCR", "n"]);
    await run(world, ["INCR", "n"]);
    await until(() => quick.isClosed, "the end of the other");
    expect(quick.errors.length).toBe(1);
  }));

test("a key listens to what it may read, has so many streams, and channels of messages are refused", () => {
  const keys = [
    { key: "reader-reader-reader", scopes: ["read"], prefix: "a" },
    { key: "writer-writer-writer", scopes: ["write"] },
    { key: "all-all-all-all-all-all", scopes: ["read"] },
  ];
  const vars = { TALLY_KEYS: JSON.stringify({ keys }), TALLY_ACCESS: "closed" };
  return inWorld({ vars, edgeVars: vars }, async (world) => {
    const answerTo = async (key, path, method) => {
      const listener = await listen(world, `/redis/${path}`, {
        method, headers: key ? { authorization: `Bearer ${key}` } : {},
      });
      listener.close();
      return [listener.status, listener.json?.error ?? "a stream"];
    };
    const [own, all] = ["reader-reader-reader", "all-all-all-all-all-all"];
    expect(await answerTo(own, "subscribe/__keyspace@0__:abc")).toEqual([200, "a stream"]);
    expect(await answerTo(own, "psubscribe/__keyspace@0__:a*")).toEqual([200, "a stream"]);
    expect(await answerTo(all, "psubscribe/__key*")).toEqual([200, "a stream"]);
    for (const path of [
      "subscribe/__keyspace@0__:b", "psubscribe/__keyspace@0__:*", "subscribe/__keyevent@0__:set", "psubscribe/__key*",
      "subscribe/__keyspace@0__:a/__keyspace@0__:b",
    ]) {
      expect(await answerTo(own, path), path).toEqual([400, expect.stringMatching(/^NOPERM /)]);
    }
    expect(await answerTo("writer-writer-writer", "subscribe/__keyspace@0__:a")).toEqual([
      400, expect.stringMatching(/^NOPERM /),
    ]);
    expect((await answerTo(undefined, "subscribe/__keyspace@0__:a"))[0]).toBe(401);
    for (const path of ["subscribe/news", "psubscribe/news.*", "subscribe/__keyspace@1__:a", `subscribe/${Array(101).fill("__keyspace@0__:a").join("/")}`]) {
      expect(await answerTo(all, path), path).toEqual([400, expect.stringMatching(/^ERR /)]);
    }
    expect(await answerTo(all, "subscribe/__keyspace@0__:a", "DELETE")).toEqual([405, expect.stringMatching(/^ERR /)]);
    const { bytes } = await world.host.fetch(`${ORIGIN}/redis`, {
      method: "POST", body: '["SUBSCRIBE","news"]', headers: { authorization: `Bearer ${all}` }, colo: "FRA",
    });
    expect(JSON.parse(bytes.toString()).error).toMatch(/GET \/redis\/subscribe\/__keyspace@0__:<key>/);
    const headers = { authorization: `Bearer ${own}` };
    await world.advance(1_000);
    const open = [];
    for (let stream = 0; stream < 100; stream += 1) {
      open.push(await listen(world, "/redis/subscribe/__keyspace@0__:a", { headers }));
    }
    expect(open.map(({ status }) => status)).toEqual(Array(100).fill(200));
    expect(await answerTo(own, "subscribe/__keyspace@0__:a")).toEqual([
      429, expect.stringMatching(/^ERR this key has as many/),
    ]);
    expect(await answerTo(all, "subscribe/__keyspace@0__:a")).toEqual([200, "a stream"]);
    for (const listener of open.splice(0, 1)) listener.close();
    await world.advance(1_000);
    expect(await answerTo(own, "subscribe/__keyspace@0__:a")).toEqual([200, "a stream"]);
    for (const listener of open) listener.close();
  });
});
