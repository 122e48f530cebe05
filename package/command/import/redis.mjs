// What a Redis holds, as counters and boards: whole numbers, HyperLogLogs, sorted sets.
//
// Keys are read by SCAN, a page at a time: Redis goes on serving others, and memory is bounded. A key that changes
// meanwhile is read as it is then. Source: Redis, "RESP protocol specification" and "SCAN".
import { connect as connectPlain } from "node:net";
import { connect as connectTls } from "node:tls";
import { EXIT, Failure } from "../outcome.mjs";

const PAGE = 500;
const HYLL = Buffer.from("HYLL");

/** A connection to a Redis: `call(...words)` resolves to its reply, strings being Buffers. Calls are pipelined. */
export class Redis {
  #socket;
  #rest = Buffer.alloc(0);
  #waiting = [];
  #failure;

  static async open(address) {
    const url = new URL(address);
    const redis = new Redis();
    const options = { host: url.hostname || "127.0.0.1", port: Number(url.port || 6379), servername: url.hostname };
    redis.#socket = url.protocol === "rediss:" ? connectTls(options) : connectPlain(options);
    redis.#socket.setNoDelay(true);
    redis.#socket.on("data", (bytes) => redis.#take(bytes));
    const fail = (why) => redis.#fail(new Failure(EXIT.unavailable, `${url.protocol}//${url.host}: ${why}`));
    redis.#socket.on("error", (error) => fail(error.code ?? error.message));
    redis.#socket.on("close", () => fail("the connection ended"));
    const password = decodeURIComponent(url.password);
    const user = decodeURIComponent(url.username);
    if (password !== "") await redis.call("AUTH", ...(user === "" ? [] : [user]), password);
    const database = url.pathname.slice(1);
    if (database !== "") await redis.call("SELECT", database);
    return redis;
  }

  call(...words) {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    const parts = words.map((word) => (Buffer.isBuffer(word) ? word : Buffer.from(String(word))));
    const bytes = [
      Buffer.from(`*${parts.length}\r\n`),
      ...parts.flatMap((part) => [Buffer.from(`$${part.length}\r\n`), part, Buffer.from("\r\n")]),
    ];
    return new Promise((done, failed) => {
      this.#waiting.push({ done, failed });
      this.#socket.write(Buffer.concat(bytes));
    });
  }

  close() {
    this.#failure ??= new Failure(EXIT.failed, "closed");
    this.#socket.destroy();
  }

  #fail(error) {
    this.#failure ??= error;
    for (const { failed } of this.#waiting.splice(0)) failed(this.#failure);
  }

  #take(bytes) {
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    for (;;) {
      const found = reply(this.#rest, 0);
      if (found === undefined) return;
      this.#rest = this.#rest.subarray(found.end);
      const { done, failed } = this.#waiting.shift();
      if (found.value instanceof Error) failed(found.value);
      else done(found.value);
    }
  }
}

// Returns one reply and where it ends; undefined where it is not whole.
function reply(bytes, at) {
  const line = bytes.indexOf("\r\n", at);
  if (line === -1) return undefined;
  const text = bytes.toString("utf8", at + 1, line);
  const end = line + 2;
  switch (String.fromCharCode(bytes[at])) {
    case "+":
      return { value: Buffer.from(text), end };
    case "-":
      return { value: new Failure(EXIT.failed, `Redis refuses: ${text}`), end };
    case ":":
      return { value: Number(text), end };
    case "$": {
      const length = Number(text);
      if (length < 0) return { value: null, end };
      if (bytes.length < end + length + 2) return undefined;
      return { value: Buffer.from(bytes.subarray(end, end + length)), end: end + length + 2 };
    }
    case "*": {
      const items = [];
      let next = end;
      for (let left = Number(text); left > 0; left -= 1) {
        const item = reply(bytes, next);
        if (item === undefined) return undefined;
        items.push(item.value);
        next = item.end;
      }
      return { value: items, end: next };
    }
    default:
      throw new Failure(EXIT.failed, "the address is no Redis: its replies cannot be read");
  }
}

/**
 * Yields what the keys hold: `{ kind: "value", id, value }`, `{ kind: "uniques", id, hyll }`, `{ kind: "board", id,
 * size, members }`, where members is an iterator of pages of `[member, score]`; and `{ kind: "other", id, why }` for
 * what has no place in Tally. `match`: a pattern of SCAN.
 */
export async function* entries(redis, match) {
  let cursor = "0";
  do {
    const [next, keys] = await redis.call(
      "SCAN", cursor, ...(match === undefined ? [] : ["MATCH", match]), "COUNT", PAGE,
    );
    cursor = next.toString();
    const types = await Promise.all(keys.map((key) => redis.call("TYPE", key)));
    for (const [index, key] of keys.entries()) {
      const id = key.toString("utf8");
      const type = types[index].toString();
      if (type === "zset") {
        yield { kind: "board", id, size: await redis.call("ZCARD", key), members: pages(redis, key) };
      } else if (type === "string") yield textOf(id, await redis.call("GET", key));
      else if (type !== "none") yield { kind: "other", id, why: `a ${type}` };
    }
  } while (cursor !== "0");
}

function textOf(id, bytes) {
  if (bytes === null) return { kind: "other", id, why: "gone meanwhile" };
  if (bytes.subarray(0, 4).equals(HYLL)) return { kind: "uniques", id, hyll: bytes };
  const text = bytes.toString("latin1");
  return /^-?\d{1,39}$/.test(text)
    ? { kind: "value", id, value: BigInt(text) }
    : { kind: "other", id, why: "a text that is no whole number" };
}

// Pages of a sorted set by ZSCAN, which may name a member twice: each time with its score.
async function* pages(redis, key) {
  let cursor = "0";
  do {
    const [next, flat] = await redis.call("ZSCAN", key, cursor, "COUNT", PAGE);
    cursor = next.toString();
    const members = [];
    for (let at = 0; at < flat.length; at += 2) {
      members.push([flat[at].toString("utf8"), Number(flat[at + 1].toString())]);
    }
    yield members;
  } while (cursor !== "0");
}
