// The harness is worth what it finds: a sound server passes, one with a fault does not.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Book, faultsOf, outOfBounds, valuesBetween } from "./books.mjs";
import { Fake } from "./fake.mjs";
import { OperatedBook } from "./operated.mjs";
import { settings } from "./random.mjs";
import { crash, setRestored } from "./run.mjs";

const SEED = 4;
const KILLS = 5;
const CLIENTS = 12;
// So many writes hold some of every kind, whatever the machine's speed.
const LEAST = 1_500;
// Restores are one write in many, and most find nothing to restore.
const LEAST_OF = { restores: 2 * LEAST };
// A run takes about 2 s; a loaded machine gets the rest.
const WITHIN = { timeout: 60_000 };

async function faultsWith(fault, load) {
  const server = new Fake(fault);
  const prepare = async () => {
    await setRestored(server);
    return "2026-11-01";
  };
  try {
    const least = LEAST_OF[load] ?? LEAST;
    const result = await crash({ server, kills: KILLS, clients: CLIENTS, seed: SEED, least, load, prepare });
    const { inDoubt, retried } = result.stats;
    // What is imported has a key, and stays in no doubt.
    assert.ok(
      (inDoubt > 0 || load === "imports") && retried > 0, "kills must leave writes in doubt and make clients retry",
    );
    return result;
  } finally {
    await server.kill();
  }
}

test(`a sound server passes, SEED=${SEED}`, WITHIN, async () => {
  const { faults, stats, inFlight, hasQueue } = await faultsWith(undefined);
  assert.deepEqual(faults, []);
  assert.equal(inFlight.length, KILLS);
  assert.ok(hasQueue && stats.replayed > 0);
});

for (const load of ["imports", "restores"]) {
  test(`a sound server passes with ${load}, SEED=${SEED}`, WITHIN, async () => {
    const { faults, stats } = await faultsWith(undefined, load);
    assert.deepEqual(faults, []);
    assert.ok(stats.operations > 0, "there are snapshots, or restores");
  });
}

for (const [fault, what, found, load] of [
  ["lazy", "answers before it has written", /acknowledged and missing/],
  ["forgetful", "forgets keys when it is killed", /counted twice or never sent/],
  ["loses", "loses a write now and then", /keyed\/.*acknowledged and missing/],
  ["doubles", "counts a write twice now and then", /keyed\/.*counted twice or never sent/],
  ["reapplies", "does an operation again that is sent again", /operated\/.* after its operations|not answered Idempotency-Replayed/],
  ["resets again", "resets again and again behind the answer", /operated\/.* after its operations/],
  ["revives", "deletes nothing", /renewed\/.* after its operations/],
  ["history", "keeps a history that does not add up", /the sum of its history is .* missing/],
  ["imports again", "imports a file again that is sent again", /imported\/.*counted twice or never sent/, "imports"],
  ["restores again", "restores again and again behind the answer", /restored\/.* after its operations/, "restores"],
]) {
  test(`a server that ${what} is found out, SEED=${SEED}`, WITHIN, async () => {
    const { faults } = await faultsWith(fault, load);
    assert.match(faults.join("\n"), found);
  });
}

const seen = (value, more = {}) => ({ value, added: value, uniques: 0, exact: true, ...more });

test("a snapshot has what was acknowledged before its time, and nothing of after it", () => {
  const book = new Book("a");
  book.begin({ added: 10n }).acknowledge();
  book.begin({ added: 5n }).doubt();
  book.begin({ removed: 2n }).drop();
  const [before, after] = [{ as_of: 0, taken_at: 0 }, { as_of: Date.now() + 1, taken_at: Date.now() + 1 }];
  assert.equal(book.wrongOn({ value: 0, ...before }), undefined);
  assert.match(book.wrongOn({ value: 10, ...before }), /counted twice or never sent/);
  for (const value of [10, 15]) assert.equal(book.wrongOn({ value, ...after }), undefined);
  assert.match(book.wrongOn({ value: 9, ...after }), /acknowledged and missing/);
  assert.match(book.wrongOn({ value: 16, ...after }), /counted twice/);
});

test("what is in doubt may be counted or not, what is acknowledged must be", () => {
  const book = new Book("a");
  book.begin({ added: 10n }).acknowledge();
  book.begin({ added: 5n }).doubt();
  book.begin({ added: 100n }).drop();
  for (const value of [10n, 15n]) assert.deepEqual(faultsOf(book, seen(value)), []);
  assert.match(faultsOf(book, seen(9n)).join(), /is 9: 1 acknowledged and missing/);
  assert.match(faultsOf(book, seen(16n)).join(), /is 16: 1 counted twice/);
  assert.match(faultsOf(book, seen(10n, { exact: false })).join(), /not exact/);
});

test("uniques and decrements have their bounds too", () => {
  const book = new Book("a");
  book.begin({ added: 10n, elements: ["x"] }).acknowledge();
  book.begin({ removed: 3n }).acknowledge();
  book.begin({ removed: 2n, elements: ["y"] }).doubt();
  for (const [value, uniques] of [
    [7n, 1], [5n, 2],
  ]) {
    assert.deepEqual(faultsOf(book, seen(value, { added: 10n, uniques })), []);
  }
  assert.match(faultsOf(book, seen(7n, { added: 10n, uniques: 0 })).join(), /uniques is 0/);
  assert.match(faultsOf(book, seen(4n, { added: 10n, uniques: 1 })).join(), /value is 4/);
  assert.match(faultsOf(book, seen(7n, { added: 11n, uniques: 1 })).join(), /history is 11/);
});

test("a read under load is held against what was known before it, and begun by its end", () => {
  const book = new Book("a");
  book.begin({ added: 10n }).acknowledge();
  const before = book.bounds();
  book.begin({ added: 5n });
  book.begin({ removed: 1n });
  assert.deepEqual(valuesBetween(before, book.bounds()), { least: 9n, most: 15n });
  assert.equal(outOfBounds("it", 9n, 9n, 15n), undefined);
});

// Books whose clock is set by hand.
function operated() {
  const clock = { now: 0 };
  const book = new OperatedBook("a", () => clock.now);
  const at = (now, what) => {
    clock.now = now;
    return what();
  };
  const isWrong = (value) => book.faultsOf({ value, exact: true }).length > 0;
  const fits = (values) =>
    [0n, 1n, 2n, 3n, 5n, 6n, 7n, 8n, 10n, 11n, 12n, 13n, 15n].filter((value) => !isWrong(value)).join() ===
    values.join();
  return { book, at, fits };
}

test("what was acknowledged before an operation is gone with it, what came after is kept", () => {
  const { book, at, fits } = operated();
  const before = at(1, () => book.begin({ added: 1n }));
  at(2, before.acknowledge);
  assert.ok(at(2.5, () => fits([1n])));
  const set = at(3, () => book.operate({ base: 10n }));
  assert.ok(at(4, () => fits([1n, 10n])), "under way, it may be done");
  const racing = at(5, () => book.begin({ added: 2n }));
  at(6, set.acknowledge);
  at(7, racing.acknowledge);
  assert.ok(at(8, () => fits([10n, 11n, 12n])), "a racing increment is before it or after");
  const after = at(9, () => book.begin({ added: 5n }));
  at(10, after.acknowledge);
  const down = at(11, () => book.begin({ removed: 2n }));
  at(12, down.acknowledge);
  assert.ok(at(13, () => fits([13n, 15n])));
  assert.match(
    book.faultsOf({ value: 9n, exact: true }).join(), /the value is 9 after its operations, and may be 13 to 15/,
  );
  assert.match(book.faultsOf({ value: 13n, exact: false }).join(), /not exact/);
});

test("an operation in doubt may be the last until one that began later is done", () => {
  const { book, at, fits } = operated();
  const doubted = at(1, () => book.operate({ base: 5n }));
  at(2, doubted.doubt);
  const write = at(3, () => book.begin({ added: 1n }));
  at(4, write.acknowledge);
  assert.ok(at(5, () => fits([1n, 5n, 6n])));
  at(6, () => book.killed());
  const late = at(7, () => book.begin({ added: 2n }));
  at(8, late.acknowledge);
  assert.ok(at(9, () => fits([3n, 7n, 8n])), "it was done before the kill, or never");
  const reset = at(10, () => book.operate({ base: 0n }));
  at(11, reset.acknowledge);
  assert.ok(at(12, () => fits([0n])));
  const ended = at(13, () => book.begin({ added: 5n }));
  at(14, ended.end);
  assert.ok(at(15, () => fits([0n, 1n, 2n, 3n, 5n])));
  const again = at(16, () => book.operate({ base: 0n }));
  at(17, again.acknowledge);
  assert.ok(at(18, () => fits([0n])), "what has ended is not in what comes after");
  at(19, at(18, () => book.operate({ base: 7n })).drop);
  assert.ok(at(20, () => fits([0n])));
});

test("settings come from the command line before the environment", () => {
  assert.deepEqual(settings({ KILLS: 20, SEED: 1 }, ["KILLS=3"], { KILLS: "5", SEED: "9" }), { KILLS: 3, SEED: 9 });
  assert.throws(() => settings({ KILLS: 20 }, ["KILL=3"], {}), /KILL is no setting/);
  assert.throws(() => settings({ KILLS: 20 }, ["KILLS=x"], {}), /whole number/);
});
