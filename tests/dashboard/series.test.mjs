// Histories and orders of the dashboard.
import assert from "node:assert/strict";
import { test } from "node:test";
import { factorFor, filled, joined, sparkline, stretchStart, summary } from "../../dashboard/series.js";

test("what is not known stays a gap, and joining keeps every count", () => {
  const points = [
    [0, null],
    [60, null],
    [120, 5],
    [180, "9007199254740993"],
    [240, 0],
    [300, null],
  ];
  assert.deepEqual(joined(points, 2, 60), [
    [0, null],
    [120, 9007199254740998n],
    [240, 0n],
  ]);
  assert.equal(joined(points, 1, 60), points);
  assert.equal(summary(joined(points, 2, 60)).sum, summary(points).sum);
});

test("steps are joined on the clock, wherever the range begins", () => {
  assert.deepEqual(
    joined(
      [
        [120, 1],
        [180, 2],
        [240, 3],
        [300, 4],
        [360, 5],
      ],
      5,
      60,
    ),
    [
      [0, 6n],
      [300, 9n],
    ],
  );
});

test("a range is shown in widths that divide the clock, at most as many as fit", () => {
  assert.equal(factorFor(900, 1, 120), 15);
  assert.equal(factorFor(3_600, 60, 120), 1);
  assert.equal(factorFor(86_400, 60, 120), 15);
  assert.equal(factorFor(86_400, 60, 24), 60);
  assert.equal(factorFor(2_592_000, 3_600, 120), 6);
  for (const most of [24, 50, 120])
    for (const [span, step] of [
      [900, 1],
      [3_600, 60],
      [86_400, 60],
      [2_592_000, 3_600],
    ])
      assert.ok(span / (factorFor(span, step, most) * step) <= Math.max(most, 30));
});

test("a summary names the peak and how much is known", () => {
  assert.deepEqual(
    summary([
      [0, null],
      [60, 3],
      [120, 7],
      [180, 7],
    ]),
    { sum: 17n, peak: 7n, peak_at: 120, known: 3 },
  );
  assert.deepEqual(summary([[0, null]]), { sum: 0n, peak: 0n, peak_at: undefined, known: 0 });
});

test("a line breaks where nothing is known, and stays in its box", () => {
  assert.equal(sparkline([0, 2, null, 1, 2], 40, 10), "M0.0 10.0L10.0 0.0M30.0 5.0L40.0 0.0");
  assert.equal(sparkline([null, null], 40, 10), "");
  assert.equal(sparkline([0], 40, 10), "M0.0 10.0");
});

test("weeks begin on Mondays, days at midnight of this place or of UTC, over changes of the clock too", () => {
  const seconds = (text) => Date.parse(text) / 1000;
  assert.equal(stretchStart(seconds("2026-11-22T12:00Z"), 604_800, true), seconds("2026-11-16T00:00Z"));
  const before = process.env.TZ;
  process.env.TZ = "Europe/Berlin";
  try {
    // The clock goes back on 25 October 2026 at 01:00 UTC.
    assert.equal(stretchStart(seconds("2026-10-25T22:30Z"), 86_400, false), seconds("2026-10-24T22:00Z"));
    assert.equal(stretchStart(seconds("2026-10-25T23:00Z"), 86_400, false), seconds("2026-10-25T23:00Z"));
    assert.equal(stretchStart(seconds("2026-10-25T22:30Z"), 86_400, true), seconds("2026-10-25T00:00Z"));
    assert.equal(stretchStart(seconds("2026-10-26T05:30Z"), 3_600, false), seconds("2026-10-26T05:00Z"));
  } finally {
    process.env.TZ = before ?? "UTC";
  }
});

test("points that an answer left out are none, those that it does not know stay unknown", () => {
  assert.deepEqual(filled([[120, 4], [180, null]], 60, 240, 60), [
    [60, 0],
    [120, 4],
    [180, null],
  ]);
});
