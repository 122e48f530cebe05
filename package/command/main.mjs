// The command `tally`: its words, and which module does what they say.
//
// Invariant: a command ends with one of the exit codes of outcome.mjs, and prints one sentence on stderr where that is
// not 0.
import { Command, CommanderError, Option } from "commander";
import { TallyError } from "../client/index.ts";
import { check } from "./applies.mjs";
import { completion } from "./completion.mjs";
import { URL_DEFAULT } from "./client.mjs";
import { EXIT, exitOf, screen } from "./outcome.mjs";
import { PACKAGE } from "./place.mjs";

// A module is loaded when its command is called: `tally --help` needs none of them.
let code = EXIT.done;
const run = (load, name) => async (...given) => {
  const command = given.at(-1);
  const options = command.optsWithGlobals();
  check(command, given.slice(0, -2));
  const module = await load();
  code = (await module[name]({ args: given.slice(0, -2), options, screen: screen(options) })) ?? EXIT.done;
};

const examples = (...lines) => `\nExamples:\n${lines.map((line) => `  $ ${line}`).join("\n")}\n`;
const list = (value, before = []) => [...before, value];
const whole = (value) => {
  if (!/^\d{1,9}$/.test(value)) {
    throw new CommanderError(EXIT.usage, "commander.invalidArgument", `${value} is no whole number`);
  }
  return Number(value);
};

/** Returns the whole command. */
export function program() {
  const tally = new Command("tally")
    .description("Counts things at the edge: serves, imports, reads, deploys.")
    .version(PACKAGE.version, "-V, --version", "print the version")
    .option("--url <address>", `where Tally is (TALLY_URL, else ${URL_DEFAULT})`)
    .option("--key <key>", "a key of TALLY_KEYS (TALLY_KEY; in the environment nobody else sees it)")
    .option("--key-file <file>", "the file that holds the key (TALLY_KEY_FILE)")
    .option("--json", "print JSON, for programs")
    .option("--no-color", "print no colours; they go to terminals alone (NO_COLOR)")
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
  tally
    .command("completion")
    .description("print the completion of a shell")
    .argument("<shell>", "bash, zsh or fish")
    .addHelpText("after", examples("tally completion bash > /etc/bash_completion.d/tally", 'source <(tally completion zsh)', "tally completion fish > ~/.config/fish/completions/tally.fish"))
    .action((shell, _, command) => {
      check(command, [shell]);
      process.stdout.write(completion(tally, shell));
    });
  for (const command of everyCommand(tally)) command.exitOverride();
  return tally;
}

/** Returns a command and all below it. */
export function everyCommand(command) {
  return [command, ...command.commands.flatMap(everyCommand)];
}

function serving(tally) {
  tally
    .command("serve")
    .description("run Tally on this machine")
    .option("--port <port>", "listen on this port; 0 takes a free one (PORT, 8788)")
    .option("--data <folder>", "keep the data here (DATA, ./tally-data)")
    .option("--host <address>", "listen on this address; any other than loopback needs keys (HOST, 127.0.0.1)")
    .option("--keys <file>", "who may do what, as JSON (TALLY_KEYS)")
    .option("--edges <number>", "so many edges, each on a port and with an isolate of its own (SERVE_EDGES, 1)")
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
    .description("count the lines of access logs, each once however often it is imported")
    .argument("[files...]", "logs; plain, or packed by gzip, zstd or bzip2; - is standard input")
    .option("--format <format>", "clf (nginx, apache), caddy, cloudfront, alb, logpush, nginx-json, goatcounter: found out where left out; tally: an export")
    .option("--from <source>", "instead of logs: redis://…, rediss://…, or a file of: countapi, abacus, goatcounter")
    .option("--follow", "go on with what is appended, through rotations, until interrupted")
    .option("--status <ranges>", "count these statuses, such as 200-299,304; any counts all", "200-299")
    .option("--method <methods>", "count these methods, such as GET,POST; any counts all", "GET")
    .option("--bots", "count programs too")
    .option("--no-bots", "leave out programs, by their user agents (the default)")
    .option("--static", "count scripts, styles, images and fonts too")
    .option("--no-static", "leave out scripts, styles, images and fonts (the default)")
    .option("--all", "count every line: --status any --method any --bots --static")
    .option("--strip-query", "count paths without their queries (the default)")
    .option("--no-strip-query", "count each query as a counter of its own")
    .addOption(new Option("--paths <rule>", "/a, /a/ and /a/index.html: keep them apart, strip to /a, or add the slash of /a/").choices(["keep", "strip", "add"]).default("keep"))
    .option("--rewrite <rule>", "change paths, as '/old/(.*) => /new/$1'; may be repeated", list)
    .option("--prefix <text>", "put this before each id", "")
    .option("--site <id>", "count the whole site as one counter, its pages as a breakdown")
    .option("--by <dimensions>", "what lines say of themselves: page,referrer,status,method,browser,device,utm_source,country")
    .addOption(new Option("--unique <field>", "count unique addresses").choices(["ip", "none"]).default("none"))
    .addOption(new Option("--mode <mode>", "with --from and --format tally: what becomes of counters that are there").choices(["create", "replace", "add"]).default("create"))
    .option("--match <pattern>", "with --from redis: only keys that fit, such as 'views:*'")
    .option("--again", "count files again that were imported before")
    .option("--no-progress", "show no progress bar; it goes to terminals alone")
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
      ),
    )
    .action(run(() => import("./import.mjs"), "importAll"));
}

function reading(tally) {
  tally
    .command("top")
    .description("which counters have most")
    .argument("[prefix]", "of those whose ids begin so")
    .addOption(new Option("--by <what>", "what is compared").choices(["value", "count", "uniques"]))
    .option("--window <window>", "3600, 86400, today, month, year, or days such as 7d or 365d; all time where left out")
    .option("--limit <number>", "so many", whole, 10)
    .addHelpText(
      "after",
      examples("tally top", "tally top /blog/ --window today --limit 20", "tally top --json | jq -r '.rows[].id'"),
    )
    .action(run(() => import("./read.mjs"), "top"));
  tally
    .command("get")
    .description("read counters")
    .argument("<ids...>", "their ids")
    .option("--strong", "ask all datacenters now")
    .option("--window <seconds>", "also what was counted in the last seconds", whole)
    .option("--value", "print the values alone")
    .addHelpText(
      "after", examples("tally get /index.html", "tally get likes --strong --json", "tally get likes --value"),
    )
    .action(run(() => import("./read.mjs"), "get"));
  tally
    .command("watch")
    .description("show counters as they change")
    .argument("<ids...>", "their ids, at most 100")
    .option("--for <seconds>", "end after so many seconds", whole)
    .addHelpText(
      "after", examples("tally watch /index.html", "tally watch likes claps", "tally watch likes --json --for 60"),
    )
    .action(run(() => import("./watch.mjs"), "watch"));
}

function keeping(tally) {
  tally
    .command("export")
    .description("print all counters, a line of JSON each")
    .argument("[prefix]", "of those whose ids begin so")
    .option("--output <file>", "write to this file")
    .option("--history", "with their history")
    .option("--uniques", "with their unique elements")
    .option("--samples", "with their samples")
    .option("--csv", "values as CSV, for spreadsheets")
    .addHelpText("after", examples("tally export > counters.ndjson", "tally export /blog/ --csv --output blog.csv"))
    .action(run(() => import("./keep.mjs"), "exportAll"));
  tally
    .command("snapshot")
    .description("make a snapshot and wait for its end, or list those that there are")
    .option("--list", "list them")
    .addHelpText("after", examples("tally snapshot", "tally snapshot --list"))
    .action(run(() => import("./keep.mjs"), "snapshot"));
  tally
    .command("restore")
    .description("put counters back as a snapshot has them")
    .argument("<date>", "the day of the snapshot: 2026-11-01")
    .option("--prefix <prefix>", "only counters whose ids begin so")
    .addOption(new Option("--mode <mode>", "how it meets what is there").choices(["create", "replace", "add"]))
    .option("--dry-run", "say what would change, and change nothing")
    .addHelpText(
      "after",
      examples("tally restore 2026-11-01 --prefix /blog/ --dry-run", "tally restore 2026-11-01 --prefix /blog/"),
    )
    .action(run(() => import("./keep.mjs"), "restore"));
  tally
    .command("repair")
    .description("put back what is damaged, from what other parts of the deployment remember and from the last snapshot")
    .option("--prefix <prefix>", "only counters whose ids begin so")
    .option("--dry-run", "say what is damaged, and change nothing")
    .option("--objects [prefix]", "say what is damaged that belongs to no counter: of boards, tablets, limits, Redis, queued events")
    .option("--object <name>", "the same of one object, as --objects names it")
    .option("--discard", "with --object: remove what is damaged of it")
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
    .description("who may do what: in a deployment, or with --file in a file for TALLY_KEYS");
  const key = (name, text) =>
    all.command(name).description(text).option("--file <file>", "in this file, as TALLY_KEYS has it");
  const rights = (command) =>
    command
      .option("--scopes <scopes>", "some of read, write, limits, refund, admin", "read,write")
      .option("--prefix <prefix>", "only ids that begin so; may be repeated", list)
      .option("--rate-per-minute <number>", "at most so many calls a minute", whole)
      .option("--expires <date>", "until then, as 2027-01-31");
  rights(key("add", "make a key, and print it once"))
    .argument("<name>", "what it is for")
    .addHelpText(
      "after",
      examples(
        "tally keys add blog --scopes read,write --prefix /blog/", "tally keys add ops --scopes admin --file keys.json",
      ),
    )
    .action(run(() => import("./keys.mjs"), "add"));
  key("list", "list keys; never the keys themselves")
    .addHelpText("after", examples("tally keys list", "tally keys list --file keys.json --json"))
    .action(run(() => import("./keys.mjs"), "list"));
  key("revoke", "end a key")
    .argument("<name>", "its name, or its id")
    .addHelpText("after", examples("tally keys revoke blog"))
    .action(run(() => import("./keys.mjs"), "revoke"));
  key("rotate", "make a new key of that name, and print it once")
    .argument("<name>", "its name, or its id")
    .option("--keep <seconds>", "let the old one live so long; a day in a deployment, not at all in a file", whole)
    .addHelpText("after", examples("tally keys rotate blog", "tally keys rotate blog --keep 86400"))
    .action(run(() => import("./keys.mjs"), "rotate"));
}

function limiting(tally) {
  tally
    .command("limits")
    .description("list policies of rate limits; make, show, try and end one")
    .argument("[policy]", "a policy")
    .argument("[key]", "a key of it: looks at its quota")
    .option("--set <fields>", "make or change the policy: '{\"limit\":100,\"window_seconds\":60}'")
    .option("--check", "consume of the key's quota; exit code 7 where it is refused")
    .option("--cost <number>", "so much", whole, 1)
    .option("--reset", "forget what the key has used")
    .option("--delete", "end the policy")
    .addHelpText("after", examples("tally limits", "tally limits login --set '{\"limit\":100,\"window_seconds\":60}'", "tally limits login bob --check && ./go.sh"))
    .action(run(() => import("./limits.mjs"), "limits"));
}

function operating(tally) {
  tally
    .command("deploy")
    .description("deploy to Cloudflare, step by step")
    .option("--dry-run", "show each step, and check by wrangler that it would work; change nothing")
    .option("--yes", "ask nothing: take what options and defaults say")
    .option("--folder <folder>", "where the two configurations are written", "tally-deploy")
    .option("--name <name>", "the Workers are called so: <name>-edge and <name>-aggregator", "tally")
    .option("--domain <domain>", "answer at this domain of your account")
    .addOption(
      new Option("--datacenters <mode>", "what a datacenter is").choices(["colos", "region", "one"]).default("region"),
    )
    .option("--tablets <number>", "counters of a datacenter share so many objects", whole)
    .option("--queue", "queued events go through Cloudflare Queues")
    .option("--snapshots", "snapshots go to an R2 bucket")
    .option("--analytics", "metrics go to Analytics Engine")
    .option("--keys <file>", "who may do what, as JSON; made anew where there is none")
    .option("--gradual <percent>", "send only so many percent of the requests to this version", whole)
    .option("--rollback", "go back to the version before")
    .addHelpText(
      "after",
      examples(
        "tally deploy --dry-run", "tally deploy --domain tally.example.com --queue", "tally deploy --gradual 10",
        "tally deploy --rollback",
      ),
    )
    .action(run(() => import("./deploy.mjs"), "deploy"));
  tally
    .command("doctor")
    .description("look for what is wrong, here and with the deployment")
    .addHelpText("after", examples("tally doctor", "tally doctor --url https://tally.example.com --json"))
    .action(run(() => import("./doctor.mjs"), "doctor"));
}

/** Runs the command line, and resolves to the exit code. */
export async function main(argv) {
  const isJson = argv.includes("--json");
  const tell = (message, more) => {
    if (isJson) process.stdout.write(`${JSON.stringify({ error: { message, ...more } })}\n`);
    process.stderr.write(`tally: ${message}\n`);
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
