// Adds to the ledger of what was run, simulation/ledger.json, and writes docs/trust.md from it.
//
//   node simulation/ledger/ledger.mjs <section> <report.json>   adds a report, and writes the page
//   node simulation/ledger/ledger.mjs                           writes the page
//
// Invariant: figures are added up for each commit and kind, so the ledger grows with commits and not with runs. A
// failing seed is listed once, and stays.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { pageOf } from "./page.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
export const LEDGER = `${ROOT}simulation/ledger.json`;
export const PAGE = `${ROOT}docs/trust.md`;

/** What each section adds up reports by. Other fields are numbers that are summed, lists that are joined, or texts. */
const SAME = {
  worlds: ["commit", "kind"],
  histories: ["commit", "source"],
  mutants: ["commit"],
  models: ["name"],
  kills: ["commit", "host", "fault"],
  documents: [],
  suites: ["name"],
};
// Sections of which the newest report replaces the one before.
const REPLACED = ["mutants", "models", "documents", "suites"];

function sumOf(one, other) {
  const fields = Object.keys({ ...one, ...other });
  const merged = (name) => {
    const [first, second] = [one[name], other[name]];
    if (first === undefined || second === undefined) return first ?? second;
    if (Array.isArray(first)) return [...new Set([...first, ...second])];
    // The first seed of a run is no amount.
    if (typeof first === "number" && name !== "from") return first + second;
    return second;
  };
  return Object.fromEntries(fields.map((name) => [name, merged(name)]));
}

/** Returns the ledger with a report more. Errors: there is no such section. */
export function withReport(ledger, section, report) {
  const same = SAME[section];
  if (same === undefined) throw new Error(`${section} is no section of the ledger: ${Object.keys(SAME).join(", ")}`);
  const isSame = (one) => same.every((name) => one[name] === report[name]);
  const others = ledger[section].filter((one) => !isSame(one));
  const known = ledger[section].find(isSame);
  const isAdded = known !== undefined && !REPLACED.includes(section);
  return { ...ledger, [section]: [...others, isAdded ? sumOf(known, report) : report] };
}

/** The text of the ledger: an entry a line. */
export function textOf(ledger) {
  const sections = Object.entries(ledger).map(([name, entries]) => {
    const lines = entries.map((entry) => `    ${JSON.stringify(entry)}`);
    return `  ${JSON.stringify(name)}: [${lines.length === 0 ? "" : `\n${lines.join(",\n")}\n  `}]`;
  });
  return `{\n${sections.join(",\n")}\n}\n`;
}

export const read = () => JSON.parse(readFileSync(LEDGER, "utf8"));

function main([section, file]) {
  let ledger = read();
  if (section !== undefined) {
    // A run that names one seed makes no report.
    if (!existsSync(file)) return;
    const { stdout } = spawnSync("git", ["rev-parse", "--short=8", "HEAD"], { cwd: ROOT, encoding: "utf8" });
    const date = new Date().toISOString().slice(0, 10);
    const report = JSON.parse(readFileSync(file, "utf8"));
    ledger = withReport(ledger, section, { commit: stdout.trim() || "none", date, ...report });
    writeFileSync(LEDGER, textOf(ledger));
  }
  writeFileSync(PAGE, pageOf(ledger));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) main(process.argv.slice(2));
