// What other counters hold, as bodies of `POST /import`: crates/tally-import decides what they hold.
import { randomUUID } from "node:crypto";
import { EXIT } from "../outcome.mjs";
import { hashing } from "./files.mjs";
import { Redis, entries } from "./redis.mjs";
import { bodyOf } from "./run.mjs";
import { call } from "./wasm.mjs";

export class Values {
  #began_ms = performance.now();
  #values;

  /** options: `{ mode, prefix, isLocal }`. onProgress is called after each body. */
  constructor(client, { mode, prefix = "", isLocal }, onProgress = () => {}) {
    Object.assign(this, { client, isLocal, onProgress });
    this.#values = call("values", { mode, prefix }).json;
  }

  #call(name, args, bytes) {
    return call(name, { values: this.#values, ...args }, bytes, hashing);
  }

  /** What was brought in: `{ json, bytes }`, bytes being a text for people. */
  end({ hasColors = false } = {}) {
    return this.#call("carried", { seconds: (performance.now() - this.#began_ms) / 1000, hasColors });
  }

  /** Adds a file that was not read. */
  fail(why) {
    this.#call("unread", { why });
  }

  async redis(address, match) {
    const redis = await Redis.open(address);
    try {
      for await (const entry of entries(redis, match)) {
        this.#call("entry", { entry, nowMs: Date.now() });
        await this.#send(false);
      }
    } finally {
      redis.close();
    }
    await this.#send(true);
  }

  async list(text) {
    this.#call("list", {}, Buffer.from(text));
    await this.#send(true);
  }

  /** Brings the lines of an export back: the chunks of a file. Compares them with what its last line says. */
  async lines(chunks, name = "the file") {
    let why;
    try {
      for await (const chunk of chunks) {
        this.#call("lines", { name }, chunk);
        await this.#send(false);
      }
    } catch (error) {
      // What could be read of a damaged archive is brought back.
      if (error.exit !== EXIT.partly) throw error;
      why = error.message;
    }
    this.#call("endOfLines", { name, why });
    await this.#send(true);
  }

  // Sends the bodies that are whole; at the end all.
  async #send(isEnd) {
    for (;;) {
      const { json: next, bytes } = this.#call("nextBody", { isEnd });
      if (next === null) return;
      const idempotencyKey = `import-${next.key ?? randomUUID()}`;
      const sent = { ...bodyOf(bytes, this.isLocal), query: { mode: next.mode }, idempotencyKey, isWrite: true };
      const report = await this.client.request("POST", "/import", sent).catch((error) => {
        // A body of which nothing was imported is refused, by a problem that has the report.
        if (error.problem?.refused === undefined) throw error;
        return error.problem;
      });
      this.#call("reported", {}, Buffer.from(JSON.stringify(report)));
      this.onProgress(this.end().json);
    }
  }
}
