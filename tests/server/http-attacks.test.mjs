// Heads of HTTP that mean harm: each is one request to the server and to a proxy in front of it, or is refused.
import assert from "node:assert/strict";
import net from "node:net";
import { test } from "node:test";
import { placeFor } from "./place.mjs";

const WITHIN = { timeout: 60_000 };
const WRITE = "POST /counters/a/increment HTTP/1.1\r\nHost: localhost\r\n";
const NEXT = "GET /counters/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";

const place = placeFor("http-attacks");

/** Sends bytes and ends, and resolves to the answers: the status of each, and all text. */
async function exchange(url, head) {
  const socket = net.connect(Number(new URL(url).port), "127.0.0.1").on("error", () => {});
  let text = "";
  socket.on("data", (piece) => (text += piece.toString("latin1")));
  const closed = new Promise((done) => socket.on("close", done));
  socket.end(Buffer.from(head, "latin1"));
  await closed;
  return { statuses: [...text.matchAll(/^HTTP\/1\.\d (\d+)/gm)].map(([, status]) => Number(status)), text };
}

test("a host that has a path leads to no other call than that of the request", WITHIN, async () => {
  const { server, url } = await place.begin();
  await fetch(`${url}/counters/secret/increment`, { method: "POST" });
  const { host } = new URL(url);
  for (const attack of [
    `${host}/counters?prefix=`, `${host}/counters#`, `${host}?`, `${host}#`, `${host}\\..\\counters`,
    `localhost#.evil.example`, `localhost/`, `someone@localhost`, "localhost evil.example", "loc\u00e4lhost",
    `localhost\r\nHost: ${host}`,
  ]) {
    const { statuses, text } = await exchange(url, `GET /healthz HTTP/1.1\r\nHost: ${attack}\r\n\r\n`);
    assert.deepEqual([statuses, text.includes("secret")], [[400], false], attack);
  }
  assert.deepEqual((await exchange(url, "GET /healthz HTTP/1.1\r\n\r\n")).statuses, [400]);
  // Before HTTP/1.1 a request may name no host. An open instance answers only those to names of this machine.
  assert.deepEqual((await exchange(url, "GET /healthz HTTP/1.0\r\n\r\n")).statuses, [403]);
  for (const good of [host, "localhost", "LOCALHOST:1", "[::1]", `[::1]:99`]) {
    const { statuses } = await exchange(url, `GET /healthz HTTP/1.1\r\nHost: ${good}\r\n\r\n`);
    assert.deepEqual(statuses, [200], good);
  }
  await server.end();
});

test("no body holds another request", WITHIN, async () => {
  const { server, url } = await place.begin();
  const refused = [
    "Content-Length: 0\r\nContent-Length: 5\r\n", "Content-Length: -1\r\n", "Content-Length: +0\r\n",
    "Content-Length: 0, 5\r\n",
    "Transfer-Encoding: xchunked\r\n", "Transfer-Encoding: identity\r\n", "Transfer-Encoding: chunked, gzip\r\n",
    "Transfer-Encoding : chunked\r\n", "X: a\r\n b: c\r\n", "X: a\u0000b\r\n",
  ];
  for (const headers of refused) {
    const { statuses } = await exchange(url, `${WRITE}${headers}\r\n${NEXT}`);
    assert.deepEqual(statuses, [400], headers);
  }
  // The length is none where there are chunks, and the connection ends.
  const both = `${WRITE}Content-Length: ${NEXT.length + 5}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${NEXT}`;
  assert.deepEqual((await exchange(url, both)).statuses, [200]);
  // What a read has as a body is no request.
  const read = `GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${NEXT.length}\r\n\r\n${NEXT}`;
  const { statuses } = await exchange(url, `${read}GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  assert.ok(statuses.length <= 2 && statuses.every((status) => status === 200), `${statuses}`);
  await server.end();
});
