// Histories of a server in memory: a sound one breaks nothing of the contract, and one with a fault is found out.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Fake } from "../crash/fake.mjs";
import { until } from "../crash/wait.mjs";
import { judge } from "./check.mjs";
import { Clients } from "./clients.mjs";
import { History } from "./written.mjs";

const SEED = 4;
const KILLS = 8;
const CLIENTS = 8;
// So many writes between two kills hold some of every kind, whatever the machine's speed.
const BETWEEN = 80;
const WITHIN = { timeout: 240_000 };
const ROUNDS_MAX = 6;
const UNTIL_MS_MAX = 30_000;

async function judged(fault) {
  const [server, lines] = [new Fake(fault), []];
  const now = () => Math.round(performance.now() * 1e6);
  const head = { source: "a fake", began_ms: 0, clocks_ms: 2 };
  await server.start();
  const history = new History({ write: (line) => lines.push(line), now, head });
  const clients = new Clients({ server, history, seed: SEED, count: CLIENTS });
  try {
    for (let kill = 1; kill <= KILLS; kill += 1) {
      const enough = kill * BETWEEN;
      await until(() => clients.stats.acknowledged >= enough, `${enough} acknowledgements`, UNTIL_MS_MAX);
      history.note("kill");
      await server.kill();
      await server.start();
    }
    await clients.finish();
  } finally {
    await server.kill();
  }
  return { ...judge(lines.join("")), stats: clients.stats };
}

test("the history of a sound server breaks nothing", WITHIN, async () => {
  const { violations, judged: answers, undecided, stats } = await judged();
  assert.deepEqual(violations, []);
  assert.ok(answers > 200 && undecided === 0, `${answers} answers, ${undecided} undecided`);
  assert.ok(stats.unknown > 0, "kills leave calls of unknown outcome");
});

for (const [fault, what, why] of [
  ["lazy", "answers before it has written", /missing|no choice/],
  ["forgetful", "forgets keys when it is killed", /twice|no choice|in two ways|missing/],
  ["loses", "loses a write now and then", /missing|no choice/],
  ["doubles", "counts a write twice now and then", /twice|no choice/],
]) {
  test(`the history of a server that ${what} is found out`, WITHIN, async () => {
    // Whether a kill meets such a call is left to the machine.
    let violations = [];
    for (let round = 0; round < ROUNDS_MAX && violations.length === 0; round += 1) {
      ({ violations } = await judged(fault));
    }
    assert.ok(violations.some((found) => why.test(found.why)), JSON.stringify(violations.slice(0, 3)));
  });
}
