// Where `tally serve --native` finds the native server, and what it says where there is none.
import assert from "node:assert/strict";
import { chmodSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { nativeServer } from "../command/native.mjs";
import { folder } from "./server.mjs";

const place = folder();
after(() => rmSync(place, { recursive: true, force: true }));
const manifest = { version: "1.2.3", optionalDependencies: { "edgetally-linux-x64": "1.2.3" } };

function program(path, mode = 0o755) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, "");
  chmodSync(path, mode);
  return path;
}

test("the one that is named comes first, then the source's, then npm's, then that of the PATH", () => {
  const root = join(place, "app/node_modules/edgetally");
  const wanted = [];
  const bin = join(place, "bin");
  const find = (env) => nativeServer({ env: { PATH: bin, ...env }, platform: "linux-x64", root, manifest }).program;
  assert.equal(find({}), undefined);
  wanted.push(program(join(bin, "tally-server")));
  assert.equal(find({}), wanted.at(-1));
  const installed = join(place, "app/node_modules/edgetally-linux-x64");
  wanted.push(program(join(installed, "bin/tally-server")));
  writeFileSync(join(installed, "package.json"), '{"name":"edgetally-linux-x64","version":"1.2.3"}');
  mkdirSync(root, { recursive: true });
  assert.equal(find({}), wanted.at(-1));
  wanted.push(program(join(root, "target/native/tally-server")));
  assert.equal(find({}), wanted.at(-1));
  wanted.push(program(join(place, "named")));
  assert.equal(find({ TALLY_SERVER: wanted.at(-1) }), wanted.at(-1));
  assert.equal(find({ TALLY_SERVER: "tally-server" }), wanted[0]);
  assert.equal(new Set(wanted).size, 4);
});

test("where there is none it says what to do, by the platform", () => {
  const root = join(place, "empty");
  const fault = (platform, env = {}) => nativeServer({ env, platform, root, manifest }).fault;
  assert.match(fault("linux-x64"), /^tally-server is not found: the package edgetally-linux-x64 is missing: install it by npm install edgetally-linux-x64@1\.2\.3; or build it .*make native.*TALLY_SERVER, or leave out --native$/);
  assert.match(fault("sunos-x64"), /^tally-server is not found: there is none for sunos-x64 in this package: build it/);
  // A file that is no program, and a folder of the PATH that follows where the command runs, are none.
  const plain = program(join(place, "plain/tally-server"), 0o644);
  assert.match(fault("linux-x64", { PATH: dirname(plain) }), /is not found/);
  assert.match(fault("linux-x64", { PATH: ".:bin:" }), /is not found/);
  assert.match(fault("linux-x64", { TALLY_SERVER: plain }), /^TALLY_SERVER names .*plain\/tally-server, which is no program/);
});
