// What many cold counters cost: memory while they are made and after a start, and the time of that start. `make
// bench-tail` measures a million of them, in the release build.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { placeFor } from "./place.mjs";

const WITHIN = { timeout: 300_000 };
const COUNTERS = 5_000;
const BODY = 500;
// Of a build without optimization, which begins with 46 MiB. When this was written, 160 were taken while 5,000 were
// made, and 121 after the start, at which tablets report what they had not reported.
const MADE_MIB_MAX = 250;
const COLD_MIB_MAX = 200;
const READY_MS_MAX = 2_000;
// Alarms of the tablets and the partitions are planned by then.
const STARTED_MS = 3_000;

const place = placeFor("memory");

const mib = ({ pid }, what) =>
  Number(readFileSync(`/proc/${pid}/status`, "utf8").match(new RegExp(`^${what}:\\s+(\\d+) kB$`, "m"))[1]) / 1_024;

// A page of 2 MiB that holds a few objects was a third of the memory after the start.
test("no memory is asked for in huge pages", WITHIN, async () => {
  const { server, url } = await place.begin();
  assert.equal((await fetch(`${url}/healthz`)).status, 200);
  const flags = readFileSync(`/proc/${server.pid}/smaps`, "utf8").match(/^VmFlags:.*$/gm);
  assert.ok(flags.length > 10);
  assert.deepEqual(flags.filter((line) => / hg( |$)/.test(line)), []);
  assert.deepEqual(await server.end(), { code: 0, signal: null });
});

test("thousands of counters take bounded memory, and a start does not wait for them", WITHIN, async () => {
  const { server, url } = await place.begin();
  for (let first = 0; first < COUNTERS; first += BODY) {
    const lines = Array.from({ length: BODY }, (_, index) => `{"id":"cold/${first + index}","unique":"u${index % 3}"}`);
    const answer = await fetch(`${url}/events`, { method: "POST", body: lines.join("\n") });
    assert.equal((await answer.json()).accepted, BODY);
  }
  const made = mib(server, "VmHWM");
  assert.ok(made < MADE_MIB_MAX, `${made} MiB with ${COUNTERS} counters`);
  assert.deepEqual(await server.end(), { code: 0, signal: null });
  const began = performance.now();
  const again = await place.begin();
  const ready_ms = performance.now() - began;
  assert.ok(ready_ms < READY_MS_MAX, `${ready_ms} ms to ready`);
  await new Promise((done) => setTimeout(done, STARTED_MS));
  const cold = mib(again.server, "VmHWM");
  assert.ok(cold < COLD_MIB_MAX, `${cold} MiB after a start`);
  const sum = await (await fetch(`${again.url}/counters/cold%2F*/aggregate?consistency=strong`)).json();
  assert.deepEqual([sum.counters, sum.value, sum.exact], [COUNTERS, COUNTERS, true]);
  console.log(`${made} MiB made, ${cold} MiB cold, ready after ${ready_ms} ms`);
  assert.deepEqual(await again.server.end(), { code: 0, signal: null });
});
