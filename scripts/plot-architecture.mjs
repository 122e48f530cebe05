// Draws docs/architecture.svg, the picture of the README: which parts there are, and what goes between them.
// node scripts/plot-architecture.mjs docs/architecture.svg
//
// Invariant: the picture follows from the lists below. Coordinates are whole pixels of an 880 × 340 box.
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const WIDTH = 880;
const HEIGHT = 340;

// x, y, width, height, title, lines, colour.
const BOXES = [
  [16, 116, 128, 96, "Clients", ["browsers, servers,", "other Workers"], "#f3f4f6"],
  [216, 40, 192, 112, "Edge Worker, Frankfurt", ["joins writes of a counter", "into one flush,", "caches reads 500 ms"], "#dbeafe"],
  [216, 188, 192, 112, "Edge Worker, Tokyo", ["the same code", "in every datacenter"], "#dbeafe"],
  [480, 40, 168, 112, "Cells, Frankfurt", ["Durable Objects:", "one row for each flush;", "1 to 64 shards"], "#dcfce7"],
  [480, 188, 168, 112, "Cells, Tokyo", ["count for themselves,", "push their sums"], "#dcfce7"],
  [720, 40, 144, 112, "Directory", ["which datacenters", "count a counter,", "their last sums"], "#fef3c7"],
  [720, 188, 144, 112, "Aggregator", ["adds datacenters up", "and says whether", "the sum is exact"], "#dbeafe"],
];

// From x, y to x, y, with a label above the middle.
const ARROWS = [
  [144, 148, 216, 104, "HTTP"],
  [144, 180, 216, 236, ""],
  [408, 96, 480, 96, "flush"],
  [408, 244, 480, 244, "flush"],
  [648, 96, 720, 96, "sums"],
  [648, 210, 720, 138, ""],
  [720, 252, 648, 252, "reads"],
  [792, 188, 792, 152, ""],
];

const text = (x, y, size, weight, words) =>
  `<text x="${x}" y="${y}" font-size="${size}" font-weight="${weight}" text-anchor="middle">${words}</text>`;

function box([x, y, width, height, title, lines, colour]) {
  const middle = x + width / 2;
  const first = y + height / 2 - lines.length * 9;
  return [
    `<rect x="${x}" y="${y}" width="${width}" height="${height}" rx="8" fill="${colour}" stroke="#374151"/>`,
    text(middle, first, 13, 600, title),
    ...lines.map((line, index) => text(middle, first + 24 + index * 18, 12, 400, line)),
  ].join("\n");
}

function arrow([x, y, toX, toY, label]) {
  const line = `<line x1="${x}" y1="${y}" x2="${toX}" y2="${toY}" stroke="#374151" stroke-width="1.5" marker-end="url(#head)"/>`;
  return label === "" ? line : `${line}\n${text((x + toX) / 2, (y + toY) / 2 - 8, 11, 400, label)}`;
}

/** Returns the picture, as SVG. */
export function picture() {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" fill="#111827" role="img" aria-labelledby="title">
<title id="title">Clients reach the edge Worker of their datacenter. It writes to cells, which are Durable Objects of that datacenter. The directory knows all datacenters of a counter. The aggregator Worker adds them up.</title>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="#374151"/></marker></defs>
<rect width="${WIDTH}" height="${HEIGHT}" rx="12" fill="#ffffff"/>
${[...BOXES.map(box), ...ARROWS.map(arrow)].join("\n")}
</svg>
`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(process.argv[2], picture());
  console.log(`picture: ${process.argv[2]}`);
}
