// `tally import`: options into an import, with its progress and its summary.
import { isIP } from "node:net";
import progress from "cli-progress";
import { addressOf, clientOf } from "./client.mjs";
import { Import } from "./import/run.mjs";
import { STDIN, open } from "./import/source.mjs";
import { Values } from "./import/values.mjs";
import { EXIT, Failure, number } from "./outcome.mjs";
import { readText } from "./text.mjs";

// A body with thousands of new counters takes a while. What fails is sent again for minutes: it counts once.
const BODY_MS_MAX = 600_000;
const RETRIES = 40;
const LISTS = ["countapi", "abacus", "goatcounter"];
const SIGNALS = ["SIGINT", "SIGTERM"];

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
  if (options.match === "") throw new Failure(EXIT.usage, "--match is empty: no key fits it");
  if (!isRedis && files.length === 0) throw new Failure(EXIT.usage, "name the files to import; - is standard input");
  const client = clientOf(options, { retries: RETRIES, timeout_ms: BODY_MS_MAX });
  // What cannot be reached is said at once, and not after all tries.
  const reach = () => clientOf(options, { retries: 2 }).request("GET", "/healthz");
  const carry = (work) => values(client, options, screen, async (run) => (await reach(), work(run)));
  if (isRedis) return carry((run) => run.redis(from, options.match));
  if (from === "countapi" || from === "abacus") {
    return carry((run) => each(files, run, (name) => listed(run, name)));
  }
  if (options.format === "tally") return carry((run) => each(files, run, (name) => exported(run, name)));
  const given = { ...options, ...(from === "goatcounter" ? { format: from } : {}) };
  return logs(client, files, given, screen, reach);
}

// Works with each file. One of several that cannot be read is named, and the others are brought in.
async function each(files, run, work) {
  for (const name of files) {
    try {
      await work(name);
    } catch (error) {
      if (!(error instanceof Failure) || files.length === 1) throw error;
      run.fail(error.message);
    }
  }
}

async function listed(run, name) {
  const text = readText(name);
  // As of a log: what was meant to have counters may have lost them.
  if (text.trim() === "") run.fail(`${name === STDIN ? "standard input" : name} is empty`);
  else await run.list(text);
}

async function exported(run, name) {
  const source = await open(name);
  try {
    await run.lines(source.chunks(), source.name);
  } finally {
    await source.close();
  }
}

function isLocal(base) {
  const host = new URL(base).hostname;
  return host === "localhost" || host === "[::1]" || (isIP(host) === 4 && host.startsWith("127."));
}

function rewriteOf(rule) {
  const [, pattern, replacement] = rule.match(/^(.*?)\s*=>\s*(.*)$/) ?? [];
  const refuse = (why) => new Failure(EXIT.usage, `--rewrite ${JSON.stringify(rule)} ${why}: write it as '/old/(.*) => /new/$1'`);
  if (!pattern) throw refuse("is no rule, which has => between what is changed and what takes its place");
  try {
    return [new RegExp(pattern).source, replacement];
  } catch (error) {
    throw refuse(`has no expression before => (${error.message.replace(/^Invalid regular expression: /, "")})`);
  }
}

function settings(options) {
  const { all, site } = options;
  const base = addressOf(options);
  const by = options.by?.split(",") ?? (site === undefined ? [] : ["page"]);
  const reader = {
    status: all ? "any" : options.status, method: all ? "any" : options.method, bots: all || options.bots === true,
    statics: all || options.static === true, paths: options.paths, rewrites: (options.rewrite ?? []).map(rewriteOf),
    stripQuery: options.stripQuery !== false, prefix: options.prefix, site, by, unique: options.unique,
  };
  const { format, again } = options;
  if (format === "") throw new Failure(EXIT.usage, "--format is empty: leave it out, or name a format");
  // Ids that an import leads to: the same log under another prefix is another import.
  const target = JSON.stringify([site ?? null, options.prefix]);
  return { format, base, reader, again: again === true, target, isLocal: isLocal(base) };
}

async function logs(client, files, options, screen, reach) {
  const bar = barOf(options, screen);
  // A file by itself of which nothing is read ends as its failure says, and that is printed once.
  const isNoted = (exit) => files.length > 1 || options.follow === true || exit === EXIT.partly;
  const note = (text) => screen.note(`tally: ${text}`);
  const run = new Import(client, { ...settings(options), isNoted, note }, () => bar.update(run));
  await reach();
  let isInterrupted = false;
  const interrupt = () => {
    if (isInterrupted) process.exit(EXIT.interrupted);
    isInterrupted = true;
    run.stop.abort();
  };
  for (const signal of SIGNALS) process.on(signal, interrupt);
  let failure;
  try {
    if (options.follow) {
      // The summary is told once all have ended.
      const ended = await Promise.allSettled(files.map((name) => run.follow(name)));
      failure = ended.find(({ status }) => status === "rejected")?.reason;
    } else for (const name of files) if (!isInterrupted) await run.file(name);
  } catch (error) {
    failure = error;
  }
  bar.end(run);
  const { json: summary, bytes: text } = run.end({ isInterrupted, files: files.length, hasColors: screen.hasColors });
  const [bad] = run.failed;
  if (files.length === 1 && ![undefined, EXIT.partly].includes(bad?.exit)) failure ??= new Failure(bad.exit, bad.why);
  else screen.show(summary, () => text.toString());
  if (failure !== undefined) throw failure;
  if (isInterrupted && !options.follow) return EXIT.interrupted;
  if (bad !== undefined || run.isBehind) return EXIT.partly;
  if (isInterrupted) return EXIT.done;
  return summary.unreadable === 0 && Object.keys(summary.rejected).length === 0 ? EXIT.done : EXIT.partly;
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
    const far = run.progress();
    const { bytes, read } = run.source;
    const left = bytes === undefined || read === 0 ? "?" : `${Math.ceil((far.seconds * (bytes - read)) / read)} s`;
    return { ...far, left };
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
  const { mode, prefix } = options;
  const run = new Values(client, { mode, prefix, isLocal: isLocal(addressOf(options)) }, isShown ? show : undefined);
  const say = () => mode === "create" && run.end().json.has_boards && screen.note(UNFINISHED);
  const interrupt = () => {
    say();
    process.exit(EXIT.interrupted);
  };
  for (const signal of SIGNALS) process.on(signal, interrupt);
  try {
    await carry(run);
  } catch (error) {
    say();
    throw error;
  } finally {
    for (const signal of SIGNALS) process.off(signal, interrupt);
  }
  if (isShown) process.stderr.write("\r\x1b[K");
  const { json: summary, bytes: text } = run.end({ hasColors: screen.hasColors });
  screen.show(summary, () => text.toString());
  // A key of a type that Tally lacks is no part of a counter or a board. A board without a member is not complete.
  const isDone = summary.rejected === 0 && summary.left_out_members === 0 && summary.complete !== false;
  return isDone ? EXIT.done : EXIT.partly;
}

// A board that was begun is there: another `create` would leave the rest of its members out.
const UNFINISHED = "tally: boards may lack members; import again with --mode replace, by which counters and boards become what the file has";
