// The command where output has no room, or nobody reads it any more: it prints one sentence, ends with an exit code,
// and leaves no part of an export.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { TALLY, run, until } from "./server.mjs";

// More than a pipe holds.
const LINES = '{"id":"a","value":1}\n'.repeat(50_000);
const END = '{"end":true,"counters":50000,"complete":true}\n';
const folder = mkdtempSync(join(tmpdir(), "tally-output-"));
let url;
const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url, "http://tally");
  if (pathname === "/export") {
    response.write(LINES);
    const prefix = searchParams.get("prefix");
    if (prefix === "cut") setImmediate(() => response.destroy());
    else if (prefix !== "slow") response.end(END);
    return;
  }
  if (pathname === "/counters/a") return response.end('{"id":"a","value":1,"exact":true}');
  if (pathname === "/live") return response.write('data: {"type":"update","counters":{"a":{"value":1}}}\n\n');
  const problem = '{"code":"counter-not-found","status":404,"detail":"nothing has been counted as \\"b\\""}';
  response.writeHead(404, { "content-type": "application/problem+json" }).end(problem);
});
before(async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  url = `http://127.0.0.1:${server.address().port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true });
});

const shell = (line) => {
  const begin = `set -o pipefail; tally() { "${process.execPath}" "${TALLY}" "$@"; }`;
  return run("bash", ["-c", `${begin}; ${line}`], { cwd: folder, env: { TALLY_URL: url } });
};

test("where there is no room, a command ends with 1 and one sentence that names the place", async () => {
  const stdout = /^tally: standard output cannot be written \(ENOSPC\): [^\n]+\n$/;
  for (const [line, sentence] of [
    ["tally export --output /dev/full", /^tally: --output \/dev\/full cannot be written \(ENOSPC\): [^\n]+\n$/],
    ["tally export > /dev/full", stdout],
    ["tally export --csv > /dev/full", stdout],
    ["tally get a --json > /dev/full", stdout],
    ["tally watch a --json --for 1 > /dev/full", stdout],
    ["tally completion bash > /dev/full", stdout],
    ["tally help export > /dev/full", stdout],
  ]) {
    const { code, stderr } = await shell(line);
    assert.equal(code, 1, `${line}: ${code} ${stderr}`);
    assert.match(stderr, sentence, line);
  }
});

test("an exit code is the same if standard error cannot be written", async () => {
  for (const [line, code] of [["get a", 0], ["get b --json", 3], ["get", 2]]) {
    assert.equal((await shell(`tally ${line} 2> /dev/full`)).code, code, line);
  }
});

test("a reader that has enough ends a command without an error", async () => {
  for (const line of ["tally export | head -c 1", "tally export 2>&1 | head -c 1"]) {
    const { code, stdout, stderr } = await shell(line);
    assert.deepEqual([code, stdout, stderr], [0, "{", ""], line);
  }
});

test("an export that breaks off leaves the earlier one, and no part of itself", async () => {
  const [kept, made] = ["kept.ndjson", "made.ndjson"].map((name) => join(folder, name));
  writeFileSync(kept, "before");
  for (const name of [kept, made]) {
    const { code, stderr } = await shell(`tally export cut --output ${name}`);
    assert.notEqual(code, 0);
    assert.match(stderr, /^tally: [^\n]+\n$/);
  }
  const args = [TALLY, "export", "slow", "--output", kept, "--url", url];
  const child = spawn(process.execPath, args, { stdio: "ignore" });
  await until(() => readdirSync(folder).length === 2);
  child.kill("SIGINT");
  assert.equal((await once(child, "exit"))[0], 130);
  assert.deepEqual([readFileSync(kept, "utf8"), readdirSync(folder)], ["before", ["kept.ndjson"]]);
  const whole = await shell(`tally export --output ${kept}`);
  assert.equal(whole.code, 0, whole.stderr);
  assert.ok(readFileSync(kept, "utf8").startsWith(LINES));
});
