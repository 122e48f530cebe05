// `tally export`, `snapshot`, `restore`, `repair`.
import { createWriteStream } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { path } from "../client/transport.ts";
import { clientOf, newCall } from "./client.mjs";
import { EXIT, Failure, table } from "./outcome.mjs";

// An export of a million counters streams for minutes.
const STREAM_MS_MAX = 24 * 3_600_000;
const OPERATION_MS_MAX = 600_000;

// The last bytes of what streams through, for the line that says how many and whether it is whole.
async function* keeping(stream, seen) {
  for await (const chunk of stream) {
    seen.bytes += chunk.length;
    seen.tail = Buffer.concat([seen.tail, chunk]).subarray(-4_096);
    yield chunk;
  }
}

/** Writes all counters to stdout or a file. A stream that was cut is told by its last line, and makes the exit code 6. */
export async function exportAll({ args: [prefix], options, screen }) {
  const client = clientOf(options, { timeout_ms: STREAM_MS_MAX });
  const query = { prefix, ...Object.fromEntries(["history", "uniques", "samples"].filter((name) => options[name]).map((name) => [name, 1])), ...(options.csv ? { format: "csv" } : {}) };
  const answer = await newCall(client, "exports", "GET", "/export", { query });
  const seen = { bytes: 0, tail: Buffer.alloc(0) };
  const out = options.output === undefined ? process.stdout : createWriteStream(options.output);
  await pipeline(Readable.from(keeping(Readable.fromWeb(answer.body), seen)), out, { end: options.output !== undefined });
  if (options.csv) return EXIT.done;
  const last = seen.tail.toString("utf8").trimEnd().split("\n").at(-1);
  let end;
  try {
    end = JSON.parse(last);
  } catch {
    throw new Failure(EXIT.partly, "the export was cut: its last line is not whole; export again");
  }
  if (options.output !== undefined) screen.show({ file: options.output, bytes: seen.bytes, end }, () => `${options.output}: ${seen.bytes.toLocaleString("en")} bytes`);
  const isWhole = end.whole !== false && end.complete !== false && (end.missing === undefined || end.missing.length === 0);
  if (!isWhole) screen.note("tally: the export is not whole: parts of the deployment did not answer; its last line names them");
  return isWhole ? EXIT.done : EXIT.partly;
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
