import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { startTally } from "edgetally/miniflare";

const KEY = "0123456789abcdef";
const headers = { authorization: `Bearer ${KEY}` };
const BUDGET = 5_000;
const worker = (name, file, env) => ({
  config: {
    name,
    compatibilityDate: "2026-11-17",
    manifest: {
      mainModule: file,
      modulesRoot: "/",
      modules: { [file]: { type: "esm", contents: readFileSync(new URL(file, import.meta.url), "utf8") } },
    },
    env, exports: {}, triggers: [],
  },
});
const gateway = worker("ai-gateway", "worker.mjs", {
  TALLY: { type: "worker", worker: "tally-edge" }, MODEL: { type: "worker", worker: "model" },
  TALLY_KEY: { type: "text", value: KEY },
});

let tally;
before(async () => {
  const keys = { keys: [{ key: KEY, scopes: ["read", "write", "admin"], prefix: "limits/" }] };
  const workers = [gateway, worker("model", "model.mjs", {})];
  tally = await startTally({ workers, vars: { TALLY_KEYS: JSON.stringify(keys) } });
  const policy = { limit: BUDGET, window_seconds: 3_600, on_error: "closed" };
  const put = await tally.edge("/limits/tokens", { method: "PUT", headers, body: JSON.stringify(policy) });
  assert.equal(put.status, 201);
});
after(() => tally?.close());

// 16 bytes.
const PROMPT = "write 000 tokens";
const PROMPT_TOKENS = 4;
const prompt = (customer, tokens) =>
  tally.fetch("/", { method: "POST", headers: { "x-customer": customer }, body: PROMPT.replace("000", tokens) });
const seen = async (customer) => (await tally.edge(`/limits/tokens/${customer}`, { headers })).json();

test("50 concurrent requests never pass the budget, and what they did not use comes back", async () => {
  const answers = await Promise.all(Array.from({ length: 50 }, async (_, number) => {
    const answer = await prompt("acme", 100 + number);
    const text = await answer.text();
    return { status: answer.status, tokens: text.split("token\n").length - 1, after: answer.headers.get("retry-after") };
  }));
  const served = answers.filter(({ status }) => status === 200);
  const refused = answers.filter(({ status }) => status === 429);
  assert.equal(served.length + refused.length, 50);
  assert.ok(served.length > 0 && refused.length > 0, `${served.length} of 50`);
  assert.ok(refused.every(({ after }) => Number(after) >= 1));
  const used = served.reduce((sum, { tokens }) => sum + tokens + PROMPT_TOKENS, 0);
  assert.ok(used <= BUDGET, `${used} tokens`);
  let state;
  do state = await seen("acme");
  while (state.held > 0);
  assert.equal(state.remaining, BUDGET - used);
});

test("an answer is never longer than what was held", async () => {
  const answer = await prompt("long", 999);
  assert.equal((await answer.text()).split("token\n").length - 1, 400);
  let state;
  do state = await seen("long");
  while (state.held > 0);
  assert.equal(state.remaining, BUDGET - 400 - PROMPT_TOKENS);
});
