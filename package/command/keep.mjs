// `tally export`, `snapshot`, `restore`, `repair`.
import { once } from "node:events";
import { crc32 } from "node:zlib";
import { privateOutput } from "../../scripts/private-files.mjs";
import { path } from "../client/transport.ts";
import { clientOf, newCall } from "./client.mjs";
import { EXIT, Failure, number, table } from "./outcome.mjs";

// An export of a million counters streams for minutes.
const STREAM_MS_MAX = 24 * 3_600_000;
const OPERATION_MS_MAX = 600_000;
const LOOK_EVERY_MS = 1_000;

const NEWLINE = 10;
const SIGNALS = ["SIGINT", "SIGTERM"];

// Returns what takes the bytes of an export: a file, or standard output, whose failures tally.mjs names.
function outputOf(name) {
  if (name === undefined) {
    const write = (bytes) => (process.stdout.write(bytes) ? undefined : once(process.stdout, "drain"));
    return { write, end: () => {} };
  }
  const tried = (exit, remedy, work) => {
    try {
      return work();
    } catch (error) {
      throw new Failure(exit, `--output ${name} cannot be written (${error.code}): ${remedy}`);
    }
  };
  const file = tried(EXIT.usage, "name a file in a folder of yours", () => privateOutput(name));
  const full = (work) => tried(EXIT.failed, "make room there, or name another file", work);
  return { write: (bytes) => full(() => file.write(bytes)), end: (isWhole) => full(() => file.end(isWhole)) };
}

// Writes one page of an export but for its last line, and returns that line; `state` has the checksum and the number of
// bytes.
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
 * Writes all counters to stdout or a file. Pages are joined to one file, with one last line that says how many there
 * are and the checksum of all. One that is not complete makes the exit code 6.
 */
export async function exportAll({ args: [prefix], options, screen }) {
  const client = clientOf(options, { timeout_ms: STREAM_MS_MAX });
  const also = ["history", "uniques", "samples", "alerts"].filter((name) => options[name]);
  const query = {
    prefix,
    ...Object.fromEntries(also.map((name) => [name, 1])),
    ...(options.csv ? { format: "csv" } : {}),
  };
  const stop = new AbortController();
  // What is interrupted leaves no part of a file.
  if (options.output !== undefined) for (const name of SIGNALS) process.once(name, () => stop.abort());
  const out = outputOf(options.output);
  let state;
  try {
    state = await pages(client, query, options, out, stop.signal);
  } finally {
    out.end(state !== undefined);
  }
  const { bytes, end } = state;
  if (options.output !== undefined) {
    const counters = `${number(end.counters)} ${end.counters === 1 ? "counter" : "counters"}`;
    const text = () => `${options.output}: ${counters}, ${number(bytes)} bytes`;
    screen.show({ file: options.output, bytes, ...end }, text);
  }
  if (!end.complete) screen.note("tally: the export is not complete: parts of the deployment did not answer; its last line and the lines with unreachable name them");
  return end.complete ? EXIT.done : EXIT.partly;
}

// Writes all pages and the last line. Returns the number of bytes before that line, and what it says.
async function pages(client, query, options, { write }, signal) {
  const state = { checksum: 0, bytes: 0, counters: 0, complete: true };
  const missing = new Set();
  let cursor;
  do {
    const call = { query: { ...query, cursor }, signal };
    const answer = await newCall(client, "exports", "GET", "/export", call, "answer");
    const line = await page(answer, write, state);
    if (options.csv && !line.startsWith('{"end":')) {
      await write(line);
      break;
    }
    const end = endOf(line);
    state.counters += end.counters ?? 0;
    state.complete &&= end.complete !== false;
    for (const partition of end.missing_partitions ?? []) missing.add(partition);
    cursor = end.end ? undefined : end.cursor;
  } while (cursor !== undefined);
  const end = {
    end: true, counters: state.counters, checksum: `crc32:${state.checksum.toString(16).padStart(8, "0")}`,
    complete: state.complete, ...(missing.size > 0 ? { missing_partitions: [...missing] } : {}),
  };
  if (!options.csv) await write(`${JSON.stringify(end)}\n`);
  return { bytes: state.bytes, end };
}

const isWaited = (all) => all.in_progress.length > 0 && all.in_progress.every(({ why }) => why === undefined);
const dayRow = ({ date, full, counters, changed, bytes, complete }) => [
  date, full ? "full" : "changes", number(counters), number(changed), number(bytes), complete ? "" : "not complete",
];

const listOf = (client) => newCall(client, "snapshots", "GET", "/snapshots", {});

const daysTable = (days) => table([["day", "", "counters", "changed", "bytes", ""], ...days.map(dayRow)], [2, 3, 4]);

/** Lists snapshots. */
export async function snapshots({ options, screen }) {
  screen.show(await listOf(clientOf(options, { timeout_ms: OPERATION_MS_MAX })), ({ entries: days }) => {
    if (days.length === 0) return "there are no snapshots yet";
    return daysTable(days);
  });
  return EXIT.done;
}

/** Makes a snapshot and waits for its end. One that does not go on, or is not complete, makes the exit code 6. */
export async function snapshot({ options, screen }) {
  const client = clientOf(options, { timeout_ms: OPERATION_MS_MAX });
  let all = await newCall(client, "snapshots", "POST", "/snapshots", { isSafe: true });
  // An answer that is not the day's says what is under way.
  let made = all.date === undefined ? undefined : all;
  while (made === undefined && isWaited(all)) {
    await new Promise((done) => setTimeout(done, LOOK_EVERY_MS));
    all = await listOf(client);
  }
  made ??= all.entries[0];
  const stuck = all.in_progress.find(({ why }) => why !== undefined);
  if (stuck !== undefined) {
    throw new Failure(EXIT.partly, `partition ${stuck.partition} does not go on: ${stuck.why}`, {
      in_progress: all.in_progress,
    });
  }
  screen.show(made, () => daysTable([made]));
  return made.complete ? EXIT.done : EXIT.partly;
}

/** Puts counters back as a snapshot has them, or says what that would change. */
export async function restore({ args: [date], options, screen }) {
  if (!/^\d{4}-\d{2}-\d{2}/.test(date)) throw new Failure(EXIT.usage, `${date} is no day: write it as 2026-11-01; tally snapshot --list shows them`);
  const client = clientOf(options, { timeout_ms: OPERATION_MS_MAX });
  const { prefix, mode, dryRun } = options;
  const request = {
    ...(prefix === undefined ? {} : { prefix }), ...(mode === undefined ? {} : { mode }),
    ...(dryRun ? { dry_run: true } : {}),
  };
  // One key for all pages: a call that is repeated changes each counter once.
  const idempotencyKey = crypto.randomUUID();
  const sum = { changes: [], refused: [] };
  let cursor;
  do {
    const body = cursor === undefined ? request : { ...request, cursor };
    const result = await newCall(client, "snapshots", "POST", path("/snapshots/{date}/restore", date), {
      body, idempotencyKey,
    });
    for (const [name, value] of Object.entries(result)) {
      if (Array.isArray(value)) sum[name] = [...(sum[name] ?? []), ...value];
      else sum[name] = typeof value === "number" ? (sum[name] ?? 0) + value : value;
    }
    cursor = result.cursor ?? undefined;
  } while (cursor !== undefined);
  screen.show(sum, () => {
    const rows = sum.changes.map(({ id, action, now, then }) => [
      action, id, number(now), "→", action === "add" ? `+${number(then)}` : number(then),
    ]);
    const counts = ["created", "set", "added", "unchanged", "left"]
      .map((name) => `${number(sum[name])} ${name}`)
      .join(", ");
    const more = sum.created + sum.set + sum.added - rows.length;
    return [
      table(rows, [2, 4]), more > 0 ? `… and ${number(more)} more` : "", `${dryRun ? "it would be: " : ""}${counts}`,
    ]
      .filter((line) => line !== "")
      .join("\n");
  });
  for (const { id, detail } of sum.refused) screen.note(`tally: ${id}: ${detail}`);
  return sum.rejected > 0 ? EXIT.partly : EXIT.done;
}

// What is said of a damaged counter, a line for each part: [counter, part, from where it is, what is lost at most].
function partsOf({ id, status, root, cells, failed }) {
  const named = ({ from, snapshot }) =>
    from === "snapshot" ? `snapshot of ${snapshot}` : snapshot ? `${from}, value of ${snapshot}` : from;
  const dated = (part) => (part.as_of ? `${named(part)}, as of ${new Date(part.as_of).toISOString()}` : named(part));
  return [
    ...(root ? [[id, `root: ${root.damaged.join(", ")}`, root.from ? named(root) : "", root.lost.join("; ")]] : []),
    ...cells.map((cell) => [id, `${cell.datacenter}/${cell.shard}: ${cell.damaged.join(", ")}`, cell.totals ? dated(cell.totals) : "", cell.lost.join("; ")]),
    ...failed.map((why) => [id, status, "", why]),
  ];
}

// What is said of a damaged object, a line for each of its tables.
const tablesOf = ({ object, status, damaged }) =>
  damaged.map(({ table: name, rows, names, lost }) => [
    object, status, `${name}: ${number(rows)} rows${names.map((one) => ` ${one}`).join("")}`, lost,
  ]);

/**
 * Puts back what is damaged of all counters, or of those of a prefix; or says what is damaged of objects (`objects`),
 * or of one (`object`), and removes it (`discard`).
 */
export async function repair({ options, screen }) {
  const client = clientOf(options, { timeout_ms: OPERATION_MS_MAX });
  const { objects, object, discard = false } = options;
  if (discard && object === undefined)
    throw new Failure(EXIT.usage, "--discard needs --object <name>: tally repair --objects names what is damaged");
  const all = {
    dry_run: Boolean(options.dryRun), checked: 0, damaged: 0, repaired: 0, counters: [], objects: [], failed: [],
  };
  const what =
    object !== undefined
      ? { object, discard }
      : objects !== undefined
        ? { objects: objects === true ? "" : objects }
        : { prefix: options.prefix ?? "" };
  let cursor;
  do {
    const body = { ...what, dry_run: Boolean(options.dryRun), ...(cursor === undefined ? {} : { cursor }) };
    const result = await newCall(client, "repairs", "POST", "/repair", { body, isWrite: true });
    for (const name of ["checked", "damaged", "repaired"]) all[name] += result[name];
    all.dry_run = result.dry_run;
    all.counters.push(...result.counters);
    all.objects.push(...(result.objects ?? []));
    all.failed.push(...result.failed);
    cursor = result.cursor ?? undefined;
  } while (cursor !== undefined);
  const sum = `${number(all.checked)} ${what.prefix === undefined ? "objects" : "counters"} looked at, ${number(all.damaged)} damaged, ${number(all.repaired)} ${discard ? "discarded" : "repaired"}`;
  screen.show(all, () =>
    [table(all.counters.flatMap(partsOf)), table(all.objects.flatMap(tablesOf)), ...all.failed, sum]
      .filter((line) => line !== "")
      .join("\n"),
  );
  const isLeft =
    all.failed.length > 0 ||
    (!discard && all.objects.length > 0) ||
    all.counters.some(({ status }) => status === "failed");
  return isLeft ? EXIT.partly : EXIT.done;
}
