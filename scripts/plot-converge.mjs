// Draws what `make converge` has measured: which part of all readers is told all, how long after the last write and
// after healing. node scripts/plot-converge.mjs figures.json plot.svg
//
// Invariant: the plot shows the figures and nothing else; the same figures give the same bytes.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const WIDTH = 760;
const HEIGHT = 400;
// Room for what stands beside the axes.
const PLOT = { left: 64, right: 24, top: 48, bottom: 52 };
// Bins of the histograms in the figures.
const BIN_MS = 25;
const X_STEP_MS = 200;
const PROMISED_MS = 1000;
// Colours that stay apart for most colour-blind eyes, and by their dashes. Source: Okabe and Ito 2008.
const STYLES = [
  { colour: "#0072b2", dash: "" },
  { colour: "#009e73", dash: "7 4" },
  { colour: "#cc79a7", dash: "2 3" },
];

/** Returns the points of a cumulative histogram: [[ms, share from 0 to 1]…], from [0, 0]. */
export function cumulative(histogram) {
  const total = histogram.reduce((sum, count) => sum + count, 0);
  let below = 0;
  return [[0, 0], ...histogram.map((count, bin) => [(bin + 1) * BIN_MS, (below += count) / total])];
}

/** Returns what is drawn of the figures: [{name, times}…]. */
export function series(figures) {
  const healed = figures.healed.map(({ split_ms, times }) => ({
    name: `after a split of ${split_ms / 1000} s has healed`,
    times,
  }));
  return [
    { name: "after the last write", times: figures.agreed },
    ...healed,
  ];
}

/** Returns the plot as SVG. */
export function plot(figures) {
  const drawn = series(figures);
  const latest = Math.max(PROMISED_MS, ...drawn.map(({ times }) => times.max_ms));
  const end = Math.ceil(latest / X_STEP_MS) * X_STEP_MS;
  const x = (ms) => round(PLOT.left + (ms / end) * (WIDTH - PLOT.left - PLOT.right));
  const y = (share) => round(HEIGHT - PLOT.bottom - share * (HEIGHT - PLOT.top - PLOT.bottom));
  const line = (x1, y1, x2, y2, more) => `<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" ${more}/>`;
  const text = (at, height, words, more = "") => `<text x="${at}" y="${height}" ${more}>${words}</text>`;
  const parts = [
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#ffffff"/>`,
    text(PLOT.left, 26, `${figures.datacenters} datacenters: part of all readers that are told all, by time`, 'font-size="15" font-weight="600"'),
  ];
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    parts.push(line(x(0), y(share), x(end), y(share), 'stroke="#dddddd"'));
    parts.push(text(PLOT.left - 8, y(share) + 4, `${share * 100} %`, 'text-anchor="end"'));
  }
  for (let ms = 0; ms <= end; ms += X_STEP_MS) {
    parts.push(text(x(ms), HEIGHT - PLOT.bottom + 20, ms, 'text-anchor="middle"'));
  }
  parts.push(text((x(0) + x(end)) / 2, HEIGHT - 12, "milliseconds", 'text-anchor="middle"'));
  parts.push(line(x(PROMISED_MS), y(0), x(PROMISED_MS), y(1), 'stroke="#555555" stroke-dasharray="4 4"'));
  parts.push(text(x(PROMISED_MS) - 6, y(1) - 6, "promised to 99 %: 1 s", 'text-anchor="end" fill="#555555"'));
  // The names lie over the line of what is promised.
  const names = { left: x(end) - 336, top: y(0) - 18 - drawn.length * 20, height: drawn.length * 20 + 8 };
  parts.push(`<rect x="${names.left}" y="${names.top}" width="336" height="${names.height}" fill="#ffffff"/>`);
  drawn.forEach(({ name, times }, number) => {
    const { colour, dash } = STYLES[number % STYLES.length];
    const stroke = `stroke="${colour}" stroke-width="2.25" stroke-dasharray="${dash}" fill="none"`;
    const points = cumulative(times.histogram_25_ms).map(([ms, share]) => `${x(ms)},${y(share)}`);
    parts.push(`<polyline points="${points.join(" ")}" ${stroke}/>`);
    const height = y(0) - 18 - (drawn.length - 1 - number) * 20;
    parts.push(line(names.left + 6, height - 4, names.left + 42, height - 4, stroke));
    parts.push(text(names.left + 50, height, `${name}, at most ${times.max_ms} ms`));
  });
  const attributes = `viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="12" fill="#222222"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${attributes}>\n${parts.join("\n")}\n</svg>\n`;
}

function round(number) {
  return Math.round(number * 10) / 10;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [from, to] = process.argv.slice(2);
  writeFileSync(to, plot(JSON.parse(readFileSync(from, "utf8"))));
  console.log(`plot: ${to}`);
}
