// The plot of convergence shows the figures that it is given.
import assert from "node:assert/strict";
import { test } from "node:test";
import { cumulative, plot, series } from "./plot-converge.mjs";

const times = (max_ms) => ({ max_ms, histogram_25_ms: [0, 1, 3] });
const figures = {
  datacenters: 7,
  agreed: times(70),
  healed: [{ split_ms: 3000, times: times(71) }],
};

test("a cumulative histogram rises from nothing to all", () => {
  assert.deepEqual(cumulative([0, 1, 3]), [[0, 0], [25, 0], [50, 0.25], [75, 1]]);
});

test("every series is drawn and named with its largest time", () => {
  const svg = plot(figures);
  assert.equal(series(figures).length, 2);
  assert.equal(svg.match(/<polyline/g).length, 2);
  for (const words of ["7 datacenters", "split of 3 s has healed, at most 71 ms"]) {
    assert.ok(svg.includes(words), words);
  }
  assert.equal(plot(figures), svg);
});
