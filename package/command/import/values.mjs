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
import { UTF16, isUtf16 } from "../text.mjs";
import { Checksum } from "./checksum.mjs";
import { Redis, entries } from "./redis.mjs";

/** How lines meet what is there. */
export const MODES = ["create", "replace", "add"];
// A body has at most 32 MiB, and a line 4 MiB.
const BODY_BYTES_MAX = 4 * 1024 * 1024;
// Each counter costs some calls: a body is answered within seconds.
const BODY_LINES_MAX = 1_000;
const REFUSED_SHOWN_MAX = 20;

// What columns of a list are called.
const HEADER = /^(?:namespace|ns|key|name|id|counter|path|page|value|count|hits|visits|views|total)$/i;
// `views 1,234` is 1,234 views, or 234 of `views 1`.
const UNCLEAR = /[\s,][+-]?\d{1,3}(?:[,.'\u2019 \u00a0\u202f]\d{3})+$/;

/** Returns the cells of a line of CSV (RFC 4180, without line breaks inside quotes). */
const csv = (line) =>
  [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(
    ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain,
  );

// Numbers of JSON as texts: they may be larger than JavaScript's.
const NUMBER = /("(?:[^"\\]|\\.)*")|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const jsonOf = (text) => JSON.parse(text.replace(NUMBER, (number, string) => string ?? `"${number}"`));

const refuseAll = (_, why) => {
  throw new Failure(EXIT.failed, why);
};

/**
 * Returns the entries of a list: of CountAPI's and Abacus's `namespace/key`, with values: JSON (`{"site/visits": 12}`,
 * or an array of objects with `namespace`, `key`, `value`, or an object a line), CSV, cells between tabs, or a line
 * each: `site/visits 12`. `refuse(line, why)` is called for each that cannot be read.
 */
export function listed(text, refuse = refuseAll) {
  const known = new Map();
  const entry = (id, value, line) => {
    const shown = JSON.stringify(id);
    const number = String(value ?? "").trim();
    const name = typeof id === "string" ? id.replace(/^https?:\/\/[^/]+\/(?:hit|get|info)\//, "") : "";
    if (name.includes("\ufffd")) return refuse(line, `${shown}: the name is not UTF-8`);
    if (name === "") return refuse(line, `line ${line} is no counter with its number`);
    if (!/^-?\d+$/.test(number)) return refuse(line, `${shown}: ${JSON.stringify(value)} is no whole number`);
    if (known.has(name)) return refuse(line, `${shown} has a value in line ${known.get(name)} too`);
    known.set(name, line);
    return { kind: "value", id: name, value: BigInt(number) };
  };
  const named = (one, line) => {
    const { namespace, key, id, name, value, count } = one ?? {};
    const hasBoth = typeof namespace === "string" && typeof key === "string";
    return entry(id ?? name ?? (hasBoth ? `${namespace}/${key}` : key), value ?? count, line);
  };
  if (/^\s*[[{]/.test(text)) {
    return entriesOf(text, refuse).flatMap(([id, one, line], at) => {
      const isPlain = one === null || typeof one !== "object";
      return (isPlain ? entry(id, one, at + 1) : named({ key: id, ...one }, line ?? at + 1)) ?? [];
    });
  }
  let columns;
  return text.split(/\r?\n/).flatMap((line, at) => {
    if (line.trim() === "" || /^#(?:\s|$)/.test(line)) return [];
    const cells = cellsOf(line);
    if (columns === undefined && known.size === 0 && cells.every((cell) => HEADER.test(cell.trim()))) {
      columns = cells.length;
      return [];
    }
    if (columns === undefined ? UNCLEAR.test(line.trim()) : cells.length !== columns) {
      const shown = JSON.stringify(line);
      refuse(at + 1, `line ${at + 1}, ${shown}: write the number without separators, and a cell with commas in quotes`);
      return [];
    }
    return entry(cells.slice(0, -1).join("/"), cells.at(-1), at + 1) ?? [];
  });
}

function cellsOf(line) {
  if (line.includes("\t")) return line.split("\t");
  return line.includes(",") ? csv(line) : (line.trim().match(/^(.*\S)\s+(\S+)$/)?.slice(1) ?? [line]);
}

// The entries of JSON, by their names where these are beside them: of an object, an array, or of an object a line, with
// the number of the line.
function entriesOf(text, refuse) {
  try {
    const json = jsonOf(text);
    return Array.isArray(json) ? json.map((one) => [undefined, one]) : Object.entries(json);
  } catch (error) {
    const isOfLines = /^\s*\{.*\}[ \t\r]*\n\s*\S/.test(text);
    if (!isOfLines) throw new Failure(EXIT.failed, `the list is no JSON: ${error.message}`);
  }
  return text.split(/\r?\n/).flatMap((line, at) => {
    if (line.trim() === "") return [];
    try {
      return [[undefined, jsonOf(line), at + 1]];
    } catch (error) {
      refuse(at + 1, `line ${at + 1} is no JSON: ${error.message}`);
      return [];
    }
  });
}

/** Yields an entry as lines of an import. `now_ms`: from when on the time that it has left runs. */
async function* linesOf(one, prefix, now_ms) {
  const id = JSON.stringify(prefix + one.id);
  const settings = { ...(one.kind === "uniques" ? { unique_hash: "redis" } : {}) };
  if (one.ttl_ms > 0) settings.ttl_seconds = Math.ceil(one.ttl_ms / 1000);
  const more = Object.keys(settings).length > 0 ? `,"settings":${JSON.stringify(settings)}` : "";
  if (one.kind === "value") yield `{"id":${id}${more},"value":${one.value}}`;
  else if (one.kind === "uniques") yield `{"id":${id}${more},"hll":"${one.hll.toString("base64")}"}`;
  else {
    yield `{"board":${id}}`;
    // A board does not end: its members do.
    const end = one.ttl_ms > 0 ? `,"expires_at":${now_ms + one.ttl_ms}` : "";
    for await (const members of one.members) {
      for (const [member, score] of members) yield `{"board":${id},"member":${JSON.stringify(member)},"score":${score}${end}}`;
    }
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
  if (hasMore) return `${name} continues after its last line: import files one by one`;
  if (end.counters !== counters) return `${name} has ${counters} counters, and its last line says ${end.counters}: ${again}`;
  if (end.checksum !== undefined && end.checksum !== sum.text()) return `${name} is ${sum.text()}, and its last line says ${end.checksum}: it was changed or damaged, ${again}`;
  if (end.complete !== true) return `${name} says that it is not complete: it lacks ${end.cursor === undefined ? "what did not answer" : "what comes after its cursor"}`;
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
    this.complete = null;
    this.why = [];
    this.began_ms = performance.now();
  }

  /** Whether a board has come. */
  get hasBoards() {
    return this.#board !== undefined;
  }

  summary() {
    const { counters, policies, boards, members, present, rejected, refused, complete, why, left } = this;
    const seconds = Number(((performance.now() - this.began_ms) / 1000).toFixed(2));
    return {
      counters, policies, boards, members, present, rejected, refused, complete, ...(why.length > 0 ? { why } : {}),
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
    const refuse = (line, detail) => this.#refuse({ line, code: "unreadable", detail });
    for (const one of listed(text, refuse)) await this.entry(one);
    await this.flush();
  }

  /** Brings the lines of an export back: the chunks of a file. Compares them with what its last line says. */
  async lines(chunks, name = "the file") {
    const file = { sum: new Checksum(), counters: 0, end: undefined, hasMore: false };
    let rest = "";
    let why;
    const decoder = new TextDecoder();
    try {
      for await (const chunk of chunks) {
        if (file.counters === 0 && isUtf16(chunk)) throw new Failure(EXIT.failed, `${name} ${UTF16}`);
        const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
        rest = lines.pop();
        for (const line of lines) await this.#lineOf(file, line);
      }
      await this.#lineOf(file, rest);
    } catch (error) {
      // What could be read of a damaged archive is brought back.
      if (error.exit !== EXIT.partly) throw error;
      why = error.message;
    }
    await this.flush();
    this.end(why ?? damage(file, name));
  }

  /** Says why a file is not complete; undefined where it is. */
  end(why) {
    if (why !== undefined) this.why.push(why);
    this.complete = this.complete !== false && why === undefined;
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
    for await (const line of linesOf(one, this.options.prefix, Date.now())) await this.line(line);
    for (const why of one.left ?? []) this.left.push({ id: one.id, why });
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
    const refused = (error) => {
      // A body of which nothing was imported is refused, by a problem that has the report.
      if (error.problem?.refused === undefined) throw error;
      return error.problem;
    };
    const request = (...call) => this.client.request(...call).catch(refused);
    const report = await request("POST", "/import", {
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
