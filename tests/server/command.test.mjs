// `tally serve --native` runs the native server.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { PROGRAM } from "./program.mjs";

const TALLY = fileURLToPath(new URL("../../package/command/tally.mjs", import.meta.url));
const WITHIN = { timeout: 60_000 };

function begin(args, program) {
  const env = { PATH: process.env.PATH, TALLY_SERVER: program };
  const child = spawn(process.execPath, [TALLY, "serve", "--native", ...args], { env });
  const said = { child, output: "", errors: "", ended: once(child, "close") };
  child.stdout.on("data", (text) => (said.output += text));
  child.stderr.on("data", (text) => (said.errors += text));
  return said;
}

test("tally serve --native answers, and ends in order", WITHIN, async () => {
  const folder = mkdtempSync(join(tmpdir(), "tally-command-"));
  const said = begin(["--port", "0", "--data", join(folder, "data")], PROGRAM);
  try {
    while (!said.output.includes("ready")) await once(said.child.stdout, "data");
    const [, url] = said.output.match(/ready on (\S+)/);
    assert.equal((await fetch(`${url}/healthz`)).status, 200);
  } finally {
    said.child.kill("SIGTERM");
    assert.deepEqual(await said.ended, [0, null], said.errors);
    rmSync(folder, { recursive: true });
  }
});

test("tally serve --native says where the program is missing", WITHIN, async () => {
  const said = begin([], "/nowhere/tally-server");
  assert.equal((await said.ended)[0], 2);
  assert.match(said.errors, /--native: TALLY_SERVER names \/nowhere\/tally-server, which is no program/);
});
