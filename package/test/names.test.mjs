// The package is called `edgetally` in npm and PyPI: there, `tally` is a stranger's. So no text of this project
// installs or imports `tally`.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ROOT } from "./server.mjs";

const STRANGER = [
  /\b(?:npx|bunx|pnpm dlx|yarn dlx|npm exec)(?: -\S+)* tally\b(?!-)/,
  /\b(?:npm|pnpm|yarn|bun|pip|pip3|pipx|uv|cargo) (?:install|i|add|tool install)\b[^\n;&|`]* tally(?=[\s`;&|@=]|$)/m,
  /\b(?:from|import|require)\s*\(?\s*["']tally["'/]/,
  /^\s*(?:from tally import|import tally\b)/m,
];

const isStranger = (text) => STRANGER.find((pattern) => pattern.test(text));

test("no text installs or imports a stranger's package", () => {
  const { stdout } = spawnSync("git", ["ls-files"], { cwd: ROOT, encoding: "utf8" });
  const isText = (path) => /\.(?:md|m?js|ts|py|rs|html|service|toml|jsonc?|yml)$|file$/i.test(path);
  const files = stdout.split("\n").filter(isText);
  const texts = files.filter((path) => path !== "package/test/names.test.mjs");
  assert.ok(texts.length > 500, `${texts.length} files`);
  const found = texts.filter((path) => isStranger(readFileSync(join(ROOT, path), "utf8")));
  assert.deepEqual(found, []);
});

test("the check finds each way to get a stranger's package", () => {
  for (const text of [
    "npx tally serve", "npx --yes tally top", "npm install tally", "npm install --global tally\n", "pip install tally",
    'import { Tally } from "tally";', 'import("tally/hono")', "require('tally')", "from tally import Tally",
    "import tally as client", "cargo install tally",
  ]) assert.ok(isStranger(text), text);
  for (const text of [
    "npx edgetally serve", "npm install ./edgetally-0.2.0.tgz", "pip install ./package/python",
    "tally import access.log",
    'from "edgetally/hono"', "npx wrangler queues create tally-events", "npm install edgetally && tally serve",
    "import tally_core",
  ]) assert.equal(isStranger(text), undefined, text);
});
