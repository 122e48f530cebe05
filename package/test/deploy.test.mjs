// `tally deploy`: by wrangler's own dry run and local mode, and its steps by a wrangler that only notes what it is
// told.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { configurations, isTaken } from "../command/deploy/configurations.mjs";
import { ROOT, TALLY, openServer } from "./server.mjs";

const KEY = "0123456789abcdef0123456789abcdef";
const KEYS = JSON.stringify({ keys: [{ name: "ops", key: KEY, scopes: ["admin"] }] });
let server;
before(async () => (server = await openServer({ env: { TALLY_KEYS: KEYS } })));
after(() => server?.end());

test("a dry run shows each step, and wrangler finds nothing wrong", { timeout: 300_000 }, async () => {
  const before = readdirSync(server.place);
  const { code, stdout, stderr } = await server.tally([
    "deploy", "--dry-run", "--json", "--domain", "tally.example.com", "--queue", "--snapshots", "--analytics",
    "--tablets", "64",
  ]);
  assert.equal(code, 0, stderr);
  const { dry_run, steps, address } = JSON.parse(stdout);
  assert.deepEqual([dry_run, address], [true, "https://tally.example.com"]);
  const commands = steps.map(({ command }) => command ?? "").filter((command) => command.startsWith("wrangler "));
  assert.deepEqual(commands, [
    "wrangler whoami",
    "wrangler queues create tally-events",
    "wrangler queues create tally-events-dead",
    "wrangler r2 bucket create tally-snapshots",
    "wrangler secret put TALLY_KEYS -c wrangler.jsonc < keys.json",
    "wrangler deploy -c wrangler.aggregator.jsonc --dry-run",
    "wrangler deploy -c wrangler.jsonc --dry-run",
    "wrangler dev -c wrangler.jsonc -c wrangler.aggregator.jsonc",
  ]);
  // What changes an account was not done; the checks of wrangler and the smoke test in its local mode were.
  assert.deepEqual(
    steps
      .filter(({ done }) => done)
      .map(({ command }) => command?.split(" ")[1])
      .slice(-3),
    ["deploy", "deploy", "dev"],
  );
  assert.deepEqual(readdirSync(server.place), before, "a dry run leaves nothing behind");
});

test("a dry run of one Worker in a jurisdiction needs no second", { timeout: 300_000 }, async () => {
  const { code, stdout, stderr } = await server.tally([
    "deploy", "--dry-run", "--json", "--one-worker", "--jurisdiction", "eu", "--queue", "--snapshots",
  ]);
  assert.equal(code, 0, stderr);
  const commands = JSON.parse(stdout).steps.map(({ command }) => command ?? "");
  assert.deepEqual(commands.filter((command) => command.startsWith("wrangler ")).slice(3), [
    "wrangler r2 bucket create tally-snapshots --jurisdiction eu",
    "wrangler secret put TALLY_KEYS -c wrangler.jsonc < keys.json",
    "wrangler deploy -c wrangler.jsonc --dry-run",
    "wrangler dev -c wrangler.jsonc",
  ]);
});

// Notes its arguments and its standard input, and answers as wrangler does.
const NOTING = `
const { appendFileSync, readFileSync } = require("node:fs");
const args = process.argv.slice(2);
const input = args[0] === "secret" ? readFileSync(0, "utf8") : "";
appendFileSync("calls.ndjson", JSON.stringify({ args, input }) + "\\n");
if (args[0] === "versions" && args[1] === "upload") console.log("Worker Version ID: 11111111-2222-3333-4444-555555555555");
if (args[0] === "deployments") console.log("(100%) 99999999-2222-3333-4444-555555555555");
if (args[0] === "queues" && args[2].endsWith("-dead")) { console.error("Queue name is already taken [code: 11009]"); process.exit(1); }
`;

function place(name) {
  const folder = join(server.place, name);
  mkdirSync(join(folder, "node_modules/wrangler/bin"), { recursive: true });
  writeFileSync(join(folder, "package.json"), "{}");
  writeFileSync(join(folder, "node_modules/wrangler/package.json"), '{"name":"wrangler","version":"4.164.0"}');
  writeFileSync(join(folder, "node_modules/wrangler/bin/wrangler.js"), NOTING);
  writeFileSync(join(folder, "keys.json"), KEYS);
  const calls = () =>
    readFileSync(join(folder, "calls.ndjson"), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
  return {
    folder, calls, run: (...args) => server.tally(["deploy", "--yes", "--url", server.url, ...args], { cwd: folder }),
  };
}

test("a deployment goes in order, keys go by standard input, and the address is tried", async () => {
  const { folder, calls, run } = place("first");
  const { code, stdout, stderr } = await run("--keys", "keys.json", "--queue");
  assert.equal(code, 0, stderr);
  assert.match(stdout, new RegExp(`Tally is at ${server.url}`));
  const wranglerCalls = calls();
  const words = wranglerCalls.map(({ args }) => args.slice(0, 2).join(" "));
  assert.deepEqual(
    words, ["whoami", "queues create", "queues create", "secret put", "deploy -c", "deploy -c"],
    "a queue that is there already is left as it is",
  );
  assert.match(wranglerCalls[4].args[2], /wrangler\.aggregator\.jsonc$/, "the aggregator first");
  assert.match(wranglerCalls[5].args[2], /wrangler\.jsonc$/);
  assert.equal(wranglerCalls[3].input, KEYS);
  assert.ok(!wranglerCalls.some(({ args }) => args.join(" ").includes(KEY)), "no key is an argument");
  assert.match(readFileSync(join(folder, "tally-deploy/wrangler.jsonc"), "utf8"), /"TALLY_DATACENTERS": "region"/);
  assert.ok(
    !(await server.json("/counters", { headers: { authorization: `Bearer ${KEY}` } })).entries.some(({ id }) =>
      id.startsWith("tally/"),
    ),
    "the smoke test takes its counter away",
  );
});

test("on a terminal it asks what it needs, and configures what was answered", async () => {
  const { folder, calls } = place("asked");
  // A terminal of its own, which passes on what is typed.
  const terminal = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
  const args = ["-c", terminal, process.execPath, TALLY, "deploy", "--keys", "keys.json", "--url", server.url];
  const child = spawn("python3", args, {
    cwd: folder, env: { ...process.env, TERM: "xterm" }, stdio: ["pipe", "pipe", "inherit"],
  });
  const answers = [
    ["Name of the Workers", "mine"], ["A domain", "count.example.com"], ["A datacenter is", "colos"], ["A jurisdiction", ""],
    ["One Worker", ""],
    ["Cloudflare Queues", "y"], ["R2 bucket", ""], ["Analytics Engine", "yes"],
  ];
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    output += text;
    const [question, answer] = answers[0] ?? [];
    if (
      question === undefined ||
      !output.slice(output.lastIndexOf(question)).startsWith(question) ||
      !/\[.*\] $/.test(output.replaceAll(/\x1b\[[\d;]*[A-Za-z]/g, ""))
    ) {
      return;
    }
    answers.shift();
    child.stdin.write(`${answer}\n`);
  });
  const [code] = await once(child, "close");
  assert.deepEqual([code, answers], [0, []], output);
  const file = (name) => readFileSync(join(folder, "tally-deploy", name), "utf8");
  assert.match(file("wrangler.jsonc"), /"name": "mine-edge"[\s\S]*"pattern": "count\.example\.com",\s+"custom_domain": true[\s\S]*"queue": "mine-events"[\s\S]*"dataset": "mine"/);
  assert.doesNotMatch(file("wrangler.jsonc") + file("wrangler.aggregator.jsonc"), /TALLY_DATACENTERS|r2_buckets/);
  assert.deepEqual(
    calls().map(({ args: [first] }) => first), ["whoami", "queues", "queues", "secret", "deploy", "deploy"],
  );
});

test("a deployment stays in its jurisdiction, and has as many Workers as before", async () => {
  const { folder, calls, run } = place("moves");
  const first = await run("--keys", "keys.json", "--jurisdiction", "eu", "--one-worker", "--name", "mine");
  assert.equal(first.code, 0, first.stderr);
  assert.deepEqual(readdirSync(join(folder, "tally-deploy")), ["wrangler.jsonc"]);
  assert.deepEqual(
    calls().map(({ args: [first, second] }) => `${first} ${second ?? ""}`.trim()),
    ["whoami", "secret put", "deploy -c"],
  );
  for (const [options, said] of [
    [["--one-worker"], /jurisdiction eu, not none/], [["--jurisdiction", "eu"], /repeat --one-worker/],
    [["--one-worker", "--jurisdiction", "us"], /jurisdiction eu, not us/],
  ]) {
    const { code, stderr } = await run("--keys", "keys.json", ...options);
    assert.deepEqual([code, said.test(stderr)], [2, true], stderr);
  }
  const again = await run("--keys", "keys.json", "--jurisdiction", "eu", "--one-worker", "--name", "mine");
  assert.equal(again.code, 0, again.stderr);
  const wrong = await run("--keys", "keys.json", "--jurisdiction", "us", "--snapshots", "--folder", "other");
  assert.deepEqual([wrong.code, /--snapshots/.test(wrong.stderr)], [2, true]);
  assert.equal((await run("rollback")).code, 0);
  assert.equal(calls().filter(({ args: [first] }) => first === "rollback").length, 1);

  const file = join(folder, "tally-deploy/wrangler.jsonc");
  const text = readFileSync(file, "utf8");
  writeFileSync(file, text.replace("{\n", "{\n  // Ours.\n"));
  assert.match((await run("--keys", "keys.json", "--one-worker")).stderr, /jurisdiction eu, not none/);
  writeFileSync(file, `${text}{`);
  const broken = await run("--keys", "keys.json", "--one-worker");
  assert.deepEqual([broken.code, /wrangler\.jsonc cannot be read: .*--folder/.test(broken.stderr)], [1, true]);
});

test("gradual deployment is a flag, and rollback a verb", async () => {
  const { calls, run } = place("gradual");
  assert.equal((await run("--keys", "keys.json", "--gradual", "10")).code, 0);
  const deploys = calls().filter(({ args }) => args[0] === "versions" && args[1] === "deploy");
  for (const { args } of deploys) {
    assert.deepEqual(args.slice(2, 4), [
      "11111111-2222-3333-4444-555555555555@10%", "99999999-2222-3333-4444-555555555555@90%",
    ]);
  }
  assert.equal(deploys.length, 2);
  assert.equal((await run("rollback")).code, 0);
  assert.deepEqual(
    calls()
      .slice(-2)
      .map(({ args }) => [args[0], args[2].split("/").at(-1)]),
    [
      ["rollback", "wrangler.jsonc"], ["rollback", "wrangler.aggregator.jsonc"],
    ],
  );
  assert.equal((await run("--gradual", "0", "--keys", "keys.json")).code, 2);
});

test("keys that are made anew are for their owner alone", async () => {
  const { folder, run } = place("new-keys");
  // They are not those of the server, so the smoke test says so.
  const { code, stderr } = await run();
  assert.equal(code, 4, stderr);
  assert.equal(statSync(join(folder, "tally-deploy/keys.json")).mode & 0o777, 0o600);
});

test("wrangler of a project is used if it takes `exports`", () => {
  for (const version of ["4.107.0", "4.164.0", "5.0.0"]) assert.ok(isTaken(version), version);
  for (const version of ["4.106.9", "4.0.0", "3.114.0"]) assert.ok(!isTaken(version), version);
});

const parsed = (text) => JSON.parse(text.replace(/^\/\/.*\n/, ""));

test("configurations have the classes of the source", () => {
  const source = readFileSync(join(ROOT, "wrangler.aggregator.jsonc"), "utf8");
  const { edge, aggregator } = configurations(ROOT, { name: "mine", datacenters: "colos", build: "b" });
  const classes = [...source.matchAll(/"class_name": "(\w+)"/g)].map(([, name]) => name);
  const { exports, durable_objects: objects } = parsed(aggregator);
  assert.deepEqual(Object.keys(exports).sort(), classes.toSorted());
  assert.ok(Object.values(exports).every(({ type, storage }) => type === "durable-object" && storage === "sqlite"));
  assert.deepEqual(objects.bindings.map(({ class_name: name }) => name), classes);
  assert.ok(parsed(edge).durable_objects.bindings.every(({ script_name: script }) => script === "mine-aggregator"));
  assert.doesNotMatch(edge + aggregator, /tally-|"build"|TALLY_DATACENTERS|TALLY_JURISDICTION/);
});

test("one Worker has what both have, and binds itself", () => {
  const { edge, aggregator } = configurations(ROOT, {
    name: "mine", datacenters: "region", build: "b", oneWorker: true, jurisdiction: "eu", queue: true, snapshots: true,
  });
  assert.equal(aggregator, undefined);
  const one = parsed(edge);
  assert.deepEqual(one.services, [{ binding: "AGGREGATOR", service: "mine", entrypoint: "Aggregator" }]);
  assert.ok(one.durable_objects.bindings.every(({ script_name: script }) => script === undefined));
  assert.equal(Object.keys(one.exports).length, one.durable_objects.bindings.length);
  assert.ok(one.workers_dev);
  assert.deepEqual(one.vars, { TALLY_ROLE: "edge", TALLY_JURISDICTION: "eu", TALLY_DATACENTERS: "region" });
  assert.deepEqual([one.queues.producers.length, one.queues.consumers.length], [1, 1]);
  assert.equal(one.r2_buckets[0].jurisdiction, "eu");
});
