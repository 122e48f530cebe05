// What other counters hold, as lines of `POST /import`: from Redis, from lists of CountAPI and Abacus, and from exports of Tally itself.
//
// Invariant: each line is brought in once: what is there already stays (`create`), or becomes the same once more (`replace`).
// With `add` a repeat is told by the key of its body, for as long as keys are kept.
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { EXIT, Failure } from "../outcome.mjs";
import { csv } from "./formats.mjs";
import { Redis, entries } from "./redis.mjs";

/** How lines meet what is there. */
export const MODES = ["create", "replace", "add"];
// A body has at most 32 MiB, and a line 4 MiB.
const BODY_BYTES_MAX = 4 * 1024 * 1024;
// Each counter costs some calls: a body is answered within seconds.
const BODY_LINES_MAX = 1_000;
const REFUSED_SHOWN_MAX = 20;

/**
 * Returns the entries of a list: of CountAPI's and Abacus's `namespace/key`, with values: JSON (`{"site/visits": 12}`, or an array of objects
 * with `namespace`, `key`, `value`), CSV, or a line each: `site/visits 12`.
 */
export function listed(text) {
  const entry = (id, value) => {
    if (!/^-?\d+$/.test(String(value).trim())) throw new Failure(EXIT.failed, `${JSON.stringify(id)}: ${JSON.stringify(value)} is no whole number`);
    return { kind: "value", id: id.replace(/^https?:\/\/[^/]+\/(?:hit|get|info)\//, ""), value: BigInt(String(value).trim()) };
  };
  const named = ({ namespace, key, id, name, value, count }) => entry(id ?? name ?? (namespace === undefined ? key : `${namespace}/${key}`), value ?? count);
  if (/^\s*[[{]/.test(text)) {
    const json = JSON.parse(text);
    return Array.isArray(json) ? json.map(named) : Object.entries(json).map(([id, value]) => (typeof value === "object" ? named({ key: id, ...value }) : entry(id, value)));
  }
  return text
    .split(/\r?\n/)
    .filter((line) => line.trim() !== "" && !line.startsWith("#"))
    .map((line) => (line.includes(",") ? csv(line) : line.trim().split(/\s+/)))
    .filter((cells, at) => at > 0 || /^-?\d+$/.test(cells.at(-1).trim()))
    .map((cells) => entry(cells.slice(0, -1).join("/"), cells.at(-1)));
}

/** Yields an entry as lines of an import. */
async function* linesOf(one, prefix) {
  const id = JSON.stringify(prefix + one.id);
  if (one.kind === "value") yield `{"id":${id},"value":${one.value}}`;
  else if (one.kind === "uniques") yield `{"id":${id},"settings":{"unique_hash":"redis"},"hyll":"${one.hyll.toString("base64")}"}`;
  else {
    yield `{"board":${id}}`;
    for await (const members of one.members) for (const [member, score] of members) yield `{"board":${id},"member":${JSON.stringify(member)},"score":${score}}`;
  }
}

/** Bodies of `POST /import`, one after the other, and what became of their lines. */
export class Values {
  #lines = [];
  #bytes = 0;

  /** options: `{ mode, prefix, source, isLocal }`. onProgress is called after each body. */
  constructor(client, options, onProgress = () => {}) {
    this.client = client;
    this.options = options;
    this.onProgress = onProgress;
    this.counters = 0;
    this.policies = 0;
    this.boards = 0;
    this.members = 0;
    this.present = 0;
    this.rejected = 0;
    this.refused = [];
    this.left = [];
    this.whole = null;
    this.began_ms = performance.now();
  }

  summary() {
    const { counters, policies, boards, members, present, rejected, refused, whole, left } = this;
    const seconds = Number(((performance.now() - this.began_ms) / 1000).toFixed(2));
    return { counters, policies, boards, members, present, rejected, refused, whole, left_out: left.length, left_out_keys: left.slice(0, REFUSED_SHOWN_MAX), seconds };
  }

  async redis(address, match) {
    const redis = await Redis.open(address);
    try {
      for await (const one of entries(redis, match)) await this.entry(one);
    } finally {
      redis.close();
    }
    await this.flush();
  }

  async list(text) {
    for (const one of listed(text)) await this.entry(one);
    await this.flush();
  }

  /** Brings the lines of an export back: the chunks of a file. */
  async lines(chunks) {
    let rest = "";
    const decoder = new TextDecoder();
    for await (const chunk of chunks) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop();
      for (const line of lines) await this.line(line);
    }
    await this.line(rest);
    await this.flush();
  }

  async entry(one) {
    if (one.kind === "other") return void this.left.push({ id: one.id, why: one.why });
    for await (const line of linesOf(one, this.options.prefix)) await this.line(line);
  }

  async line(line) {
    if (line.trim() === "") return;
    // What ends a file is about the file, and parts of it are sent here.
    if (line.startsWith('{"end":')) {
      this.whole = JSON.parse(line).whole ?? null;
      return;
    }
    this.#lines.push(line);
    this.#bytes += Buffer.byteLength(line) + 1;
    if (this.#lines.length >= BODY_LINES_MAX || this.#bytes >= BODY_BYTES_MAX) await this.flush();
  }

  async flush() {
    if (this.#lines.length === 0) return;
    const text = `${this.#lines.join("\n")}\n`;
    this.#lines = [];
    this.#bytes = 0;
    const { mode, isLocal } = this.options;
    const hash = createHash("sha256").update(`${mode}\n${text}`).digest("base64url").slice(0, 32);
    const said = await this.client.request("POST", "/import", {
      query: { mode },
      body: isLocal ? text : gzipSync(text),
      headers: { "content-type": "application/x-ndjson" },
      // A repeat is told by what is there; of `add` by the key alone.
      ...(mode === "add" ? { idempotencyKey: `import-${hash}` } : {}),
      isWrite: true,
    });
    for (const name of ["counters", "policies", "boards", "members"]) this[name] += said[name];
    const present = said.refused.filter(({ code }) => code === "counter-exists").length;
    // Of more than a hundred refused lines the others are not named: they are like these.
    const unnamed = said.rejected - said.refused.length;
    this.present += present + (present === said.refused.length ? unnamed : 0);
    this.rejected += said.rejected - present - (present === said.refused.length ? unnamed : 0);
    for (const line of said.refused) if (line.code !== "counter-exists" && this.refused.length < REFUSED_SHOWN_MAX) this.refused.push(line);
    this.onProgress(this);
  }
}
