// `tally mcp` before the native server, spoken to by the client of the protocol's own SDK: what an agent reads and
// writes, arguments that are wrong on purpose, and answers that are too large.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { TALLY } from "../../package/test/server.mjs";
import { placeFor } from "./place.mjs";

const OPERATOR = "operator-0123456789abcdef";
const KEYS = JSON.stringify({ keys: [{ key: OPERATOR, scopes: ["admin"], prefixes: ["", "limits/"] }] });
const place = placeFor("mcp");

async function begin(...args) {
  const { url } = await place.begin({ variables: { TALLY_KEYS: KEYS } });
  const client = new Client({ name: "test", version: "1" });
  const env = { ...process.env, TALLY_URL: url, TALLY_KEY: OPERATOR };
  await client.connect(new StdioClientTransport({ command: process.execPath, args: [TALLY, "mcp", ...args], env }));
  const call = async (name, given = {}) => {
    const { isError, content } = await client.callTool({ name, arguments: given });
    return { isError: isError === true, ...JSON.parse(content[0].text) };
  };
  const send = (path, body) =>
    fetch(`${url}${path}`, { method: "POST", headers: { authorization: `Bearer ${OPERATOR}` }, body });
  return { client, call, send };
}

test("an agent counts and reads what it counted", async () => {
  const { client, call } = await begin("--write");
  assert.equal((await call("checkHealth")).isError, false);
  assert.equal((await call("increment", { id: "a/b", body: { delta: 3, by: { referrer: "x" } } })).value, 3);
  assert.equal((await call("readCounter", { id: "a/b", consistency: "strong" })).value, 3);
  assert.equal((await call("readHistory", { id: "a/b" })).isError, false);
  assert.equal((await call("readBreakdown", { id: "a/b", by: "referrer" })).rows[0].count, 3);
  assert.equal((await call("putPolicy", { policy: "p", body: { limit: 1, window_seconds: 60 } })).isError, false);
  assert.equal((await call("peekLimit", { policy: "p", key: "k" })).remaining, 1);
  assert.deepEqual((await call("listBoards")).entries, []);
  assert.deepEqual((await call("listAlerts")).entries, []);
  await client.close();
});

test("hostile arguments are refused with a code, and change nothing", async () => {
  const { client, call } = await begin("--write");
  const deep = JSON.parse(`${"[".repeat(2_000)}${"]".repeat(2_000)}`);
  const own = (text) => JSON.parse(text);
  for (const [name, given] of [
    ["readCounter", { id: ".." }], ["readCounter", { id: "../limits" }], ["readCounter", { id: "a?consistency=strong" }],
    ["readCounter", { id: { toString: "x" } }], ["readCounter", { id: ["a", "b"] }], ["readCounter", { id: null }],
    ["readCounter", { id: "a\r\nHost: evil" }], ["readCounter", { id: "\ud800" }], ["readCounter", { id: "" }],
    ["readCounter", { id: "x".repeat(100_000) }], ["readCounter", own('{"__proto__":{"id":"a"}}')],
    ["readCounter", { id: "a", constructor: 1 }], ["readTop", { limit: 1e9 }], ["readTop", { limit: "1&prefix=" }],
    ["readTop", { prefix: deep }], ["listCounters", { cursor: "../../etc/passwd" }],
    ["increment", { id: "a", body: deep }], ["increment", { id: "a", body: "{}" }],
    ["increment", { id: "a", body: { delta: -1 } }], ["increment", { id: "a", body: own('{"delta":1,"__proto__":{}}') }],
    ["increment", { id: "a", body: { delta: 1, unique: "x".repeat(300_000) } }],
    ["putPolicy", { policy: "a/../../keys", body: { limit: 1, window_seconds: 1 } }],
    ["deletePolicy", { policy: "*" }], ["deleteOverride", { policy: "p", pattern: "**" }],
    ["getAlertDeliveries", { alert: "%2e%2e" }],
  ]) {
    const { isError, code } = await call(name, given);
    const shown = `${name} ${JSON.stringify(given).slice(0, 100)}`;
    assert.deepEqual([isError, typeof code], [true, "string"], shown);
    assert.notEqual(code, "internal", shown);
  }
  assert.deepEqual((await call("listCounters")).entries, []);
  assert.deepEqual((await call("listPolicies")).entries, []);
  assert.equal((await call("checkHealth")).isError, false);
  await client.close();
});

test("an answer that is too large for an agent is refused, and a smaller question is answered", async () => {
  const { client, call, send } = await begin();
  const id = (_, number) => `${"n".repeat(480)}${number}`;
  const lines = Array.from({ length: 800 }, (_, number) => JSON.stringify({ id: id(_, number), delta: 1 }));
  const answer = await send("/events", lines.join("\n"));
  assert.equal(answer.status, 200, await answer.text());
  const all = await call("listCounters", { limit: 1000 });
  assert.deepEqual([all.isError, all.code], [true, "answer-too-large"]);
  const some = await call("listCounters", { limit: 10 });
  assert.deepEqual([some.isError, some.entries.length], [false, 10]);
  await client.close();
});
