import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { test } from "node:test";
import { startTally } from "edgetally/miniflare";

const KEY = "0123456789abcdef";
const keys = {
  keys: [
    { key: KEY, scopes: ["write"], prefixes: ["rounds", "game", "limits/rounds"] },
    { key: "operator-0123456789", scopes: ["read"] },
  ],
};
const game = {
  config: {
    name: "game",
    compatibilityDate: "2026-11-17",
    manifest: {
      mainModule: "worker.js",
      modulesRoot: "/",
      modules: {
        "worker.js": {
          type: "esm", contents: stripTypeScriptTypes(readFileSync(new URL("worker.ts", import.meta.url), "utf8")),
        },
      },
    },
    env: {
      TALLY: { type: "worker", worker: "tally-edge", exportName: "Tally" }, TALLY_KEY: { type: "text", value: KEY },
    },
    exports: {},
    triggers: [],
  },
};

test("rounds are limited and counted, and scores are ranked", async () => {
  const tally = await startTally({ workers: [game], vars: { TALLY_KEYS: JSON.stringify(keys) } });
  try {
    const end = (player, score) => tally.fetch("/", { method: "POST", body: JSON.stringify({ player, score }), cf: { colo: "FRA" } });
    assert.deepEqual(await (await end("ann", 10)).json(), { rounds: 1, rank: 1 });
    assert.deepEqual(await (await end("bob", 30)).json(), { rounds: 2, rank: 1 });
    assert.deepEqual(await (await end("ann", 20)).json(), { rounds: 3, rank: 2 });
    assert.equal((await end("ann", 20)).status, 429);
    // What is refused is an answer of the Worker, too.
    assert.equal((await (await end("..", 1)).json()).code, "invalid-id");
    const headers = { authorization: "Bearer operator-0123456789" };
    const seen = await (await tally.edge("/counters/rounds?consistency=strong", { headers })).json();
    assert.deepEqual([seen.value, seen.datacenters.map(({ id }) => id)], [3, ["FRA"]]);
  } finally {
    await tally.close();
  }
});
