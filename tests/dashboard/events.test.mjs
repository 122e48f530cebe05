// Server-sent events, cut at every place.
import assert from "node:assert/strict";
import { test } from "node:test";
import { EventParser } from "../../dashboard/events.js";
import { pause, retryAfterSeconds } from "../../dashboard/retry.js";

const STREAM =
  '\uFEFF: ping\n\nid: 7\nevent: update\ndata: {"a":1}\n\ndata: one\r\ndata: two\r\n\r\nid\rdata:x\r\rdata\n\nretry: 5\n\ndata: unfinished\n';
const EXPECTED = [
  { type: "update", data: '{"a":1}', id: "7" },
  { type: "message", data: "one\ntwo", id: "7" },
  { type: "message", data: "x", id: "" },
  { type: "message", data: "", id: "" },
];

test("events do not depend on where the stream is cut", () => {
  for (let cut = 0; cut <= STREAM.length; cut += 1) {
    for (const second of [cut, Math.min(cut + 1, STREAM.length), Math.min(cut + 7, STREAM.length)]) {
      const parser = new EventParser();
      const found = [STREAM.slice(0, cut), STREAM.slice(cut, second), STREAM.slice(second)].flatMap((piece) =>
        parser.push(piece),
      );
      assert.deepEqual(found, EXPECTED, `cut at ${cut} and ${second}`);
    }
  }
});

test("the newest id is kept for resuming, and one with a zero byte is none", () => {
  const parser = new EventParser();
  parser.push("id: 41\ndata: a\n\nid: 4\0\ndata: b\n\n");
  assert.equal(parser.lastId, "41");
});

test("pauses double up to half a minute, spread by chance, and a server that names one is obeyed", () => {
  assert.deepEqual(
    [1, 2, 3, 7, 8, 1_000].map((attempt) => pause(attempt, 1)),
    [500, 1_000, 2_000, 30_000, 30_000, 30_000],
  );
  assert.equal(pause(3, 0), 1_000);
  assert.equal(pause(1, 0, 20), 20_000);
  assert.equal(pause(1, 0, 1e9), 600_000);
});

test("Retry-After is read as seconds and as a date, and is nothing where it is neither", () => {
  const now_ms = Date.UTC(2026, 10, 30, 12, 0, 0, 500);
  const of = (header) => retryAfterSeconds(header, now_ms);
  assert.deepEqual(["0", "20", "86400"].map(of), [0, 20, 86_400]);
  assert.equal(of("Mon, 30 Nov 2026 12:00:20 GMT"), 20);
  assert.equal(of("Mon, 30 Nov 2026 11:59:00 GMT"), 0);
  assert.deepEqual([null, "", "-20", "1.5", "soon", "Mon, soon"].map(of), [0, 0, 0, 0, 0, 0]);
});
