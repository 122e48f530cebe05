// `tally mcp`, spoken to by the client of the protocol's own SDK: over pipes and over HTTP.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { AjvJsonSchemaValidator } from "@modelcontextprotocol/sdk/validation/ajv";
import { description } from "../command/mcp.mjs";
import { ANSWER_BYTES_MAX, called } from "../command/mcp/call.mjs";
import { BODY_BYTES_MAX, isOfThisMachine } from "../command/mcp/http.mjs";
import { DESCRIPTION_CHARS_MAX, READS, WRITES, inlined, shortened, toolsOf } from "../command/mcp/tools.mjs";
import { TALLY, openServer, until } from "./server.mjs";

const OPERATOR = "operator-0123456789abcdef";
const KEYS = JSON.stringify({ keys: [{ key: OPERATOR, scopes: ["admin"], prefixes: ["", "limits/"] }] });

let server;
before(async () => (server = await openServer({ env: { TALLY_KEYS: KEYS } })));
after(() => server?.end());

/** Starts the command for a client of the SDK, and resolves to that client. */
async function agent(...args) {
  const client = new Client({ name: "test", version: "1" });
  const env = { ...process.env, TALLY_URL: server.url, TALLY_KEY: OPERATOR };
  await client.connect(new StdioClientTransport({ command: process.execPath, args: [TALLY, "mcp", ...args], env }));
  return client;
}
const answerOf = ({ isError, content }) => ({ isError: isError === true, ...JSON.parse(content[0].text) });
const calling = (client) => async (name, args = {}) => answerOf(await client.callTool({ name, arguments: args }));
async function over(method, path, body) {
  const headers = { authorization: `Bearer ${OPERATOR}` };
  const answer = await server.json(path, { method, headers, body: JSON.stringify(body) });
  // The second check of a limit of one is refused.
  if (answer.code !== undefined) assert.equal(answer.code, "quota-exceeded", answer.detail);
  return answer;
}

test("tools are operations of the description, with schemas that stand alone", () => {
  const document = description();
  const tools = toolsOf(document, { write: true });
  assert.deepEqual([...toolsOf(document).keys()], READS);
  assert.deepEqual([...tools.keys()], [...READS, ...WRITES]);
  const validator = new AjvJsonSchemaValidator();
  for (const [name, { tool, method }] of tools) {
    assert.equal(method === "GET", READS.includes(name), name);
    assert.equal(tool.annotations.readOnlyHint, READS.includes(name), name);
    assert.ok(tool.description.length > 20 && tool.description.length <= DESCRIPTION_CHARS_MAX, name);
    assert.doesNotMatch(JSON.stringify(tool.inputSchema), /"\$ref"|"x-/, name);
    assert.ok(validator.getValidator(tool.inputSchema)({}) !== undefined);
  }
  const { inputSchema } = tools.get("readHistory").tool;
  assert.deepEqual([inputSchema.required, inputSchema.additionalProperties], [["id"], false]);
  assert.deepEqual(inputSchema.properties.step.enum, ["1s", "1m", "1h", "1d"]);
  assert.deepEqual(tools.get("putOverride").tool.inputSchema.required, ["policy", "pattern", "body"]);
  // Whatever an operation gains, its tool gains.
  const newer = { name: "newer", in: "query", schema: { type: "string" } };
  document.paths["/counters/{id}/history"].get.parameters.push(newer);
  assert.ok("newer" in toolsOf(document).get("readHistory").tool.inputSchema.properties);
});

test("a schema that contains itself is an error, and a property may have any name", () => {
  const document = { s: { type: "object", properties: { within: { $ref: "#/s" } } } };
  assert.throws(() => inlined(document, { $ref: "#/s" }), /contains itself/);
  const schema = { properties: { example: { type: "string", example: "a", "x-opaque": true } } };
  assert.deepEqual(inlined(document, schema), { properties: { example: { type: "string" } } });
  const sentence = `${"a".repeat(400)}. `;
  assert.equal(shortened(sentence.repeat(3)), sentence.trim());
});

test("an agent reads what there is, and changes nothing", async () => {
  for (const [id, change] of [["blog/a", { delta: 3, by: { referrer: "example.org" } }], ["blog/b", {}]]) {
    await over("POST", `/counters/${encodeURIComponent(id)}/increment`, change);
  }
  await over("PUT", "/limits/login", { limit: 1, window_seconds: 3600 });
  for (let tries = 0; tries < 2; tries += 1) await over("POST", "/limits/login/bob", {});
  await over("POST", "/boards/game/members/ann", { score: 7 });
  const secret = `whsec_${Buffer.alloc(32).toString("base64")}`;
  const alert = { counter: "blog/a", when: { value: { above: 100 } }, webhook: "https://hooks.example.com/tally" };
  await over("PUT", "/alerts/many", { ...alert, secret });
  const client = await agent();
  try {
    assert.match(client.getInstructions(), /data, never instructions/);
    assert.deepEqual((await client.listTools()).tools.map(({ name }) => name), READS);
    const call = calling(client);
    await until(async () => (await call("readTop", { prefix: "blog/" })).entries.length === 2);
    const top = await call("readTop", { prefix: "blog/", limit: 1 });
    assert.deepEqual(top.entries.map(({ id, value }) => [id, value]), [["blog/a", 3]]);
    assert.equal((await call("readCounter", { id: "blog/a", consistency: "strong" })).value, 3);
    const { points } = await call("readHistory", { id: "blog/a" });
    assert.equal(points.reduce((sum, [, count]) => sum + count, 0), 3);
    const { rows } = await call("readBreakdown", { id: "blog/a", by: "referrer" });
    assert.deepEqual(rows.map(({ value, count }) => [value, count]), [["example.org", 3]]);
    assert.deepEqual((await call("listPolicies")).entries.map(({ policy }) => policy), ["login"]);
    assert.equal((await call("peekLimit", { policy: "login", key: "bob" })).remaining, 0);
    const asked = { policy: "login", include: "refused" };
    const refused = await until(async () => (await call("getPolicy", asked)).refused.rows[0]);
    assert.equal(refused.key, "bob");
    assert.equal((await call("listMembers", { board: "game" })).entries[0].member, "ann");
    assert.deepEqual((await call("listAlerts")).entries.map(({ alert }) => alert), ["many"]);
    assert.equal((await call("checkHealth")).isError, false);

    await assert.rejects(client.callTool({ name: "increment", arguments: { id: "blog/a" } }), /--write/);
    await assert.rejects(client.callTool({ name: "nothing" }), /list the tools/);
    assert.equal((await call("readCounter", { id: "blog/a", consistency: "strong" })).value, 3);
  } finally {
    await client.close();
  }
});

test("what is wrong is an answer with a code, which an agent can act on", async () => {
  const client = await agent();
  const call = calling(client);
  const codeOf = async (...given) => {
    const { isError, code } = await call(...given);
    return [isError, code];
  };
  assert.deepEqual(await codeOf("readCounter", { id: "nothing" }), [true, "counter-not-found"]);
  assert.deepEqual(await codeOf("readCounter", {}), [true, "invalid-id"]);
  assert.deepEqual(await codeOf("readTop", { limit: -1 }), [true, "invalid-query"]);
  assert.deepEqual(await codeOf("readTop", { limt: 1 }), [true, "unknown-field"]);
  assert.deepEqual(await codeOf("readTop", { limit: { a: 1 } }), [true, "invalid-query"]);
  await client.close();
  const away = await agent("--url", "http://127.0.0.1:1");
  assert.equal((await calling(away)("checkHealth")).code, "no-answer");
  await away.close();
});

test("an answer that no agent should read is refused by its size", async () => {
  const [one] = toolsOf(description()).values();
  const of = (bytes) => ({ answer: async () => new Response("1".repeat(bytes)) });
  assert.equal((await called(of(ANSWER_BYTES_MAX), one)).isError, undefined);
  const refused = answerOf(await called(of(ANSWER_BYTES_MAX + 1), one));
  assert.deepEqual([refused.isError, refused.code], [true, "answer-too-large"]);
});

test("with --write an agent counts, each call once, and changes policies and overrides", async () => {
  const client = await agent("--write");
  try {
    assert.deepEqual((await client.listTools()).tools.map(({ name }) => name), [...READS, ...WRITES]);
    const call = calling(client);
    assert.equal((await call("increment", { id: "written", body: { delta: 2 } })).value, 2);
    assert.equal((await call("increment", { id: "written" })).value, 3);
    const put = await call("putPolicy", { policy: "calls", body: { limit: 5, window_seconds: 60 } });
    assert.deepEqual([put.isError, put.limit], [false, 5]);
    const rule = { policy: "calls", pattern: "acme-*" };
    assert.equal((await call("putOverride", { ...rule, body: { limit: 50 } })).isError, false);
    assert.equal((await call("peekLimit", { policy: "calls", key: "acme-1" })).limit, 50);
    assert.equal((await call("deleteOverride", rule)).isError, false);
    assert.equal((await call("listOverrides", { policy: "calls" })).entries.length, 0);
    assert.equal((await call("deletePolicy", { policy: "calls" })).isError, false);
    assert.equal((await call("getPolicy", { policy: "calls" })).code, "policy-not-found");
    assert.equal((await call("putPolicy", { policy: "calls", body: { limit: 0 } })).isError, true);
  } finally {
    await client.close();
  }
});

test("a share's key reads its prefix and nothing else, with --write too", async () => {
  for (const id of ["shared/a", "private/a"]) await over("POST", `/counters/${encodeURIComponent(id)}/increment`, {});
  const share = await over("POST", "/shares", { prefix: "shared/" });
  const client = await agent("--write", "--key", share.token);
  try {
    const call = calling(client);
    assert.equal((await call("readCounter", { id: "shared/a" })).value, 1);
    assert.equal((await call("readTop", { prefix: "shared/" })).isError, false);
    for (const [name, args] of [
      ["readCounter", { id: "private/a" }], ["readTop", {}], ["readTop", { prefix: "private/" }], ["listAlerts", {}],
      ["listCounters", {}], ["getPolicy", { policy: "login" }], ["increment", { id: "shared/a" }],
      ["putPolicy", { policy: "login", body: { limit: 5, window_seconds: 60 } }],
    ]) {
      const { isError, status } = await call(name, args);
      assert.deepEqual([name, isError, status], [name, true, 403]);
    }
    assert.equal((await call("readCounter", { id: "shared/a", consistency: "strong" })).value, 1);
  } finally {
    await client.close();
  }
});

// Sends one request by hand: its host is as it is written.
function sent(url, { method = "POST", headers = {}, body = "" }) {
  return new Promise((done, failed) => {
    const all = { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers };
    const request = httpRequest(url, { method, headers: all }, (response) => {
      response.resume();
      done(response.statusCode);
    });
    request.on("error", failed);
    request.end(body);
  });
}

test("over HTTP programs of this machine are answered, and pages of others are not", async () => {
  const env = { ...process.env, TALLY_URL: server.url, TALLY_KEY: OPERATOR };
  const args = [TALLY, "mcp", "--http", "0", "--json"];
  const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "exit");
  const [line] = await once(createInterface({ input: child.stdout }), "line");
  const { url } = JSON.parse(line);
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/mcp$/);
  const { port } = new URL(url);
  const clients = [1, 2].map(() => new Client({ name: "test", version: "1" }));
  for (const client of clients) await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const answers = await Promise.all(clients.map((client) => calling(client)("checkHealth")));
  assert.deepEqual(answers.map(({ isError }) => isError), [false, false]);
  for (const client of clients) await client.close();

  const body = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}';
  const own = `localhost:${port}`;
  for (const [status, options] of [
    [200, { body }],
    [200, { body, headers: { host: own, origin: `http://${own}` } }],
    [403, { body, headers: { host: "evil.example" } }],
    [403, { body, headers: { host: `evil.example:${port}` } }],
    [403, { body, headers: { origin: "https://evil.example" } }],
    [403, { body, headers: { origin: "null" } }],
    [403, { method: "GET", headers: { host: "evil.example" } }],
    [405, { method: "GET" }],
    [405, { method: "DELETE" }],
    [405, { method: "OPTIONS", headers: { origin: `http://${own}` } }],
    [413, { body: `"${"a".repeat(BODY_BYTES_MAX)}"` }],
    [400, { body: "{" }],
    [415, { body, headers: { "content-type": "text/plain" } }],
  ]) {
    assert.equal(await sent(url, options), status, `${options.method} ${JSON.stringify(options.headers)}`);
  }
  assert.equal(await sent(url.replace("/mcp", "/"), { body }), 404);
  child.kill("SIGTERM");
  assert.deepEqual(await ended, [0, null]);
});

test("a port that is none, or is taken, is named with what to do", async () => {
  const { port } = new URL(server.url);
  for (const [given, exit, why] of [["99999", 2, /ports end at 65535/], [port, 1, /port \d+ is taken: .*--http/]]) {
    const { code, stderr } = await server.tally(["mcp", "--http", given]);
    assert.equal(code, exit, stderr);
    assert.match(stderr, why);
  }
});

test("names of this machine are those of loopback with the port", () => {
  const cases = [
    [true, { host: "127.0.0.1:80" }], [true, { host: "[::1]:80", origin: "http://localhost:80" }],
    [false, {}], [false, { host: "127.0.0.1" }], [false, { host: "127.0.0.1:81" }], [false, { host: "127.0.0.1.evil:80" }],
    [false, { host: "localhost:80", origin: "http://localhost:80.evil" }], [false, { host: "localhost:80", origin: "" }],
    [false, { host: "localhost:80", origin: "https://localhost:80" }],
  ];
  for (const [isOwn, headers] of cases) assert.equal(isOfThisMachine(headers, 80), isOwn, JSON.stringify(headers));
});

test("a pipe that ends gets its answers first, and standard output has nothing but the protocol", async () => {
  const about = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "test", version: "1" } };
  const messages = [
    { jsonrpc: "2.0", id: 1, method: "initialize", params: about },
    { jsonrpc: "2.0", method: "notifications/initialized" },
    { jsonrpc: "2.0", id: 2, method: "tools/call", params: { name: "checkHealth", arguments: {} } },
  ];
  const input = messages.map((message) => `${JSON.stringify(message)}\n`).join("");
  const { code, stdout } = await server.tally(["mcp"], { input, env: { TALLY_KEY: OPERATOR } });
  const answers = stdout.trim().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual([code, answers.map(({ id }) => id)], [0, [1, 2]]);
  assert.equal(answers[0].result.serverInfo.name, "tally");
  assert.equal((await server.tally(["mcp", "--json"])).code, 2);
  const lines = ["no json", `[${JSON.stringify(messages[0])}]`, '{"jsonrpc":"2.0","id":1.5,"method":"ping"}', ""];
  const refused = await server.tally(["mcp"], { input: lines.join("\n") });
  const errors = refused.stdout.trim().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(errors.map(({ id }) => id), [null, null, null]);
  assert.deepEqual(errors.map(({ error }) => error.code), [-32_700, -32_600, -32_600]);
  assert.equal(refused.stderr, "");
  const long = await server.tally(["mcp"], { input: "a".repeat(BODY_BYTES_MAX + 1) });
  assert.deepEqual([long.code, long.stdout], [1, ""]);
  assert.match(long.stderr, /^tally mcp: .*size/);
});
