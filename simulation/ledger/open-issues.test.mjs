// A failing seed of a soak opens one issue, which says how to see it again.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PROGRAM = join(ROOT, "simulation/ledger/open-issues.mjs");
const REPORT = { kind: "holds", wrong: [4711, 4712] };

/** Runs the program with a `gh` that knows some issues, and returns what it opened. */
function opened(context, { report = REPORT, known = [] } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "tally-issues-"));
  context.after(() => rmSync(folder, { recursive: true }));
  const calls = join(folder, "calls");
  writeFileSync(join(folder, "gh"), `#!/bin/sh
if [ "$2" = list ]; then echo '${JSON.stringify(known.map((title) => ({ title })))}'
else printf '%s\\n' "$@" >> ${calls}
fi
`);
  chmodSync(join(folder, "gh"), 0o755);
  if (report !== undefined) writeFileSync(join(folder, "soak.json"), JSON.stringify(report));
  const env = { PATH: `${folder}:${process.env.PATH}`, GITHUB_SHA: "abc", RUN: "https://example.com/1" };
  const args = [PROGRAM, join(folder, "soak.json")];
  const { status, stderr } = spawnSync(process.execPath, args, { env, encoding: "utf8" });
  return { status, stderr, text: existsSync(calls) ? readFileSync(calls, "utf8") : "" };
}

test("each failing seed opens an issue that says how to see it again", (context) => {
  const { status, text } = opened(context);
  assert.equal(status, 0);
  assert.match(text, /World 4711 breaks a law \(holds\)/);
  assert.match(text, /git checkout abc\nHOLDS=1 make soak SEED=4712/);
  assert.match(text, /https:\/\/example\.com\/1/);
});

test("a seed whose issue is open opens no other", (context) => {
  const { text } = opened(context, { known: ["World 4711 breaks a law (holds)"] });
  assert.doesNotMatch(text, /4711/);
  assert.match(text, /4712/);
});

test("a soak that ended before its report fails here too", (context) => {
  const { status, stderr } = opened(context, { report: null });
  assert.notEqual(status, 0);
  assert.ok(stderr.length > 0);
});

test("the workflow runs the commands of this repository", () => {
  const workflow = readFileSync(join(ROOT, ".github/workflows/soak.yml"), "utf8");
  assert.match(workflow, /make soak \$\{\{ matrix\.kind \}\}=1 HISTORY=/);
  const [, program] = workflow.match(/run: node (\S+) target\/soak\.json/);
  assert.ok(existsSync(join(ROOT, program)), program);
  assert.match(workflow, /cron: "\d+ \d+ \* \* \*"/);
  assert.match(workflow, /issues: write/);
});
