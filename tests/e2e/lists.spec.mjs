// Lists: one shape, and pages that together hold each entry once, also where an entry goes in between.
import { afterEach, beforeEach, expect, test } from "vitest";
import { bearer, entriesOf, numbers } from "./calls.mjs";
import { openWorld, until } from "./world.mjs";

const OPS = "ops-key-0123456789-01";
const ALERT = {
  counter: "a", when: { value: { above: 5 } },
  webhook: "https://hooks.example.com/a", secret: `whsec_${"A".repeat(32)}`,
};
const MANY = 5;

let world;
const options = bearer(OPS);
const well = (method, path, body) => world.well(method, path, bearer(OPS, { body: body && JSON.stringify(body) }));
const identity = (entry) =>
  JSON.stringify(entry.id ?? entry.alert ?? entry.policy ?? entry.member ?? entry.at ?? entry);

beforeEach(async () => {
  const keys = JSON.stringify({ keys: [{ name: "ops", key: OPS, scopes: ["admin"], prefixes: ["", "limits/"] }] });
  // In the first hour of a day a snapshot would be made by itself.
  world = await openWorld({ vars: { TALLY_ACCESS: undefined, TALLY_KEYS: keys, TALLY_SNAPSHOTS: "off" } });
  for (const number of numbers(MANY)) {
    await well("POST", `/counters/c${number}/increment`);
    await well("PUT", `/limits/p${number}`, { limit: 1, window_seconds: 60 });
    await well("POST", "/keys", { name: `k${number}`, scopes: ["read"] });
    await well("POST", "/shares", { prefix: `s${number}/` });
    await well("PUT", `/alerts/a${number}`, ALERT);
    await well("POST", `/boards/b${number}/members/ann`, { score: 1 });
    await well("POST", `/boards/b0/members/m${number}`, { score: number });
    await well("POST", `/alerts/a${number % 2}/test`);
  }
});
afterEach(() => world.close());

const LISTS = {
  "/counters": MANY, "/limits": MANY, "/keys": MANY, "/shares": MANY, "/alerts": MANY, "/boards": MANY,
  "/alerts/*/deliveries": MANY, "/alerts/a0/deliveries": 3, "/boards/b0/members": MANY + 1, "/snapshots": 0,
  "/api/dead-letters": 0,
};

test("a page begins where the one before ended, whatever its length", async () => {
  await until(async () => (await entriesOf(world, "/boards", options)).length === MANY, "all boards");
  for (const [path, many] of Object.entries(LISTS)) {
    const whole = await world.well("GET", path, options);
    expect([whole.entries.length, whole.cursor], path).toEqual([many, null]);
    for (const limit of [1, 2, MANY]) {
      const paged = await entriesOf(world, `${path}?limit=${limit}`, options);
      expect(paged.map(identity), `${path}, ${limit}`).toEqual(whole.entries.map(identity));
    }
    for (const limit of [0, 1_001, "x"]) {
      const refused = limit !== 0 || path !== "/boards/b0/members";
      if (refused) await world.refused(400, "invalid-query", "GET", `${path}?limit=${limit}`, options);
    }
  }
  for (const path of ["/top", "/top?by=rate"]) {
    const query = path.includes("?") ? "&limit=1" : "?limit=1";
    expect(await world.well("GET", path + query, options)).toMatchObject({ cursor: null });
  }
});

test("a cursor of nothing, or of another list, is refused instead of ending the list", async () => {
  const { cursor } = await world.well("GET", "/keys?limit=1", options);
  for (const path of ["/shares", "/alerts", "/alerts/*/deliveries", "/snapshots", "/audit", "/api/dead-letters"]) {
    for (const wrong of ["zzz", "", cursor]) {
      await world.refused(400, "invalid-query", "GET", `${path}?cursor=${wrong}`, options);
    }
  }
  for (const wrong of ["zzz", "", "1b3c"]) {
    await world.refused(400, "invalid-query", "GET", `/keys?cursor=${wrong}`, options);
  }
  await world.refused(400, "invalid-query", "GET", "/limits?cursor=%2F", options);
});

test("a page goes on behind an entry that was deleted since", async () => {
  for (const [path, gone] of Object.entries({
    "/shares": ({ id }) => `/shares/${id}`,
    "/alerts": ({ alert }) => `/alerts/${alert}`,
    "/keys": ({ id }) => `/keys/${id}`,
  })) {
    const whole = (await world.well("GET", path, options)).entries.map(identity);
    const first = await world.well("GET", `${path}?limit=2`, options);
    await well("DELETE", gone(first.entries[1]));
    const rest = await world.well("GET", `${path}?cursor=${encodeURIComponent(first.cursor)}`, options);
    expect([...first.entries, ...rest.entries].map(identity), path).toEqual(whole);
  }
});
