// What an address may have done without a key, over all counters: its budgets hold for it, whatever it sends, and for
// nobody else.
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { numbers } from "./calls.mjs";
import { connect, watch } from "./live-client.mjs";
import { openWorld, until } from "./world.mjs";

// As crates/tally-core/src/callers/visitors.rs says.
const COUNTER_WRITES = 60;
const NEW_COUNTERS = 60;
const READ_CALLS = 6_000;
const UNION_MAX = 100;
// As crates/tally-api/src/live/mod.rs says.
const VISITOR_COUNTERS_MAX = 500;

const KEY = "admin-key-0123456789";
const ADMIN = { headers: { authorization: `Bearer ${KEY}` } };
const CONFIG = {
  keys: [{ key: KEY, scopes: ["admin"] }],
  public: [
    { origins: ["*"], scopes: ["read", "write"] },
    { origins: ["*"], scopes: ["write"], prefix: "limits/" },
  ],
};
let world;
beforeAll(async () => {
  world = await openWorld({ edges: 2, vars: { TALLY_ACCESS: undefined, TALLY_KEYS: JSON.stringify(CONFIG) } });
});
afterAll(() => world.close());

const from = (address, more = {}) => ({ headers: { "cf-connecting-ip": address, ...more } });
const lines = (keys) => keys.map((key) => JSON.stringify({ id: key })).join("\n");
const write = (id, options) => world.call("POST", `/counters/${encodeURIComponent(id)}/increment`, options);
const refusals = (report) => [...new Set(report.errors.map(({ code }) => code))];

test("a body creates as many counters as an address may, and one of 20,000 keys limits nobody else", async () => {
  const one = from("192.0.2.1");
  const some = await world.well("POST", "/events", {
    body: lines(numbers(3_000).map((index) => `new/${index}`)), ...one,
  });
  expect([some.accepted, refusals(some)]).toEqual([NEW_COUNTERS, ["quota-exceeded"]]);
  expect((await world.well("GET", "/counters/new*/aggregate", ADMIN)).counters).toBe(NEW_COUNTERS);
  const body = gzipSync(lines(numbers(20_000).map((index) => `fill/${index}`)));
  const more = await world.well("POST", "/events", {
    body, headers: { ...from("192.0.2.2").headers, "content-encoding": "gzip" },
  });
  expect(more.accepted).toBe(NEW_COUNTERS);
  // The limit of one counter is still there, for whom it was and for others.
  for (const address of ["192.0.2.2", "192.0.2.3"]) {
    const again = await world.well("POST", "/events", { body: lines(Array(200).fill("fill/0")), ...from(address) });
    expect(again.accepted).toBeLessThanOrEqual(COUNTER_WRITES + 1);
    expect(again.accepted).toBeGreaterThanOrEqual(COUNTER_WRITES - 1);
  }
  expect((await write("fresh/1", from("192.0.2.4"))).status).toBe(200);
  expect((await write("fresh/2", one)).status).toBe(429);
  expect((await write("new/0", one)).status, "a counter that is there").toBe(200);
});

test("counters that others have made cost an address nothing of its own", async () => {
  const ids = numbers(2 * NEW_COUNTERS).map((index) => `old/${index}`);
  await world.well("POST", "/events", { body: lines(ids), ...ADMIN });
  // The other isolate has never seen them; each is found to be there with its first write.
  const elsewhere = { edge: 1, clientIp: "192.0.2.20:4711" };
  for (const id of ids) expect((await write(id, elsewhere)).status).toBe(200);
});

test("lines and writes that are refused for another reason use nothing", async () => {
  const one = from("192.0.2.5");
  const bad = [
    ...Array(800).fill('{"id":"valid","delta":0}'), ...Array(800).fill('{"id":"valid","delta":2}'),
    ...Array(400).fill('{"id":""}'),
  ];
  const { json } = await world.refused(400, "invalid-delta", "POST", "/events", { body: bad.join("\n"), ...one });
  expect([json.accepted, json.rejected]).toEqual([0, 2_000]);
  for (let count = 0; count < 2 * COUNTER_WRITES; count += 1) {
    await world.refused(400, "invalid-delta", "POST", "/counters/valid/increment", { body: '{"delta":0}', ...one });
  }
  const good = await world.well("POST", "/events", { body: lines(Array(COUNTER_WRITES).fill("valid")), ...one });
  expect([good.accepted, good.rejected]).toEqual([COUNTER_WRITES, 0]);
});

test("all whose address nobody tells are one visitor, and are told how to change that", async () => {
  const hidden = (forwarded) => ({ edge: 1, clientIp: "127.0.0.1:4711", headers: { "x-forwarded-for": forwarded } });
  const body = lines(Array(COUNTER_WRITES).fill("hidden"));
  expect((await world.well("POST", "/events", { body, ...hidden("203.0.113.1") })).accepted).toBe(COUNTER_WRITES);
  // Refused where nothing was counted: the clock may have given one back.
  const { json: next } = await world.call("POST", "/events", { body, ...hidden("203.0.113.2") });
  expect(next.accepted).toBeLessThan(COUNTER_WRITES / 2);
  expect(next.errors[0].message ?? next.errors[0].detail).toContain("TALLY_CLIENT_ADDRESS_HEADER");
  const unreadable = await world.call("POST", "/events", { body, ...hidden("unknown") });
  expect(unreadable.json.accepted).toBeLessThan(COUNTER_WRITES / 2);
});

test("reads are paid for by the calls that they need", async () => {
  // That there is none is remembered for a second: each is asked for once.
  const union = (count) => `/uniques?${numbers(UNION_MAX).map((index) => `id=none/${count}/${index}`).join("&")}`;
  const one = from("192.0.2.6");
  // A root each; 100 calls come back a second.
  let refused;
  for (let count = 0; count < (2 * READ_CALLS) / UNION_MAX && refused === undefined; count += 1) {
    const answer = await world.call("GET", union(count), one);
    if (answer.status !== 404) refused = answer;
  }
  expect([refused?.status, refused?.json.code]).toEqual([429, "quota-exceeded"]);
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  expect(refused.json.detail).toContain("calls to objects");
  expect((await world.call("GET", union("other"), from("192.0.2.7"))).status).toBe(404);
  // So are names of policies, which are looked up: with a list before each, less than one is left soon.
  let looked;
  for (let count = 0; count < READ_CALLS && looked?.status !== 429; count += 1) {
    await world.call("GET", "/counters?prefix=none", one);
    looked = await world.call("POST", `/limits/none-${count}/k`, one);
  }
  expect(looked.json).toMatchObject({ code: "quota-exceeded" });
  expect((await world.call("POST", "/limits/none/k", from("192.0.2.7"))).status).toBe(404);
  expect((await world.call("GET", union("other"), { headers: { ...ADMIN.headers, ...one.headers } })).status).toBe(404);
});

test("an address has streams of so many counters, however it spreads them, and gets them back when it closes one", async () => {
  const path = (stream, count) => `/live?${numbers(count).map((index) => `id=stream/${stream}/${index}`).join("&")}`;
  const sockets = [];
  for (let stream = 0; stream < VISITOR_COUNTERS_MAX / 100; stream += 1) {
    sockets.push(await connect(world, path(stream, 100)));
  }
  const one = () => watch(world, path("one more", 1));
  expect((await one()).status).toBe(429);
  sockets.pop().close();
  const another = await until(async () => {
    const watcher = await one();
    return watcher.status === 200 && watcher;
  }, "room for another");
  for (const watcher of [another, ...sockets]) watcher.close();
});
