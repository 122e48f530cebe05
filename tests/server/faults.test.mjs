// Faults of clients and of the machine: each ends in a clear answer or message, and nothing acknowledged is lost.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import net from "node:net";
import { describe, test } from "node:test";
import { freePorts } from "../servers/programs.mjs";
import { placeFor } from "./place.mjs";

const CLOSE_MS_MAX = 30_000;
const IDLE = 10_000;
const AT_ONCE = 500;
const IDLE_BYTES_MAX = 32 * 1024;
const HEAD_BYTES_MAX = 64 * 1024;
const HOST = "host: localhost\r\n";
const ADD = "POST /counters/a/increment HTTP/1.1\r\n";
const WITHIN = { timeout: 120_000 };

const place = placeFor("faults");

const json = async (url, init) => (await fetch(url, init)).json();
const add = (url, id, headers = {}) => fetch(`${url}/counters/${id}/increment`, { method: "POST", headers });
const strong = async (url, id) => (await json(`${url}/counters/${id}?consistency=strong`)).value;

// BODY_BYTES_MAX of crates/tally-api/src/bodies.rs.
const BODY_BYTES_MAX = 1_048_576;

/** A connection, with what it has received. */
class Line {
  received = "";
  isClosed = false;
  #waiting = [];

  static async to(url, options = {}) {
    const { hostname, port } = new URL(url);
    const socket = net.connect({ host: hostname, port: Number(port), ...options });
    const line = new Line(socket);
    await new Promise((done, failed) => socket.once("connect", done).once("error", failed));
    return line;
  }

  constructor(socket) {
    this.socket = socket;
    socket.on("data", (bytes) => this.#tell((this.received += bytes)));
    socket.on("error", () => {});
    socket.on("close", () => this.#tell((this.isClosed = true)));
  }

  #tell() {
    for (const look of this.#waiting) look();
  }

  /** Resolves once a condition on it holds. */
  async until(condition, what) {
    const late = Promise.withResolvers();
    const timer = setTimeout(() => late.reject(new Error(`${what}: ${this.received}`)), CLOSE_MS_MAX);
    const held = new Promise((done) => {
      const look = () => condition(this) && done();
      this.#waiting.push(look);
      look();
    });
    await Promise.race([held, late.promise]).finally(() => clearTimeout(timer));
  }

  send(text) {
    this.socket.write(text);
  }

  /** What was answered until the server closes the connection. */
  async end() {
    await this.until(({ isClosed }) => isClosed, "the end");
    return this.received;
  }

  statuses() {
    return [...this.received.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map(([, status]) => Number(status));
  }
}

/** Resolves once a condition holds, which nothing reports. */
async function reaches(condition, until, what) {
  while (!(await condition())) {
    assert.ok(performance.now() < until, what);
    await new Promise((done) => setTimeout(done, 20));
  }
}

/** Whether the server's end of a connection is there, by the machine's table. Source: proc_pid_net(5), `tcp`. */
function isConnected(url, clientPort) {
  const hex = (port) => Number(port).toString(16).toUpperCase().padStart(4, "0");
  const end = new RegExp(`:${hex(new URL(url).port)} \\w+:${hex(clientPort)} 01 `);
  return end.test(readFileSync("/proc/net/tcp", "utf8"));
}

const begin = async (options) => {
  const begun = await place.begin(options);
  // Health is known once this is answered.
  assert.equal((await fetch(`${begun.url}/healthz`)).status, 200);
  return begun;
};
const residentBytes = (pid) =>
  Number(readFileSync(`/proc/${pid}/status`, "utf8").match(/^VmRSS:\s+(\d+) kB$/m)[1]) * 1024;
const descriptorsMax = (pid) =>
  Number(readFileSync(`/proc/${pid}/limits`, "utf8").match(/^Max open files\s+(\d+)/m)[1]);
const descriptors = (pid) => readdirSync(`/proc/${pid}/fd`).length;

describe("with few descriptors, the native server", () => {
  const FEW = ["prlimit", "--nofile=320:320"];

  test("refuses connections that are too many, and loses nothing", WITHIN, async () => {
    const { server, url } = await begin({ before: FEW });
    let acknowledged = 0;
    for (let round = 0; round < 40; round += 1) acknowledged += Number((await add(url, "a")).status === 200);
    assert.equal(acknowledged, 40);
    const lines = await Promise.all(Array.from({ length: 300 }, () => Line.to(url)));
    await Promise.all(lines.map((line) => line.send(`GET /counters/a HTTP/1.1\r\n${HOST}\r\n`)));
    await Promise.all(lines.map((line) => line.until(({ received, isClosed }) => received || isClosed, "an answer")));
    const served = lines.filter((line) => line.statuses()[0] === 200);
    const refused = lines.filter((line) => line.statuses()[0] === 503);
    assert.ok(served.length >= 32 && served.length <= 64, `${served.length} are served`);
    assert.ok(refused.length > 0, "some are refused");
    for (const line of refused) assert.match(line.received, /retry-after: 1/);
    assert.ok(descriptors(server.pid) < 320);
    lines.forEach(({ socket }) => socket.destroy());
    assert.equal((await add(url, "a")).status, 200);
    assert.equal(await strong(url, "a"), acknowledged + 1);
    await server.end();
    assert.doesNotMatch(server.errors, /no connection can be accepted/);
  });

  for (const [tablets, where] of [["1024", "tablets"], ["", "objects of their own"]]) {
    test(`closes idle objects for others, and each counter in ${where} has its count`, WITHIN, async () => {
      const { server, url } = await begin({ before: FEW, variables: { TALLY_TABLETS: tablets } });
      const ids = Array.from({ length: 150 }, (_, number) => `c-${number}`);
      // Until the alarms of all ring, too.
      const waiting = [...ids, ...ids, ...ids].values();
      const client = async () => {
        for (const id of waiting) {
          const answer = await add(url, id);
          assert.equal(answer.status, 200, await answer.text());
        }
      };
      await Promise.all(Array.from({ length: 20 }, client));
      await server.end("SIGKILL");
      const again = await begin({});
      for (const id of ids) assert.equal(await strong(again.url, id), 3);
      await again.server.end();
    });
  }

  test("reads and counts more counters than may be open without refusing one", WITHIN, async () => {
    const { server, url } = await begin({ before: FEW, options: ["--threads", "2"], variables: { TALLY_TABLETS: "" } });
    const ids = Array.from({ length: 100 }, (_, number) => `c-${number}`);
    const body = ids.map((id) => JSON.stringify({ id })).join("\n");
    for (let round = 1; round <= 2; round += 1) {
      const report = await fetch(`${url}/ingest?format=ndjson`, { method: "POST", body });
      assert.deepEqual(await report.json(), { accepted: 100, rejected: 0, errors: [] });
    }
    for (const id of ids) {
      const answer = await (await fetch(`${url}/counters/${id}?consistency=strong`)).json();
      assert.deepEqual([id, answer.value, answer.exact], [id, 2, true]);
    }
    await server.end();
  });

  test("says that there are too few to start with", WITHIN, async () => {
    const server = place.server({ before: ["prlimit", "--nofile=64:64"] });
    const { code } = await server.ended();
    assert.equal(code, 1);
    assert.match(server.errors, /64 descriptors are too few: .*at least 320 with ulimit -n/);
  });
});

describe("with an output that takes nothing, the native server", () => {
  const OUTPUTS = [["/dev/full", "/dev/null"], ["/dev/null", "/dev/full"], ["/dev/full", "/dev/full"]];
  for (const [output, errors] of OUTPUTS) {
    test(`counts with its output to ${output} and its log to ${errors}`, WITHIN, async () => {
      const [port] = await freePorts(1);
      const to = ["bash", "-c", `exec "$@" > ${output} 2> ${errors}`, "bash"];
      const server = place.server({ before: to, port, options: ["--log", "debug"] });
      const url = `http://127.0.0.1:${port}`;
      const answers = () => fetch(`${url}/healthz`).then(({ status }) => status === 200, () => false);
      await reaches(answers, performance.now() + 20_000, "health");
      assert.equal((await add(url, "a")).status, 200);
      assert.equal(await strong(url, "a"), 1);
      assert.deepEqual(await server.end(), { code: 0, signal: null });
    });
  }
});

describe("with clients that are slow or hostile, the native server", () => {
  test("breaks off a head that never ends, by its size", WITHIN, async () => {
    const { server, url } = await begin();
    const line = await Line.to(url);
    line.send(`GET /healthz HTTP/1.1\r\n${HOST}x-long: `);
    for (let sent = 0; sent < 4 * HEAD_BYTES_MAX && !line.isClosed; sent += 4096) line.send("a".repeat(4096));
    await line.end();
    assert.ok(line.statuses().every((status) => status === 431), line.received);
    const many = await Line.to(url);
    many.send(`GET /healthz HTTP/1.1\r\n${HOST}${"x: y\r\n".repeat(200)}\r\n`);
    await many.end();
    assert.deepEqual(many.statuses(), [431]);
    assert.equal((await add(url, "a")).status, 200);
    await server.end();
  });

  test("breaks off a head that never ends, by its time", WITHIN, async () => {
    const { server, url } = await begin({ options: ["--head-seconds", "1"] });
    const line = await Line.to(url);
    line.send(`GET /healthz HTTP/1.1\r\n${HOST}`);
    await line.end();
    assert.equal((await fetch(`${url}/healthz`)).status, 200);
    await server.end();
  });

  test("breaks off bodies that never end, and counts nothing of them", WITHIN, async () => {
    const { server, url } = await begin();
    const head = "POST /counters/a/increment HTTP/1.1\r\ncontent-type: application/json\r\n";
    const [short, chunked, long] = await Promise.all([1, 2, 3].map(() => Line.to(url)));
    short.send(`${head}${HOST}content-length: 100\r\n\r\n{"delta":`);
    chunked.send(`${head}${HOST}transfer-encoding: chunked\r\n\r\n5\r\n{"del\r\n`);
    long.send(`POST /events HTTP/1.1\r\n${HOST}transfer-encoding: chunked\r\n\r\n`);
    const line = `${JSON.stringify({ id: "b", delta: 1 })}\n`.repeat(2_000);
    const chunk = `${line.length.toString(16)}\r\n${line}\r\n`;
    long.send(chunk);
    const answered = ({ received, isClosed }) => received || isClosed;
    await Promise.all([short, chunked, long].map((each) => each.until(answered, "an answer")));
    for (const each of [short, chunked, long]) assert.deepEqual(each.statuses(), [408], each.received);
    const endless = await Line.to(url);
    endless.send(`${head}${HOST}transfer-encoding: chunked\r\n\r\n`);
    // Past the limit by two pieces of what the server reads at once, and no end. A client that goes on writing may lose
    // the answer to the reset (RFC 9112, 9.6).
    for (let sent = 0; sent <= BODY_BYTES_MAX + 2 * 65_536; sent += line.length) endless.send(chunk);
    await endless.until(answered, "an answer");
    assert.deepEqual(endless.statuses(), [413]);
    endless.socket.destroy();
    assert.equal((await (await add(url, "a")).json()).value, 1);
    await server.end();
  });

  test("counts nothing of a request that its client cuts off", WITHIN, async () => {
    const { server, url } = await begin();
    const whole = `POST /counters/a/increment HTTP/1.1\r\ncontent-type: application/json\r\n${HOST}`;
    const body = '{"delta":7}';
    const chunks = `${whole}transfer-encoding: chunked\r\n\r\nb\r\n${body}\r\n0\r\n\r\n`;
    const sized = `${whole}content-length: ${body.length}\r\n\r\n${body}`;
    for (const request of [sized, chunks]) {
      for (let end = 1; end < request.length; end += 3) {
        const [closed, broken] = await Promise.all([Line.to(url), Line.to(url)]);
        closed.socket.end(request.slice(0, end));
        broken.socket.write(request.slice(0, end), () => broken.socket.resetAndDestroy());
        const [answer] = await Promise.all([closed, broken].map((line) => line.end()));
        assert.doesNotMatch(answer, /^HTTP\/1\.1 2/, `after ${end} bytes`);
      }
    }
    assert.equal((await (await add(url, "a")).json()).value, 1);
    await server.end();
    assert.equal(server.errors, "");
  });

  test("has room for ten thousand idle connections, and counts beside them", WITHIN, async () => {
    const { server, url } = await begin();
    assert.equal((await add(url, "a")).status, 200);
    const before = residentBytes(server.pid);
    // As many as the server takes: half of the descriptors that both processes may have.
    const count = Math.min(IDLE, descriptorsMax(server.pid) / 2 - 100);
    const lines = [];
    while (lines.length < count) {
      const more = { length: Math.min(AT_ONCE, count - lines.length) };
      const next = await Promise.all(Array.from(more, () => Line.to(url)));
      next.forEach((line) => line.send(`GET /counters/a HTTP/1.1\r\n${HOST}\r\n`));
      await Promise.all(next.map((line) => line.until(({ received }) => received, "an answer")));
      lines.push(...next);
    }
    assert.deepEqual(lines.filter((line) => line.statuses()[0] !== 200).map(({ received }) => received), []);
    assert.ok(descriptors(server.pid) > count);
    const each = (residentBytes(server.pid) - before) / count;
    assert.ok(each < IDLE_BYTES_MAX, `${each} bytes an idle connection`);
    assert.equal((await (await add(url, "a")).json()).value, 2);
    lines.forEach(({ socket }) => socket.destroy());
    assert.deepEqual(await server.end(), { code: 0, signal: null });
  });

  test("closes connections that stay idle", WITHIN, async () => {
    const { server, url } = await begin({ options: ["--head-seconds", "3"] });
    const lines = await Promise.all(Array.from({ length: 20 }, () => Line.to(url)));
    lines.forEach((line) => line.send(`GET /openapi.json HTTP/1.1\r\n${HOST}\r\n`));
    await Promise.all(lines.map((line) => line.end()));
    assert.deepEqual(new Set(lines.flatMap((line) => line.statuses())), new Set([200]));
    await server.end();
  });

  test("closes connections of clients that take no answers", WITHIN, async () => {
    const { server, url } = await begin({ options: ["--head-seconds", "2"] });
    const lines = await Promise.all(Array.from({ length: 20 }, () => Line.to(url)));
    const connected = () => lines.filter(({ socket }) => isConnected(url, socket.localPort)).length;
    assert.equal(connected(), 20);
    for (const line of lines) {
      line.socket.pause();
      // More than the buffers of the machine hold.
      line.send(`GET /openapi.json HTTP/1.1\r\n${HOST}\r\n`.repeat(100));
    }
    const until = performance.now() + CLOSE_MS_MAX;
    await reaches(() => connected() === 0, until, "none is connected");
    assert.equal((await add(url, "a")).status, 200);
    lines.forEach(({ socket }) => socket.destroy());
    assert.deepEqual(await server.end(), { code: 0, signal: null });
  });

  test("reads a request in one way, and closes where two ways are possible", WITHIN, async () => {
    const { server, url } = await begin();
    const smuggled = `POST /counters/smuggled/increment HTTP/1.1\r\n${HOST}content-length: 0\r\n\r\n`;
    const bodies = [
      // Both: the chunks count, and nothing after them is a request.
      [`content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`],
      [`transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n${smuggled}`],
      [`content-length: 6\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`],
      [`content-length: 0\r\ncontent-length: ${smuggled.length}\r\n\r\n${smuggled}`],
      [`content-length: 0, ${smuggled.length}\r\n\r\n${smuggled}`],
      [`content-length: +0\r\n\r\n${smuggled}`],
      [`transfer-encoding: xchunked\r\n\r\n${smuggled}`],
      [`transfer-encoding: chunked, identity\r\n\r\n${smuggled}`],
      [`transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n${smuggled}`, 501],
      [`transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`, 501],
      [`content-length : 0\r\n\r\n${smuggled}`],
      [`transfer-encoding : chunked\r\n\r\n0\r\n\r\n${smuggled}`],
      [` content-length: 0\r\n\r\n${smuggled}`],
    ];
    for (const [body, status] of bodies) {
      const line = await Line.to(url);
      line.send(`${ADD}${HOST}${body}`);
      await line.end();
      assert.ok(line.statuses().length <= 1, `${JSON.stringify(body)}: ${line.received}`);
      if (status !== undefined) assert.deepEqual(line.statuses(), [status], body);
    }
    for (const [head, status] of [["OPTIONS * HTTP/1.1", 204], ["CONNECT example.com:443 HTTP/1.1", 501]]) {
      const line = await Line.to(url);
      line.send(`${head}\r\n${HOST}\r\n`);
      await line.end();
      assert.deepEqual(line.statuses(), [status], head);
    }
    // The old version knows no chunks.
    const old = await Line.to(url);
    old.send(`POST /counters/a/increment HTTP/1.0\r\n${HOST}transfer-encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`);
    await old.end();
    assert.equal((await fetch(`${url}/counters/smuggled`)).status, 404);
    await server.end();
  });
});
