// `tally mcp` before the native server and before workerd, spoken to by the client of the protocol's own SDK: what an
// agent reads and writes is the same, arguments that are wrong on purpose are refused, a share sees its prefix alone.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { TALLY } from "../../package/test/server.mjs";
import { HOSTS, serverOf } from "../upgrade/hosts.mjs";

const WITHIN = { timeout: 120_000 };
const OPERATOR = "operator-0123456789abcdef";
const KEYS = JSON.stringify({ keys: [{ key: OPERATOR, scopes: ["admin"], prefixes: ["", "limits/"] }] });
const HASH_KEY = "000102030405060708090a0b0c0d0e0f";

let folder;
before(() => (folder = mkdtempSync(join(tmpdir(), "tally-mcp-"))));
after(() => rmSync(folder, { recursive: true, force: true }));

/** Runs work with `{ agent(key, ...args), send(path, body) }` of a new server; agents end with it. */
async function withServer(host, work) {
  const variables = { TALLY_KEYS: KEYS, TALLY_ACCESS: "", TALLY_HASH_KEY: HASH_KEY };
  const server = serverOf(host, { folder: mkdtempSync(join(folder, "server-")), variables });
  const clients = [];
  const agent = async (key, ...args) => {
    const client = new Client({ name: "test", version: "1" });
    const env = { ...process.env, TALLY_URL: server.urls[0], TALLY_KEY: key };
    await client.connect(new StdioClientTransport({ command: process.execPath, args: [TALLY, "mcp", ...args], env }));
    clients.push(client);
    const call = async (name, given = {}) => {
      const { isError, content } = await client.callTool({ name, arguments: given });
      return { isError: isError === true, ...JSON.parse(content[0].text) };
    };
    return { client, call };
  };
  const send = (path, body) =>
    fetch(`${server.urls[0]}${path}`, { method: "POST", headers: { authorization: `Bearer ${OPERATOR}` }, body });
  try {
    await server.start();
    return await work({ agent, send });
  } finally {
    await Promise.all(clients.map((client) => client.close()));
    await server.end();
  }
}

// Times, versions and idempotency keys are of the host and of the run.
const OF_THE_RUN = /(_at|_ms|as_of|version|until|since|from|to|trace|instance|request_id|reset.*|retry.*|secret)$/;
function alike(value) {
  if (Array.isArray(value)) return value.map(alike);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).filter(([name]) => !OF_THE_RUN.test(name));
  return Object.fromEntries(entries.map(([name, one]) => [name, name === "points" ? one.length : alike(one)]));
}

// What an agent calls, one after the other.
const CALLS = [
  ["increment", { id: "a/b", body: { delta: 3, by: { referrer: "x" } } }],
  ["increment", { id: "größe/\u{1f980} %2e%2e", body: { delta: 2 } }], ["increment", { id: "a/../b" }],
  ["increment", { id: "overrides", body: { unique: "ann" } }],
  ["readCounter", { id: "a/b", consistency: "strong" }], ["readCounter", { id: "a/../b", consistency: "strong" }],
  ["readCounter", { id: "größe/\u{1f980} %2e%2e", consistency: "strong" }], ["readCounter", { id: "b" }],
  ["readCounter", { id: "a?consistency=strong" }], ["readCounter", { id: "a#b" }], ["readCounter", { id: "..." }],
  ["readHistory", { id: "a/b" }], ["readBreakdown", { id: "a/b", by: "referrer" }],
  ["aggregate", { prefix: "a/", consistency: "strong" }],
  ["putPolicy", { policy: "p", body: { limit: 1, window_seconds: 3_600 } }],
  ["putPolicy", { policy: "p/../../keys", body: { limit: 1, window_seconds: 3_600 } }],
  ["putOverride", { policy: "p", pattern: "acme/*", body: { limit: 9 } }], ["listOverrides", { policy: "p" }],
  ["peekLimit", { policy: "p", key: "k" }], ["peekLimit", { policy: "p", key: "acme/../1" }],
  ["getPolicy", { policy: "p" }], ["listPolicies", {}], ["deleteOverride", { policy: "p", pattern: "acme/*" }],
  ["deletePolicy", { policy: "p" }], ["getPolicy", { policy: "p" }], ["listBoards", {}], ["listAlerts", {}],
  ["readBoard", { board: "none" }], ["getAlert", { alert: "none" }], ["checkHealth", {}],
];

const own = (text) => JSON.parse(text);
const DEEP = own(`${"[".repeat(2_000)}${"]".repeat(2_000)}`);
const HOSTILE = [
  ["readCounter", { id: ".." }], ["readCounter", { id: "../limits" }], ["readCounter", { id: { toString: "x" } }],
  ["readCounter", { id: ["a", "b"] }], ["readCounter", { id: null }], ["readCounter", { id: 5 }],
  ["readCounter", { id: "a\r\nHost: evil" }], ["readCounter", { id: "\ud800" }], ["readCounter", { id: "" }],
  ["readCounter", { id: "x".repeat(100_000) }], ["readCounter", own('{"__proto__":{"id":"a"}}')],
  ["readCounter", { id: "a", constructor: 1 }], ["readTop", { limit: 1e9 }], ["readTop", { limit: "1&prefix=" }],
  ["readTop", { limit: null }], ["readTop", { prefix: DEEP }], ["readTop", { prefix: [] }], ["readTop", { prefix: {} }],
  ["readTop", { prefix: ["a", "b"] }], ["increment", { id: "a", body: DEEP }], ["increment", { id: "a", body: "{}" }],
  ["increment", { id: "a", body: null }], ["increment", { id: "a", body: 1 }],
  ["increment", { id: "a", body: { delta: -1 } }], ["increment", { id: "a", body: { delta: 2 ** 53 } }],
  ["increment", { id: "a", body: own('{"delta":1,"__proto__":{}}') }],
  ["increment", { id: "a", body: { delta: 1, unique: "x".repeat(300_000) } }],
  ["increment", { id: "a", body: {}, consistency: "strong" }],
  ["putPolicy", { policy: "p", body: { limit: "1", window_seconds: 1 } }], ["putPolicy", { policy: ".." }],
  ["deletePolicy", { policy: "*" }], ["deleteOverride", { policy: "p", pattern: "**" }],
  ["getAlertDeliveries", { alert: "%2e%2e" }],
];

describe("an agent", WITHIN, () => {
  test("is answered by the native server as by workerd", async () => {
    const answers = {};
    for (const host of HOSTS) {
      answers[host] = await withServer(host, async ({ agent }) => {
        const { call } = await agent(OPERATOR, "--write");
        const all = [];
        for (const [name, given] of CALLS) all.push([name, given, alike(await call(name, given))]);
        return all;
      });
    }
    assert.deepEqual(answers.native, answers.workerd);
    const values = answers.native.filter(([name]) => name === "readCounter").map(([, , { value }]) => value);
    assert.deepEqual(values, [3, 1, 2, undefined, undefined, undefined, undefined]);
    const refused = answers.native.filter(([, , { isError }]) => isError).map(([name]) => name);
    const after = ["readCounter", "readCounter", "readCounter", "readCounter"];
    assert.deepEqual(refused, [...after, "putPolicy", "getPolicy", "readBoard", "getAlert"]);
  });

  test("changes nothing by arguments that are wrong on purpose, and gets a code for each", async () => {
    await withServer("native", async ({ agent }) => {
      const { call } = await agent(OPERATOR, "--write");
      for (const [name, given] of HOSTILE) {
        const { isError, code } = await call(name, given);
        const shown = `${name} ${JSON.stringify(given).slice(0, 100)}`;
        assert.deepEqual([isError, typeof code], [true, "string"], shown);
        assert.ok(!["internal", "no-answer", "unknown"].includes(code), `${shown}: ${code}`);
      }
      assert.deepEqual((await call("listCounters")).entries, []);
      assert.deepEqual((await call("listPolicies")).entries, []);
    });
  });

  test("without --write has no tool that writes, and a share sees its prefix alone, with it too", async () => {
    await withServer("native", async ({ agent, send }) => {
      for (const id of ["shared/a", "private/a"]) await send(`/counters/${encodeURIComponent(id)}/increment`, "{}");
      const { token } = await (await send("/shares", '{"prefix":"shared/"}')).json();
      const reader = await agent(OPERATOR);
      for (const name of ["increment", "putPolicy", "deletePolicy", "putOverride", "deleteOverride"]) {
        await assert.rejects(reader.client.callTool({ name, arguments: { id: "shared/a" } }), /--write/, name);
      }
      const { call } = await agent(token, "--write");
      assert.equal((await call("readCounter", { id: "shared/a", consistency: "strong" })).value, 1);
      assert.equal((await call("listCounters", { prefix: "shared/" })).isError, false);
      for (const [name, given] of [
        ["readCounter", { id: "private/a" }], ["readCounter", { id: "shared/../private/a" }], ["readTop", {}],
        ["readTop", { prefix: "share" }], ["listCounters", {}], ["listCounters", { prefix: "private/" }],
        ["aggregate", { prefix: "" }], ["listPolicies", {}], ["listAlerts", {}], ["listBoards", {}],
        ["increment", { id: "shared/a" }], ["putPolicy", { policy: "p", body: { limit: 1, window_seconds: 1 } }],
      ]) {
        const answer = await call(name, given);
        // A name that only looks like a path is a name of the prefix, and there is no such counter.
        const isName = given.id === "shared/../private/a";
        const shown = `${name} ${JSON.stringify(given)}`;
        assert.deepEqual([answer.isError, answer.status], [true, isName ? 404 : 403], shown);
        assert.doesNotMatch(JSON.stringify(answer.entries ?? null), /private/);
      }
      assert.equal((await call("readCounter", { id: "shared/a", consistency: "strong" })).value, 1);
    });
  });

  test("is refused an answer that is too large, and gets a smaller one", async () => {
    await withServer("native", async ({ agent, send }) => {
      // JSON has two characters for each of these.
      const lines = Array.from({ length: 300 }, (_, number) => JSON.stringify({ id: `${'"'.repeat(480)}${number}` }));
      const answer = await send("/events", lines.join("\n"));
      assert.equal(answer.status, 200, await answer.text());
      const { call } = await agent(OPERATOR);
      const all = await call("listCounters", { limit: 1000 });
      assert.deepEqual([all.isError, all.code], [true, "answer-too-large"]);
      const some = await call("listCounters", { limit: 10 });
      assert.deepEqual([some.isError, some.entries.length], [false, 10]);
    });
  });
});
