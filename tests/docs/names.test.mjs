// The documents that explain the code name files and functions that are there.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ROOT, documents, read } from "./pages.mjs";

// What stands before a file in a document, and where it lies; the first that has it is taken.
const BASES = ["", "src/", "crates/tally-core/src/", "src/node/", "simulation/src/", "simulation/tests/"];
const CRATES = [
  [/^(?:tally-)?core\//, "crates/tally-core/src/"],
  [/^(?:tally-)?protocol\//, "crates/tally-protocol/src/"],
  [/^(?:tally-)?limit\//, "crates/tally-limit/src/"],
  [/^(?:tally-)?sketch\//, "crates/tally-sketch/src/"],
];

/** Returns the file of the project that a document names; undefined where there is none. */
function named(path) {
  const ofCrates = CRATES.filter(([short]) => short.test(path)).map(([short, long]) => path.replace(short, long));
  const found = [...ofCrates, ...BASES.map((base) => `${base}${path}`)].find((one) => existsSync(join(ROOT, one)));
  return found;
}

/** Returns the steps of the walks: `{ line, path, functions }` each. */
function steps() {
  const lines = read("ARCHITECTURE.md").split("\n");
  const begin = lines.indexOf("## Two walks, by names");
  return lines.flatMap((text, index) => {
    const [, path, rest] = index > begin ? (text.match(/^\d+\. `([^`]+\.rs)`: (.*)$/) ?? []) : [];
    if (path === undefined) return [];
    return [{ line: index + 1, path, functions: [...rest.matchAll(/`(\w+)`/g)].map(([, name]) => name) }];
  });
}

test("the walks name functions of the files that they name", () => {
  const all = steps();
  assert.ok(all.length >= 30, `${all.length} steps`);
  const wrong = all.flatMap(({ line, path, functions }) => {
    const file = named(path);
    if (file === undefined) return [`ARCHITECTURE.md:${line}: ${path} is not there`];
    const source = readFileSync(join(ROOT, file), "utf8");
    return functions
      .filter((name) => !new RegExp(`\\bfn ${name}\\b`).test(source))
      .map((name) => `ARCHITECTURE.md:${line}: ${path} has no function ${name}`);
  });
  assert.deepEqual(wrong, []);
});

test("the chapters on the inside name files that are there", () => {
  const chapters = documents().filter((path) => path === "ARCHITECTURE.md" || path.startsWith("docs/internals/"));
  const wrong = chapters.flatMap((page) =>
    read(page)
      .split("\n")
      .flatMap((text, index) =>
        [...text.matchAll(/`([\w-]+(?:\/[\w-]+)+\.rs)`/g)]
          .filter(([, path]) => named(path) === undefined)
          .map(([, path]) => `${page}:${index + 1}: ${path} is not there`),
      ),
  );
  assert.deepEqual(wrong, []);
});
