// Bulk bodies as they come: compressed without a word, slowly, or not at all.
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openWorld, until } from "../world.mjs";

const CLF = "/ingest?format=clf";
const LOG = '1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET /logged HTTP/1.1" 200 1 "-" "-"\n';

let world;
beforeAll(async () => {
  world = await openWorld({ vars: { TALLY_BODY_PIECE_TIMEOUT_MS: "200" } });
});
afterAll(() => world.close());

const lines = (length, line) => Array.from({ length }, (_, index) => line(index)).join("\n");

// A body that sends this much and then nothing until it is ended.
function stalled(text) {
  let end;
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(text));
      end = () => controller.error(new Error("ended"));
    },
  });
  return { body, end };
}

test("a log that is gzip is counted without a word about it, another form is named with its command", async () => {
  const body = gzipSync(LOG.repeat(100));
  expect(await world.well("POST", CLF, { body })).toMatchObject({ accepted: 100, rejected: 0 });
  expect((await world.strong("/logged")).value).toBe(100);
  const zstd = Buffer.concat([Buffer.from([0x28, 0xb5, 0x2f, 0xfd]), Buffer.alloc(100, 7)]);
  const { json } = await world.refused(415, "unsupported-encoding", "POST", CLF, { body: zstd });
  expect(json.detail).toContain("zstd -dc FILE | gzip");
  const cut = body.subarray(0, body.length - 9);
  await world.refused(400, "invalid-gzip", "POST", CLF, { body: cut });
});

test("an encoding that is not read is refused in words, whatever is sent", async () => {
  for (const encoding of ["br", "deflate", "zstd", "x"]) {
    const headers = { "content-encoding": encoding };
    for (const path of ["/events", CLF, "/import", "/counters/encoded/increment"]) {
      await world.refused(415, "unsupported-encoding", "POST", path, { body: '{"id":"encoded"}\n', headers });
    }
  }
  await world.refused(404, "counter-not-found", "GET", "/counters/encoded");
});

test("a body that stalls is refused in time, bulk or not", async () => {
  const { body } = stalled('{"id":"slow"}\n');
  await world.refused(408, "body-too-slow", "POST", "/events", { body });
  await world.refused(404, "counter-not-found", "GET", "/counters/slow");
});

test("uploads that stall leave room for others", async () => {
  const slow = await openWorld();
  const from = (clientIp) => ({ clientIp, headers: { "content-type": "text/plain" } });
  // 160 bytes each: 6 MiB of the 48.
  const held = lines(40_000, (index) => `{"id":"held","idempotency_key":"${index}"}`);
  const stalls = Array.from({ length: 12 }, () => stalled(held));
  const answers = stalls.map(({ body }) =>
    slow.call("POST", "/events", { body, ...from("203.0.113.1") }).catch(() => undefined),
  );
  try {
    // What does not fit in memory is counted before the end of its body.
    await until(
      async () => (await slow.call("GET", "/counters/held?consistency=strong")).status === 200,
      "a part that is counted",
    );
    const body = lines(300_000, (index) => `{"id":"served","unique":"${index}"}`);
    expect(await slow.well("POST", "/events", { body, ...from("203.0.113.2") })).toMatchObject({ accepted: 300_000 });
  } finally {
    for (const { end } of stalls) end();
    await Promise.all(answers);
    await slow.close();
  }
});
