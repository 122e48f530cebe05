// What a call of another Worker costs by the entrypoint `Tally`, and by `fetch` of the same binding.
//
//   node_modules/.bin/node benches/rpc.mjs
//
// Both ways read the same counter from the same cache, one call after the other, within one request. What is measured
// is processor time, which other programs of the machine change least. Rounds alternate.
import { startTally } from "../package/client/miniflare.ts";
import { cpuOf } from "./process.mjs";

const ROUNDS = Number(process.env.ROUNDS ?? 11);
const CALLS = Number(process.env.CALLS ?? 1_000);
const KEY = "0123456789abcdef";

const CALLER = `
const headers = { authorization: "Bearer ${KEY}" };
const ways = {
  rpc: (env) => env.TALLY.get("likes", { key: "${KEY}" }),
  fetch: async (env) => (await env.TALLY.fetch("https://localhost/counters/likes", { headers })).json(),
};
export default {
  async fetch(request, env) {
    const [way, calls] = new URL(request.url).pathname.slice(1).split("/");
    for (let call = 0; call < Number(calls); call += 1) await ways[way](env);
    return new Response("done");
  },
};
`;
const caller = {
  config: {
    name: "caller",
    compatibilityDate: "2026-11-17",
    manifest: {
      mainModule: "worker.mjs", modulesRoot: "/", modules: { "worker.mjs": { type: "esm", contents: CALLER } },
    },
    env: { TALLY: { type: "worker", worker: "tally-edge", exportName: "Tally" } },
    exports: {},
    triggers: [],
  },
};

const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];

const keys = { keys: [{ key: KEY, scopes: ["read", "write"] }] };
const tally = await startTally({ workers: [caller], vars: { TALLY_KEYS: JSON.stringify(keys) }, key: KEY });
try {
  await tally.client.increment("likes");
  const costOf = async (way) => {
    const before = cpuOf(process.pid);
    const answer = await tally.fetch(`/${way}/${CALLS}`);
    if ((await answer.text()) !== "done") throw new Error(`${way}: ${answer.status}`);
    return (cpuOf(process.pid) - before) / CALLS;
  };
  const micros = { fetch: [], rpc: [] };
  for (let round = 0; round <= ROUNDS; round += 1) {
    for (const way of Object.keys(micros)) {
      const cost = await costOf(way);
      // The first round compiles.
      if (round > 0) micros[way].push(cost);
    }
  }
  const [fetched, called] = [median(micros.fetch), median(micros.rpc)];
  console.log(`a read by fetch ${fetched.toFixed(0)} µs of the processor, by RPC ${called.toFixed(0)} µs: ${(called / fetched).toFixed(2)} times; ${ROUNDS} rounds of ${CALLS} calls`);
} finally {
  await tally.close();
}
