// Every address of an object is made in one place, so that none is outside of the jurisdiction of a deployment.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

const ROOT = new URL("../../", import.meta.url);
const files = (folder) => readdirSync(new URL(folder, ROOT), { recursive: true });
const read = (path) => readFileSync(new URL(path, ROOT), "utf8");

test("namespaces of objects are taken from the environment once, by the function that knows the jurisdiction", () => {
  const rust = files("src/workers").filter((file) => file.endsWith(".rs"));
  const texts = rust.map((file) => [file, read(`src/workers/${file}`)]);
  const taken = texts.flatMap(([file, text]) => [...text.matchAll(/\.durable_object\(/g)].map(() => file));
  assert.deepEqual(taken, ["messages.rs"]);
  const [own] = read("src/workers/messages.rs").match(/pub\(super\) fn namespace\([^]*?\n\}/);
  assert.match(own, /env\.durable_object\(binding\)[^]*jurisdiction\(name\)/);
  for (const [file, text] of texts) {
    for (const [call] of text.matchAll(/\.(?:get_by_name|id_from_name|unique_id|id_from_string)\w*\(/g)) {
      assert.match(text, /\bnamespace\(/, `${file} has ${call} of a namespace of its own`);
    }
  }
});

test("JavaScript of the Worker makes no address of an object", () => {
  for (const file of files("src").filter((file) => file.endsWith(".js"))) {
    assert.doesNotMatch(read(`src/${file}`), /idFromName|getByName|newUniqueId/, file);
  }
});
