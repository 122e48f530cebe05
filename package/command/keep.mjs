// `tally export`, `snapshot`, `restore`, `repair`.
import { createWriteStream } from "node:fs";
import { crc32 } from "node:zlib";
import { path } from "../client/transport.ts";
import { clientOf, newCall } from "./client.mjs";
import { EXIT, Failure, number, table } from "./outcome.mjs";

// An export of a million counters streams for minutes.
const STREAM_MS_MAX = 24 * 3_600_000;
const OPERATION_MS_MAX = 600_000;

const NEWLINE = 10;

// Writes one page of an export but for its last line, and returns that line; `state` has the checksum and the number of bytes.
async function page(answer, write, state) {
  let rest = Buffer.alloc(0);
  for await (const chunk of answer.body) {
    const bytes = rest.length === 0 ? Buffer.from(chunk) : Buffer.concat([rest, chunk]);
    // The last line is held back: what ends a page is no line of the file.
    const last = bytes.lastIndexOf(NEWLINE, bytes.at(-1) === NEWLINE ? bytes.length - 2 : undefined) + 1;
    rest = bytes.subarray(last);
    if (last === 0) continue;
    state.checksum = crc32(bytes.subarray(0, last), state.checksum);
    state.bytes += last;
    await write(bytes.subarray(0, last));
  }
  return rest.toString("utf8");
}

function endOf(line) {
  try {
    const end = JSON.parse(line);
    if (typeof end.end === "boolean") return end;
  } catch {
    // Told below.
  }
  throw new Failure(EXIT.partly, "the export was cut: its last line is not there; export again");
}

/**
 * Writes all counters to stdout or a file. Pages are joined to one file, with one last line that says how many there are and the checksum of all.
 * One that is not whole makes the exit code 6.
 */
export async function exportAll({ args: [prefix], options, screen }) {
  const client = clientOf(options, { timeout_ms: STREAM_MS_MAX });
  const asked = { prefix, ...Object.fromEntries(["history", "uniques", "samples"].filter((name) => options[name]).map((name) => [name, 1])), ...(options.csv ? { format: "csv" } : {}) };
  const out = options.output === undefined ? process.stdout : createWriteStream(options.output);
  const write = (bytes) => (out.write(bytes) ? undefined : new Promise((done) => out.once("drain", done)));
  const state = { checksum: 0, bytes: 0, counters: 0, whole: true };
  const missing = new Set();
  let cursor;
  do {
    const answer = await newCall(client, "exports", "GET", "/export", { query: { ...asked, cursor } });
    const line = await page(answer, write, state);
    if (options.csv && !line.startsWith('{"end":')) {
      await write(line);
      break;
    }
    const end = endOf(line);
    state.counters += end.counters ?? 0;
    state.whole &&= end.whole !== false;
    for (const partition of end.missing_partitions ?? []) missing.add(partition);
    cursor = end.end ? undefined : end.cursor;
  } while (cursor !== undefined);
  const end = { end: true, counters: state.counters, checksum: `crc32:${state.checksum.toString(16).padStart(8, "0")}`, whole: state.whole, ...(missing.size > 0 ? { missing_partitions: [...missing] } : {}) };
  if (!options.csv) await write(`${JSON.stringify(end)}\n`);
  if (options.output !== undefined) {
    await new Promise((done) => out.end(done));
    screen.show({ file: options.output, bytes: state.bytes, ...end }, () => `${options.output}: ${number(state.counters)} counters, ${number(state.bytes)} bytes`);
  }
  if (!state.whole) screen.note("tally: the export is not whole: parts of the deployment did not answer; its last line and the lines with unreachable name them");
  return state.whole ? EXIT.done : EXIT.partly;
}

const text = (value) => (typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? ""));

/** Makes a snapshot, or lists those that there are. */
export async function snapshot({ options, screen }) {
  const client = clientOf(options, { timeout_ms: OPERATION_MS_MAX });
  const call = options.list ? ["GET", {}] : ["POST", { isSafe: true }];
  const found = await (await newCall(client, "snapshots", call[0], "/snapshots", call[1])).json();
  screen.show(found, () => {
    const rows = found.snapshots;
    if (!options.list || !Array.isArray(rows)) return text(found);
    if (rows.length === 0) return "there are no snapshots yet";
    const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
    return table([names, ...rows.map((row) => names.map((name) => text(row[name])))]);
  });
  return EXIT.done;
}

/** Puts counters back as a snapshot has them, or says what that would change. */
export async function restore({ args: [date], options, screen }) {
  if (!/^\d{4}-\d{2}-\d{2}/.test(date)) throw new Failure(EXIT.usage, `${date} is no day: write it as 2026-11-01; tally snapshot --list shows them`);
  const client = clientOf(options, { timeout_ms: OPERATION_MS_MAX });
  const { prefix, mode, dryRun } = options;
  const body = { ...(prefix === undefined ? {} : { prefix }), ...(mode === undefined ? {} : { mode }), ...(dryRun ? { dry_run: true } : {}) };
  const answer = await newCall(client, "snapshots", "POST", path("/snapshots/{date}/restore", date), { body, isWrite: true });
  const said = await answer.json();
  screen.show(said, () => table(Object.entries(said).map(([name, value]) => [name, text(value)])));
  return EXIT.done;
}

/** Puts back what is damaged. */
export async function repair({ options, screen }) {
  const client = clientOf(options, { timeout_ms: OPERATION_MS_MAX });
  const answer = await newCall(client, "repairs", "POST", "/repair", { body: options.dryRun ? { dry_run: true } : {}, isWrite: true });
  const said = await answer.json();
  screen.show(said, () => table(Object.entries(said).map(([name, value]) => [name, text(value)])));
  return EXIT.done;
}
