// Which options apply to which call. What does not apply is an error: an option that is silently left out does what
// nobody asked for, such as an import without its prefix.
import { EXIT, Failure } from "./outcome.mjs";

const DEPLOYS = "tally deploy, which makes keys itself";
const SERVICE = ["url", "key", "keyFile"];
const LOGS = [
  "format", "follow", "status", "method", "bots", "static", "all", "stripQuery", "paths", "rewrite", "site", "by",
  "unique", "again",
];

// By command: cases, each of which is whether a call is of it, what it is called, and the options that it does not
// take.
export const CASES = {
  serve: [() => [true, "tally serve, which asks no other deployment", SERVICE]],
  completion: [() => [true, "a completion", [...SERVICE, "json", "color"]]],
  import: [
    ({ from }) => [/^rediss?:/.test(from), "--from redis, which reads no logs", LOGS],
    ({ from }) => [["countapi", "abacus"].includes(from), `--from ${from}, which is a list of counters`, LOGS],
    ({ from }) => [from === "goatcounter", "--from goatcounter, which says the format", ["format"]],
    ({ format, from }) => [
      format === "tally" && from === undefined, "--format tally, by which counters get the ids that the file has",
      [...LOGS, "prefix"].filter((name) => name !== "format"),
    ],
    ({ from, format }) => [
      (from === undefined && format !== "tally") || from === "goatcounter",
      "logs: it is for --from redis, countapi and abacus, and for --format tally", ["mode"],
    ],
    ({ from }) => [!/^rediss?:/.test(from), "anything but --from redis", ["match"]],
    ({ all }) => [all, "--all, which counts every line", ["status", "method", "bots", "static"]],
    ({ site }) => [site !== undefined, "--site, which is the id of the one counter", ["prefix", "stripQuery"]],
  ],
  mcp: [({ http }) => [http === undefined, "tally mcp without --http, whose output is the protocol", ["json"]]],
  get: [({ value }) => [value, "--value, which prints values alone", ["json"]]],
  export: [({ csv }) => [csv, "--csv, which has values alone", ["history", "uniques", "samples", "alerts"]]],
  repair: [
    ({ object }) => [object !== undefined, "--object, which names one object", ["prefix", "objects"]],
    ({ objects }) => [objects !== undefined, "--objects: give it the prefix itself", ["prefix"]],
    ({ object }) => [object === undefined, "a call without --object <name>", ["discard"]],
  ],
  deploy: [() => [true, DEPLOYS, ["key", "keyFile"]]],
  rollback: [
    () => [true, DEPLOYS, ["key", "keyFile"]],
    () => [
      true, "a rollback, which changes no settings",
      ["name", "domain", "datacenters", "tablets", "queue", "snapshots", "analytics", "keys", "gradual"],
    ],
  ],
};
const KEYS = [({ file }) => [file !== undefined, "--file: keys of a file are changed here", SERVICE]];
const ANY = [({ key }) => [key !== undefined, "--key: give one of both", ["keyFile"]]];

/** Throws a failure of usage that names an option of a call which does not apply to it. */
export function check(command, args) {
  const options = command.optsWithGlobals();
  const all = [];
  for (let one = command; one !== null; one = one.parent) all.push(...one.options);
  const isGiven = (option) => {
    const name = option.attributeName();
    const isSame = (options[name] === false) === option.negate;
    return isSame && command.getOptionValueSourceWithGlobals(name) === "cli";
  };
  const given = all.filter(isGiven);
  const cases = command.parent?.name() === "keys" ? KEYS : (CASES[command.name()] ?? []);
  for (const one of [...ANY, ...cases]) {
    const [isOfIt, what, names] = one(options, args);
    const isMeant = (option) => names.includes(option.attributeName()) || names.includes(option.name());
    const wrong = isOfIt && given.find(isMeant);
    if (wrong) throw new Failure(EXIT.usage, `${wrong.long} does not apply to ${what}`);
  }
}
