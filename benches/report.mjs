// What the runs of a benchmark come to: figures, verdicts, tables. Pure: no clock, no files, no network.
//
// Invariant: a counter must hold what was acknowledged, to the unit: a server that loses one write, or
// counts one twice, gets no table without a mismatch. Only a request that failed leaves room, as it may
// have been counted or not.
//
// The figures of a run: rate_s, p50_us, p99_us, mean_us, cpu_us (of the server, an answer), and of a server that counts
// rows_per_1000 and calls_per_1000.
import { WASM_GZIP_BYTES_MAX } from "./wasm-size.mjs";

/** Returns the median of at least one number; of an even number of them the mean of the middle two. */
export function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/**
 * Returns how a load's counters compare with its runs: acknowledged (units), unknown (requests of unknown
 * outcome), counted (the sum of `totals`), and mismatches (one sentence per wrong counter).
 *
 * Requests spread evenly over the counters of `load`. held: what each held before. runs: as runLoad
 * resolves to. totals: what each counter holds now, in the order of load.counters.
 */
export function reconcile({ counters, adds }, held, runs, totals) {
  const sum = (part) => runs.reduce((total, run) => total + part(run), 0);
  const acknowledged = sum((run) => run.acknowledged);
  const unknown = sum((run) => run.failed + run.socket_errors);
  const least = held + (adds > 0 ? acknowledged / counters.length : 0);
  const most = least + (unknown * adds) / counters.length;
  const mismatches = counters.flatMap((id, index) => {
    const total = totals[index];
    if (total >= least && total <= most) return [];
    const error = total < least ? `${least - total} lost` : `${total - most} too many`;
    const wanted = least === most ? least : `from ${least} to ${most}`;
    return [`${id} holds ${total} and must hold ${wanted}: ${error}`];
  });
  return { acknowledged, unknown, counted: totals.reduce((a, b) => a + b, 0), mismatches };
}

/** Returns what was counted between two states of a server, {rows, calls}, per 1,000 acknowledged. */
export function per1000(before, after, acknowledged) {
  const share = (part) => ((after[part] - before[part]) / acknowledged) * 1_000;
  return { rows_per_1000: share("rows"), calls_per_1000: share("calls") };
}

/** Returns whether a figure reaches a target: {least} or {most}. A figure that is no number reaches none. */
export function reaches({ least = -Infinity, most = Infinity }, value) {
  return value >= least && value <= most;
}

/**
 * Returns a line's outcome: name, figure, is_ratio, target, value (the median over the rounds of the figure, or of its
 * ratio within each round), value_min, value_max; or why (a sentence) where one of its loads did not run.
 * rounds: [{load name: run}…]. absent: load name → why it did not run.
 */
export function lineOutcome(line, rounds, absent = {}) {
  const { name, figure, of, to, target } = line;
  const common = { name, figure, is_ratio: to !== undefined, target };
  const why = absent[of] ?? absent[to];
  if (why !== undefined) return { ...common, why };
  // Of results that were stored: one that the system did not say, or that came later.
  const isKnown = (round) => [of, to ?? of].every((load) => (round[load][figure] ?? null) !== null);
  if (!rounds.every(isKnown)) return { ...common, why: "not measured" };
  const values = rounds.map((round) => round[of][figure] / (to === undefined ? 1 : round[to][figure]));
  return { ...common, value: median(values), value_min: Math.min(...values), value_max: Math.max(...values) };
}

/**
 * Returns a load's figures: its name, server, connections, unit, and the medians of rate_s, latencies and cpu_us over
 * its rounds.
 */
export function loadOutcome(name, { server, connections, unit }, runs) {
  const keys = ["rate_s", "p50_us", "p99_us", "mean_us", "cpu_us"];
  // A file of results has no figure where there was none.
  const figures = keys.map((key) => [key, median(runs.map((run) => run[key] ?? NaN))]);
  return { name, server, connections, unit, ...Object.fromEntries(figures) };
}

/** Returns the lines and loads of the rounds that were completed of a group. found: as `runGroup` resolves to. */
export function groupOutcome({ loads, lines }, { rounds, absent }) {
  const failed = "it failed before a round was complete";
  const names = Object.keys(loads);
  const none = rounds.length > 0 ? [] : names.map((name) => [name, failed]);
  // One that was not in the group when it was measured.
  const later = names.filter((name) => rounds.length > 0 && !(name in rounds[0])).map((name) => [name, "not measured"]);
  const reasons = { ...Object.fromEntries([...later, ...none]), ...absent };
  const measured = names.filter((name) => reasons[name] === undefined);
  return {
    lines: lines.map((line) => lineOutcome(line, rounds, reasons)),
    loads: measured.map((name) => loadOutcome(name, loads[name], rounds.map((round) => round[name]))),
  };
}

/** Returns one sentence on how slow the machine was. measured: at least one of what slowness.mjs returns. */
export function slownessSentence(measured) {
  const range = (part, digits) => {
    const values = measured.map((one) => one[part]);
    const [least, most] = [Math.min(...values).toFixed(digits), Math.max(...values).toFixed(digits)];
    return least === most ? `${least} ms` : `${least} to ${most} ms`;
  };
  return `The machine meanwhile: fixed arithmetic on one core ${range("cpu_ms", 0)}, writing a page and fsync ${range("fsync_ms", 2)}.`;
}

const whole = (number) => Math.round(number).toLocaleString("en");
const milliseconds = (us) => (us / 1000).toFixed(us < 10_000 ? 2 : 1);
const microseconds = (us) => (us < 100 ? us.toFixed(1) : whole(us));

// A load without one answer has no figure.
function shown({ figure, is_ratio }, value) {
  if (!Number.isFinite(value)) return "none";
  if (is_ratio) return `${value.toFixed(2)}×`;
  return figure.endsWith("_per_1000") || figure === "cpu_us" ? value.toFixed(1) : whole(value);
}

function markdown(header, rows, words = 1) {
  const line = (cells) => `| ${cells.join(" | ")} |`;
  return [line(header), line(header.map((_, index) => (index < words ? "---" : "---:"))), ...rows.map(line)].join("\n");
}

/**
 * Returns the table of figures as Markdown. A target is in it as long as it is missed. outcomes: as `lineOutcome`
 * returns them.
 */
export function figureTable(outcomes) {
  const wanted = (outcome) => {
    const { target, value, why } = outcome;
    if (target === undefined || (why === undefined && reaches(target, value))) return "";
    const bound = target.least === undefined ? `≤ ${shown(outcome, target.most)}` : `≥ ${shown(outcome, target.least)}`;
    return why === undefined ? `${bound}, **missed**` : bound;
  };
  const rows = outcomes.map((outcome) => [
    outcome.name,
    outcome.why ?? `**${shown(outcome, outcome.value)}**`,
    outcome.why || outcome.value_min === outcome.value_max ? "" : `${shown(outcome, outcome.value_min)} to ${shown(outcome, outcome.value_max)}`,
    wanted(outcome),
  ]);
  return markdown(["measure", "figure", "rounds", "target"], rows);
}

/** Returns the table of loads as Markdown. outcomes: as `loadOutcome` returns them. */
export function loadTable(outcomes) {
  const rows = outcomes.map(({ name, unit, connections, rate_s, cpu_us, ...latency }) => [
    name,
    whole(connections),
    `${whole(rate_s)} ${unit}`,
    Number.isFinite(cpu_us) ? microseconds(cpu_us) : "",
    ...["p50_us", "p99_us", "mean_us"].map((key) => milliseconds(latency[key])),
  ]);
  return markdown(["load", "in flight", "per second", "CPU a request, µs", "p50 ms", "p99 ms", "mean ms"], rows);
}

/** Returns one sentence for each way in which a load's answers were not good. rounds: its runs without the warm-up. */
export function faults(runs, rounds) {
  const failed = runs.reduce((sum, run) => sum + run.failed, 0);
  const broken = runs.reduce((sum, run) => sum + run.socket_errors, 0);
  const sample = runs.find((run) => run.sample)?.sample;
  const silent = rounds.filter((run) => run.acknowledged === 0).length;
  return [
    ...(failed > 0 ? [`${failed} answers were not good; the first: ${sample}`] : []),
    ...(broken > 0 ? [`${broken} connections broke before their answer`] : []),
    ...(silent > 0 ? [`no good answer in ${silent} of ${rounds.length} rounds: where the machine is slow, set BENCH_SECONDS to more`] : []),
  ];
}

/**
 * Returns the comparison of totals as Markdown. entries: [{name, adds, held (by all counters before), and what
 * `reconcile` returns}…].
 */
export function totalsTable(entries) {
  const header = ["load", "held before", "acknowledged", "counted", "unknown outcome", "result"];
  const rows = entries.map((entry) => [
    entry.name,
    whole(entry.held),
    entry.adds > 0 ? whole(entry.acknowledged) : "reads only",
    whole(entry.counted),
    whole(entry.unknown * entry.adds),
    entry.mismatches.length === 0 ? "agrees" : `**${entry.mismatches.length} counters wrong**`,
  ]);
  return markdown(header, rows);
}

/** The parts of a report: what groups name as their `part`, the heading, and what is measured. */
const PARTS = [
  ["workers", "Workers' engine", "Tally on plain workerd, which gives all objects of a process one thread, and the baselines there. Targets of rates that one thread cannot reach are replaced by the CPU of a request."],
  ["native", "Native", "`tally-server` with one thread for each core unless it says otherwise, and Redis behind webdis, in the same groups. CPU is that of the server and of all its processes."],
];

// How the groups of a part were measured: the facts of each run, and of several runs what each measured.
function factsOf(groups) {
  const runs = [...new Set(groups.map(({ run }) => run))];
  return runs.flatMap((run) => {
    const names = groups.filter((one) => one.run === run).map(({ group }) => group.name);
    const which = runs.length === 1 ? [] : [`Of ${names.join(", ")}:`];
    return [...which, run.facts.map((fact) => `- ${fact}`).join("\n")];
  });
}

// One part: its tables, with how slow the machine was beside each, what was wrong, and how it was measured.
function partText([part, heading, words], groups) {
  const own = groups.filter(({ group }) => (group.part ?? "workers") === part);
  if (own.length === 0) return [];
  const outcomes = own.map(({ group, found }) => ({ ...found, ...groupOutcome(group, found) }));
  const all = (key) => outcomes.flatMap((one) => one[key]);
  const [lines, loads, totals, slow] = ["lines", "loads", "totals", "slow"].map(all);
  const tables = [
    figureTable(lines), ...(loads.length > 0 ? [loadTable(loads)] : []),
    ...(totals.length > 0 ? [totalsTable(totals)] : []),
  ];
  const beside = tables.flatMap((table) => (slow.length > 0 ? [table, slownessSentence(slow)] : [table]));
  return [`## ${heading}`, words, ...beside, ...all("wrong"), "How this part was measured:", ...factsOf(own)];
}

/** Returns one sentence on the size of the Wasm. */
export function wasmSentence(bytes) {
  const verdict = bytes <= WASM_GZIP_BYTES_MAX ? "" : ": **too large**";
  return `The Wasm, gzipped, has ${whole(bytes)} bytes, of at most ${whole(WASM_GZIP_BYTES_MAX)}${verdict}.`;
}

/**
 * Returns the report of what was measured, in its parts, then the size of the Wasm. groups: as measures.mjs has them.
 * runs: results of runs, the newest last: { found (what each group found), facts, wasm_bytes }. Of a group the newest
 * counts. missing: names of groups still to be measured.
 */
export function reportText({ groups, runs, missing = [] }) {
  const newest = (name) => runs.findLast(({ found }) => found.some((one) => one.name === name));
  const known = groups.filter(({ name }) => newest(name) !== undefined);
  const measured = known.map((group) => {
    const run = newest(group.name);
    return { group, run, found: run.found.find(({ name }) => name === group.name) };
  });
  const parts = [
    ...PARTS.flatMap((part) => partText(part, measured)),
    ...(runs.at(-1).wasm_bytes === undefined ? [] : ["## Size", wasmSentence(runs.at(-1).wasm_bytes)]),
    ...(missing.length > 0 ? [`Not measured: ${missing.join(", ")}.`] : []),
  ];
  return `${parts.join("\n\n")}\n`;
}
