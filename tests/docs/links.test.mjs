// Links and anchors of all documents lead somewhere, every page is reached from the README, and the README stays short.
import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { test } from "node:test";
import { ROOT, documents, parse, read } from "./pages.mjs";

const README_LINES_MAX = 160;

const pages = new Map(documents().map((path) => [path, parse(read(path))]));

/** Returns `{ path, anchor }` of a link within the project, undefined for one that leads out. */
function within(from, target) {
  if (/^[a-z]+:/.test(target)) return undefined;
  const [path, anchor] = target.split("#");
  return { path: path === "" ? from : normalize(join(dirname(from), decodeURIComponent(path))), anchor };
}

test("links lead to files, and their anchors to headings", () => {
  const wrong = [];
  for (const [from, { links }] of pages) {
    for (const { target, line } of links) {
      const to = within(from, target);
      if (to === undefined) continue;
      if (!existsSync(join(ROOT, to.path))) {
        wrong.push(`${from}:${line}: ${target} is not there`);
      } else if (to.anchor && !pages.get(to.path)?.headings.includes(to.anchor)) {
        wrong.push(`${from}:${line}: ${target} has no such heading`);
      }
    }
  }
  assert.deepEqual(wrong, []);
});

/** The folders with Rust; a crate's `src` is left out of a name, as in `tally-limit/lender.rs`. */
const SOURCES = ["src", "crates", "simulation", "tests"];

test("the source files that pages name are there", () => {
  const files = SOURCES.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true }).map((file) => `/${folder}/${file}`),
  );
  const known = files
    .filter((file) => file.endsWith(".rs"))
    .flatMap((file) => [file, file.replace("/src/", "/"), file.replace("/crates/tally-", "/").replace("/src/", "/")]);
  const wrong = [];
  // The CHANGELOG tells of files that are gone.
  for (const path of documents().filter((path) => path !== "CHANGELOG.md")) {
    for (const [, name] of read(path).matchAll(/`([\w/-]+\/[\w-]+\.rs)`/g)) {
      if (!known.some((file) => file.endsWith(`/${name}`))) wrong.push(`${path}: ${name} is not there`);
    }
  }
  assert.deepEqual(wrong, []);
});

test("every page of docs is reached from the README", () => {
  const reached = new Set(["README.md"]);
  for (const from of reached) {
    for (const { target } of pages.get(from).links) {
      const to = within(from, target)?.path;
      if (pages.has(to)) reached.add(to);
    }
  }
  assert.deepEqual([...pages.keys()].filter((path) => path.startsWith("docs/") && !reached.has(path)), []);
});

test(`the README has at most ${README_LINES_MAX} lines`, () => {
  const lines = read("README.md").trimEnd().split("\n").length;
  assert.ok(lines <= README_LINES_MAX, `${lines} lines`);
});
