// What `watch()` shows, from a stream that a test makes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Tally } from "../client/index.ts";
import { counterStore } from "../client/live.ts";
import { Transport } from "../client/transport.ts";

const NAMES = ["__proto__", "constructor", "value"];
const UPDATE = '{"type":"update","counters":{"__proto__":{"value":7},"constructor":null,"value":{"value":1}}}';
const options = { url: "https://tally.example", fetch: () => Promise.resolve(new Response(`data: ${UPDATE}\n\n`)) };

test("a counter has a name that objects have themselves, and none is taken for another", async () => {
  const seen = await new Promise((done, failed) => {
    const stop = new Tally(options).watch(NAMES, (counters) => (stop(), done(counters)), failed);
  });
  assert.deepEqual(Object.entries(seen), [["__proto__", { value: 7 }], ["constructor", null], ["value", { value: 1 }]]);
  assert.equal(Object.getPrototypeOf(seen), Object.prototype);
});

test("so it is for one counter", async () => {
  const store = counterStore(new Transport(options), "__proto__");
  await new Promise((done) => {
    const stop = store.subscribe(() => (stop(), done()));
  });
  assert.deepEqual(store.getSnapshot(), { value: 7 });
});
