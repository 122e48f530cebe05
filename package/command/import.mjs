// `tally import`: options into an import, with its progress and its summary.
import { isIP } from "node:net";
import progress from "cli-progress";
import { addressOf, clientOf } from "./client.mjs";
import { REASONS, createReader } from "./import/reader.mjs";
import { Import } from "./import/run.mjs";
import { open } from "./import/source.mjs";
import { Values } from "./import/values.mjs";
import { EXIT, Failure, number, table } from "./outcome.mjs";
import { readText } from "./text.mjs";

// A body with thousands of new counters takes a while. What fails is sent again for minutes: it counts once.
const BODY_MS_MAX = 600_000;
const RETRIES = 40;
const LISTS = ["countapi", "abacus", "goatcounter"];

/** Imports, prints what was done, and resolves to the exit code. */
export async function importAll({ args: [files], options, screen }) {
  const { from } = options;
  if (from !== undefined && !/^rediss?:\/\//.test(from) && !LISTS.includes(from)) {
    throw new Failure(EXIT.usage, `--from ${from} is not known: redis://…, rediss://…, or one of ${LISTS.join(", ")} with a file`);
  }
  const isRedis = from?.startsWith("redis") === true;
  if (isRedis && files.length > 0) {
    throw new Failure(EXIT.usage, `${files[0]} is not read: --from redis reads keys alone`);
  }
  if (!isRedis && files.length === 0) throw new Failure(EXIT.usage, "name the files to import; - is standard input");
  const client = clientOf(options, { retries: RETRIES, timeout_ms: BODY_MS_MAX });
  // What cannot be reached is said at once, and not after all tries.
  await clientOf(options, { retries: 2 }).request("GET", "/healthz");
  if (isRedis) return values(client, options, screen, (run) => run.redis(from, options.match));
  if (from === "countapi" || from === "abacus") {
    return values(client, options, screen, (run) => each(files, run, async (name) => run.list(readText(name))));
  }
  return logs(client, files, { ...options, ...(from === "goatcounter" ? { format: "goatcounter" } : {}) }, screen);
}

// Works with each file. One of several that cannot be read is named, and the others are brought in.
async function each(files, run, work) {
  for (const name of files) {
    try {
      await work(name);
    } catch (error) {
      if (!(error instanceof Failure) || files.length === 1) throw error;
      run.end(error.message);
    }
  }
}

function isLocal(base) {
  const host = new URL(base).hostname;
  return host === "localhost" || host === "[::1]" || (isIP(host) === 4 && host.startsWith("127."));
}

function rewriteOf(rule) {
  const [, pattern, replacement] = rule.match(/^(.*?)\s*=>\s*(.*)$/) ?? [];
  try {
    if (pattern) return [new RegExp(pattern).source, replacement];
  } catch {
    // Told below.
  }
  throw new Failure(EXIT.usage, `--rewrite ${JSON.stringify(rule)} is no rule: write it as '/old/(.*) => /new/$1'`);
}

function settings(options) {
  const { all } = options;
  const base = addressOf(options);
  const by = options.by?.split(",") ?? (options.site === undefined ? [] : ["page"]);
  const reader = {
    status: all ? "any" : options.status, method: all ? "any" : options.method, bots: all || options.bots === true,
    statics: all || options.static === true, paths: options.paths, rewrites: (options.rewrite ?? []).map(rewriteOf),
    stripQuery: options.stripQuery !== false, prefix: options.prefix, site: options.site, by, unique: options.unique,
  };
  // What is wrong with an option is said before anything is read.
  const { format } = options;
  createReader({ ...reader, rewrites: [], format: format ?? "clf" });
  return {
    format,
    base,
    reader,
    again: options.again === true,
    // Ids that an import leads to: the same log under another prefix is another import.
    target: JSON.stringify([options.site ?? null, options.prefix]),
    isLocal: isLocal(base),
  };
}

async function logs(client, files, options, screen) {
  if (options.format === "tally") {
    return values(client, options, screen, (run) =>
      each(files, run, async (name) => {
        const source = await open(name);
        try {
          await run.lines(source.chunks(), name === "-" ? "the input" : name);
        } finally {
          await source.close();
        }
      }),
    );
  }
  const bar = barOf(options, screen);
  const note = (text) => screen.note(`tally: ${text}`);
  const run = new Import(client, { ...settings(options), note }, () => bar.update(run));
  let interrupted = false;
  const interrupt = () => {
    if (interrupted) process.exit(EXIT.interrupted);
    interrupted = true;
    run.stop.abort();
  };
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, interrupt);
  let failure;
  try {
    if (options.follow) {
      // The summary is told once all have ended.
      const ended = await Promise.allSettled(files.map((name) => run.follow(name)));
      failure = ended.find(({ status }) => status === "rejected")?.reason;
    } else for (const name of files) if (!interrupted) await run.file(name);
  } catch (error) {
    failure = error;
  }
  bar.end(run);
  const summary = { ...run.summary(), interrupted };
  const [bad] = run.failed;
  // A file by itself of which nothing is read ends as its failure says.
  if (files.length === 1 && ![undefined, EXIT.partly].includes(bad?.exit)) failure ??= new Failure(bad.exit, bad.why);
  else screen.show(summary, (value) => summaryText(value, run, screen));
  if (failure !== undefined) throw failure;
  if (interrupted && !options.follow) return EXIT.interrupted;
  if (bad !== undefined) return EXIT.partly;
  if (interrupted) return EXIT.done;
  return summary.unreadable === 0 && Object.keys(summary.rejected).length === 0 ? EXIT.done : EXIT.partly;
}

function summaryText(summary, run, { paint }) {
  const lines = [
    `${paint("bold", number(summary.counted))} of ${number(summary.lines)} lines counted, for ${summary.counters_exact ? "" : "about "}${number(summary.counters)} counters, in ${summary.seconds} s (${number(summary.lines_per_second)} lines/s)`,
  ];
  const before = summary.counted_before;
  if (before.lines > 0)
    lines.push(`${number(before.lines)} lines were counted by an earlier run, and were not counted again`);
  if (before.bytes > 0)
    lines.push(
      `${number(before.bytes)} bytes at the beginning were imported by an earlier run (--again counts them again)`,
    );
  for (const [reason, count] of Object.entries(summary.left_out)) {
    if (count > 0) {
      lines.push(`${number(count)} lines left out: ${REASONS[reason]}`);
    }
  }
  if (summary.unreadable > 0)
    lines.push(paint("yellow", `${number(summary.unreadable)} lines could not be read, such as: ${run.unread[0]}`));
  for (const [code, count] of Object.entries(summary.rejected))
    lines.push(
      paint(
        "yellow",
        `${number(count)} lines refused: ${code}${code === "idempotency-key-reused" ? ", they were imported with other options" : ""}`,
      ),
    );
  if (summary.unfinished > 0) lines.push(`the last line has no newline yet, and is left for the next run${summary.unfinished > 1 ? ` (${summary.unfinished} files)` : ""}`);
  for (const { why } of summary.failed) lines.push(paint("yellow", why));
  if (summary.interrupted) lines.push("interrupted: the same command continues from here");
  if (summary.top.length > 0) lines.push("", table(summary.top.map(({ id, count }) => [number(count), id]), [0]));
  return lines.join("\n");
}

// A bar on a terminal, and nothing elsewhere.
function barOf(options, screen) {
  if (!process.stderr.isTTY || options.progress === false || screen.isJson) return { update: () => {}, end: () => {} };
  const bar = new progress.SingleBar(
    {
      format: "{bar} {percentage}% | {lines} lines | {rate} lines/s | {left} left | {counters} counters",
      hideCursor: true,
      stream: process.stderr,
      fps: 8,
      clearOnComplete: true,
    },
    progress.Presets.shades_classic,
  );
  let begun = false;
  const payload = (run) => {
    const { lines, counters, lines_per_second, seconds } = run.summary();
    const { bytes, read } = run.source;
    const left = bytes === undefined || read === 0 ? "?" : `${Math.ceil((seconds * (bytes - read)) / read)} s`;
    return { lines: number(lines), rate: number(lines_per_second), counters: number(counters), left };
  };
  return {
    update: (run) => {
      const { bytes, read } = run.source;
      if (!begun) bar.start(bytes ?? read, 0, payload(run));
      begun = true;
      bar.setTotal(bytes ?? read);
      bar.update(Math.min(read, bytes ?? read), payload(run));
    },
    end: () => begun && bar.stop(),
  };
}

// Values of other counters, and exports of Tally: what `carry` brings.
async function values(client, options, screen, carry) {
  const isShown = process.stderr.isTTY && options.progress !== false && !screen.isJson;
  const show = ({ counters, boards, members }) => process.stderr.write(`\r${number(counters)} counters, ${number(boards)} boards, ${number(members)} members `);
  const { mode, prefix, from: source } = options;
  const run = new Values(
    client, { mode, prefix, source, isLocal: isLocal(addressOf(options)) }, isShown ? show : undefined,
  );
  const say = () => mode === "create" && run.hasBoards && screen.note(UNFINISHED);
  const interrupt = () => {
    say();
    process.exit(EXIT.interrupted);
  };
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, interrupt);
  try {
    await carry(run);
  } catch (error) {
    say();
    throw error;
  } finally {
    for (const signal of ["SIGINT", "SIGTERM"]) process.off(signal, interrupt);
  }
  if (isShown) process.stderr.write("\r\x1b[K");
  const summary = run.summary();
  screen.show(summary, (value) => valuesText(value, screen));
  return isWhole(summary) ? EXIT.done : EXIT.partly;
}

// A board that was begun is there: another `create` would leave the rest of its members out.
const UNFINISHED = "tally: boards may lack members; import again with --mode replace, by which counters and boards become what the file has";

const isWhole = ({ rejected, complete }) => rejected === 0 && complete !== false;

function valuesText(summary, { paint }) {
  const lines = [`${paint("bold", number(summary.counters))} counters, ${number(summary.boards)} boards with ${number(summary.members)} members, ${number(summary.policies)} policies, in ${summary.seconds} s`];
  if (summary.present > 0) lines.push(`${number(summary.present)} were there already, and were left as they are (--mode replace, --mode add)`);
  if (summary.left_out > 0) lines.push(`${number(summary.left_out)} keys left out, such as: ${summary.left_out_keys.slice(0, 3).map(({ id, why }) => `${id} (${why})`).join(", ")}`);
  if (summary.rejected > 0) lines.push(paint("yellow", `${number(summary.rejected)} lines refused, such as: ${JSON.stringify(summary.refused[0])}`));
  for (const why of summary.why ?? []) lines.push(paint("yellow", why));
  return lines.join("\n");
}
