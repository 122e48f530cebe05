// Each end-to-end test runs on the native server or, if it is named in tests/e2e/served.mjs, in virtual time.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { SERVED_TESTS, UNSERVED_FILES, UNSERVED_TESTS, UNSERVED_WORDS } from "../e2e/served.mjs";

const SPECS = fileURLToPath(new URL("../e2e", import.meta.url));
const specs = readdirSync(SPECS).filter((name) => name.endsWith(".spec.mjs"));
const served = specs.filter((name) => !UNSERVED_FILES.includes(name));
const textOf = new Map(served.map((name) => [name, readFileSync(join(SPECS, name), "utf8")]));

test("files that the native server does not run are there", () => {
  for (const name of UNSERVED_FILES) assert.ok(specs.includes(name), name);
});

test("words that leave out a test are those of a test", () => {
  for (const words of UNSERVED_WORDS) {
    assert.ok([...textOf.values()].some((text) => text.includes(words)), `no test of ${served.length} files: ${words}`);
  }
});

test("a name is one of a test in virtual time, or of a test on the native server", () => {
  const found = [...textOf.values()].flatMap((text) => [...text.matchAll(/\btest\S*\(\s*["`](.+?)["`],/g)]);
  const names = found.map(([, name]) => name);
  assert.ok(names.length > 400, `${names.length} names`);
  const virtual = names.filter((name) => UNSERVED_TESTS.test(name));
  assert.ok(virtual.length >= UNSERVED_WORDS.length / 2, `${virtual.length} of ${names.length} in virtual time`);
  for (const name of names) assert.notEqual(UNSERVED_TESTS.test(name), SERVED_TESTS.test(name), name);
});
