// What a key gives away ends with it and draws on its budget, and a narrow admin fills its own part of each table: the
// attacker is refused, not everybody.
import { beforeEach, afterEach, expect, test } from "vitest";
import { bearer, numbers } from "./calls.mjs";
import { each, openWorld } from "./world.mjs";

const OPS = "ops-key-0123456789-01";
const [ONE, TWO] = ["narrow-key-one-0123456", "narrow-key-two-0123456"];
const BOUND = "narrow-key-with-budget-0";
const LIMITS = "limits-key-0123456789-0";
const CONFIG = {
  keys: [
    { name: "ops", key: OPS, scopes: ["admin"], prefixes: ["", "limits/"] },
    { name: "one", key: ONE, scopes: ["admin"], prefix: "one/" },
    { name: "two", key: TWO, scopes: ["admin"], prefix: "two/" },
    { name: "bound", key: BOUND, scopes: ["admin"], prefix: "bound/", rate_per_minute: 20 },
    { name: "limits", key: LIMITS, scopes: ["admin"], prefix: "limits/one-" },
  ],
};
// A tenth of each table, as crates/tally-wire/src/rights/gift.rs says.
const SHARES_OF_ACCOUNT = 100;
const KEYS_OF_ACCOUNT = 1_000;
const POLICIES_OF_ACCOUNT = 1_000;
const ALERTS_OF_ACCOUNT = 12;
const PARTITIONS = 16;
const KEY_DEPTH = 8;
// What an isolate goes by what it knows.
const REVOKED_MS = 30_000;
const SHARE_REVOKED_MS = 60_000;

let world;
beforeEach(async () => {
  world = await openWorld({ vars: { TALLY_ACCESS: undefined, TALLY_KEYS: JSON.stringify(CONFIG) }, edges: 2 });
});
afterEach(() => world.close());

const send = (method, path, key, body, more = {}) =>
  world.call(method, path, bearer(key, { body: body && JSON.stringify(body), ...more }));
const well = async (...call) => {
  const answer = await send(...call);
  expect(answer.status, `${JSON.stringify(call)}: ${answer.text}`).toBeLessThan(300);
  return answer.json;
};
const status = async (...call) => (await send(...call)).status;
const make = (key, body) => well("POST", "/keys", key, { name: "made", scopes: ["admin"], ...body });
const share = (key, prefix, more = {}) => send("POST", "/shares", key, { prefix, ...more });
const ALERT = {
  webhook: "https://hooks.example.com/a", secret: `whsec_${"A".repeat(32)}`, when: { value: { above: 5 } },
};
const alert = (key, name, counter) => send("PUT", `/alerts/${name}`, key, { ...ALERT, counter });
const hit = (key, id) => status("POST", `/counters/${encodeURIComponent(id)}/increment`, key);

/** Returns how many there are of each status. */
function tally(codes) {
  const counts = {};
  for (const code of codes) counts[code] = (counts[code] ?? 0) + 1;
  return counts;
}

/** Sends so many calls of an attacker, and counts their statuses. */
const flood = async (count, call) => tally((await each(numbers(count), 50, call)).map((answer) => answer.status));

test("a narrow admin fills its part of the shares, and others make theirs", async () => {
  const made = await flood(SHARES_OF_ACCOUNT + 20, (index) => share(ONE, `one/${index}/`));
  expect(made).toEqual({ 201: SHARES_OF_ACCOUNT, 409: 20 });
  // Keys that it makes are no other part, whatever their prefixes are.
  const child = await make(ONE, { prefixes: ["one/a/"] });
  const refused = await share(child.key, "one/a/");
  expect([refused.status, refused.json.code]).toEqual([409, "too-many-shares"]);
  expect(refused.json.detail).toContain("at most 100 of the 1000 shares");
  expect((await share(TWO, "two/")).status).toBe(201);
  expect((await share(OPS, "one/")).status).toBe(201);
  // Who ends one makes another.
  const { entries: shares } = await well("GET", "/shares", ONE);
  await well("DELETE", `/shares/${shares[0].id}`, ONE);
  expect((await share(child.key, "one/a/")).status).toBe(201);
});

test("nine narrow admins leave a tenth of the shares to callers that administer everything", async () => {
  for (const tenant of numbers(10)) {
    const { key } = await make(OPS, { prefixes: [`t${tenant}/`] });
    const expected = tenant < 9 ? { 201: SHARES_OF_ACCOUNT } : { 409: SHARES_OF_ACCOUNT };
    expect(await flood(SHARES_OF_ACCOUNT, () => share(key, `t${tenant}/`))).toEqual(expected);
  }
  expect(await flood(SHARES_OF_ACCOUNT + 1, () => share(OPS, "a"))).toEqual({ 201: SHARES_OF_ACCOUNT, 409: 1 });
});

test("a narrow admin fills its part of the keys, and others make theirs", async () => {
  const one = (key) => send("POST", "/keys", key, { name: "made", scopes: ["read"], prefixes: ["one/"] });
  const child = await make(ONE, { prefixes: ["one/"] });
  const made = await flood(KEYS_OF_ACCOUNT + 50, (index) => one(index % 2 ? ONE : child.key));
  expect(made).toEqual({ 201: KEYS_OF_ACCOUNT - 1, 409: 51 });
  expect((await send("POST", "/keys", TWO, { name: "a", scopes: ["read"], prefixes: ["two/"] })).status).toBe(201);
  expect((await one(OPS)).status).toBe(201);
});

test("a narrow admin fills its part of the policies, and others make theirs", async () => {
  const put = (key, name) => send("PUT", `/limits/${name}`, key, { limit: 5, window_seconds: 60 });
  const made = await flood(POLICIES_OF_ACCOUNT + 50, (index) => put(LIMITS, `one-${index}`));
  expect(made).toEqual({ 201: POLICIES_OF_ACCOUNT, 409: 50 });
  expect((await put(OPS, "two")).status).toBe(201);
  // It still changes those that are there.
  expect((await put(LIMITS, "one-7")).status).toBe(200);
});

test("a narrow admin fills its part of the alerts of each partition, and others put theirs", async () => {
  const most = ALERTS_OF_ACCOUNT * PARTITIONS;
  const made = await flood(600, (index) => alert(ONE, `one-${index}`, "one/a"));
  expect(made).toEqual({ 201: most, 409: 600 - most });
  expect(await flood(40, (index) => alert(TWO, `two-${index}`, "two/a"))).toEqual({ 201: 40 });
  expect(await flood(40, (index) => alert(OPS, `ops-${index}`, "one/a"))).toEqual({ 201: 40 });
  // Putting over what others put is no way around it.
  const over = await flood(40, (index) => alert(ONE, `ops-${index}`, "one/a"));
  expect(over).toEqual({ 409: 40 });
});

test("what a key gives away ends with it: keys to any depth, shares and alerts", async () => {
  const parent = await make(OPS, { prefixes: ["p/"], expires_in_seconds: 600 });
  const child = await make(parent.key, { prefixes: ["p/"], expires_at: new Date(parent.expires_at).toISOString() });
  const grandchild = await make(child.key, { prefixes: ["p/"], expires_at: new Date(parent.expires_at).toISOString() });
  for (const { key } of [parent, child, grandchild]) {
    const made = (await share(key, "p/")).json;
    expect(made.expires_at).toBe(parent.expires_at);
    expect((await share(key, "p/", { expires_in_seconds: 3_600 })).status).toBe(403);
    expect((await alert(key, `of-${key.slice(6, 22)}`, "p/a")).status).toBe(201);
  }
  expect((await alert(OPS, "of-ops", "p/a")).status).toBe(201);
  // The end of the parent comes nearer, and with it that of all that it gave.
  const sooner = new Date(world.now() + 120_000).toISOString();
  await well("PATCH", `/keys/${parent.id}`, OPS, { expires_at: sooner });
  const { token } = (await share(grandchild.key, "p/")).json;
  expect(await status("GET", "/counters?prefix=p%2F", token)).toBe(200);
  await world.advance(120_000 + 60_000);
  for (const key of [parent.key, child.key, grandchild.key, token]) {
    expect(await status("GET", "/counters?prefix=p%2F", key)).toBe(401);
  }
  await world.advance(60_000);
  expect((await well("GET", "/shares", OPS)).entries).toEqual([]);
  expect((await well("GET", "/alerts", OPS)).entries.map(({ alert }) => alert)).toEqual(["of-ops"]);
});

test("revoking a key says what else falls, and all of it does, in every isolate", async () => {
  const parent = await make(OPS, { name: "parent", prefixes: ["p/"] });
  const child = await make(parent.key, { name: "child", prefixes: ["p/"] });
  const grandchild = await make(child.key, { name: "grandchild", prefixes: ["p/a/"], scopes: ["read", "admin"] });
  const sibling = await make(OPS, { name: "sibling", prefixes: ["p/"] });
  const mine = (await share(grandchild.key, "p/a/")).json;
  const other = (await share(sibling.key, "p/a/")).json;
  await alert(child.key, "mine", "p/a");
  await alert(sibling.key, "other", "p/a");
  for (const edge of [0, 1]) {
    for (const key of [child.key, grandchild.key, mine.token]) {
      expect(await status("GET", "/counters?prefix=p%2Fa%2F", key, undefined, { edge })).toBe(200);
    }
  }
  const revoked = await well("DELETE", `/keys/${parent.id}`, OPS);
  expect(revoked).toEqual({
    id: parent.id, status: "revoked",
    also: {
      keys: [{ id: child.id, name: "child" }, { id: grandchild.id, name: "grandchild" }],
      shares: [{ id: mine.id, prefix: "p/a/" }],
      alerts: ["mine"],
    },
  });
  for (const key of [child.key, grandchild.key, mine.token]) {
    expect(await status("GET", "/counters?prefix=p%2Fa%2F", key)).toBe(401);
  }
  // An isolate that has not heard of it makes nothing by it.
  for (const key of [child.key, grandchild.key]) {
    expect((await share(key, "p/a/")).status).toBe(401);
    const late = { name: "late", scopes: ["read"], prefixes: ["p/a/"] };
    expect(await status("POST", "/keys", key, late, { edge: 1 })).toBe(401);
    expect((await send("POST", "/shares", key, { prefix: "p/a/" }, { edge: 1 })).status).toBe(401);
  }
  await world.advance(Math.max(REVOKED_MS, SHARE_REVOKED_MS) + 1);
  for (const key of [child.key, grandchild.key, mine.token]) {
    expect(await status("GET", "/counters?prefix=p%2Fa%2F", key, undefined, { edge: 1 })).toBe(401);
  }
  expect(await status("GET", "/counters?prefix=p%2Fa%2F", other.token)).toBe(200);
  expect((await well("GET", "/alerts", OPS)).entries.map(({ alert }) => alert)).toEqual(["other"]);
  expect((await well("GET", "/keys", OPS)).entries.map(({ id }) => id)).toEqual([sibling.id]);
  expect((await well("DELETE", `/keys/${sibling.id}`, OPS)).also).toMatchObject({ keys: [], alerts: ["other"] });
});

test("keys are made by keys to a depth that is named", async () => {
  let { key } = await make(OPS, { prefixes: ["p/"] });
  for (const _ of numbers(KEY_DEPTH - 1)) ({ key } = await make(key, { prefixes: ["p/"] }));
  const refused = await send("POST", "/keys", key, { name: "deeper", scopes: ["read"], prefixes: ["p/"] });
  expect([refused.status, refused.json.code]).toEqual([403, "forbidden"]);
  expect(refused.json.detail).toContain(`${KEY_DEPTH}th`);
  expect((await share(key, "p/")).status).toBe(201);
});

test("what a key gives away draws on its budget, to any depth", async () => {
  const parent = await make(OPS, { prefixes: ["p/"], rate_per_minute: 30 });
  const child = await make(parent.key, { prefixes: ["p/"], rate_per_minute: 30 });
  const grandchild = await make(child.key, { prefixes: ["p/"], rate_per_minute: 30 });
  const { token } = (await share(grandchild.key, "p/")).json;
  const callers = [child.key, grandchild.key, token, parent.key];
  const statuses = [];
  for (const index of numbers(60)) statuses.push(await status("GET", "/counters/p%2Fa", callers[index % 4]));
  // Three calls made the keys and the share.
  expect(tally(statuses)).toEqual({ 404: 27, 429: 33 });
  expect(await status("GET", "/counters/p%2Fa", OPS)).toBe(404);
});

test("what a key of the configuration gives away draws on its budget too", async () => {
  const child = await make(BOUND, { prefixes: ["bound/"], rate_per_minute: 20 });
  const { token } = (await share(BOUND, "bound/")).json;
  const statuses = [];
  const callers = [child.key, token, BOUND];
  for (const index of numbers(40)) statuses.push(await status("GET", "/counters/bound%2Fa", callers[index % 3]));
  expect(tally(statuses)).toEqual({ 404: 18, 429: 22 });
});

test("a body of a child that its parent's budget refuses counts nothing and uses nothing", async () => {
  const parent = await make(OPS, { prefixes: ["p/"], rate_per_minute: 20 });
  const child = await make(parent.key, { scopes: ["write"], prefixes: ["p/"], rate_per_minute: 20 });
  for (const _ of numbers(10)) expect(await hit(parent.key, "p/a")).toBe(200);
  const lines = numbers(15).map(() => '{"id":"p/a"}').join("\n");
  expect((await world.call("POST", "/events", bearer(child.key, { body: lines }))).status).toBe(429);
  for (const _ of numbers(9)) expect(await hit(child.key, "p/a")).toBe(200);
  expect(await hit(child.key, "p/a")).toBe(429);
  expect(await well("GET", "/counters/p%2Fa?consistency=strong", OPS)).toMatchObject({ value: 19 });
});

test("a key does no more than what the key above it may, also after that is changed", async () => {
  const parent = await make(OPS, { prefixes: ["p/", "q/"] });
  const child = await make(parent.key, { prefixes: ["p/", "q/a/"] });
  const { token } = (await share(child.key, "q/a/")).json;
  await alert(child.key, "on-p", "p/a");
  await alert(child.key, "on-q", "q/a/1");
  await well("PATCH", `/keys/${parent.id}`, OPS, { prefixes: ["p/x/"] });
  await world.advance(2 * SHARE_REVOKED_MS + 1);
  expect(await hit(child.key, "p/x/1")).toBe(200);
  for (const id of ["p/a", "q/a/1", "q/b"]) expect(await hit(child.key, id)).toBe(403);
  expect(await status("GET", "/counters?prefix=q%2Fa%2F", token)).toBe(401);
  expect((await well("GET", "/alerts", OPS)).entries).toEqual([]);
  await well("PATCH", `/keys/${parent.id}`, OPS, { scopes: ["read", "write"] });
  await world.advance(REVOKED_MS + 1);
  expect(await hit(child.key, "p/x/1")).toBe(403);
});

test("a key has no new secret of another that is not below it, and so does not outlive itself", async () => {
  const other = await make(OPS, { name: "other", prefixes: ["p/"] });
  const mine = await make(OPS, { name: "mine", prefixes: ["p/"] });
  const below = await make(mine.key, { name: "below", prefixes: ["p/"] });
  const rotate = (key, { id }) => send("POST", `/keys/${id}/rotate`, key, {});
  const refused = await rotate(mine.key, other);
  expect([refused.status, refused.json.code]).toEqual([403, "forbidden"]);
  expect((await rotate(below.key, mine)).status).toBe(403);
  expect((await rotate(mine.key, below)).status).toBe(200);
  expect((await rotate(mine.key, mine)).status).toBe(200);
  expect((await rotate(OPS, other)).status).toBe(200);
  // Nor by a key of the configuration with a budget.
  const bound = await make(OPS, { prefixes: ["bound/"], rate_per_minute: 20 });
  expect((await rotate(BOUND, bound)).status).toBe(403);
});

test("a key gets the tokens of the shares below it, and of no others", async () => {
  const { id, token } = (await share(OPS, "one/")).json;
  const made = await make(ONE, { prefixes: ["one/"] });
  const own = (await share(made.key, "one/a/")).json;
  const seen = (one) => [one.id, one.token, one.url !== undefined];
  const tokens = async (key) => (await well("GET", "/shares", key)).entries.map(seen);
  expect(await tokens(made.key)).toEqual([[id, undefined, false], [own.id, own.token, true]]);
  expect((await tokens(OPS)).sort()).toEqual([[id, token, true], [own.id, own.token, true]].sort());
});

test("a change gives a key that is not below the caller nothing more, and may take from it", async () => {
  const reader = await make(OPS, { scopes: ["read"], prefixes: ["one/r/"], rate_per_minute: 30 });
  const narrow = await make(OPS, { prefixes: ["one/"] });
  const change = (body) => status("PATCH", `/keys/${reader.id}`, narrow.key, body);
  for (const more of [
    { scopes: ["admin"] }, { prefixes: ["one/"] }, { rate_per_minute: null }, { rate_per_minute: 31 },
  ]) {
    expect(await change(more), JSON.stringify(more)).toBe(403);
  }
  expect(await change({ prefixes: ["one/r/a/"], rate_per_minute: 10 })).toBe(200);
  const child = await make(narrow.key, { scopes: ["read"], prefixes: ["one/r/"] });
  expect(await status("PATCH", `/keys/${child.id}`, narrow.key, { prefixes: ["one/"] })).toBe(200);
});

test("the alert of another says nothing of what it watches", async () => {
  await alert(ONE, "orders", "one/secret-customer");
  for (const [method, path] of [
    ["GET", "/alerts/orders"], ["DELETE", "/alerts/orders"], ["GET", "/alerts/orders/deliveries"], ["POST", "/alerts/orders/test"],
  ]) {
    const answer = await send(method, path, TWO);
    expect([answer.status, answer.json.code], path).toEqual([404, "alert-not-found"]);
  }
  const taken = await alert(TWO, "orders", "two/a");
  expect(taken.status).toBe(403);
  expect(taken.text).not.toContain("secret-customer");
});

test("what a change takes from a key it takes from the key's shares at once", async () => {
  const giver = await make(OPS, { prefixes: ["one/", "two/"] });
  await hit(OPS, "two/x");
  const { token } = (await share(giver.key, "two/")).json;
  expect(await status("GET", "/counters/two%2Fx", token)).toBe(200);
  await well("PATCH", `/keys/${giver.id}`, OPS, { prefixes: ["one/"] });
  expect(await status("GET", "/counters/two%2Fx", token)).toBe(401);
});

test("a key changes and revokes no key above it, though it administers all that the key may do", async () => {
  const grandparent = await make(OPS, { prefixes: ["p/"] });
  const parent = await make(grandparent.key, { prefixes: ["p/"] });
  const child = await make(parent.key, { prefixes: ["p/"] });
  for (const { id } of [parent, grandparent]) {
    for (const [method, path, body] of [
      ["DELETE", `/keys/${id}`], ["PATCH", `/keys/${id}`, { name: "mine" }], ["PATCH", `/keys/${id}`, { scopes: ["read"] }],
      ["PATCH", `/keys/${id}`, { expires_in_seconds: 60 }], ["POST", `/keys/${id}/rotate`, {}],
    ]) {
      const refused = await send(method, path, child.key, body);
      expect([refused.status, refused.json.code], `${method} ${path}`).toEqual([403, "forbidden"]);
    }
    expect((await send("DELETE", `/keys/${id}`, child.key)).json.detail).toContain(id);
  }
  expect(await status("PATCH", `/keys/${child.id}`, child.key, { name: "own" })).toBe(200);
  expect(await status("DELETE", `/keys/${child.id}`, parent.key)).toBe(200);
  expect(await status("DELETE", `/keys/${parent.id}`, grandparent.key)).toBe(200);
});

test("a key that lost all prefixes is ended by those above it, and by no other narrow key", async () => {
  const parent = await make(OPS, { prefixes: ["p/", "q/"] });
  const child = await make(parent.key, { prefixes: ["q/"] });
  await well("PATCH", `/keys/${parent.id}`, OPS, { prefixes: ["p/"] });
  for (const [method, path, body] of [
    ["GET", `/keys/${child.id}`], ["DELETE", `/keys/${child.id}`], ["PATCH", `/keys/${child.id}`, { name: "x" }],
    ["POST", `/keys/${child.id}/rotate`, {}],
  ]) {
    expect(await status(method, path, ONE, body), method).toBe(404);
  }
  expect(await status("DELETE", `/keys/${child.id}`, parent.key)).toBe(200);
});

test("a key or a share of another says nothing of its prefix, and not that it is there", async () => {
  const key = await make(OPS, { prefixes: ["two/secret-customer/"] });
  const { id } = (await share(OPS, "two/secret-customer/")).json;
  for (const [method, path, code, body] of [
    ["GET", `/keys/${key.id}`, "key-not-found"], ["DELETE", `/keys/${key.id}`, "key-not-found"],
    ["PATCH", `/keys/${key.id}`, "key-not-found", {}], ["POST", `/keys/${key.id}/rotate`, "key-not-found", {}],
    ["DELETE", `/shares/${id}`, "share-not-found"],
  ]) {
    const refused = await send(method, path, ONE, body);
    expect([refused.status, refused.json.code], `${method} ${path}`).toEqual([404, code]);
    const without = await send(method, path.replace(/[0-9a-f]{16}/, "0123456789abcdef"), ONE, body);
    expect(refused.json.detail).toBe(without.json.detail);
  }
});

test("a list of keys is filtered before its pages are cut, so its cursor is a key of the caller", async () => {
  const own = new Set();
  for (const number of numbers(24)) {
    const made = await make(OPS, { prefixes: [number % 4 ? "two/" : "one/"] });
    if (number % 4 === 0) own.add(made.id);
  }
  const seen = [];
  let cursor = null;
  do {
    const page = await well("GET", `/keys?limit=2${cursor ? `&cursor=${cursor}` : ""}`, ONE);
    expect(page.entries.length).toBe(2);
    seen.push(...page.entries.map(({ id }) => id));
    cursor = page.cursor;
    if (cursor) expect(own).toContain(cursor);
  } while (cursor);
  expect(new Set(seen)).toEqual(own);
});

test("a revocation names nothing of what fell that its caller does not administer", async () => {
  const once = await make(OPS, { prefixes: ["one/", "two/"] });
  const below = await make(once.key, { name: "secret-customer", prefixes: ["two/"] });
  const mine = await make(once.key, { name: "mine", prefixes: ["one/a/"] });
  await share(once.key, "two/secret-customer/");
  await alert(once.key, "secret-customer", "two/a");
  await alert(once.key, "mine", "one/a");
  await well("PATCH", `/keys/${once.id}`, OPS, { prefixes: ["one/"] });
  const revoked = await send("DELETE", `/keys/${once.id}`, ONE);
  expect(revoked.text).not.toContain("secret-customer");
  expect(revoked.json.also).toEqual({ keys: [{ id: mine.id, name: "mine" }], shares: [], alerts: ["mine"] });
  // It fell all the same.
  expect(await status("GET", "/counters?prefix=two%2F", below.key)).toBe(401);
  expect((await well("GET", "/shares", OPS)).entries).toEqual([]);
  expect((await well("GET", "/alerts", OPS)).entries).toEqual([]);
});
