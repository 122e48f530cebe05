// What comes from other counters: Redis by SCAN, lists of CountAPI and Abacus, GoatCounter's CSV, and exports of Tally
// itself.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";
import { Redis } from "../command/import/redis.mjs";
import { openServer, until } from "./server.mjs";

let server;
before(async () => (server = await openServer()));
after(() => server?.end());

const imported = async (args, { exit = 0, ...options } = {}) => {
  const { code, stdout, stderr } = await server.tally(["import", "--json", ...args], options);
  assert.equal(code, exit, stderr);
  return JSON.parse(stdout);
};
const valueOf = async (id) => (await server.json(`/counters/${encodeURIComponent(id)}?consistency=strong`)).value;

async function freePort() {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address();
  probe.close();
  await once(probe, "close");
  return port;
}

const hasRedis = spawnSync("redis-server", ["--version"]).status === 0;
const skip = hasRedis ? false : "redis-server is not installed";

test("numbers, sorted sets and HyperLogLogs of a Redis are imported; a repeat changes nothing", { skip }, async () => {
  const port = await freePort();
  const child = spawn(
    "redis-server",
    ["--port", String(port), "--save", "", "--appendonly", "no", "--dir", server.place, "--requirepass", "a secret"],
    { stdio: "ignore" },
  );
  const address = `redis://:a%20secret@127.0.0.1:${port}/3`;
  try {
    const redis = await until(() => Redis.open(address).catch(() => undefined));
    // More keys than a page of SCAN has.
    await Promise.all(Array.from({ length: 1_200 }, (_, index) => redis.call("SET", `views:${index}`, index + 1)));
    await redis.call("SET", "views:text", "hello");
    await redis.call("SET", "views:below", "-7");
    await redis.call("PFADD", "readers", ...Array.from({ length: 100 }, (_, index) => `reader-${index}`));
    await redis.call(
      "ZADD", "game", ...Array.from({ length: 600 }, (_, index) => [index / 2, `player ${index}`]).flat(),
    );
    await redis.call("RPUSH", "queue", "a");
    const estimate = await redis.call("PFCOUNT", "readers");
    const first = await imported(["--from", address]);
    assert.deepEqual([first.counters, first.boards, first.members, first.left_out], [1_202, 1, 600, 2]);
    assert.deepEqual(
      [await valueOf("views:0"), await valueOf("views:1199"), await valueOf("views:below")], [1, 1_200, -7],
    );
    assert.equal((await server.json("/counters/readers?consistency=strong")).uniques.estimate, estimate);
    assert.equal((await server.json("/boards/game/members/player%20599")).score, 299.5);
    const again = await imported(["--from", address, "--match", "views:*"]);
    assert.deepEqual([again.counters, again.present, again.left_out], [0, 1_201, 1]);
    await redis.call("INCR", "views:0");
    await imported(["--from", address, "--match", "views:0", "--mode", "replace"]);
    assert.equal(await valueOf("views:0"), 2);
    redis.close();
  } finally {
    child.kill("SIGKILL");
    await once(child, "exit");
  }
});

test("what a Redis has besides is carried too, or named: times to live, names of bytes", { skip }, async () => {
  const port = await freePort();
  const options = ["--port", String(port), "--save", "", "--appendonly", "no", "--dir", server.place];
  const child = spawn("redis-server", options, { stdio: "ignore" });
  const address = `redis://127.0.0.1:${port}`;
  try {
    const redis = await until(() => Redis.open(address).catch(() => undefined));
    await redis.call("SET", "ttl:kept", "9007199254740993");
    await redis.call("SET", "ttl:ends", "5", "PX", 3_600_500);
    await redis.call("SET", Buffer.from([0x74, 0x74, 0x6c, 0x3a, 0xff]), "7");
    await redis.call("ZADD", "ttl:board", 1, "ann", 2, Buffer.from([0xfe]), "inf", "most", "-inf", "least");
    await redis.call("EXPIRE", "ttl:board", 3_600);
    const { counters, members, left_out, left_out_members, left_out_keys } = await imported(
      ["--from", address, "--prefix", "r/"], { exit: 6 },
    );
    assert.deepEqual([counters, members, left_out, left_out_members], [2, 3, 2, 1]);
    const { entries } = await server.json("/boards/r%2Fttl:board/members");
    const scores = entries.map(({ member, score }) => [member, score]);
    assert.deepEqual(scores, [["most", "inf"], ["ann", 1], ["least", "-inf"]]);
    const why = left_out_keys.map((one) => one.why).sort();
    assert.match(why.join(), /a member that is no UTF-8: fe,.*no UTF-8: 74746c3aff/);
    const [ends] = (await (await fetch(`${server.url}/export?prefix=r%2Fttl:ends`)).text()).split("\n");
    const { value, settings } = JSON.parse(ends);
    assert.ok(value === 5 && settings.ttl_seconds > 3_000 && settings.ttl_seconds <= 3_601, ends);
    const kept = await server.json("/counters/r%2Fttl:kept?consistency=strong&numbers=string");
    assert.equal(kept.value, "9007199254740993");
    const { expires_at } = await server.json("/boards/r%2Fttl:board/members/ann");
    assert.ok(expires_at > Date.now() && expires_at <= Date.now() + 3_600_000, `${expires_at}`);
    await assert.rejects(redis.call("INCR", "ttl:board"), /Redis refuses: WRONGTYPE/);
    redis.close();
  } finally {
    child.kill("SIGKILL");
    await once(child, "exit");
  }
  await assert.rejects(Redis.open(address), ({ exit, message }) => exit === 5 && message.startsWith(address));
});

test("values of lists are kept whole, or their lines are named", async () => {
  const { code, stdout } = await server.tally(["import", "--json", "--from", "countapi", "-"], {
    input: "kept/big 9007199254740993\ncomma60 1,234\nour key 12\n",
  });
  const { counters, rejected, refused } = JSON.parse(stdout);
  assert.deepEqual([code, counters, rejected, refused[0].line], [6, 2, 1, 2]);
  assert.equal((await server.json("/counters/kept%2Fbig?consistency=strong&numbers=string")).value, "9007199254740993");
  assert.equal(await valueOf("our key"), 12);
});

test("an empty file is named and ends with 6, whatever it should have been", async () => {
  const lists = ["countapi", "abacus", "goatcounter"].map((name) => ["--from", name]);
  for (const args of [[], ["--format", "tally"], ...lists]) {
    for (const input of ["", "\n \n", "\ufeff"]) {
      const { code, stderr, stdout } = await server.tally(["import", ...args, "-"], { input });
      assert.equal(code, 6, `${args} ${stdout}${stderr}`);
      assert.match(stdout + stderr, /standard input (is empty|holds|has no last line)/, args.join(" "));
    }
  }
});

test("of several lists and exports those that cannot be read are named, and the others are brought in", async () => {
  const list = join(server.place, "several.txt");
  writeFileSync(list, "several/a 1\n");
  const missing = join(server.place, "missing.txt");
  const lists = await server.tally(["import", "--json", "--from", "abacus", missing, list]);
  assert.deepEqual([lists.code, JSON.parse(lists.stdout).counters], [6, 1]);
  assert.ok(JSON.parse(lists.stdout).why[0].includes(missing));
  const exported = await server.tally(["export", "several/"]);
  const cut = join(server.place, "cut.ndjson.gz");
  writeFileSync(cut, gzipSync(exported.stdout).subarray(0, -6));
  const back = await server.tally(["import", "--json", "--format", "tally", "--mode", "replace", missing, cut]);
  const { counters, why, complete } = JSON.parse(back.stdout);
  assert.deepEqual([back.code, counters, complete, why.length], [6, 1, false, 2], back.stderr);
  assert.match(why[1], /cut\.ndjson\.gz is damaged or cut/);
});

test("lists of CountAPI and Abacus become counters, once", async () => {
  const list = join(server.place, "list.csv");
  writeFileSync(list, "namespace,key,value\nmysite,visits,1234\nmysite,likes,5\n");
  assert.equal((await imported(["--from", "countapi", list])).counters, 2);
  const again = await imported(["--from", "abacus", list]);
  assert.deepEqual([again.counters, again.present], [0, 2]);
  for (const _ of [1, 2]) await imported(["--from", "abacus", "--mode", "add", list]);
  assert.equal(await valueOf("mysite/likes"), 10, "added once, though sent twice");
  // The address that pages call goes on from there.
  assert.equal((await server.json("/hit/mysite/visits")).value, 2_469);
});

test("GoatCounter's CSV counts its page views at their times, and its sessions as visitors", async () => {
  const csv = [
    "2Path,Title,Event,UserAgent,Browser,System,Session,Bot,Referrer,Referrer scheme,Screen size,Location,FirstVisit,Date",
    "/goat,Goats,,Firefox 140,Firefox 140,Linux,s1,0,,,,DE,1,2026-01-02T03:04:05Z",
    "/goat,Goats,,Firefox 140,Firefox 140,Linux,s1,0,,,,DE,0,2026-01-02T03:05:05Z",
    "/goat,Goats,,Firefox 140,Firefox 140,Linux,s2,0,,,,FR,1,2026-01-02T04:04:05Z",
    "/goat?q=1,Goats,,Firefox 140,Firefox 140,Linux,s2,0,,,,FR,0,2026-01-02T04:05:05Z",
    "/goat,Goats,,bot,bot,Linux,s3,3,,,,FR,1,2026-01-02T04:04:05Z",
  ];
  const summary = await imported(["--from", "goatcounter", "--unique", "ip", "--by", "country", "-"], {
    input: `${csv.join("\n")}\n`,
  });
  assert.deepEqual([summary.counted, summary.left_out.bots], [4, 1]);
  const read = await server.json("/counters/%2Fgoat?consistency=strong");
  assert.deepEqual([read.value, read.uniques.estimate], [4, 2]);
  const { points } = await server.json("/counters/%2Fgoat/history?step=1h&from=1767322800&to=1767330000");
  assert.deepEqual(points.map(([, count]) => count), [2, 2, 0]);
});

test("an export goes to a file and comes back in another deployment", async () => {
  // 5 when it was created, and 5 that were added to it.
  assert.equal(await valueOf("mysite/likes"), 10);
  const file = join(server.place, "export.ndjson");
  const first = await server.tally(["export", "my", "--output", file, "--json"]);
  assert.equal(first.code, 0, first.stderr);
  const { counters, complete, checksum } = JSON.parse(first.stdout);
  assert.deepEqual([counters, complete], [2, true]);
  assert.ok(readFileSync(file, "utf8").trimEnd().endsWith(`"checksum":"${checksum}","complete":true}`));
  const other = await openServer();
  try {
    const back = await other.tally(["import", "--format", "tally", "--json", file]);
    assert.deepEqual([back.code, JSON.parse(back.stdout).counters], [0, 2], back.stderr);
    assert.equal((await other.json("/counters/mysite%2Flikes?consistency=strong")).value, 10);
    const outcome = await other.tally(["import", file]);
    assert.equal(outcome.code, 2);
    assert.match(outcome.stderr, /--format tally/);
  } finally {
    await other.end();
  }
  const { stdout } = await server.tally(["export", "my", "--csv"]);
  assert.match(stdout, /^id,value,.*\n"?mysite\/likes"?,10,/);
});
