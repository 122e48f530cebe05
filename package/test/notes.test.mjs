// What was imported and what was not: each line counts once, through other filters, other files with equal heads,
// rotations, cut archives, bad files and clocks that differ. A receiver stands for the service: it counts what a key
// brings once, as the service does.
import assert from "node:assert/strict";
import {
  appendFileSync, closeSync, copyFileSync, mkdirSync, openSync, readFileSync, readdirSync, renameSync, rmSync,
  truncateSync, writeFileSync, writeSync,
} from "node:fs";
import { createServer } from "node:http";
import { once } from "node:events";
import { spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { gunzipSync, gzipSync, zstdCompressSync } from "node:zlib";
import { between, oneOf, randomFrom } from "../../tests/crash/random.mjs";
import { Import } from "../command/import/run.mjs";
import { TALLY, folder, run, until } from "./server.mjs";

const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const READER = {
  status: "200-299", method: "GET", bots: false, statics: false, paths: "keep", rewrites: [], stripQuery: true,
  prefix: "", by: [], unique: "none",
};
const clf = (path, { status = 200, at_ms = Date.UTC(2015, 4, 17, 10, 5), agent = FIREFOX } = {}) => {
  const [, day, month, year, time] = new Date(at_ms).toUTCString().split(" ");
  return `203.0.113.9 - - [${day}/${month}/${year}:${time} +0000] "GET ${path} HTTP/1.1" ${status} 1 "-" "${agent}"\n`;
};

// Counts bodies of /ingest: a key belongs to each counter, and brings its lines once.
class Receiver {
  counts = new Map();
  keys = new Map();
  bodies = 0;
  now_ms = Infinity;
  // Returns the code by which a line is refused, if it is.
  refuses = () => undefined;
  // Returns whether the answer to a body is lost.
  loses = () => false;

  ingest(key, body) {
    this.bodies += 1;
    const errors = [];
    const sums = new Map();
    const refused = new Map();
    const refuses = (id) => {
      if (this.keys.has(`${key} ${id}`)) return undefined;
      if (!refused.has(id)) refused.set(id, this.refuses(id));
      return refused.get(id);
    };
    body.split("\n").forEach((text, index) => {
      const { id, at } = JSON.parse(text);
      const ahead_ms = at * 1_000 - this.now_ms;
      const code = ahead_ms > 5_000 ? "clock-skew" : refuses(id);
      if (code !== undefined) errors.push({ line: index + 1, code, detail: `the record's time is ${ahead_ms} ms ahead of the clock here, 5000 ms are allowed` });
      else sums.set(id, [...(sums.get(id) ?? []), text]);
    });
    let isRepeat = sums.size > 0;
    for (const [id, texts] of sums) {
      const name = `${key} ${id}`;
      const known = this.keys.get(name);
      assert.ok(known === undefined || known === texts.join("\n"), `${name} is used for other lines`);
      if (known === undefined) this.counts.set(id, (this.counts.get(id) ?? 0) + texts.length);
      isRepeat &&= known !== undefined;
      this.keys.set(name, texts.join("\n"));
    }
    const rejected_lines = errors.map(({ line, code }) => ({ code, count: 1, lines: String(line) }));
    return { isRepeat, report: { rejected: errors.length, errors, rejected_lines } };
  }

  client() {
    return {
      get: async () => ({}),
      answer: async (method, _route, { body, idempotencyKey }) => {
        if (method === "GET") return { json: async () => ({}) };
        const { isRepeat, report } = this.ingest(idempotencyKey, body);
        if (this.loses()) throw Object.assign(new Error("no answer"), { status: 0 });
        return { json: async () => report, headers: new Headers(isRepeat ? { "idempotency-replayed": "true" } : {}) };
      },
    };
  }

  get sum() {
    return [...this.counts.values()].reduce((all, count) => all + count, 0);
  }
}

// A place of its own with its notes, and imports into a receiver.
function open() {
  const place = folder();
  const receiver = new Receiver();
  const notes = [];
  const importing = (options = {}) => {
    process.env.TALLY_STATE = join(place, "state");
    const { reader, ...more } = options;
    return new Import(receiver.client(), {
      base: "http://x", target: "", isLocal: true, note: (text) => notes.push(text), ...more,
      reader: { ...READER, ...reader },
    });
  };
  const imported = async (files, options) => {
    const job = importing(options);
    for (const name of [files].flat()) await job.file(name);
    return job.end().json;
  };
  const write = (name, text) => (writeFileSync(join(place, name), text), join(place, name));
  return { place, receiver, notes, importing, imported, write };
}

test("a wrong format marks nothing as imported: the right one counts all of it, once", async () => {
  const { receiver, imported, write } = open();
  const log = write("a.log", clf("/a").repeat(3) + clf("/b").repeat(2));
  const wrong = await imported(log, { format: "caddy" });
  assert.deepEqual([wrong.counted, wrong.unreadable], [0, 5]);
  assert.equal((await imported(log)).counted, 5);
  assert.equal((await imported(log)).counted, 0);
  assert.deepEqual([...receiver.counts], [["/a", 3], ["/b", 2]]);
});

test("what a filter left out is counted by the next one, and what was counted is not counted again", async () => {
  const { receiver, imported, write } = open();
  const lines = [
    clf("/a"), clf("/a", { status: 404 }), clf("/a", { agent: "curl/8.0" }), clf("/a.css"),
    clf("/a").replace("GET", "POST"), clf("/a"),
  ];
  const log = write("a.log", lines.join(""));
  assert.equal((await imported(log, { reader: { status: "500" } })).counted, 0);
  assert.equal((await imported(log)).counted, 2);
  const same = await imported(log);
  assert.deepEqual([same.counted, same.counted_before.bytes], [0, lines.join("").length]);
  assert.equal((await imported(log, { reader: { status: "any" } })).counted, 1);
  assert.equal((await imported(log, { reader: { bots: true } })).counted, 1);
  const all = { status: "any", method: "any", bots: true, statics: true };
  const last = await imported(log, { reader: all });
  assert.deepEqual([last.counted, last.counted_before.lines], [2, 4]);
  assert.equal((await imported(log)).counted, 0);
  assert.equal(receiver.sum, 6);
  assert.equal((await imported(log, { reader: all, again: true })).counted, 6, "--again counts all once more");
  assert.equal((await imported(log, { reader: all })).counted, 0);
});

test("lines that were refused for a while are sent by the next run, and those refused for what they are only by others", async () => {
  const { receiver, imported, write } = open();
  const log = write("a.log", clf("/a") + clf("/full") + clf("/bad") + clf("/a"));
  receiver.refuses = (id) => ({ "/full": "quota-exceeded", "/bad": "invalid-id" })[id];
  assert.deepEqual((await imported(log)).rejected, { "quota-exceeded": 1, "invalid-id": 1 });
  receiver.refuses = (id) => ({ "/bad": "invalid-id" })[id];
  const second = await imported(log);
  assert.deepEqual([second.counted, second.counted_before.lines, second.rejected], [1, 2, { "invalid-id": 1 }]);
  assert.deepEqual((await imported(log)).counted_before.bytes, readFileSync(log).length);
  assert.deepEqual([...receiver.counts], [["/a", 2], ["/full", 1]]);
});

test("lines of which nobody knows whether they were counted keep their key for the next run", async () => {
  const { receiver, imported, write } = open();
  const log = write("a.log", clf("/a") + clf("/b"));
  // It counts, and does not say so.
  receiver.refuses = (id) => (id === "/b" ? "unavailable" : undefined);
  const first = await imported(log, { sleep: async () => {} });
  assert.deepEqual(first.rejected, { unavailable: 1 });
  const [key] = [...receiver.keys.keys()][0].split(" ");
  receiver.refuses = () => undefined;
  const line = { id: "/b", at: Date.UTC(2015, 4, 17, 10, 5) / 1_000 };
  receiver.keys.set(`${key} /b`, JSON.stringify(line));
  // Another filter does not change what is sent again.
  const second = await imported(log, { reader: { status: "404" } });
  assert.deepEqual([second.counted, second.counted_before.lines >= 1], [0, true]);
  assert.equal(receiver.sum, 1, "it was counted by the first run");
});

const plain = (path, second) => clf(path, { at_ms: 1.4e12 + second * 1000 });
const W3C = "#Version: 1.0\n#Fields: date time c-ip cs-method cs-uri-stem sc-status cs(User-Agent)\n";
const w3c = (path, second) => `2015-05-17 10:05:${String(second).padStart(2, "0")} 203.0.113.9 GET ${path} 200 Mozilla/5.0+(X11)+Firefox/140.0\n`;
const CSV = "2Path,Title,Event,UserAgent,Browser,System,Session,Bot,Referrer,Referrer scheme,Screen size,Location,FirstVisit,Date\n";
const goat = (path, second) => `${path},,,Firefox 140,Firefox 140,Linux,s1,0,,,,DE,1,2026-01-02T03:04:${String(second).padStart(2, "0")}Z\n`;

for (const [name, header, line] of [["W3C", W3C, w3c], ["CSV", CSV, goat]]) {
  test(`files with the same header are not one another: ${name}`, async () => {
    const { receiver, imported, write } = open();
    const first = write("1.log", header);
    const second = write("2.log", header + line("/b", 1));
    await imported([first, second]);
    appendFileSync(first, line("/a", 2) + line("/a", 3));
    appendFileSync(second, line("/b", 4));
    const third = write("3.log", header + line("/c", 5));
    await imported([first, second, third, write("3.log.gz", gzipSync(header + line("/d", 6)))]);
    assert.deepEqual([...receiver.counts].sort(), [["/a", 2], ["/b", 2], ["/c", 1], ["/d", 1]]);
  });
}

test("a log is known after it was renamed, and packed, and is read on where it ended", async () => {
  const { receiver, place, imported, write } = open();
  const log = write("a.log", clf("/a").repeat(3));
  await imported(log);
  renameSync(log, `${log}.1`);
  appendFileSync(`${log}.1`, clf("/late"));
  write("a.log", clf("/new"));
  assert.equal((await imported([`${log}.1`, log])).counted, 2);
  const gone = join(place, "elsewhere");
  mkdirSync(gone);
  const packed = write("a.log.2.gz", gzipSync(readFileSync(`${log}.1`)));
  renameSync(`${log}.1`, join(gone, "x"));
  const again = await imported(packed);
  const { length } = gunzipSync(readFileSync(packed));
  assert.deepEqual([again.counted, again.counted_before.bytes, again.failed], [0, length, []]);
  assert.equal(receiver.sum, 5);
});

test("two files that cannot be told apart are named, and nothing of the second is counted", async () => {
  const { receiver, place, imported, write } = open();
  const log = write("a.log", clf("/a").repeat(3));
  await imported(log);
  const twin = write("b.log", clf("/a").repeat(3) + clf("/b"));
  const { counted, failed } = await imported(twin);
  assert.deepEqual([counted, failed.length, failed[0].file], [0, 1, twin]);
  assert.match(failed[0].why, /b\.log begins with the same bytes as .*a\.log.*--again/);
  // It is a log of its own.
  assert.equal((await imported(twin, { again: true })).counted, 4);
  assert.equal((await imported([log, twin])).counted, 0);
  assert.equal(receiver.sum, 7);
  // Another one is a copy of a log that is gone: it goes on as that one.
  const third = write("c.log", clf("/c"));
  await imported(third);
  copyFileSync(third, join(place, "d.log"));
  truncateSync(third, 0);
  appendFileSync(join(place, "d.log"), clf("/d"));
  assert.deepEqual((await imported(join(place, "d.log"))).counted, 1);
});

test("the beginning of a log that was imported is no other log, from a file or from standard input", async () => {
  const { receiver, imported, write, place } = open();
  const text = Array.from({ length: 200 }, (_, index) => plain(`/${index}`, index)).join("");
  const half = text.slice(0, text.length / 2);
  const log = write("a.log", text);
  await imported(log);
  const cut = write("cut.gz", gzipSync(text).subarray(0, -50));
  for (const copy of [write("half.log", half), write("half.gz", gzipSync(half)), cut]) {
    const { counted, failed } = await imported(copy);
    assert.deepEqual([counted, failed.length, failed[0]?.file], [0, 1, copy]);
  }
  // The same header says nothing.
  const [first, second] = [write("w3c.log", W3C + w3c("/1", 1) + w3c("/1", 2)), write("w3c.2.log", W3C + w3c("/2", 1))];
  assert.deepEqual([(await imported([first, second])).counted, receiver.sum, place.length > 0], [3, 203, true]);
});

test("a file that was cut, and grew past its old size, is read from its beginning", async () => {
  const { receiver, imported, write } = open();
  const log = write("a.log", clf("/a").repeat(3));
  await imported(log);
  writeFileSync(log, clf("/b").repeat(2));
  assert.equal((await imported(log)).counted, 2, "shorter");
  writeFileSync(log, clf("/c").repeat(40));
  assert.equal((await imported(log)).counted, 40, "longer");
  // The same first lines in the same second are other lines once the file was cut.
  writeFileSync(log, clf("/c").repeat(2));
  assert.equal((await imported(log)).counted, 2);
  assert.equal(receiver.sum, 47);
});

test("the last line of a file waits for its newline; of an archive and of standard input it does not", async () => {
  const { receiver, imported, write } = open();
  const [first, second] = [clf("/a"), clf("/hello")];
  const cut = second.indexOf("lo HTTP");
  const log = write("a.log", first + second.slice(0, cut));
  const summary = await imported(log);
  assert.deepEqual([summary.counted, summary.unreadable, summary.unfinished], [1, 0, 1]);
  appendFileSync(log, second.slice(cut));
  assert.equal((await imported(log)).counted, 1);
  await imported(write("a.gz", gzipSync(clf("/packed").trimEnd())));
  assert.deepEqual([...receiver.counts], [["/a", 1], ["/hello", 1], ["/packed", 1]]);
});

const packers = {
  gz: gzipSync,
  zst: zstdCompressSync ?? ((input) => spawnSync("zstd", ["-qc"], { input, maxBuffer: 1e8 }).stdout),
  bz2: (input) => spawnSync("bzip2", ["-c"], { input, maxBuffer: 1e8 }).stdout,
};
for (const [kind, pack] of Object.entries(packers)) {
  test(`of a cut ${kind} what can be read counts, and the rest once it is whole`, async (context) => {
    const { receiver, imported, write } = open();
    const random = randomFrom(3);
    const line = (_, index) => clf(`/${index % 7}`, { at_ms: 1.4e12 + between(random, 0, 1e9) * 1000 });
    const text = Array.from({ length: 30_000 }, line).join("");
    const packed = pack(Buffer.from(text));
    if (packed === null) return context.skip(`${kind} is not installed`);
    for (const part of [0.5, 0.9, 0.9999]) {
      const log = write(`a.log.${kind}`, packed.subarray(0, Math.floor(packed.length * part)));
      const { unreadable, failed, lines } = await imported(log);
      assert.deepEqual([unreadable, failed.length], [0, 1], `${part}`);
      assert.match(failed[0].why, /damaged or cut \(unexpected end\)/);
      assert.ok(lines > 0 || part > 0.5);
    }
    const before = receiver.sum;
    assert.ok(before > 9_000 && before < 30_000, `${before}`);
    const { failed } = await imported(write(`a.log.${kind}`, packed));
    assert.deepEqual([receiver.sum, failed], [30_000, []]);
  });
}

const garbage = {
  text: Buffer.from("\nthe disk was full\n".repeat(30)), head: Buffer.from([0x1f, 1, 2, 3]),
  long: Buffer.alloc(50_000, 0x41),
};
for (const [kind, pack] of Object.entries(packers)) {
  test(`bytes behind a ${kind} are named, and all lines before them count`, async (context) => {
    for (const [what, bytes] of Object.entries(garbage)) {
      const { receiver, imported, write } = open();
      const lines = Array.from({ length: 3_000 }, (_, index) => clf(`/${index % 7}`, { at_ms: 1.4e12 + index * 1000 }));
      const packed = pack(Buffer.from(lines.join("")));
      if (packed === null) return context.skip(`${kind} is not installed`);
      const { failed } = await imported(write(`a.log.${kind}`, Buffer.concat([packed, packed, bytes])));
      assert.deepEqual([receiver.sum, failed.length], [6_000, 1], what);
      assert.match(failed[0].why, /a\.log\.\w+ is damaged or cut \(.+\): the part that could be read is counted/);
    }
  });
}

test("members and frames one behind the other, and zeros of a tape behind them, are one log", async () => {
  for (const pack of [gzipSync, zstdCompressSync]) {
    const { receiver, imported, write } = open();
    const [first, second] = [pack(Buffer.from(clf("/1").repeat(9))), pack(Buffer.from(clf("/2").repeat(9)))];
    const { failed } = await imported(write("a.log.packed", Buffer.concat([first, second, first, Buffer.alloc(512)])));
    assert.deepEqual([receiver.sum, failed], [27, []]);
  }
  // All that the head of a member may have: extra bytes, a name, a comment, a checksum.
  const { receiver, imported, write } = open();
  const packed = gzipSync(clf("/1"));
  const fields = [2, 0, 7, 7, ...Buffer.from("a\0b\0cc")];
  const head = Buffer.from([0x1f, 0x8b, 8, 0x1e, 0, 0, 0, 0, 0, 3, ...fields]);
  assert.deepEqual((await imported(write("a.gz", Buffer.concat([head, packed.subarray(10)])))).failed, []);
  assert.equal(receiver.sum, 1);
});

test("a gzip or zstd whose checksum is another one is named", async () => {
  for (const pack of [gzipSync, (input) => spawnSync("zstd", ["-qc"], { input }).stdout]) {
    const { imported, write } = open();
    const packed = Buffer.from(pack(Buffer.from(clf("/1").repeat(9))));
    packed[packed.length - (pack === gzipSync ? 5 : 1)] ^= 1;
    const { failed } = await imported(write("a.log.packed", packed));
    assert.match(failed[0].why, /damaged or cut \(.*checksum/);
  }
});

test("a bad file among many is named, and all good ones count; the command ends with 6", async () => {
  const { receiver, place, write } = open();
  mkdirSync(join(place, "folder"));
  const zip = write("a.zip", Buffer.from("504b030400000000", "hex"));
  const names = [
    write("1.log", clf("/1")), join(place, "missing"), write("empty", ""), join(place, "folder"), zip,
    write("nonsense", "hello\nworld\n"), write("2.log", clf("/2")),
    write("cut.gz", gzipSync(clf("/cut")).subarray(0, 12)),
    write("export", '{"id":"a","value":1}\n'), write("3.log", clf("/3")),
  ];
  const { url, end } = await served(receiver);
  try {
    const { code, stdout, stderr } = await run(process.execPath, [TALLY, "import", "--json", ...names], {
      env: { TALLY_URL: url, TALLY_STATE: join(place, "state") },
    });
    const { counted, failed } = JSON.parse(stdout);
    assert.deepEqual([code, counted], [6, 3], stderr);
    assert.deepEqual(failed.map(({ file }) => file), names.filter((name) => !/\d\.log$/.test(name)));
    for (const { why, file } of failed) assert.ok(why.includes(file) && stderr.includes(why), why);
    assert.deepEqual([...receiver.counts.keys()], ["/1", "/2", "/3"]);
  } finally {
    end();
  }
});

// A receiver as a server.
async function served(receiver) {
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    response.setHeader("content-type", "application/json");
    if (!request.url.startsWith("/ingest")) return response.end("{}");
    const { isRepeat, report } = receiver.ingest(request.headers["idempotency-key"], Buffer.concat(chunks).toString());
    if (isRepeat) response.setHeader("idempotency-replayed", "true");
    response.end(JSON.stringify(report));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const end = () => (server.closeAllConnections(), server.close());
  return { url: `http://127.0.0.1:${server.address().port}`, end };
}

// Imports a pipe with a name, or what `work` writes to standard input, until `work` has ended it or sent a signal.
// Resolves to the summary.
async function piped({ receiver, place, server }, work, ...more) {
  const { url, end } = server ?? (await served(receiver));
  const job = { stdout: "", stderr: "" };
  const env = { ...process.env, TALLY_URL: url, TALLY_STATE: join(place, "state") };
  const args = [TALLY, "import", "--json", ...(more.length > 0 ? more : ["-"])];
  const child = spawn(process.execPath, args, { env });
  child.stdout.on("data", (text) => (job.stdout += text));
  child.stderr.on("data", (text) => (job.stderr += text));
  try {
    await work(child, (sum) => until(() => receiver.sum === sum));
    const [code] = await once(child, "close");
    return { code, ...JSON.parse(job.stdout), stderr: job.stderr };
  } finally {
    child.kill("SIGKILL");
    if (server === undefined) end();
  }
}

for (const more of [[], ["--follow", "-"]]) {
  test(`what is complete in a pipe counts while it stays open: ${more}`, { timeout: 60_000 }, async () => {
    const world = open();
    const [next, last] = [clf("/1"), clf("/2")];
    const { code, counted, unfinished, unsent, stderr } = await piped(world, async (child, reaches) => {
      child.stdin.write(clf("/1").repeat(60) + next.slice(0, 30));
      await reaches(60);
      child.stdin.write(next.slice(30) + clf("/1").repeat(60_000) + last.slice(0, 30));
      await reaches(60_061);
      child.kill("SIGINT");
    }, ...more);
    assert.deepEqual([code, counted, unfinished, unsent], [more.length === 0 ? 130 : 0, 60_061, 1, 0], stderr);
  });
}

test("a pipe with a name counts while it stays open, and a signal ends its import", { timeout: 60_000 }, async () => {
  const world = open();
  const name = join(world.place, "pipe");
  assert.equal(spawnSync("mkfifo", [name]).status, 0);
  // Both ends, so that neither waits for the other.
  const pipe = openSync(name, "r+");
  writeSync(pipe, clf("/1").repeat(60));
  const { counted } = await piped(world, async (child, reaches) => {
    await reaches(60);
    child.kill("SIGINT");
  }, name);
  closeSync(pipe);
  assert.equal(counted, 60);
});

test("a pipe that grew counts once when it comes again", { timeout: 60_000 }, async () => {
  const world = open();
  const server = (world.server = await served(world.receiver));
  const lines = Array.from({ length: 40 }, (_, index) => plain(`/${index % 3}`, index));
  const text = (from, to) => lines.slice(from, to).join("");
  try {
    const first = await piped(world, async (child, reaches) => {
      child.stdin.write(text(0, 10));
      await reaches(10);
      child.stdin.end(text(10, 20));
    });
    assert.deepEqual([first.code, first.counted], [0, 20]);
    const second = await piped(world, async (child, reaches) => {
      child.stdin.write(text(0, 5));
      child.stdin.write(text(5, 25));
      await reaches(25);
      child.stdin.end(text(25, 30));
    });
    assert.deepEqual([second.code, second.counted, world.receiver.sum], [0, 10, 30]);
    const third = await piped(world, async (child) => child.stdin.end(text(0, 40)));
    assert.deepEqual([third.counted, third.failed, world.receiver.sum], [10, [], 40]);
  } finally {
    server.end();
  }
});

test("an interrupted import says how many lines it read and did not send", { timeout: 60_000 }, async () => {
  const world = open();
  let isAsked = false;
  const answer = world.receiver.ingest.bind(world.receiver);
  world.receiver.ingest = (...body) => ((isAsked = true), answer(...body));
  const { counted, unsent, unfinished, stderr } = await piped(world, async (child) => {
    // A part is on its way; the rest is none yet.
    child.stdin.write(clf("/1").repeat(10_000) + clf("/2").repeat(60));
    await until(() => isAsked);
    child.kill("SIGINT");
  });
  assert.deepEqual([counted, unsent, unfinished], [10_000, 60, 0], stderr);
});

test("where no notes can be kept the command names the folder and TALLY_STATE", async () => {
  const { receiver, place, write } = open();
  const log = write("a.log", clf("/a").repeat(3));
  const { url, end } = await served(receiver);
  try {
    for (const state of [join(write("file", ""), "state"), "/proc/tally"]) {
      const env = { TALLY_URL: url, TALLY_STATE: state };
      const { code, stderr } = await run(process.execPath, [TALLY, "import", log], { env });
      assert.equal(code, 1);
      assert.match(stderr, /notes.*so that no line counts twice.*TALLY_STATE/s);
      assert.ok(stderr.includes(state), stderr);
      assert.equal(receiver.sum, 0);
    }
    const help = await run(process.execPath, [TALLY, "help", "import"], {});
    assert.match(help.stdout, /TALLY_STATE/);
  } finally {
    end();
  }
});

test("a note that fails once its lines have counted loses none of them, and none counts twice", async () => {
  const world = open();
  const log = world.write("a.log", clf("/a").repeat(3));
  const all = join(world.place, "state/imports");
  const folders = () => readdirSync(all).map((name) => join(all, name));
  // Behind the last body nothing can be written any more.
  const job = world.importing();
  const { ingest } = world.receiver;
  let isFull = true;
  world.receiver.ingest = function (...body) {
    if (isFull) for (const place of folders()) renameSync(place, `${place}.away`), writeFileSync(place, "");
    return ingest.apply(this, body);
  };
  await assert.rejects(job.file(log), /notes.*run the same command again within a day/s);
  isFull = false;
  for (const place of folders().filter((name) => name.endsWith(".away"))) {
    rmSync(place.slice(0, -5));
    renameSync(place, place.slice(0, -5));
  }
  const { counted, counted_before } = await world.imported(log);
  assert.deepEqual([counted, counted_before.lines, world.receiver.sum], [0, 3, 3]);
});

// Follows files until `work` has ended: a look is taken whenever `reaches` waits.
async function following({ importing, receiver }, names, work, options = {}) {
  const job = importing({ sleep: () => new Promise((done) => setImmediate(done)), ...options });
  const all = Promise.all([names].flat().map((name) => job.follow(name)));
  const looks = () => new Promise((done) => setTimeout(done, 1));
  const reaches = async (sum) => {
    for (let tries = 0; receiver.sum !== sum && tries < 3_000; tries += 1) await looks();
    for (let more = 0; more < 20; more += 1) await looks();
    assert.equal(receiver.sum, sum);
  };
  try {
    await work(reaches, job);
  } finally {
    job.stop.abort();
    await all;
  }
  return job.end().json;
}

for (const [name, header, line] of [["no header", "", plain], ["W3C", W3C, w3c], ["CSV", CSV, goat]]) {
  test(`--follow reads the beginning of what takes a file's place: ${name}`, async () => {
    const world = open();
    const log = world.write("live.log", header + line("/1", 1));
    await following(world, log, async (reaches) => {
      await reaches(1);
      appendFileSync(log, line("/1", 2));
      await reaches(2);
      renameSync(log, `${log}.1`);
      appendFileSync(`${log}.1`, line("/1", 3));
      // The same line as the first of the file before.
      writeFileSync(log, header + line("/1", 1) + line("/2", 1));
      await reaches(5);
      copyFileSync(log, `${log}.2`);
      truncateSync(log, 0);
      appendFileSync(log, header + line("/1", 1));
      await reaches(6);
      // Cut, and longer than before at the next look.
      writeFileSync(log, header + line("/3", 1) + line("/3", 2) + line("/3", 3));
      await reaches(9);
    });
    const { counted } = await world.imported([log, `${log}.1`, `${log}.2`]);
    assert.deepEqual([counted, world.receiver.sum], [0, 9]);
  });
}

test("--follow reads a renamed file on for a minute, because its writers open the new one later", async () => {
  const world = open();
  let now_ms = Date.now();
  const log = world.write("live.log", clf("/1"));
  const { formats } = await following(world, log, async (reaches) => {
    await reaches(1);
    renameSync(log, `${log}.1`);
    writeFileSync(log, clf("/new"));
    await reaches(2);
    for (const sum of [3, 4]) {
      now_ms += 50_000;
      appendFileSync(`${log}.1`, clf("/late"));
      await reaches(sum);
    }
    renameSync(log, `${log}.2`);
    writeFileSync(log, clf("/newer"));
    await reaches(5);
    appendFileSync(`${log}.1`, clf("/late"));
    appendFileSync(`${log}.2`, clf("/late"));
    await reaches(7);
    now_ms += 61_000;
    await reaches(7);
    appendFileSync(`${log}.1`, clf("/too-late"));
    await reaches(7);
  }, { now: () => now_ms });
  assert.deepEqual(formats, { clf: 3 });
  // The next run has it.
  const { counted } = await world.imported([log, `${log}.1`, `${log}.2`]);
  assert.deepEqual([counted, world.receiver.sum], [1, 8]);
});

test("--follow skips a hole of zeros, which copytruncate leaves before a program that goes on at its old place", async () => {
  const world = open();
  const log = world.write("live.log", clf("/1").repeat(1_000));
  await following(world, log, async (reaches) => {
    await reaches(1_000);
    const size = readFileSync(log).length;
    writeFileSync(log, Buffer.concat([Buffer.alloc(size), Buffer.from(clf("/2"))]));
    await reaches(1_001);
    appendFileSync(log, clf("/2"));
    await reaches(1_002);
  });
  const line = Buffer.from(clf("/3"));
  const fresh = world.write("hole.log", Buffer.concat([Buffer.alloc(20_000_000), line, Buffer.alloc(9), line]));
  assert.deepEqual([(await world.imported(fresh)).counted, (await world.imported(fresh)).counted], [2, 0]);
});

test("--follow goes on where one of its files is bad, and waits for a line that tells the format", async () => {
  const world = open();
  mkdirSync(join(world.place, "folder"));
  const log = world.write("live.log", "");
  const odd = world.write("odd.log", "the server starts\n");
  const packed = world.write("a.gz", gzipSync("x"));
  const names = [join(world.place, "folder"), packed, join(world.place, "later.log"), odd, log];
  const { failed } = await following(world, names, async (reaches, job) => {
    appendFileSync(log, clf("/1"));
    await reaches(1);
    assert.equal(job.failed.length, 2);
    writeFileSync(names[2], clf("/2"));
    appendFileSync(odd, clf("/3").repeat(3));
    await reaches(5);
  });
  assert.deepEqual(failed.map(({ file }) => file).sort(), names.slice(0, 2).sort());
  assert.equal(world.notes.filter((text) => text.includes("odd.log")).length, 1);
});

test("lines ahead of the server's clock are kept and sent again, and after a minute the command says how far", async () => {
  const world = open();
  const base_ms = 1.5e12;
  let now_ms = base_ms;
  world.receiver.now_ms = base_ms;
  const tick = (ms) => (now_ms += ms, world.receiver.now_ms += ms);
  const clock = {
    now: () => now_ms,
    sleep: (ms) => new Promise((done) => setImmediate(() => (tick(ms), done()))),
  };
  const times = [["/now", 0], ["/now", 90_000], ["/soon", 7_000]];
  const lines = times.map(([path, ms]) => clf(path, { at_ms: base_ms + ms }));
  const log = world.write("live.log", lines.join(""));
  await following(world, log, async (reaches) => {
    await reaches(3);
    assert.ok(now_ms >= base_ms + 85_000, "not before the server's clock allows it");
    assert.deepEqual([...world.receiver.counts], [["/now", 2], ["/soon", 1]]);
    assert.equal(world.notes.length, 1);
    assert.match(world.notes[0], /live\.log are \d+\.\d s ahead of the server's clock/);
    // A line of a broken clock does not keep others.
    for (let more = 0; more < 10; more += 1) {
      appendFileSync(log, clf("/far", { at_ms: base_ms + 1e10 }));
      appendFileSync(log, clf("/near", { at_ms: now_ms }));
      await reaches(4 + more);
    }
  }, clock);
  assert.equal(world.receiver.counts.get("/far"), undefined);
});

test("without --follow an import waits a minute for lines that are ahead, and leaves others for the next run", async () => {
  const world = open();
  let now_ms = 1.5e12;
  world.receiver.now_ms = now_ms + 3_600_000;
  const clock = { now: () => now_ms, sleep: async (ms) => ((now_ms += ms), (world.receiver.now_ms += ms)) };
  const at = (seconds) => ({ at_ms: world.receiver.now_ms + seconds * 1000 });
  const lines = [clf("/a", at(0)), clf("/a", at(30)), clf("/a", at(50)), clf("/b", at(500))];
  const log = world.write("a.log", lines.join(""));
  const first = await world.imported(log, clock);
  assert.deepEqual([first.counted, first.rejected], [3, { "clock-skew": 1 }]);
  assert.ok(first.ahead_ms > 400_000 && first.ahead_ms <= 500_000, `${first.ahead_ms}`);
  assert.match(world.notes[0], /4\d\d\.\d s ahead of the server's clock, and are left for the next run/);
  world.receiver.now_ms += 1_000_000;
  const second = await world.imported(log, clock);
  assert.deepEqual([second.counted, second.counted_before.lines, second.rejected], [1, 3, {}]);
});

test("each line counts once through any order of appends, filters, lost answers, cuts and rotations", async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 1e6);
  const random = randomFrom(seed);
  for (let round = 0; round < 30; round += 1) {
    const world = open();
    const { receiver, place, imported } = world;
    const wanted = new Map();
    const statuses = [200, 404, 301];
    const log = join(place, "a.log");
    let second = 0;
    let old = 0;
    writeFileSync(log, "");
    const why = `seed ${seed}, round ${round}`;
    for (let step = 0; step < 12; step += 1) {
      const lines = Array.from({ length: between(random, 1, 30) }, () => clf(`/${oneOf(random, ["a", "b", "c"])}`, {
        status: oneOf(random, statuses), at_ms: 1.4e12 + (second += 1) * 1000,
      }));
      for (const line of lines) {
        const path = line.match(/GET (\S+)/)[1];
        wanted.set(path, (wanted.get(path) ?? 0) + 1);
      }
      appendFileSync(log, lines.join(""));
      receiver.loses = () => random() < 0.3;
      receiver.refuses = (id) => (random() < 0.1 ? "quota-exceeded" : undefined);
      const reader = { status: oneOf(random, ["200", "404", "200,301", "any", "500"]) };
      const format = oneOf(random, [undefined, "clf", "caddy"]);
      await imported(log, { reader, format }).catch((error) => assert.equal(error.message, "no answer", why));
      if (random() < 0.2) {
        renameSync(log, `${log}.${(old += 1)}`);
        writeFileSync(log, "");
      }
    }
    receiver.loses = () => false;
    receiver.refuses = () => undefined;
    const names = [log, ...Array.from({ length: old }, (_, index) => `${log}.${index + 1}`)];
    await imported(names, { reader: { status: "any" } });
    assert.deepEqual([...receiver.counts].sort(), [...wanted].sort(), why);
    assert.equal((await imported(names)).counted, 0, why);
  }
});
