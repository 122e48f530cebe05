// Which sets of features are compiled, and what makes them enough.
import assert from "node:assert/strict";
import { test } from "node:test";
import { featureSets, features, gatesAmiss, otherGates, withNeeds } from "./features.mjs";

const known = features();
const names = [...known.keys()];

test("of each feature and each that it does not need, some set that is compiled has the first without the second", () => {
  const sets = featureSets(known);
  for (const there of names) {
    for (const absent of names.filter((name) => !withNeeds([there], known).includes(name))) {
      assert.ok(sets.some((set) => set.includes(there) && !set.includes(absent)), `${there} without ${absent}`);
    }
  }
  assert.ok(sets.some((set) => set.length === 0));
  for (const set of sets) assert.deepEqual(withNeeds(set, known).sort(), [...set].sort());
  assert.equal(sets.length, 6);
});

test("every gate of the crates names one feature, and stands in no other's room", () => {
  assert.deepEqual(gatesAmiss(), []);
});

test("a gate that does otherwise than to have an item with one feature is found", () => {
  const source = [
    '#[cfg(feature = "limits")]', "mod a;", '#[cfg(all(feature = "limits", feature = "boards"))]', "mod b;",
    '#[cfg(feature = "std")]', "mod c;", '#[cfg(not(feature = "limits"))]', "mod d;",
    '#[cfg(any(feature = "limits", feature = "boards"))]', "mod e;", '#[cfg(all(test, feature = "boards"))]', "mod f;",
    '#[cfg_attr(not(feature = "live"), path = "other.rs")]', '#[cfg_attr(not(feature = "live"), expect(unused))]',
    "mod g;", 'let is_built = cfg!(feature = "pages");',
  ].join("\n");
  assert.deepEqual(otherGates(source, known).map((found) => found.split(":")[0]), ["3", "7", "9", "11", "13"]);
});

test("a gate within the item of another is found, and one behind it is not", () => {
  const source = [
    '#[cfg(feature = "limits")]', "fn one() {", '    #[cfg(feature = "boards")]', "    two();", "}",
    '#[cfg(feature = "boards")]', "mod a;", '#[cfg(feature = "boards")]', "mod b;",
  ].join("\n");
  assert.deepEqual(otherGates(source, known), ['3: #[cfg(feature = "boards")]']);
});
