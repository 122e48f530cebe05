// WebSockets that mean harm: what they fill of the native server's memory has a bound.
import assert from "node:assert/strict";
import net from "node:net";
import { test } from "node:test";
import { placeFor } from "./place.mjs";

const WITHIN = { timeout: 60_000 };
// A hub reads messages of 16 KiB.
const READ_BYTES = 16 * 1024;
const TEXT = 1;
const MORE = 0;

const place = placeFor("live-sockets");

/** A frame with a mask of zeros. `isLast`: whether it ends its message. */
function frame(opcode, isLast, bytes) {
  const head = Buffer.alloc(14);
  head[0] = (isLast ? 0x80 : 0) | opcode;
  head[1] = 0x80 | 127;
  head.writeBigUInt64BE(BigInt(bytes), 2);
  return Buffer.concat([head, Buffer.alloc(bytes, "x")]);
}

const KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
const HANDSHAKE = ["Sec-WebSocket-Version: 13", KEY];

class Wire {
  received = "";

  constructor(url, handshake = HANDSHAKE) {
    this.socket = net.connect(Number(new URL(url).port), "127.0.0.1").on("error", () => {});
    this.socket.on("data", (piece) => (this.received += piece.toString("latin1")));
    this.closed = new Promise((done) => this.socket.on("close", () => done("closed")));
    this.socket.write(
      "GET /live?id=a HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
        `${handshake.join("\r\n")}\r\n\r\n`,
    );
  }

  /** Resolves once a text has arrived, or, to `closed`, once the connection is. */
  says(text) {
    const arrived = new Promise((done) => {
      const look = () => this.received.includes(text) && done(text);
      this.socket.on("data", look);
      look();
    });
    return Promise.race([arrived, this.closed]);
  }
}

test("a message that is too long ends its socket, in one frame or in many, and no other", WITHIN, async () => {
  const { server, url } = await place.begin();
  const wires = Array.from({ length: 4 }, () => new Wire(url));
  const [well, long, parts, announced] = wires;
  for (const wire of wires) assert.equal(await wire.says('"a":null'), '"a":null');
  long.socket.write(frame(TEXT, true, 8 * READ_BYTES));
  parts.socket.write(frame(TEXT, false, READ_BYTES));
  for (let index = 0; index < 4; index += 1) parts.socket.write(frame(MORE, index === 3, READ_BYTES));
  announced.socket.write(frame(TEXT, true, 8 * READ_BYTES).subarray(0, READ_BYTES));
  const [TOO_BIG, PROTOCOL_ERROR] = [1009, 1002];
  const closedWith = (code) => Buffer.from([code >> 8, code & 0xff]).toString("latin1");
  for (const wire of [long, parts, announced]) {
    assert.equal(await wire.says("body-too-large"), "closed");
    assert.ok(wire.received.includes(closedWith(TOO_BIG)), "1009");
  }
  const strange = new Wire(url);
  assert.equal(await strange.says('"a":null'), '"a":null');
  strange.socket.write(frame(3, true, 1));
  assert.equal(await strange.says("nothing"), "closed");
  assert.ok(strange.received.includes(closedWith(PROTOCOL_ERROR)), "1002");
  // One that is a little too long is told so.
  well.socket.write(frame(TEXT, true, READ_BYTES + 1_000));
  assert.equal(await well.says("body-too-large"), "body-too-large");
  well.socket.destroy();
  await server.end();
});

test("a handshake of another version, or without a key, is refused by its code", WITHIN, async () => {
  const { server, url } = await place.begin();
  const BAD = ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: abc"];
  for (const handshake of [["Sec-WebSocket-Version: 8", KEY], ["X: y", KEY], ["Sec-WebSocket-Version: 13"], BAD]) {
    const wire = new Wire(url, handshake);
    assert.equal(await wire.says("invalid-upgrade"), "invalid-upgrade", handshake[0]);
    assert.match(wire.received, /^HTTP\/1\.1 400 [^]*\r\nsec-websocket-version: 13\r\n/);
    wire.socket.destroy();
  }
  assert.equal(await new Wire(url).says('"a":null'), '"a":null');
  await server.end();
});
