// The command `tally`: its words, and which module does what they say.
//
// Invariant: a command ends with one of the exit codes of outcome.mjs, and prints one sentence on stderr where that is
// not 0.
import { Command, CommanderError, Option } from "commander";
import { TallyError } from "../client/index.ts";
import { check } from "./applies.mjs";
import { completion } from "./completion.mjs";
import { JURISDICTIONS } from "./deploy/configurations.mjs";
import { URL_DEFAULT, explained } from "./client.mjs";
import { EXIT, Failure, exitOf, screen, visible } from "./outcome.mjs";
import { PACKAGE } from "./place.mjs";

// A module is loaded when its command is called: `tally --help` needs none of them.
let code = EXIT.done;
const run = (load, name) => async (...given) => {
  const command = given.at(-1);
  const options = command.optsWithGlobals();
  check(command, given.slice(0, -2));
  const module = await load();
  try {
    code = (await module[name]({ args: given.slice(0, -2), options, screen: screen(options) })) ?? EXIT.done;
  } catch (error) {
    throw await explained(error, options);
  }
};

const examples = (...lines) => `\nExamples:\n${lines.map((line) => `  $ ${line}`).join("\n")}\n`;
// The windows of the service, which refuses others.
const WINDOWS = "3600, 86400, today, month, year, or days such as 7d or 365d";
const list = (value, before = []) => [...before, value];
const whole = (value) => {
  if (!/^\d{1,9}$/.test(value)) {
    throw new CommanderError(EXIT.usage, "commander.invalidArgument", `${value} is not a whole number`);
  }
  return Number(value);
};

const port = (value) => {
  if (whole(value) <= 65_535) return Number(value);
  throw new CommanderError(EXIT.usage, "commander.invalidArgument", `${value} is not a port: ports end at 65535`);
};

/** Returns the whole command. */
export function program() {
  const tally = new Command("tally")
    .description("Counts things at the edge: serves, imports, reads, deploys.")
    .version(PACKAGE.version, "-V, --version", "print the version")
    .option("--url <address>", `the address of Tally (TALLY_URL, or ${URL_DEFAULT})`)
    .option("--key <key>", "the key (TALLY_KEY; other users of the machine can see the command line)")
    .option("--key-file <file>", "the file that holds the key (TALLY_KEY_FILE)")
    .option("--json", "print JSON, for programs")
    .option("--no-color", "print no colours; without it, only terminals get them (NO_COLOR)")
    .helpOption("-h, --help", "print this help")
    .helpCommand("help [command]", "print the help of a command")
    .configureHelp({ showGlobalOptions: true })
    .showHelpAfterError("(tally --help, or tally help <command>)")
    .addHelpText(
      "after",
      `${examples("tally serve", "tally import /var/log/nginx/access.log*", "tally top", "tally watch /index.html")}
Exit codes: 0 done, 1 failed, 2 wrong command line, 3 not found, 4 not allowed, 5 does not answer, 6 partly done,
7 refused by a limit, 8 the deployment does not know the call, 130 interrupted.`,
    );
  serving(tally);
  importing(tally);
  reading(tally);
  keeping(tally);
  keys(tally);
  limiting(tally);
  operating(tally);
  agents(tally);
  tally
    .command("completion")
    .description("print the completion of a shell")
    .argument("<shell>", "bash, zsh or fish")
    .addHelpText("after", examples("tally completion bash > /etc/bash_completion.d/tally", 'source <(tally completion zsh)', "tally completion fish > ~/.config/fish/completions/tally.fish"))
    .action((shell, _, command) => {
      check(command, [shell]);
      process.stdout.write(completion(tally, shell));
    });
  helping(tally);
  for (const command of everyCommand(tally)) command.exitOverride();
  return tally;
}

// Commander's own help takes one word, and a verb has two. Commands with verbs keep theirs, for `tally keys help add`.
function helping(tally) {
  tally
    .helpCommand(false)
    .command("help")
    .description("print the help of a command")
    .argument("[command...]", "its words")
    .addHelpText("after", examples("tally help import", "tally help keys add"))
    .action((words) => {
      const found = words.reduce((one, word) => one?.commands.find((next) => next.name() === word), tally);
      if (found === undefined) {
        throw new Failure(EXIT.usage, `there is no command ${words.join(" ")}: tally help lists them`);
      }
      found.outputHelp();
    });
}

/** Returns a command and all below it. */
export function everyCommand(command) {
  return [command, ...command.commands.flatMap(everyCommand)];
}

function serving(tally) {
  tally
    .command("serve")
    .description("run Tally on this machine")
    .option("--port <port>", "listen on this port; 0 takes a free one (TALLY_PORT, 8788)")
    .option("--data <folder>", "keep the data here (TALLY_DATA, ./tally-data)")
    .option("--host <address>", "listen on this address; any other than loopback needs keys (TALLY_HOST, 127.0.0.1)")
    .option("--keys <file>", "a file of keys, as JSON; TALLY_KEYS has the JSON itself")
    .option("--edges <number>", "the number of edges, each with its own port and isolate (SERVE_EDGES, 1)")
    .option("--native", "run the native server, tally-server, instead of workerd (TALLY_SERVER)")
    .addHelpText(
      "after",
      examples(
        "tally serve", "tally serve --port 9000 --data /var/lib/tally", "tally serve --host 0.0.0.0 --keys keys.json",
      ),
    )
    .action(run(() => import("./serve.mjs"), "serve"));
}

function importing(tally) {
  tally
    .command("import")
    .description("count the lines of access logs, each line once, even if you import it again")
    .argument("[files...]", "logs, plain or compressed with gzip, zstd or bzip2; - is standard input")
    .option("--format <format>", "clf (nginx, apache), caddy, cloudfront, alb, logpush, nginx-json, goatcounter: detected if you leave it out; tally: an export")
    .option("--from <source>", "instead of logs: redis://…, rediss://…, or a file of: countapi, abacus, goatcounter")
    .option("--follow", "continue with appended lines, through rotations, until interrupted")
    .option("--status <ranges>", "count these statuses, such as 200-299,304; any counts all", "200-299")
    .option("--method <methods>", "count these methods, such as GET,POST; any counts all", "GET")
    .option("--bots", "count programs too")
    .option("--no-bots", "leave out programs, by their user agents (the default)")
    .option("--static", "count files that pages load too: scripts, styles, images, fonts, sound, video, .json, .map, .wasm")
    .option("--no-static", "leave out files that pages load (the default)")
    .option("--all", "count every line: --status any --method any --bots --static")
    .option("--strip-query", "count paths without their queries (the default)")
    .option("--no-strip-query", "count each query as its own counter")
    .addOption(new Option("--paths <rule>", "/a, /a/ and /a/index.html: keep them apart, strip to /a, or add the slash of /a/").choices(["keep", "strip", "add"]).default("keep"))
    .option("--rewrite <rule>", "change paths, as '/old/(.*) => /new/$1'; may be repeated", list)
    .option("--prefix <text>", "put this before each id", "")
    .option("--site <id>", "count the site as one counter, its pages as a breakdown")
    .option("--by <dimensions>", "dimensions of lines for breakdowns: page,referrer,status,method,browser,device,utm_source,country")
    .addOption(new Option("--unique <field>", "count unique addresses").choices(["ip", "none"]).default("none"))
    .addOption(new Option("--mode <mode>", "with --from and --format tally: what to do with counters that exist").choices(["create", "replace", "add"]).default("create"))
    .option("--match <pattern>", "with --from redis: only keys that match, such as 'views:*'")
    .option("--again", "count files again that were imported before")
    .option("--no-progress", "show no progress bar; without it, only terminals get one")
    .addHelpText(
      "after",
      examples(
        "tally import /var/log/nginx/access.log*",
        "zcat old/*.gz | tally import -",
        "tally import --follow /var/log/caddy/access.log",
        "tally import --site example.com --by page,referrer,browser access.log",
        "tally import --from redis://127.0.0.1:6379/0 --match 'views:*'",
        "tally import --from abacus counters.csv",
        "tally export | tally import --format tally --url https://tally.example.com --mode replace -",
      ) + "\nThe command notes which lines are counted, in ~/.local/state/tally. Set TALLY_STATE to use another folder.\n",
    )
    .action(run(() => import("./import.mjs"), "importAll"));
}

function reading(tally) {
  tally
    .command("top")
    .description("list the counters with the highest counts")
    .argument("[prefix]", "only counters whose ids begin with this")
    .addOption(new Option("--by <what>", "the number that orders the counters").choices(["value", "count", "uniques"]))
    .option("--window <window>", `${WINDOWS}; all time by default`)
    .option("--limit <number>", "the number of counters", whole, 10)
    .addHelpText(
      "after",
      examples("tally top", "tally top /blog/ --window today --limit 20", "tally top --json | jq -r '.entries[].id'"),
    )
    .action(run(() => import("./read.mjs"), "top"));
  tally
    .command("get")
    .description("read counters")
    .argument("<ids...>", "their ids")
    .option("--strong", "read all datacenters now")
    .option("--window <window>", `also the count of a window up to now: ${WINDOWS}`)
    .option("--value", "print only the values")
    .addHelpText(
      "after", examples("tally get /index.html", "tally get likes --strong --json", "tally get likes --window 7d"),
    )
    .action(run(() => import("./read.mjs"), "get"));
  tally
    .command("watch")
    .description("show counters as they change")
    .argument("<ids...>", "their ids, at most 100")
    .option("--for <seconds>", "end after this many seconds", whole)
    .addHelpText(
      "after", examples("tally watch /index.html", "tally watch likes claps", "tally watch likes --json --for 60"),
    )
    .action(run(() => import("./watch.mjs"), "watch"));
}

function keeping(tally) {
  tally
    .command("export")
    .description("print all counters, one line of JSON each")
    .argument("[prefix]", "only counters whose ids begin with this")
    .option("--output <file>", "write to this file")
    .option("--history", "with their history")
    .option("--uniques", "with their unique elements")
    .option("--samples", "with their samples")
    .option("--alerts", "with alerts, without their secrets; takes no prefix")
    .option("--csv", "values as CSV, for spreadsheets")
    .addHelpText("after", examples("tally export > counters.ndjson", "tally export --history --uniques --samples --alerts --output all.ndjson", "tally export /blog/ --csv --output blog.csv"))
    .action(run(() => import("./keep.mjs"), "exportAll"));
  const snapshot = tally
    .command("snapshot")
    .description("make a snapshot and wait for its end, or list snapshots")
    .addHelpText("after", examples("tally snapshot", "tally snapshot list"))
    .action(run(() => import("./keep.mjs"), "snapshot"));
  snapshot
    .command("list")
    .description("list snapshots")
    .addHelpText("after", examples("tally snapshot list"))
    .action(run(() => import("./keep.mjs"), "snapshots"));
  tally
    .command("restore")
    .description("restore counters from a snapshot")
    .argument("<date>", "the day of the snapshot: 2026-11-01")
    .option("--prefix <prefix>", "only counters whose ids begin with this")
    .addOption(new Option("--mode <mode>", "what to do with counters that exist").choices(["create", "replace", "add"]))
    .option("--dry-run", "show what would change, and change nothing")
    .addHelpText(
      "after",
      examples("tally restore 2026-11-01 --prefix /blog/ --dry-run", "tally restore 2026-11-01 --prefix /blog/"),
    )
    .action(run(() => import("./keep.mjs"), "restore"));
  tally
    .command("repair")
    .description("restore damaged counters from what other objects remember, and from the last snapshot")
    .option("--prefix <prefix>", "only counters whose ids begin with this")
    .option("--dry-run", "show what is damaged, and change nothing")
    .option("--objects [prefix]", "show other damaged data: of boards, tablets, limits, Redis, queued events")
    .option("--object <name>", "show the damage of one object, as --objects names it")
    .option("--discard", "with --object: delete its damaged data")
    .addHelpText(
      "after",
      examples(
        "tally repair --dry-run", "tally repair", "tally repair --objects",
        "tally repair --object board/game --discard",
      ),
    )
    .action(run(() => import("./keep.mjs"), "repair"));
}

function keys(tally) {
  const all = tally
    .command("keys")
    .description("manage keys of a deployment, or with --file those of a file for TALLY_KEYS")
    .addHelpText("after", examples("tally keys list", "tally keys add blog --prefix /blog/"));
  const key = (name, text) =>
    all.command(name).description(text).option("--file <file>", "use this file, in the format of TALLY_KEYS");
  const rights = (command) =>
    command
      .option("--scopes <scopes>", "some of read, write, refund, admin", "read,write")
      .option("--prefix <prefix>", "where it acts: ids that begin with this, or limits/; may be repeated", list)
      .option("--rate-per-minute <number>", "the most calls a minute", whole)
      .option("--expires <date>", "when the key expires, such as 2027-01-31");
  rights(key("add", "make a key, and print it once"))
    .argument("<name>", "the name of the key, such as its purpose")
    .addHelpText(
      "after",
      examples(
        "tally keys add blog --scopes read,write --prefix /blog/", "tally keys add ops --scopes admin --file keys.json",
      ),
    )
    .action(run(() => import("./keys.mjs"), "add"));
  key("list", "list keys, without their secrets")
    .addHelpText("after", examples("tally keys list", "tally keys list --file keys.json --json"))
    .action(run(() => import("./keys.mjs"), "list"));
  key("revoke", "end a key")
    .argument("<name>", "its name, or its id")
    .addHelpText("after", examples("tally keys revoke blog"))
    .action(run(() => import("./keys.mjs"), "revoke"));
  key("rotate", "make a new key of that name, and print it once")
    .argument("<name>", "its name, or its id")
    .option("--keep <seconds>", "keep the old secret valid for this time; a day in a deployment, 0 in a file", whole)
    .addHelpText("after", examples("tally keys rotate blog", "tally keys rotate blog --keep 86400"))
    .action(run(() => import("./keys.mjs"), "rotate"));
}

function limiting(tally) {
  const all = tally
    .command("limits")
    .description("manage rate-limit policies, and check keys")
    .addHelpText("after", examples("tally limits", "tally limits show login bob"));
  const verb = (name, text, words, action = name, module = () => import("./limits.mjs")) =>
    all
      .command(name, { isDefault: name === "list" })
      .description(text)
      .addHelpText("after", examples(`tally limits ${name}${words}`))
      .action(run(module, action));
  const ofKey = (command) => command.argument("<policy>", "a policy").argument("<key>", "a key of the policy");
  verb("list", "list policies", "");
  verb("show", "show a policy, or the quota of a key", " login bob")
    .argument("<policy>", "a policy")
    .argument("[key]", "a key of the policy");
  verb("set", "make or change a policy", " login '{\"limit\":100,\"window_seconds\":60}'")
    .argument("<policy>", "a policy")
    .argument("<fields>", "its fields, as JSON");
  verb("delete", "delete a policy", " login", "remove").argument("<policy>", "a policy");
  ofKey(verb("check", "consume from a key's quota; exit code 7 if the limit refuses", " login bob && ./go.sh"))
    .option("--cost <number>", "the cost of the check", whole, 1);
  ofKey(verb("reset", "forget what a key has used", " login bob"));
  ofKey(verb("reserve", "hold an amount before the work, and print the id of the hold; exit code 7 if the limit refuses", " tokens acme --amount 4000 --ttl 120"))
    .option("--amount <number>", "how much to hold; 1 if you leave it out", whole)
    .option("--ttl <seconds>", "how long at most; 60, or what the policy says, if you leave it out", whole)
    .addOption(new Option("--on-expiry <way>", "what happens to a hold that nobody settles: settle counts it as used").choices(["settle", "release"]));
  const ofHold = (command) => ofKey(command).argument("<hold>", "the id of the hold");
  ofHold(verb("settle", "end a hold by what the work used; the rest comes back", " tokens acme 0f5c1f2f6dd54ec2a5a3c8d6b1d1a7c4 --amount 1275"))
    .option("--amount <number>", "how much was used; all of the hold if you leave it out", whole);
  ofHold(verb("release", "end a hold, and give back all of it", " tokens acme 0f5c1f2f6dd54ec2a5a3c8d6b1d1a7c4"));
  const ofOverrides = () => import("./overrides.mjs");
  const pattern = "a key, or the beginning of keys and a star";
  verb("overrides", "list the overrides of a policy", " login", "list", ofOverrides).argument("<policy>", "a policy");
  const example = " login 'acme-*' '{\"limit\":1000}'";
  verb("override", "give some keys another limit, or none, or block them", example, "set", ofOverrides)
    .argument("<policy>", "a policy")
    .argument("<pattern>", pattern)
    .argument("<fields>", "what is different for them, as JSON");
  verb("override-delete", "delete an override", " login 'acme-*'", "remove", ofOverrides)
    .argument("<policy>", "a policy")
    .argument("<pattern>", pattern);
}

function operating(tally) {
  const deploy = tally
    .command("deploy")
    .description("deploy to Cloudflare, step by step")
    .option("--dry-run", "show each step and check it with wrangler; change nothing")
    .option("--yes", "do not ask; use options and defaults")
    .option("--folder <folder>", "the folder for the configurations", "tally-deploy")
    .option("--name <name>", "the names of the Workers are <name>-edge and <name>-aggregator", "tally")
    .option("--domain <domain>", "answer at this domain of your account")
    .addOption(
      new Option("--datacenters <mode>", "what a datacenter is").choices(["colos", "region", "one"]).default("region"),
    )
    .option("--tablets <number>", "the number of objects that the counters of a datacenter share", whole)
    .addOption(
      new Option("--jurisdiction <name>", "keep all data in a jurisdiction").choices(JURISDICTIONS),
    )
    .option("--one-worker", "one Worker with both roles, <name>, instead of two")
    .option("--queue", "queued events go through Cloudflare Queues")
    .option("--snapshots", "snapshots go to an R2 bucket")
    .option("--analytics", "metrics go to Analytics Engine")
    .option("--keys <file>", "the file of keys, as JSON; made if it does not exist")
    .option("--gradual <percent>", "the percentage of requests that this version gets", whole)
    .addHelpText(
      "after",
      examples(
        "tally deploy --dry-run", "tally deploy --domain tally.example.com --queue", "tally deploy --gradual 10",
        "tally deploy --jurisdiction eu --one-worker", "tally deploy rollback",
      ),
    )
    .action(run(() => import("./deploy.mjs"), "deploy"));
  deploy
    .command("rollback")
    .description("return to the previous version")
    .addHelpText("after", examples("tally deploy rollback", "tally deploy --dry-run rollback"))
    .action(run(() => import("./deploy.mjs"), "rollback"));
  tally
    .command("doctor")
    .description("look for faults on this machine and in the deployment")
    .addHelpText("after", examples("tally doctor", "tally doctor --url https://tally.example.com --json"))
    .action(run(() => import("./doctor.mjs"), "doctor"));
}

function agents(tally) {
  tally
    .command("mcp")
    .description("serve agents by the Model Context Protocol, on stdin and stdout; they read, with the rights of the key")
    .option("--write", "also let them count, and change policies and overrides")
    .option("--http <port>", "serve http://127.0.0.1:<port>/mcp instead; 0 takes a free port", port)
    .addHelpText(
      "after",
      examples("tally mcp", "tally mcp --url https://tally.example.com --key-file share.key", "tally mcp --http 8799"),
    )
    .action(run(() => import("./mcp.mjs"), "mcp"));
}

/** Runs the command line, and resolves to the exit code. */
export async function main(argv) {
  const isJson = argv.includes("--json");
  const tell = (message, more) => {
    if (isJson) process.stdout.write(`${JSON.stringify({ error: { message, ...more } })}\n`);
    process.stderr.write(`tally: ${visible(message)}\n`);
  };
  try {
    code = EXIT.done;
    await program().parseAsync(argv);
    return code;
  } catch (error) {
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return EXIT.done;
      // Commander has told people already.
      if (isJson) process.stdout.write(`${JSON.stringify({ error: { message: error.message.replace(/^error: /, ""), exit: EXIT.usage } })}\n`);
      return EXIT.usage;
    }
    if (error?.name === "AbortError") return EXIT.interrupted;
    const exit = exitOf(error);
    if (error instanceof TallyError) tell(error.message, { code: error.code, status: error.status, exit });
    else if (error?.exit !== undefined) tell(error.message, { ...error.more, exit });
    else {
      tell(`${error?.message ?? error}`, { exit });
      if (process.env.TALLY_DEBUG) console.error(error);
    }
    return exit;
  }
}
