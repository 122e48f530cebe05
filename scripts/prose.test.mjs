// Laws of the check of sentences: what it finds, what it leaves alone, and that allowances only shrink.
import assert from "node:assert/strict";
import { test } from "node:test";
import { WORDS_MAX, findings, parts, wrongs } from "./prose.mjs";

const kinds = (page) => findings(page).map(({ kind, line }) => `${line} ${kind}`);
const words = (count) => `${Array.from({ length: count }, () => "word").join(" ")}.`;

test("a sentence of more words than allowed is found at its line, in a paragraph, an item and a cell", () => {
  assert.deepEqual(kinds(words(WORDS_MAX)), []);
  assert.deepEqual(kinds(`Short.\n\n${words(WORDS_MAX + 1)}`), ["3 long"]);
  assert.deepEqual(kinds(`- ${words(WORDS_MAX + 1)}\n- short`), ["1 long"]);
  assert.deepEqual(kinds(`| a | b |\n|---|---|\n| ${words(WORDS_MAX + 1)} | b |`), ["3 long"]);
  // A paragraph of several lines is one text.
  assert.deepEqual(kinds(`${words(13).slice(0, -1)}\n${words(13)}`), ["1 long"]);
});

test("marked words are found in prose and left alone in code", () => {
  assert.deepEqual(kinds("The cell tells the root."), ["1 marked"]);
  assert.deepEqual(kinds("The field `told` is set to `that of`."), ["1 passive"]);
  assert.deepEqual(kinds("```sh\ncurl told\n```"), []);
  assert.deepEqual(kinds("[What it told](page.md) is here."), ["1 marked"]);
});

test("passive voice counts once a sentence, and headings are short", () => {
  assert.deepEqual(kinds("The key is stored and is sent."), ["1 passive"]);
  assert.deepEqual(kinds("# Import logs"), []);
  assert.deepEqual(kinds("# What is done where the one part has not heard of the other."), ["1 heading"]);
  assert.deepEqual(parts("# A `code` heading").map(({ text }) => text), ["A Xcode heading"]);
});

test("findings above an allowance fail, and so does an allowance that is larger than needed", () => {
  const pages = { "a.md": "It tells. It tells." };
  assert.equal(wrongs(pages, { "a.md": { marked: 2 } }).length, 0);
  assert.match(wrongs(pages, { "a.md": { marked: 1 } })[0], /2 findings of the kind marked, 1 are allowed/);
  assert.match(wrongs(pages, { "a.md": { marked: 3 } })[0], /--shrink/);
  assert.match(wrongs(pages, { "a.md": { marked: 2 }, "b.md": { long: 1 } })[0], /b\.md, which is not there/);
});

test("texts of the description of the API may have no marked words, and may be long", () => {
  const path = "crates/tally-api/openapi.json";
  const long = `${"word ".repeat(40)}end.`;
  const found = (text) => wrongs({ [path]: text }, {});
  assert.deepEqual(found(long), []);
  assert.equal(found(`${long}\n\nThe receiver is told.`).length, 2);
});
