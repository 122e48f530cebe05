// What a Redis holds: its keys with their types, their values and the time that they have left. What becomes of them is
// decided by crates/tally-import/src/values.rs.
//
// Keys are read by SCAN, a page at a time: Redis goes on serving others, and memory is bounded. A key that changes
// meanwhile is read as it is then. Source: Redis, "SCAN" and "PTTL".
import { ErrorReply, RESP_TYPES, createClient } from "@redis/client";
import { EXIT, Failure } from "../outcome.mjs";

const PAGE = 500;
// Keys and members are bytes.
const typeMapping = { [RESP_TYPES.BLOB_STRING]: Buffer };
const base64 = (bytes) => bytes?.toString("base64");

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

/** Yields what the keys hold, sorted sets in pages behind their key. `match`: a pattern of SCAN. */
export async function* entries(redis, match) {
  const fits = match === undefined ? [] : ["MATCH", match];
  for await (const keys of pages((cursor) => redis.call("SCAN", cursor, ...fits, "COUNT", PAGE))) {
    const types = await Promise.all(keys.map((key) => redis.call("TYPE", key)));
    for (const [index, key] of keys.entries()) {
      const type = types[index].toString();
      if (type === "none") continue;
      const entry = { key: base64(key), type, ttl_ms: await redis.call("PTTL", key) };
      yield type === "string" ? { ...entry, value: base64(await redis.call("GET", key)) } : entry;
      if (type !== "zset") continue;
      for await (const page of pages((cursor) => redis.call("ZSCAN", key, cursor, "COUNT", PAGE))) {
        yield { ...entry, members: page.map(base64) };
      }
    }
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
