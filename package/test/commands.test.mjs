// The other commands, each against a server; completion against the shells that are installed; files for containers and
// systemd.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { spawn } from "node:child_process";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { nodeCheck, pathCheck } from "../command/doctor.mjs";
import { everyCommand, program } from "../command/main.mjs";
import { jsonText, parsed } from "../command/outcome.mjs";
import { sparkline } from "../command/watch.mjs";
import { ROOT, TALLY, openServer, run, until } from "./server.mjs";

let server;
before(async () => (server = await openServer()));
after(() => server?.end());

const json = async (...args) => {
  const { code, stdout, stderr } = await server.tally([...args, "--json"]);
  assert.ok([0, 7].includes(code), `${code} ${stderr}`);
  return stdout.trim().split("\n").map((line) => JSON.parse(line));
};
const add = (id, delta = 1) =>
  server.json(`/counters/${encodeURIComponent(id)}/increment`, { method: "POST", body: JSON.stringify({ delta }) });

test("every command has help with examples, and takes --json", () => {
  for (const command of everyCommand(program())) {
    let help = "";
    command.configureOutput({ writeOut: (text) => (help += text) }).outputHelp();
    assert.match(help, /--json/, command.name());
    assert.match(help, /Examples:\n {2}\$ /, command.name());
  }
});

test("help of a command with two words has its options, by each way to ask", async () => {
  const said = async (...args) => (await run(process.execPath, [TALLY, ...args])).stdout;
  const help = await said("keys", "add", "--help");
  assert.match(help, /--scopes/);
  for (const args of [["help", "keys", "add"], ["keys", "help", "add"]]) assert.equal(await said(...args), help);
  const nested = everyCommand(program()).filter((command) => command.parent?.parent);
  assert.ok(nested.length > 10);
  for (const command of nested) {
    const words = [command.parent.name(), command.name()];
    const direct = program();
    let shown = "";
    for (const one of everyCommand(direct)) one.configureOutput({ writeOut: (text) => (shown += text) });
    await direct.parseAsync(["node", "tally", "help", ...words]);
    assert.ok(shown.startsWith(`Usage: tally ${words.join(" ")} `), shown);
  }
  assert.equal(await said("help"), await said("--help"));
  const wrong = await run(process.execPath, [TALLY, "help", "keys", "ad"]);
  assert.deepEqual([wrong.code, wrong.stderr], [2, "tally: there is no command keys ad: tally help lists them\n"]);
});

test("top, get and limits say it to people and to programs", async () => {
  await add("fruit/apple", 3);
  await add("fruit/pear");
  await until(async () => (await json("top", "fruit/"))[0].entries.length === 2);
  const [{ entries: rows, total }] = await json("top", "fruit/");
  assert.deepEqual([rows.map(({ id, value }) => [id, value]), total], [[["fruit/apple", 3], ["fruit/pear", 1]], 4]);
  assert.match((await server.tally(["top", "fruit/"])).stdout, /^1 +3 +75\.0 % +fruit\/apple\n2 +1 +25\.0 %/);
  assert.deepEqual(
    (await json("get", "fruit/apple", "fruit/pear", "--strong")).map(({ value, exact }) => [value, exact]),
    [
      [3, true], [1, true],
    ],
  );
  assert.equal((await server.tally(["get", "fruit/apple", "--value"])).stdout, "3\n");
  for (const window of ["3600", "today", "7d", "month", "year"]) {
    const [[read], [ranked]] = [
      await json("get", "fruit/apple", "--window", window), await json("top", "fruit/", "--window", window),
    ];
    assert.deepEqual([read.window.count, ranked.entries[0].count], [3, 3], window);
  }
  assert.match((await server.tally(["get", "fruit/apple", "--window", "7d"])).stdout, / 3 in \d{3},\d{3} s\n$/);
  for (const call of [["get", "fruit/apple"], ["top"]]) {
    const { stderr } = await server.tally([...call, "--window", "soon"]);
    assert.match(stderr, /^tally: window must be .*"soon" is none\n$/);
  }
  await json("limits", "set", "once", '{"limit":1,"window_seconds":60}');
  assert.equal((await json("limits", "list"))[0].entries.length, 1);
  assert.equal((await server.tally(["limits", "check", "once", "bob"])).code, 0);
  assert.equal((await server.tally(["limits", "check", "once", "bob"])).code, 7);
  assert.equal((await json("limits", "show", "once", "bob"))[0].remaining, 0);
  const peek = async (key) => (await server.tally(["limits", "show", "once", key])).stdout;
  assert.match(await peek("bob"), /^next check refused, 0 of 1 left, try again in \d+ s/);
  assert.match(await peek("eve"), /^next check allowed, 1 of 1 left/);
  assert.equal((await server.tally(["limits", "show", "nothing"])).code, 3);
});

test("watch tells each change", async () => {
  await add("watched");
  const child = spawn(process.execPath, [TALLY, "watch", "watched", "--json", "--url", server.url], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  child.stdout.on("data", (text) => (output += text));
  await until(() => output.includes('"value":1'));
  await add("watched", 4);
  await until(() => output.includes('"value":5'));
  child.kill("SIGINT");
  assert.equal((await once(child, "exit"))[0], 0);
  assert.equal(sparkline([0, 1, 4, 8]), "▁▂▅█");
});

test("a number that JavaScript would round is printed with all its digits", async () => {
  const value = "9223372036854775922";
  await server.json("/counters/digits%2Fbig/value", { method: "PUT", body: `{"value":${value}}` });
  const said = async (...args) => (await server.tally(args)).stdout;
  assert.match(await said("get", "digits/big"), /^digits\/big +9,223,372,036,854,775,922 /);
  assert.equal(await said("get", "digits/big", "--value"), `${value}\n`);
  assert.match(await said("get", "digits/big", "--json"), new RegExp(`"value":${value},"base":${value},`));
  await until(async () => (await said("top", "digits/")).includes("digits/big"));
  assert.match(await said("top", "digits/"), /^1 +9,223,372,036,854,775,922 .*\n1 counter, 9,223,372,036,854,775,922 in/);
  assert.match(await said("top", "digits/", "--json"), new RegExp(`"total":${value},.*"value":${value},`));
  assert.match(await said("watch", "digits/big", "--for", "2"), new RegExp(`^digits/big ${value}\n`));
  const child = spawn(process.execPath, [TALLY, "watch", "digits/big", "--json", "--url", server.url]);
  let output = "";
  child.stdout.on("data", (text) => (output += text));
  await until(() => output.includes(`"value":${value},`));
  await add("digits/big");
  await until(() => output.includes('"value":9223372036854775923,'));
  child.kill("SIGINT");
  assert.equal((await once(child, "exit"))[0], 0);
});

test("keys of a file are made, listed, rotated and revoked; only their owner may read it", async () => {
  const file = join(server.place, "keys.json");
  const [{ key }] = await json("keys", "add", "blog", "--file", file, "--prefix", "/blog/");
  assert.match(key, /^[0-9a-f]{48}$/);
  await json("keys", "add", "ops", "--scopes", "admin", "--file", file);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.deepEqual((await json("keys", "list", "--file", file))[0].entries, [
    { name: "blog", scopes: ["read", "write"], prefixes: ["/blog/"] }, { name: "ops", scopes: ["admin"] },
  ]);
  const [rotated] = await json("keys", "rotate", "blog", "--file", file);
  assert.notEqual(rotated.key, key);
  await json("keys", "revoke", "blog", "--file", file);
  assert.deepEqual(JSON.parse(readFileSync(file, "utf8")).keys.map(({ name }) => name), ["ops"]);
  assert.equal((await server.tally(["keys", "revoke", "blog", "--file", file])).code, 3);
  assert.equal((await server.tally(["keys", "add", "x", "--scopes", "all", "--file", file])).code, 2);
  // What goes to stdout is the key alone, so that `> ops.key` makes a file for --key-file.
  const shown = await server.tally(["keys", "add", "api", "--file", file]);
  assert.match(shown.stdout, /^[0-9a-f]{48}\n$/);
  assert.match(shown.stderr, /not shown again/);
  await json("keys", "revoke", "api", "--file", file);
  // The file is what the server takes.
  const keyed = await openServer({ env: { TALLY_KEYS: readFileSync(file, "utf8") } });
  const [{ key: ops }] = JSON.parse(readFileSync(file, "utf8")).keys;
  assert.equal((await keyed.tally(["get", "a"], { env: { TALLY_KEY: ops } })).code, 3);
  assert.equal((await keyed.tally(["get", "a"])).code, 4);
  writeFileSync(join(server.place, "one-key"), `${ops}\n`);
  assert.equal((await keyed.tally(["get", "a", "--key-file", join(server.place, "one-key")])).code, 3);
  await keyed.end();
});

test("keys of a deployment are made, used, listed, rotated and revoked, by name or id", async () => {
  const file = join(server.place, "deployment-keys.json");
  const [{ key: ops }] = await json("keys", "add", "ops", "--scopes", "admin", "--file", file);
  const keyed = await openServer({ env: { TALLY_KEYS: readFileSync(file, "utf8") } });
  const as = async (key, ...args) => {
    const { code, stdout, stderr } = await keyed.tally([...args, "--json"], { env: { TALLY_KEY: key } });
    return { code, stderr, answer: stdout.trim() === "" ? undefined : JSON.parse(stdout.trim().split("\n")[0]) };
  };
  const { answer: made } = await as(
    ops, "keys", "add", "blog", "--scopes", "read,write", "--prefix", "/blog/", "--prefix", "/news/",
    "--rate-per-minute", "600", "--expires", "2030-01-31",
  );
  assert.match(made.key, /^tally_[0-9a-f]{16}_[0-9a-f]{80}$/);
  assert.deepEqual(
    [made.prefixes, made.rate_per_minute, made.expires_at], [["/blog/", "/news/"], 600, Date.parse("2030-01-31")],
  );
  assert.equal((await as(made.key, "get", "/blog/a")).code, 3, "it may read there, and nothing is there");
  assert.equal((await as(made.key, "get", "/shop/a")).code, 4);
  const top = await as(made.key, "top");
  assert.deepEqual([top.code, /name it: tally top \/blog\//.test(top.stderr)], [4, true], top.stderr);
  const { answer: listed } = await as(ops, "keys", "list");
  assert.deepEqual(listed.entries.map(({ name, key }) => [name, key]), [["blog", undefined]]);
  const { answer: rotated } = await as(ops, "keys", "rotate", "blog", "--keep", "60");
  assert.equal(rotated.id, made.id);
  assert.equal((await as(rotated.key, "get", "/blog/a")).code, 3);
  assert.equal((await as(made.key, "get", "/blog/a")).code, 3, "both are good for a while");
  assert.equal((await as(ops, "keys", "revoke", "nobody")).code, 3);
  await as(ops, "keys", "add", "blog", "--scopes", "read");
  assert.match(
    (await keyed.tally(["keys", "revoke", "blog"], { env: { TALLY_KEY: ops } })).stderr, /2 keys are called blog/,
  );
  assert.equal((await as(ops, "keys", "revoke", made.id)).code, 0);
  assert.equal((await as(rotated.key, "get", "/blog/a")).code, 4);
  await keyed.end();
});

test("what an earlier build does not know is said, with an exit code of its own; this one knows it all", async () => {
  const calls = {
    "/snapshots": ["snapshot"], "/snapshots/{date}/restore": ["restore", "2026-11-01"],
    "/repair": ["repair", "--dry-run"], "/keys": ["keys", "list"], "/export": ["export"],
  };
  const paths = Object.keys((await server.json("/openapi.json")).paths);
  for (const path of [...Object.keys(calls), "/keys/{id}/rotate"]) assert.ok(paths.includes(path), path);
  const problem = '{"code":"not-found","status":404,"detail":"no such route"}';
  const earlier = createServer(({ url }, response) => {
    if (url === "/healthz") return response.end('{"status":"ok"}');
    response.writeHead(404, { "content-type": "application/problem+json" }).end(problem);
  }).listen(0, "127.0.0.1");
  await once(earlier, "listening");
  const env = { TALLY_URL: `http://127.0.0.1:${earlier.address().port}` };
  for (const args of [
    ...Object.values(calls), ["snapshot", "list"], ["keys", "rotate", "blog"], ["keys", "add", "blog"],
  ]) {
    const { code, stdout, stderr } = await server.tally([...args, "--json"], { env });
    assert.deepEqual([args, code, JSON.parse(stdout).error.exit], [args, 8, 8]);
    assert.match(stderr, /does not know .*upgrade it/);
  }
  earlier.close();
  assert.equal((await server.tally(["restore", "monday"])).code, 2);
});

test("an address where another program answers is named, also a wrong path of Tally's own", async () => {
  const page = createServer((_, response) => response.writeHead(404).end("<html>")).listen(0, "127.0.0.1");
  await once(page, "listening");
  const other = `http://127.0.0.1:${page.address().port}`;
  const calls = [
    ["get", "a"], ["top"], ["watch", "a"], ["snapshot"], ["keys", "list"], ["limits"], ["limits", "check", "a", "b"],
    ["export"], ["import", "-"], ["restore", "2026-11-01"],
  ];
  for (const url of [other, `${server.url}/wrong/path`]) {
    for (const args of calls) {
      const { code, stdout, stderr } = await server.tally([...args, "--url", url], { input: "a\n" });
      assert.deepEqual([args, code, stdout], [args, 1, ""], stderr);
      assert.ok(stderr.startsWith(`tally: ${url} is not Tally, because it has no /healthz of Tally: set`), stderr);
    }
  }
  page.close();
});

test("a snapshot is made, listed and restored", async () => {
  await server.json("/counters/kept/value", { method: "PUT", body: '{"value":41}' });
  const [made] = await json("snapshot");
  assert.deepEqual([made.complete, made.partitions], [true, 16]);
  assert.equal((await json("snapshot", "list"))[0].entries[0].date, made.date);
  // In the hour of the day's own snapshot this one may come after it.
  assert.match((await server.tally(["snapshot", "list"])).stdout, new RegExp(`${made.date} +(?:full|changes)`));
  // A second one of the day shows what it is, too.
  const again = await server.tally(["snapshot"]);
  assert.match(again.stdout, new RegExp(`^day +counters +changed +bytes\\s+${made.date} `));
  await server.json("/counters/kept/value", { method: "PUT", body: '{"value":0}' });
  const would = ["restore", made.date, "--prefix", "kept", "--mode", "replace"];
  assert.match(
    (await server.tally([...would, "--dry-run"])).stdout, /^set +kept +0 +→ +41\nit would be: 0 created, 1 set/,
  );
  const [did] = await json(...would);
  assert.deepEqual([did.set, did.rejected, did.cursor], [1, 0, null]);
  assert.equal((await server.tally(["get", "kept", "--value", "--strong"])).stdout, "41\n");
  assert.equal((await server.tally(["restore", "2001-01-01"])).code, 3);
});

test("repair says how many counters it looked at, and what was damaged", async () => {
  await add("repair/a");
  const [result] = await json("repair", "--dry-run", "--prefix", "repair/");
  assert.deepEqual([result.dry_run, result.checked, result.damaged, result.failed], [true, 1, 0, []]);
  assert.match((await server.tally(["repair"])).stdout, /counters looked at, 0 damaged, 0 repaired/);
  const [found] = await json("repair", "--objects");
  assert.deepEqual([found.dry_run, found.objects, found.failed], [true, [], []]);
  assert.ok(found.checked > 16);
  assert.match(
    (await server.tally(["repair", "--object", "redis", "--discard"])).stdout,
    /1 objects looked at, 0 damaged, 0 discarded/,
  );
  assert.equal((await server.tally(["repair", "--discard"])).code, 2);
});

test("the doctor says what is well and what is not", async () => {
  const [{ ok, checks }] = await json("doctor");
  assert.equal(ok, true);
  assert.deepEqual(checks.map(({ check, result }) => [check, result]).filter(([, result]) => result !== "ok"), []);
  const away = await server.tally(["doctor", "--url", "http://127.0.0.1:1"]);
  assert.equal(away.code, 5);
  assert.match(away.stdout, /start it \(tally serve\)/);
});

test("the doctor knows which Node is too old", () => {
  const results = ["20.19.0", "22.14.0", "22.15.0", "24.0.0"].map((version) => nodeCheck(version)[1]);
  assert.deepEqual(results, ["wrong", "wrong", "ok", "ok"]);
});

test("the doctor says what a proxy did with %2F", () => {
  const id = "/a/b";
  const answers = [
    [undefined, "ok", /as they are sent/],
    [{ status: 404, code: "counter-not-found", message: 'nothing has been counted as "/a/b"' }, "ok", /as they are sent/],
    [{ status: 404, code: "counter-not-found", message: 'nothing has been counted as "a"' }, "wrong", /decodes %2F/],
    [{ status: 404, code: "counter-not-found", message: 'nothing … as "%2Fa%2Fb"' }, "wrong", /encodes % again/],
    [{ status: 404, code: "not-found", message: 'there is no "/counters//a/b"' }, "wrong", /decodes %2F.*machine\.md/],
    [{ status: 404, code: "unknown", message: "Not Found" }, "wrong", /answers .* itself, with 404/],
    [{ status: 400, code: "unknown", message: "Bad Request" }, "wrong", /answers .* itself, with 400/],
    [{ status: 403, code: "unknown", message: "a firewall" }, "wrong", /answers .* itself, with 403/],
    [{ status: 403, code: "forbidden", message: "the key may not" }, "differs", /cannot see/],
    [{ status: 503, code: "unavailable", message: "the lead is away" }, "wrong", /503 unavailable: the lead/],
  ];
  for (const [refusal, result, sentence] of answers) {
    const [name, found, detail] = pathCheck(id, refusal);
    assert.deepEqual([name, found], ["path", result], detail);
    assert.match(detail, sentence);
  }
});

test("with --json a wrong command line is JSON too", async () => {
  for (const args of [["top", "--limit", "many"], ["import", "--frobnicate"], ["nonsense"], ["get"]]) {
    const { code, stdout } = await server.tally([...args, "--json"]);
    const { error } = JSON.parse(stdout);
    assert.deepEqual([args, code, error.exit, error.message.length > 0], [args, 2, 2, true]);
  }
});

const has = (name) => spawnSync(name, ["--version"]).status === 0;

test("completion is taken by the shells, and knows commands and options", async () => {
  const scripts = {};
  for (const shell of ["bash", "zsh", "fish"]) {
    const { code, stdout } = await server.tally(["completion", shell]);
    assert.equal(code, 0);
    assert.match(stdout, /import/);
    assert.match(stdout, /follow/);
    scripts[shell] = join(server.place, `tally.${shell}`);
    writeFileSync(scripts[shell], stdout);
    if (has(shell)) assert.equal(spawnSync(shell, ["-n", scripts[shell]]).status, 0, shell);
  }
  const completed = (...words) =>
    spawnSync("bash", ["-c", `source "$1"; shift; COMP_WORDS=(tally "$@"); COMP_CWORD=$#; _tally; echo "\${COMPREPLY[@]}"`, "bash", scripts.bash, ...words], { encoding: "utf8" }).stdout.trim().split(/\s+/);
  assert.deepEqual(completed("im"), ["import"]);
  assert.deepEqual(completed("import", "--fo"), ["--format", "--follow"]);
  assert.deepEqual(completed("keys", "ro"), ["rotate"]);
  assert.ok(completed("keys", "add", "--s").includes("--scopes"));
  assert.equal((await server.tally(["completion", "tcsh"])).code, 2);
});

test("the unit for systemd is well, and the container is small, not root, and watched", async (context) => {
  const unit = join(ROOT, "package/tally.service");
  if (has("systemd-analyze")) {
    const { status, stderr } = spawnSync("systemd-analyze", ["verify", unit], { encoding: "utf8" });
    assert.deepEqual([status, stderr], [0, ""]);
  } else context.diagnostic("systemd-analyze is not installed");
  const lines = readFileSync(join(ROOT, "package/Containerfile"), "utf8")
    .replaceAll(/\\\n\s*/g, " ")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  const instructions = lines.map((line) => line.split(" ", 1)[0]);
  const known = [
    "FROM", "ARG", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL",
    "ENTRYPOINT", "CMD",
  ];
  assert.deepEqual(
    instructions.filter((word) => !known.includes(word)), [],
  );
  assert.ok(lines.includes("USER node") && lines.includes("VOLUME /data") && instructions.includes("HEALTHCHECK"));
  const listOf = (word) => {
    const line = lines.find((one) => one.startsWith(word));
    return JSON.parse(line.slice(line.indexOf("[")));
  };
  const [entry, serve] = [listOf("ENTRYPOINT"), listOf("CMD")];
  assert.deepEqual([entry, serve], [["tally"], ["serve"]]);
  // What watches the container is run as it stands: the first time a server answers, the second time nobody.
  const [, ...health] = listOf("HEALTHCHECK");
  const look = (port) => run(process.execPath, health, { env: { TALLY_PORT: String(port) } });
  assert.equal((await look(new URL(server.url).port)).code, 0);
  assert.equal((await look(1)).code, 1);
  // What the unit starts knows its options.
  const options = everyCommand(program()).find((command) => command.name() === "serve").options.map(({ long }) => long);
  const started = readFileSync(unit, "utf8").match(/^ExecStart=.* tally serve (.*)$/m)[1].match(/--[a-z-]+/g);
  assert.deepEqual(started.filter((option) => !options.includes(option)), []);
});

test("reserve, settle and release hold quota for the work, and end it", async () => {
  await json("limits", "set", "tokens", '{"limit":100,"window_seconds":3600}');
  const reserve = (...args) => server.tally(["limits", "reserve", "tokens", "acme", ...args]);
  const opened = await reserve("--amount", "60", "--ttl", "120");
  assert.match(opened.stdout, /^[0-9a-f]{32}\n$/);
  const id = opened.stdout.trim();
  const shown = await server.tally(["limits", "show", "tokens", "acme"]);
  assert.match(shown.stdout, /^next check allowed, 40 of 100 left.*, 60 held by 1 since 20/);
  const refused = await reserve("--amount", "41");
  assert.deepEqual([refused.code, refused.stdout.slice(0, 25)], [7, "refused, 40 of 100 left, "]);
  const settled = await server.tally(["limits", "settle", "tokens", "acme", id, "--amount", "25"]);
  assert.equal(settled.stdout, "25 used, 35 returned, 75 of 100 left\n");
  const twice = await server.tally(["limits", "settle", "tokens", "acme", id]);
  assert.equal(twice.code, 1, twice.stderr);
  const [{ hold }] = await json("limits", "reserve", "tokens", "acme", "--on-expiry", "release");
  assert.equal(hold.amount, 1);
  const released = await server.tally(["limits", "release", "tokens", "acme", hold.id]);
  assert.equal(released.stdout, "0 used, 1 returned, 75 of 100 left\n");
  const [over] = await json("limits", "reserve", "tokens", "acme", "--amount", "5");
  const more = await server.tally(["limits", "settle", "tokens", "acme", over.hold.id, "--amount", "80"]);
  assert.equal(more.stdout, "75 used, 0 returned, 5 more than there was room for, 0 of 100 left\n");
  assert.equal((await server.tally(["limits", "release", "tokens", "acme", "0".repeat(32)])).code, 3);
  // A policy of concurrency has no window.
  const fields = { algorithm: "concurrency", limit: 2, ttl_seconds: 60 };
  const made = await server.tally(["limits", "set", "renders", JSON.stringify(fields)]);
  assert.equal(made.stdout, "renders  2 at once, 60 s  concurrency  datacenter\n");
});

test("a large number of an answer keeps its digits, and no text that looks like one is changed", () => {
  const text = String.raw`{"a":9007199254740993,"b":[-18446744073709551616,1.5,1e3,9007199254740991],"c":"9007199254740993","d":"\"12345678901234567890"}`;
  const value = parsed(text);
  assert.deepEqual(value, {
    a: 9007199254740993n, b: [-18446744073709551616n, 1.5, 1000, 9007199254740991],
    c: "9007199254740993", d: '"12345678901234567890',
  });
  assert.equal(jsonText(value), text.replace("1e3", "1000"));
  assert.equal(jsonText(undefined), undefined);
  assert.throws(() => parsed("{"), SyntaxError);
});
