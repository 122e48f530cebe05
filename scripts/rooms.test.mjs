// Laws of the check of rooms: what it takes for an import, a circle and a crossing, and that allowances only shrink.
import assert from "node:assert/strict";
import { test } from "node:test";
import { FILES_MAX, LINES_MAX, circles, findings, imports, wrongs } from "./rooms.mjs";

const of = (sources, path) => [...imports(sources).get(path)].sort();

test("an import is found by its path from the crate, from the parent, through braces, and in an expression", () => {
  const others = { "a.rs": "", "b.rs": "", "room.rs": "mod c;\nmod d;", "room/c.rs": "", "lib.rs": "mod a;" };
  const room = (code) => of({ ...others, "room/d.rs": code }, "room/d.rs");
  assert.deepEqual(room("use crate::a::Thing;"), ["a.rs"]);
  assert.deepEqual(room("use super::c::{self, Thing};"), ["room/c.rs"]);
  assert.deepEqual(room("use crate::{a::{One, Two}, b};"), ["a.rs", "b.rs"]);
  assert.deepEqual(room("fn f() { crate::b::g(); }"), ["b.rs"]);
  assert.deepEqual(room("use super::Thing;"), ["room.rs"]);
  // Neither a comment nor a literal, nor another crate's path, is an import.
  assert.deepEqual(room('// crate::a::b\nconst A: &str = "crate::a::b"; use serde::a::B;'), []);
  assert.deepEqual(room("fn f() {} mod tests { use super::f; } use crate::a::B;"), ["a.rs"]);
  assert.deepEqual(of({ ...others, "lib.rs": "mod a; fn f() { a::g(); }" }, "lib.rs"), ["a.rs"]);
});

test("a circle is the files that reach each other, whatever its length", () => {
  const graph = new Map([["a", ["b"]], ["b", ["c"]], ["c", ["a", "d"]], ["d", []], ["e", ["f"]], ["f", ["e"]]]);
  assert.deepEqual(circles(graph), [["a", "b", "c"], ["e", "f"]]);
});

test("a gate of a feature is found, unless it stands at a door, in the wiring or in the table of routes", () => {
  const inside = "fn one() {}\n#[cfg(feature = \"boards\")]\nfn two() {}\n";
  const sources = {
    "lib.rs": inside, "dispatch.rs": inside, "routes/table.rs": inside, "kit/a.rs": inside,
    "kit.rs": "#[cfg(feature = \"boards\")]\npub(crate) mod a;\n#[cfg(feature = \"live\")]\nuse a::two;\n",
  };
  assert.deepEqual(findings("crates/tally-edge/src", sources).gates, { "crates/tally-edge/src/kit/a.rs": 1 });
  assert.deepEqual(findings("crates/tally-sketch/src", sources).gates, {});
});

test("a kernel's import of a feature is found, and a feature's import of the kernel is none", () => {
  const sources = { "cell/a.rs": "use crate::board::b::B;", "board/b.rs": "use crate::kit::k::K;", "kit/k.rs": "" };
  const found = findings("crates/tally-objects/src", sources);
  assert.deepEqual(Object.keys(found.kernel), ["crates/tally-objects/src/cell/a.rs → board"]);
});

test("a folder and a file may be as large as the limits say", () => {
  const folder = (count) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`x/${index}.rs`, ""]));
  assert.deepEqual(findings("crates/x/src", folder(FILES_MAX)).folders, {});
  assert.deepEqual(findings("crates/x/src", folder(FILES_MAX + 1)).folders, { "crates/x/src/x": FILES_MAX + 1 });
  assert.deepEqual(findings("crates/x/src", { "a.rs": "\n".repeat(LINES_MAX) }).files, {});
  const { files } = findings("crates/x/src", { "a.rs": "\n".repeat(LINES_MAX + 1) });
  assert.deepEqual(files, { "crates/x/src/a.rs": LINES_MAX + 1 });
});

test("what is above an allowance fails, and so does an allowance that is larger than needed", () => {
  const found = { folders: { a: 30 }, files: {}, circles: [["a", "b"]], kernel: {} };
  const allowed = { folders: { a: 30 }, circles: [["a", "b"]] };
  assert.deepEqual(wrongs(found, allowed), []);
  assert.match(wrongs(found, { ...allowed, folders: {} })[0], /a: 30 files, none allowed/);
  assert.match(wrongs(found, { ...allowed, folders: { a: 31 } })[0], /--shrink/);
  assert.match(wrongs(found, { ...allowed, circles: [["a", "c"]] })[0], /2 files import each other/);
  // A part of an allowed circle is allowed, and the allowance is then too large.
  assert.match(wrongs(found, { ...allowed, circles: [["a", "b", "c"]] })[0], /--shrink/);
});
