// Several threads: each has a part of the objects, and all answer alike. What passes between them is counted once.
import assert from "node:assert/strict";
import http from "node:http";
import { describe, test } from "node:test";
import { placeFor } from "./place.mjs";

const WITHIN = { timeout: 120_000 };
const COUNTERS = 60;
const CLIENTS = 24;

const place = placeFor("threads");

const ids = Array.from({ length: COUNTERS }, (_, number) => `c-${number}`);
const begin = (threads, ...options) => place.begin({ options: ["--threads", String(threads), ...options] });

/** A request on a connection of its own, so that any thread may have it. Resolves to { status, headers, body }. */
function ask(url, path, method = "GET", agent = false) {
  return new Promise((done, failed) => {
    const request = http.request(url + path, { method, agent }, async (response) => {
      const pieces = [];
      for await (const piece of response) pieces.push(piece);
      done({ status: response.statusCode, headers: response.headers, body: JSON.parse(Buffer.concat(pieces)) });
    });
    request.on("error", failed).end();
  });
}
const add = (url, id, agent) => ask(url, `/counters/${id}/increment`, "POST", agent);
/** The value; 0 of a counter that does not exist. */
async function valueOf(url, id) {
  const { status, body } = await ask(url, `/counters/${id}?consistency=strong`);
  assert.ok([200, 404].includes(status), `${id}: ${JSON.stringify(body)}`);
  return status === 404 ? 0 : body.value;
}

/** Each counter has all that was acknowledged, and no more than was sent. */
async function compare(url, books) {
  for (const [id, { acknowledged, sent }] of books) {
    const value = await valueOf(url, id);
    assert.ok(value >= acknowledged && value <= sent, `${id}: ${value}, ${acknowledged} acknowledged, ${sent} sent`);
  }
}

/** Clients that add until they are stopped. */
function loadOf(url) {
  const books = new Map(ids.map((id) => [id, { acknowledged: 0, sent: 0 }]));
  const load = { books, statuses: new Map(), isOver: false, acknowledged: 0 };
  const client = async (_, number) => {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    for (let round = number; !load.isOver; round += 1) {
      const book = books.get(ids[round % COUNTERS]);
      book.sent += 1;
      const answer = await add(url, ids[round % COUNTERS], agent).catch(() => undefined);
      load.statuses.set(answer?.status, (load.statuses.get(answer?.status) ?? 0) + 1);
      if (answer === undefined) break;
      if (answer.status === 503) assert.ok(Number(answer.headers["retry-after"]) > 0);
      book.acknowledged += Number(answer.status === 200);
      load.acknowledged += Number(answer.status === 200);
    }
    agent.destroy();
  };
  load.ended = Promise.all(Array.from({ length: CLIENTS }, client));
  return load;
}

async function until(condition) {
  while (!condition()) await new Promise((done) => setTimeout(done, 5));
}

describe("with several threads, the native server", () => {
  test("counts as one, and finds each object again with any number of threads", WITHIN, async () => {
    for (const [round, threads] of [2, 1, 3].entries()) {
      const { server, url } = await begin(threads);
      for (const id of ids) assert.equal((await add(url, id)).body.value, round + 1, id);
      const values = await Promise.all(ids.map((id) => valueOf(url, id)));
      assert.deepEqual(new Set(values), new Set([round + 1]));
      assert.deepEqual(await server.end(round === 1 ? "SIGKILL" : "SIGTERM"), {
        code: round === 1 ? null : 0, signal: round === 1 ? "SIGKILL" : null,
      });
      assert.equal(server.errors, "");
    }
  });

  test("sends events and messages of sockets from any thread to any", WITHIN, async () => {
    const { server, url } = await begin(3);
    for (const id of ids.slice(0, 6)) {
      assert.equal((await add(url, id)).status, 200);
      const socket = new WebSocket(`${url.replace("http", "ws")}/live?id=${id}`);
      const told = Promise.withResolvers();
      socket.addEventListener("message", ({ data }) => data.includes(`"${id}":{"value":2`) && told.resolve());
      const said = Promise.withResolvers();
      const request = http.get(`${url}/live?id=${id}`, { agent: false });
      request.on("response", (response) => {
        assert.equal(response.statusCode, 200);
        let text = "";
        response.setEncoding("utf8").on("error", () => {});
        response.on("data", (more) => (text += more).includes(`"${id}":{"value":2`) && said.resolve());
      });
      await new Promise((done) => socket.addEventListener("open", done));
      assert.equal((await add(url, id)).status, 200);
      await Promise.all([told.promise, said.promise]);
      request.destroy();
      socket.close();
      await new Promise((done) => socket.addEventListener("close", done));
    }
    assert.deepEqual(await server.end(), { code: 0, signal: null });
  });

  test("shows in its metrics what all threads counted, whichever answers", WITHIN, async () => {
    const { server, url } = await begin(3);
    for (const id of ids) assert.equal((await add(url, id)).status, 200);
    const parts = [];
    for (let scrape = 0; scrape < 12; scrape += 1) {
      const text = await (await fetch(`${url}/metrics`, { headers: { connection: "close" } })).text();
      const of = (name) => Number(text.split("\n").find((line) => line.startsWith(`${name} `))?.split(" ").at(-1));
      parts.push({
        added: of('tally_acknowledged_total{operation="increment"}'),
        answered: of('tally_request_duration_seconds_count{route="increment"}'),
        written: of('tally_commit_flushes_sum'),
        edge: of('tally_start_time_seconds{worker="edge"}'),
        objects: of('tally_start_time_seconds{worker="aggregator"}'),
      });
    }
    const { edge, objects } = parts[0];
    assert.ok(edge > 0 && objects > 0);
    const all = { added: COUNTERS, answered: COUNTERS, written: COUNTERS, edge, objects };
    for (const part of parts) assert.deepEqual(part, all);
    assert.deepEqual(await server.end(), { code: 0, signal: null });
  });

  test("answers 503 where too many calls wait for a thread, and loses nothing", WITHIN, async () => {
    const { server, url } = await begin(2, "--waiting-calls", "1");
    const load = loadOf(url);
    await until(() => (load.statuses.get(503) ?? 0) > 0 && load.acknowledged > 0);
    load.isOver = true;
    await load.ended;
    assert.deepEqual([...load.statuses.keys()].filter((status) => status !== 200 && status !== 503), []);
    await server.end();
    const again = await begin(2);
    await compare(again.url, load.books);
    await again.server.end();
  });

  test("answers what is in flight before it ends, in all threads", WITHIN, async () => {
    const { server, url } = await begin(3);
    const load = loadOf(url);
    await until(() => load.acknowledged > 200);
    assert.deepEqual(await server.end(), { code: 0, signal: null });
    load.isOver = true;
    await load.ended;
    const again = await begin(2);
    await compare(again.url, load.books);
    await again.server.end();
  });
});

/** A call of the rate limiter. Resolves to the body of its answer. */
async function limit(url, path, method = "GET", body = undefined) {
  const answer = await fetch(`${url}/limits/${path}`, { method, body: body && JSON.stringify(body) });
  const text = await answer.text();
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
  return JSON.parse(text);
}

describe("a stop in order keeps what rate limits have consumed", () => {
  for (const scope of ["datacenter", "global"]) {
    for (const threads of [1, 2]) {
      test(`with the scope ${scope} and ${threads} threads`, WITHIN, async () => {
        const { server, url } = await begin(threads);
        await limit(url, "m", "PUT", { limit: 100, window_seconds: 6000, scope });
        const keys = Array.from({ length: 8 }, (_, number) => `k-${number}`);
        for (const key of keys) await limit(url, `m/${key}`, "POST", { cost: 5 });
        assert.deepEqual(await server.end(), { code: 0, signal: null });
        assert.equal(server.errors, "");
        const { url: next } = await begin(threads);
        for (const key of keys) assert.equal((await limit(next, `m/${key}`)).remaining, 95, key);
      });
    }
  }
});
