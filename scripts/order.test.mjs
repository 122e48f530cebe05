// `bindgen order`, on modules that are made by hand.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

const BINDGEN = join(import.meta.dirname, "../.tools/bin/bindgen");
const [I32, FUNCREF, FUNCTION] = [0x7f, 0x70, 0x60];
const CALL = 0x10;
const constant = (number) => [0x41, number];

// Lengths here are below 2^14, and of all but the names below 2^7.
const length = (number) => (number < 128 ? [number] : [(number & 127) | 128, number >> 7]);
const sized = (bytes) => [...length(bytes.length), ...bytes];
const list = (items) => [items.length, ...items.flat()];
const text = (string) => sized([...Buffer.from(string)]);
const section = (kind, bytes) => [kind, ...sized(bytes)];

// Returns a module that imports one function; its own have a name, a type (0: none → i32, 1: i32 → i32) and a code.
// All are exported by their place, and are the slots of table "slots" in this order.
function moduleOf(functions) {
  const own = functions.map((_, place) => place + 1);
  const names = list(functions.map(({ name }, place) => [place + 1, ...text(name)]));
  return Buffer.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, list([[FUNCTION, 0, 1, I32], [FUNCTION, 1, I32, 1, I32]])),
    ...section(2, list([[...text("host"), ...text("ten"), 0, 0]])),
    ...section(3, list(functions.map(({ type }) => [type]))),
    ...section(4, list([[FUNCREF, 0, own.length]])),
    ...section(7, list([...own.map((index) => [...text(`f${index - 1}`), 0, index]), [...text("slots"), 1, 0]])),
    ...section(9, list([[0, ...constant(0), 0x0b, ...list(own.map((index) => [index]))]])),
    ...section(10, list(functions.map(({ code }) => sized([0, ...code, 0x0b])))),
    ...section(0, [...text("name"), 1, ...sized(names)]),
  ]);
}

function ordered(module) {
  const folder = mkdtempSync(join(tmpdir(), "tally-order-"));
  try {
    const [from, to] = [join(folder, "from.wasm"), join(folder, "to.wasm")];
    writeFileSync(from, module);
    execFileSync(BINDGEN, ["order", from, to]);
    return readFileSync(to);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const IMPORTS = { host: { ten: () => 10 } };
const started = (module) => new WebAssembly.Instance(new WebAssembly.Module(module), IMPORTS).exports;

// Returns what each export and each slot of a module gives.
function results(module) {
  const { slots, ...functions } = started(module);
  const places = Object.keys(functions).sort();
  return { exported: places.map((name) => functions[name](5)), slots: places.map((_, slot) => slots.get(slot)(5)) };
}

// Returns how many functions of its own a module has.
function ownCount(module) {
  for (let at = 8; at < module.length; at += 2 + module[at + 1]) if (module[at] === 10) return module[at + 2];
  return 0;
}

const FUNCTIONS = [
  { name: "zebra::h0000000000000001", type: 0, code: [...constant(1)] },
  { name: "<b::B as t::Trait>::give::h0000000000000002", type: 0, code: [CALL, 1, CALL, 4, 0x6a] },
  { name: "middle::h0000000000000003", type: 0, code: [CALL, 0] },
  { name: "ant::h0000000000000004", type: 0, code: [...constant(3)] },
  { name: "<a::A as t::Trait>::give::h0000000000000005", type: 0, code: [...constant(40)] },
  { name: "add::h0000000000000006", type: 1, code: [0x20, 0, CALL, 1, 0x6a] },
];

test("a module whose functions are sorted gives what it gave, by its exports and by the slots of its table", () => {
  const module = moduleOf(FUNCTIONS);
  const sorted = ordered(module);
  assert.deepEqual(results(module), { exported: [1, 4, 10, 3, 40, 6], slots: [1, 4, 10, 3, 40, 6] });
  assert.deepEqual(results(sorted), results(module));
});

test("functions are sorted by their names, and those of a trait by the trait", () => {
  const sorted = ordered(moduleOf(FUNCTIONS)).toString("latin1");
  const order = ["add::", "ant::", "middle::", "<a::A as t::Trait>::give", "<b::B as t::Trait>::give", "zebra::"];
  const places = order.map((name) => sorted.indexOf(name));
  assert.ok(places.every((place) => place > 0), `${places}`);
  assert.deepEqual(places, places.toSorted((a, b) => a - b));
});

test("one of equal functions is kept, also of those that call equal functions, and none of another type", () => {
  const module = moduleOf([
    { name: "a", type: 0, code: [...constant(7)] },
    { name: "b", type: 0, code: [...constant(7)] },
    { name: "calls a", type: 0, code: [CALL, 1] },
    { name: "calls b", type: 0, code: [CALL, 2] },
    { name: "takes a number", type: 1, code: [...constant(7)] },
    { name: "calls ten", type: 0, code: [CALL, 0] },
  ]);
  const sorted = ordered(module);
  assert.equal(ownCount(module), 6);
  assert.equal(ownCount(sorted), 4);
  assert.deepEqual(results(sorted), results(module));
  const { slots } = started(sorted);
  assert.equal(slots.length, 6, "each slot stays, so what compares slots sees no difference");
});

test("the order does not change when it is sorted again", () => {
  const sorted = ordered(moduleOf(FUNCTIONS));
  assert.ok(sorted.equals(ordered(sorted)));
});

test("what is no module is refused by name", () => {
  assert.throws(() => ordered(Buffer.from("not wasm")), /from\.wasm/u);
});
