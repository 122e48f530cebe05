// Judges histories by the contract alone: node tests/histories/check.mjs <files or folders of .jsonl>
//
// It shares nothing with what wrote them, nor with what they are about: no code of Tally, of its simulation or of its
// tests is imported here.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Boards } from "./boards.mjs";
import { Limits } from "./limits.mjs";
import { historyOf } from "./read.mjs";
import { Values } from "./values.mjs";

const LEDGER = fileURLToPath(new URL("../../simulation/ledger/ledger.mjs", import.meta.url));
const VIOLATIONS_SHOWN_MAX = 5;

/**
 * Judges the text of a history. Returns {violations, judged, undecided, calls, unjudged}: violations as {line, why}, in
 * order; judged: answers that were compared with the contract; undecided: of those, answers with too many possible
 * sums; unjudged: calls, by their noun, of which no law here says anything. Errors: Malformed.
 */
export function judge(text) {
  const history = historyOf(text);
  const [values, limits, boards] = [new Values(history), new Limits(history), new Boards()];
  const unjudged = {};
  for (const call of history.calls) {
    const isKnown = [values, limits, boards].map((laws) => laws.add(call)).includes(true);
    if (!isKnown) unjudged[call.path[0]] = (unjudged[call.path[0]] ?? 0) + 1;
  }
  const violations = [values, limits, boards].flatMap((laws) => laws.violations());
  return {
    violations: violations.toSorted((one, other) => one.line - other.line),
    judged: values.judged + limits.judged + boards.judged,
    undecided: values.undecided,
    calls: history.calls.length,
    unjudged,
    reasons: limits.unjudged,
  };
}

function filesOf(path) {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path).filter((name) => name.endsWith(".jsonl")).toSorted().map((name) => join(path, name));
}

/** Judges the histories of files and folders, and says what is wrong. Returns {histories, wrong, calls, judged, …}. */
export function judgeAll(paths, say = console.log) {
  const files = paths.flatMap(filesOf);
  const sum = { histories: files.length, wrong: 0, calls: 0, judged: 0, undecided: 0, unjudged: {} };
  for (const file of files) {
    let result;
    try {
      result = judge(readFileSync(file, "utf8"));
    } catch (error) {
      result = { violations: [{ line: 0, why: error.message }], calls: 0, judged: 0, undecided: 0, unjudged: {} };
    }
    for (const field of ["calls", "judged", "undecided"]) sum[field] += result[field];
    for (const [noun, count] of Object.entries(result.unjudged)) sum.unjudged[noun] = (sum.unjudged[noun] ?? 0) + count;
    if (result.violations.length > 0) sum.wrong += 1;
    for (const { line, why } of result.violations.slice(0, VIOLATIONS_SHOWN_MAX)) say(`${file}:${line}: ${why}`);
  }
  return sum;
}

/** Adds what was judged to the ledger. */
export function record(section, report) {
  const file = join(mkdtempSync(join(tmpdir(), "tally-histories-")), "report.json");
  writeFileSync(file, JSON.stringify(report));
  spawnSync(process.execPath, [LEDGER, section, file], { stdio: "inherit" });
  rmSync(dirname(file), { recursive: true });
}

function main([first, ...more]) {
  const isRecorded = first === "--ledger";
  const paths = isRecorded || first === undefined ? more : [first, ...more];
  if (paths.length === 0) throw new Error("name a folder of histories, or files");
  const { histories, wrong, calls, judged, undecided, unjudged } = judgeAll(paths);
  if (isRecorded) record("histories", { source: "worlds", histories, wrong, calls, judged, undecided });
  const rest = Object.entries(unjudged).map(([noun, count]) => `${count} of /${noun}`).join(", ");
  const judgedText = `${calls} calls, ${judged} answers judged, ${undecided} undecided`;
  console.log(`histories: ${histories - wrong} of ${histories} are ok: ${judgedText}`);
  if (rest !== "") console.log(`histories: no law here covers ${rest}`);
  return histories > 0 && wrong === 0 ? 0 : 1;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) process.exit(main(process.argv.slice(2)));
