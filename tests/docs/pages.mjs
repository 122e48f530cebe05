// The documents of the project, taken apart for the tests: blocks of code, headings, links, rows of tables.
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** Returns the paths of all documents, from the root, sorted. */
export function documents() {
  const below = (folder) =>
    existsSync(join(ROOT, folder))
      ? readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
          .filter((entry) => entry.isFile() && !entry.parentPath.includes("node_modules"))
          .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)))
      : [];
  const top = readdirSync(ROOT, { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => entry.name);
  return [...top, ...["docs", "examples", "tests"].flatMap(below)].filter((path) => path.endsWith(".md")).sort();
}

/** Returns the text of a file of the project. */
export function read(path) {
  return readFileSync(join(ROOT, path), "utf8");
}

/**
 * Returns `{ blocks, headings, links, rows }` of a page.
 * blocks: `{ language, text, line, directive }`, `directive` being the comment on the line above, without its marks.
 * headings: the anchors that GitHub gives them. links: `{ target, line }`. rows: `{ cells, line }` of tables.
 */
export function parse(page) {
  const found = { blocks: [], headings: [], links: [], rows: [] };
  const seen = new Map();
  let block;
  let directive;
  page.split("\n").forEach((text, index) => {
    const line = index + 1;
    const fence = text.match(/^\s*```(\S*)\s*$/);
    if (block !== undefined) {
      if (fence && fence[1] === "") {
        found.blocks.push({ ...block, text: block.lines.join("\n") });
        block = undefined;
      } else block.lines.push(text);
      return;
    }
    if (fence) {
      block = { language: fence[1], lines: [], line, directive };
      directive = undefined;
      return;
    }
    const comment = text.match(/^<!-- (.*) -->$/);
    if (comment) directive = comment[1];
    else if (text.trim() !== "") directive = undefined;
    const heading = text.match(/^#{1,6} (.*)$/);
    if (heading) found.headings.push(anchor(heading[1], seen));
    const prose = text.replace(/`[^`]*`/g, "``");
    for (const [, target] of prose.matchAll(/\]\(([^)\s]+)\)/g)) found.links.push({ target, line });
    for (const [, target] of prose.matchAll(/\b(?:src|href)="([^"]+)"/g)) found.links.push({ target, line });
    if (/^\|.*\|$/.test(text)) found.rows.push({ cells: cellsOf(text), line });
  });
  if (block !== undefined) throw new Error(`the block of line ${block.line} has no end`);
  return found;
}

/** Returns the cells of a row of a table, `\|` being a bar inside one. */
export function cellsOf(row) {
  return row
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll("\\|", "|"));
}

// Source: github.com's anchors of headings: lower case, punctuation dropped, spaces as hyphens, repeats numbered.
function anchor(heading, seen) {
  const plain = heading
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M}_\- ]/gu, "")
    .trim()
    .replaceAll(" ", "-");
  const times = seen.get(plain) ?? 0;
  seen.set(plain, times + 1);
  return times === 0 ? plain : `${plain}-${times}`;
}
