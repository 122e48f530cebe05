// The one interface of the command to the reader of logs: bytes in, lines of a body of /ingest out.
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
//     left: { status: number; method: number; static: number; bots: number };  // left out, by reason
//     unreadable: number;       // neither counted nor left out
//     unread: string[];         // some of those
//   };
// }
//
// Invariant: what `read` returns depends on the options, the state before and the bytes alone.
import { EXIT, Failure } from "../outcome.mjs";
import { PATH_RULES, REASONS, filter, pathOf, statuses } from "./filters.mjs";
import * as formats from "./formats.mjs";

export { PATH_RULES, REASONS };
/** The names of formats. */
export const FORMATS = Object.keys(formats.FORMATS);
/** Other names of formats: what people have is called after their server. */
export const ALIASES = formats.ALIASES;

const SAMPLE_LINES = 50;
const UNREAD_SHOWN_MAX = 5;

const linesOf = (bytes) => new TextDecoder().decode(bytes).split(/\r?\n/);

/** Returns the name of the format of a log that begins with these bytes; undefined where no format fits. */
export function formatOf(head) {
  const lines = linesOf(head).slice(0, SAMPLE_LINES + 1);
  return formats.formatOf(lines.length > 1 ? lines.slice(0, -1) : lines);
}

/** Returns a reader. Throws a failure of usage that names the option where one cannot be read. */
export function createReader(options) {
  const name = formats.ALIASES[options.format] ?? options.format;
  if (!(name in formats.FORMATS)) {
    throw new Failure(EXIT.usage, `--format ${options.format} is not known: ${[...FORMATS, ...Object.keys(ALIASES)].join(", ")}`);
  }
  const status = statuses(options.status);
  if (status === undefined) throw new Failure(EXIT.usage, `--status ${options.status} is no list of statuses: write it as 200-299,304`);
  if (!PATH_RULES.includes(options.paths)) throw new Failure(EXIT.usage, `--paths is one of ${PATH_RULES.join(", ")}`);
  const { site, by, unique } = options;
  const leaves = filter({ ...options, status });
  const counterOf = pathOf(options);
  const parse = formats.FORMATS[name]();
  let state = options.state ?? "";
  if (state !== "") parse(state);
  const read = (bytes) => {
    const all = {
      body: [], ids: [], numbers: [], lines: 0, left: { status: 0, method: 0, static: 0, bots: 0 }, unreadable: 0, unread: [],
    };
    for (const [number, line] of linesOf(bytes).entries()) {
      if (line === "") continue;
      const hit = parse(line);
      if (hit === null && (line.startsWith("#Fields:") || name === "goatcounter")) state = line;
      if (hit === null) continue;
      all.lines += 1;
      if (hit === undefined) {
        all.unreadable += 1;
        if (all.unread.length < UNREAD_SHOWN_MAX) all.unread.push(line.slice(0, 200));
        continue;
      }
      const { id, page, query } = counterOf(hit);
      const reason = leaves(hit, page);
      if (reason === undefined) {
        all.body.push(bodyLine(hit, id, page + query, { by, unique }));
        all.ids.push(site ?? id);
        all.numbers.push(number);
      } else all.left[reason] += 1;
    }
    return all;
  };
  const query = {
    format: "logpush", key: site === undefined ? "path" : "site", site,
    by: by.length === 0 ? undefined : by.join(","), unique,
  };
  return { format: name, query, read, get state() { return state; } };
}

// A line as Logpush writes it, with what is counted of it alone.
function bodyLine(hit, id, target, { by, unique }) {
  const line = { ClientRequestPath: id, EdgeStartTimestamp: hit.at_ms };
  if (unique === "ip") line.ClientIP = hit.address;
  if (by.length > 0) {
    line.ClientRequestURI = target;
    line.ClientRequestMethod = hit.method;
    if (hit.status !== undefined) line.EdgeResponseStatus = Number(hit.status);
    line.ClientRequestReferer = hit.referrer;
    line.ClientRequestUserAgent = hit.user_agent;
    line.ClientCountry = hit.country;
  }
  return JSON.stringify(line);
}
