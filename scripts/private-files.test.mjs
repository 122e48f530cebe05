// What the programs write is open to its owner alone, whatever the umask; and all that writes goes through one module.
import assert from "node:assert/strict";
import {
  chmodSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, readlinkSync, rmSync, statSync, symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { makeFolder, privateOutput, tighten, writePrivate } from "./private-files.mjs";

const folder = mkdtempSync(join(tmpdir(), "tally-private-"));
after(() => rmSync(folder, { recursive: true, force: true }));
const modeOf = (path) => (statSync(path).mode & 0o777).toString(8);

test("folders are 0700 and files 0600 under any umask, also those that were there", () => {
  const before = process.umask();
  try {
    for (const umask of [0o000, 0o022, 0o077, 0o377]) {
      process.umask(umask);
      const place = join(folder, `under-${umask}`);
      makeFolder(join(place, "a", "b"));
      assert.deepEqual([place, join(place, "a"), join(place, "a", "b")].map(modeOf), ["700", "700", "700"]);
      writePrivate(join(place, "new"), "one");
      process.umask(0o000);
      for (const name of ["old", "old.new", "export"]) {
        writeFileSync(join(place, name), "before, and longer", { mode: 0o666 });
      }
      process.umask(umask);
      writePrivate(join(place, "old"), "two");
      const output = privateOutput(join(place, "export"));
      output.write("thr");
      output.write("ee");
      output.end(true);
      const files = ["new", "old", "export"].map((name) => join(place, name));
      const texts = files.map((file) => [modeOf(file), readFileSync(file, "utf8")]);
      assert.deepEqual(texts, [["600", "one"], ["600", "two"], ["600", "three"]]);
    }
  } finally {
    process.umask(before);
  }
});

test("an export to what is no file leaves its mode", () => {
  const { mode } = statSync("/dev/null");
  const output = privateOutput("/dev/null");
  output.write("x");
  output.end(true);
  assert.equal(statSync("/dev/null").mode, mode);
});

test("what cannot be written completely leaves the file as it was, and no other file", () => {
  const place = join(folder, "completely");
  makeFolder(place);
  for (const name of ["kept", "linked"]) writeFileSync(join(place, name), "before");
  symlinkSync("linked", join(place, "link"));
  for (const [name, isWhole] of [["kept", false], ["never", false], ["link", true]]) {
    const output = privateOutput(join(place, name));
    output.write("new");
    output.end(isWhole);
  }
  assert.deepEqual(readdirSync(place), ["kept", "link", "linked"]);
  const texts = ["kept", "linked"].map((name) => readFileSync(join(place, name), "utf8"));
  assert.deepEqual([...texts, readlinkSync(join(place, "link"))], ["before", "new", "linked"]);
  mkdirSync(join(place, "folder"));
  const named = { code: "EISDIR", message: /folder cannot be written/ };
  assert.throws(() => writePrivate(join(place, "folder"), "x"), named);
  assert.deepEqual(readdirSync(place), ["folder", "kept", "link", "linked"]);
});

test("a folder that is there is tightened with all in it, and nothing beside it is touched", () => {
  const own = ["objects", "lock"];
  const data = join(folder, "data");
  const outside = join(folder, "outside");
  writeFileSync(outside, "");
  chmodSync(outside, 0o644);
  mkdirSync(join(data, "objects", "deep"), { recursive: true });
  for (const name of ["lock", "objects/one.sqlite", "objects/deep/two.sqlite-wal"]) writeFileSync(join(data, name), "");
  for (const name of ["", "objects", "objects/deep"]) chmodSync(join(data, name), 0o755);
  for (const name of ["lock", "objects/one.sqlite"]) chmodSync(join(data, name), 0o664);
  chmodSync(join(data, "objects/deep/two.sqlite-wal"), 0o444);
  symlinkSync(outside, join(data, "objects", "link"));
  assert.deepEqual(tighten(data, own), { narrowed: 6, failed: undefined });
  assert.deepEqual(["", "objects", "objects/deep"].map((name) => modeOf(join(data, name))), ["700", "700", "700"]);
  const files = ["lock", "objects/one.sqlite", "objects/deep/two.sqlite-wal"];
  assert.deepEqual(files.map((name) => modeOf(join(data, name))), ["600", "600", "400"]);
  assert.equal(modeOf(outside), "644");
  assert.deepEqual(tighten(data, own), { narrowed: 0, failed: undefined });
  // A project's own folder stays as it is.
  writeFileSync(join(data, "package.json"), "{}");
  chmodSync(join(data, "package.json"), 0o644);
  for (const name of ["", "objects"]) chmodSync(join(data, name), 0o755);
  assert.equal(tighten(data, own).narrowed, 1);
  assert.deepEqual(["", "objects", "package.json"].map((name) => modeOf(join(data, name))), ["755", "700", "644"]);
});

test("the command and the server write through that module alone", () => {
  const root = fileURLToPath(new URL("..", import.meta.url));
  const files = readdirSync(join(root, "package/command"), { recursive: true })
    .filter((name) => name.endsWith(".mjs"))
    .map((name) => join("package/command", name));
  const writing = /\b(writeFileSync|writeFile|appendFileSync|createWriteStream|mkdirSync|copyFileSync|cpSync)\b/;
  const found = [...files, "scripts/server.mjs"].filter((file) => writing.test(readFileSync(join(root, file), "utf8")));
  assert.deepEqual(found, []);
});
