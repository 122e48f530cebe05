// Each fault that `make mutants` makes on purpose can still be made: its text stands once in its file, and what shows
// it is there. So whoever changes the code mends the list with it.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { CRATES, MUTATIONS, programOf } from "../simulation/mutants/broken.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TESTS = join(ROOT, "simulation/tests");

test("the text of each mutation stands once in its file", () => {
  const times = ([, file, text]) => readFileSync(join(ROOT, file), "utf8").split(text).length - 1;
  assert.deepEqual(MUTATIONS.filter((mutation) => times(mutation) !== 1).map(([what]) => what), []);
});

test("what shows each mutation is there", () => {
  const isThere = ([, , , , by]) => {
    const [program, name] = programOf(by);
    const modules = name.split("::");
    const law = modules.length > 1 ? modules.pop() : undefined;
    const tests = CRATES[program] === undefined ? TESTS : join(ROOT, "crates", CRATES[program], "tests");
    const folder = CRATES[program] === undefined ? program : "laws";
    const file = join(tests, folder === "services" ? "" : folder, `${modules.join("/")}.rs`);
    return existsSync(file) && (law === undefined || readFileSync(file, "utf8").includes(`fn ${law}()`));
  };
  assert.deepEqual(MUTATIONS.filter((mutation) => !isThere(mutation)).map(([what]) => what), []);
});
