// Random commands over Redis's protocol are replied as by a real Redis: the same values in the same types, in both
// versions of the protocol, alone and in transactions. SEED=n gives other commands.
import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { test } from "node:test";
import { randomFrom } from "../crash/random.mjs";
import { MISSING, openRedis } from "../e2e/redis.mjs";
import { commandFrom, elementsCommandFrom, sortedCommandFrom } from "../e2e/redis-random.mjs";
import { placeFor } from "./place.mjs";

const SEED = Number(process.env.SEED ?? 1);
// Of each kind, for each version of the protocol: 20,000 in all.
const COMMANDS = { "strings, hashes and sets": 4_000, "sorted sets": 4_000, HyperLogLogs: 2_000 };
const TOGETHER = 100;
// One in so many groups is a transaction.
const TRANSACTIONS = 4;
const WITHIN = { timeout: 300_000, skip: MISSING ?? false };

const place = placeFor("resp-random");

// A reply at the start of a text of bytes, with where it ends; undefined where it is not all there.
function replyIn(text, from) {
  const end = text.indexOf("\r\n", from);
  if (end < 0) return undefined;
  const [kind, line, after] = [text[from], text.slice(from + 1, end), end + 2];
  const several = (count, what) => {
    const items = [];
    let at = after;
    for (let left = count; left > 0; left -= 1) {
      const item = replyIn(text, at);
      if (item === undefined) return undefined;
      items.push(item.reply);
      at = item.at;
    }
    return { reply: { [what]: items }, at };
  };
  switch (kind) {
    case "+":
      return { reply: { status: line }, at: after };
    case "-":
      return { reply: { error: line }, at: after };
    case ":":
      return { reply: { integer: line }, at: after };
    case ",":
      return { reply: { double: Number(line.replace("inf", "Infinity")) + 0 }, at: after };
    case "_":
      return { reply: null, at: after };
    case "$": {
      if (line === "-1") return { reply: null, at: after };
      const until = after + Number(line);
      if (text.length < until + 2) return undefined;
      return { reply: { text: text.slice(after, until) }, at: until + 2 };
    }
    case "*":
      return line === "-1" ? { reply: "no array", at: after } : several(Number(line), "array");
    case "~":
      return several(Number(line), "set");
    case "%":
      return several(Number(line) * 2, "map");
    default:
      throw new Error(`${JSON.stringify(text.slice(from, end))} is no reply`);
  }
}

class Wire {
  #socket;
  #received = "";

  constructor(socket) {
    this.#socket = socket.setEncoding("latin1");
    socket.on("data", (piece) => (this.#received += piece));
  }

  static async to(...where) {
    const socket = net.connect(...where);
    await once(socket, "connect");
    return new Wire(socket);
  }

  /** Sends these commands together, and resolves to their replies. */
  async send(commands) {
    const encoded = commands.map((words) =>
      `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`);
    this.#socket.write(encoded.join(""));
    const replies = [];
    for (let at = 0; replies.length < commands.length; ) {
      const next = replyIn(this.#received, at);
      if (next === undefined) {
        await once(this.#socket, "data");
        continue;
      }
      replies.push(next.reply);
      at = next.at;
      if (replies.length === commands.length) this.#received = this.#received.slice(at);
    }
    return replies;
  }

  close() {
    this.#socket.destroy();
  }
}

// Hash tables have no order.
const MORE = [
  ["hgetall", "a"], ["hgetall", "b"], ["smembers", "a"], ["smembers", "c"], ["hmget", "a", "f", "g", "f"], ["ping"],
  ["ping", "text"], ["echo", "text"], ["hdel", "a", "f"], ["srem", "c", "f"], ["smismember", "c", "f", "x"],
  ["mget", "a", "b", "c"], ["lpush"], ["nope", "x"], ["select", "0"], ["client", "getname"],
  ["psetex", "a", "100000", "x"], ["hmset", "b", "f", "1", "g", "2"], ["pexpiretime", "c"],
];
const UNORDERED = new Set(["hgetall", "smembers"]);
// Redis's words, where Tally has others.
const OTHERWISE = /^ERR (LPUSH is not what Tally is for|wrong number of arguments for 'lpush' command)$/;

// Texts of numbers as numbers: Redis 7.0 writes more digits of some scores, and -0.
function plain(reply) {
  if (reply === null || typeof reply !== "object") return reply;
  const [[kind, inner]] = Object.entries(reply);
  if (Array.isArray(inner)) return { [kind]: inner.map(plain) };
  const isNumber = kind === "text" && inner.trim() !== "" && !Number.isNaN(Number(inner));
  return isNumber ? { text: String(Number(inner) + 0) } : reply;
}

function comparable(reply, words, normalize) {
  if (UNORDERED.has(words[0]) && reply !== null) {
    const [[kind, items]] = Object.entries(reply);
    if (!Array.isArray(items)) return reply;
    const size = words[0] === "hgetall" ? 2 : 1;
    const parts = Array.from({ length: items.length / size }, (_, index) =>
      JSON.stringify(items.slice(index * size, (index + 1) * size)));
    return { [kind]: parts.sort() };
  }
  if (OTHERWISE.test(reply?.error ?? "")) return { error: "otherwise" };
  // The clocks of the two go each at its own pace.
  if (/(ttl|time)$/.test(words[0]) && Number(reply?.integer) > 0) return { integer: "some time" };
  return normalize(reply);
}

// Whether an end is later than another that was set by the same words is a matter of milliseconds.
const isOfClocks = ([name, , , when]) => /^p?expire$/.test(name) && /^(gt|lt)$/.test(when);

function groupFrom(makes, random) {
  const commands = Array.from({ length: TOGETHER }, () => makes(random)).filter((words) => !isOfClocks(words));
  if (Math.floor(random() * TRANSACTIONS) > 0) return commands;
  // What is about the connection is refused in a transaction here, and what Redis refuses before it runs discards it.
  const own = new Set(["select", "client", "lpush", "nope", "ping", "script"]);
  return [["multi"], ...commands.filter(([name]) => !own.has(name)), ["exec"]];
}

function compare(commands, got, wanted, normalize, sent) {
  commands.forEach((words, index) => {
    const where = `seed ${SEED}, command ${sent + index}: ${words.join(" ")}`;
    const [own, other] = [got[index], wanted[index]];
    if (words[0] !== "exec" || own.array === undefined) {
      return assert.deepEqual(comparable(own, words, normalize), comparable(other, words, normalize), where);
    }
    commands.slice(1, -1).forEach((inner, at) =>
      assert.deepEqual(
        comparable(own.array[at], inner, normalize), comparable(other.array?.[at], inner, normalize),
        `${where}: ${inner.join(" ")}`,
      ));
    return undefined;
  });
}

const pickMore = (random) => MORE[Math.floor(random() * MORE.length)];
const KINDS = [
  ["strings, hashes and sets", (random) => (random() < 0.3 ? pickMore : commandFrom)(random), (reply) => reply],
  ["sorted sets", sortedCommandFrom, plain],
  ["HyperLogLogs", elementsCommandFrom, plain],
];

for (const protocol of ["2", "3"]) {
  test(`random commands with RESP${protocol}, seed ${SEED}`, WITHIN, async () => {
    const { server } = await place.begin({ options: ["--resp", "0"] });
    const redis = await openRedis();
    const [own, other] = await Promise.all([
      Wire.to(Number(new URL(server.respUrl).port), "127.0.0.1"), Wire.to(redis.path),
    ]);
    try {
      for (const wire of [own, other]) await wire.send([["hello", protocol]]);
      const random = randomFrom(SEED);
      for (const [what, makes, normalize] of KINDS) {
        await Promise.all([own, other].map((wire) => wire.send([["flushall"]])));
        for (let sent = 0; sent < COMMANDS[what]; ) {
          const commands = groupFrom(makes, random);
          const [got, wanted] = await Promise.all([own.send(commands), other.send(commands)]);
          compare(commands, got, wanted, normalize, sent);
          sent += commands.length;
        }
      }
    } finally {
      own.close();
      other.close();
      await redis.close();
    }
    assert.deepEqual(await server.end(), { code: 0, signal: null });
  });
}
