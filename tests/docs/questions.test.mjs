// Each page has five questions that it answers. Reviewers who have read nothing else answer them.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ROOT, documents, read } from "./pages.mjs";

const FOLDER = "tests/docs/questions";
const files = readdirSync(join(ROOT, FOLDER)).map((name) => `${FOLDER}/${name}`);
const pageOf = (path) => read(path).match(/^# (\S+)\n/)?.[1];

test("each page below a folder of docs has questions, and each file of questions a page", () => {
  const asked = files.map(pageOf);
  assert.equal(new Set(asked).size, files.length, "a page has two files");
  const pages = documents().filter((path) => /^docs\/(?:guide|operate|develop|internals)\//.test(path));
  assert.ok(pages.length > 30, `${pages.length} pages`);
  assert.deepEqual(pages.filter((path) => !asked.includes(path)), []);
  for (const page of asked) assert.ok(read(page).length > 0, page);
});

for (const path of files) {
  test(`${path} has five questions and their answers`, () => {
    const [, ...lines] = read(path).trim().split("\n");
    const parts = lines.filter((line) => line !== "");
    assert.ok(parts.length >= 10, `${parts.length / 2} questions`);
    for (const [index, line] of parts.entries()) {
      if (index % 2 === 0) assert.match(line, new RegExp(`^${index / 2 + 1}\\. .*[?.]$`));
      else assert.match(line, /^ {3}\*\*Answer:\*\* \S/);
    }
  });
}
