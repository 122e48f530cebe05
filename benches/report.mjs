// What the runs of a benchmark come to: figures, verdicts, tables. Pure: no clock, no files, no network.
//
// Invariant: a counter must hold what was acknowledged, to the unit: a server that loses one write, or
// counts one twice, gets no table without a mismatch. Only a request that failed leaves room, as it may
// have been counted or not.
//
// The figures of a run: rate_s, p50_us, p99_us, mean_us, cpu_us (of the server, an answer), and of a server that counts
// rows_per_1000 and calls_per_1000.

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
  const values = rounds.map((round) => round[of][figure] / (to === undefined ? 1 : round[to][figure]));
  return { ...common, value: median(values), value_min: Math.min(...values), value_max: Math.max(...values) };
}

/**
 * Returns a load's figures: its name, server, connections, unit, and the medians of rate_s and latencies over its
 * rounds.
 */
export function loadOutcome(name, { server, connections, unit }, runs) {
  const figures = ["rate_s", "p50_us", "p99_us", "mean_us"].map((key) => [key, median(runs.map((run) => run[key]))]);
  return { name, server, connections, unit, ...Object.fromEntries(figures) };
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

/** Returns the table of figures and targets as Markdown. outcomes: as `lineOutcome` returns them. */
export function figureTable(outcomes) {
  const wanted = (outcome) => {
    const { target = {} } = outcome;
    if (target.least !== undefined) return `≥ ${shown(outcome, target.least)}`;
    return target.most === undefined ? "" : `≤ ${shown(outcome, target.most)}`;
  };
  const verdict = ({ target, value, why }) => {
    if (target === undefined || why !== undefined) return "";
    return reaches(target, value) ? "met" : "**missed**";
  };
  const rows = outcomes.map((outcome) => [
    outcome.name,
    wanted(outcome),
    outcome.why ?? `**${shown(outcome, outcome.value)}**`,
    outcome.why || outcome.value_min === outcome.value_max ? "" : `${shown(outcome, outcome.value_min)} to ${shown(outcome, outcome.value_max)}`,
    verdict(outcome),
  ]);
  return markdown(["measure", "target", "figure", "rounds", "result"], rows);
}

/** Returns the table of loads as Markdown. outcomes: as `loadOutcome` returns them. */
export function loadTable(outcomes) {
  const rows = outcomes.map(({ name, unit, connections, rate_s, ...latency }) => [
    name,
    whole(connections),
    `${whole(rate_s)} ${unit}`,
    ...["p50_us", "p99_us", "mean_us"].map((key) => milliseconds(latency[key])),
  ]);
  return markdown(["load", "in flight", "per second", "p50 ms", "p99 ms", "mean ms"], rows);
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

/**
 * Returns the report of a run: its tables, with how slow the machine was beside each, then facts and what was wrong.
 * found: what each group found (group.mjs). wasm: the line of the Wasm's size. missing: names of groups still to be
 * measured.
 */
export function reportText({ found, wasm, facts, missing }) {
  const all = (part) => found.flatMap((one) => one[part]);
  const totals = all("totals");
  const tables = [
    figureTable([...all("lines"), wasm]), loadTable(all("loads")), ...(totals.length > 0 ? [totalsTable(totals)] : []),
  ];
  const slow = all("slow");
  const parts = [
    ...tables.flatMap((table) => (slow.length > 0 ? [table, slownessSentence(slow)] : [table])),
    facts.map((fact) => `- ${fact}`).join("\n"),
    ...(missing.length > 0 ? [`Not measured: ${missing.join(", ")}.`] : []),
    ...all("wrong"),
  ];
  return `${parts.join("\n\n")}\n`;
}
