// What the programs write is open to its owner alone, whatever the umask; and all that writes goes through one module.
import assert from "node:assert/strict";
import { once } from "node:events";
import {
  chmodSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { makeFolder, privateStream, tighten, writePrivate } from "./private-files.mjs";

const folder = mkdtempSync(join(tmpdir(), "tally-private-"));
after(() => rmSync(folder, { recursive: true, force: true }));
const modeOf = (path) => (statSync(path).mode & 0o777).toString(8);

test("folders are 0700 and files 0600 under any umask, also those that were there", async () => {
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
      const stream = privateStream(join(place, "export"));
      stream.end("three");
      await once(stream, "close");
      const files = ["new", "old", "export"].map((name) => join(place, name));
      const texts = files.map((file) => [modeOf(file), readFileSync(file, "utf8")]);
      assert.deepEqual(texts, [["600", "one"], ["600", "two"], ["600", "three"]]);
    }
  } finally {
    process.umask(before);
  }
});

test("an export to what is no file leaves its mode", async () => {
  const { mode } = statSync("/dev/null");
  const stream = privateStream("/dev/null");
  stream.end("x");
  await once(stream, "close");
  assert.equal(statSync("/dev/null").mode, mode);
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
