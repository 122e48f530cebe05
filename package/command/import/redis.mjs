// What a Redis holds, as counters and boards: whole numbers, HyperLogLogs, sorted sets, each with the time that it has
// left.
//
// Keys are read by SCAN, a page at a time: Redis goes on serving others, and memory is bounded. A key that changes
// meanwhile is read as it is then. Source: Redis, "SCAN" and "PTTL".
import { isUtf8 } from "node:buffer";
import { ErrorReply, RESP_TYPES, createClient } from "@redis/client";
import { EXIT, Failure } from "../outcome.mjs";

const PAGE = 500;
const HYLL = Buffer.from("HYLL");
// Keys and members are bytes.
const typeMapping = { [RESP_TYPES.BLOB_STRING]: Buffer };

/** A connection to a Redis: `call(...words)` resolves to its reply, strings being Buffers. Calls are pipelined. */
export class Redis {
  #client;
  #place;

  static async open(address) {
    const redis = new Redis();
    const { protocol, host } = new URL(address);
    redis.#place = `${protocol}//${host}`;
    const socket = { reconnectStrategy: false };
    redis.#client = createClient({ url: address, RESP: 2, disableClientInfo: true, socket });
    // What fails is told by the call that fails.
    redis.#client.on("error", () => {});
    await redis.#client.connect().catch((error) => redis.#fail(error));
    return redis;
  }

  call(...words) {
    const sent = words.map((word) => (Buffer.isBuffer(word) ? word : String(word)));
    return this.#client.sendCommand(sent, { typeMapping }).catch((error) => this.#fail(error));
  }

  close() {
    this.#client.destroy();
  }

  #fail(error) {
    if (error instanceof ErrorReply) throw new Failure(EXIT.failed, `Redis refuses: ${error.message}`);
    throw new Failure(EXIT.unavailable, `${this.#place}: ${error.code ?? error.message}`);
  }
}

/**
 * Yields what the keys hold: `{ kind: "value", id, ttl_ms, value }`, `{ kind: "uniques", id, ttl_ms, hll }`, `{ kind:
 * "board", id, ttl_ms, members, left }`, where members is an iterator of pages of `[member, score]`, and `left` says
 * what they lack; and `{ kind: "other", id, why }` for what has no place in Tally. `match`: a pattern of SCAN.
 */
export async function* entries(redis, match) {
  const fits = match === undefined ? [] : ["MATCH", match];
  for await (const keys of pages((cursor) => redis.call("SCAN", cursor, ...fits, "COUNT", PAGE))) {
    const types = await Promise.all(keys.map((key) => redis.call("TYPE", key)));
    for (const [index, key] of keys.entries()) {
      const type = types[index].toString();
      if (type !== "none") yield { ttl_ms: await redis.call("PTTL", key), ...(await entryOf(redis, key, type)) };
    }
  }
}

async function entryOf(redis, key, type) {
  const id = key.toString("utf8");
  const other = (why) => ({ kind: "other", id, why });
  if (!isUtf8(key)) return other(`its name is no UTF-8: ${key.toString("hex")}`);
  if (type === "zset") {
    const left = [];
    return { kind: "board", id, left, members: membersOf(redis, key, left) };
  }
  if (type !== "string") return other(`a ${type}`);
  const bytes = await redis.call("GET", key);
  if (bytes === null) return other("gone meanwhile");
  if (bytes.subarray(0, HYLL.length).equals(HYLL)) return { kind: "uniques", id, hll: bytes };
  const text = bytes.toString("latin1");
  return /^-?\d{1,39}$/.test(text) ? { kind: "value", id, value: BigInt(text) } : other("no whole number");
}

// Pages of a sorted set, which may name a member twice: each time with its score. `left` gets those that are no text.
async function* membersOf(redis, key, left) {
  for await (const flat of pages((cursor) => redis.call("ZSCAN", key, cursor, "COUNT", PAGE))) {
    const members = [];
    for (let at = 0; at < flat.length; at += 2) {
      if (isUtf8(flat[at])) members.push([flat[at].toString("utf8"), Number(flat[at + 1].toString())]);
      else left.push(`a member that is no UTF-8: ${flat[at].toString("hex")}`);
    }
    yield members;
  }
}

async function* pages(scan) {
  let cursor = "0";
  do {
    const [next, page] = await scan(cursor);
    cursor = next.toString();
    yield page;
  } while (cursor !== "0");
}
