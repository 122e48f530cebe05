// Histories and orders of the dashboard.
import assert from "node:assert/strict";
import { test } from "node:test";
import { columns, factorFor, joined, ranked, sparkline, summary } from "../../dashboard/series.js";

test("what is not known stays a gap, and joining keeps every count", () => {
  const points = [
    [0, null],
    [60, null],
    [120, 5],
    [180, "9007199254740993"],
    [240, 0],
    [300, null],
  ];
  assert.deepEqual(columns(points), [
    [0, 60, 120, 180, 240, 300],
    [null, null, 5, 9007199254740992, 0, null],
  ]);
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

test("orders compare counts whole and settle equals by name", () => {
  const counters = [
    { id: "b", value: "9007199254740993", rate: 1 },
    { id: "a", value: "9007199254740992", rate: 1 },
    { id: "c", value: -5, rate: 2 },
    { id: "B", value: -5, rate: null },
  ];
  const ids = (order) =>
    ranked(counters, order)
      .map(({ id }) => id)
      .join("");
  assert.deepEqual([ids("value"), ids("rate"), ids("name")], ["baBc", "cbaB", "Babc"]);
});
