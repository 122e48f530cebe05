// BENCHMARKS.md: what the last recorded run found, above what people wrote about it; and among that sections that
// other programs record.
//
// Invariant: recording a run replaces the parts above the marker that it measured, each with all its groups, and keeps
// the other parts and every byte below the marker; recording a section replaces that section and keeps every other
// byte. `node benches/record.mjs bench-out/<run>.json…` records runs whose results were stored, the newest last.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { GROUPS } from "./measures.mjs";
import { reportText } from "./report.mjs";

export const MARKER = "<!-- Written by hand from here on: recording a run keeps it. -->";

const HEAD = `# Benchmarks

Written by \`BENCH_RECORD=1 make bench\` on an otherwise idle machine. \`make bench\` alone prints the same tables and stores
the results in \`bench-out/\`, and \`node benches/record.mjs <results>…\` records stored ones. Figures are medians of rounds in which all loads of a group run in turn. A ratio compares two loads of
one round. A target is shown as long as it is missed. Each load ends by comparing what its counters hold with what was acknowledged.
`;

// The parts of a report by their headings, in its order.
function partsOf(text) {
  const parts = text.split(/^(?=## )/m).filter((part) => part.startsWith("## "));
  return new Map(parts.map((part) => [part.split("\n", 1)[0], part.trim()]));
}

/** Returns the new text of BENCHMARKS.md. before: the old text, or undefined. tables: the report of a run. */
export function recordText(before, tables) {
  const at = before?.indexOf(MARKER) ?? -1;
  const [recorded, kept] = at < 0 ? ["", `${MARKER}\n`] : [before.slice(0, at), before.slice(at)];
  const parts = new Map([...partsOf(recorded), ...partsOf(tables)]);
  return `${HEAD}\n${[...parts.values()].join("\n\n")}\n\n${kept}`;
}

/** Sections that programs of their own record: what is between two marks. */
const SECTIONS = {
  tail: {
    marks: ["<!-- Many cold counters: recorded from here on, -->", "<!-- and up to here. -->"],
    head: `## Many cold counters

Written by \`BENCH_RECORD=1 make bench-tail\` on an otherwise idle machine. Counters with objects of their own are fewer: each takes 10 ms. What limits these figures
is told in [Tablets](docs/internals/tablets.md#what-a-new-counter-costs).
`,
  },
  resp: {
    marks: ["<!-- Redis's protocol: recorded from here on, -->", "<!-- and up to here: Redis's protocol. -->"],
    head: `## Redis's protocol on the native server

Written by \`BENCH_RECORD=1 make bench-resp\` on an otherwise idle machine: requests a second by \`redis-benchmark\`, medians of rounds in which the servers take turns. The share
is of the Redis that syncs each write, as Tally does. What the port does and does not do is in [Redis's protocol](docs/guide/redis-protocol.md).
`,
  },
};

/** Returns the new text of BENCHMARKS.md. name: of a section. before: the old text. tables: what its program found. */
export function recordSection(name, before, tables) {
  const { marks, head } = SECTIONS[name];
  const section = `${marks[0]}\n${head}\n${tables.trimEnd()}\n${marks[1]}`;
  const [from, to] = marks.map((mark) => before.indexOf(mark));
  if (from < 0 || to < from) return `${before.trimEnd()}\n\n${section}\n`;
  return `${before.slice(0, from)}${section}${before.slice(to + marks[1].length)}`;
}

/** Returns the names of groups that no run measured, of parts of which a run measured a group. */
export function missingOf(groups, runs) {
  const names = new Set(runs.flatMap(({ found }) => found.map(({ name }) => name)));
  const parts = new Set(groups.filter(({ name }) => names.has(name)).map(({ part }) => part));
  return groups.filter(({ name, part }) => parts.has(part) && !names.has(name)).map(({ name }) => name);
}

/**
 * Records runs in BENCHMARKS.md. runs: their results, as run.mjs stores them, the newest last. Throws if they have some
 * groups of a part and lack others, which would leave the page.
 */
export function record(runs) {
  const missing = missingOf(GROUPS, runs);
  if (missing.length > 0) throw new Error(`record: the runs lack groups of a part: ${missing.join(", ")}`);
  const path = fileURLToPath(new URL("../BENCHMARKS.md", import.meta.url));
  writeFileSync(path, recordText(readFileSync(path, "utf8"), reportText({ groups: GROUPS, runs })));
  return path;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const files = process.argv.slice(2);
  if (files.length === 0) {
    console.error("record: name the stored results: bench-out/<run>.json");
    process.exit(1);
  }
  console.log(`record: written to ${record(files.map((file) => JSON.parse(readFileSync(file, "utf8"))))}`);
}
