// What the client makes of a server's answers: the dialogues of tests/fixtures/clients.json, which Python's client has
// too (package/python/test_client.py).
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Tally, TallyError } from "../client/index.ts";
import { TALLY, run } from "./server.mjs";

const {
  ids, idempotency_keys: keysOf, urls, no_pages: noPages, retry_after: retryAfter, calls, away, flush,
} = JSON.parse(readFileSync(new URL("../../tests/fixtures/clients.json", import.meta.url), "utf8"));
const textOf = (value) => (Array.isArray(value?.repeat) ? value.repeat[0].repeat(value.repeat[1]) : value);

// A server that gives these answers, one after the other, the last one for ever. `asked` are the requests.
async function answering(answers, other = "") {
  const asked = [];
  const listener = createServer(async (request, response) => {
    const body = Buffer.concat(await Array.fromAsync(request)).toString();
    asked.push({ url: request.url, headers: request.headers, body });
    const answer = answers[Math.min(asked.length, answers.length) - 1];
    if (answer === "hang") return;
    if (answer === "drip") {
      response.writeHead(200, { "content-length": "1000" });
      const drops = setInterval(() => response.write(" "), 20);
      return void response.once("close", () => clearInterval(drops));
    }
    if (answer === "lost") return void response.destroy();
    if (answer === "cut") {
      response.writeHead(200, { "content-length": "100" }).write('{"value":');
      return void setImmediate(() => response.destroy());
    }
    const { status, headers = {}, body: said, text = JSON.stringify(said) } = answer;
    const named = Object.entries(headers).map(([name, value]) => [name, value === "<other>" ? other : value]);
    response.writeHead(status, Object.fromEntries(named)).end(text);
  }).listen(0, "127.0.0.1");
  await once(listener, "listening");
  return {
    url: `http://127.0.0.1:${listener.address().port}`,
    asked,
    say: (more) => answers.splice(0, answers.length, ...more),
    keys: () => new Set(asked.map(({ headers }) => headers["idempotency-key"])).size,
    sent: () => asked.map(({ body }) => body.split("\n").map((line) => JSON.parse(line).id)),
    end: () => (listener.closeAllConnections(), listener.close()),
  };
}

test("an id that is not valid is refused by the name of its argument, before anything is sent", async () => {
  const server = await answering([{ status: 200, body: {} }]);
  const tally = new Tally({ url: server.url });
  for (const { call, arguments: given, names } of ids.calls) {
    for (const bad of [...ids.bad.map(textOf), undefined]) {
      await assert.rejects(
        tally[call](...given.map((one) => (one === "<id>" ? bad : one))),
        (error) =>
          error instanceof TallyError && error.code === "invalid-id" && error.message.startsWith(`\`${names}\` `),
        `${call} ${JSON.stringify(bad)}`,
      );
    }
  }
  for (const bad of [...ids.bad.map(textOf), undefined]) {
    assert.throws(() => tally.count(bad), { code: "invalid-id" });
    if (bad !== "" && bad !== "." && bad !== "..") await assert.rejects(tally.aggregate(bad), { code: "invalid-id" });
  }
  await assert.rejects(tally.top({ prefix: "\ud800" }), { code: "invalid-id", message: /^`prefix` / });
  for (const path of ["", "healthz", "@example.com/", ".example.com/", "//example.com/"]) {
    await assert.rejects(tally.request("GET", path), { code: "invalid-path" });
  }
  assert.equal(server.asked.length, 0);
  for (const good of ids.good) {
    await tally.get(good);
    assert.equal(decodeURIComponent(server.asked.at(-1).url.slice("/counters/".length)), good);
  }
  server.end();
});

test("an idempotency key that is none is refused by its name, before anything is sent", async () => {
  const server = await answering([{ status: 200, body: {} }]);
  const tally = new Tally({ url: server.url });
  for (const bad of keysOf.bad.map(textOf)) {
    const refusal = { code: "invalid-idempotency-key", message: /^`idempotencyKey` / };
    await assert.rejects(tally.increment("a", 1, { idempotencyKey: bad }), refusal, JSON.stringify(bad));
    await assert.rejects(tally.events([{ id: "a" }], { idempotencyKey: bad }), refusal);
  }
  assert.equal(server.asked.length, 0);
  for (const good of keysOf.good.map(textOf)) {
    await tally.increment("a", 1, { idempotencyKey: good });
    assert.equal(server.asked.at(-1).headers["idempotency-key"], good);
  }
  await tally.increment("a", 1, { idempotencyKey: null });
  assert.match(server.asked.at(-1).headers["idempotency-key"], /^[\da-f-]{36}$/);
  server.end();
});

test("what is no page of a list ends it by an error, and so does the same page again", async () => {
  for (const body of noPages) {
    const server = await answering([{ status: 200, body }]);
    const listing = Array.fromAsync(new Tally({ url: server.url }).counters("x/"));
    await assert.rejects(listing, { name: "TallyError", code: "not-tally" }, JSON.stringify(body));
    server.end();
  }
});

test("what makes no request is the caller's fault: it is no server that is away, and is not tried again", async () => {
  const server = await answering([{ status: 200, body: { allowed: true } }]);
  const tally = new Tally({ url: server.url });
  const circle = {};
  circle.circle = circle;
  for (const body of [{ cost: 5n }, { circle }, { toJSON: () => assert.fail("theirs") }]) {
    for (const asked of [
      tally.limit("p", "k", body), tally.reserve("p", "k", body), tally.increment("a", body), tally.events([body]),
    ]) {
      await assert.rejects(asked, (error) => !(error instanceof TallyError));
    }
  }
  for (const deadline_ms of [NaN, 0, -1, "1000", 5n]) {
    const message = /^`deadline_ms` is /;
    await assert.rejects(tally.limit("p", "k", {}, undefined, deadline_ms), { name: "RangeError", message });
  }
  assert.equal(server.asked.length, 0);
  server.end();
});

test("an option that is none is refused by its name, and a long time is one", async () => {
  const url = "http://127.0.0.1:1";
  const bad = [NaN, -1, "5", true, {}, 5n];
  for (const name of ["retries", "timeout_ms", "check_ms"]) {
    const message = new RegExp(`^\`${name}\` is `);
    for (const value of bad) assert.throws(() => new Tally({ url, [name]: value }), { name: "RangeError", message });
  }
  for (const name of ["events_max", "wait_ms", "flush_ms", "queue_max"]) {
    const message = new RegExp(`^\`${name}\` is `);
    for (const value of bad) {
      assert.throws(() => new Tally({ url, batch: { [name]: value } }), { name: "RangeError", message });
    }
  }
  for (const wrong of [
    "tally.example.com", "ftp://example.com", "https://", "", "/tally", 7, {}, null, "https://a?b", "https://a#b",
    "localhost:8787",
  ]) {
    assert.throws(() => new Tally({ url: wrong }), { name: "TypeError", message: /`url`/ }, String(wrong));
  }
  assert.throws(() => new Tally(), { name: "TypeError", message: /`url`/ });
  const server = await answering([{ status: 200, body: { value: 7 } }]);
  for (const ms of [Infinity, 2 ** 40, null, undefined]) {
    const tally = new Tally({ url: `${server.url}//`, timeout_ms: ms, batch: { wait_ms: ms }, retries: 0 });
    assert.deepEqual(await tally.get("a"), { value: 7 });
  }
  assert.equal(server.asked.length, 4);
  server.end();
  await assert.rejects(new Tally({ url, retries: 0.5 }).get("a"), { code: "no-answer" });
});

test("an address with a user name or a password is refused, and the error does not quote it", async () => {
  for (const url of urls.secret) {
    const refusal = { name: "TypeError", message: /^`url` has a user name or a password: (?!.*secret)/ };
    assert.throws(() => new Tally({ url }), refusal, url);
  }
  for (const url of urls.good) assert.ok(new Tally({ url }));
  const [url] = urls.secret;
  for (const [args, env, name] of [[["--url", url], {}, "--url"], [[], { TALLY_URL: url }, "TALLY_URL"]]) {
    for (const call of [["get", "a"], ["doctor"], ["mcp"], ["import", "-"]]) {
      const { code, stdout, stderr } = await run(process.execPath, [TALLY, ...call, ...args], { env });
      assert.deepEqual([code, stdout], [2, ""], stderr);
      assert.match(stderr, new RegExp(`^tally: ${name} has a user name or a password: (?!.*secret)[^\n]+\n$`));
    }
  }
  for (const wrong of ["http://example.com?a", "http://example.com#a", "example.com", ""]) {
    const { code, stderr } = await run(process.execPath, [TALLY, "get", "a", "--url", wrong]);
    assert.deepEqual([code, stderr.startsWith(`tally: --url is ${JSON.stringify(wrong)}: `)], [2, true], stderr);
  }
});

test("a refusal says when to ask again, in seconds or by a time, and never before now", async () => {
  const said = (text) => {
    const fetch = async () => new Response("{}", { status: 429, headers: { "retry-after": text } });
    return new Tally({ url: "http://127.0.0.1:1", fetch }).get("a").catch((error) => error.retry_after_ms ?? null);
  };
  for (const [text, ms] of retryAfter) assert.equal(await said(text), ms, text);
  const late = new Date(Date.now() + 90_000).toUTCString();
  for (const text of [late, late.replace(",", "").replace(/(\d\d) (\w{3}) (\d{4}) (\S+) GMT/, "$2 $1 $4 $3")]) {
    const ms = await said(text);
    assert.ok(ms > 80_000 && ms <= 90_000, `${text}: ${ms}`);
  }
  const headers = { "retry-after": late };
  const fetch = async () => new Response('{"allowed":false}', { status: 429, headers });
  const { retry_after_ms } = await new Tally({ url: "http://127.0.0.1:1", fetch }).limit("p", "k");
  assert.ok(retry_after_ms > 80_000);
});

test("what is no list is refused by its name, before anything is sent", async () => {
  const server = await answering([{ status: 200, body: { entries: [] } }]);
  const tally = new Tally({ url: server.url });
  for (const wrong of ["fb", {}, null, undefined, 7, new Set(["f"])]) {
    await assert.rejects(tally.boardsTop(wrong), { name: "TypeError", message: /^`boards` is a / });
    await assert.rejects(tally.events(wrong), { name: "TypeError", message: /^`events` is a / });
  }
  for (const bad of ids.bad.map(textOf)) {
    await assert.rejects(tally.boardsTop(["f", bad]), { code: "invalid-id", message: /^`boards` / });
  }
  assert.equal(server.asked.length, 0);
  server.end();
});

test("an amount is an amount, by any call, and what is none is never 1", async () => {
  const server = await answering([{ status: 200, body: { accepted: 1 } }]);
  const tally = new Tally({ url: server.url, key: "k" });
  for (const [amount, sent] of [
    [5, 5], [5n, "5"], ["5", "5"], [NaN, null], [null, null], [true, null], [() => 5, null], [Symbol("5"), null],
    [undefined, undefined], [{ delta: 5 }, 5], [{ delta: () => 5 }, null], [{ delta: Symbol("5") }, null],
  ]) {
    await tally.increment("a", amount);
    await tally.decrement("a", amount);
    tally.count("a", amount);
    await tally.flush();
    for (const { body } of server.asked.splice(0)) assert.equal(JSON.parse(body).delta, sent, String(amount));
  }
  server.end();
});

for (const { name, call: [method, ...given], answers, requests, keys, check_ms, result, error } of calls) {
  test(`${name}: ${method}`, { timeout: 30_000 }, async () => {
    const other = await answering([{ status: 200, body: { value: 7, allowed: true } }]);
    const server = await answering([...answers], `${other.url}/elsewhere`);
    const tally = new Tally({ url: server.url, key: "secret", ...(check_ms === undefined ? {} : { check_ms }) });
    const asked = tally[method](...given);
    if (error === undefined) assert.deepEqual((await asked) ?? null, result);
    else {
      const thrown = await asked.then(() => undefined, (reason) => reason);
      assert.ok(thrown instanceof TallyError);
      assert.deepEqual({ status: thrown.status, code: thrown.code }, error);
    }
    assert.equal(server.asked.length, requests);
    assert.ok(server.asked.every(({ headers }) => headers.authorization === "Bearer secret"));
    assert.equal(other.asked.length, 0, "the key leaves its origin");
    if (keys !== undefined) assert.equal(server.keys(), keys);
    server.end();
    other.end();
  });
}

for (const { name, check, answers, on_error } of away) {
  test(`what an error of limit() says of on_error: ${name}`, async () => {
    const server = await answering([...answers]);
    const tally = new Tally({ url: server.url });
    for (const _ of answers.slice(1)) await tally.limit("p", "k", check);
    const error = await tally.limit("p", "k", check).catch((reason) => reason);
    assert.ok(error instanceof TallyError);
    assert.equal(error.on_error ?? null, on_error);
    server.end();
  });
}

// Counts events, and resolves to what flush() says of them: `{ refused, late }`.
async function flushed(tally, events, told) {
  for (const id of events) tally.count(id);
  const said = [];
  await tally.flush().catch((error) => said.push(error));
  if (told !== undefined) assert.deepEqual(said, []);
  const all = told ?? said;
  assert.ok(all.every((error) => error instanceof TallyError));
  return {
    refused: all.flatMap((error) => error.events.map(({ event, code }) => [event.id, code])),
    late: all.find((error) => error.events.length === 0)?.code,
  };
}

for (const { name, isKeyless, events, flush_ms, answers, sent, keys, refused = [], late, then } of flush) {
  for (const tells of [false, true]) {
    test(`flush(): ${name}${tells ? ", by onError" : ""}`, { timeout: 30_000 }, async () => {
      const server = await answering([...answers]);
      const told = tells ? [] : undefined;
      const batch = { flush_ms, ...(tells ? { onError: (error) => told.push(error) } : {}) };
      const tally = new Tally({ url: server.url, ...(isKeyless ? {} : { key: "secret" }), batch });
      assert.deepEqual(await flushed(tally, events, told), { refused, late });
      assert.deepEqual([server.sent(), server.keys()], [sent, keys]);
      const own = server.asked.flatMap(({ body }) => body.split("\n").map((line) => JSON.parse(line).idempotency_key));
      assert.equal(own.every((id) => (id === undefined) !== (isKeyless === true)), true);
      if (then !== undefined) {
        server.say(then.answers);
        await tally.flush();
        assert.deepEqual([server.sent(), server.keys()], [then.sent, then.keys]);
      }
      // Whatever was settled is not sent again.
      const before = server.asked.length;
      await tally.flush();
      assert.equal(server.asked.length, before);
      server.end();
    });
  }
}

test("the command follows no redirect, and says what to set", async () => {
  const other = await answering([{ status: 200, body: { id: "a", value: 7 } }]);
  const redirect = { status: 302, headers: { location: "<other>" }, body: {} };
  const server = await answering([redirect], `${other.url}/counters/a`);
  const env = { TALLY_URL: server.url, TALLY_KEY: "secret" };
  for (const args of [["get", "a"], ["top"]]) {
    const { code, stderr } = await run(process.execPath, [TALLY, ...args], { env });
    assert.equal(code, 1);
    assert.match(stderr, /redirects to .*: set `url` to the address at which Tally itself answers/);
  }
  assert.deepEqual([server.asked.length, other.asked.length], [2, 0]);
  server.end();
  other.end();
});

test("what others wrote moves no terminal: neither a line of a log nor a server's detail", async () => {
  const evil = "\u001b]0;owned\u0007\u009b2J\r\u007fred";
  const shown = "\\x1b]0;owned\\x07\\x9b2J\\x0d\\x7fred";
  const refusal = { status: 400, body: { code: "invalid-query", detail: `why ${evil}` } };
  const server = await answering([refusal]);
  const place = mkdtempSync(join(tmpdir(), "tally-evil-"));
  const env = { TALLY_URL: server.url, TALLY_STATE: place };
  const said = await run(process.execPath, [TALLY, "get", "a"], { env });
  assert.equal(said.stderr, `tally: why ${shown}\n`);
  server.say([{ status: 200, body: { accepted: 1, rejected: 0, errors: [], rejected_lines: [] } }]);
  const line = '203.0.113.9 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 1\n';
  writeFileSync(join(place, "evil.log"), `${line}${evil}\n`);
  const { code, stdout } = await run(process.execPath, [TALLY, "import", join(place, "evil.log")], { env });
  assert.equal(code, 6);
  assert.ok(stdout.includes(shown), stdout);
  assert.doesNotMatch(stdout, /[^\n\P{Cc}]/u);
  rmSync(place, { recursive: true });
  server.end();
});

test("events that nobody takes are bounded, and further ones are told", async () => {
  const told = [];
  const batch = { queue_max: 3, flush_ms: 1, onError: (error) => told.push(error) };
  const tally = new Tally({ url: "http://127.0.0.1:1", key: "k", retries: 0, batch });
  for (const id of ["a", "b", "c", "d", "e"]) tally.count(id);
  const refused = told.map(({ code, events }) => [code, events[0].event.id]);
  assert.deepEqual(refused, [["queue-full", "d"], ["queue-full", "e"]]);
  await tally.flush();
  assert.deepEqual([told.length, told[2].code, told[2].message.startsWith("3 events wait")], [3, "no-answer", true]);
});

test("events that flush() could not send are sent again by themselves", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const sent = Promise.withResolvers();
  const busy = [{ code: "overloaded", detail: "busy" }, { status: 503, headers: { "retry-after": "600" } }];
  const answers = [busy, [{ accepted: 1, rejected: 0, errors: [] }]];
  const fetch = async () => {
    const [body, about] = answers.shift();
    if (answers.length === 0) sent.resolve();
    return new Response(JSON.stringify(body), about);
  };
  const tally = new Tally({ url: "https://tally.example.com", key: "k", fetch, batch: { flush_ms: 1_000 } });
  tally.count("a");
  await assert.rejects(tally.flush(), { code: "overloaded" });
  context.mock.timers.tick(10_000);
  await sent.promise;
  await tally.flush();
});

test("a function of the caller's that throws harms nothing", async (context) => {
  context.mock.method(console, "error", () => {});
  const server = await answering([...flush.find(({ refused }) => refused).answers]);
  const tally = new Tally({ url: server.url, key: "k", batch: { onError: () => assert.fail("theirs") } });
  for (const id of ["a", "b", "c"]) tally.count(id);
  tally.count(undefined);
  await tally.flush();
  assert.equal(server.asked.length, 1);
  server.end();
});

test("an id of which no JSON can be made is told as any other", () => {
  const circle = {};
  circle.circle = circle;
  const told = [];
  const tally = new Tally({ url: "http://127.0.0.1:1", batch: { onError: (error) => told.push(error) } });
  const ids = [10n, circle, { toJSON: () => assert.fail("theirs") }];
  for (const id of ids) tally.count(id);
  assert.deepEqual(told.map(({ code, events }) => [code, events[0].event.id]), ids.map((id) => ["invalid-id", id]));
  assert.match(told[0].message, /^an event of a bigint was refused: `id` is bigint/);
});

test("a signal may be null, and what is none is named before anything is sent", async () => {
  const server = await answering([{ status: 200, body: { value: 7 } }]);
  const tally = new Tally({ url: server.url });
  assert.deepEqual(await tally.get("a", {}, null), { value: 7 });
  for (const signal of [{}, "x", 7, new AbortController()]) {
    const named = { name: "TypeError", message: /^`signal` is a / };
    await assert.rejects(tally.increment("a", 1, { signal }), named);
    await assert.rejects(tally.get("a", {}, signal), named);
  }
  assert.equal(server.asked.length, 1);
  server.end();
});

test("what nobody reads to its end is ended: a stream without sense, and the page of a redirect", async () => {
  const open = [];
  const endless = (init) => async (_, { signal }) => {
    const body = new ReadableStream({ start: (stream) => stream.enqueue(new TextEncoder().encode("data: {\n\n")) });
    open.push(signal);
    return new Response(body, init);
  };
  const tally = (init) => new Tally({ url: "http://127.0.0.1:1", fetch: endless(init) });
  await new Promise((done) => {
    const stop = tally({ status: 200 }).watch("a", () => {}, () => setImmediate(() => done(stop())));
  });
  assert.deepEqual(open.map(({ aborted }) => aborted), [true]);
  await assert.rejects(tally({ status: 302 }).get("a"), { code: "redirected" });
  assert.deepEqual(open.map(({ aborted }) => aborted), [true, true]);
});

test("a listener of a counter that throws hides no change from the others", async (context) => {
  context.mock.method(console, "error", () => {});
  const update = 'data: {"type":"update","counters":{"a":{"value":3}}}\n\n';
  const store = new Tally({ url: "http://127.0.0.1:1", fetch: async () => new Response(update) }).useCounter("a");
  const first = store.subscribe(() => assert.fail("theirs"));
  await new Promise((done) => {
    const second = store.subscribe(() => done(second()));
  });
  first();
  assert.deepEqual(store.getSnapshot(), { value: 3 });
});

test("a function of the caller's that fails later harms nothing either", async (context) => {
  const logged = context.mock.method(console, "error", () => {});
  const update = { status: 200, text: 'data: {"type":"update","counters":{"a":{"value":3}}}\n\n' };
  const later = async () => {
    throw new Error("theirs");
  };
  const server = await answering([...flush.find(({ refused }) => refused).answers, update]);
  const tally = new Tally({ url: server.url, key: "k", batch: { onError: later } });
  for (const id of ["a", "b", "c"]) tally.count(id);
  await tally.flush();
  // One stream may go on whatever its callbacks do, and reports what they threw.
  for (const fails of [later, () => assert.fail("theirs")]) {
    const seen = [];
    await new Promise((done) => {
      const stop = tally.watch("a", fails, (error) => {
        seen.push(error.message);
        if (seen.length === 2) done(stop());
        throw error;
      });
    });
    assert.deepEqual(seen.sort(), [`${server.url} has ended the stream`, "theirs"]);
  }
  tally.watch("..", () => {}, later);
  await new Promise((done) => setImmediate(done));
  assert.ok(logged.mock.callCount() > 0);
  server.end();
});

test("a call by GET that counts is not repeated, and others are", async () => {
  const server = await answering(["lost"]);
  const tally = new Tally({ url: server.url, retries: 1 });
  await assert.rejects(tally.hit("a"), { code: "no-answer" });
  await assert.rejects(tally.request("GET", "/pixel/a.gif"), { code: "no-answer" });
  assert.equal(server.asked.length, 2);
  await assert.rejects(tally.get("a"), { code: "no-answer" });
  assert.equal(server.asked.length, 4);
  server.end();
});

test("a list is read page by page", async () => {
  const pages = [
    { entries: [{ id: "a" }], cursor: "a&b" }, { entries: [], cursor: "c" }, { entries: [{ id: "d" }], cursor: null },
  ];
  const server = await answering(pages.map((body) => ({ status: 200, body })));
  const listed = await Array.fromAsync(new Tally({ url: server.url }).counters("x/"));
  assert.deepEqual(listed.map(({ id }) => id), ["a", "d"]);
  const cursors = server.asked.map(({ url }) => new URL(url, server.url).searchParams.get("cursor"));
  assert.deepEqual(cursors, [null, "a&b", "c"]);
  server.end();
});

test("watch() says what is wrong, follows no redirect, and is opened again after what passes", async () => {
  const other = await answering([{ status: 200, text: "" }]);
  const redirect = { status: 307, headers: { location: "<other>" }, body: {} };
  const update = { status: 200, text: 'id: 7\ndata: {"type":"update","counters":{"a":{"value":3}}}\n\n' };
  const server = await answering(["lost", update, redirect], other.url);
  const [seen, errors] = [[], []];
  const tally = new Tally({ url: server.url, key: "secret" });
  await new Promise((done) => {
    const onError = (error) => errors.push(error.code) && error.code === "redirected" && done();
    tally.watch("a", (counters) => seen.push(counters), onError);
  });
  assert.deepEqual(seen, [{ a: { value: 3 } }]);
  assert.deepEqual([server.asked.length, other.asked.length, server.asked[2].headers["last-event-id"]], [3, 0, "7"]);
  const wrong = new Promise((done) => tally.watch(["a", ".."], () => {}, done));
  assert.equal((await wrong).code, "invalid-id");
  assert.equal(server.asked.length, 3);
  server.end();
  other.end();
});
