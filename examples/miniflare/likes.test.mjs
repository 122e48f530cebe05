import assert from "node:assert/strict";
import { test } from "node:test";
import { openTally } from "./tally.mjs";

test("a like counts once", async () => {
  const tally = await openTally();
  const like = () => tally.fetch("/counters/likes/increment", { method: "POST", headers: { "idempotency-key": "bob" } });
  await like();
  assert.equal((await (await like()).json()).value, 1);
  await tally.close();
});
