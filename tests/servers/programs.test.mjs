// What the tests of servers stand on: a missing server is said, and none outlives its test.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { Place, freePorts, missing } from "./programs.mjs";

test("a missing server leaves its tests out with a sentence, and fails them where CI is set", () => {
  const { CI } = process.env;
  try {
    delete process.env.CI;
    assert.equal(missing("no-such-server"), "no-such-server not installed: apt-get install no-such-server");
    process.env.CI = "true";
    assert.throws(() => missing("no-such-server"), /no-such-server not installed: apt-get install/);
  } finally {
    if (CI === undefined) delete process.env.CI;
    else process.env.CI = CI;
  }
});

test("what a test started ends with its place, and a program that ends early is said", async () => {
  const place = new Place();
  const sleeper = await place.start("sleep", ["600"]);
  await assert.rejects(place.run("false", []), /false .*ended with 1/);
  const [port] = await freePorts(1);
  await assert.rejects(place.start("true", [], { port }), /true ended with 0/);
  await place.end();
  assert.equal(sleeper.child.signalCode, "SIGTERM");
  assert.equal(existsSync(place.folder), false);
});
