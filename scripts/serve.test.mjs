// `make serve`: what it refuses and why, and one life of the server from start to signal.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { alarmsPerSecond, spreadAlarms } from "./serve-alarms.mjs";
import { SettingError, ailment, openObjectsMax, serveSettings, workerVariables } from "./serve-settings.mjs";
import { workerdConfig } from "./workerd-config.mjs";

const LOOPBACK = ["127.0.0.1"];
const folder = mkdtempSync(join(tmpdir(), "tally-serve-"));
// Servers that a failed test left behind; each ends its own workerd.
const running = new Set();
after(async () => {
  for (const { child, ended } of running) {
    child.kill("SIGTERM");
    await ended;
  }
  rmSync(folder, { recursive: true, force: true });
});
// A server starts and ends in about 2 s; a loaded machine gets the rest.
const WITHIN = { timeout: 60_000 };

test("access is open on loopback without keys, and nowhere else", () => {
  const access = (env, addresses) => serveSettings(env, addresses).variables.TALLY_ACCESS;
  assert.equal(access({}, LOOPBACK), "open");
  assert.equal(access({}, ["::1"]), "open");
  assert.equal(access({ TALLY_KEYS: "{}" }, LOOPBACK), undefined);
  assert.equal(access({ TALLY_ACCESS: "closed" }, LOOPBACK), "closed");
  assert.equal(access({ TALLY_ACCESS: "opne" }, LOOPBACK), "opne", "it is refused at the start");
  assert.equal(access({ TALLY_KEYS: "{}", TALLY_ACCESS: "open", HOST: "0.0.0.0" }, ["0.0.0.0"]), undefined);
});

test("an address that others reach needs keys", () => {
  for (const addresses of [["0.0.0.0"], ["::"], ["192.0.2.1"], ["127.0.0.1", "192.0.2.1"], []]) {
    assert.throws(() => serveSettings({ HOST: "h" }, addresses), /HOST=h .*TALLY_KEYS.*docs\/operate\/keys\.md/);
    const byOptions = () => serveSettings({ HOST: "h" }, addresses, "options");
    assert.throws(byOptions, /--host h .*add --keys keys\.json .*--host out/);
    assert.throws(() => serveSettings({ HOST: "h", TALLY_KEYS: "", TALLY_ACCESS: "open" }, addresses), SettingError);
  }
});

test("numbers out of range are refused by name", () => {
  const both = serveSettings({ TALLY_PORT: "9", PORT: "8", TALLY_DATA: "d", TALLY_HOST: "::1" }, ["::1"]);
  assert.deepEqual(both.ports, [9]);
  const { data, host, variables } = serveSettings({ TALLY_DATA: "d", DATA: "e", TALLY_HOST: "::1" }, ["::1"]);
  assert.deepEqual([data, host, "TALLY_DATA" in variables, "TALLY_HOST" in variables], ["d", "::1", false, false]);
  for (const PORT of ["x", "-1", "65536", "1.5", "1e3", " 80"]) {
    assert.throws(() => serveSettings({ PORT }, LOOPBACK), /^Error: TALLY_PORT must be/);
  }
  assert.throws(() => serveSettings({ SERVE_EDGES: "0" }, LOOPBACK), /SERVE_EDGES must be/);
  assert.throws(() => serveSettings({ PORT: "65535", SERVE_EDGES: "2" }, LOOPBACK), /no room/);
});

test("a server that is not told where requests enter is one datacenter", () => {
  const datacenters = (env) => serveSettings(env, LOOPBACK).variables.TALLY_DATACENTERS;
  assert.equal(datacenters({}), "one");
  assert.equal(datacenters({ CF_BLOB_HEADER: "CF-Blob" }), undefined);
  assert.equal(datacenters({ TALLY_DATACENTERS: "region" }), "region");
  assert.equal(datacenters({ CF_BLOB_HEADER: "CF-Blob", TALLY_DATACENTERS: "region" }), "region");
});

test("a server has four limiters unless it is told another number", () => {
  const limiters = (env) => serveSettings(env, LOOPBACK).variables.TALLY_LIMITERS;
  assert.equal(limiters({}), "4");
  assert.equal(limiters({ TALLY_LIMITERS: "16" }), "16");
});

test("open objects take half of the descriptors and a quarter of the memory, of all edges and the aggregator together", () => {
  const gigabyte = 1e9;
  assert.equal(openObjectsMax(4_096, 64 * gigabyte, 1), 341);
  assert.equal(openObjectsMax(4_096, 64 * gigabyte, 2), 227);
  assert.equal(openObjectsMax(1_048_576, 4 * gigabyte, 1), 1_785);
  assert.equal(openObjectsMax(5, gigabyte, 8), 1);
});

test("TALLY_ variables are passed on, the role is not", () => {
  const env = { TALLY_A: "1", TALLY_ROLE: "edge", TALLY_EMPTY: "", OTHER: "2", TALLY_KEYS: "{}" };
  assert.deepEqual(workerVariables(env, true), { TALLY_A: "1", TALLY_KEYS: "{}" });
});

test("the names that data on disk is found by do not change", () => {
  const text = workerdConfig({
    addresses: ["127.0.0.1:1"],
    build: "/b",
    objects: '/o"',
    compatibilityDate: "2026-01-01",
    environment: ["TALLY_KEYS"],
    cfBlobHeader: undefined,
  });
  assert.match(text, /className = "Board", uniqueKey = "tally-board-v1", enableSql = true/);
  assert.match(text, /className = "Cell", uniqueKey = "tally-cell-v1", enableSql = true/);
  assert.match(text, /className = "Directory", uniqueKey = "tally-directory-v1", enableSql = true/);
  assert.match(text, /className = "Inbox", uniqueKey = "tally-inbox-v1", enableSql = true/);
  assert.match(text, /className = "Limiter", uniqueKey = "tally-limiter-v1", enableSql = true/);
  assert.match(text, /className = "Tablet", uniqueKey = "tally-tablet-v1", enableSql = true/);
  assert.match(text, /className = "Watcher", uniqueKey = "tally-watcher-v1", enableSql = true/);
  assert.match(text, /path = "\/o\\""/);
  assert.match(text, /name = "TALLY_KEYS", fromEnvironment = "TALLY_KEYS"/);
  assert.doesNotMatch(text, /cfBlobHeader/);
});

test("what is overdue at a start is spread, by how many files may be open, and what is due later stays", async () => {
  assert.deepEqual([1_024, 4_096, 20_000, 1_048_576].map(alarmsPerSecond), [6, 26, 100, 100]);
  const objects = join(folder, "overdue");
  mkdirSync(objects);
  const database = new DatabaseSync(join(objects, "metadata.sqlite"));
  // As workerd makes it.
  database.exec("CREATE TABLE _cf_ALARM (actor_id TEXT PRIMARY KEY, scheduled_time INTEGER, actor_name TEXT) WITHOUT ROWID");
  const now_ms = 1_777_593_630_000;
  const put = database.prepare("INSERT INTO _cf_ALARM VALUES (?, ?, NULL)");
  const ns = (ms) => BigInt(ms) * 1_000_000n;
  database.exec("BEGIN");
  for (let index = 0; index < 14_000; index++) put.run(`overdue-${String(index).padStart(5, "0")}`, ns(now_ms - index));
  put.run("tomorrow", ns(now_ms + 86_400_000));
  database.exec("COMMIT");
  assert.equal(await spreadAlarms(objects, now_ms, 100), 14_000);
  const second = "(scheduled_time / 1000000 - CAST(? AS INTEGER)) / 1000";
  const most = database.prepare(`SELECT MAX(n) AS most FROM (SELECT COUNT(*) AS n FROM _cf_ALARM GROUP BY ${second})`).get(now_ms);
  assert.equal(most.most, 100);
  const { last } = database.prepare(`SELECT MAX(${second}) AS last FROM _cf_ALARM WHERE actor_id <> 'tomorrow'`).get(now_ms);
  assert.equal(last, 140);
  const { at } = database.prepare("SELECT CAST(scheduled_time AS TEXT) AS at FROM _cf_ALARM WHERE actor_id = 'tomorrow'").get();
  assert.equal(at, String(ns(now_ms + 86_400_000)));
  database.close();
  assert.equal(await spreadAlarms(join(folder, "nothing"), now_ms, 100), 0);
});

// Starts the server with only these variables of the environment, and collects what it prints.
function start(env) {
  const child = spawn(process.execPath, [fileURLToPath(new URL("serve.mjs", import.meta.url))], {
    env: { PATH: process.env.PATH, PORT: "0", DATA: join(folder, "data"), ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let errors = "";
  child.stderr.on("data", (chunk) => {
    errors += chunk;
  });
  const ended = once(child, "close").then(([code]) => ({ code, errors }));
  const lines = createInterface({ input: child.stdout });
  const ready = new Promise((done, failed) => {
    lines.on("line", (line) => {
      const url = line.match(/^Tally is ready on (http:\S+)$/)?.[1];
      if (url) done(url);
    });
    ended.then(({ errors: text }) => failed(new Error(`ended before it was ready: ${text}`)));
  });
  // Not every test waits for it.
  ready.catch(() => {});
  const server = { child, ready, ended, errors: () => errors };
  running.add(server);
  ended.then(() => running.delete(server));
  return server;
}

// Whether a process is there and has not ended.
function isAlive(pid) {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

// A PATH with all programs but these.
function pathWithout(...missing) {
  const bin = mkdtempSync(join(folder, "bin-"));
  for (const place of process.env.PATH.split(":").toReversed()) {
    for (const name of existsSync(place) ? readdirSync(place) : []) {
      rmSync(join(bin, name), { force: true });
      if (!missing.includes(name)) symlinkSync(join(place, name), join(bin, name));
    }
  }
  return bin;
}

const ON_LINUX = { ...WITHIN, skip: process.platform !== "linux" };

// A PATH whose setpriv does this before it becomes workerd, by a shell.
function pathWithSetpriv(script) {
  const bin = pathWithout("setpriv");
  writeFileSync(join(bin, "setpriv"), `#!/bin/sh\nshift 2\n${script}\n`, { mode: 0o755 });
  return bin;
}

// Root may write what is read-only, unless it gives that right up.
const CAPABILITIES = "-dac_override,-dac_read_search";
const programOf = (name) => spawnSync("/bin/sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).stdout.trim();
const WITH_SETPRIV = { ...ON_LINUX, skip: ON_LINUX.skip || programOf("setpriv") === "" };

test("a start where nothing can be written is not ready, and names the folder and what to do", WITH_SETPRIV, async () => {
  const data = join(folder, "unwritable");
  const server = start({ DATA: data });
  await fetch(`${await server.ready}/counters/a/increment`, { method: "POST" });
  server.child.kill("SIGTERM");
  await server.ended;
  const objects = join(data, "objects");
  const entries = readdirSync(objects, { recursive: true, withFileTypes: true });
  const chmodAll = (file, directory) => {
    for (const entry of entries) chmodSync(join(entry.parentPath, entry.name), entry.isDirectory() ? directory : file);
    chmodSync(objects, directory);
  };
  chmodAll(0o400, 0o500);
  const dropped = `${programOf("setpriv")} --bounding-set=${CAPABILITIES} --inh-caps=${CAPABILITIES}`;
  const PATH = pathWithSetpriv(`exec ${process.getuid() === 0 ? dropped : ""} "$@"`);
  const { code, errors } = await start({ DATA: data, PATH }).ended;
  chmodAll(0o600, 0o700);
  assert.equal(code, 1);
  assert.match(errors, new RegExp(`^serve: .*the data folder ${data} takes no writes.*give it and all in it to the user`, "m"));
});

const WITH_PRLIMIT = { ...ON_LINUX, skip: ON_LINUX.skip || spawnSync("prlimit", ["--version"]).status !== 0 };

test("/healthz and the log say that a disk takes no writes any more, and that it does again", WITH_PRLIMIT, async () => {
  const data = join(folder, "filled");
  const server = start({ DATA: data, PATH: pathWithSetpriv(`trap '' XFSZ\nexec "$@"`) });
  const url = await server.ready;
  const limit = (fsize) => {
    const { status } = spawnSync("prlimit", ["--pid", String(workerdOf(server)), `--fsize=${fsize}`]);
    assert.equal(status, 0);
  };
  const health = async () => (await fetch(`${url}/healthz`)).status;
  limit("0:");
  await eventually(async () => (await health()) === 503);
  await eventually(() => server.errors().includes(`serve: the data folder ${data} takes no writes`));
  limit("unlimited:");
  await eventually(async () => (await health()) === 200);
  await eventually(() => server.errors().includes(`serve: the data folder ${data} takes writes again`));
  assert.equal(server.errors().match(/takes no writes/g).length, 1, "it is said once");
  server.child.kill("SIGTERM");
  assert.equal((await server.ended).code, 0);
});

test("a port that stays taken is refused, once a server that is ending would have ended", WITHIN, async () => {
  const other = createServer().listen(0, "127.0.0.1");
  await once(other, "listening");
  const { code, errors } = await start({ PORT: String(other.address().port) }).ended;
  other.close();
  assert.equal(code, 1);
  assert.match(errors, /port \d+ on 127\.0\.0\.1 is taken: waiting up to 7 s/);
  assert.match(errors, /port \d+ on 127\.0\.0\.1 is taken: end what listens there/);
});

test("a start waits for a server that is ending: for its port, and for its folder", WITHIN, async () => {
  const data = join(folder, "handed-over");
  const first = start({ DATA: data });
  const url = await first.ready;
  // A stream that nobody closes holds the first for as long as it drains.
  const stream = await fetch(`${url}/live?id=a`, { headers: { accept: "text/event-stream" } });
  assert.equal(stream.status, 200);
  first.child.kill("SIGTERM");
  const second = start({ DATA: data, PORT: new URL(url).port });
  assert.equal(await second.ready, url);
  assert.equal((await first.ended).code, 0);
  second.child.kill("SIGTERM");
  assert.equal((await second.ended).code, 0);
});

const WAYS_TO_END = [["the kernel", undefined], ["a pipe, where there is no setpriv", pathWithout("setpriv")]];
for (const [means, PATH] of WAYS_TO_END) {
  test(`a server that is killed leaves nothing behind, by ${means}, also while a stream is open`, ON_LINUX, async () => {
    const data = mkdtempSync(join(folder, "killed-"));
    const server = start({ DATA: data, ...(PATH === undefined ? {} : { PATH }) });
    const url = await server.ready;
    const stream = await fetch(`${url}/live?id=a`, { headers: { accept: "text/event-stream" } });
    assert.equal(stream.status, 200);
    const child = workerdOf(server);
    server.child.kill("SIGKILL");
    await eventually(() => !isAlive(child));
    // Its successor has the same port and folder.
    const next = start({ DATA: data, PORT: new URL(url).port });
    assert.equal(await next.ready, url);
    next.child.kill("SIGTERM");
    assert.equal((await next.ended).code, 0);
  });
}

test("a workerd that died leaves no watcher that could kill another process", ON_LINUX, async () => {
  const server = start({ DATA: join(folder, "watched") });
  await server.ready;
  const died = workerdOf(server);
  const [watcher] = readFileSync(`/proc/${died}/task/${died}/children`, "utf8").trim().split(" ").map(Number);
  assert.ok(isAlive(watcher));
  process.kill(died, "SIGKILL");
  await eventually(() => !isAlive(watcher));
  await eventually(() => server.errors().includes("workerd is ready again"));
  server.child.kill("SIGTERM");
  assert.equal((await server.ended).code, 0);
});

test("a make that is killed takes the server with it", ON_LINUX, async () => {
  const makefile = join(folder, "Makefile");
  const [, recipe] = readFileSync(new URL("../Makefile", import.meta.url), "utf8").match(/^serve: build\n\t(.*)$/m);
  const root = fileURLToPath(new URL("..", import.meta.url));
  writeFileSync(makefile, `NODE := ${process.execPath}\nserve:\n\t${recipe}\n`);
  const make = spawn("make", ["-C", root, "-f", makefile, "serve"], {
    env: { PATH: process.env.PATH, PORT: "0", DATA: join(folder, "made") }, stdio: ["ignore", "pipe", "ignore"],
  });
  const lines = createInterface({ input: make.stdout });
  await eventually(async () => /is ready on/.test((await once(lines, "line"))[0]));
  const childOf = (pid) => Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim());
  const node = childOf(make.pid);
  const pids = [node, childOf(node)];
  assert.deepEqual(pids.map(isAlive), [true, true]);
  make.kill("SIGKILL");
  await eventually(() => !pids.some(isAlive));
});

test("/healthz names the process that answers, and a start is ready only by its own", WITHIN, async () => {
  const begun = Date.now();
  const first = start({ DATA: join(folder, "named") });
  const { started_at: startedAt } = await (await fetch(`${await first.ready}/healthz`)).json();
  assert.ok(startedAt >= begun && startedAt <= Date.now(), String(startedAt));
  assert.equal(await ailment(await first.ready, startedAt), undefined);
  assert.deepEqual(await ailment(await first.ready, startedAt + 1), { status: 200, isFinal: false });
  first.child.kill("SIGTERM");
  assert.equal((await first.ended).code, 0);
});

test("a data folder that cannot be written is refused", WITHIN, async () => {
  writeFileSync(join(folder, "file"), "");
  const { code, errors } = await start({ DATA: join(folder, "file") }).ended;
  assert.equal(code, 1);
  assert.match(errors, /cannot be written/);
});

test(
  "a data folder that cannot be made is refused at once", { ...WITHIN, skip: process.platform !== "linux" },
  async () => {
    const { code, errors } = await start({ DATA: "/proc/x" }).ended;
    assert.equal(code, 1);
    assert.match(errors, /DATA=\/proc\/x cannot be written \(ENOENT\)/);
  },
);

// workerd, which the server has become the parent of.
function workerdOf({ child }) {
  return Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").trim());
}

async function eventually(condition) {
  for (;;) {
    const found = await condition();
    if (found) return found;
    await new Promise((done) => setTimeout(done, 20));
  }
}

test("a workerd that died is started again, which is told, and given up after five times", { ...WITHIN, skip: process.platform !== "linux" }, async () => {
  const server = start({ DATA: join(folder, "dying") });
  const url = await server.ready;
  const add = () => fetch(`${url}/counters/a/increment`, { method: "POST" });
  assert.equal((await add()).status, 200);
  for (let end = 1; end <= 4; end++) {
    process.kill(workerdOf(server), "SIGKILL");
    await eventually(() => server.errors().match(/workerd is ready again/g)?.length === end);
    const answer = await fetch(`${url}/counters/a?consistency=strong`);
    assert.equal((await answer.json()).value, 1);
  }
  process.kill(workerdOf(server), "SIGKILL");
  const { code, errors } = await server.ended;
  assert.equal(code, 1);
  assert.equal(errors.match(/workerd ended by itself \(SIGKILL\): its messages are above\. It is started again/g)?.length, 4);
  assert.match(errors, /5 times within a minute, so it is not started again/);
});

test("the counters of a data folder move where their number of tablets is changed", WITHIN, async () => {
  const data = join(folder, "moving");
  const counters = ["a", "b", "page%2Fc"];
  const rounds = ["", "4", "9", "", undefined, "2"];
  for (const [round, TALLY_TABLETS] of rounds.entries()) {
    const server = start({ DATA: data, ...(TALLY_TABLETS === undefined ? {} : { TALLY_TABLETS }) });
    const url = await server.ready;
    for (const counter of counters) {
      const add = async (key) => {
        const added = await fetch(`${url}/counters/${counter}/increment`, {
          method: "POST", headers: { "idempotency-key": key },
        });
        assert.equal(added.status, 200, await added.text());
      };
      await add(`key-${round}`);
      if (round > 0) await add(`key-${round - 1}`);
      const { value, exact } = await (await fetch(`${url}/counters/${counter}?consistency=strong`)).json();
      assert.deepEqual({ value, exact }, { value: round + 1, exact: true }, `${counter} with ${TALLY_TABLETS}`);
    }
    assert.equal(readFileSync(join(data, "tablets"), "utf8"), `${TALLY_TABLETS ?? ""}\n`);
    server.child.kill("SIGTERM");
    await server.ended;
  }
  // What is refused is not kept either: the next start has the number of before.
  const { code, errors } = await start({ DATA: data, TALLY_TABLETS: "1.5" }).ended;
  assert.equal(code, 1);
  assert.match(errors, /TALLY_TABLETS must be a whole number from 1 to 4096, not `1.5`/);
  assert.equal(readFileSync(join(data, "tablets"), "utf8"), "2\n");
});

test("the roots of a data folder move where the number of partitions of its directory is changed", WITHIN, async () => {
  const data = join(folder, "directory");
  const counters = ["a", "b", "page%2Fc", ...Array.from({ length: 20 }, (_, number) => `d-${number}`)];
  for (const [round, partitions] of [undefined, "16", "64", "5", undefined].entries()) {
    const number = partitions === undefined ? {} : { TALLY_DIRECTORY_PARTITIONS: partitions };
    const server = start({ DATA: data, ...number });
    const url = await server.ready;
    const add = async (counter, key) => {
      const added = await fetch(`${url}/counters/${counter}/increment`, {
        method: "POST", headers: { "idempotency-key": key },
      });
      assert.equal(added.status, 200, await added.text());
    };
    for (const counter of counters) {
      await add(counter, `key-${round}`);
      if (round > 0) await add(counter, `key-${round - 1}`);
      const { value, exact } = await (await fetch(`${url}/counters/${counter}?consistency=strong`)).json();
      assert.deepEqual({ value, exact }, { value: round + 1, exact: true }, `${counter} with ${partitions}`);
    }
    const listed = await (await fetch(`${url}/counters?limit=100`)).json();
    assert.deepEqual(listed.entries.map(({ id }) => id), counters.map(decodeURIComponent).sort());
    server.child.kill("SIGTERM");
    await server.ended;
  }
  const { code, errors } = await start({ DATA: data, TALLY_DIRECTORY_PARTITIONS: "0" }).ended;
  assert.equal(code, 1);
  assert.match(errors, /TALLY_DIRECTORY_PARTITIONS must be a whole number from 1 to 4096, not `0`/);
});

test("keys that nobody can be known by are refused at the start", WITHIN, async () => {
  for (const TALLY_KEYS of ["S3cr3t", '"S3cr3t"', "[]", '{"keys":[{"key":"0123456789abcdef","scopes":["root"]}]}']) {
    const { code, errors } = await start({ TALLY_KEYS }).ended;
    assert.equal(code, 1);
    assert.match(errors, /^serve: TALLY_KEYS cannot be used/m);
    assert.ok(!errors.includes("S3cr3t"));
  }
});

test("a variable out of range is refused at the start, by name", WITHIN, async () => {
  for (const [name, value] of [
    ["TALLY_LIMITERS", "0"], ["TALLY_HASH_KEY", "zz"], ["TALLY_OPEN_OBJECTS_MAX", "-1"], ["TALLY_ACCESS", "opne"],
  ]) {
    const { code, errors } = await start({ [name]: value }).ended;
    assert.equal(code, 1);
    assert.match(errors, new RegExp(`^serve: ${name} must be .*: correct it, or leave it out$`, "m"));
  }
});

test("an address of another machine is refused", WITHIN, async () => {
  // 192.0.2.0/24 is reserved for documentation (RFC 5737): no machine has it.
  const { code, errors } = await start({ HOST: "192.0.2.1", TALLY_KEYS: "{}" }).ended;
  assert.equal(code, 1);
  assert.match(errors, /is not an address of this machine/);
});

for (const signal of ["SIGTERM", "SIGINT"]) {
  test(`the server gets ready, holds its data folder alone, keeps secrets off disk, and ends on ${signal} with 0`, WITHIN, async () => {
    const keys = '{"keys":[{"key":"not-on-disk-0123456789","scopes":["read"]}]}';
    const first = start({ TALLY_KEYS: keys });
    const url = await first.ready;
    assert.equal((await fetch(`${url}/healthz`)).status, 200);
    assert.ok(!readFileSync(join(folder, "data", "workerd.capnp"), "utf8").includes("not-on-disk"));
    if (process.platform === "linux") {
      await assert.rejects(start({}).ready, /in use by another make serve/);
    }
    first.child.kill(signal);
    assert.equal((await first.ended).code, 0);
    await assert.rejects(fetch(`${url}/healthz`));
  });
}

// The modes of a folder and of all in it: one text for each kind.
function modesIn(path) {
  const entries = readdirSync(path, { recursive: true, withFileTypes: true });
  const modes = entries.map((entry) => {
    const { mode } = statSync(join(entry.parentPath, entry.name));
    return `${entry.isDirectory() ? "folder" : "file"} ${(mode & 0o777).toString(8)}`;
  });
  return [...new Set([`folder ${(statSync(path).mode & 0o777).toString(8)}`, ...modes])].sort();
}

test("data is open to its owner alone, whatever the umask, and data of before is closed to others", WITHIN, async () => {
  const data = join(folder, "modes");
  const before = process.umask(0o000);
  try {
    for (const isOpen of [false, true]) {
      const server = start({ DATA: data });
      const url = await server.ready;
      await fetch(`${url}/counters/a/increment`, { method: "POST" });
      await fetch(`${url}/snapshots`, { method: "POST" });
      assert.deepEqual(modesIn(data), ["file 600", "folder 700"]);
      assert.equal(/were open to other users/.test(server.errors()), isOpen);
      server.child.kill("SIGTERM");
      await server.ended;
      // As the version before left them.
      chmodSync(data, 0o755);
      for (const entry of readdirSync(data, { recursive: true, withFileTypes: true })) {
        chmodSync(join(entry.parentPath, entry.name), entry.isDirectory() ? 0o777 : 0o666);
      }
    }
  } finally {
    process.umask(before);
  }
});
