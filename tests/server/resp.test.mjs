// Redis's protocol on the native server: the clients that people have, as they are published, and bytes that no client
// sends.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import net from "node:net";
import { join } from "node:path";
import { afterEach, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { createClient } from "@redis/client";
import { Redis } from "ioredis";
import { findProgram } from "../../scripts/debian.mjs";
import { PYTHON } from "../../scripts/python-clients.mjs";
import { placeFor } from "./place.mjs";

const WITHIN = { timeout: 180_000 };

const place = placeFor("resp");
const CLI = findProgram(["redis-cli"]);
const KEYS = {
  keys: [
    { name: "all", key: "all-of-it-0123456789", scopes: ["admin"], prefix: "" },
    { name: "counts", key: "counts-of-a-0123456789", scopes: ["write"], prefix: "a" },
  ],
};

// A client that outlives its test would connect again and again.
const open = new Set();
afterEach(() => {
  open.forEach((client) => client.disconnect());
  open.clear();
});

function ioredis(port, options = {}) {
  const redis = new Redis(port, { retryStrategy: () => null, ...options });
  redis.on("error", () => {});
  open.add(redis);
  return redis;
}

async function begin({ options = [], ...rest } = {}) {
  const { server, url } = await place.begin({ options: ["--resp", "0", ...options], ...rest });
  return { server, url, resp: server.respUrl, port: Number(new URL(server.respUrl).port) };
}

async function beginWithKeys({ more = [], ...rest } = {}) {
  const file = join(place.root, "keys.json");
  writeFileSync(file, JSON.stringify(KEYS));
  return begin({ options: ["--keys", file, ...more], ...rest });
}

/** Resolves to all that the server sends until it closes the connection. */
async function exchange(port, ...pieces) {
  const socket = net.connect(port, "127.0.0.1");
  await once(socket, "connect");
  for (const piece of pieces) socket.write(piece);
  const received = [];
  for await (const piece of socket) received.push(piece);
  return Buffer.concat(received).toString();
}

const encoded = (...words) =>
  `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`;

const value = async (url, id) => (await (await fetch(`${url}/counters/${id}?consistency=strong`)).json()).value;

describe("Redis's protocol", WITHIN, () => {
  for (const protocol of [2, 3]) {
    test(`ioredis counts, sets and lists, with RESP${protocol}`, async () => {
      const { server, url, port } = await begin();
      const redis = ioredis(port, { protocol, connectionName: "shop" });
      assert.equal(await redis.ping(), "PONG");
      assert.equal(await redis.incr("home"), 1);
      assert.deepEqual(await Promise.all(Array.from({ length: 500 }, () => redis.incr("home"))),
        Array.from({ length: 500 }, (_, index) => index + 2));
      assert.equal(await value(url, "home"), 501);
      assert.equal(await redis.set("text", "ö", "EX", 60), "OK");
      assert.equal(await redis.get("text"), "ö");
      assert.equal(await redis.get("none"), null);
      assert.equal(await redis.hset("hash", { one: 1, two: "zwei" }), 2);
      assert.deepEqual({ ...(await redis.hgetall("hash")) }, { one: "1", two: "zwei" });
      assert.equal(await redis.zadd("race", 2.5, "ann", 1, "bob"), 2);
      assert.equal(Number(await redis.zscore("race", "ann")), 2.5);
      const race = await redis.zrange("race", 0, -1, "WITHSCORES");
      assert.deepEqual(race.flat().map(String), ["bob", "1", "ann", "2.5"]);
      assert.deepEqual(await redis.multi().incrby("home", 9).get("text").exec(), [[null, 510], [null, "ö"]]);
      const [[error], [, home]] = await redis.pipeline().incr("hash").get("home").exec();
      assert.match(error.message, /^WRONGTYPE Operation against a key holding the wrong kind of value/);
      assert.equal(home, "510");
      assert.equal(await redis.client("GETNAME"), "shop");
      assert.deepEqual(await server.end(), { code: 0, signal: null });
    });

    test(`node-redis counts, expires and listens, with RESP${protocol}`, async () => {
      const { server, resp } = await begin();
      const redis = await createClient({ url: resp, RESP: protocol, name: "till" }).connect();
      assert.deepEqual(await Promise.all([redis.incr("a"), redis.incrBy("a", 4), redis.get("a")]), [1, 5, "5"]);
      assert.equal(await redis.expire("a", 100), 1);
      assert.equal(await redis.ttl("a"), 100);
      assert.deepEqual(await redis.multi().decr("a").type("a").exec(), [4, "string"]);
      assert.deepEqual(await redis.zAdd("z", [{ score: 1, value: "m" }, { score: 2, value: "n" }]), 2);
      assert.deepEqual(await redis.zRangeWithScores("z", 0, -1), [{ value: "m", score: 1 }, { value: "n", score: 2 }]);
      assert.deepEqual(await redis.zPopMax("z"), { value: "n", score: 2 });
      assert.deepEqual({ ...(await redis.hGetAll("none")) }, {});
      const listener = await redis.duplicate().connect();
      const heard = [];
      await listener.subscribe("__keyspace@0__:b", (message, channel) => heard.push([channel, message]));
      await listener.pSubscribe("__keyevent@0__:*", (message, channel) => heard.push([channel, message]));
      await redis.set("b", "text");
      for (; heard.length < 2; ) await new Promise((done) => setTimeout(done, 2));
      assert.deepEqual(heard.toSorted(), [["__keyevent@0__:set", "b"], ["__keyspace@0__:b", "set"]]);
      await listener.unsubscribe();
      await listener.pUnsubscribe();
      // This client gives bytes after it listened with RESP2.
      assert.equal(String(await listener.get("b")), "text");
      await assert.rejects(listener.subscribe("news", () => {}), /messages are not what Tally is for/);
      await Promise.all([listener.close(), redis.close()]);
      await server.end();
    });
  }

  test("keys have the rights that they have by HTTP", async () => {
    const { server, url, port } = await beginWithKeys();
    const stranger = ioredis(port, { lazyConnect: true, protocol: 2, enableReadyCheck: false });
    await stranger.connect();
    await assert.rejects(stranger.incr("a"), /NOAUTH Authentication required/);
    await assert.rejects(stranger.call("AUTH", "nonsense"), /WRONGPASS/);
    assert.equal(await stranger.call("AUTH", "any", "counts-of-a-0123456789"), "OK");
    assert.equal(await stranger.incr("a1"), 1);
    await assert.rejects(stranger.incr("b1"), /NOPERM/);
    await assert.rejects(stranger.set("a1", "5"), /NOPERM/);
    await assert.rejects(stranger.multi().incr("a1").incr("b1").exec(), /EXECABORT/);
    const address = `redis://default:all-of-it-0123456789@127.0.0.1:${port}`;
    const redis = await createClient({ url: address, RESP: 3 }).connect();
    assert.equal(await redis.get("a1"), "1");
    // A key that a call has made, until it is revoked.
    const headers = { authorization: "Bearer all-of-it-0123456789", "content-type": "application/json" };
    const body = JSON.stringify({ name: "shop", scopes: ["write"], prefixes: ["a"] });
    const made = await (await fetch(`${url}/keys`, { method: "POST", headers, body })).json();
    const shop = ioredis(port, { password: made.key });
    assert.equal(await shop.incr("a1"), 2);
    await redis.close();
    await server.end();
  });

  test("what arrives together is replied in order, and a transaction belongs to its connection", async () => {
    const { server, port } = await begin();
    const many = Array.from({ length: 2_500 }, () => encoded("INCR", "n")).join("");
    const replies = (await exchange(port, many + encoded("QUIT"))).split("\r\n");
    assert.deepEqual(replies.slice(0, 2_500), Array.from({ length: 2_500 }, (_, index) => `:${index + 1}`));
    assert.deepEqual(replies.slice(2_500), ["+OK", ""]);
    // The other connection sees neither the transaction nor its protocol.
    const one = [["HELLO", "3"], ["MULTI"], ["QUIT"]].map((words) => encoded(...words)).join("");
    assert.match(await exchange(port, one), /^%7\r\n.*\+OK\r\n\+OK\r\n$/s);
    assert.equal(await exchange(port, encoded("GET", "none") + encoded("QUIT")), "$-1\r\n+OK\r\n");
    await server.end();
  });

  test("what is no command ends the connection with a reason, and no other one", async () => {
    const { server, url, port } = await begin();
    const redis = ioredis(port);
    assert.equal(await redis.incr("a"), 1);
    for (const bytes of [
      "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", "PING\r\n", "\0\0\0\0", "*1\r\n*1\r\n", "*1\r\n$-7\r\n",
      "*100001\r\n",
      "*2\r\n".repeat(10_000), `*2\r\n$3\r\nGET\r\n$2000000\r\n${"x".repeat(1_100_000)}`,
    ]) {
      assert.match(await exchange(port, bytes), /^-ERR Protocol error: /, bytes.slice(0, 20));
    }
    assert.match(await exchange(port, `${encoded("INCR", "a")}junk\r\n`), /^:2\r\n-ERR Protocol error: /);
    // A client that goes in the middle of a command leaves nothing.
    const socket = net.connect(port, "127.0.0.1");
    await once(socket, "connect");
    socket.end("*2\r\n$4\r\nINCR\r\n");
    await once(socket.resume(), "close");
    assert.equal(await redis.incr("a"), 3);
    assert.equal(await value(url, "a"), 3);
    assert.equal(server.isGone, false);
    await server.end();
  });

  test("a client that does not say who it is may not send much", async () => {
    const { server, port } = await beginWithKeys();
    assert.match(await exchange(port, encoded("GET", "x".repeat(20_000))), /at most 16384 bytes/);
    assert.match(await exchange(port, encoded("DEL", ..."abcdefghijk")), /at most 10 words/);
    const large = [["AUTH", "all-of-it-0123456789"], ["SET", "text", "x".repeat(50_000)], ["QUIT"]];
    assert.equal(await exchange(port, large.map((words) => encoded(...words)).join("")), "+OK\r\n+OK\r\n+OK\r\n");
    await server.end();
  });

  test("a client that does not say who it is, or the rest of a command, is not waited for", async () => {
    const { server, port } = await beginWithKeys({ more: ["--head-seconds", "1"] });
    const key = "all-of-it-0123456789";
    const known = ioredis(port, { password: key });
    assert.equal(await known.incr("a"), 1);
    assert.equal(await exchange(port), "");
    assert.match(
      await exchange(port, `${encoded("AUTH", key)}*2\r\n$3\r\nGET\r\n`),
      /^\+OK\r\n-ERR a command did not arrive within 1 s; /,
    );
    // Who is known may think for longer.
    assert.equal(await known.incr("a"), 2);
    await server.end();
  });

  test("one key in the file of keys opens the door to other machines, and none does not", async () => {
    const open = place.server({ options: ["--resp", "0.0.0.0:0"] });
    assert.equal((await open.ended()).code, 1);
    assert.match(open.errors, /--resp 0\.0\.0\.0:0 can be reached from other machines, so keys are needed/);
    const wrong = place.server({ options: ["--resp", "localhost:6379"] });
    assert.notEqual((await wrong.ended()).code, 0);
    assert.match(wrong.errors, /such as 6379/);
    const { server, port } = await beginWithKeys({ variables: { TALLY_RESP: "0.0.0.0:0" } });
    assert.ok(port > 0);
    await server.end();
  });

  test("what is under way when the server ends is finished, and the connection closed", async () => {
    const { server, port } = await begin();
    const redis = ioredis(port);
    const replies = Promise.all(Array.from({ length: 200 }, () => redis.incr("n")));
    await redis.ping();
    const ended = server.end();
    assert.equal((await replies).at(-1), 200);
    assert.deepEqual(await ended, { code: 0, signal: null });
    const { server: again, url } = await place.begin();
    assert.equal(await value(url, "n"), 200);
    await again.end();
  });

  test("TLS is spoken where the server has a certificate", async () => {
    const [certificate, key] = ["certificate.pem", "key.pem"].map((name) => join(place.root, name));
    const { status, stderr } = spawnSync("openssl", [
      ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"],
      ...["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
    ], { encoding: "utf8" });
    assert.equal(status, 0, stderr);
    const { server, resp, port } = await begin({ options: ["--tls-certificate", certificate, "--tls-key", key] });
    assert.match(resp, /^rediss:/);
    const redis = ioredis(port, { tls: { ca: readFileSync(certificate), servername: "localhost" } });
    assert.equal(await redis.incr("a"), 1);
    const big = "x".repeat(60_000);
    assert.equal(await redis.set("big", big), "OK");
    assert.equal((await Promise.all(Array.from({ length: 20 }, () => redis.get("big")))).join("").length, 1_200_000);
    await server.end();
  });

  test("a client that takes no replies is not read further", async () => {
    const { server, port } = await begin();
    const redis = ioredis(port);
    await redis.set("big", "x".repeat(60_000));
    const socket = net.connect(port, "127.0.0.1");
    await once(socket, "connect");
    socket.pause();
    // 2 GB of replies, if they were made.
    const asks = encoded("GET", "big").repeat(35_000);
    socket.write(asks);
    assert.equal(await redis.incr("n"), 1);
    const status = readFileSync(`/proc/${server.pid}/status`, "utf8");
    const kilobytes = Number(/VmHWM:\s+(\d+)/.exec(status)[1]);
    assert.ok(kilobytes < 400_000, `${kilobytes} KB`);
    socket.destroy();
    await server.end();
  });

  const without = existsSync(PYTHON) ? false : "the Python clients are not installed (scripts/python-clients.mjs)";
  for (const protocol of ["2", "3"]) {
    test(`redis-py counts, ranks and runs transactions, with RESP${protocol}`, { skip: without }, async () => {
      const { server, url, port } = await begin();
      const script = fileURLToPath(new URL("../python/redis_tcp.py", import.meta.url));
      const ran = spawn(PYTHON, [script, String(port), protocol], { stdio: ["ignore", "ignore", "pipe"] });
      let errors = "";
      ran.stderr.on("data", (text) => (errors += text));
      const [code] = await once(ran, "close");
      assert.equal(code, 0, errors);
      assert.equal(await value(url, "home"), 305);
      await server.end();
    });
  }

  const skip = CLI === undefined ? "redis-cli is not installed" : false;
  test("redis-cli shows replies, commands and their documents", { skip }, async () => {
    const { server, port } = await begin();
    const cli = (...words) => {
      const { stdout, stderr } = spawnSync(CLI, ["-p", String(port), ...words], { encoding: "utf8" });
      return stdout + stderr;
    };
    assert.equal(cli("INCR", "a"), "1\n");
    assert.equal(cli("-3", "HELLO", "3").split("\n")[0], "server tally");
    assert.match(cli("INFO"), /server_name:tally/);
    assert.match(cli("COMMAND", "COUNT"), /^\d+\n$/);
    // The shell asks for the documents of all commands first.
    const shell = spawn(CLI, ["-p", String(port)], { stdio: ["pipe", "pipe", "inherit"] });
    shell.stdin.end("help zadd\nincr a\n");
    let text = "";
    for await (const piece of shell.stdout) text += piece;
    assert.match(text, /2\n$/);
    await server.end();
  });
});
