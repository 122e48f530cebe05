// Share links: what a link may do to the key of a tab.
import assert from "node:assert/strict";
import { test } from "node:test";
import { answerTo } from "../../dashboard/share.js";

const TOKEN = `share_${"0a".repeat(8)}_${"1b".repeat(16)}`;

test("a link is taken by a tab without a key, and asks one that has another", () => {
  assert.equal(answerTo(TOKEN, ""), "take");
  assert.equal(answerTo(TOKEN, TOKEN), "take");
  assert.equal(answerTo(TOKEN, "admin-key-0123456789"), "ask");
  assert.equal(answerTo(TOKEN, TOKEN.replace("0a", "0b")), "ask");
});

test("a link brings no key but a share's", () => {
  for (const text of [
    "", "admin-key-0123456789", `tally_${"0a".repeat(8)}_${"1b".repeat(32)}`, `${TOKEN}0`, `x${TOKEN}`,
    `${TOKEN}\n`, TOKEN.toUpperCase(), "share_1_2", "Bearer x",
  ]) {
    for (const own of ["", "admin-key-0123456789"]) assert.equal(answerTo(text, own), "refuse", JSON.stringify(text));
  }
});
