// BENCHMARKS.md: what the last recorded run found, above what people wrote about it.
//
// Invariant: recording replaces what is above the marker and keeps every byte below it.

export const MARKER = "<!-- Written by hand from here on: recording a run keeps it. -->";

const HEAD = `# Benchmarks

Written by \`BENCH_RECORD=1 make bench\` on an otherwise idle machine; \`make bench\` alone prints the same tables and keeps
them in \`bench-out/\`. Figures are medians of rounds in which all loads of a group run in turn. A ratio compares two loads of
one round. Each load ends by comparing what its counters hold with what was acknowledged.
`;

/** Returns the new text of BENCHMARKS.md. before: the old text, or undefined. tables: the report of a run. */
export function recordText(before, tables) {
  const at = before?.indexOf(MARKER) ?? -1;
  const kept = at < 0 ? `${MARKER}\n` : before.slice(at);
  return `${HEAD}\n${tables.trimEnd()}\n\n${kept}`;
}
