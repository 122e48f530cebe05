// Which sets of features are compiled, and what makes them enough.
import assert from "node:assert/strict";
import { test } from "node:test";
import { featureSets, features, gatesAmiss, otherGates, withNeeds } from "./features.mjs";

const known = features();
const names = [...known.keys()];

// All choices of features, each with what they need.
const choices = Array.from({ length: 2 ** names.length }, (_, bits) =>
  withNeeds(names.filter((_, place) => (bits >> place) & 1), known),
);

test("where a choice of features lacks one, some set that is compiled has that choice and lacks that one", () => {
  const sets = featureSets(known);
  for (const choice of choices) {
    for (const absent of names.filter((name) => !choice.includes(name))) {
      const shows = (set) => !set.includes(absent) && choice.every((name) => set.includes(name));
      assert.ok(sets.some(shows), `${choice} without ${absent}`);
    }
  }
  assert.ok(sets.some((set) => set.length === 0));
  for (const set of sets) assert.deepEqual(withNeeds(set, known).sort(), [...set].sort());
});

test("every gate of the crates names one feature, or all of several", () => {
  assert.deepEqual(gatesAmiss(), []);
});

test("a gate that turns code off with a feature is found, and one of any of several", () => {
  const source = [
    '#[cfg(feature = "limits")]', '#[cfg(all(feature = "limits", feature = "boards"))]', '#[cfg(feature = "std")]',
    '#[cfg(not(feature = "limits"))]', '#[cfg(any(feature = "limits", feature = "boards"))]',
    '#[cfg(all(test, feature = "boards"))]', '#[cfg_attr(not(feature = "live"), path = "other.rs")]',
    '#[cfg_attr(not(feature = "live"), expect(unused))]', 'let is_built = cfg!(feature = "pages");',
  ].join("\n");
  assert.deepEqual(otherGates(source, known).map((found) => found.split(":")[0]), ["4", "5", "6", "7"]);
});
