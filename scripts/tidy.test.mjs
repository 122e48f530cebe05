// Each rule of tidy finds what it forbids, at its line, and leaves alone what looks like it.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import {
  codeOnly, forbiddenCalls, largeFiles, longFunctions, longLines, moduleTable, namesakes, tidy,
  undocumentedNamesakes, versions,
} from "./tidy.mjs";

test("blanking keeps every line and every column of the code", () => {
  const source = "a // worker::x\nb \"crate::edge \\\" \" c 'x' '\\'' 'life r#\"q\" q\"# /* crate::edge\n */ d";
  const code = codeOnly(source);
  assert.equal(code.length, source.length);
  assert.deepEqual(code.replace(/ +/g, " ").split("\n"), ["a ", "b c 'life ", " d"]);
});

test("the table at a file's head has each of its modules, and no other", () => {
  const head = ["//! Parts.", "//!", "//! | module | holds |", "//! |---|---|"];
  const table = (...names) => [...head, ...names.map((name) => `//! | ${name} | it |`)];
  const found = (lines, code) => moduleTable("src/x/mod.rs", `${[...lines, "", ...code].join("\n")}\n`);
  const code = ["mod a;", "pub mod b;", "pub(super) mod c;", "mod tests {}", "// mod d;"];
  assert.deepEqual(found(table("[`a`], `b`: [`Type`]", "[`mod@c`] `more`"), [...code, "use a::{Type, more};"]), []);
  assert.deepEqual(found(table("[`a`]", "`b`, `gone`"), code), [
    "src/x/mod.rs:3: the table of modules lacks c", "src/x/mod.rs:6: there is no module gone",
  ]);
  assert.deepEqual(found(["//! Parts.", "//! | word | means |", "//! | `x` | it |"], code), []);
});

test("clocks and SqlCursor::one are forbidden", () => {
  const source = "// Instant::now\nlet a = Instant::now();\nlet b = SystemTime ::now();\nlet c = cursor.one::<Row>();\n";
  assert.deepEqual(
    forbiddenCalls("src/x.rs", source).map((finding) => finding.split(":")[1]),
    ["2", "3", "4"],
  );
});

test("a function fits a screen, wherever it stands and however it is declared", () => {
  const lines = (count) => "        x();\n".repeat(count);
  for (const declared of ["fn f() {", "pub(in super::super) async fn f<T>(\n        x: T,\n    ) -> T {", "pub const fn f() {"]) {
    const own = declared.split("\n").length + 1;
    const written = (count) => `impl X {\n    fn g();\n    ${declared}\n${lines(count - own)}    }\n}\n`;
    assert.deepEqual(longFunctions("src/x.rs", written(70)), [], declared);
    assert.equal(longFunctions("src/x.rs", written(71)).length, 1, declared);
  }
  assert.deepEqual(longFunctions("src/x.rs", `extern "C" {\n    fn f();\n${lines(80)}}\nmod x {\n    const X: [u8; 2] = fn_of();\n}\n`), []);
});

test("a function of a script fits a screen, however it is written", () => {
  const written = ([opens, closes], count) => `\n${opens}\n${"  x();\n".repeat(count - 2)}${closes}\n`;
  for (const [name, ...around] of [
    ["f", "function f() {", "}"],
    ["f", "export async function* f({ a }) {", "}"],
    ["f", "const f = async (a) => {", "};"],
    ["f", "class X { async f() {", "} }"],
    ["f", "const x = { f() {", "} };"],
    ["f", "const x = { f: () => {", "} };"],
    ["it", 'it("describe", () => {', "});"],
    ["test", 'test("x", { timeout: 1 }, async (t) => {', "});"],
    ["test.skipIf(a)", 'test.skipIf(a)("x", function () {', "});"],
    ["test", 'describe("x", () => { test("y", () => {', "}); });"],
    ["a function", "const x = () => { (() => {", "})(); };"],
    ["f", "(() => { function f() {", "} })();"],
  ]) {
    for (const path of ["tests/a.mjs", "benches/a.js", "package/client/a.ts"]) {
      assert.deepEqual(longFunctions(path, written(around, 70)), [], around[0]);
      const [found, ...outer] = longFunctions(path, written(around, 71)).reverse();
      assert.ok(found.startsWith(`${path}:2: ${name} has 71 lines, `), found);
      assert.equal(outer.length, around[0].startsWith("const x = () =>") ? 1 : 0, around[0]);
    }
  }
  assert.equal(longFunctions("package/client/a.ts", written(["function f<T>(a: T): T {", "}"], 71)).length, 1);
  assert.deepEqual(longFunctions("package/client/a.ts", `interface X {\n${"  f(): void;\n".repeat(80)}}\n`), []);
});

test("a suite and the scope of a file only hold functions: they may be long", () => {
  for (const [opens, closes] of [
    ['describe("x", () => {', "});"],
    ['describe.skipIf(a)("x", () => {', "});"],
    ['describe.each([1])("x %s", (a) => {', "});"],
    ["(() => {", "})();"],
    ["(async function () {", "})();"],
  ]) {
    assert.deepEqual(longFunctions("a.mjs", `${opens}\n${"  x();\n".repeat(80)}${closes}\n`), [], opens);
  }
});

test("tools must have the versions of their crates, and the dates must agree", () => {
  const good = {
    lock: 'name = "wasm-bindgen"\nversion = "0.2.1"\n\nname = "worker"\nversion = "0.8.7"\n',
    bindgenLock: 'name = "wasm-bindgen-cli-support"\nversion = "0.2.1"\n',
    edge: '"compatibility_date": "2026-11-17"',
    aggregator: '"compatibility_date": "2026-11-17"',
    workerdDate: "2026-11-17",
  };
  assert.deepEqual(versions(good), []);
  for (const wrong of [
    { bindgenLock: 'name = "wasm-bindgen-cli-support"\nversion = "0.2.2"\n' },
    { lock: "", bindgenLock: "" },
    { aggregator: '"compatibility_date": "2026-11-16"' },
    { aggregator: "" },
    { workerdDate: "2026-11-16" },
  ]) {
    assert.equal(versions({ ...good, ...wrong }).length, 1, JSON.stringify(wrong));
  }
});

test("a line has 120 columns at most, but for rows of tables and where a long literal fills it", () => {
  const long = "x".repeat(121);
  const literal = "x".repeat(58);
  assert.match(longLines("a.rs", `ok\n//! ${long}`)[0], /^a\.rs:2: /);
  for (const line of [`// ${long}`, `    ${long};`, `"short" ${long}`, `"${literal.slice(1)}" ${long}`]) {
    for (const path of ["a.rs", "a.mjs"]) assert.equal(longLines(path, line).length, 1, line);
  }
  for (const line of [
    `let a = "${long}";`, `"${literal}" ${long}`,
    `// | ${long} |`,
    `  { a: ${long} },`, "x".repeat(120),
  ]) {
    for (const path of ["a.rs", "a.mjs"]) assert.deepEqual(longLines(path, line), [], line);
  }
  assert.deepEqual(longLines("a.rs", `"a \\\n ${long} \\\n b";`), []);
  assert.deepEqual(longLines("a.mjs", `f(\`a\n${long}\nb\`, '"', /["'\`]/, '${literal}', ${long});`), []);
  assert.equal(longLines("a.mjs", `f('"', /["'\`]/, ${long});`).length, 1);
});

test("tests, benches and scripts are held to the same lines as what ships", (t) => {
  const root = mkdtempSync(join(tmpdir(), "tally-tidy-"));
  t.after(() => rmSync(root, { recursive: true }));
  const write = (path, text) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  };
  write("Cargo.lock", 'name = "wasm-bindgen"\nversion = "0.2.1"\n');
  write("tools/bindgen/Cargo.lock", 'name = "wasm-bindgen-cli-support"\nversion = "0.2.1"\n');
  const dated = '{ "compatibility_date": "2026-11-17" }\n';
  for (const path of ["wrangler.jsonc", "wrangler.aggregator.jsonc"]) write(path, dated);
  assert.deepEqual(tidy(root, "2026-11-17"), []);
  const places = ["crates/a/tests/a.rs", "simulation/tests/a.rs", "tests/native/a.rs", "benches/native/a.rs"];
  for (const path of places) write(path, `fn f() {\n${"    x();\n".repeat(70)}}\n`);
  const scripts = ["scripts/a.mjs", "tests/e2e/a.mjs", "benches/a.js", "dashboard/a.js", "package/client/a.ts"];
  const script = `f(${"x".repeat(120)});\nfunction g() {\n${"  x();\n".repeat(70)}}\n`;
  for (const path of [...scripts, "tests/fixtures/a.mjs", "package/client/api.ts"]) write(path, script);
  const found = tidy(root, "2026-11-17").map((finding) => finding.split(":")[0]);
  assert.deepEqual(found.sort(), [...places, ...scripts, ...scripts].sort());
});

test("a name stands for two public types at most, of different folders", () => {
  const of = (...paths) => namesakes(paths.map((path) => [path, "/// Doc.\npub struct Batch {}\nstruct Own;\nfn f() { struct Batch; }\n"]));
  assert.deepEqual(of("crates/tally-core/src/counter/a.rs", "crates/tally-api/src/limits/b.rs"), []);
  assert.match(
    of("crates/tally-core/src/counter/a.rs", "crates/tally-core/src/counter/cell/b.rs")[0],
    /^crates\/tally-core\/src\/counter\/a\.rs:2: Batch /,
  );
  assert.equal(of("crates/a/src/counter/a.rs", "crates/b/src/limits/b.rs", "crates/c/src/c.rs").length, 1);
  assert.equal(of("crates/tally-api/src/a.rs", "crates/tally-api/src/b.rs").length, 1);
  assert.deepEqual(namesakes([["a/b/c.rs", "pub(super) enum A {}"], ["a/d/c.rs", "// pub enum A {}"]]), []);
});

test("two types that are public to all share a name only where a module tells of the other", () => {
  const type = "pub struct Settings {}\n";
  const [here, there] = ["crates/a/src/board/settings.rs", "crates/b/src/plan/mod.rs"];
  const of = (one, other) => undocumentedNamesakes([[here, one], [there, other]]);
  assert.match(of(type, type)[0], /^crates\/b\/src\/plan\/mod\.rs:1: Settings .*plan::Settings$/);
  assert.deepEqual(of(`//! Not \`crate::plan::Settings\`.\n\n${type}`, type), []);
  assert.deepEqual(of(type, `//! Others are \`settings::Settings\`.\n${type}`), []);
  assert.equal(of(`${type}// Not plan::Settings.\n`, type).length, 1, "the opening comment tells");
  assert.deepEqual(of(type, "pub(crate) struct Settings {}\nstruct Own;\n"), []);
});

test("a file that is too large to be a source is a finding once it is in the repository", (t) => {
  const root = mkdtempSync(join(tmpdir(), "tidy-large-"));
  t.after(() => rmSync(root, { recursive: true }));
  const git = (...words) => assert.equal(spawnSync("git", words, { cwd: root }).status, 0, words.join(" "));
  git("init", "-q");
  writeFileSync(join(root, "source.rs"), "fn one() {}\n");
  writeFileSync(join(root, "core"), Buffer.alloc(1_000_001));
  git("add", "source.rs");
  assert.deepEqual(largeFiles(root), []);
  git("add", "core");
  assert.deepEqual(largeFiles(root), ["core: 1000001 bytes; a file has at most 1000000"]);
});
