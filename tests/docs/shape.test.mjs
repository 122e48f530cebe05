// What counts as the same answer, and what does not.
import assert from "node:assert/strict";
import { test } from "node:test";
import { differences } from "./shape.mjs";

const same = (expected, actual) => assert.deepEqual(differences(expected, actual), []);
const differs = (expected, actual, what) => assert.match(differences(expected, actual).join("; "), what);

test("numbers, truth values, versions and digits in texts may differ", () => {
  same('{"value":1,"exact":true,"version":"AQ"}', '{"version":"BB","exact":false,"value":12}');
  same('{"detail":"wait 12 s"}', '{"detail":"wait 3 s"}');
});

test("a field that is missing, new, or of another type is told", () => {
  differs('{"a":1}', "{}", /\.a is on the page and was not printed/);
  differs("{}", '{"a":1}', /\.a was printed and is not on the page/);
  differs('{"a":{"b":1}}', '{"a":{"b":"1"}}', /a\.b: the page shows number/);
  differs('{"a":null}', '{"a":1}', /null/);
  differs('{"code":"x"}', '{"code":"y"}', /code/);
  differs("[1,2]", "[1]", /2 entries/);
});

test("what a page leaves out is not compared", () => {
  same('{"a":1, …}', '{"a":2,"b":3}');
  same('{"points":[[1,2], …]}', '{"points":[[3,4],[5,null]]}');
  same("[ … ]", "[1,2]");
  differs('{"a":1, …}', '{"b":3}', /\.a is on the page/);
});

test("answers that follow each other are compared one by one, however they are laid out", () => {
  same('{\n  "a": 1\n}\n{"b":2}', '{"a":1}{"b":2}\n');
  differs('{"a":1}', '{"a":1}{"b":2}', /not on the page/);
  differs('{"a":1}\n{"b":2}', '{"a":1}', /nothing was printed/);
});

test("lines are compared but for digits, and a line of its own stands for any number of them", () => {
  same("tally_total 23", "tally_total 7");
  same("HTTP/1.1 200 OK\n…\nratelimit: 5", "HTTP/1.1 200 OK\ndate: x\nserver: y\nratelimit: 6");
  same("first\n…", "first\nsecond\nthird");
  same("id: 3a9a7f21bfa570f5", "id: 0123456789abcdef");
  differs("tally_total 23", "tally_other 23", /tally_other/);
  differs("one", "one\ntwo", /two/);
  same('data: {"a":1}', 'data: {"a":2}');
  differs('data: {"a":1}', 'data: {"a":2,"b":3}', /\.b was printed/);
});
