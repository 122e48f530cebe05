// The types of the entrypoint `Tally`: the example compiles against what wrangler makes of its configuration.
import assert from "node:assert/strict";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { client, types } from "../package.mjs";
import { ROOT, folder, run } from "./server.mjs";

const place = folder();
after(() => rmSync(place, { recursive: true, force: true }));

const EXAMPLE = join(ROOT, "examples/rpc");
const tool = (path, args) => run(process.execPath, [join(ROOT, "node_modules", path), ...args], {
  cwd: place, env: { WRANGLER_SEND_METRICS: "false", CI: "1" },
});

test("the example has types by wrangler and by the package, and a wrong field is an error", async () => {
  // As an installation has it.
  const installed = join(place, "node_modules/edgetally");
  mkdirSync(installed, { recursive: true });
  types();
  client(join(installed, "client"));
  const exported = { "./worker": { types: "./client/worker.d.ts", default: "./client/worker.js" } };
  const manifest = { name: "edgetally", type: "module", exports: exported };
  writeFileSync(join(installed, "package.json"), JSON.stringify(manifest));
  for (const file of ["worker.ts", "wrangler.jsonc", "tsconfig.json"]) cpSync(join(EXAMPLE, file), join(place, file));
  writeFileSync(join(place, "package.json"), '{"type":"module"}');

  const made = await tool("wrangler/bin/wrangler.js", ["types", "-c", "wrangler.jsonc"]);
  assert.equal(made.code, 0, `${made.stdout}${made.stderr}`);
  const bindings = readFileSync(join(place, "worker-configuration.d.ts"), "utf8");
  assert.match(bindings, /TALLY: Service \/\* entrypoint Tally from tally-edge \*\//);
  const compiled = await tool("typescript/bin/tsc", ["--project", "."]);
  assert.equal(compiled.code, 0, compiled.stdout);

  let wrong = readFileSync(join(EXAMPLE, "worker.ts"), "utf8");
  const faults = [
    ["by: { player }", "bx: { player }", /'bx' does not exist/],
    ["write(player, { score })", "write(player, { scored: score })", /'scored' does not exist/],
    ["env.TALLY.limit(", "env.TALLY.limits(", /'limits' does not exist/],
  ];
  for (const [right, fault] of faults) {
    assert.ok(wrong.includes(right), right);
    wrong = wrong.replace(right, fault);
  }
  writeFileSync(join(place, "worker.ts"), wrong);
  const { stdout } = await tool("typescript/bin/tsc", ["--project", "."]);
  for (const [, , why] of faults) assert.match(stdout, why);
});
