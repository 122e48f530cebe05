// Writes what `make converge` has measured into the table of docs/internals/convergence.md, a column for each number of
// datacenters. node scripts/table-converge.mjs docs/internals/convergence.md docs/converge-100.json
//
// Invariant: what stands between the two marks follows from the figures, and nothing else is touched.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const BEGIN = "<!-- written by make converge -->";
const END = "<!-- up to here -->";
const UNMEASURED = "not measured";

/** Returns the table of these figures, as Markdown. */
export function table(all) {
  const rows = [
    ["what", (figures) => `${figures.datacenters} datacenters`],
    ["---", () => "---"],
    ["seed", ({ seed }) => seed],
    ["last write → every reader has it: median, p99, max", ({ agreed }) => times(agreed)],
    ["the same while two clocks are ten minutes off", ({ off }) => times(off)],
    ["the same of watchers of `/live`, which is looked up once a second", ({ watched }) => times(watched)],
    ...all[0].healed.map(({ split_ms }, number) => [
      `split of ${split_ms / 1000} s healed → every reader has it`,
      ({ healed }) => times(healed[number].times),
    ]),
    [
      "readers and counters in which that was measured",
      ({ agreed, off, healed }) =>
        [agreed, off, ...healed.map(({ times }) => times)].map(({ views }) => grouped(views)).join(", "),
    ],
    [
      "reads, of them not answered by a value",
      ({ reads, failed_reads }) => [reads, failed_reads].map(grouped).join(", "),
    ],
    ["hot, written and read: a write", ({ written }) => calls(written, written.writes)],
    ["hot, written and read: a counter and second", ({ written, hot }) => perSecond(written, hot)],
    ...all[0].kinds.map((kind, number) => [
      `… ${kind}`,
      ({ written, hot }) => perSecond({ ...written, by_kind: [written.by_kind[number]] }, hot),
    ]),
    ["hot, read, not written: a counter and second", ({ quiet, hot }) => perSecond(quiet, hot)],
    ["hot, written and read: rows written, a counter and second", ({ written, hot }) => rowsPerSecond(written, hot)],
    ["cold, written, nobody reads: a counter and second", ({ cold, counters, hot }) => perSecond(between(cold), counters - hot)],
    ["cold: rows written, a counter and second", ({ cold, counters, hot }) => rowsPerSecond(cold, counters - hot)],
    ["hot writes, nobody reads: a counter and second", ({ hot_unread, hot }) => perSecond(between(hot_unread), hot)],
    ["nobody reads: pushes of a lead in a minute", ({ cold, hot_unread, leads }) => pushes(cold, hot_unread, leads)],
  ];
  return rows
    .map(([name, figure]) => `| ${[name, ...all.map(figure)].join(" | ")} |`.replaceAll(" --- ", "---"))
    .join("\n");
}

/** Returns the page with the table of these figures between its marks. Throws where it lacks them. */
export function written(page, all) {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`no table between "${BEGIN}" and "${END}"`);
  return `${page.slice(0, begin)}${BEGIN}\n${table(all)}\n${page.slice(end)}`;
}

function times({ median_ms, p99_ms, max_ms }) {
  return `${median_ms}, ${p99_ms}, ${max_ms} ms`;
}

// What goes between datacenters, of what is counted by kind: writes reach their own cell, which is not told here.
function between(of) {
  return { ...of, by_kind: of.by_kind.slice(0, -1) };
}

function perSecond(of, counters) {
  return calls(of, (counters * of.milliseconds) / 1000);
}

function rowsPerSecond({ rows, milliseconds }, counters) {
  return milliseconds === 0 ? UNMEASURED : short(rows / ((counters * milliseconds) / 1000));
}

function calls({ by_kind }, divisor) {
  if (divisor === 0) return UNMEASURED;
  const sum = (place) => by_kind.reduce((sum, kind) => sum + kind[place], 0);
  return `${short(sum(0) / divisor)} calls, ${short(sum(1) / divisor)} bytes`;
}

function pushes(cold, unread, leads) {
  if (cold.milliseconds === 0) return UNMEASURED;
  const of = [cold, unread].map(({ by_kind }) => by_kind[0]);
  const [calls, bytes] = [0, 1].map((place) => of[0][place] + of[1][place]);
  return `${short(calls / (leads * (cold.milliseconds / 60_000)))}, of ${short(bytes / calls)} bytes with the answer`;
}

/** Two digits that count below 10, and no fraction from 100 on. */
function short(number) {
  if (number >= 100) return grouped(Math.round(number));
  return number >= 10 ? number.toFixed(1) : String(Number(number.toPrecision(2)));
}

function grouped(number) {
  return number.toLocaleString("en-GB");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [to, ...from] = process.argv.slice(2);
  const all = from.map((file) => JSON.parse(readFileSync(file, "utf8")));
  writeFileSync(to, written(readFileSync(to, "utf8"), all));
  console.log(`table: ${to}\n${table(all)}`);
}
