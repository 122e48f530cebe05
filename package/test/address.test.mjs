// Addresses of clients: one key for all spellings, in JavaScript as everywhere.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { clientAddress, clientKey } from "../client/address.ts";

const CASES = JSON.parse(readFileSync(new URL("../../tests/fixtures/addresses.json", import.meta.url), "utf8"));

test("every spelling of an address has one address and one key, and what is no address has none", () => {
  for (const { input, address, key } of CASES) {
    assert.deepEqual([clientAddress(input) ?? null, clientKey(input) ?? null], [address, key], JSON.stringify(input));
  }
  for (const value of [undefined, null, 7, {}, [], "\ud800"]) assert.equal(clientKey(value), undefined);
});

test("an IPv6 key has as many bits as its prefix says, and another number is refused by name", () => {
  const address = "2001:db8:1234:5678:9abc:def0:1234:5678";
  const keys = [
    [32, "2001:db8::"], [48, "2001:db8:1234::"], [56, "2001:db8:1234:5600::"], [128, address], [127, address],
  ];
  for (const [ipv6Prefix, key] of keys) assert.equal(clientKey(address, { ipv6Prefix }), key);
  assert.equal(clientKey("203.0.113.9", { ipv6Prefix: 32 }), "203.0.113.9");
  for (const ipv6Prefix of [0, 129, 64.5, "64", null, NaN]) {
    assert.throws(() => clientKey(address, { ipv6Prefix }), { name: "RangeError", message: /^`ipv6Prefix` is / });
  }
});
