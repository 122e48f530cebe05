import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { startTally } from "edgetally/miniflare";

const KEY = "0123456789abcdef";
const headers = { authorization: `Bearer ${KEY}` };
const counted = {
  config: {
    name: "counted",
    compatibilityDate: "2026-11-17",
    manifest: {
      mainModule: "worker.mjs",
      modulesRoot: "/",
      modules: { "worker.mjs": { type: "esm", contents: readFileSync(new URL("worker.mjs", import.meta.url), "utf8") } },
    },
    env: { TALLY: { type: "worker", worker: "tally-edge" }, TALLY_KEY: { type: "text", value: KEY } },
    exports: {},
    triggers: [],
  },
};

test("a visit is counted where it entered, and its visitor once", async () => {
  const keys = { keys: [{ key: KEY, scopes: ["read", "write"] }] };
  const tally = await startTally({ workers: [counted], vars: { TALLY_KEYS: JSON.stringify(keys) } });
  const visit = { headers: { "cf-connecting-ip": "203.0.113.9", "user-agent": "Mozilla/5.0 Firefox/140.0" }, cf: { colo: "FRA" } };
  for (let visits = 0; visits < 2; visits += 1) await tally.fetch("/page", visit);
  let seen;
  do {
    const answer = await tally.edge("/counters/%2Fpage?consistency=strong", { headers });
    seen = await answer.json();
  } while (seen.value !== 2);
  assert.deepEqual([seen.datacenters.map(({ id }) => id), seen.uniques.estimate], [["FRA"], 1]);
  await tally.close();
});
