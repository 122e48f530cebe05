// Texts and files as the command opens them, and the border to what decides an import: without a server. What lines,
// lists and options say is shown natively, by crates/tally-logs and crates/tally-import.
import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { packing } from "../command/import/source.mjs";
import { call } from "../command/import/wasm.mjs";
import { readText, textOf } from "../command/text.mjs";
import { folder } from "./server.mjs";

test("a text has no mark, and UTF-16 is named with the file", (context) => {
  const place = folder();
  context.after(() => rmSync(place, { recursive: true, force: true }));
  const file = join(place, "list.txt");
  writeFileSync(file, "\ufeffmysite/hits 12\n");
  assert.equal(readText(file), "mysite/hits 12\n");
  for (const text of ["\ufeffa 1", "a 1"]) {
    assert.throws(() => textOf(Buffer.from(text, "utf16le"), "x.txt"), /x\.txt is UTF-16, .*iconv -f UTF-16 -t UTF-8/);
  }
  assert.throws(() => readText(join(place, "nothing")), (error) => error.exit === 3);
});

test("packings are known by their first bytes", () => {
  assert.equal(packing(Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, 0])), "zstd");
  assert.equal(packing(Buffer.from("127.0.0.1")), undefined);
});

test("what fails on either side of the border is an error of the call", () => {
  const { json: values } = call("values", { mode: "add", prefix: "" });
  call("list", { values }, Buffer.from("a 1\n"));
  const fails = { digest: () => { throw new Error("no hash") } };
  assert.throws(() => call("nextBody", { values, isEnd: true }, undefined, fails), /no hash/);
  const isNoJson = ({ exit, message }) => exit === 1 && /no JSON/.test(message);
  assert.throws(() => call("list", { values }, Buffer.from("{")), isNoJson);
  assert.throws(() => call("nothing"), /the call nothing is none of build\/logs\.wasm/);
});
