// The entrypoint `Tally`, called by another Worker: its methods, its rights, and what they throw.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { EDGE } from "./miniflare.mjs";
import { openWorld } from "../world.mjs";

const OPERATOR = "operator-0123456789abcdef";
const WRITER = "writer-0123456789abcdef";
const KEYS = JSON.stringify({
  keys: [
    { key: OPERATOR, scopes: ["admin"], prefixes: ["", "limits/"] },
    { key: WRITER, scopes: ["write"], prefix: "likes" },
  ],
});
const open = (binding, more = {}, vars = { TALLY_KEYS: KEYS, TALLY_ACCESS: undefined }, options = {}) =>
  openWorld({
    vars,
    ...options,
    front: { file: "tests/e2e/platform/caller.mjs", binding: { exportName: "Tally", ...binding }, ...more },
  });
const callOf = (world) => async (call) => {
  const { text } = await world.visit(`/?call=${encodeURIComponent(JSON.stringify(call))}`);
  return JSON.parse(text);
};

let world;
let call;
beforeAll(async () => {
  world = await open({});
  call = callOf(world);
});
afterAll(() => world?.close());

const as = (key, more = {}) => ({ key, ...more });
const bearer = (key) => ({ headers: { authorization: `Bearer ${key}` } });
const refusalOf = async (one) => {
  const { error } = await call(one);
  expect([error?.isError, error?.name]).toEqual([true, "TallyError"]);
  return error;
};

test("methods count, read and judge as HTTP does", async () => {
  const by = { country: "DE" };
  const cf = { colo: "FRA" };
  const change = as(OPERATOR, { delta: 3, unique: "ann", by, idempotencyKey: "one", cf });
  const first = { method: "increment", args: ["rpc", change] };
  const { value } = await call(first);
  expect([value.id, value.value]).toEqual(["rpc", 3]);
  // A repeat counts nothing.
  expect((await call(first)).value.value).toBe(3);
  expect((await call({ method: "decrement", args: ["rpc", as(OPERATOR, { cf })] })).value.value).toBe(2);
  const read = (await call({ method: "get", args: ["rpc", as(OPERATOR, { consistency: "strong" })] })).value;
  const http = await world.call("GET", "/counters/rpc?consistency=strong", bearer(OPERATOR));
  expect(Object.keys(read).sort()).toEqual(Object.keys(http.json).sort());
  expect([read.value, read.uniques.estimate, read.datacenters.map(({ id }) => id)]).toEqual([2, 1, ["FRA"]]);
  const top = (await call({ method: "top", args: [as(OPERATOR, { prefix: "rpc", limit: 1 })] })).value;
  expect([top.by, Array.isArray(top.entries)]).toEqual(["value", true]);

  const check = as(OPERATOR, { limit: 1, window_seconds: 3600 });
  const verdicts = [];
  for (let tries = 0; tries < 2; tries += 1) {
    verdicts.push((await call({ method: "limit", args: ["login", "bob", check] })).value);
  }
  expect(verdicts.map(({ allowed, remaining }) => [allowed, remaining])).toEqual([[true, 0], [false, 0]]);
  expect(verdicts[1].retry_after_ms).toBeGreaterThan(0);
});

test("holds are opened, settled and released, and boards written and read", async () => {
  const policy = { ...bearer(OPERATOR), body: '{"limit":10,"window_seconds":3600}' };
  expect((await world.call("PUT", "/limits/tokens", policy)).status).toBe(201);
  const hold = (amount) => call({ method: "hold", args: ["tokens", "acme", as(OPERATOR, { amount })] });
  const one = (await hold(6)).value.hold;
  expect((await hold(5)).value.allowed).toBe(false);
  const settled = await call({ method: "settle", args: ["tokens", "acme", one.id, as(OPERATOR, { amount: 2 })] });
  expect(settled.value.remaining).toBe(8);
  const two = (await hold(8)).value.hold;
  expect((await call({ method: "release", args: ["tokens", "acme", two.id, as(OPERATOR)] })).value.remaining).toBe(8);
  const again = await refusalOf({ method: "release", args: ["tokens", "acme", two.id, as(OPERATOR)] });
  expect(again.code).toBe("hold-settled");

  const board = ["game", as(OPERATOR)];
  expect((await call({ board, method: "write", args: ["ann", { score: 7 }] })).value.rank).toBe(1);
  expect((await call({ board, method: "get", args: ["ann"] })).value.score).toBe(7);
  expect((await call({ board, method: "members", args: [{ limit: 1 }] })).value.entries[0].member).toBe("ann");
});

test("a binding has no rights of its own: without a key a call is refused as over HTTP", async () => {
  const over = async (path, init) => (await world.call(init?.method ?? "GET", path, init ?? {})).json;
  for (const [one, path, init] of [
    [{ method: "increment", args: ["rpc/secret"] }, "/counters/rpc%2Fsecret/increment", { method: "POST", body: "{}" }],
    [{ method: "get", args: ["rpc", { key: WRITER }] }, "/counters/rpc", bearer(WRITER)],
  ]) {
    const { code, status, message, problem } = await refusalOf(one);
    const { request_id: _, ...http } = await over(path, init);
    expect(problem).toMatchObject(http);
    expect([code, status, message]).toEqual([http.code, http.status, `${http.code}: ${http.detail}`]);
    expect([401, 403]).toContain(status);
  }
});

test("a binding's own key is used where a call has none, and never for what is fetched", async () => {
  const bound = await open({ props: { key: WRITER } });
  try {
    const calling = callOf(bound);
    expect((await calling({ method: "increment", args: ["likes"] })).value.value).toBe(1);
    expect((await calling({ method: "get", args: ["likes"] })).error.code).toBe("forbidden");
    expect((await calling({ method: "get", args: ["likes", as(OPERATOR)] })).value.id).toBe("likes");
    expect((await calling({ fetch: "/counters/likes" })).code).toBe("unauthorized");
  } finally {
    await bound.close();
  }
});

test("whatever is wrong with a call is an error of the name with a code, and counts nothing", async () => {
  const wrong = [
    ["invalid-id", { method: "increment", args: [".."] }],
    ["invalid-id", { method: "increment" }],
    ["invalid-id", { method: "get", args: [{}] }],
    ["invalid-id", { board: ["game"], method: "write", args: [{ score: 1 }] }],
    ["invalid-call", { method: "increment", args: ["a", 3] }],
    ["invalid-call", { method: "increment", args: ["a", null] }],
    ["invalid-call", { method: "increment", args: ["a", [1]] }],
    ["invalid-call", { method: "increment", args: ["a", {}, {}] }],
    ["invalid-call", { method: "increment", args: ["a", as("two\nlines")] }],
    ["invalid-call", { method: "increment", args: ["a", as(OPERATOR, { idempotencyKey: "two\nlines" })] }],
    ["invalid-call", { method: "increment", args: ["a", as(OPERATOR, { cf: "FRA" })] }],
    ["invalid-call", { method: "increment", args: ["a", as(OPERATOR, { cf: ["FRA"] })] }],
    ["invalid-call", { method: "increment", args: ["a", as(OPERATOR, { idempotencyKey: {} })] }],
    ["invalid-call", { method: "increment", args: ["a", as(OPERATOR, { idempotencyKey: 5 })] }],
    ["invalid-call", { method: "increment", args: ["a", as(OPERATOR, { ifMatch: ["x"] })] }],
    ["invalid-call", { method: "increment", args: ["a", { key: { text: OPERATOR } }] }],
    ["invalid-call", { method: "top", args: [as(OPERATOR, { prefix: { of: "a" } })] }],
    ["invalid-call", { method: "top", args: [as(OPERATOR, { prefix: ["a", {}] })] }],
    ["unknown-field", { method: "increment", args: ["a", as(OPERATOR, { dleta: 2 })] }],
    ["invalid-query", { method: "get", args: ["a", as(OPERATOR, { windw: 2 })] }],
    ["counter-not-found", { method: "get", args: ["a", as(OPERATOR)] }],
    ["policy-not-found", { method: "limit", args: ["nothing", "bob", as(OPERATOR)] }],
    ...["nan", "bigint", "map", "function", "circle", "cfMap"].map((raw) => [
      "invalid-call", { method: "increment", args: ["a"], raw },
    ]),
  ];
  for (const [code, one] of wrong) expect([one, (await refusalOf(one)).code]).toEqual([one, code]);
  expect((await call({ method: "get", args: ["a", as(OPERATOR)] })).error.code).toBe("counter-not-found");
});

test("a header that a request lacks is no key for all writes", async () => {
  for (const value of [1, 2]) {
    const change = as(OPERATOR, { idempotencyKey: null, ifMatch: null, cf: null });
    expect((await call({ method: "increment", args: ["unkeyed", change] })).value.value).toBe(value);
  }
});

test("writes of a Worker that hangs up count once when it calls again under their keys", async () => {
  const writes = Array.from({ length: 20 }, (_, index) => {
    const change = as(OPERATOR, { delta: 1 << index, idempotencyKey: `left-${index}` });
    return { method: "increment", args: ["left", change] };
  });
  await Promise.all(writes.map((write) => call({ ...write, leave: true })));
  for (const write of writes) expect((await call(write)).value.id).toBe("left");
  const { value } = await call({ method: "get", args: ["left", as(OPERATOR, { consistency: "strong" })] });
  expect(value.value).toBe((1 << writes.length) - 1);
});

test("a caller of an earlier date of the platform reads the code in the message", async () => {
  const earlier = await open({}, { date: "2024-09-23" });
  try {
    const { error } = await callOf(earlier)({ method: "get", args: ["nothing", as(OPERATOR)] });
    expect([error.isError, error.message]).toEqual([true, expect.stringMatching(/^TallyError: counter-not-found: /)]);
  } finally {
    await earlier.close();
  }
});

test("a deployment that is open to its machine is open to its bindings", async () => {
  const local = await open({}, {}, { TALLY_KEYS: undefined, TALLY_ACCESS: "open" });
  try {
    expect((await callOf(local)({ method: "increment", args: ["likes"] })).value.value).toBe(1);
  } finally {
    await local.close();
  }
});

test("the aggregator's entrypoint says which Worker to bind", async () => {
  const bound = await open({ worker: "tally-aggregator" }, {}, undefined, { oneWorker: false });
  try {
    const { error } = await callOf(bound)({ method: "increment", args: ["a"] });
    expect([error.code, error.message]).toEqual(["not-tally", expect.stringContaining(EDGE)]);
  } finally {
    await bound.close();
  }
});

test("methods are those that the package has types for, and paths those of the description", () => {
  const source = (path) => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8");
  const { paths } = JSON.parse(source("crates/tally-api/openapi.json"));
  const calls = [...source("src/rpc.js").matchAll(/^ {2}(\w+): \["(\w+)", "(\S+)"\],$/gm)];
  expect(calls.length).toBe(11);
  for (const [, , method, path] of calls) expect(paths[path]?.[method.toLowerCase()], `${method} ${path}`).toBeTruthy();
  const typed = [...source("package/client/worker.ts").matchAll(/^ {2}(\w+)\(/gm)].map(([, name]) => name);
  expect(typed.sort()).toEqual([...calls.map(([, name]) => name), "board"].sort());
});
