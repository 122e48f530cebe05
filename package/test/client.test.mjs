// The client against a server: JavaScript's and Python's. What fails on the way is played by a gate in front of it.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { connect, createServer as listenTcp } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import express from "express";
import { Hono } from "hono";
import { limit as expressLimit } from "../client/express.ts";
import { limit as honoLimit } from "../client/hono.ts";
import { Tally, TallyError } from "../client/index.ts";
import { ROOT, openServer, run, until } from "./server.mjs";

let server;
let tally;
before(async () => {
  server = await openServer();
  tally = new Tally({ url: server.url });
});
after(() => server?.end());
const strong = { consistency: "strong" };

// Carries calls to the server; `faults` are what becomes of the first ones: "lost" (counted, and not answered) or a
// status.
async function gate(faults) {
  const keys = [];
  const listener = createServer(async (request, response) => {
    const body = Buffer.concat(await Array.fromAsync(request));
    const key = request.headers["idempotency-key"];
    keys.push(key);
    const fault = faults.shift();
    if (typeof fault === "number") return response.writeHead(fault, { "retry-after": "0" }).end("{}");
    const answer = await fetch(new URL(request.url, server.url), {
      method: request.method, headers: key ? { "idempotency-key": key } : {}, ...(body.length > 0 ? { body } : {}),
    });
    const text = await answer.text();
    if (fault === "lost") return response.destroy();
    response.writeHead(answer.status, { "content-type": "application/json" }).end(text);
  }).listen(0, "127.0.0.1");
  await once(listener, "listening");
  return {
    url: `http://127.0.0.1:${listener.address().port}`,
    keys, end: () => (listener.closeAllConnections(), listener.close()),
  };
}

test("a write whose answers are lost is sent again under its key, and counts once", async () => {
  const between = await gate(["lost", 503, "lost"]);
  const written = await new Tally({ url: between.url }).increment("lost", 5);
  between.end();
  assert.equal(written.value, 5);
  assert.deepEqual([between.keys.length, new Set(between.keys).size], [4, 1]);
  assert.equal((await tally.get("lost", strong)).value, 5);
});

test("a refusal is final and says why; a check of a limit is never sent again", async () => {
  await assert.rejects(
    tally.get("nobody-counts-this"),
    (error) => error instanceof TallyError && error.status === 404 && error.code === "counter-not-found",
  );
  await assert.rejects(tally.increment("a", { delta: -1 }), { code: "invalid-delta" });
  await assert.rejects(new Tally({ url: "http://127.0.0.1:1", retries: 0 }).get("a"), { status: 0, code: "no-answer" });
  const between = await gate(["lost"]);
  await assert.rejects(new Tally({ url: between.url }).limit("once", "bob", { limit: 5, window_seconds: 60 }), {
    status: 0,
  });
  between.end();
  assert.equal(between.keys.length, 1);
});

test("a counter that an increment creates may have a time to live", async () => {
  await tally.increment("visit", 2, { ttl_seconds: 3_600, ttl_mode: "sliding" });
  await tally.increment("visit", { delta: 1, ttl_seconds: 60 });
  assert.equal((await tally.get("visit", strong)).value, 3);
  const { settings } = await tally.reset("visit");
  assert.deepEqual([settings.ttl_seconds, settings.ttl_mode], [3_600, "sliding"]);
  await assert.rejects(tally.increment("visit", 1, { ttl_mode: "sliding" }), { code: "invalid-body" });
});

test("increments join in one body, which counts once though its answer is lost", async () => {
  const between = await gate(["lost"]);
  const client = new Tally({ url: between.url, batch: { events_max: 100 } });
  for (let index = 0; index < 150; index += 1) client.count(`batch/${index % 3}`, { unique: String(index) });
  await client.flush();
  between.end();
  assert.equal(between.keys.length, 3, "two bodies, one of them twice");
  assert.equal((await tally.aggregate("batch/", strong)).value, 150);
});

test("reads, lists and settings are called by their names", async () => {
  await tally.increment("named/a", { delta: 2, by: { country: "DE" } });
  await tally.decrement("named/a");
  await tally.set("named/b", 7);
  assert.equal((await tally.get("named/a", strong)).value, 1);
  assert.equal((await tally.breakdown("named/a", { by: "country", consistency: "strong" })).rows[0].value, "DE");
  assert.ok((await tally.history("named/a", { step: "1h", from: 0, to: 3600 })).points);
  assert.equal((await tally.hit("named/a")).value, 2);
  const listed = await until(
    async () => (await Array.fromAsync(tally.counters("named/", { limit: 1 }))).length === 2 || undefined,
  );
  assert.ok(listed);
  await tally.delete("named/b");
  await assert.rejects(tally.get("named/b", strong), { status: 404 });
  await tally.ingest({ format: "ndjson" }, '{"id":"named/c"}\n');
  assert.equal((await tally.get("named/c", strong)).value, 1);
});

test("a visitor's request of a Worker goes along: its cf, its address, its user agent", async () => {
  const calls = [];
  const binding = {
    fetch: async (url, init) => {
      calls.push({ url, ...init });
      return new Response('{"value":1}');
    },
  };
  const request = {
    headers: new Headers({ "cf-connecting-ip": "203.0.113.9", "user-agent": "Firefox" }), cf: { colo: "FRA" },
  };
  await new Tally({ binding, key: "k" }).for(request).increment("a", { unique: "auto" });
  const [{ url, cf, headers, body }] = calls;
  assert.deepEqual(
    [url, cf, headers.authorization],
    ["https://tally/counters/a/increment", { colo: "FRA" }, "Bearer k"],
  );
  assert.deepEqual(JSON.parse(body), { ip: "203.0.113.9", user_agent: "Firefox", unique: "auto" });
});

test("several boards are read by one call", async () => {
  const urls = [];
  const binding = {
    fetch: async (url) => (urls.push(String(url)), new Response('{"entries":[]}')),
  };
  const top = await new Tally({ binding }).boardsTop(["eu", "us/west"], { limit: 3, member: "ann" });
  await assert.rejects(new Tally({ binding }).boardsTop(["eu,us"]), { code: "invalid-id" });
  assert.deepEqual([top.entries, urls], [[], ["https://tally/top?boards=eu%2Cus%2Fwest&limit=3&member=ann"]]);
});

test("a store tells each change to all who look, by one stream that ends with the last of them", async () => {
  const store = tally.useCounter("seen");
  assert.equal(store, tally.useCounter("seen"));
  assert.equal(store.getSnapshot(), undefined);
  const ends = [store.subscribe(() => {}), store.subscribe(() => {})];
  await until(() => store.getSnapshot() === null);
  await tally.increment("seen", 3);
  await until(() => store.getSnapshot()?.value === 3);
  for (const end of ends) end();
  let value = 0;
  const stop = tally.watch(["seen", "other"], (counters) => (value = counters.seen?.value));
  await until(() => value === 3);
  stop();
});

test("React's hook draws each change, by one stream for all components, that ends with the last of them", async () => {
  const { createElement, Fragment } = await import("react");
  const { act, create } = await import("react-test-renderer");
  const { useCounter } = await import("../client/react.ts");
  const streams = [];
  const watching = (address, init) => {
    if (String(address).includes("/live")) streams.push(init.signal);
    return fetch(address, init);
  };
  const client = new Tally({ url: server.url, fetch: watching });
  const first = [];
  const Counter = ({ id }) => {
    const counter = useCounter(client, id);
    const text = counter === undefined ? "not known" : counter === null ? "none" : String(counter.value);
    if (first.length < 2) first.push(text);
    return createElement("b", null, text);
  };
  const drawn = (root) => root.root.findAllByType("b").map(({ children }) => children.join(""));
  const draws = (root, expected) =>
    until(async () => (await act(async () => {}), drawn(root).join() === expected.join()));
  globalThis.IS_REACT_ACT_ENVIRONMENT = true;
  const page = (...ids) => createElement(Fragment, null, ids.map((id, at) => createElement(Counter, { id, key: at })));
  let root;
  try {
    await act(async () => void (root = create(page("hooked", "hooked"))));
    await draws(root, ["none", "none"]);
    assert.deepEqual(first, ["not known", "not known"]);
    await tally.increment("hooked", 3);
    await draws(root, ["3", "3"]);
    assert.equal(streams.length, 1);
    // Another counter in its place: the stream of the first goes on while somebody looks.
    await tally.increment("hooked/other", 8);
    await act(async () => root.update(page("hooked/other", "hooked")));
    await draws(root, ["8", "3"]);
    assert.deepEqual(streams.map(({ aborted }) => aborted), [false, false]);
    await act(async () => root.update(page("hooked/other")));
    await until(() => streams[0].aborted);
    assert.deepEqual([drawn(root), streams[1].aborted], [["8"], false]);
  } finally {
    await act(async () => root?.unmount());
    delete globalThis.IS_REACT_ACT_ENVIRONMENT;
  }
  assert.deepEqual(streams.map(({ aborted }) => aborted), [true, true]);
});

test("limits: a verdict is an answer, and a policy may come along", async () => {
  const check = { limit: 2, window_seconds: 60 };
  assert.deepEqual(
    [await tally.limit("own", "bob", check), await tally.limit("own", "bob", check)].map(({ allowed, remaining }) => [
      allowed, remaining,
    ]),
    [
      [true, 1], [true, 0],
    ],
  );
  const refused = await tally.limit("own", "bob", check);
  assert.deepEqual([refused.allowed, refused.limit, refused.remaining], [false, 2, 0]);
  assert.ok(refused.retry_after_ms > 0);
  await assert.rejects(tally.limit("no-such-policy", "bob"), { code: "policy-not-found" });
});

test("Hono's middleware lets through, refuses, and stays open while Tally is away", async () => {
  const app = (client, more) =>
    new Hono()
      .use(
        honoLimit(client, {
          policy: "hono", check: { limit: 1, window_seconds: 60 }, key: (c) => c.req.header("x-user"), ...more,
        }),
      )
      .get("/", (c) => c.text(String(c.get("tally")?.remaining)));
  const call = (one, user) => one.request("/", { headers: { "x-user": user } });
  const one = app(tally);
  const first = await call(one, "ann");
  assert.deepEqual([first.status, await first.text()], [200, "0"]);
  assert.match(first.headers.get("ratelimit"), /^"hono";r=0;t=\d+$/);
  const second = await call(one, "ann");
  assert.deepEqual([second.status, (await second.json()).code], [429, "quota-exceeded"]);
  assert.ok(Number(second.headers.get("retry-after")) > 0);
  assert.equal((await call(one, "bob")).status, 200);
  const away = new Tally({ url: "http://127.0.0.1:1", retries: 0 });
  assert.equal((await call(app(away), "ann")).headers.get("tally-on-error"), "open");
  assert.equal((await call(app(away, { onError: "closed" }), "ann")).status, 503);
});

test("Express's middleware does the same", async () => {
  const app = express();
  app.use(expressLimit(tally, { policy: "express", check: { limit: 1, window_seconds: 60 } }));
  app.get("/", (_, response) => response.send(String(response.locals.tally.remaining)));
  const listener = app.listen(0, "127.0.0.1");
  await once(listener, "listening");
  const url = `http://127.0.0.1:${listener.address().port}/`;
  const first = await fetch(url);
  assert.deepEqual([first.status, await first.text()], [200, "0"]);
  const second = await fetch(url);
  assert.deepEqual(
    [second.status, second.headers.get("content-type"), (await second.json()).code],
    [429, "application/problem+json; charset=utf-8", "quota-exceeded"],
  );
  listener.close();
});

test("startTally() is the real thing, in three lines", { timeout: 60_000 }, async () => {
  const { startTally } = await import("../client/miniflare.ts");
  const started = await startTally();
  try {
    assert.equal((await started.client.increment("likes")).value, 1);
    const answer = await started.fetch("/counters/likes/increment", { method: "POST", cf: { colo: "FRA" } });
    assert.equal((await answer.json()).datacenter, "FRA");
  } finally {
    await started.close();
  }
});

// Looks at one counter until it has this value, as people write it in Python.
const WATCHING = `import sys
sys.path.insert(0, sys.argv[1])
from edgetally import Tally
for counters in Tally(sys.argv[2]).watch("restarted"):
    value = (counters["restarted"] or {}).get("value")
    print(value, flush=True)
    if value == 5:
        break
`;

test("watch() goes on through a restart, in JavaScript and in Python", { timeout: 120_000 }, async (context) => {
  const installed = await run("python3", ["--version"]).catch(() => ({ code: 1 }));
  if (installed.code !== 0) return context.skip("python3 is not installed");
  let behind = await openServer();
  // The address stays while servers behind it come and go.
  const between = listenTcp((socket) => {
    const to = connect(new URL(behind.url).port, "127.0.0.1");
    for (const [one, other] of [[socket, to], [to, socket]]) {
      one.pipe(other);
      one.on("error", () => other.destroy()).on("close", () => other.destroy());
    }
  }).listen(0, "127.0.0.1");
  await once(between, "listening");
  const url = `http://127.0.0.1:${between.address().port}`;
  await new Tally({ url: behind.url }).increment("restarted", 1);
  const seen = [];
  const stop = new Tally({ url }).watch("restarted", ({ restarted }) => seen.push(restarted?.value));
  let job;
  const words = ["-c", WATCHING, join(ROOT, "package/python"), url];
  const python = run("python3", words, { onOutput: (one) => (job = one) });
  try {
    await until(() => seen.includes(1) && job?.stdout.includes("1\n"));
    await behind.end();
    behind = await openServer();
    await new Tally({ url: behind.url }).increment("restarted", 5);
    await until(() => seen.includes(5));
    const { code, stdout, stderr } = await python;
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^1\n(.*\n)*5\n$/);
  } finally {
    stop();
    job?.child.kill();
    between.close();
    await behind.end();
  }
});

test("Python's client keeps the same promises", async (context) => {
  const python = await run("python3", ["--version"]).catch(() => ({ code: 1 }));
  if (python.code !== 0) return context.skip("python3 is not installed");
  const between = await gate(["lost", 503]);
  const { code, stdout, stderr } = await run("python3", [
    join(ROOT, "package/python/test_tally.py"), server.url, between.url,
  ]);
  between.end();
  assert.equal(code, 0, `${stdout}${stderr}`);
  assert.deepEqual([between.keys.length, new Set(between.keys).size], [3, 1]);
  assert.equal((await tally.get("python/lost", strong)).value, 1);
});
