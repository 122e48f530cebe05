// Writes what `make converge` has measured into the table of docs/internals/convergence.md, a column for each number of
// datacenters. node scripts/table-converge.mjs docs/internals/convergence.md docs/converge-100.json docs/converge-300.json
//
// Invariant: what stands between the two marks follows from the figures, and nothing else is touched.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const BEGIN = "<!-- written by make converge -->";
const END = "<!-- up to here -->";
const GOSSIP_ROUND_MS = 100;

/** Returns the table of these figures, as Markdown. */
export function table(all) {
  const rows = [
    ["what", (figures) => `${figures.datacenters} datacenters`],
    ["---", () => "---"],
    ["last write → every view agrees: median, p99, max", ({ agreed }) => times(agreed)],
    ...all[0].healed.map(({ split_ms }, number) => [
      `split of ${split_ms / 1000} s healed → every view agrees`,
      ({ healed }) => times(healed[number].times),
    ]),
    [
      "views in which that was measured",
      ({ agreed, healed }) => [agreed, ...healed.map(({ times }) => times)].map(({ views }) => grouped(views)).join(", "),
    ],
    ["gossip: last write → every view agrees", ({ gossip }) => times(gossip.times)],
    [
      "gossip: rounds until half, and all of the views agree",
      ({ gossip }) => [gossip.times.median_ms, gossip.times.max_ms].map((ms) => (ms / GOSSIP_ROUND_MS).toFixed(1)).join(", "),
    ],
    ["hot, written: a write", ({ writing }) => traffic(writing, writing.writes)],
    [
      "hot, written: a write and view",
      ({ writing, datacenters }) => traffic(writing, writing.writes * datacenters),
    ],
    ["hot, written: a counter and second", ({ writing, hot }) => perSecond(writing, hot)],
    ["… pushes, their answers, watches", ({ writing, hot }) => perSecond(some(writing, 0, 3), hot)],
    ["… polls and their answers", ({ writing, hot }) => perSecond(some(writing, 3, 5), hot)],
    ["hot, viewed, not written: a counter and second", ({ quiet, hot }) => perSecond(quiet, hot)],
    ["gossip, written: a write", ({ gossip }) => traffic(gossip, gossip.writes)],
    ["gossip, written: a counter and second", ({ gossip, hot }) => perSecond(gossip, hot)],
    ["cold, nobody views: a counter and second", ({ cold, counters, hot }) => perSecond(cold, counters - hot)],
    ["hot writes, nobody views: a counter and second", ({ hot_unviewed, hot }) => perSecond(hot_unviewed, hot)],
    ["nobody views: pushes of a lead in a minute", ({ cold, hot_unviewed, leads }) => pushes(cold, hot_unviewed, leads)],
    ["nobody views: shortest time between two pushes of a lead", ({ cold_interval_ms }) => `${cold_interval_ms / 1000} s`],
  ];
  return rows.map(([name, figure]) => `| ${[name, ...all.map(figure)].join(" | ")} |`.replaceAll(" --- ", "---")).join("\n");
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

function some({ by_kind, milliseconds }, from, to) {
  const sum = (place) => by_kind.slice(from, to).reduce((sum, kind) => sum + kind[place], 0);
  return { messages: sum(0), bytes: sum(1), milliseconds };
}

function perSecond(of, counters) {
  return traffic(of, (counters * of.milliseconds) / 1000);
}

function traffic({ messages, bytes }, divisor) {
  return `${short(messages / divisor)} messages, ${short(bytes / divisor)} bytes`;
}

function pushes(cold, unviewed, leads) {
  const of = [cold, unviewed].map(({ by_kind }) => by_kind[0]);
  const [messages, bytes] = [0, 1].map((place) => of[0][place] + of[1][place]);
  return `${short(messages / (leads * (cold.milliseconds / 60_000)))}, of ${short(bytes / messages)} bytes`;
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
  writeFileSync(to, written(readFileSync(to, "utf8"), from.map((file) => JSON.parse(readFileSync(file, "utf8")))));
  console.log(`table: ${to}`);
}
