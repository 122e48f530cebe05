// Runs Redis's own Tcl suites against the native server, in their external mode:
//
//   node_modules/.bin/node scripts/redis-suites.mjs <folder of Redis's source> [suite…]
//
// The folder is what `apt-get source redis` or a clone of redis/redis at the tag 7.0.15 makes. It needs `tclsh`.
// TALLY_SERVER names the server, otherwise `cargo build -p tally-server` has made it.
//
// Invariants: the suites are copied, and their copy asks this server alone. A test is left out only if
// `tests/redis-suites/skipped.json` names it, with the reason, and it is an error to name one that is not there.
// A name that begins with a slash is a pattern.
import { spawn } from "node:child_process";
import { appendFileSync, cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { NativeServer, killAll } from "../tests/server/program.mjs";
import { findProgram } from "./debian.mjs";

const HERE = fileURLToPath(new URL("../tests/redis-suites/", import.meta.url));
const SKIPPED = JSON.parse(readFileSync(join(HERE, "skipped.json"), "utf8"));
const TCL = "tclsh";
// What a test's outcome looks like in the output of the suites, without its colours.
const OUTCOME = /^\[(ok|err|skip|ignore|exception)\]: (.*)$/;
const MILLISECONDS = / \(\d+ ms\)$/;

/** Resolves to the outcomes of a suite by kind, and to all lines of its output. */
async function outcomesOf(folder, suite, port, skipFile) {
  const args = [
    "tests/test_helper.tcl", "--host", "127.0.0.1", "--port", port, "--singledb", "--ignore-encoding",
    "--ignore-digest", "--no-latency", "--durable", "--skipfile", skipFile, "--single", suite,
  ];
  const tests = spawn(findProgram([TCL]), args.map(String), { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
  const outcomes = { ok: [], err: [], skip: [], ignore: [], exception: [] };
  const lines = [];
  for await (const coloured of createInterface({ input: tests.stdout })) {
    // eslint-disable-next-line no-control-regex
    const line = coloured.replaceAll(/\u001b\[[0-9;]*m/g, "");
    lines.push(line);
    const [, kind, rest] = OUTCOME.exec(line) ?? [];
    if (kind !== undefined) outcomes[kind].push(rest.replace(MILLISECONDS, "").replace(/ in tests\/.*$/, ""));
  }
  return { outcomes, lines };
}

/** Runs one suite, and returns whether it is as it should be. */
async function run(source, suite) {
  const folder = mkdtempSync(join(tmpdir(), "tally-redis-suites-"));
  try {
    cpSync(join(source, "tests"), join(folder, "tests"), { recursive: true });
    const client = join(folder, "tests/support/redis.tcl");
    appendFileSync(client, readFileSync(join(HERE, "shim.tcl")));
    const skipFile = join(folder, "skipped");
    const skipped = Object.keys(SKIPPED[suite]);
    writeFileSync(skipFile, skipped.join("\n"));
    const server = new NativeServer({ folder: join(folder, "data"), options: ["--resp", "0"] });
    await server.ready();
    const port = new URL(server.respUrl).port;
    const { outcomes, lines } = await outcomesOf(folder, suite, port, skipFile);
    await server.end();
    const isThere = (name) => outcomes.skip.some((test) =>
      name.startsWith("/") ? new RegExp(name.slice(1)).test(test) : test === name);
    const strangers = skipped.filter((name) => !isThere(name));
    const failed = [...outcomes.err, ...outcomes.exception];
    const isWell = failed.length === 0 && strangers.length === 0 && outcomes.ok.length > 0;
    const { ok, skip } = outcomes;
    console.log(`${suite}: ${ok.length} tests pass, ${skip.length} are skipped, ${failed.length} fail`);
    if (failed.length > 0 || ok.length === 0) console.log(lines.join("\n"));
    for (const name of strangers) console.log(`skipped.json names a test that ${suite} does not have: ${name}`);
    return isWell;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const [source, ...named] = process.argv.slice(2);
if (source === undefined || !existsSync(join(source, "tests/test_helper.tcl"))) {
  console.error("name the folder of Redis's source, which has tests/test_helper.tcl: apt-get source redis makes one");
  process.exitCode = 2;
} else if (findProgram([TCL]) === undefined) {
  console.error(`${TCL} is not on the PATH: apt-get install tcl`);
  process.exitCode = 2;
} else {
  try {
    let isWell = true;
    for (const suite of named.length > 0 ? named : Object.keys(SKIPPED)) isWell = (await run(source, suite)) && isWell;
    process.exitCode = isWell ? 0 : 1;
  } finally {
    killAll();
  }
}
