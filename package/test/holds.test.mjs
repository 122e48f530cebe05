// Holds by the clients: what was used stays, the rest comes back, also if the work fails.
import assert from "node:assert/strict";
import { once } from "node:events";
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
  for (const [policy, fields] of [
    ["tokens", { limit: 100, window_seconds: 3_600 }],
    ["renders", { algorithm: "concurrency", limit: 2, ttl_seconds: 60 }],
  ]) await tally.request("PUT", `/limits/${policy}`, { body: fields });
});
after(() => server?.end());

const left = async (policy, key) => (await tally.peek(policy, key)).remaining;

test("a hold is settled by what was used, or released", async () => {
  const { allowed, hold } = await tally.reserve("tokens", "a", { amount: 60, ttl_seconds: 30 });
  assert.deepEqual([allowed, hold.amount, await left("tokens", "a")], [true, 60, 40]);
  const refused = await tally.reserve("tokens", "a", { amount: 50 });
  assert.deepEqual([refused.allowed, refused.hold], [false, undefined]);
  const settled = await tally.settle("tokens", "a", hold.id, 25);
  assert.deepEqual([settled.settled, settled.returned, await left("tokens", "a")], [25, 35, 75]);
  const other = await tally.reserve("tokens", "a", { amount: 70 });
  assert.equal((await tally.release("tokens", "a", other.hold.id)).returned, 70);
  await assert.rejects(tally.settle("tokens", "a", other.hold.id, 1), { code: "hold-settled" });
  assert.equal((await tally.refund("tokens", "a", 5)).remaining, 80);
});

test("withHold settles what was used, also if the work fails", async () => {
  const held = (amount, work) => tally.withHold("tokens", "b", { amount }, work);
  const result = await held(40, async (use) => {
    assert.equal(await left("tokens", "b"), 60);
    use(3);
    use(10);
    return "done";
  });
  assert.deepEqual([result, await left("tokens", "b")], ["done", 90]);
  await assert.rejects(held(40, (use) => (use(5), Promise.reject(new Error("half")))), /half/);
  assert.equal(await left("tokens", "b"), 85);
  await assert.rejects(held(40, () => Promise.reject(new Error("at once"))), /at once/);
  assert.equal(await left("tokens", "b"), 85);
  await held(40, () => undefined);
  assert.equal(await left("tokens", "b"), 45);
  let ran = false;
  await assert.rejects(held(50, () => (ran = true)), (error) => error instanceof TallyError && error.status === 429);
  assert.ok(!ran);
});

test("as many as the policy admits work at once", async () => {
  let [working, refused] = [0, 0];
  const { promise: all, resolve: end } = Promise.withResolvers();
  const told = () => working + refused === 8 && end();
  const work = () =>
    tally.withHold("renders", "c", {}, async () => {
      working += 1;
      told();
      await all;
    }).catch(({ code }) => {
      assert.equal(code, "quota-exceeded");
      refused += 1;
      told();
    });
  await Promise.all(Array.from({ length: 8 }, work));
  assert.deepEqual([working, refused, await left("renders", "c")], [2, 6, 2]);
});

test("the client for Python holds, settles and releases", async () => {
  const program = `
import sys
sys.path.insert(0, ${JSON.stringify(join(ROOT, "package/python"))})
from edgetally import Tally, TallyError
tally = Tally(${JSON.stringify(server.url)})
left = lambda: tally.request("GET", "/limits/tokens/p")["remaining"]
first = tally.reserve("tokens", "p", 60, ttl_seconds=30)
print(first["allowed"], left(), tally.reserve("tokens", "p", 50)["allowed"])
print(tally.settle("tokens", "p", first["hold"]["id"], 25)["returned"], left())
print(tally.release("tokens", "p", tally.reserve("tokens", "p", 70)["hold"]["id"])["returned"], left())
with tally.hold("tokens", "p", 40) as held:
    held.use(10)
print(left())
try:
    with tally.hold("tokens", "p", 40) as held:
        held.use(5)
        raise ValueError("half")
except ValueError as error:
    print(error, left())
try:
    with tally.hold("tokens", "p", 90):
        print("never")
except TallyError as error:
    print(error.code, left())
`;
  const { code, stdout, stderr } = await run("python3", ["-c", program]);
  assert.equal(code, 0, stderr);
  assert.deepEqual(stdout.trim().split("\n"), [
    "True 40 False", "35 75", "70 75", "65", "half 60", "quota-exceeded 60",
  ]);
});

// What a handler of a test does with a response: it streams until it is told to end.
const later = () => Promise.withResolvers();
const held = async (key) => (await tally.peek("renders", key)).held;
const isFree = (key) => until(async () => (await held(key)) === 0, { within_ms: 20_000 });

test("Express releases a hold when the response has ended, when its client hangs up, and when the handler fails", async () => {
  const app = express();
  app.set("env", "test");
  const keyOf = (request) => request.path.slice(1);
  app.use(expressLimit(tally, { policy: "renders", hold: {}, key: keyOf }));
  const gate = later();
  app.get("/ended", async (_, response) => (response.write("half"), await gate.promise, response.end(" done")));
  app.get("/gone", (_, response) => void response.write("half"));
  app.get("/failed", () => {
    throw new Error("no");
  });
  const listener = app.listen(0, "127.0.0.1");
  await once(listener, "listening");
  const url = `http://127.0.0.1:${listener.address().port}`;
  try {
    const ended = await fetch(`${url}/ended`);
    assert.equal(await held("ended"), 1);
    const others = await Promise.all([1, 2].map(() => fetch(`${url}/ended`)));
    const [refused] = others.filter(({ status }) => status === 429);
    assert.deepEqual([(await refused.json())["violated-policies"], await held("ended")], [["renders"], 2]);
    gate.resolve();
    assert.equal(await ended.text(), "half done");
    await isFree("ended");
    const hangsUp = new AbortController();
    await fetch(`${url}/gone`, { signal: hangsUp.signal });
    assert.equal(await held("gone"), 1);
    hangsUp.abort();
    await isFree("gone");
    assert.equal((await fetch(`${url}/failed`)).status, 500);
    await isFree("failed");
  } finally {
    listener.closeAllConnections();
    listener.close();
  }
});

test("Hono releases a hold when the body has ended, when nobody reads it any more, and when the handler fails", async () => {
  const app = new Hono().onError((_, c) => c.text("failed", 500));
  app.use(honoLimit(tally, { policy: "renders", hold: {}, key: (c) => c.req.path.slice(1) }));
  const gate = later();
  const streamed = () => new ReadableStream({
    start: (controller) => controller.enqueue(new TextEncoder().encode("half")),
    pull: (controller) => gate.promise.then(() => controller.close()),
  });
  app.get("/hono-ended", () => new Response(streamed(), { headers: { "x-own": "1" } }));
  app.get("/hono-gone", () => new Response(streamed()));
  app.get("/hono-empty", () => new Response(null, { status: 204 }));
  app.get("/hono-broken", () => new Response(new ReadableStream({ pull: () => Promise.reject(new Error("no")) })));
  app.get("/hono-failed", () => Promise.reject(new Error("no")));
  const ended = await app.request("/hono-ended");
  const reader = ended.body.getReader();
  const first = (await reader.read()).value.length;
  assert.deepEqual([ended.headers.get("x-own"), first, await held("hono-ended")], ["1", 4, 1]);
  const gone = await app.request("/hono-gone");
  assert.equal(await held("hono-gone"), 1);
  await gone.body.cancel();
  await isFree("hono-gone");
  gate.resolve();
  assert.equal((await reader.read()).done, true);
  await isFree("hono-ended");
  assert.equal((await app.request("/hono-empty")).status, 204);
  await isFree("hono-empty");
  await assert.rejects((await app.request("/hono-broken")).text(), /no/);
  await isFree("hono-broken");
  assert.equal(await (await app.request("/hono-failed")).text(), "failed");
  await isFree("hono-failed");
});

test("a release that fails reaches no handler, and is in the log", async () => {
  const log = [];
  const lost = new Tally({
    url: server.url, retries: 0,
    fetch: (url, init) => (init.method === "DELETE" ? Promise.reject(new TypeError("lost")) : fetch(url, init)),
  });
  const app = new Hono();
  const keep = (line) => log.push(line);
  app.use(honoLimit(lost, { policy: "renders", hold: { ttl_seconds: 1 }, key: () => "lost", log: keep }));
  app.get("/", (c) => c.text("hello"));
  assert.equal(await (await app.request("/")).text(), "hello");
  await until(() => log.length === 1);
  assert.match(log[0], /^tally: policy "renders": a hold was not released, and lasts until its time ends: .*lost/);
  await isFree("lost");
});
