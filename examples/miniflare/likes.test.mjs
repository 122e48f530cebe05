import assert from "node:assert/strict";
import { test } from "node:test";
import { startTally } from "edgetally/miniflare";

test("a like counts once", async () => {
  const tally = await startTally();
  const like = () => tally.fetch("/counters/likes/increment", { method: "POST", headers: { "idempotency-key": "bob" } });
  await like();
  assert.equal((await (await like()).json()).value, 1);
  await tally.close();
});
