// `tally mcp` before what is not Tally, and before agents that mean harm: each call ends with a code, and memory is
// bounded.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import net from "node:net";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { Tally } from "../client/index.ts";
import { description } from "../command/mcp.mjs";
import { ANSWER_BYTES_MAX, CALLS_MAX, called, callerOf } from "../command/mcp/call.mjs";
import { BODY_BYTES_MAX } from "../command/mcp/http.mjs";
import { toolsOf } from "../command/mcp/tools.mjs";
import { TALLY, until } from "./server.mjs";

const TOOLS = toolsOf(description(), { write: true });
const WITHIN = { timeout: 60_000 };
const HTML = "<!doctype html><title>Sign in</title>";

// What is answered, by the id of the counter that is read, and how much of it was taken.
const sent = new Map();
let answers;
let url;

// Sends without end, as long as it is read.
function flood(response, name) {
  const piece = Buffer.alloc(64 * 1024, "x");
  const more = () => {
    while (!response.destroyed) {
      sent.set(name, (sent.get(name) ?? 0) + piece.length);
      if (!response.write(piece)) return response.once("drain", more);
    }
    return undefined;
  };
  more();
}

const ANSWERS = {
  "500 html": (response) => response.writeHead(500, { "content-type": "text/html" }).end(HTML),
  "500 other json": (response) => response.writeHead(500).end('{"error":"x","code":{"a":1}}'),
  "500 list": (response) => response.writeHead(500).end('["code"]'),
  "500 nothing": (response) => response.writeHead(500).end(),
  "500 endless": (response, name) => flood(response.writeHead(500), name),
  "403 long": (response) => response.writeHead(403).end(JSON.stringify({ code: "forbidden", detail: "d".repeat(1e6) })),
  "200 html": (response) => response.writeHead(200).end(HTML),
  "200 half": (response) => response.writeHead(200).end('{"value":1'),
  "200 endless": (response, name) => flood(response.writeHead(200), name),
  "200 cut": (response) => {
    response.writeHead(200, { "content-length": 100 }).write('{"value":');
    setImmediate(() => response.destroy());
  },
  "302 elsewhere": (response) => response.writeHead(302, { location: "https://evil.example/" }).end(),
  "closed": (response) => response.destroy(),
  "200 large number": (response) => response.writeHead(200).end('{"value":18446744073709551615}'),
};
const CODES = {
  "500 html": "unknown", "500 other json": "unknown", "500 list": "unknown", "500 nothing": "unknown",
  "500 endless": "unknown", "403 long": "unknown", "200 html": "not-tally", "200 half": "not-tally",
  "200 endless": "answer-too-large", "200 cut": "no-answer", "302 elsewhere": "redirected", "closed": "no-answer",
};

before(async () => {
  answers = createServer((request, response) => {
    const name = decodeURIComponent(request.url.split("/")[2]);
    response.on("error", () => {});
    ANSWERS[name](response, name);
  }).listen(0, "127.0.0.1");
  await once(answers, "listening");
  url = `http://127.0.0.1:${answers.address().port}`;
});
after(() => {
  answers.closeAllConnections();
  answers.close();
});

for (const [name, code] of Object.entries(CODES)) {
  test(`what answers ${name} instead of Tally is an error with a code, and short`, WITHIN, async () => {
    const client = new Tally({ url, retries: 0 });
    const { isError, content } = await called(client, TOOLS.get("readCounter"), { id: name });
    const [{ text }] = content;
    const shown = JSON.parse(text);
    assert.deepEqual([isError, shown.code], [true, code], text.slice(0, 200));
    assert.equal(typeof shown.detail, "string");
    assert.ok(text.length < 1_000, `${text.length} characters`);
    // The rest of an endless answer is left with its sender, but for what is under way.
    assert.ok((sent.get(name) ?? 0) < ANSWER_BYTES_MAX + 16 * 1024 * 1024, `${sent.get(name)} bytes`);
  });
}

test("a number of more than 53 bits arrives with all of its digits", async () => {
  const { content } = await called(new Tally({ url }), TOOLS.get("readCounter"), { id: "200 large number" });
  assert.equal(content[0].text, '{"value":18446744073709551615}');
});

test("only so many calls are under way at a time, and the next one is refused at once", async () => {
  const waiting = [];
  const slow = { answer: () => new Promise((done) => waiting.push(() => done(new Response("{}")))) };
  const call = callerOf(slow);
  const one = TOOLS.get("checkHealth");
  const all = Array.from({ length: CALLS_MAX }, () => call(one, {}));
  const refused = await call(one, {});
  assert.deepEqual([refused.isError, JSON.parse(refused.content[0].text).code], [true, "too-many-calls"]);
  waiting.forEach((done) => done());
  assert.ok((await Promise.all(all)).every(({ isError }) => isError === undefined));
  const again = call(one, {});
  waiting.at(-1)();
  assert.equal((await again).isError, undefined);
});

/** Sends bytes to the command, and resolves to what it answered once it has closed the connection. */
async function exchange(port, ...pieces) {
  const socket = net.connect(port, "127.0.0.1").on("error", () => {});
  let text = "";
  socket.on("data", (piece) => (text += piece));
  const closed = new Promise((done) => socket.on("close", done));
  for (const piece of pieces) socket.write(piece);
  await closed;
  return text;
}

test("over HTTP, requests that are large, cut or many cost a bounded part of the machine", WITHIN, async () => {
  const env = { ...process.env, TALLY_URL: url };
  const args = [TALLY, "mcp", "--http", "0", "--json"];
  const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  try {
    const [line] = await once(createInterface({ input: child.stdout }), "line");
    const mcp = new URL(JSON.parse(line).url);
    const post = (body, headers = {}) => fetch(mcp, {
      method: "POST", body,
      headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers },
    });
    const list = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}';
    const call = (id) => ({
      jsonrpc: "2.0", id, method: "tools/call", params: { name: "readCounter", arguments: { id: "closed" } },
    });
    // Many calls in one body, as the first versions of the protocol had them.
    const many = await post(JSON.stringify(Array.from({ length: 2_000 }, (_, index) => call(index))));
    const replies = [await many.json()].flat();
    const codes = replies.map(({ result, error }) => error?.code ?? JSON.parse(result.content[0].text).code);
    assert.ok(codes.length === 1 || codes.length === 2_000, `${codes.length} answers`);
    assert.ok(codes.filter((code) => code === "no-answer").length <= CALLS_MAX);
    // What has no length, or says less than it sends, is cut where the bound is.
    const head = (length) => `POST /mcp HTTP/1.1\r\nhost: ${mcp.host}\r\ncontent-type: application/json\r\n` +
      `accept: application/json, text/event-stream\r\nconnection: close\r\n${length}\r\n\r\n`;
    const [long, refused] = ["x".repeat(2_000_000), /^(HTTP\/1.1 413|$)/];
    assert.match(await exchange(mcp.port, head("content-length: 99999999999"), long), refused);
    const chunk = `${BODY_BYTES_MAX.toString(16)}\r\n${"x".repeat(BODY_BYTES_MAX)}\r\n`;
    assert.match(await exchange(mcp.port, head("transfer-encoding: chunked"), chunk, chunk, "0\r\n\r\n"), refused);
    const longHead = `GET / HTTP/1.1\r\nx: ${long.slice(0, 100_000)}\r\n\r\n`;
    assert.match(await exchange(mcp.port, longHead), /^(HTTP\/1.1 431|$)/);
    // A session that a client makes up is no session here, and needs no end.
    for (const session of ["x", "x".repeat(5_000)]) {
      assert.equal((await post(list, { "mcp-session-id": session })).status, 200);
    }
    const idle = await Promise.all(Array.from({ length: 50 }, async () => {
      const socket = net.connect(mcp.port, "127.0.0.1").on("error", () => {});
      await once(socket, "connect");
      socket.write("POST /mcp HTTP/1.1\r\n");
      return socket;
    }));
    assert.equal((await post(list)).status, 200);
    idle.forEach((socket) => socket.destroy());
    await until(async () => (await post(list).catch(() => ({}))).status === 200);
  } finally {
    child.kill("SIGKILL");
    await once(child, "exit");
  }
});
