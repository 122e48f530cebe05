// Commands that many connections send at once share a batch on the native server. Each connection has its own replies,
// its own rights and its own budget, and what was acknowledged is counted once, also when the server is killed.
import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import net from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { placeFor } from "./place.mjs";

const WITHIN = { timeout: 120_000 };
const CONNECTIONS = 64;

const place = placeFor("resp-together");
const KEYS = {
  keys: [
    { name: "all", key: "all-of-it-0123456789", scopes: ["admin"], prefix: "" },
    { name: "narrow", key: "counts-of-a-0123456789", scopes: ["write"], prefix: "a" },
    { name: "bound", key: "bound-to-ten-0123456789", scopes: ["write"], prefix: "", rate_per_minute: 10 },
  ],
};

const encoded = (...words) =>
  `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`;

async function begin(more = []) {
  const { server, url } = await place.begin({ options: ["--resp", "0", ...more] });
  return { server, url, port: Number(new URL(server.respUrl).port) };
}

async function beginWithKeys() {
  const file = join(place.root, "keys.json");
  writeFileSync(file, JSON.stringify(KEYS));
  return begin(["--keys", file]);
}

/** A connection that sends a text, and resolves to as many lines of replies as it is asked for. One ask at a time. */
class Wire {
  #lines = [];
  #rest = "";
  #wake = () => {};

  static async open(port, key) {
    const wire = new Wire();
    wire.socket = net.connect(port, "127.0.0.1").setNoDelay(true);
    wire.socket.on("error", () => {});
    wire.socket.on("close", () => wire.#wake());
    wire.socket.on("data", (bytes) => {
      const lines = (wire.#rest + bytes).split("\r\n");
      wire.#rest = lines.pop();
      wire.#lines.push(...lines);
      wire.#wake();
    });
    await once(wire.socket, "connect");
    if (key) assert.deepEqual(await wire.ask(1, encoded("AUTH", key)), ["+OK"]);
    return wire;
  }

  async ask(count, text) {
    this.socket.write(text);
    while (this.#lines.length < count && !this.socket.destroyed) await new Promise((wake) => (this.#wake = wake));
    return this.#lines.splice(0, count);
  }
}

const opened = (port, count, key) => Promise.all(Array.from({ length: count }, () => Wire.open(port, key)));
const numbers = (lines) => lines.map((line) => Number(line.slice(1)));
const sorted = (values) => values.toSorted((one, other) => one - other);
const upTo = (count) => Array.from({ length: count }, (_, index) => index + 1);
const value = async (url, id, key) => {
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  return (await (await fetch(`${url}/counters/${id}?consistency=strong`, { headers })).json()).value ?? 0;
};

describe("Commands of many connections", WITHIN, () => {
  test("each is replied its own, in its order, beside others of all kinds", async () => {
    const { server, url, port } = await begin();
    const wires = await opened(port, CONNECTIONS);
    const counted = [];
    assert.deepEqual(await wires[0].ask(1, encoded("ZADD", "race", "1", "first")), [":1"]);
    for (let round = 0; round < 10; round += 1) {
      const replies = await Promise.all(wires.map((wire, index) => {
        // Three additions, a member of a set, and what is refused alone.
        if (index % 8 === 0) return wire.ask(1, encoded("ZADD", "race", `${round}`, `member-${index}`));
        if (index % 8 === 1) return wire.ask(2, encoded("INCR") + encoded("GET", "none"));
        if (index % 8 === 2) return wire.ask(1, encoded("INCR", "race"));
        return wire.ask(3, encoded("INCR", "hits").repeat(3));
      }));
      replies.forEach((lines, index) => {
        if (index % 8 === 0) assert.deepEqual(lines, [round === 0 ? ":1" : ":0"]);
        else if (index % 8 === 1) assert.deepEqual([lines[0].slice(0, 16), lines[1]], ["-ERR wrong numbe", "$-1"]);
        else if (index % 8 === 2) assert.match(lines[0], /^-WRONGTYPE/);
        else if (index % 8 > 2) {
          const [first, ...rest] = numbers(lines);
          assert.ok(rest[0] > first && rest[1] > rest[0], `${lines}`);
          counted.push(first, ...rest);
        }
      });
    }
    assert.deepEqual(sorted(counted), upTo(10 * 40 * 3));
    assert.equal(await value(url, "hits"), counted.length);
    wires.forEach((wire) => wire.socket.destroy());
    await server.end();
  });

  test("each has the rights of its own key, and none", async () => {
    const { server, url, port } = await beginWithKeys();
    const [all, narrow] = [KEYS.keys[0].key, KEYS.keys[1].key];
    const wires = [...await opened(port, 8, all), ...await opened(port, 8, narrow), ...await opened(port, 8)];
    const replies = await Promise.all(wires.map((wire) => wire.ask(2, encoded("INCR", "a1") + encoded("INCR", "b1"))));
    replies.slice(0, 8).forEach((lines) => assert.match(lines.join(), /^:\d+,:\d+$/));
    replies.slice(8, 16).forEach((lines) => assert.match(lines.join(), /^:\d+,-NOPERM/));
    replies.slice(16).forEach((lines) => assert.match(lines.join(), /^-NOAUTH.*-NOAUTH/));
    assert.deepEqual([await value(url, "a1", all), await value(url, "b1", all)], [16, 8]);
    wires.forEach((wire) => wire.socket.destroy());
    await server.end();
  });

  test("a key's budget is that of all its connections, and refuses those beyond it alone", async () => {
    const { server, url, port } = await beginWithKeys();
    const [all, , bound] = KEYS.keys.map(({ key }) => key);
    // To say who it is uses the budget too.
    const wires = await opened(port, 2, bound);
    const replies = (await Promise.all(wires.map(async (wire) => {
      const lines = [];
      for (let nth = 0; nth < 6; nth += 1) lines.push(...await wire.ask(1, encoded("INCR", "n")));
      return lines;
    }))).flat();
    const counted = replies.filter((line) => line.startsWith(":"));
    const refused = replies.filter((line) => /^-ERR.*budget of 10 a minute/.test(line));
    assert.equal(counted.length + refused.length, 12, `${replies}`);
    assert.ok(counted.length <= 8 && refused.length >= 4, `${replies}`);
    assert.equal(await value(url, "n", all), counted.length);
    wires.forEach((wire) => wire.socket.destroy());
    await server.end();
  });

  test("what was acknowledged is counted once after the server was killed in the middle", async () => {
    const { server, port } = await begin();
    const wires = await opened(port, CONNECTIONS);
    const acknowledged = [0, 0];
    let sent = 0;
    const loads = wires.map(async (wire, index) => {
      const which = index % 2;
      for (;;) {
        sent += 1;
        const lines = await wire.ask(1, encoded("INCR", `n${which}`));
        if (lines.length === 0) return;
        acknowledged[which] = Math.max(acknowledged[which], numbers(lines)[0]);
        if (sent > 3_000) server.kill("SIGKILL");
      }
    });
    await Promise.all(loads);
    await server.ended();
    const { server: again, url } = await place.begin();
    for (const which of [0, 1]) {
      const counted = await value(url, `n${which}`);
      const known = `${counted} are counted, ${acknowledged[which]} acknowledged`;
      assert.ok(counted >= acknowledged[which] && counted <= acknowledged[which] + CONNECTIONS / 2, known);
    }
    await again.end();
  });
});
