// The one interface of the command to the reader of logs, crates/tally-logs as Wasm: bytes in, lines of a body of
// /ingest out.
//
// interface ReaderOptions {
//   format: string;             // one of FORMATS or ALIASES; `formatOf` finds it
//   state?: string;             // what `reader.state` said where an earlier run ended
//   status: string;             // `200-299,304` or `any`
//   method: string;             // `GET,HEAD` or `any`
//   bots: boolean;              // programs count too
//   statics: boolean;           // what pages load counts too
//   paths: "keep" | "strip" | "add";
//   rewrites: [RegExp, string][];
//   stripQuery: boolean;
//   prefix: string;             // of each counter's id
//   site?: string;              // the counter of all lines
//   by: string[];               // dimensions
//   unique?: "ip" | "none";
// }
// interface Reader {
//   format: string;
//   query: object;              // the query of `POST /ingest` for the lines of `body`
//   state: string;              // what the format knows after the bytes that were read, such as names of columns
//   read(bytes: Uint8Array): {  // whole lines; the last one needs no newline
//     body: string[];           // lines of a body of /ingest
//     ids: string[];            // the counter of each of them
//     numbers: number[];        // which line of `bytes` each of them is: so many newlines stand before it
//     lines: number;            // how many there were, without comments, headers and blank ones
//     left: { [reason in keyof typeof REASONS]?: number };  // left out, by reason
//     unreadable: number;       // neither counted nor left out
//     unread: string[];         // some of those
//   };
// }
//
// Invariant: what `read` returns depends on the options, the state before and the bytes alone.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { EXIT, Failure } from "../outcome.mjs";
import { ROOT } from "../place.mjs";
import { UTF16, isUtf16 } from "../text.mjs";

/** The names of formats, in the order in which they are tried. */
export const FORMATS = ["logpush", "caddy", "nginx-json", "alb", "goatcounter", "cloudfront", "clf"];
/** Other names of formats: what people have is called after their server. */
export const ALIASES = {
  nginx: "clf", apache: "clf", common: "clf", combined: "clf", elb: "alb", w3c: "cloudfront", iis: "cloudfront",
};
/** The rules of `--paths`. */
export const PATH_RULES = ["keep", "strip", "add"];
/** Why hits are left out, in the order in which that is looked at, and how to count them all the same. */
export const REASONS = {
  status: "--status excludes their status (--status any takes all)",
  method: "--method excludes their method (--method any takes all)",
  static: "they are files that pages load (--static)",
  bots: "their user agents are programs' (--bots)",
  request: "their clients sent no request",
};

// The outputs of a call, by crates/tally-logs-wasm.
const [REPORT, BODY, COUNTERS, NUMBERS] = [0, 1, 2, 3];
const DIMENSIONS = "page, referrer, status, method, browser, device, utm_source, country";
const utf8 = new TextDecoder();

/** The Wasm, once it is needed; and the rules that the reader at work asks for. */
let loaded;
let rules = [];
const closed = new FinalizationRegistry((number) => loaded.close(number));

function wasm() {
  if (loaded !== undefined) return loaded;
  let bytes;
  try {
    bytes = readFileSync(join(ROOT, "build/logs.wasm"));
  } catch (error) {
    throw new Failure(EXIT.failed, `build/logs.wasm, which reads logs, cannot be read (${error.code}): run make build`);
  }
  // A rule of the caller's own is carried out here: the Wasm has no expressions.
  const rewrite = (at, length) => {
    const path = rules.reduce((text, [pattern, replacement]) => text.replace(pattern, replacement), textAt(at, length));
    const changed = Buffer.from(path);
    const room = loaded.exchange(changed.length);
    new Uint8Array(loaded.memory.buffer).set(changed, room);
  };
  loaded = new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { rewrite } }).exports;
  return loaded;
}

const textAt = (at, length) => utf8.decode(new Uint8Array(loaded.memory.buffer, at, length));
const text = (output) => textAt(loaded.output(output), loaded.output_length(output));
// The bytes may begin anywhere: numbers of four bytes are copied to where they may be read as such.
const numbers = (output) => {
  const at = loaded.output(output);
  return new Uint32Array(loaded.memory.buffer.slice(at, at + loaded.output_length(output)));
};

function input(bytes) {
  const room = wasm().input(bytes.length);
  new Uint8Array(loaded.memory.buffer).set(bytes, room);
}

/** Returns the name of the format of the log `name` that begins with these bytes; undefined where no format fits. */
export function formatOf(head, name = "the log") {
  if (isUtf16(head)) throw new Failure(EXIT.failed, `${name} ${UTF16}`);
  input(head);
  loaded.format_of();
  return text(REPORT) || undefined;
}

/** Returns a reader. Throws a failure of usage that names the option where one cannot be read. */
export function createReader(options) {
  const { status, method, bots, statics, paths, rewrites, stripQuery, prefix, site, by, state = "" } = options;
  const format = ALIASES[options.format] ?? options.format;
  const given = { format, state, status, method, bots, statics, paths, stripQuery, prefix, site };
  input(Buffer.from(JSON.stringify({
    ...given, rewrites: rewrites.length > 0, by: by.join(","), unique: options.unique === "ip",
  })));
  const number = loaded.open();
  if (number === 0) throw unfit(text(REPORT), options);
  const reader = {
    format,
    state,
    query: { format: "ndjson" },
    read(bytes) {
      input(bytes);
      rules = rewrites;
      loaded.read(number);
      const { ids, state: after, ...report } = JSON.parse(text(REPORT));
      reader.state = after;
      const body = text(BODY).split("\n");
      body.pop();
      const counted = Array.from(numbers(COUNTERS), (at) => ids[at]);
      return { ...report, body, ids: counted, numbers: Array.from(numbers(NUMBERS)) };
    },
  };
  closed.register(reader, number);
  return reader;
}

function unfit(option, options) {
  const known = {
    format: `is not known: ${[...FORMATS, ...Object.keys(ALIASES)].join(", ")}`,
    status: "is no list of statuses: write it as 200-299,304",
    paths: `is not known: ${PATH_RULES.join(", ")}`,
    by: `is no list of dimensions: some of ${DIMENSIONS}, each once`,
  };
  const value = option === "by" ? options.by.join(",") : options[option];
  return new Failure(EXIT.usage, `--${option} ${value} ${known[option] ?? "cannot be read"}`);
}
