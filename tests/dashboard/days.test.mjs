// Values by day: which days are asked for, and how each differs from the one before.
import assert from "node:assert/strict";
import { test } from "node:test";
import { dayRows, daysUntil } from "../../dashboard/days.js";

test("thirty days end today", () => {
  assert.equal(daysUntil(Date.UTC(2026, 10, 1, 23, 59)), "2026-10-03..2026-11-01");
});

test("decrements, sets and days without the counter are told, the newest first", () => {
  const days = [
    { on: "2026-10-29", value: null },
    { on: "2026-10-30", value: 5 },
    { on: "2026-10-31", value: "9007199254740993" },
    { on: "2026-11-01", value: -3 },
  ];
  assert.deepEqual(
    dayRows(days).map(({ on, change }) => [on, change === undefined ? undefined : BigInt(change)]),
    [
      ["2026-11-01", -9007199254740996n],
      ["2026-10-31", 9007199254740988n],
      ["2026-10-30", undefined],
    ],
  );
});
