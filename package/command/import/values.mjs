// What other counters hold, as lines of `POST /import`: from Redis, from lists of CountAPI and Abacus, and from exports
// of Tally itself.
//
// Invariant: each line is brought in once: what is there already stays (`create`), or becomes the same once more
// (`replace`). With `add` a repeat is told by the key of its body, for as long as keys are kept. A board of more
// members than a body has lines goes on in bodies of its own, behind its line once more: they add to what the first of
// them has begun. That one begins with its line, so that no other board's refusal is taken for its own.
import { createHash, randomUUID } from "node:crypto";
import { gzipSync } from "node:zlib";
import { EXIT, Failure } from "../outcome.mjs";
import { Checksum } from "./checksum.mjs";
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
 * Returns the entries of a list: of CountAPI's and Abacus's `namespace/key`, with values: JSON (`{"site/visits": 12}`,
 * or an array of objects with `namespace`, `key`, `value`), CSV, or a line each: `site/visits 12`.
 */
export function listed(text) {
  const entry = (id, value) => {
    if (!/^-?\d+$/.test(String(value).trim()))
      throw new Failure(EXIT.failed, `${JSON.stringify(id)}: ${JSON.stringify(value)} is no whole number`);
    return {
      kind: "value",
      id: id.replace(/^https?:\/\/[^/]+\/(?:hit|get|info)\//, ""),
      value: BigInt(String(value).trim()),
    };
  };
  const named = ({ namespace, key, id, name, value, count }) =>
    entry(id ?? name ?? (namespace === undefined ? key : `${namespace}/${key}`), value ?? count);
  if (/^\s*[[{]/.test(text)) {
    const json = JSON.parse(text);
    return Array.isArray(json)
      ? json.map(named)
      : Object.entries(json).map(([id, value]) =>
          typeof value === "object" ? named({ key: id, ...value }) : entry(id, value),
        );
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

/** Returns the board and the member that a line is about, if it is about any. */
function boardOf(line) {
  if (!line.startsWith('{"board":')) return {};
  try {
    return JSON.parse(line);
  } catch {
    // The service says what is wrong with it.
    return {};
  }
}

/** Returns what is wrong with a file, by its last line; nothing if that agrees with it. */
function damage({ sum, counters, end, hasMore }, name) {
  const again = "export it again, or fetch the file again";
  if (end === undefined) return `${name} has no last line, so it was cut: ${again}`;
  if (hasMore) return `${name} goes on behind its last line: import files one by one`;
  if (end.counters !== counters) return `${name} has ${counters} counters, and its last line says ${end.counters}: ${again}`;
  if (end.checksum !== undefined && end.checksum !== sum.text()) return `${name} is ${sum.text()}, and its last line says ${end.checksum}: it was changed or damaged, ${again}`;
  if (end.whole !== true) return `${name} says that it was not whole: it lacks ${end.cursor === undefined ? "what did not answer" : "what comes after its cursor"}`;
}

/** Bodies of `POST /import`, one after the other, and what became of their lines. */
export class Values {
  #lines = [];
  #bytes = 0;
  // The board whose line came last: its name and its line; whether that was sent in an earlier body, and was refused
  // there.
  #board;
  // Whether the present body goes on with it.
  #goesOn = false;

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
    this.why = [];
    this.began_ms = performance.now();
  }

  /** Whether a board has come. */
  get hasBoards() {
    return this.#board !== undefined;
  }

  summary() {
    const { counters, policies, boards, members, present, rejected, refused, whole, why, left } = this;
    const seconds = Number(((performance.now() - this.began_ms) / 1000).toFixed(2));
    return {
      counters, policies, boards, members, present, rejected, refused, whole, ...(why.length > 0 ? { why } : {}),
      left_out: left.length, left_out_keys: left.slice(0, REFUSED_SHOWN_MAX), seconds,
    };
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

  /** Brings the lines of an export back: the chunks of a file. Compares them with what its last line says. */
  async lines(chunks, name = "the file") {
    const file = { sum: new Checksum(), counters: 0, end: undefined, hasMore: false };
    let rest = "";
    const decoder = new TextDecoder();
    for await (const chunk of chunks) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop();
      for (const line of lines) await this.#lineOf(file, line);
    }
    await this.#lineOf(file, rest);
    await this.flush();
    const why = damage(file, name);
    if (why !== undefined) this.why.push(why);
    this.whole = this.whole !== false && why === undefined;
  }

  async #lineOf(file, text) {
    const line = text.endsWith("\r") ? text.slice(0, -1) : text;
    if (line.trim() === "") return;
    if (line.startsWith('{"end":') && file.end === undefined) {
      file.end = JSON.parse(line);
      return;
    }
    file.hasMore ||= file.end !== undefined;
    file.sum.add(Buffer.from(`${line}\n`));
    file.counters += line.startsWith('{"id":') ? 1 : 0;
    await this.line(line);
  }

  async entry(one) {
    if (one.kind === "other") return void this.left.push({ id: one.id, why: one.why });
    for await (const line of linesOf(one, this.options.prefix)) await this.line(line);
  }

  async line(line) {
    const { board, member } = boardOf(line);
    if (board !== undefined && member === undefined) {
      if (this.#goesOn) await this.flush();
      this.#board = { name: board, line, isSent: false, isRefused: false };
    } else if (board !== undefined && board === this.#board?.name) {
      if (this.#board.isRefused) {
        return this.#refuse({ id: board, code: "invalid-line", detail: "its board was refused" });
      }
      if (this.#board.isSent && this.#lines.length === 0) this.#begin(this.#board.line, true);
    } else if (this.#goesOn) await this.flush();
    this.#begin(line, this.#goesOn);
    if (this.#lines.length >= BODY_LINES_MAX || this.#bytes >= BODY_BYTES_MAX) await this.flush();
  }

  #begin(line, goesOn) {
    this.#goesOn = goesOn;
    this.#lines.push(line);
    this.#bytes += Buffer.byteLength(line) + 1;
  }

  #refuse(line) {
    this.rejected += 1;
    if (this.refused.length < REFUSED_SHOWN_MAX) this.refused.push(line);
  }

  async flush() {
    const board = this.#board?.isSent === false ? this.#board : undefined;
    const before = board === undefined ? 0 : this.#lines.lastIndexOf(board.line);
    if (before > 0) await this.#send(this.#lines.splice(0, before));
    if (this.#lines.length === 0) return;
    const report = await this.#send(this.#lines.splice(0));
    this.#bytes = 0;
    if (board !== undefined) Object.assign(board, { isSent: true, isRefused: report.boards === 0 });
  }

  // Sends a body, and returns what is said of it.
  async #send(lines) {
    const text = `${lines.join("\n")}\n`;
    const goesOn = this.#goesOn;
    this.#goesOn = false;
    const { isLocal } = this.options;
    const mode = goesOn ? "add" : this.options.mode;
    const hash = createHash("sha256").update(`${mode}\n${text}`).digest("base64url").slice(0, 32);
    const report = await this.client.request("POST", "/import", {
      query: { mode },
      body: isLocal ? text : gzipSync(text),
      headers: { "content-type": "application/x-ndjson" },
      // A later import of the same lines is told by what is there; with `add` by the key alone.
      idempotencyKey: `import-${this.options.mode === "add" ? hash : randomUUID()}`,
      isWrite: true,
    });
    // The line of a board that goes on was counted before.
    for (const name of ["counters", "policies", "boards", "members"]) {
      this[name] += name === "boards" && goesOn ? 0 : report[name];
    }
    const present = report.refused.filter(({ code }) => code === "already-exists").length;
    // Of more than a hundred refused lines the others are not named: they are like these.
    const unnamed = report.rejected - report.refused.length;
    this.present += present + (present === report.refused.length ? unnamed : 0);
    this.rejected += report.rejected - present - (present === report.refused.length ? unnamed : 0);
    for (const line of report.refused) {
      if (line.code !== "already-exists" && this.refused.length < REFUSED_SHOWN_MAX) {
        this.refused.push(line);
      }
    }
    this.onProgress(this);
    return report;
  }
}
