// The map of the dashboard, and what is asked for the charts beside it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { largestFirst } from "../../dashboard/places.js";
import { bandOf, stepOf } from "../../dashboard/spread.js";
import { LAND, landCells, placeOf, project } from "../../dashboard/world.js";

const landAt = (latitude, longitude) => {
  const { x, y } = project({ latitude, longitude });
  return cells.has(`${Math.floor(x)},${Math.floor(y)}`);
};
const cells = new Set(landCells().map(([x, y]) => `${x},${y}`));

test("land and sea are where they are", () => {
  for (const [latitude, longitude] of [
    [48, 9],
    [40, -100],
    [-10, -55],
    [-25, 135],
    [60, 100],
    [0, 25],
    [35, 105],
  ])
    assert.ok(landAt(latitude, longitude), `${latitude} ${longitude} is land`);
  for (const [latitude, longitude] of [
    [0, -30],
    [30, -45],
    [-40, 90],
    [0, -150],
    [40, 180 - 10],
    [-50, -20],
  ])
    assert.ok(!landAt(latitude, longitude), `${latitude} ${longitude} is sea`);
});

test("datacenters and regions are known, on the map, and near land", () => {
  for (const id of [
    "FRA", "IAD", "SYD", "NRT", "GRU", "JNB", "WNAM", "ENAM", "SAM", "WEUR", "EEUR", "APAC", "OC", "AFR", "ME",
  ]) {
    const { x, y } = project(placeOf(id));
    assert.ok(x >= 0 && x <= 360 / LAND.step && y >= 0 && y <= LAND.rows.length, id);
    const near = [-1, 0, 1].some((dx) =>
      [-1, 0, 1].some((dy) => cells.has(`${Math.floor(x) + dx},${Math.floor(y) + dy}`)),
    );
    assert.ok(near, `${id} is near land`);
  }
  for (const id of ["LOCAL", "", "constructor", "fra"]) assert.equal(placeOf(id), undefined);
});

test("the largest datacenter comes first, whole numbers compared whole", () => {
  const ids = (...values) =>
    largestFirst(values.map((value, index) => ({ id: "abcd"[index], value })))
      .map(({ id }) => id)
      .join("");
  assert.equal(ids("9007199254740992", "9007199254740993", -1, 5), "badc");
  assert.equal(ids(1, 1, undefined, 0), "abcd");
});

test("a series has steps that are kept, and a number of points that can be seen", () => {
  assert.equal(stepOf(900, 900), "1m");
  assert.equal(stepOf(6 * 3_600, 86_399), "1m");
  assert.equal(stepOf(3_600, 86_400), "1h", "minutes are gone after a day");
  assert.equal(stepOf(86_400, 86_400), "1h");
  assert.equal(stepOf(90 * 86_400, 90 * 86_400), "1d");
});

test("a band has a piece for each run of known values", () => {
  const box = { width: 30, height: 10 };
  assert.equal(bandOf([0, 5, 0, 5], [10, 10, 10, 10], box, 10), "M0.0 0.0L10.0 0.0L20.0 0.0L30.0 0.0L30.0 5.0L20.0 10.0L10.0 5.0L0.0 10.0Z");
  assert.equal(bandOf([1, null, 1, 1], [2, null, 2, 2], box, 10), "M20.0 8.0L30.0 8.0L30.0 9.0L20.0 9.0Z");
  assert.equal(bandOf([null, 1], [null, 1], box, 10), "", "one point is no band");
});
