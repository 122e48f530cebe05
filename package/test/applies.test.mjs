// An option that does not apply to a call is an error, and nothing is done: for each command, in each combination.
import assert from "node:assert/strict";
import { test } from "node:test";
import { everyCommand, main, program } from "../command/main.mjs";
import { TALLY, run } from "./server.mjs";

// Where nothing answers: a call that goes on ends with 5.
const NOWHERE = ["--url", "http://127.0.0.1:1"];
const codeOf = async (...words) => {
  const { write } = process.stderr;
  process.stderr.write = () => true;
  try {
    return await main(["node", "tally", ...words]);
  } finally {
    process.stderr.write = write;
  }
};

const VALUES = {
  format: "clf", status: "200", method: "GET", paths: "strip", rewrite: "a => b", site: "s", by: "page", unique: "ip",
  prefix: "sandbox/", mode: "replace", match: "a*",
};
const flagOf = (option) => [option.long, ...(option.required ? [VALUES[option.attributeName()] ?? "1"] : [])];
const optionsOf = (name) => program().commands.find((command) => command.name() === name).options;

// What each kind of import takes, of all options of `tally import`.
const KINDS = [
  [["--from", "redis://127.0.0.1:1"], [], ["prefix", "mode", "match", "progress"]],
  [["--from", "countapi"], ["-"], ["prefix", "mode", "progress"]],
  [["--from", "abacus"], ["-"], ["prefix", "mode", "progress"]],
  [["--format", "tally"], ["-"], ["mode", "progress"]],
  [["--from", "goatcounter"], ["-"], ["follow", "status", "method", "bots", "static", "all", "stripQuery", "paths", "rewrite", "prefix", "site", "by", "unique", "again", "progress"]],
  [[], ["-"], ["format", "follow", "status", "method", "bots", "static", "all", "stripQuery", "paths", "rewrite", "prefix", "site", "by", "unique", "again", "progress"]],
];

test("each kind of import takes its own options, and no other", async () => {
  for (const [kind, files, takes] of KINDS) {
    for (const option of optionsOf("import")) {
      if (kind.includes(option.long) || option.long === "--from") continue;
      const words = ["import", ...kind, ...flagOf(option), ...files];
      const code = await codeOf(...words, ...NOWHERE);
      assert.equal(code, takes.includes(option.attributeName()) ? 5 : 2, words.join(" "));
    }
  }
  assert.equal(await codeOf("import", "--from", "redis://127.0.0.1:1", "a.log", ...NOWHERE), 2);
  for (const more of [
    ["--all", "--status", "200"], ["--all", "--method", "GET"], ["--all", "--bots"], ["--all", "--no-bots"],
    ["--all", "--static"], ["--all", "--no-static"], ["--site", "s", "--prefix", "p:"], ["--site", "s", "--strip-query"],
    ["--site", "s", "--no-strip-query"], ["--site", ""], ["--method", ""], ["--method", "GET,"], ["--method", "a b"],
    ["--status", ""], ["--by", ""], ["--by", "page,"], ["--by", "page", "--site", ""], ["--format", ""],
    ["--site", "x".repeat(513)], ["--site", "a\nb"], ["--prefix", "x".repeat(512)], ["--prefix", "a\nb"],
    ["--rewrite", "a"], ["--rewrite", "(=>b"], ["--rewrite", ""],
  ]) {
    assert.equal(await codeOf("import", ...more, "-", ...NOWHERE), 2, more.join(" "));
  }
  assert.equal(await codeOf("import", "--from", "redis://127.0.0.1:1", "--match", "", ...NOWHERE), 2);
});

test("options of other commands that do not apply are errors too", async () => {
  for (const words of [
    ["serve", "--url", "http://x"], ["serve", "--key", "k"], ["completion", "bash", "--url", "http://x"],
    ["completion", "bash", "--json"], ["get", "a", "--value", "--json"], ["export", "--csv", "--history"],
    ["export", "--csv", "--uniques"], ["export", "--csv", "--samples"], ["export", "--csv", "--alerts"],
    ["repair", "--discard"],
    ["repair", "--object", "a", "--prefix", "b"], ["repair", "--object", "a", "--objects"],
    ["repair", "--objects", "--prefix", "b"], ["limits", "p"], ["limits", "check", "p"],
    ["limits", "set", "p"], ["limits", "show"], ["limits", "show", "p", "k", "--cost", "2"],
    ["limits", "check", "p", "k", "--reset"], ["limits", "reset", "p", "k", "--cost", "2"], ["snapshot", "--list"],
    ["limits", "--check"], ["deploy", "--rollback"], ["deploy", "rollback", "--key", "k"],
    ["deploy", "--domain", "x", "rollback"], ["deploy", "--gradual", "5", "rollback"], ["deploy", "--key", "k"],
    ["keys", "list", "--file", "f", "--url", "http://x"], ["keys", "add", "n", "--file", "f", "--key", "k"],
    ["top", "--key", "k", "--key-file", "f"],
  ]) {
    assert.equal(await codeOf(...words), 2, words.join(" "));
  }
  for (const words of [
    ["limits", "check", "p", "k", "--cost", "2"], ["export", "--history"], ["get", "a", "--value"],
  ]) {
    assert.equal(await codeOf(...words, ...NOWHERE), 5, words.join(" "));
  }
});

test("options that are named are those that there are", async () => {
  const { CASES } = await import("../command/applies.mjs");
  for (const [name, cases] of Object.entries(CASES)) {
    const command = everyCommand(program()).find((one) => one.name() === name);
    const all = [...command.options, ...(command.parent?.options ?? []), ...program().options];
    const known = all.flatMap((option) => [option.attributeName(), option.name()]);
    for (const option of cases.flatMap((one) => one({}, [])[2])) assert.ok(known.includes(option), `${name} ${option}`);
  }
});

test("the sentence names the option", async () => {
  const words = [TALLY, "import", "--format", "tally", "--mode", "replace", "--prefix", "sandbox/", "-"];
  const { code, stderr } = await run(process.execPath, words, { env: { TALLY_URL: "http://127.0.0.1:1" } });
  assert.equal(code, 2);
  assert.match(stderr, /^tally: --prefix does not apply to --format tally, by which counters get the ids that the file has$/m);
});
