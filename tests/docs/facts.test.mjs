// Facts that several pages quote have one source each: a constant, a manifest, or the page that works them out.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { constants } from "../../scripts/constants.mjs";
import { ROOT, documents, parse, read } from "./pages.mjs";

const quoted = documents().filter((page) => !page.startsWith("tests/") && page !== "BENCHMARKS.md");

/** Returns `{ page, line, found }` of each match in the pages that people read. */
function mentions(pattern, pages = quoted) {
  return pages.flatMap((page) =>
    read(page)
      .split("\n")
      .flatMap((text, index) => [...text.matchAll(pattern)].map((found) => ({ page, line: index + 1, text, found }))),
  );
}

const where = ({ page, line, text }) => `${page}:${line}: ${text}`;

const versionOf = (text) => text.match(/(\d+(?:\.\d+)?)/)[1];

test("each version of Node in a page is the one that its part of the project needs", () => {
  const needs = {
    // The project brings its own Node for its tools.
    build: versionOf(read("scripts/setup.sh").match(/any version from \d+/)[0]),
    package: versionOf(read("package/package.mjs").match(/engines: \{ node: "([^"]+)"/)[1]),
  };
  const checked = read("package/command/place.mjs").match(/const NODE_MIN = \[(\d+), (\d+)\]/);
  assert.equal(`${checked[1]}.${checked[2]}`, needs.package);
  const found = mentions(/\bNode (\d+(?:\.\d+)?)/g);
  assert.ok(found.length >= 4, `${found.length} mentions`);
  for (const one of found) assert.ok(Object.values(needs).includes(one.found[1]), where(one));
  for (const [page, ...parts] of [
    ["README.md", "build", "package"], ["CONTRIBUTING.md", "build"], ["docs/guide/command.md", "package"],
    ["docs/develop/miniflare.md", "package"],
  ]) {
    const own = found.filter((one) => one.page === page).map((one) => one.found[1]);
    assert.deepEqual([...new Set(own)], parts.map((part) => needs[part]), page);
  }
});

test("the number of partitions is that of the directory, wherever a page names it", () => {
  const { value } = constants(ROOT).find(({ name }) => name === "DIRECTORY_PARTITIONS");
  const found = mentions(/\b(?:the|of|has|of its|all|and) (\d+) partitions\b(?! of the keys)/g);
  assert.ok(found.length >= 4, `${found.length} mentions`);
  for (const one of found) assert.equal(one.found[1], String(value), where(one));
  const { rows } = parse(read("docs/operate/variables.md"));
  const row = rows.find(({ cells }) => cells[0] === "`TALLY_DIRECTORY_PARTITIONS`");
  assert.equal(row.cells[3], String(value));
});

test("rows and dollars of a million are worked out in the page of costs, and only quoted elsewhere", () => {
  const rows = parse(read("docs/operate/costs.md")).rows.filter(({ cells }) => /^[\d,.]+$/.test(cells.at(-1)));
  const dollars = rows.map(({ cells }) => cells.at(-1));
  const others = mentions(/\$(\d+\.\d\d)\b/g).filter(({ page }) => !page.startsWith("docs/operate/costs"));
  assert.ok(others.length >= 3, `${others.length} mentions`);
  // Prices that are Cloudflare's own, and what follows from them for other things than a million.
  const isOfMillion = ({ text }) => /million/.test(text);
  const questions = ["costs", "faq", "README"].map((name) => `tests/docs/questions/${name}.md`);
  const answers = mentions(/\$(\d+\.\d\d)\b/g, questions);
  assert.ok(answers.length >= 5, `${answers.length} answers`);
  for (const one of [...others.filter(isOfMillion), ...answers]) assert.ok(dollars.includes(one.found[1]), where(one));
  // How many rows a view writes differs by what it names, so only the table says it.
  const isGuide = ({ page }) => page.startsWith("docs/guide") || page === "README.md";
  const views = mentions(/\b(\d+\.\d+) rows\b/g).filter(isGuide);
  for (const one of views) assert.ok(rows.some(({ cells }) => cells.includes(one.found[1])), where(one));
});

test("what a page says of a machine's size and of rates was measured", () => {
  const measured = read("BENCHMARKS.md");
  for (const [page, pattern, least] of [
    ["docs/operate/machine.md", /\| (\d+) MiB \|/g, 4],
    ["docs/guide/export.md", /(\d,\d{3})(?: counters a second| with histories)/g, 2],
    ["docs/internals/tablets.md", /measured (\d+,\d{3}) new counters a second/g, 1],
    ["README.md", /(\d+) µs|(\d+) MiB of memory/g, 3],
  ]) {
    const figures = [...read(page).matchAll(pattern)].map((found) => found[1] ?? found[2]);
    assert.ok(figures.length >= least, `${page}: ${figures}`);
    // A page may round a figure to whole numbers.
    const exact = [...measured.matchAll(/\d[\d,.]*\d|\d/g)].map(([text]) => text);
    const all = new Set([...exact, ...exact.map((text) => String(Math.round(Number(text))))]);
    for (const figure of figures) assert.ok(all.has(figure), `${page}: ${figure} is not in BENCHMARKS.md`);
  }
});

test("reads that report their age in headers only are named where `as_of` is promised", () => {
  const promise = read("docs/guide/exactness.md");
  assert.match(promise, /`GET \/api\/counter` and answers in plain text report the first three in the headers/);
  const { paths } = JSON.parse(read("crates/tally-api/openapi.json"));
  const answer = paths["/api/counter"].get.responses["200"];
  assert.match(answer.description, /`Tally-As-Of`/);
  assert.deepEqual(Object.keys(answer.content["application/json"].schema.properties), ["key", "count"]);
});

test("make help and the README say how long a first run and the tests take, and the bench holds the first", () => {
  const readme = read("README.md");
  const help = read("Makefile");
  for (const [command, pattern] of [
    ["serve", /about (\d+) minutes the first time/], ["test", /about (\d+) minutes on two cores/],
  ]) {
    const isOf = (one) => one.includes(`make ${command} `) && pattern.test(one);
    const line = (text) => text.split("\n").find(isOf)?.match(pattern)[1];
    assert.notEqual(line(help), undefined, `make help says nothing of make ${command}`);
    assert.equal(line(help), line(readme), `make ${command}`);
  }
  const [, most_ms] = read("benches/setup-report.mjs").match(/FIRST_RUN_MS_MAX = ([\d_]+)/);
  const most = Number(most_ms.replaceAll("_", "")) / 60_000;
  for (const text of [help, read("CONTRIBUTING.md")]) {
    const line = text.split("\n").find((one) => one.includes("make bench-setup") && one.includes("newcomer"));
    assert.match(line, new RegExp(`at most ${most} minutes`));
  }
  const first = Number(readme.match(/about (\d+) minutes the first time/)[1]);
  assert.ok(first <= most, `${first} minutes`);
});

// A walk of CONTRIBUTING.md: its text, and the files of its table, which exist.
function walk(question) {
  const [, behind] = read("CONTRIBUTING.md").split(`**${question}**`);
  const [section] = behind.split("\n**");
  // What a command writes is no work.
  const rows = parse(section).rows.filter(({ cells: [, what] }) => !what.startsWith("nothing by hand"));
  const named = rows.flatMap(({ cells: [first] }) => [...first.matchAll(/`([^`]+)`/g)]);
  const files = named.map(([, file]) => file);
  for (const file of files) read(file);
  return { section, files };
}

test("a parameter of a top, and an algorithm of limits, take few files, and the name of an algorithm stands once", () => {
  const top = walk("How do I add a parameter to `GET /top`?").files;
  assert.ok(top.length >= 4 && top.length <= 8, top.join());
  const limit = walk("How do I add an algorithm of rate limits?").files;
  assert.ok(limit.length >= 4 && limit.length <= 9, limit.join());
  const folders = readdirSync(join(ROOT, "crates")).map((crate) => `crates/${crate}/src`);
  const sources = folders.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true }).map((file) => `${folder}/${file}`),
  );
  for (const name of ["sliding-window", "fixed-window", "token-bucket", "concurrency"]) {
    const naming = sources.filter((file) => file.endsWith(".rs") && read(file).includes(`"${name}"`));
    assert.deepEqual(naming, ["crates/tally-limit/src/policy.rs"], name);
  }
  // The description has their list from there.
  const lists = read("crates/tally-api/src/openapi.json").match(/"enum": \[[^\]]*\]/g);
  assert.deepEqual(lists.filter((list) => list.includes('"fixed-window"')), []);
});

test("a field of a counter's answer goes from the cell to the client in at most 4 structs and 8 files", () => {
  const { section, files } = walk("How do I add a field to a counter's answer?");
  assert.ok(files.length >= 4 && files.length <= 8, files.join());
  const structs = ["CellFacts", "CounterView"];
  for (const name of structs) assert.ok(section.includes(`\`${name}\``), name);
  // What carries a cell's facts has all of them, and no field of its own for one.
  const core = "crates/tally-core/src";
  const facts = read(`${core}/counter/merge/facts.rs`).match(/pub struct CellFacts \{([^}]+)\}/)[1];
  const fields = [...facts.matchAll(/pub (\w+):/g)].map(([, field]) => field);
  assert.ok(fields.includes("last_write_ms"), fields.join());
  for (const [file, name] of [
    [`${core}/counter/cell.rs`, "CellState"], [`${core}/counter/cell.rs`, "FlushRow"], [`${core}/counter/merge.rs`, "Part"],
    [`${core}/counter/cell/recovery.rs`, "CellRecovery"], [`${core}/cluster/view.rs`, "ReportOrder"],
    [`${core}/cluster/view.rs`, "DatacenterState"], ["crates/tally-wire/src/messages/archive/repair.rs", "RememberedCell"],
  ]) {
    const own = read(file).match(new RegExp(`pub struct ${name}(?:<.*>)? \\{([\\s\\S]+?)\\n\\}`))[1];
    assert.match(own, /\bfacts: CellFacts,/, name);
    for (const field of fields) assert.doesNotMatch(own, new RegExp(`\\b${field}:`), `${name}: ${field}`);
  }
});
