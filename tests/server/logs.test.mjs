// The log of the native server: which lines it has, and how they are written.
import assert from "node:assert/strict";
import { test } from "node:test";
import { placeFor } from "./place.mjs";

const WITHIN = { timeout: 60_000 };

const place = placeFor("logs");

/** The log of a server that answers one increment. */
async function linesOf(variables) {
  const { server, url } = await place.begin({ variables });
  assert.equal((await fetch(`${url}/counters/secret-id/increment`, { method: "POST" })).status, 200);
  assert.deepEqual(await server.end(), { code: 0, signal: null });
  return server.errors.split("\n").filter((line) => line !== "");
}

test("a server that is well logs nothing, unless it shall log each request, and then no id", WITHIN, async () => {
  assert.deepEqual(await linesOf({}), []);
  const lines = await linesOf({ TALLY_LOG: "debug" });
  const told = lines.filter((line) => /^serve: increment 200 [0-9.]+(µs|ms|s)$/.test(line));
  assert.equal(told.length, 1, lines.join("\n"));
  assert.ok(!lines.join().includes("secret-id"));
});

test("lines are JSON where that is wanted", WITHIN, async () => {
  const lines = await linesOf({ TALLY_LOG: "debug", TALLY_LOG_FORMAT: "json" });
  const events = lines.map((line) => JSON.parse(line));
  const [{ timestamp, level }] = events.filter(({ message }) => message.startsWith("increment 200 "));
  assert.equal(level, "DEBUG");
  assert.ok(Math.abs(Date.parse(timestamp) - Date.now()) < 60_000, timestamp);
});

for (const [name, value] of [["TALLY_LOG", "loud"], ["TALLY_LOG_FORMAT", "xml"]]) {
  test(`${name}=${value} is refused by name`, WITHIN, async () => {
    const server = place.server({ variables: { [name]: value } });
    const { code } = await server.ended();
    assert.equal(code, 2);
    assert.match(server.errors, new RegExp(`${value}[^]*--log`));
  });
}
