// Holds by the clients: what was used stays, the rest comes back, also if the work fails.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Tally, TallyError } from "../client/index.ts";
import { ROOT, openServer, run } from "./server.mjs";

let server;
let tally;
before(async () => {
  server = await openServer();
  tally = new Tally({ url: server.url });
  for (const [policy, fields] of [
    ["tokens", { limit: 100, window_seconds: 3_600 }],
    ["renders", { algorithm: "concurrency", limit: 2, ttl_seconds: 60 }],
  ]) await tally.request("PUT", `/limits/${policy}`, { body: fields });
});
after(() => server?.end());

const left = async (policy, key) => (await tally.peek(policy, key)).remaining;

test("a hold is settled by what was used, or released", async () => {
  const { allowed, hold } = await tally.reserve("tokens", "a", { amount: 60, ttl_seconds: 30 });
  assert.deepEqual([allowed, hold.amount, await left("tokens", "a")], [true, 60, 40]);
  const refused = await tally.reserve("tokens", "a", { amount: 50 });
  assert.deepEqual([refused.allowed, refused.hold], [false, undefined]);
  const settled = await tally.settle("tokens", "a", hold.id, 25);
  assert.deepEqual([settled.settled, settled.returned, await left("tokens", "a")], [25, 35, 75]);
  const other = await tally.reserve("tokens", "a", { amount: 70 });
  assert.equal((await tally.release("tokens", "a", other.hold.id)).returned, 70);
  await assert.rejects(tally.settle("tokens", "a", other.hold.id, 1), { code: "hold-settled" });
  assert.equal((await tally.refund("tokens", "a", 5)).remaining, 80);
});

test("withHold settles what was used, also if the work fails", async () => {
  const held = (amount, work) => tally.withHold("tokens", "b", { amount }, work);
  const result = await held(40, async (use) => {
    assert.equal(await left("tokens", "b"), 60);
    use(3);
    use(10);
    return "done";
  });
  assert.deepEqual([result, await left("tokens", "b")], ["done", 90]);
  await assert.rejects(held(40, (use) => (use(5), Promise.reject(new Error("half")))), /half/);
  assert.equal(await left("tokens", "b"), 85);
  await assert.rejects(held(40, () => Promise.reject(new Error("at once"))), /at once/);
  assert.equal(await left("tokens", "b"), 85);
  await held(40, () => undefined);
  assert.equal(await left("tokens", "b"), 45);
  let ran = false;
  await assert.rejects(held(50, () => (ran = true)), (error) => error instanceof TallyError && error.status === 429);
  assert.ok(!ran);
});

test("as many as the policy admits work at once", async () => {
  let [now, most, refused] = [0, 0, 0];
  const work = () =>
    tally.withHold("renders", "c", {}, async () => {
      most = Math.max(most, (now += 1));
      await new Promise((done) => setTimeout(done, 30));
      now -= 1;
    }).catch(({ code }) => (refused += Number(code === "quota-exceeded")));
  await Promise.all(Array.from({ length: 8 }, work));
  assert.equal(most, 2);
  assert.ok(refused > 0);
  assert.equal(await left("renders", "c"), 2);
});

test("the client for Python holds, settles and releases", async () => {
  const program = `
import sys
sys.path.insert(0, ${JSON.stringify(join(ROOT, "package/python"))})
from edgetally import Tally, TallyError
tally = Tally(${JSON.stringify(server.url)})
left = lambda: tally.request("GET", "/limits/tokens/p")["remaining"]
first = tally.reserve("tokens", "p", 60, ttl_seconds=30)
print(first["allowed"], left(), tally.reserve("tokens", "p", 50)["allowed"])
print(tally.settle("tokens", "p", first["hold"]["id"], 25)["returned"], left())
print(tally.release("tokens", "p", tally.reserve("tokens", "p", 70)["hold"]["id"])["returned"], left())
with tally.hold("tokens", "p", 40) as held:
    held.use(10)
print(left())
try:
    with tally.hold("tokens", "p", 40) as held:
        held.use(5)
        raise ValueError("half")
except ValueError as error:
    print(error, left())
try:
    with tally.hold("tokens", "p", 90):
        print("never")
except TallyError as error:
    print(error.code, left())
`;
  const { code, stdout, stderr } = await run("python3", ["-c", program]);
  assert.equal(code, 0, stderr);
  assert.deepEqual(stdout.trim().split("\n"), [
    "True 40 False", "35 75", "70 75", "65", "half 60", "quota-exceeded 60",
  ]);
});
