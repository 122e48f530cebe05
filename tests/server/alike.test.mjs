// The same calls are answered alike by the simulation, by the native server and by the Workers on plain workerd. SEED
// names one seed instead of those here.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { send } from "../crash/client.mjs";
import { Deployment } from "../e2e/native.mjs";
import { HOSTS, serverOf } from "../upgrade/hosts.mjs";
import { alikeOf, callsOf } from "./alike.mjs";

const SEEDS = process.env.SEED ? [Number(process.env.SEED)] : [1, 2, 3, 4];
const CALLS = 250;
const VARIABLES = { TALLY_TABLETS: "2", TALLY_LIMITERS: "2", TALLY_HASH_KEY: "000102030405060708090a0b0c0d0e0f" };
const WITHIN = { timeout: 180_000 };

let folder;
before(() => (folder = mkdtempSync(join(tmpdir(), "tally-alike-"))));
after(() => rmSync(folder, { recursive: true, force: true }));

/** The answers to calls, one after the other. */
async function answersOf(calls, ask) {
  const answers = [];
  for (const { method, path, ...options } of calls) answers.push(alikeOf(await ask(method, path, options)));
  return answers;
}

async function simulated(calls) {
  const deployment = new Deployment({ edges: 1, vars: VARIABLES, edgeVars: { TALLY_ACCESS: "open", ...VARIABLES } });
  const answers = await answersOf(calls, async (method, path, options) => {
    const { status, headers, bytes } = await deployment.fetch(`http://localhost${path}`, { method, ...options });
    return { status, headers: (name) => headers.get(name), text: bytes.toString() };
  });
  deployment.close();
  return answers;
}

async function served(host, calls, seed) {
  const server = serverOf(host, { folder: join(folder, `${host}-${seed}`), variables: VARIABLES });
  try {
    await server.start();
    return await answersOf(calls, async (method, path, options) => {
      const { status, headers, text } = await send(server.urls[0], method, path, options);
      return { status, headers: (name) => headers[name], text };
    });
  } finally {
    await server.end();
  }
}

for (const seed of SEEDS) {
  test(`the calls of seed ${seed} are answered alike by simulation, workerd and the native server`, WITHIN, async () => {
    const calls = callsOf(seed, CALLS);
    const expected = await simulated(calls);
    assert.ok(expected.filter(({ status }) => status < 300).length > CALLS / 2);
    for (const host of HOSTS) {
      const answers = await served(host, calls, seed);
      for (const [index, call] of calls.entries()) {
        assert.deepEqual(answers[index], expected[index], `${host}, call ${index}: ${JSON.stringify(call)}`);
      }
    }
  });
}
