// Writes the table of all named limits into a page, from the sources.
// node scripts/table-limits.mjs docs/internals/limits.md
//
// Invariant: what stands between the two marks follows from the sources, and nothing else is touched.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { constants } from "./constants.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const BEGIN = "<!-- written by scripts/table-limits.mjs -->";
const END = "<!-- up to here -->";
const LIMIT = /_(MAX|MIN)$/;

/** Returns the table, as Markdown: every public constant whose name ends in MAX or MIN. */
export function table(root) {
  const rows = constants(root)
    .filter(({ name, value, isPublic }) => isPublic && LIMIT.test(name) && value !== undefined)
    .map(({ name, value, file, about }) => [
      `\`${name}\``,
      typeof value === "bigint" && value < 2n ** 63n ? value.toLocaleString("en-GB") : String(value),
      `[${file.replace(/(?:^crates\/|(?<=^|\/)src\/)/g, "")}](../../${file})`,
      about.replaceAll("|", "\\|").replace(/\[(`[^`]*`)\](?!\()/g, "$1"),
    ]);
  return [
    "| constant | value | file | what it bounds |", "|---|---:|---|---|",
    ...rows.map((cells) => `| ${cells.join(" | ")} |`),
  ].join("\n");
}

/** Returns the page with the table between its marks. Throws where it lacks them. */
export function written(page, root = ROOT) {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`no table between "${BEGIN}" and "${END}"`);
  return `${page.slice(0, begin)}${BEGIN}\n${table(root)}\n${page.slice(end)}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const path = process.argv[2];
  writeFileSync(path, written(readFileSync(path, "utf8")));
  console.log(`table: ${path}`);
}
