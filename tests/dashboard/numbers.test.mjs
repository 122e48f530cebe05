// Numbers of the dashboard: exact from the answer to the text.
import assert from "node:assert/strict";
import { test } from "node:test";
import { count, duration, isSafe, measured, parseExact, rate, share, short, whole } from "../../dashboard/numbers.js";

const LARGEST = (2n ** 128n - 1n).toString();

test("no digit of a count is lost between an answer and the page", () => {
  assert.equal(count(parseExact(`{"value":${LARGEST}}`).value), "340,282,366,920,938,463,463,374,607,431,768,211,455");
  assert.equal(
    count(parseExact(`{"value":"${LARGEST}"}`).value), "340,282,366,920,938,463,463,374,607,431,768,211,455",
  );
  assert.equal(count(parseExact('{"value":9007199254740993}').value), "9,007,199,254,740,993");
  assert.equal(count(-9_007_199_254_740_993n), "−9,007,199,254,740,993");
  assert.equal(parseExact('{"rate":0.25,"none":null}').rate, 0.25);
});

test("what is no count is none, and never throws", () => {
  for (const odd of [undefined, null, "", "1e5", "0x10", Number.NaN, Infinity, {}, "12 "]) assert.equal(whole(odd), 0n);
});

test("an abbreviation never claims more than there is", () => {
  assert.equal(short(999), "999");
  assert.equal(short(1_000), "1K");
  assert.equal(short(1_999), "1.9K");
  assert.equal(short(999_999), "999K");
  assert.equal(short(12_345_678), "12.3M");
  assert.equal(short(-1_500), "−1.5K");
  assert.equal(short(LARGEST), "3.4e38");
  assert.equal(isSafe(LARGEST), false);
  assert.equal(isSafe(2 ** 53 - 1), true);
});

test("a rate has the unit in which it reads well", () => {
  assert.deepEqual([0, 0.1, 4.234, 1234.5, 0.05, 0.0001, null, undefined].map(rate), [
    "0 /s",
    "0.1 /s",
    "4.2 /s",
    "1,230 /s",
    "3 /min",
    "0.36 /h",
    "–",
    "–",
  ]);
});

test("lengths of time have one unit", () => {
  assert.deepEqual([-5, 0, 430, 9_960, 61_000, 300_000, 7_200_000, 864_000_000].map(duration), [
    "0.0 s",
    "0.0 s",
    "0.4 s",
    "10.0 s",
    "61 s",
    "5 min",
    "2 h",
    "10 d",
  ]);
});

test("shares and measured numbers", () => {
  assert.deepEqual(
    [share(1, 3), share(0, 0), share(1, 1000), share(3, 100_000), share(0, 9), share(-1, -2), share(LARGEST, LARGEST)],
    ["33 %", "–", "< 1 %", "< 1 %", "0 %", "50 %", "100 %"],
  );
  assert.deepEqual([0, 12.3456, 123.4, 0.00123, 1e22, Number.NaN].map(measured), [
    "0", "12.3", "123", "0.00123", "1.0e22", "–",
  ]);
});
