// Opens an issue for each failing seed of a report of `make soak`, by GitHub's own program `gh`:
//
//   node simulation/ledger/open-issues.mjs target/soak.json
//
// Invariant: a seed has one open issue.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const ISSUES_MAX = 5;
const VARIABLES = { "two builds": "UPGRADE=1 ", holds: "HOLDS=1 ", usual: "" };

/** Returns the issues of a report, as {title, body}. run: where its log is. commit: what it ran. */
export function issuesOf({ kind, wrong }, { run, commit }) {
  return wrong.slice(0, ISSUES_MAX).map((seed) => ({
    title: `World ${seed} breaks a law (${kind})`,
    body: [
      `A nightly soak of ${commit} found a world that breaks a law. See it step by step:`,
      "```sh", `git checkout ${commit}`, `${VARIABLES[kind] ?? ""}make soak SEED=${seed}`, "```",
      `The log of the run: ${run}`,
    ].join("\n"),
  }));
}

function gh(...args) {
  const { status, stdout, stderr, error } = spawnSync("gh", args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`gh ${args[0]} ${args[1]} failed: ${stderr}${error ?? ""}`);
  return stdout;
}

function main([file]) {
  if (!existsSync(file)) throw new Error(`${file} is missing: the soak ended before its report`);
  const where = { run: process.env.RUN ?? "unknown", commit: process.env.GITHUB_SHA ?? "HEAD" };
  const open = JSON.parse(gh("issue", "list", "--state", "open", "--limit", "1000", "--json", "title"));
  const titles = new Set(open.map(({ title }) => title));
  for (const { title, body } of issuesOf(JSON.parse(readFileSync(file, "utf8")), where)) {
    if (!titles.has(title)) gh("issue", "create", "--title", title, "--body", body);
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) main(process.argv.slice(2));
