// The tables of limits and of variables say what the code says, and lack nothing.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { constants } from "../../scripts/constants.mjs";
import { written } from "../../scripts/table-limits.mjs";
import { ROOT, documents, parse, read } from "./pages.mjs";

const LIMITS = "docs/operate/limits.md";
const ALL_LIMITS = "docs/internals/limits.md";
const VARIABLES = "docs/operate/variables.md";

const known = constants(ROOT);

// What a unit is in the unit that the name of a constant ends with.
const UNITS = {
  bytes: { byte: 1, bytes: 1, KiB: 1024, MiB: 1024 ** 2, KB: 1000, MB: 1000 ** 2 },
  ms: { ms: 1, s: 1_000, min: 60_000, h: 3_600_000, days: 86_400_000 },
  seconds: { s: 1, min: 60, h: 3_600, days: 86_400 },
};

/** Returns the number that a cell begins with, in the unit of the constant named. */
function numberOf(cell, constant) {
  const found = cell.match(/^([\d,]+(?:\.\d+)?)(?: (\w+))?/);
  assert.ok(found, `${JSON.stringify(cell)} does not begin with a number`);
  const number = Number(found[1].replaceAll(",", ""));
  const kind = /(^|_)BYTES(_|$)/.test(constant)
    ? "bytes"
    : /_MS(_|$)|_KEPT_MS/.test(constant)
      ? "ms"
      : /SECONDS|_KEPT$/.test(constant)
        ? "seconds"
        : undefined;
  return number * ((kind && UNITS[kind][found[2]]) ?? 1);
}

// Rows of a table with the constant that their last cell links to: `{ cell, name, file, line }`.
function limitRows(page) {
  return parse(read(page)).rows.flatMap(({ cells, line }) => {
    const found = cells.at(-1).match(/^\[`([A-Z0-9_]+)`\]\((?:\.\.\/)*((?:src|crates)\/[^)]+)\)$/);
    return found ? [{ cell: cells[1], name: found[1], file: found[2], line }] : [];
  });
}

test("each limit of the table has the value of its constant", () => {
  const rows = limitRows(LIMITS);
  assert.ok(rows.length >= 40, `${rows.length} rows`);
  for (const { cell, name, file, line } of rows) {
    const constant = known.find((one) => one.name === name && one.file === file);
    assert.ok(constant, `${LIMITS}:${line}: ${file} has no constant ${name}`);
    assert.equal(numberOf(cell, name), Number(constant.value), `${LIMITS}:${line}: ${name}`);
  }
});

test("the table of all limits is that of the sources; `make docs` writes it", () => {
  assert.equal(read(ALL_LIMITS), written(read(ALL_LIMITS)));
});

// Names of variables in code, comments apart.
function variablesOf(folder, pattern, extension) {
  const files = readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true }).filter(
    (entry) => entry.isFile() && entry.name.endsWith(extension) && !entry.name.endsWith(".test.mjs"),
  );
  const texts = files.map((entry) =>
    readFileSync(join(entry.parentPath, entry.name), "utf8").replace(/^\s*\/\/.*$/gm, ""),
  );
  return texts.flatMap((text) => [...text.matchAll(pattern)].map(([, name]) => name));
}

test("the table of variables has each that is read, and no other", () => {
  const inWorkers = ["src", "crates"].flatMap((folder) =>
    variablesOf(folder, /const [A-Z_]+: &str = "(TALLY_[A-Z_]+)"/g, ".rs"),
  );
  const serve = ["scripts/server.mjs", "scripts/serve-settings.mjs"].map(read).join("\n");
  const inServe = [...serve.matchAll(/\benv\.([A-Z][A-Z_]+)/g)]
    .map(([, name]) => name)
    .filter((name) => name !== "PATH");
  const names = parse(read(VARIABLES)).rows.flatMap(({ cells }) => cells[0].match(/^`([A-Z_]+)`$/)?.[1] ?? []);
  assert.deepEqual([...new Set(names)].sort(), [...new Set([...inWorkers, ...inServe])].sort());
  assert.equal(new Set(names).size, names.length, "a variable stands twice");
});

test("the page of all calls has every call of the API", () => {
  const paths = Object.entries(JSON.parse(read("crates/tally-api/openapi.json")).paths);
  const table = parse(read("docs/develop/api.md"))
    .rows.map(({ cells }) => cells[0])
    .join("\n");
  const missing = paths.flatMap(([path, methods]) =>
    Object.keys(methods)
      .filter((method) => method !== "parameters" && !(table.includes(path) && table.includes(method.toUpperCase())))
      .map((method) => `${method.toUpperCase()} ${path}`),
  );
  assert.deepEqual(missing, []);
});

test("the table of errors has each code with its status and what to do, and no other", () => {
  const source = read("crates/tally-wire/src/problem.rs");
  const text = (literal) => literal.replaceAll(/\\\n\s*/g, "").replaceAll('\\"', '"');
  const codes = [...source.matchAll(/^ {4}[A-Z]\w+ "([a-z-]+)" (\d{3}) "[^"]+"\n\s+"((?:[^"\\]|\\[\s\S])*)";$/gm)].map(
    ([, code, status, remedy]) => `${code} ${status} ${text(remedy)}`,
  );
  const entries = parse(read("docs/guide/errors.md")).rows.flatMap(({ cells }) => {
    const code = cells[0].match(/^`([a-z-]+)`$/)?.[1];
    return code ? [`${code} ${cells[1]} ${cells[2].replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")}`] : [];
  });
  assert.ok(codes.length > 30);
  assert.deepEqual(entries.sort(), codes.sort());
});

test("no table that a program writes is empty", () => {
  const made = /<!-- written by (.*) -->\n([\s\S]*?)<!-- up to here -->/g;
  const empty = documents().flatMap((page) =>
    [...read(page).matchAll(made)].filter(([, , text]) => text.trim() === "").map(([, by]) => `${page}: ${by}`),
  );
  assert.deepEqual(empty, []);
});
