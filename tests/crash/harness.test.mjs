// The harness is worth what it finds: a sound server passes, one with a fault does not.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Book, faultsOf, outOfBounds, valuesBetween } from "./books.mjs";
import { Fake } from "./fake.mjs";
import { settings } from "./random.mjs";
import { crash } from "./run.mjs";

const SEED = 4;
const KILLS = 5;
const CLIENTS = 12;
// A run takes about 2 s; a loaded machine gets the rest.
const WITHIN = { timeout: 60_000 };

async function faultsWith(fault) {
  const server = new Fake(fault);
  try {
    const result = await crash({ server, kills: KILLS, clients: CLIENTS, seed: SEED });
    assert.ok(result.stats.inDoubt > 0 && result.stats.retried > 0, "kills must leave writes in doubt and make clients retry");
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

for (const [fault, what, found] of [
  ["lazy", "answers before it has written", /acknowledged and missing/],
  ["forgetful", "forgets keys when it is killed", /counted twice or never sent/],
  ["loses", "loses a write now and then", /keyed\/.*acknowledged and missing/],
  ["doubles", "counts a write twice now and then", /keyed\/.*counted twice or never sent/],
  ["history", "keeps a history that does not add up", /the sum of its history is .* missing/],
]) {
  test(`a server that ${what} is found out, SEED=${SEED}`, WITHIN, async () => {
    const { faults } = await faultsWith(fault);
    assert.match(faults.join("\n"), found);
  });
}

const seen = (value, more = {}) => ({ value, added: value, uniques: 0, exact: true, ...more });

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
  for (const [value, uniques] of [[7n, 1], [5n, 2]]) assert.deepEqual(faultsOf(book, seen(value, { added: 10n, uniques })), []);
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

test("settings come from the command line before the environment", () => {
  assert.deepEqual(settings({ KILLS: 20, SEED: 1 }, ["KILLS=3"], { KILLS: "5", SEED: "9" }), { KILLS: 3, SEED: 9 });
  assert.throws(() => settings({ KILLS: 20 }, ["KILL=3"], {}), /KILL is no setting/);
  assert.throws(() => settings({ KILLS: 20 }, ["KILLS=x"], {}), /whole number/);
});
