// `tally import` against a server: each line counts once, through repeats, kills, rotations and packings.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, copyFileSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";
import { measure } from "./memory.mjs";
import { ROOT, TALLY, openServer, run, until } from "./server.mjs";

const LOG = join(ROOT, "tests/fixtures/access.log");
const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
let server;
let short;
before(async () => {
  server = await openServer();
  // 200 lines of it are enough where each counter costs.
  short = join(server.place, "access.log");
  writeFileSync(short, `${readFileSync(LOG, "utf8").split("\n").slice(0, 200).join("\n")}\n`);
});
after(() => server?.end());

const line = (path, second = 0) => `203.0.113.9 - - [17/May/2015:10:05:${String(second).padStart(2, "0")} +0000] "GET ${path} HTTP/1.1" 200 1 "-" "${FIREFOX}"\n`;
const sum = async (prefix) => (await server.json(`/counters/${encodeURIComponent(prefix)}*/aggregate?consistency=strong`)).value;
const imported = async (...args) => {
  const { code, stdout, stderr } = await server.tally(["import", "--json", ...args]);
  assert.ok([0, 6].includes(code), `${code} ${stderr}`);
  return { code, ...JSON.parse(stdout) };
};

test("a log counts once, however often and in whatever packing it is imported", async () => {
  const plain = readFileSync(short);
  const first = await imported("--prefix", "once:", "--all", short);
  assert.deepEqual([first.code, first.lines, first.counted, first.unreadable], [0, 200, 200, 0]);
  assert.equal(await sum("once:"), 200);
  assert.equal(first.top.length, 10);
  assert.equal((await imported("--prefix", "once:", "--all", short)).counted, 0);
  const packed = join(server.place, "access.log.1.gz");
  writeFileSync(packed, gzipSync(plain));
  const again = await imported("--prefix", "once:", "--all", packed);
  assert.deepEqual([again.counted, again.counted_before.bytes], [0, plain.length]);
  // Without its notes the run sends all of it again: the keys of its parts say that it was counted.
  const { code, stdout } = await server.tally(["import", "--json", "--prefix", "once:", "--all", short], {
    env: { TALLY_STATE: join(server.place, "other") },
  });
  assert.deepEqual([code, JSON.parse(stdout).counted, JSON.parse(stdout).counted_before.lines], [0, 0, 200]);
  assert.equal(await sum("once:"), 200);
  const wanted = await imported("--prefix", "once:", "--all", "--again", short);
  assert.equal(wanted.counted, 200);
  assert.equal(await sum("once:"), 400);
});

test("gzip, zstd and bzip2 are known by their bytes, from files and from standard input", async (context) => {
  const plain = readFileSync(LOG);
  const packers = { zstd: ["zstd", "-qc"], bzip2: ["bzip2", "-c"], gzip: ["gzip", "-c"] };
  for (const [name, [program, ...args]] of Object.entries(packers)) {
    const { status, stdout } = spawnSync(program, args, { input: plain, maxBuffer: 1e8 });
    if (status !== 0) {
      context.diagnostic(`${name} is not installed`);
      continue;
    }
    // Two members, as `cat a.gz b.gz` makes them.
    const input = Buffer.concat([stdout, stdout]);
    const {
      code, stdout: output, stderr,
    } = await server.tally(["import", "--json", "--site", name, "--all", "-"], { input });
    assert.equal(code, 0, stderr);
    assert.deepEqual([name, JSON.parse(output).lines], [name, 4000]);
  }
  const xz = await server.tally(["import", "-"], { input: Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a, 0]) });
  assert.equal(xz.code, 1);
  assert.match(xz.stderr, /xz -dc/);
});

test("what is left out is said, and the defaults count page views", async () => {
  const log = join(server.place, "views.log");
  writeFileSync(
    log,
    [
      line("/page"), line("/page"), line("/style.css"), line("/gone").replace(" 200 ", " 404 "),
      line("/form").replace("GET", "POST"), line("/bot").replace(FIREFOX, "curl/8.0"), "nonsense\n",
    ].join(""),
  );
  const summary = await imported("--prefix", "views:", log);
  assert.equal(summary.code, 6, "a line that cannot be read makes the exit code 6");
  assert.deepEqual(
    [summary.counted, summary.unreadable, summary.left_out], [2, 1, { status: 1, method: 1, static: 1, bots: 1 }],
  );
  const { stdout } = await server.tally(["import", "--prefix", "told:", log]);
  const unread = /1 line could not be read, such as line 7 of .*views\.log: there is no `\[dd.* real time: nonsense$/m;
  for (const reason of [/1 line left out: .*--status any/, /--method any/, /--static/, /--bots/, unread]) {
    assert.match(stdout, reason);
  }
  assert.doesNotMatch(stdout, /\x1b/, "colours are for terminals");
});

test("on a terminal there is a bar with its rate and the time left, and colours; elsewhere neither", async (context) => {
  const log = join(server.place, "bar.log");
  writeFileSync(log, line("/bar").repeat(30_000));
  // A terminal of its own, from which all is read.
  const terminal = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
  const args = ["-c", terminal, process.execPath, TALLY, "import", "--prefix", "bar:", log];
  const env = { TALLY_URL: server.url, TALLY_STATE: join(server.place, "bar"), TERM: "xterm", NO_COLOR: "" };
  const { code, stdout } = await run("python3", args, { env }).catch(() => ({ code: "no python3" }));
  if (code === "no python3") return context.skip(code);
  assert.equal(code, 0, stdout);
  assert.match(stdout, /100% \| 30,000 lines \| [\d,]+ lines\/s \| \d+ s left \| 1 counters/);
  assert.match(stdout, /\x1b\[1m30,000\x1b\[22m of 30,000 lines counted/);
  const plain = await server.tally(["import", "--prefix", "no-bar:", log]);
  assert.doesNotMatch(`${plain.stdout}${plain.stderr}`, /left \||\x1b/);
});

// A server in front of the real one, that lets `allowed` bodies through and drops the answers of those after
// `answered`. `to`: where the real one is.
async function between({ answered = Infinity, port = 0, to = () => server.url }) {
  let bodies = 0;
  const gate = createServer((request, response) => {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", async () => {
      const isBody = request.url.startsWith("/ingest");
      if (isBody) bodies += 1;
      const number = bodies;
      const init = {
        method: request.method,
        headers: {
          ...(request.headers["idempotency-key"] ? { "idempotency-key": request.headers["idempotency-key"] } : {}),
        },
        ...(request.method === "POST" ? { body: Buffer.concat(chunks) } : {}),
      };
      const answer = await fetch(new URL(request.url, to()), init);
      // It was counted, and nobody is told.
      if (isBody && number > answered) return;
      response.writeHead(
        answer.status,
        Object.fromEntries(
          [...answer.headers].filter(
            ([name]) => !["content-encoding", "transfer-encoding", "content-length"].includes(name),
          ),
        ),
      );
      response.end(await answer.text());
    });
  });
  gate.listen(port, "127.0.0.1");
  await once(gate, "listening");
  return {
    url: `http://127.0.0.1:${gate.address().port}`,
    bodies: () => bodies, end: () => new Promise((done) => (gate.close(done), gate.closeAllConnections())),
  };
}

test("an import that was killed goes on, and what was counted without an answer counts once", async () => {
  const log = join(server.place, "killed.log");
  writeFileSync(log, Array.from({ length: 35_000 }, (_, index) => line(`/k${index % 7}`, index % 60)).join(""));
  const gate = await between({ answered: 1 });
  const args = [TALLY, "import", "--json", "--prefix", "killed:", log];
  // The notes are about an address: the gate stands for the server.
  const env = { ...process.env, TALLY_STATE: join(server.place, "killed"), TALLY_URL: gate.url };
  const child = spawn(process.execPath, args, { env, stdio: "ignore" });
  await until(() => gate.bodies() >= 3);
  child.kill("SIGKILL");
  await once(child, "exit");
  const { port } = new URL(gate.url);
  await gate.end();
  // Lines that came meanwhile do not change the parts that were sent.
  appendFileSync(log, line("/k0").repeat(10));
  const second = await between({ answered: Infinity, port });
  const resumed = await server.tally(["import", "--json", "--prefix", "killed:", log], {
    env: { TALLY_STATE: join(server.place, "killed"), TALLY_URL: second.url },
  });
  await second.end();
  assert.equal(resumed.code, 0, resumed.stderr);
  assert.equal(await sum("killed:"), 35_010);
});

test("a deployment whose data is gone gets the whole log again", async () => {
  const other = await openServer({ env: { TALLY_STATE: join(server.place, "gone") } });
  const env = { TALLY_STATE: join(server.place, "gone") };
  try {
    assert.equal(JSON.parse((await other.tally(["import", "--json", "--all", short], { env })).stdout).counted, 200);
    for (const { id } of (await other.json("/counters?limit=1000")).entries) {
      await fetch(`${other.url}/counters/${encodeURIComponent(id)}`, { method: "DELETE" });
    }
    const after = JSON.parse((await other.tally(["import", "--json", "--all", short], { env })).stdout);
    assert.equal(after.counted_before.bytes, 0);
  } finally {
    await other.end();
  }
});

test("a server that was restored from an older copy is noticed, and nothing counts twice", async () => {
  const first = await openServer();
  let now = first;
  const gate = await between({ to: () => now.url });
  const [log, state] = [join(server.place, "restored.log"), join(server.place, "restored")];
  const importing = async (...more) => {
    const args = ["import", "--json", "--prefix", "restored:", log, ...more];
    const { code, stdout, stderr } = await server.tally(args, { env: { TALLY_URL: gate.url, TALLY_STATE: state } });
    return { code, stderr, counted: JSON.parse(stdout).counted };
  };
  const value = async (path) => {
    const id = encodeURIComponent(`restored:${path}`);
    return (await now.json(`/counters/${id}?consistency=strong`)).value;
  };
  const quiet = (counted) => ({ code: 0, stderr: "", counted });
  try {
    writeFileSync(log, line("/a").repeat(100));
    assert.deepEqual(await importing(), quiet(100));
    await first.stop();
    now = await openServer({ copy: first.data });
    // What somebody does to the counter leaves nothing out.
    const url = `${now.url}/counters/restored%3A%2Fa`;
    await fetch(`${url}/decrement`, { method: "POST", body: '{"delta":7}' });
    assert.deepEqual(await importing(), quiet(0));
    await fetch(`${url}/value`, { method: "PUT", body: '{"value":3}' });
    appendFileSync(log, line("/a").repeat(100));
    assert.deepEqual(await importing(), quiet(100));
    assert.deepEqual(await importing(), quiet(0));
    await fetch(url, { method: "DELETE" });
    await fetch(`${url}/increment`, { method: "POST" });
    assert.deepEqual(await importing(), quiet(0));
    await now.end();
    now = await openServer({ copy: first.data });
    for (const told of [await importing(), await importing()]) {
      assert.deepEqual([told.code, told.counted, await value("/a")], [6, 0, 100]);
      assert.match(told.stderr, /restored:\/a .*restored from an older copy, or .*docs\/operate\/backup\.md/s);
      assert.ok(told.stderr.includes(state), told.stderr);
    }
    // What is new counts, and the next run says nothing of what was told.
    appendFileSync(log, line("/a").repeat(5) + line("/b").repeat(9));
    assert.deepEqual([(await importing()).code, await importing()], [6, quiet(0)]);
    assert.deepEqual([await value("/a"), await value("/b")], [105, 9]);
    // The copy lacks the counters that were counted last.
    await now.end();
    now = await openServer({ copy: first.data });
    appendFileSync(log, line("/c").repeat(9));
    assert.deepEqual([(await importing("--again")).code, await importing()], [0, quiet(0)]);
    await now.end();
    now = await openServer({ copy: first.data });
    assert.equal((await importing()).code, 6);
  } finally {
    await gate.end();
    await now.end();
    await first.end();
  }
});

test("a log is streamed: it may be larger than the memory", { timeout: 120_000 }, async () => {
  const { code, stderr, lines, counted, rss_mb } = await measure({ megabytes: 40, heap_mb: 48, isNowhere: true });
  assert.equal(code, 0, stderr);
  assert.equal(counted, lines);
  // What Node itself takes, and the bodies that are under way.
  assert.ok(rss_mb < 320, `${rss_mb} MB`);
});

test("--follow goes on through renamed and cut files, and loses no line", async () => {
  const log = join(server.place, "live.log");
  writeFileSync(log, line("/1").repeat(3));
  const child = spawn(process.execPath, [TALLY, "import", "--json", "--follow", "--prefix", "live:", log], {
    env: { ...process.env, TALLY_STATE: join(server.place, "follow"), TALLY_URL: server.url },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  child.stdout.on("data", (text) => (output += text));
  const reaches = (value) => until(async () => (await sum("live:").catch(() => 0)) === value);
  await reaches(3);
  const half = line("/2");
  appendFileSync(log, line("/1") + half.slice(0, 40));
  await reaches(4);
  appendFileSync(log, half.slice(40));
  await reaches(5);
  // logrotate: the program goes on writing to the old file for a moment.
  renameSync(log, `${log}.1`);
  appendFileSync(`${log}.1`, line("/late"));
  writeFileSync(log, line("/3").repeat(2));
  await reaches(8);
  // copytruncate.
  copyFileSync(log, `${log}.2`);
  truncateSync(log, 0);
  await until(() => readFileSync(log).length === 0);
  appendFileSync(log, line("/4"));
  await reaches(9);
  child.kill("SIGINT");
  const [code] = await once(child, "exit");
  assert.equal(code, 0);
  assert.equal(JSON.parse(output).counted, 9);
  // What was followed is known by what it holds, under its new name too.
  const rotated = await server.tally(["import", "--json", "--prefix", "live:", `${log}.1`], {
    env: { TALLY_STATE: join(server.place, "follow") },
  });
  assert.equal(JSON.parse(rotated.stdout).counted, 0);
  assert.equal(await sum("live:"), 9);
  rmSync(log);
});

test("a bad file is told once: by itself at the end, among others at once", async () => {
  const [empty, log] = [join(server.place, "empty.log"), join(server.place, "good.log")];
  writeFileSync(empty, "");
  writeFileSync(log, line("/good"));
  const missing = join(server.place, "missing.log");
  for (const [files, code, why] of [
    [[missing], 3, /cannot be read/g], [[empty], 6, /is empty/g], [[missing, log], 6, /cannot be read/g],
    [[empty, log], 6, /is empty/g],
  ]) {
    const outcome = await server.tally(["import", "--prefix", "bad:", ...files]);
    assert.equal(outcome.code, code, outcome.stderr);
    assert.equal(`${outcome.stdout}${outcome.stderr}`.match(why)?.length, 1, `${outcome.stdout}${outcome.stderr}`);
    assert.equal(/1 of 2 files could not be read, or not to the end/.test(outcome.stdout), files.length > 1);
  }
});

test("exit codes tell scripts what happened", async () => {
  const code = async (args, options) => (await server.tally(args, options)).code;
  assert.equal(await code(["import"]), 2);
  assert.equal(await code(["import", "--status", "2xx", LOG]), 2);
  assert.equal(await code(["nonsense"]), 2);
  assert.equal(await code(["import", join(server.place, "nothing.log")]), 3);
  assert.equal(await code(["get", "nobody-counts-this"]), 3);
  assert.equal(await code(["get", "a"], { env: { TALLY_URL: "http://127.0.0.1:1" } }), 5);
  const { stdout } = await server.tally(["get", "a", "--json"], { env: { TALLY_URL: "http://127.0.0.1:1" } });
  assert.equal(JSON.parse(stdout).error.exit, 5);
});
