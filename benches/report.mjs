// What the runs of a benchmark come to: ratios, verdicts, a table. Pure: no clock, no files, no network.
//
// Invariant: a counter must hold what was acknowledged, to the unit: a server that loses one write, or
// counts one twice, gets no table without a mismatch. Only a request that failed leaves room, as it may
// have been counted or not.

/** Returns the median of at least one number; of an even number of them the mean of the middle two. */
export function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/**
 * Returns how a side's counters compare with its runs: acknowledged (units), unknown (requests of unknown
 * outcome), counted (the sum of `totals`), and mismatches (one sentence per wrong counter).
 *
 * Requests spread evenly over the counters of `measure`. runs: as runLoad resolves to. totals: what each
 * counter holds now, in the order of measure.counters.
 */
export function reconcile(measure, runs, totals) {
  const { counters, seed, adds } = measure;
  const sum = (part) => runs.reduce((total, run) => total + part(run), 0);
  const acknowledged = sum((run) => run.acknowledged);
  const unknown = sum((run) => run.failed + run.socket_errors);
  const least = seed + (adds > 0 ? acknowledged / counters.length : 0);
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

/**
 * Returns a measure's figures. rounds: [{tally, baseline}…], each as runLoad resolves to.
 * ratio: the median of Tally ÷ baseline round by round; ratio_min and ratio_max over the rounds. Of each
 * side the medians of rate_s, p50_us and p99_us.
 */
export function summarise(measure, rounds) {
  const ratios = rounds.map(({ tally, baseline }) => tally.rate_s / baseline.rate_s);
  const side = (name) =>
    Object.fromEntries(["rate_s", "p50_us", "p99_us"].map((key) => [key, median(rounds.map((round) => round[name][key]))]));
  return {
    name: measure.name,
    unit: measure.unit,
    target: measure.target,
    ratio: median(ratios),
    ratio_min: Math.min(...ratios),
    ratio_max: Math.max(...ratios),
    tally: side("tally"),
    baseline: side("baseline"),
  };
}

const whole = (number) => Math.round(number).toLocaleString("en");
// A side without one answer has no ratio.
const times = (ratio) => (Number.isFinite(ratio) ? `${ratio.toFixed(2)}×` : "none");
const milliseconds = (us) => (us / 1000).toFixed(us < 10_000 ? 2 : 1);

function markdown(header, rows) {
  const line = (cells) => `| ${cells.join(" | ")} |`;
  return [line(header), line(header.map((_, index) => (index === 0 ? "---" : "---:"))), ...rows.map(line)].join("\n");
}

/** Returns the table of ratios as Markdown. summaries: as `summarise` returns them. */
export function ratioTable(summaries) {
  const wanted = ({ target, ratio }) => {
    if (target === undefined) return "";
    return `${times(target)} ${ratio >= target ? "met" : "missed"}`;
  };
  const header = ["measure", "Tally ÷ baseline", "rounds", "target", "Tally /s", "baseline /s", "Tally p50, p99 ms", "baseline p50, p99 ms"];
  const rows = summaries.map((found) => [
    `${found.name} (${found.unit})`,
    `**${times(found.ratio)}**`,
    `${times(found.ratio_min)} to ${times(found.ratio_max)}`,
    wanted(found),
    ...[found.tally, found.baseline].map(({ rate_s }) => whole(rate_s)),
    ...[found.tally, found.baseline].map(({ p50_us, p99_us }) => `${milliseconds(p50_us)}, ${milliseconds(p99_us)}`),
  ]);
  return markdown(header, rows);
}

/** Returns one sentence for each way in which a side's answers were not good. */
export function faults(runs, rounds) {
  const failed = runs.reduce((sum, run) => sum + run.failed, 0);
  const broken = runs.reduce((sum, run) => sum + run.socket_errors, 0);
  const sample = runs.find((run) => run.sample)?.sample;
  const silent = rounds.filter((run) => run.acknowledged === 0).length;
  return [
    ...(failed > 0 ? [`${failed} answers were not good; the first: ${sample}`] : []),
    ...(broken > 0 ? [`${broken} connections broke: a server failed, or an answer took more than the 5 s that workerd keeps a resting connection`] : []),
    ...(silent > 0 ? [`no good answer in ${silent} of ${rounds.length} rounds: where the machine is slow, set BENCH_SECONDS to more`] : []),
  ];
}

/** Returns the comparison of totals as Markdown. entries: [{name, side, adds, seeded, and what `reconcile` returns}…]. */
export function totalsTable(entries) {
  const header = ["measure", "side", "held before", "acknowledged", "counted", "unknown outcome", "result"];
  const rows = entries.map((entry) => [
    entry.name,
    entry.side,
    whole(entry.seeded),
    entry.adds > 0 ? whole(entry.acknowledged) : "reads only",
    whole(entry.counted),
    whole(entry.unknown * entry.adds),
    entry.mismatches.length === 0 ? "agrees" : `**${entry.mismatches.length} counters wrong**`,
  ]);
  return markdown(header, rows);
}
