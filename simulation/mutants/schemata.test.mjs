import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { MUTATIONS } from "./broken.mjs";
import { outcomeOf } from "./judge.mjs";
import { CHOSEN, rootWithSwitch, schemata } from "./schemata.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

// What a scanner may take for something else: brackets and quotes in literals and comments, lifetimes, arrays in
// signatures, functions within functions, types that have no name.
const PROGRAM = `
/// A brace in a comment: { fn no() {
fn quoted<'a>(text: &'a str) -> [&'a str; 2] {
    let (open, quote) = ('{', '\\'');
    let raw = r#"fn " { "#;
    assert!(open == '{' && quote == '\\'' && raw.len() == 7 && "\\"}".len() == 2);
    [text, "one"]
}
fn outer(n: u32) -> u32 {
    fn inner(n: u32) -> u32 {
        n + 10
    }
    inner(n) + 100
}
fn listed(most: u32) -> impl Iterator<Item = u32> {
    (0..most).map(move |n| {
        n * 2
    })
}
trait Named {
    fn name(&self) -> u32;
}
impl Named for u32 {
    fn name(&self) -> u32 {
        *self
    }
}
const fn fixed() -> u32 {
    7
}
fn main() {
    println!("{} {} {:?} {}", quoted("a").concat(), outer(0), listed(3).collect::<Vec<_>>(), 4_u32.name() + fixed());
}
`;
const CHANGES = [
  ['[text, "one"]', '["b", text]'], ["n + 10", "n + 20"], ["inner(n) + 100", "inner(n + 1) + 100"], ["n * 2", "n * 3"],
  ["*self\n    }\n}", "*self + 1\n    }\n}"],
];
const numbered = (changes) => changes.map(([text, instead], at) => ({ number: at + 1, text, instead }));

test("a program does what the chosen mutation says, and without one what it did", () => {
  const folder = mkdtempSync(join(tmpdir(), "tally-schemata-"));
  try {
    const { source, apart } = schemata(PROGRAM, numbered(CHANGES));
    assert.deepEqual(apart, []);
    writeFileSync(join(folder, "main.rs"), rootWithSwitch(source));
    const program = join(folder, "program");
    const command = ["--edition", "2024", "-o", program, "main.rs"];
    const built = spawnSync("rustc", command, { cwd: folder, encoding: "utf8" });
    assert.equal(built.status, 0, built.stderr);
    const says = (number) =>
      spawnSync(program, { encoding: "utf8", env: { ...process.env, [CHOSEN]: String(number) } }).stdout.trim();
    assert.deepEqual([0, 1, 2, 3, 4, 5, 6].map(says), [
      "aone 110 [0, 2, 4] 11", "ba 110 [0, 2, 4] 11", "aone 120 [0, 2, 4] 11", "aone 111 [0, 2, 4] 11",
      "aone 110 [0, 3, 6] 11", "aone 110 [0, 2, 4] 12", "aone 110 [0, 2, 4] 11",
    ]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("what no process can choose is named", () => {
  const source = "const A: u8 = 1;\nconst fn b() -> u8 { 2 }\nfn c() -> impl Copy { 3 }\nfn d() {}\nfn e() {}\n";
  const changes = [["u8 = 1", "u8 = 4"], ["{ 2 }", "{ 5 }"], ["{ 3 }", "{ 6 }"], ["d() {}\nfn e", "e() {}\nfn d"]];
  const { source: same, apart } = schemata(source, numbered(changes));
  assert.equal(same, source);
  assert.deepEqual(apart.map(({ number, why }) => [number, why]), [
    [1, "it is in no function"], [2, "its function is const"], [3, "its function returns an opaque type"],
    [4, "it is in no function"],
  ]);
});

test("each mutation of the list is in the one build", () => {
  const all = MUTATIONS.map(([what, file, text, instead], number) => ({ number, what, file, text, instead }));
  for (const [file, mutations] of Map.groupBy(all, (mutation) => mutation.file)) {
    const { apart } = schemata(readFileSync(join(ROOT, file), "utf8"), mutations);
    assert.deepEqual(apart.map(({ number, why }) => `${all[number].what}: ${why}`), []);
  }
});

test("lines of a mutation are those that hold it, and of the rest those of all", () => {
  const { source, arms } = schemata("fn a() {\n  1;\n}\nfn b() {\n  2;\n}\n", [
    { number: 1, text: "1;", instead: "one;" }, { number: 2, text: "2;", instead: "two;" },
  ]);
  const text = ({ lines: [from, to] }) => source.split("\n").slice(from - 1, to).join(" ");
  assert.deepEqual(arms.map((arm) => [arm.number, text(arm)]), [
    [1, "1 => {   one; }"], [1, "_ => {   1; }"], [2, "2 => {   two; }"], [2, "_ => {   2; }"],
  ]);
});

test("only a law of the tests catches a mutation", () => {
  const panic = (file) => `---- a stdout ----\n\nthread 'a' panicked at ${file}:3:5:\nwrong\n`;
  const end = "test result: FAILED. 0 passed; 1 failed";
  const failed = (file) => `test a ... FAILED\n\nfailures:\n\n${panic(file)}\n${end}\n`;
  const outcome = (ended) => outcomeOf({ code: 101, signal: null, isLate: false, ...ended }).outcome;
  assert.equal(outcome({ output: failed("simulation/tests/scenarios/keys.rs") }), "caught");
  assert.equal(outcome({ output: failed("crates/tally-core/tests/laws/keyed.rs") }), "caught");
  assert.equal(outcome({ output: failed("crates/tally-core/src/counter.rs") }), "panicked");
  assert.equal(outcome({ output: "running 1 test\n", signal: "SIGABRT" }), "ended");
  assert.equal(outcome({ output: failed("simulation/tests/boards.rs"), isLate: true }), "timed out");
  assert.equal(outcome({ output: "test result: ok. 1 passed; 0 failed", code: 0 }), "survived");
  assert.equal(outcome({ output: "test result: ok. 0 passed; 0 failed", code: 0 }), "ended");
});
