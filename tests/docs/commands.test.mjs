// Every command that the README and the pages of docs show is run, page by page, and what it prints is compared in
// shape with the answer that follows it. So a page that has fallen behind fails here.
//
// How a page speaks to this test, by a comment on the line above a block:
//   <!-- not run: why -->      the block is not run; their number is bounded below
//   <!-- needs: program -->    it is run only where the program is installed
//   <!-- until answered -->    it does not end by itself, and is ended when it has printed what follows
//   <!-- file: path -->        the block is an excerpt of that file
// A `# 409` in a command announces that status; without one no answer may be a refusal. `make serve` with settings
// starts a server of its own for the rest of the page.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { after, before, test } from "node:test";
import { documents, parse, read } from "./pages.mjs";
import { Workplace, startsServer } from "./server.mjs";
import { differences } from "./shape.mjs";

// Deploying needs an account, set-up takes minutes: so many blocks cannot be run. Lower it when one more can.
const NOT_RUN_MAX = 16;

const pages = documents().filter((path) => path === "README.md" || path.startsWith("docs/"));
const parsed = new Map(pages.map((path) => [path, parse(read(path)).blocks]));
const isCommand = ({ language }) => ["sh", "bash", "shell", "console"].includes(language);
const isAnswer = ({ language }) => ["json", "text", "", "http"].includes(language);

let place;
let shared;
before(async () => {
  place = new Workplace();
  shared = await place.server();
});
after(() => place?.end());

const has = (program) => spawnSync("sh", ["-c", `command -v ${program}`]).status === 0;

/**
 * Returns the text of the block that shows what the block at `index` prints: the next one, with nothing but blank lines
 * between.
 */
function answerOf(path, blocks, index) {
  const next = blocks[index + 1];
  if (next === undefined || !isAnswer(next) || next.directive !== undefined) return undefined;
  const between = read(path)
    .split("\n")
    .slice(blocks[index].line + blocks[index].text.split("\n").length + 1, next.line - 1);
  return between.every((line) => line.trim() === "") ? next.text : undefined;
}

for (const [path, blocks] of parsed) {
  if (!blocks.some(isCommand)) continue;
  test(`commands of ${path}`, { timeout: 300_000 }, async (context) => {
    let own;
    try {
      for (const [index, block] of blocks.entries()) {
        if (!isCommand(block) || block.directive?.startsWith("not run: ")) continue;
        const needed = block.directive?.match(/^needs: (\S+)$/)?.[1];
        if (needed !== undefined && !has(needed)) {
          context.diagnostic(`${path}:${block.line} was not run: ${needed} is not installed`);
          continue;
        }
        const answer = answerOf(path, blocks, index);
        const where = `${path}:${block.line}`;
        const starts = startsServer(block);
        if (starts !== undefined) {
          if (!starts.isPlain) {
            await own?.end();
            own = await place.server(block.text);
          }
          const output = (own ?? shared).stdout;
          if (answer !== undefined) assert.deepEqual(differences(answer, output), [], `${where}\n${output}`);
          continue;
        }
        const wrong = await place.run(block, (own ?? shared).address, answer);
        assert.deepEqual(wrong, [], `${where}\n${block.text}\n${wrong.join("\n")}`);
      }
    } finally {
      await own?.end();
    }
  });
}

test("no more blocks than agreed are not run, and each says why", () => {
  const skipped = [...parsed].flatMap(([path, blocks]) =>
    blocks
      .filter((block) => isCommand(block) && block.directive?.startsWith("not run"))
      .map(({ line, directive }) => ({ where: `${path}:${line}`, why: directive.match(/^not run: (.{10,})$/)?.[1] })),
  );
  for (const { where, why } of skipped) assert.ok(why, `${where} does not say why it is not run`);
  assert.ok(skipped.length <= NOT_RUN_MAX, `${skipped.length} blocks are not run: ${skipped.map(({ where }) => where).join(", ")}`);
});

test("every block names its language, and excerpts stand in their files", () => {
  for (const [path, blocks] of parsed) {
    for (const { language, directive, text, line } of blocks) {
      assert.ok(isCommand({ language }) || isAnswer({ language }) || /^[a-z]+$/.test(language), `${path}:${line}`);
      const file = directive?.match(/^file: (\S+)$/)?.[1];
      if (file !== undefined) assert.ok(read(file).includes(text), `${path}:${line} is not in ${file}`);
    }
  }
});
