// The page of trust is what the script makes of the ledger, and reports add up.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { LEDGER, PAGE, read, textOf, withReport } from "./ledger.mjs";
import { pageOf } from "./page.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const EMPTY = { worlds: [], histories: [], seeds: [], mutants: [], models: [], kills: [], documents: [], suites: [] };
const run = (more) => ({
  commit: "a", kind: "usual", date: "2026-01-01", from: 5, worlds: 10, wrong: [], real_ms: 1, virtual_ms: 2, ...more,
});

test("docs/trust.md is what the script makes of the ledger: node simulation/ledger/ledger.mjs", () => {
  assert.equal(readFileSync(PAGE, "utf8"), pageOf(read()));
});

test("the ledger is written as the script writes it", () => {
  assert.equal(readFileSync(LEDGER, "utf8"), textOf(read()));
});

test("runs of one commit and kind add up, and others stay apart", () => {
  let ledger = withReport(EMPTY, "worlds", run());
  ledger = withReport(ledger, "worlds", run({ from: 100, worlds: 20, wrong: [107] }));
  ledger = withReport(ledger, "worlds", run({ kind: "holds" }));
  ledger = withReport(ledger, "worlds", run({ commit: "b" }));
  assert.equal(ledger.worlds.length, 3);
  const usual = ledger.worlds.find(({ commit, kind }) => commit === "a" && kind === "usual");
  assert.deepEqual([usual.worlds, usual.wrong, usual.from, usual.virtual_ms], [30, [107], 100, 4]);
});

test("a failing seed and a survivor are on the page", () => {
  let ledger = withReport(EMPTY, "worlds", run({ wrong: [4_711] }));
  ledger = withReport(ledger, "mutants", { commit: "a", date: "d", run: 2, all: 2, caught: 1, survivors: ["a guard"] });
  assert.match(pageOf(ledger), /4711/);
  assert.match(pageOf(ledger), /\| 1 \| a guard \|/);
});

test("a failing seed is open until it is in the list of what seeds taught", () => {
  const ledger = withReport(EMPTY, "worlds", run({ wrong: [4_711, 4_712], kind: "holds" }));
  assert.match(pageOf(ledger), /Open, so not explained yet: 4711 \(holds\), 4712 \(holds\)\./);
  const seeds = ["4711", "4712"].map((seed) => ({ seed, commit: "b", wrong: "w", taught: "t" }));
  assert.match(pageOf({ ...ledger, seeds }), /No failing seed is open\./);
});

test("the page of models has the numbers of states of the ledger", () => {
  const page = readFileSync(`${ROOT}docs/internals/models.md`, "utf8");
  const rows = page.split("\n").filter((line) => /^\| .*laws\/|^\| .* the same \|$/.test(line));
  const texts = rows.flatMap((row) => row.split("|").at(-3).match(/[\d,]+/g));
  const shown = texts.map((text) => Number(text.replaceAll(",", "")));
  const known = read().models.map(({ states }) => states);
  assert.ok(shown.length > 10, shown.join());
  assert.deepEqual(shown.filter((states) => !known.includes(states)), []);
});

test("the newest mutants of a commit replace the former ones", () => {
  const mutants = (caught) => ({ commit: "a", date: "d", run: 2, all: 2, caught, survivors: [] });
  const ledger = withReport(withReport(EMPTY, "mutants", mutants(1)), "mutants", mutants(2));
  assert.deepEqual(ledger.mutants.map(({ caught }) => caught), [2]);
});

test("a section that does not exist is refused", () => {
  assert.throws(() => withReport(EMPTY, "luck", {}), /no section/);
});

test("each seed of the ledger is repeated by every test run, or has a law of its own", () => {
  const soak = readFileSync(`${ROOT}simulation/tests/worlds/soak.rs`, "utf8");
  const lists = [...soak.matchAll(/const FOUND(?:_[A-Z_]+)?: \[u64; \d+\] = \[([^\]]*)\]/g)];
  const repeated = lists.flatMap(([, list]) => list.replaceAll("_", "").match(/\d+/g));
  const { seeds } = read();
  for (const { law } of seeds) if (law !== undefined) assert.ok(existsSync(`${ROOT}${law}`), law);
  // Seed 1 is among the first hundred.
  const others = seeds.filter(({ seed, law }) => seed !== "1" && law === undefined && !repeated.includes(seed));
  assert.deepEqual(others, []);
  assert.deepEqual(repeated.filter((seed) => !seeds.some((known) => known.seed === seed)), []);
});
