// Pictures follow from scripts, and figures from the benchmark.
import assert from "node:assert/strict";
import { test } from "node:test";
import { picture } from "../../scripts/plot-architecture.mjs";
import { documents, parse, read } from "./pages.mjs";

// Who makes each picture: a script, `make converge`, or the browser's tests with SCREENSHOTS=1.
const MAKERS = [
  [/^architecture\.svg$/, "scripts/plot-architecture.mjs"],
  [/^converge-\d+\.svg$/, "scripts/plot-converge.mjs"],
  [/^dashboard-\d+-(light|dark)\.png$/, "tests/browser/dashboard-pictures.spec.mjs"],
  [/^dashboard-(counter|board|limits|alerts)\.png$/, "tests/browser/guide-pictures.spec.mjs"],
  [/^badges\.png$/, "tests/browser/pages.spec.mjs"],
];

test("the picture of the README is the one that its script draws; `make docs` draws it", () => {
  assert.equal(read("docs/architecture.svg"), picture());
});

test("every picture that a page shows is made by something in the project", () => {
  for (const page of documents()) {
    for (const { target, line } of parse(read(page)).links) {
      const name = target.match(/([\w-]+\.(?:png|svg))$/)?.[1];
      if (name === undefined || /^https?:/.test(target)) continue;
      const maker = MAKERS.find(([names]) => names.test(name))?.[1];
      assert.ok(maker, `${page}:${line}: nobody makes ${name}`);
      assert.ok(read(maker).length > 0);
    }
  }
});

test("speeds that the README compares are those of BENCHMARKS.md", () => {
  const recorded = read("BENCHMARKS.md");
  const speeds = [...read("README.md").matchAll(/\b([\d,]+)\/s\b/g)].map(([, number]) => number);
  assert.ok(speeds.length >= 5, speeds.join());
  for (const speed of speeds) assert.ok(recorded.includes(` ${speed} requests `), `BENCHMARKS.md has no ${speed}: take the figures of its newest run`);
});

test("dollars that the README names are worked out in the page of costs", () => {
  const rows = parse(read("docs/operate/costs.md")).rows.map(({ cells }) => cells.at(-1));
  const dollars = [...read("README.md").matchAll(/\$(\d+\.\d\d)/g)].map(([, number]) => number);
  assert.ok(dollars.length >= 3, dollars.join());
  for (const one of dollars) assert.ok(rows.includes(one), `docs/operate/costs.md has no row of ${one}`);
});

test("rows per 1,000 increments of a busy counter are everywhere about what was counted", () => {
  const row = /^\| rows written per 1,000 hot increments, one isolate \| \*\*([\d.]+)\*\*/m;
  const counted = read("BENCHMARKS.md").match(row);
  const pages = ["README.md", "docs/guide/counters.md"];
  const said = pages.map((page) => [page, read(page).match(/about (\d+) (?:row writes|calls and \d+ rows)/)]);
  for (const [page, found] of said) {
    assert.ok(found !== null, page);
    const off = Math.abs(Number(found[1]) - Number(counted[1]));
    assert.ok(off < 2, `${page} says ${found[1]}, ${counted[1]} were counted`);
  }
});

test("costs are worked out from calls and rows, and those of hot counters are the ones that were counted", () => {
  const recorded = read("BENCHMARKS.md");
  const rows = parse(read("docs/operate/costs.md")).rows.filter(
    ({ cells }) => cells.length === 5 && /^\d+\.\d\d$/.test(cells[4]),
  );
  assert.ok(rows.length >= 6);
  for (const { cells, line } of rows) {
    const [requests, calls, written] = cells.slice(1, 4).map((cell) => Number(cell.replaceAll(",", "")));
    const where = `docs/operate/costs.md:${line}`;
    if ([requests, calls, written].every(Number.isFinite)) {
      const dollars = (requests * 0.3 + calls * 0.15 + written * 1) / 1e6;
      assert.ok(Math.abs(dollars - Number(cells[4])) <= 0.005, `${where}: ${dollars}`);
    }
    if (!/hot counter|two clients/.test(cells[0])) continue;
    for (const number of [calls, written]) {
      assert.ok(
        recorded.includes(`**${(number / 1000).toFixed(1)}**`), `${where}: BENCHMARKS.md has no ${number / 1000}`,
      );
    }
  }
});
