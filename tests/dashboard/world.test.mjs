// The map of the dashboard, and what is asked for the charts beside it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { largestFirst } from "../../dashboard/places.js";
import { slicesOf } from "../../dashboard/spread.js";
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

test("slices of a range are equal, end now, and do not begin before it", () => {
  for (const seconds of [900, 3_600, 86_280]) {
    const slices = slicesOf(seconds, 1_000_000);
    assert.equal(slices.at(-1).at, 1_000_000);
    assert.ok(slices.length >= 12 && slices.length <= 15, `${slices.length}`);
    slices.forEach((slice, index) => assert.ok(index === 0 || slice.at - slices[index - 1].at === slice.seconds));
    assert.ok(slices[0].at - slices[0].seconds >= 1_000_000 - seconds);
  }
});
