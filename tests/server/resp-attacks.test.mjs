// Clients that mean harm, or are broken, on the native server's Redis port: what they hold is bounded, the others are
// served, and each gets an error that says why.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import net from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { placeFor } from "./place.mjs";

const WITHIN = { timeout: 120_000 };
const KEY = "all-of-it-0123456789";
// As many as descriptors allow: this process has the other end of each, and the server has half of its own for clients.
const [, SOFT, HARD] = readFileSync("/proc/self/limits", "utf8").match(/^Max open files\s+(\d+)\s+(\d+)/m);
const CONNECTIONS_MAX = Math.min(10_000, SOFT, HARD / 2) - 200;
const TOGETHER = 100;
// Twice what the server reckons for a connection: without optimization tasks are larger.
const CONNECTION_KIB_MAX = 64;
// What clients together may leave with the server, in commands and in replies.
const WAITING_KIB_MAX = 256 * 1_024;

const place = placeFor("resp-attacks");

async function begin({ options = [], ...rest } = {}) {
  const { server, url } = await place.begin({ options: ["--resp", "0", ...options], ...rest });
  return { server, url, port: Number(new URL(server.respUrl).port) };
}

async function beginWithKeys(...options) {
  const file = join(place.root, "keys.json");
  writeFileSync(file, JSON.stringify({ keys: [{ name: "all", key: KEY, scopes: ["admin"], prefix: "" }] }));
  return begin({ options: ["--keys", file, ...options] });
}

const encoded = (...words) =>
  `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`;

/** A connection by hand; what it has received is text. */
class Wire {
  received = "";

  constructor(port) {
    this.socket = net.connect(port, "127.0.0.1");
    this.socket.on("data", (piece) => (this.received += piece));
    this.socket.on("error", () => {});
    // Not `once`, which rejects where the other end breaks the connection off.
    this.closed = new Promise((done) => this.socket.once("close", done));
  }

  static async to(port) {
    const wire = new Wire(port);
    await once(wire.socket, "connect");
    return wire;
  }

  /** Sends bytes, and resolves to what was received once that matches. */
  async send(bytes, wanted) {
    this.socket.write(bytes);
    return this.receives(wanted);
  }

  async receives(wanted) {
    while (!wanted.test(this.received)) {
      if (this.socket.destroyed) assert.fail(`closed after ${JSON.stringify(this.received.slice(-200))}`);
      await this.#changes();
    }
    return this.received;
  }

  /** Resolves once that was received, or the connection is closed: a client that goes on writing may lose an answer. */
  async settles(wanted) {
    while (!wanted.test(this.received) && !this.socket.destroyed) await this.#changes();
  }

  #changes() {
    return Promise.race([new Promise((done) => this.socket.once("data", done)), this.closed]);
  }

  /** Resolves to all that was received once the server has closed the connection. */
  async end() {
    await this.closed;
    return this.received;
  }
}

async function exchange(port, bytes) {
  const wire = await Wire.to(port);
  wire.socket.write(bytes);
  return wire.end();
}

const kib = ({ pid }, what) =>
  Number(readFileSync(`/proc/${pid}/status`, "utf8").match(new RegExp(`^${what}:\\s+(\\d+) kB$`, "m"))[1]);

async function serves(port, hello = "") {
  const wire = await Wire.to(port);
  await wire.send(hello + encoded("INCR", "served") + encoded("QUIT"), /:\d+\r\n\+OK\r\n$/);
  await wire.closed;
}

describe("clients that mean harm", () => {
  test("thousands that are idle, or stop within a command, are held cheaply", WITHIN, async () => {
    const { server, port } = await begin();
    const before = kib(server, "VmRSS");
    const half = [
      "", "*", "*2\r\n$3\r\nGET\r\n", "*100000\r\n$1\r\nx\r\n", "*2\r\n$3\r\nSET\r\n$1000000\r\nxx",
      `${encoded("MULTI")}*1`,
    ];
    const wires = [];
    while (wires.length < CONNECTIONS_MAX) {
      const more = await Promise.all(Array.from({ length: TOGETHER }, () => Wire.to(port)));
      more.forEach((wire, index) => wire.socket.write(half[index % half.length]));
      wires.push(...more);
      await serves(port);
    }
    const each = (kib(server, "VmRSS") - before) / wires.length;
    assert.ok(each < CONNECTION_KIB_MAX, `${each} KiB for each of ${wires.length} clients`);
    wires.forEach((wire) => wire.socket.destroy());
    await server.end();
  });

  test("one client too many is told so, and another one gets in once a place is free", WITHIN, async () => {
    // Root may have more descriptors than it is allowed, unless it may not change that.
    const bound = process.getuid() === 0 ? ["setpriv", "--bounding-set=-sys_resource"] : [];
    const { server, url, port } = await begin({ before: [...bound, "sh", "-c", 'ulimit -n 400; exec "$@"', "sh"] });
    const wires = [];
    for (;;) {
      const wire = await Wire.to(port);
      const answer = await wire.send(encoded("PING"), /\r\n$/);
      if (answer !== "+PONG\r\n") {
        assert.equal(answer, "-ERR max number of clients reached\r\n");
        break;
      }
      wires.push(wire);
      assert.ok(wires.length < 400);
    }
    assert.equal((await fetch(`${url}/healthz`)).status, 503);
    await wires[0].send(encoded("INCR", "served"), /:1\r\n$/);
    wires[0].socket.write(encoded("QUIT"));
    await wires[0].closed;
    for (let answer = ""; answer !== "+PONG\r\n"; ) {
      const wire = await Wire.to(port);
      answer = await wire.send(encoded("PING"), /\r\n$/);
      wires.push(wire);
    }
    wires.forEach((wire) => wire.socket.destroy());
    await server.end();
  });

  test("who sends a byte now and then, or asks without a key, is not waited for any longer", WITHIN, async () => {
    const { server, port } = await beginWithKeys("--head-seconds", "1");
    const hello = encoded("AUTH", KEY);
    for (const [begun, piece, wanted] of [
      ["", "*", /^-ERR no command was admitted within 1 s; [^\r]+\r\n$/],
      [encoded("GET", "a"), encoded("GET", "a"), /^(-NOAUTH [^\r]*\r\n)+-ERR no command was admitted [^\r]*\r\n$/],
      [encoded("AUTH", "guess"), encoded("AUTH", "guess"), /^(-WRONGPASS [^\r]*\r\n)+-ERR no command was admitted/],
      ["*2\r\n$4\r\nAUTH\r\n$9999\r\n", "x", /^-ERR no command was admitted/],
      [`${hello}*2\r\n$3\r\nGET\r\n$9999\r\n`, "x", /^\+OK\r\n-ERR a command did not arrive within 1 s; [^\r]+\r\n$/],
      [`${hello}*99999\r\n`, "$1\r\nx\r\n", /^\+OK\r\n-ERR a command did not arrive within 1 s; [^\r]+\r\n$/],
    ]) {
      const wire = await Wire.to(port);
      wire.socket.write(begun);
      const dribble = setInterval(() => wire.socket.write(piece), 50);
      const received = await wire.end().finally(() => clearInterval(dribble));
      assert.match(received, wanted, begun);
    }
    await serves(port, hello);
    await server.end();
  });

  test("what is announced and never sent takes no memory, and too much of it is refused at once", WITHIN, async () => {
    const { server, port } = await begin();
    await serves(port);
    const before = kib(server, "VmHWM");
    const wires = await Promise.all(Array.from({ length: 200 }, () => Wire.to(port)));
    for (const wire of wires) await wire.send(encoded("PING"), /\+PONG/);
    wires.forEach((wire, index) => wire.socket.write(index % 2 ? "*100000\r\n" : "*2\r\n$3\r\nGET\r\n$1048000\r\n"));
    for (const bytes of [
      "*100001\r\n", "*2147483647\r\n", "*9223372036854775807\r\n", "*9223372036854775808\r\n", "*1e3\r\n",
      "*1\r\n$1048577\r\n",
      "*1\r\n$2147483648\r\n", "*1\r\n$-1\r\n", "*1\r\n$99999999999999999999\r\n", "*1\r\n$ 1\r\n", "*1\r\n$0x10\r\n",
      `*${"1".repeat(40)}`, `*1\r\n$${"1".repeat(40)}`, "*1\r\n:1\r\n", "*1\r\n$1\r\nabc", "%1\r\n", "~1\r\n",
      "*1\r\n*1\r\n$1\r\n",
    ]) {
      assert.match(await exchange(port, encoded("PING") + bytes), /^\+PONG\r\n-ERR Protocol error: [^\r]+\r\n$/, bytes);
    }
    await serves(port);
    const more = kib(server, "VmHWM") - before;
    assert.ok(more < 20_000, `${more} KiB more`);
    wires.forEach((wire) => wire.socket.destroy());
    await server.end();
  });

  test("lines of text run nothing, however they are quoted", WITHIN, async () => {
    const { server, port } = await begin();
    for (const line of [
      "INCR served\r\n", '"INCR" "served"\r\n', "'INCR' 'served\r\n", '"IN\\x43R" served\n', "\r\nINCR served\r\n",
      " INCR served\r\n",
      '"INCR\r\n"served', `POST / HTTP/1.1\r\nHost: a\r\n\r\n${encoded("INCR", "served")}`, "\"\r\n", "\0\r\n",
      "é\r\n",
    ]) {
      assert.match(await exchange(port, line), /^-ERR Protocol error: commands are arrays of strings here/, line);
    }
    assert.equal(await exchange(port, encoded("GET", "served") + encoded("QUIT")), "$-1\r\n+OK\r\n");
    await server.end();
  });

  test("guesses of a key learn nothing from what they are answered", WITHIN, async () => {
    const { server, url, port } = await beginWithKeys();
    const headers = { authorization: `Bearer ${KEY}`, "content-type": "application/json" };
    const made = async (path, body) =>
      (await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) })).json();
    const revoked = await made("/keys", { name: "shop", scopes: ["write"], prefixes: ["a"] });
    await fetch(`${url}/keys/${revoked.id}`, { method: "DELETE", headers });
    const forged = (key, at) => `${key.slice(0, at)}${key.at(at) === "0" ? "1" : "0"}${key.slice(at).slice(1)}`;
    const copies = [revoked.key, ...[-1, -2, -9, -20].map((at) => forged(revoked.key, at))];
    // Whether a guess has the form of a key that a call made, its sender knows.
    for (const guesses of [
      ["x", KEY.slice(0, -1), `${KEY}0`, forged(KEY, -1), forged(KEY, 0), KEY.toUpperCase(), "x".repeat(16_000)],
      copies,
    ]) {
      const answers = new Set();
      for (const guess of guesses) {
        for (const words of [["AUTH", guess], ["AUTH", "any", guess], ["HELLO", "2", "AUTH", "any", guess]]) {
          answers.add(await exchange(port, encoded(...words) + encoded("QUIT")));
        }
      }
      assert.equal(answers.size, 1, [...answers].join(""));
      assert.match([...answers][0], /^-WRONGPASS [^\r]+\r\n\+OK\r\n$/);
    }
    for (const none of ["", " ", `Bearer ${KEY}`, `${KEY} ${KEY}`, "\r\n"]) {
      assert.match(await exchange(port, encoded("AUTH", none) + encoded("QUIT")), /^-WRONGPASS [^\r]+\r\n\+OK\r\n$/);
    }
    assert.match(await exchange(port, encoded("AUTH", KEY) + encoded("QUIT")), /^\+OK\r\n\+OK\r\n$/);
    // Who fails after a success has the key of before, as in Redis.
    const both = [["AUTH", KEY], ["AUTH", "guess"], ["GET", "none"], ["QUIT"]].map((words) => encoded(...words));
    assert.match(await exchange(port, both.join("")), /^\+OK\r\n-WRONGPASS [^\r]+\r\n\$-1\r\n\+OK\r\n$/);
    await server.end();
  });

  test("long answers to short commands wait for their reader one after the other", WITHIN, async () => {
    const { server, port } = await begin();
    await serves(port);
    const before = kib(server, "VmHWM");
    const wires = await Promise.all(Array.from({ length: 20 }, () => Wire.to(port)));
    for (const wire of wires) {
      wire.socket.pause();
      wire.socket.write(encoded("PING") + encoded("COMMAND", "DOCS").repeat(2_000));
    }
    await serves(port);
    const more = kib(server, "VmHWM") - before;
    assert.ok(more < 50_000, `${more} KiB more`);
    wires.forEach((wire) => wire.socket.destroy());
    await server.end();
  });

  test("clients that read no replies hold a bounded part of the memory together", WITHIN, async () => {
    const { server, port } = await begin();
    const writer = await Wire.to(port);
    // The first command of a client, where no key is needed.
    await writer.send(encoded("SET", "big", "x".repeat(60_000)), /\+OK/);
    const before = kib(server, "VmHWM");
    const wires = await Promise.all(Array.from({ length: 60 }, () => Wire.to(port)));
    for (const wire of wires) {
      await wire.send(encoded("PING"), /\+PONG/);
      wire.socket.pause();
      wire.socket.write(encoded("MGET", ...Array.from({ length: 250 }, () => "big")).repeat(4));
    }
    for (let rounds = 0; rounds < 40; rounds += 1) await serves(port);
    const more = kib(server, "VmHWM") - before;
    assert.ok(more < 2 * WAITING_KIB_MAX, `${more} KiB more`);
    wires.forEach((wire) => wire.socket.destroy());
    await server.end();
  });

  test("transactions and commands that never end hold a bounded part of the memory together", WITHIN, async () => {
    const { server, port } = await begin();
    await serves(port);
    const before = kib(server, "VmHWM");
    const wires = await Promise.all(Array.from({ length: 60 }, () => Wire.to(port)));
    const mebibyte = encoded("SET", "a", "x".repeat(1_000_000));
    for (const wire of wires) wire.socket.write(encoded("MULTI") + mebibyte.repeat(7) + mebibyte.slice(0, -9));
    // The server has read what each sent, or has refused it.
    for (const wire of wires) await wire.settles(/(\+QUEUED\r\n){7}|-ERR /);
    await serves(port);
    const more = kib(server, "VmHWM") - before;
    assert.ok(more < 1.5 * WAITING_KIB_MAX, `${more} KiB more`);
    const refused = wires.filter((wire) => wire.received.includes("-ERR"));
    assert.ok(refused.length > 0);
    const why = /-ERR the memory for commands and replies of all clients is full \(\d+ bytes\); nothing of this [^\r]+\r\n$/;
    for (const wire of refused) assert.match(await wire.end(), why);
    wires.forEach((wire) => wire.socket.destroy());
    await server.end();
  });

  test("a client that subscribes again hears each event once, and opens no further streams", WITHIN, async () => {
    const { server, port } = await begin();
    const [listener, writer] = [await Wire.to(port), await Wire.to(port)];
    const channel = "__keyspace@0__:heard";
    await listener.send(encoded("SUBSCRIBE", channel).repeat(300) + encoded("PING", "1"), /1\r\n$/);
    await listener.send(encoded("SUBSCRIBE", channel, channel, "__keyspace@0__:end"), /:2\r\n$/);
    await listener.send(encoded("PSUBSCRIBE", "__keyevent@0__:del").repeat(3) + encoded("PING", "2"), /2\r\n$/);
    assert.doesNotMatch(listener.received, /-ERR/);
    listener.received = "";
    await writer.send(encoded("SET", "heard", "x") + encoded("SET", "end", "x"), /(\+OK\r\n){2}/);
    const heard = await listener.receives(/:end\r\n/);
    assert.equal(heard.split("heard").length - 1, 1, heard);
    await listener.send(encoded("UNSUBSCRIBE", channel), /unsubscribe/);
    listener.received = "";
    await writer.send(encoded("SET", "heard", "x") + encoded("SET", "end", "x"), /(\+OK\r\n){4}/);
    assert.doesNotMatch(await listener.receives(/:end\r\n/), /heard/);
    await server.end();
  });

  test("a client that subscribes and never reads is closed, and one that reads misses nothing", WITHIN, async () => {
    const { server, port } = await begin();
    const [deaf, listener, writer] = await Promise.all([1, 2, 3].map(() => Wire.to(port)));
    for (const wire of [deaf, listener]) await wire.send(encoded("PSUBSCRIBE", "__keyevent@0__:*"), /:1\r\n$/);
    deaf.socket.pause();
    listener.received = "";
    const before = kib(server, "VmHWM");
    const [name, rounds, together] = ["n".repeat(480), 60, 500];
    for (let round = 1; round <= rounds; round += 1) {
      writer.received = "";
      const sets = Array.from({ length: together }, (_, index) => encoded("SET", `${name}${index}`, "x"));
      await writer.send(sets.join(""), new RegExp(`^(\\+OK\\r\\n){${together}}$`));
    }
    await writer.send(encoded("SET", "end", "x"), /\+OK\r\n$/);
    await listener.receives(/\r\nend\r\n$/);
    assert.equal(listener.received.split("pmessage").length - 1, rounds * together + 1);
    const more = kib(server, "VmHWM") - before;
    assert.ok(more < 60_000, `${more} KiB more`);
    // It reads what was sent before, and then the end.
    deaf.socket.resume();
    await deaf.closed;
    assert.ok(deaf.received.split("pmessage").length - 1 < rounds * together);
    await serves(port);
    await server.end();
  });
});
