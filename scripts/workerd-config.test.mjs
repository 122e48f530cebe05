// What workerd connects to by TALLY_ALERTS_ALLOW: a real one, asked to call a server of this machine by its addresses
// and names.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, test } from "node:test";
import { callerOf } from "./workerd-caller.mjs";
import { networksOf } from "./workerd-config.mjs";

const WITHIN = { timeout: 60_000 };
// Servers of this test alone, on all addresses of this machine.
const seen = [];
const receiver = createServer((request, answer) => {
  seen.push(request.headers.host);
  answer.end("inside");
}).listen(0);
await once(receiver, "listening");
const { port } = receiver.address();
after(() => receiver.close());

// Resolves to a function that says whether a host of this machine was reached.
async function caller(context, setting) {
  const call = await callerOf(context, setting);
  return async (by, host) => {
    const before = seen.length;
    const isReached = (await call(by, `http://${host}:${port}/`)) === "inside";
    assert.equal(seen.length - before, isReached ? 1 : 0, `${by} ${host}`);
    return isReached;
  };
}

// All of them lead to this machine.
const SPELLINGS = [
  "127.0.0.1", "127.0.0.2", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]",
  "2130706433", "0x7f.1", "0177.0.0.1", "127.1",
];

test("without a setting nothing of this machine is reached, in any spelling", WITHIN, async (context) => {
  const reaches = await caller(context, undefined);
  for (const host of SPELLINGS) assert.equal(await reaches("fetch", host), false, host);
});

test("an address that is named is reached, and no other", WITHIN, async (context) => {
  const reaches = await caller(context, '["127.0.0.1"]');
  assert.equal(await reaches("fetch", "127.0.0.1"), true);
  assert.equal(await reaches("fetch", "127.0.0.2"), false);
  assert.equal(await reaches("fetch", "[::1]"), false);
});

test("a name that is named opens inner networks to that name alone, and this machine to its own names", WITHIN, async (context) => {
  const local = await caller(context, '["localhost"]');
  assert.equal(await local("named", "localhost"), true);
  for (const host of SPELLINGS) assert.equal(await local("fetch", host), false, host);
  const other = await caller(context, '["hooks.corp","*.svc.internal"]');
  for (const host of SPELLINGS) assert.equal(await other("named", host), false, host);
  for (const host of SPELLINGS) assert.equal(await other("fetch", host), false, host);
});

test("metadata addresses are denied, but those that are named as they are", () => {
  const denied = (setting) => networksOf(JSON.stringify(setting)).internet.deny;
  for (const setting of [[], ["hooks.corp"], ["10.0.0.0/8"], ["0.0.0.0/0", "::/0"], ["100.64.0.0/10"], ["fd00::/8"]]) {
    for (const network of ["169.254.0.0/16", "100.100.100.200/32", "fd00:ec2::254/128", "fe80::/10"]) {
      assert.ok(denied(setting).includes(network), `${setting} ${network}`);
    }
  }
  assert.ok(!denied(["100.100.100.200"]).includes("100.100.100.200/32"));
  assert.ok(!denied(["169.254.0.0/16"]).includes("169.254.0.0/16"));
  assert.ok(denied(["169.254.170.2"]).includes("169.254.0.0/16"), "workerd goes by the narrower one");
  assert.ok(denied([]).includes("64:ff9b::/96"));
  assert.ok(!denied(["::/0"]).includes("64:ff9b::/96"), "what is allowed there is a network");
  assert.deepEqual(networksOf("[").named, undefined);
  assert.deepEqual(networksOf('{"a":1}').internet.allow, ["public"]);
});
