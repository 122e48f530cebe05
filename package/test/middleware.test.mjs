// What Hono's and Express's middleware make of each thing that can happen to a check: refused and unreachable are never
// confused, nothing throws into a handler, and what the operator has to know is in the log.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import express from "express";
import { Hono } from "hono";
import { limit as expressLimit } from "../client/express.ts";
import { limit as honoLimit } from "../client/hono.ts";
import { Tally } from "../client/index.ts";

const json = (status, body, headers = {}) => () =>
  new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json", ...headers } });
const problem = (status, code, detail, headers) => json(status, { code, detail, status }, headers);
const allowed = json(200, { allowed: true, remaining: 4, reset_after_ms: 1_000, retry_after_ms: 0 });
const hang = () => new Promise(() => {});
const lost = () => Promise.reject(new TypeError("fetch failed"));

// A client whose checks are answered so, and the keys that it asked for.
function clientOf(answer) {
  const keys = [];
  const fetch = async (url) => {
    keys.push(decodeURIComponent(new URL(url).pathname.split("/").at(-1)));
    return answer();
  };
  return { keys, tally: new Tally({ url: "https://tally.example.com", key: "k", fetch }) };
}

const FRAMEWORKS = {
  async hono(tally, options, { address, headers = {} }) {
    const app = new Hono().use(honoLimit(tally, options));
    app.get("/", (c) => c.text(`verdict ${c.get("tally")?.remaining}`));
    const from = address === undefined ? {} : { "cf-connecting-ip": address };
    return app.request("/", { headers: { ...headers, ...from } });
  },
  async express(tally, options, { address, headers = {} }) {
    const app = express();
    app.use((request, _, next) => (Object.defineProperty(request, "ip", { value: address }), next()));
    app.use(expressLimit(tally, options));
    app.get("/", (_, response) => response.send(`verdict ${response.locals.tally?.remaining}`));
    const listener = app.listen(0, "127.0.0.1");
    await once(listener, "listening");
    try {
      return await fetch(`http://127.0.0.1:${listener.address().port}/`, { headers });
    } finally {
      listener.close();
    }
  },
};

// Sends one request through a middleware. Resolves to status, code, headers, log and the keys that were asked for.
async function through(framework, answer, options = {}, request = { address: "203.0.113.9" }) {
  const { keys, tally } = clientOf(answer);
  const log = [];
  const all = { policy: "api", log: (line) => log.push(line), ...options };
  const response = await FRAMEWORKS[framework](tally, all, request);
  const text = await response.text();
  const body = text.startsWith("{") ? JSON.parse(text) : {};
  return { status: response.status, code: body.code, text, headers: response.headers, log, keys };
}

const budget = problem(429, "quota-exceeded", "the key's budget of 5 a minute is used up", { "retry-after": "7" });
const CASES = [
  ["a verdict", allowed, {}, 200, undefined, null],
  ["a refusal", json(429, { allowed: false, code: "quota-exceeded" }, { "retry-after": "9" }), {}, 429, "quota-exceeded", null],
  ["its own budget is used up", budget, {}, 503, "limiter-budget", /budget.*the key's budget of 5 a minute is used up/],
  ["its own budget is used up, open", budget, { onError: "open" }, 503, "limiter-budget", /budget/],
  ["its key is not known", problem(401, "unauthorized", "send a key"), { onError: "open" }, 500, "limiter-misconfigured", /key of this program.*send a key/],
  ["its key may not", problem(403, "forbidden", "not this"), {}, 500, "limiter-misconfigured", /key of this program/],
  ["there is no such policy", problem(404, "policy-not-found", "no policy"), {}, 500, "limiter-misconfigured", /no policy/],
  ["the check is wrong", problem(400, "invalid-cost", "no cost"), {}, 500, "limiter-misconfigured", /no cost/],
  ["a redirect", json(307, {}, { location: "https://example.com/" }), { onError: "open" }, 500, "limiter-misconfigured", /redirects to/],
  ["a page that is not Tally's", () => new Response("<html>"), {}, 500, "limiter-misconfigured", /not Tally/],
  ["nobody answers", lost, {}, 200, undefined, /let through.*fetch failed/],
  ["nobody answers, closed", lost, { onError: "closed" }, 503, "limiter-unavailable", /get 503/],
  ["nobody answers, and the check is closed", lost, { check: { limit: 5, window_seconds: 60, on_error: "closed" } }, 503, "limiter-unavailable", /get 503/],
  ["nobody answers, and the check is for the world", lost, { check: { limit: 5, window_seconds: 60, scope: "global" } }, 503, "limiter-unavailable", /get 503/],
  ["nobody answers, and the check is closed, but open here", lost, { check: { limit: 5, on_error: "closed" }, onError: "open" }, 200, undefined, /let through/],
  ["an error of the server", problem(500, "internal", "broken"), {}, 200, undefined, /let through.*broken/],
  ["a closed policy", problem(503, "limiter-unavailable", "closed"), {}, 503, "limiter-unavailable", /get 503/],
  ["a closed policy, but open here", problem(503, "limiter-unavailable", "closed"), { onError: "open" }, 200, undefined, /let through/],
  ["a hanging check", hang, { deadline_ms: 30 }, 200, undefined, /no answer within 30 ms/],
  ["an overloaded server", problem(503, "overloaded", "busy", { "retry-after": "5" }), { deadline_ms: 4_000 }, 200, undefined, /busy/],
  ["a bad prefix", allowed, { ipv6Prefix: 0, onBadKey: "refuse" }, 400, "no-key", /no valid key/],
];

for (const framework of Object.keys(FRAMEWORKS)) {
  for (const [name, answer, options, status, code, logged] of CASES) {
    test(`${framework}: ${name}`, { timeout: 10_000 }, async () => {
      const found = await through(framework, answer, options);
      assert.deepEqual([found.status, found.code], [status, code], found.text);
      if (logged === null) assert.deepEqual(found.log, []);
      else {
        assert.equal(found.log.length, 1);
        assert.match(found.log[0], logged);
        assert.match(found.log[0], /^tally: policy "api": /);
      }
      if (status === 503 || status === 429) assert.ok(Number(found.headers.get("retry-after")) >= 1);
      // Only what did not answer is decided by `onError`, and says so.
      const isAway = logged !== null && /does not answer/.test(found.log[0]);
      assert.equal(found.headers.get("tally-on-error"), isAway ? (status === 200 ? "open" : "closed") : null);
    });
  }

  test(`${framework}: a key that is none is answered 400, or shares a quota, and never asked for`, async () => {
    const fails = () => {
      throw new Error("no user");
    };
    const rejects = () => Promise.reject(new Error("no user"));
    for (const key of [undefined, null, "", "..", "a\ud800", "a\n", 7, "x".repeat(513), fails, rejects]) {
      const options = { key: typeof key === "function" ? key : () => key };
      const refused = await through(framework, allowed, options);
      assert.deepEqual([refused.status, refused.code, refused.keys, refused.log.length], [400, "no-key", [], 1]);
      const shared = await through(framework, allowed, { ...options, onBadKey: "share" });
      assert.deepEqual([shared.status, shared.keys, shared.log.length], [200, ["(no key)"], 1]);
    }
    const nobody = await through(framework, allowed, {}, {});
    assert.deepEqual([nobody.status, nobody.keys], [400, []]);
  });

  test(`${framework}: all spellings of an address, and all addresses of a network, are one key`, async () => {
    const spelt = ["203.0.113.9", "::ffff:203.0.113.9", "203.0.113.9:4711", "2001:db8::1", "2001:DB8:0:0:ffff::2"];
    const keys = [];
    for (const address of spelt) keys.push(...(await through(framework, allowed, {}, { address })).keys);
    assert.deepEqual(keys, ["203.0.113.9", "203.0.113.9", "203.0.113.9", "2001:db8::", "2001:db8::"]);
    const own = await through(framework, allowed, { ipv6Prefix: 48 }, { address: "2001:db8:1:2::3" });
    assert.deepEqual(own.keys, ["2001:db8:1::"]);
  });

  test(`${framework}: options that are none harm nothing, and the operator reads which`, async (context) => {
    const logged = context.mock.method(console, "error", () => {});
    for (const options of [
      { policy: undefined }, { policy: null }, { policy: 7 }, { policy: "" }, { policy: ".." }, { policy: {} },
      { policy: Symbol("p") }, { policy: "a\n" }, { policy: "a\ud800" }, { policy: "x".repeat(513) },
      { deadline_ms: NaN }, { deadline_ms: "1000" }, { deadline_ms: 0 }, { deadline_ms: -1 }, { cost: 5n },
      { check: { limit: 5n } }, { hold: { amount: 5n } },
    ]) {
      const found = await through(framework, allowed, options);
      const said = [found.status, found.code, found.keys, found.log.length];
      assert.deepEqual(said, [500, "limiter-misconfigured", [], 1], found.log[0]);
    }
    const { tally: client } = clientOf(allowed);
    const none = [undefined, null, "p", 7, { policy: Object.create(null) }].map((options) => [client, options]);
    for (const [tally, options] of [...none, [undefined, { policy: "p" }]]) {
      const response = await FRAMEWORKS[framework](tally, options, { address: "203.0.113.9" });
      assert.equal(response.status, 500);
    }
    assert.ok(logged.mock.callCount() >= 1);
  });

  test(`${framework}: whatever answers instead of Tally is what it is, and no number of it reaches a header`, async () => {
    const page = (status) => () => new Response("<html>", { status, headers: { "content-type": "text/html" } });
    const says = (status, text) => () => new Response(text, { status });
    for (const [answer, status, code] of [
      [page(502), 200], [page(504), 200], [page(599), 200], [page(408), 200], [page(429), 503, "limiter-budget"],
      [page(404), 500, "limiter-misconfigured"], [page(401), 500, "limiter-misconfigured"],
      [says(200, "null"), 500, "limiter-misconfigured"], [says(200, "[]"), 500, "limiter-misconfigured"],
      [says(200, '{"allowed":1}'), 500, "limiter-misconfigured"], [says(200, ""), 500, "limiter-misconfigured"],
      [says(429, "null"), 503, "limiter-budget"], [says(429, "{"), 503, "limiter-budget"], [says(500, "null"), 200],
      [says(200, '{"allowed":false,"retry_after_ms":"soon"}'), 429, "quota-exceeded"],
      [says(200, '{"allowed":true,"remaining":"5\\nx: y"}'), 200], [() => undefined, 200], [() => ({}), 200],
    ]) {
      const found = await through(framework, answer);
      assert.deepEqual([found.status, found.code], [status, code], found.log[0] ?? found.text);
      const after = found.headers.get("retry-after");
      assert.ok(after === null || Number(after) >= 1, after);
    }
  });

  test(`${framework}: a log that fails, or is called too often, harms nothing`, async () => {
    const fails = () => {
      throw new Error("no log");
    };
    const later = async () => {
      throw new Error("no log");
    };
    assert.equal((await through(framework, lost, { log: fails })).status, 200);
    assert.equal((await through(framework, lost, { log: later })).status, 200);
    const log = [];
    const options = { policy: "api", log: (line) => log.push(line) };
    for (let count = 0; count < 3; count += 1) {
      await FRAMEWORKS[framework](clientOf(lost).tally, options, { address: "203.0.113.9" });
    }
    assert.equal(log.length, 1, "one line a minute of each kind");
  });
}

test("a stored policy that is closed stays closed when Tally goes away", async () => {
  const closed = json(200, { allowed: true, remaining: 4, reset_after_ms: 1_000 }, {
    "ratelimit-policy": '"api";q=5;w=60;tally-on-error=closed',
  });
  for (const framework of Object.keys(FRAMEWORKS)) {
    const answers = [closed, lost];
    const { tally } = clientOf(() => answers.shift()());
    const statuses = [];
    for (let count = 0; count < 2; count += 1) {
      const response = await FRAMEWORKS[framework](tally, { policy: "api", log: () => {} }, { address: "203.0.113.9" });
      statuses.push(response.status);
    }
    assert.deepEqual(statuses, [200, 503], framework);
  }
});

test("the example in front of an origin asks it while nothing judges, unless its policy is closed", async (context) => {
  const example = readFileSync(new URL("../../examples/protect-origin/worker.mjs", import.meta.url), "utf8");
  const closed = example.replace("window_seconds: 60 }", 'window_seconds: 60, on_error: "closed" }');
  assert.notEqual(closed, example);
  context.mock.method(console, "error", () => {});
  context.mock.method(globalThis, "fetch", async () => new Response("hello"));
  for (const answer of [lost, problem(503, "limiter-unavailable", "closed")]) {
    for (const [source, status] of [[example, 200], [closed, 503]]) {
      const { default: worker } = await import(`data:text/javascript,${encodeURIComponent(source)}`);
      const env = { TALLY: { fetch: answer }, TALLY_KEY: "k", ADDRESS_SALT: "salt" };
      assert.equal((await worker.fetch(new Request("https://example.com/"), env)).status, status);
    }
  }
});

test("a check ends at its deadline, whatever the transport does", { timeout: 10_000 }, async () => {
  const start = (controller) => controller.enqueue(new Uint8Array([123]));
  const slow = () => new Response(new ReadableStream({ start }));
  for (const answer of [hang, slow]) {
    const tally = new Tally({ url: "https://tally.example.com", fetch: answer, check_ms: 30 });
    await assert.rejects(tally.limit("p", "k"), { code: "no-answer", status: 0 });
  }
});

test("a key that no header can carry is an error at once, which does not quote it; space around a key is left out", async () => {
  const secret = "adaba5433c816c87";
  const url = "https://tally.example.com";
  for (const key of [`${secret}\nThis is the key`, `${secret} ${secret}`, `${secret}\u00fc`, 7]) {
    assert.throws(() => new Tally({ url, key }), ({ name, message }) => {
      assert.deepEqual([name, message.slice(0, 6), message.includes(secret)], ["TypeError", "`key` ", false]);
      return true;
    });
  }
  for (const [key, sent] of [[`${secret}\n`, `Bearer ${secret}`], ["", undefined], [undefined, undefined]]) {
    let headers;
    const fetch = async (_, init) => (({ headers } = init), json(200, {})());
    await new Tally({ url, key, fetch }).request("GET", "/healthz");
    assert.equal(headers.authorization, sent, JSON.stringify(key));
  }
});

// A client whose holds are granted, and what was released.
function holding() {
  const released = [];
  const fetch = async (url, { method }) => {
    if (method === "DELETE") released.push(new URL(url).pathname.split("/").at(-1));
    return json(200, { allowed: true, remaining: 1, hold: { id: "held" } })();
  };
  return { released, tally: new Tally({ url: "https://tally.example.com", fetch }) };
}

test("Hono: a hold ends with the answer to HEAD, and where the client hangs up before there is an answer", async () => {
  const { released, tally } = holding();
  const app = new Hono().use(honoLimit(tally, { policy: "p", hold: {}, key: () => "k" }));
  app.get("/", (c) => c.text("hello"));
  const head = await app.request("/", { method: "HEAD" });
  assert.deepEqual([head.status, released], [200, ["held"]]);
  assert.deepEqual([await (await app.request("/")).text(), released.length], ["hello", 2]);

  // A server that has lost its client neither reads the body nor cancels it.
  for (const isLate of [false, true]) {
    const hangsUp = new AbortController();
    const [entered, answered] = [Promise.withResolvers(), Promise.withResolvers()];
    const slow = new Hono().use(honoLimit(tally, { policy: "p", hold: {}, key: () => "k" }));
    slow.get("/", async (c) => (entered.resolve(), await answered.promise, c.body(new ReadableStream({}))));
    const before = released.length;
    const asked = slow.request("/", { signal: hangsUp.signal });
    await entered.promise;
    if (!isLate) hangsUp.abort();
    answered.resolve();
    await asked;
    if (isLate) hangsUp.abort();
    assert.equal(released.length, before + 1);
  }
});

// Lets what was begun go on.
const turn = () => new Promise((done) => setImmediate(done));

// Calls of the test before clear their timers first.
const mockTimers = ({ mock }) => turn().then(() => mock.timers.enable({ apis: ["setTimeout"] }));

test("Hono: a hold is released where middleware outside answers, and that answer stays whole", async (context) => {
  await mockTimers(context);
  for (const [when, isRead] of [["reserve", false], ["handler", false], ["handler", true]]) {
    const { released, tally } = holding();
    const [entered, answered] = [Promise.withResolvers(), Promise.withResolvers()];
    const errors = [];
    const app = new Hono();
    app.onError((error, c) => (errors.push(error), c.text("late", 504)));
    app.use(async (c, next) => {
      const rest = next().catch((error) => errors.push(error));
      await entered.promise;
      c.executionCtx.waitUntil(rest);
      throw new Error("too late");
    });
    const slowly = async () => {
      entered.resolve();
      await answered.promise;
    };
    const key = async () => (when === "reserve" && (await slowly()), "k");
    app.use(honoLimit(tally, { policy: "p", hold: {}, key }));
    app.get("/", async (c) => (when === "handler" && (await slowly()), c.text("hello")));
    const waits = [];
    const worker = { waitUntil: (work) => waits.push(work), passThroughOnException() {} };
    const response = await app.request("/", {}, {}, worker);
    const early = isRead ? await response.text() : undefined;
    answered.resolve();
    await Promise.all(waits);
    assert.deepEqual([response.status, early ?? (await response.text())], [504, "late"], when);
    context.mock.timers.tick(1_000);
    await turn();
    assert.deepEqual([released, errors.map(({ message }) => message)], [["held"], ["too late"]], when);
  }
});

test("Hono: a hold is released where middleware outside puts another answer in its place", async (context) => {
  await mockTimers(context);
  const { released, tally } = holding();
  const app = new Hono();
  app.use(async (c, next) => {
    await next();
    c.res = undefined;
    c.res = new Response("other");
  });
  app.use(honoLimit(tally, { policy: "p", hold: {}, key: () => "k" }));
  app.get("/", (c) => c.text("hello"));
  assert.equal(await (await app.request("/")).text(), "other");
  context.mock.timers.tick(1_000);
  await turn();
  assert.deepEqual(released, ["held"]);
});

test("Hono: a body that two limits hold ends both holds, and none before", async (context) => {
  await mockTimers(context);
  const { released, tally } = holding();
  const app = new Hono();
  for (const key of ["outer", "inner"]) app.use(honoLimit(tally, { policy: "p", hold: {}, key: () => key }));
  const last = Promise.withResolvers();
  const pull = async (controller) => (await last.promise, controller.close());
  app.get("/", (c) => c.body(new ReadableStream({ start: (controller) => controller.enqueue("hello"), pull })));
  const reader = (await app.request("/")).body.getReader();
  assert.equal((await reader.read()).value, "hello");
  context.mock.timers.tick(5_000);
  await turn();
  assert.deepEqual(released, []);
  last.resolve();
  assert.equal((await reader.read()).done, true);
  await turn();
  assert.equal(released.length, 2);
});

test("Express: an answer that is given already stays as it is, and a handler sees no error", { timeout: 10_000 }, async () => {
  for (const answer of [allowed, json(429, { allowed: false, code: "quota-exceeded" })]) {
    const { tally } = clientOf(answer);
    const errors = [];
    const app = express();
    app.use((_, response, next) => (response.send("early"), next()));
    app.use(expressLimit(tally, { policy: "p", key: () => "k", log() {} }));
    app.use((error, _, __, next) => (errors.push(error), next()));
    const listener = app.listen(0, "127.0.0.1");
    await once(listener, "listening");
    const response = await fetch(`http://127.0.0.1:${listener.address().port}/`);
    assert.deepEqual([await response.text(), errors], ["early", []]);
    listener.close();
    await once(listener, "close");
  }
});
