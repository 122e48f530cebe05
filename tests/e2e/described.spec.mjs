// The description says exactly what is taken: requests that are made out of it, valid ones and ones that break it in
// one place.
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { between, oneOf } from "../crash/random.mjs";
import { API, faults } from "./openapi.mjs";
import { Requests, jsonOf } from "./requests.mjs";
import { openWorld, randomFrom } from "./world.mjs";

const SEED = Number(process.env.SEED ?? 20_261_122);
const CASES = Number(process.env.CASES ?? 12);
// Refusals of requests that are as described: they depend on what is stored, or on the clock.
const DEPENDS = new Set([
  "quota-exceeded",
  "no-client-address",
  "clock-skew",
  "counter-not-found",
  "policy-not-found",
  "share-not-found",
  "counter-ended",
  "needs-home",
  "hash-mismatch",
  "below-floor",
  "precondition-failed",
  "idempotency-key-reused",
  "cost-exceeds-limit",
  "version-not-reached",
  "board-not-found",
  "member-not-found",
  "period-not-found",
  "snapshot-not-found",
  "board-settings-fixed",
  "board-ended",
  "range-too-large",
  "alert-not-found",
  "webhook-not-allowed",
  "override-not-found",
  "invalid-override",
]);
const METHODS = ["get", "put", "post", "patch", "delete"];
// A test of an alert would call who is outside: see alerts.spec. The others say what no schema does, a day that has
// been, and one of four fields: see snapshots.spec and repair.rs.
const ELSEWHERE = new Set(["testAlert", "makeSnapshot", "restoreSnapshot", "repair"]);
// What a call is about is made before it, where the call would end it or needs its id.
const KEY = '{"name":"made","scopes":["read"]}';
const HOLD = "/limits/login/k/holds";
const MADE = {
  revokeShare: async () => ({ id: (await world.call("POST", "/shares", { body: '{"prefix":"s/"}' })).json.id }),
  ...Object.fromEntries(
    ["getKey", "changeKey", "revokeKey", "rotateKey"].map((name) => [
      name, async () => ({ id: (await world.call("POST", "/keys", { body: KEY })).json.id }),
    ]),
  ),
  ...Object.fromEntries(
    ["settleHold", "releaseHold"].map((name) => [
      name, async () => {
        const { hold } = await world.well("POST", HOLD, { body: "{}" });
        return { policy: "login", key: "k", hold: hold.id };
      },
    ]),
  ),
  deleteAlert: async () => {
    await world.well("PUT", "/alerts/busy", { body: ALERT });
    return { alert: "busy" };
  },
  ...Object.fromEntries(
    ["getOverride", "deleteOverride"].map((name) => [
      name, async () => {
        await world.call("PUT", "/limits/login/overrides/acme-*", { body: '{"limit":5}' });
        return { policy: "login", pattern: "acme-*" };
      },
    ]),
  ),
  gate: async () => ({ policies: "login" }),
};
const ALERT = JSON.stringify({
  counter: "one", when: { value: { above: 1_000_000 } }, webhook: "https://hooks.example.com/tally",
  secret: "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
});
// Which words are a command no schema says: see redis.spec.
const isWords = ({ tags }) => tags.includes("redis");
const operations = Object.entries(API.paths).flatMap(([path, item]) =>
  METHODS.filter(
    (method) =>
      item[method]?.security.length > 0 && !ELSEWHERE.has(item[method].operationId) && !isWords(item[method]),
  ).map((method) => [path, method, item, item[method]]),
);

let world, known, hll;
let imported = 0;
beforeAll(async () => {
  console.log(`SEED=${SEED} CASES=${CASES}`);
  world = await openWorld();
  known = (await world.add("one")).version;
});
// The same is there before each operation, whatever the others have left.
beforeEach(async () => {
  for (const id of ["one", "two", "redis"]) await world.call("DELETE", `/counters/${id}`);
  await world.put("redis", { unique_hash: "redis" });
  for (const id of ["one", "two", "redis"]) await world.add(id, { unique: "ann" });
  hll = (await world.call("GET", "/uniques?id=redis&format=hll&consistency=strong")).bytes;
  await world.call("DELETE", "/boards/race");
  await world.well("POST", "/boards/race/members/ann", { body: '{"score":7}' });
  await world.well("PUT", "/alerts/busy", { body: ALERT });
  await world.well("PUT", "/limits/login", { body: '{"limit":1000000,"window_seconds":60}' });
});
afterAll(() => world?.close());

// What scrapers, mail programs and caches add to a URL; the byte is no UTF-8.
const FOREIGN = "collect[]=x&collect[]=y&utm_source=%E4&_=1764000000000";

/** Whether the call ignores parameters that it does not know. */
function ignoresUnknown(operation, path) {
  const [ignored, where] = (operation["x-unknown-query"] ?? "").split(" where ");
  return ignored === "ignored" && (where === undefined || path.includes(where));
}

const schemaOf = (operation) => operation.requestBody?.content["application/json"]?.schema;
// A body of which nothing can be counted is refused, so each format has a line of its own.
const LOGS = {
  clf: '192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /logged HTTP/1.1" 200 1\n',
  ndjson: '{"path":"/logged","ip":"192.0.2.1","time":"2015-05-17T10:05:03Z"}\n',
  logpush: '{"ClientRequestPath":"/logged","ClientIP":"192.0.2.1","EdgeStartTimestamp":"2015-05-17T10:05:03Z"}\n',
};
// Nothing in them is read from JSON.
const BODIES = {
  importHll: () => hll,
  // A body of which no line counts is refused, and a counter that exists is not made again.
  import: () => `{"id":"imported/${(imported += 1)}","value":5}\n`,
  writeMembers: () => '{"member":"ann","score":8}\n{"member":"bob","delta":1}',
  ingestLog: ({ format = "clf" }) => LOGS[format],
};

// Sends a request; a stream is only asked for its head.
async function send(operation, { method, path, headers, body }) {
  const verb = operation.operationId === "watchCounters" ? "HEAD" : method;
  const answer = await world.call(verb, path, { headers, body, clientIp: "203.0.113.9" });
  // The lines of logs are no JSON, or not ours to describe.
  const rejected =
    operation.operationId === "sendEvents" && answer.json?.rejected > 0 ? answer.json.errors[0].code : undefined;
  const code = answer.status < 400 ? rejected : (answer.json?.code ?? "refused");
  return { status: answer.status, code, text: answer.text };
}

// What exists is asked for more often than what does not; a version is of the counter that it was told of.
function aimed(requests, given) {
  // A log says which field of its lines is the id.
  const isNamed = typeof given.id === "string" && !["path", "site"].includes(given.id);
  if (isNamed && requests.often(0.6)) given.id = oneOf(requests.random, ["one", "two", "redis"]);
  if ("board" in given && requests.often(0.7)) given.board = "race";
  for (const name of ["member", "around"]) if (name in given && requests.often(0.7)) given[name] = "ann";
  if ("policy" in given && requests.often(0.6)) given.policy = "login";
  if ("alert" in given && requests.often(0.7)) given.alert = "busy";
  // The registers are of one counter.
  if ("format" in given && Array.isArray(given.id)) given.id = ["redis"];
  // A counter has a rank among those whose ids begin as its own.
  if ("prefix" in given && "id" in given) given.prefix = [...given.id][0];
  if (("at_least" in given || "If-Match" in given) && !("board" in given)) given.id = "one";
  return given;
}

async function valid(requests, [path, method, item, operation]) {
  const given = aimed(requests, requests.arguments(item, operation, Math.floor(world.now() / 1000)));
  // Only the page before tells one.
  if (["export", "listKeys", "listAudit"].includes(operation.operationId)) delete given.cursor;
  // A day that has been: see snapshots.spec.
  delete given.on;
  if (operation.operationId === "watchCounters" && !("id" in given)) given.board ??= "race";
  const schema = schemaOf(operation);
  const wanted = schema && (operation.requestBody.required || requests.often(0.8));
  const value = wanted ? requests.value(schema) : undefined;
  Object.assign(given, await MADE[operation.operationId]?.());
  // An end is a time or a number of seconds: the description says so in words.
  if (["makeKey", "changeKey"].includes(operation.operationId)) delete value?.expires_at;
  // A hold needs stored policies: the description says so in words.
  if (value?.hold) value.checks = value.checks.map(({ policy, key, cost = 1 }) => ({ policy, key, cost }));
  // What was used is no more than what is held.
  if (operation.operationId === "settleHold" && value?.amount > 1n) value.amount = 1n;
  // No schema says that a board has room for a member in each shard.
  if (value?.members_max < value?.shards) delete value.members_max;
  const body = wanted ? jsonOf(value) : BODIES[operation.operationId]?.(given);
  const request = requests.request(path, method, operation, given, body);
  if (!ignoresUnknown(operation, request.path)) return request;
  return { ...request, path: `${request.path}${request.path.includes("?") ? "&" : "?"}${FOREIGN}` };
}

// A request that is valid but for one place; undefined where nothing can be broken.
async function invalid(requests, [path, method, item, operation]) {
  const given = aimed(requests, requests.arguments(item, operation, Math.floor(world.now() / 1000)));
  const schema = schemaOf(operation);
  const body = schema ? jsonOf(requests.value(schema)) : BODIES[operation.operationId]?.(given);
  const made = () => requests.request(path, method, operation, given, body);
  const how = between(requests.random, 0, 5);
  const parameters = requests.parameters(item, operation);
  const [name, needed] = Object.entries(operation["x-parameters"]?.needs ?? {})[0] ?? [];
  const [one, other] = operation["x-parameters"]?.excludes?.[0] ?? [];
  if (how === 0 && ignoresUnknown(operation, made().path)) return undefined;
  if (how === 0) return { ...made(), path: `${made().path}${made().path.includes("?") ? "&" : "?"}unknown=1` };
  if (how === 1 && name) {
    delete given[needed];
    given[name] = BigInt(Math.floor(world.now() / 1000));
    return made();
  }
  if (how === 2 && one) {
    for (const both of [one, other]) {
      given[both] = requests.value(parameters.find((parameter) => parameter.name === both).schema);
    }
    return made();
  }
  if (how === 3 && schema) {
    return { ...made(), body: oneOf(requests.random, ["{", '{"a":1}x', "[1]", '"x"', "\u0000"]) };
  }
  if (how > 3 && schema) {
    const broken = requests.broken(schema);
    return broken === undefined ? undefined : { ...made(), body: jsonOf(broken) };
  }
  const parameter = oneOf(
    requests.random, parameters.filter(({ name }) => name !== "Content-Encoding" && name !== "Last-Event-ID"),
  );
  if (parameter === undefined) return undefined;
  const broken = requests.broken(parameter.schema);
  // A text is what a URL and a header carry, or several.
  const isList = parameter.schema.type === "array";
  if (broken === undefined || (typeof broken === "object" && broken !== null && !(isList && broken.length > 0))) {
    return undefined;
  }
  if (isList && !Array.isArray(broken)) return undefined;
  const carried = isList ? broken.map(String) : String(broken);
  const read = !isList && /^-?\d+$/.test(carried) ? BigInt(carried) : carried;
  if ([carried, read].some((value) => faults(parameter.schema, value).length === 0)) return undefined;
  // URLs take dots out of paths, and headers carry no line breaks and no spaces at their ends.
  if (parameter.in === "path" && ["", ".", ".."].includes(carried)) return undefined;
  if (parameter.in === "header" && !/^[!-~]([ -~]*[!-~])?$/.test(carried)) return undefined;
  given[parameter.name] = carried;
  return made();
}

// What requests may change, without what time alone changes: names of counters come later, and end by themselves.
const STATE = [
  "/boards?limit=1000", "/boards/race/members?consistency=strong", "/limits?limit=1000", "/keys?limit=1000",
  "/shares?limit=1000",
  "/limits/login/k", "/limits/login/overrides?limit=1000",
];
const OF_TIME = new Set([
  "as_of", "staleness_ms", "reset_after_ms", "retry_after_ms", "version", "exact", "last_used_at",
]);

async function state() {
  const answers = [];
  for (const path of STATE) answers.push((await world.call("GET", path)).text);
  for (const id of ["one", "two", "redis"]) {
    const { status, json, text } = await world.call("GET", `/counters/${id}?consistency=strong`);
    // A command that was taken may have let the key expire.
    const ends = id === "redis" && (status === 404 || json.expires_at !== null);
    answers.push(ends ? '"it ends"' : text);
  }
  const kept = (name, value) => (OF_TIME.has(name) ? undefined : value);
  return answers.map((text) => JSON.stringify(JSON.parse(text, kept)));
}

const shown = ({ method, path, headers, body }, { status, text }) =>
  `${method} ${path} ${JSON.stringify(headers)} ${String(body).slice(0, 300)}\n→ ${status} ${text.slice(0, 300)}`;

for (const [index, one] of operations.entries()) {
  const { operationId } = one[3];
  test(`${operationId}: what is valid is taken, what is not is refused`, async () => {
    const requests = new Requests(randomFrom(SEED + index), known);
    const wrong = [];
    let taken = 0;
    // Some calls find what they need by chance: they are tried more often.
    for (let count = 0; count < CASES || (taken === 0 && count < 4 * CASES); count++) {
      const request = await valid(requests, one);
      const answer = await send(one[3], request);
      if (answer.code === undefined) taken += 1;
      else if (!DEPENDS.has(answer.code)) wrong.push(`valid, refused: ${shown(request, answer)}`);
    }
    // An image with parameters that do not fit is an image: see pages.spec.
    const isImage = one[3]["x-invalid-query"] === "ignored";
    const before = await state();
    for (let count = 0; count < CASES && !isImage; count++) {
      const request = await invalid(requests, one);
      if (request === undefined) continue;
      const answer = await send(one[3], request);
      if (answer.code === undefined || answer.status >= 500) wrong.push(`invalid, taken: ${shown(request, answer)}`);
    }
    expect(wrong.join("\n")).toBe("");
    // A body of events is refused by lines, and counts its others.
    if (one[3].operationId !== "sendEvents") expect(await state(), "what refused requests change").toEqual(before);
    expect(taken, "requests that were taken").toBeGreaterThan(0);
  });
}

test("files and health ignore parameters that they do not know", async () => {
  const open = Object.entries(API.paths).filter(([, { get }]) => get?.security.length === 0);
  expect(open.map(([path]) => path)).toEqual(["/tally.js", "/healthz", "/problems/{code}", "/openapi.json"]);
  for (const [path, { get }] of open) {
    expect(ignoresUnknown(get, path), path).toBe(true);
    const address = path.replace("{code}", "forbidden");
    expect((await world.call("GET", `${address}?${FOREIGN}`)).status, path).toBe(200);
  }
});
