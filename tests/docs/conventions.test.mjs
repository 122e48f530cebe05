// Each operation of the API follows docs/develop/conventions.md. Words, times, durations and lists are walked by
// vocabulary.test.mjs. An exception stands here by its name, with its reason. The lists of exceptions may only shrink.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const api = JSON.parse(readFileSync("crates/tally-api/openapi.json", "utf8"));
const at = (address) =>
  address.split("/").slice(1).reduce((node, name) => node[name.replaceAll("~1", "/")], api);
const resolved = (node) => (node?.$ref === undefined ? node : resolved(at(node.$ref)));

const METHODS = ["get", "put", "post", "patch", "delete"];
const operations = Object.entries(api.paths).flatMap(([path, item]) =>
  METHODS.filter((method) => method in item).map((method) => ({
    call: `${method.toUpperCase()} ${path}`, method, path, ...item[method],
    parameters: [...(item.parameters ?? []), ...(item[method].parameters ?? [])].map(resolved),
    responses: Object.entries(item[method].responses).map(([status, response]) => [Number(status), resolved(response)]),
  })));
const namesOf = ({ parameters }) => parameters.map(({ name }) => name);
/** The calls that a law finds wrong must be these exactly. */
const only = (wrong, exceptions) => assert.deepEqual(wrong.toSorted(), Object.keys(exceptions).toSorted());

test("every operation was found", () => assert.ok(operations.length > 70, `${operations.length}`));

/** Calls that take no key: programs read them before they have one. */
const OPEN = ["GET /tally.js", "GET /healthz", "GET /problems/{code}", "GET /openapi.json"];
const SCOPES = ["read", "write", "refund", "admin"];
/** What a public entry can allow, but for these: keys of Redis are texts and sets too. */
const OF_KEYS_ALONE = ["POST /redis", "POST /redis/pipeline", "POST /redis/multi-exec"];

test("every operation names the scheme and the scope of its key, and says whether a public entry can allow it", () => {
  assert.deepEqual(operations.filter(({ security }) => security.length === 0).map(({ call }) => call), OPEN);
  for (const { call, security } of operations.filter((one) => !OPEN.includes(one.call))) {
    const scopes = security.filter(({ bearer }) => bearer !== undefined).map(({ bearer }) => bearer);
    assert.ok(scopes.length > 0 && scopes.every(([scope, more]) => SCOPES.includes(scope) && more === undefined), call);
    const isPublic = scopes.some(([scope]) => ["read", "write"].includes(scope)) && !OF_KEYS_ALONE.includes(call);
    const isOptional = security.some((one) => Object.keys(one).length === 0);
    assert.equal(isOptional, isPublic, `${call}: {}`);
  }
  assert.deepEqual(api.components.securitySchemes.bearer.scheme, "bearer");
});

/** Arrays at the top of an answer that are no list of entries, and what they are. */
const PARTS = {
  datacenters: "the parts of one number", pending_datacenters: "where a change has yet to arrive",
  missing_partitions: "what did not answer", missing_boards: "what did not answer", failed: "what did not answer",
  points: "one series, cut by `from` and `to`", days: "one series", dates: "what one name asked for",
  rows: "the first values of a breakdown, cut by `limit`", dimensions: "what a counter has",
  ids: "those of the request",
  boards: "those of the request", checks: "those of the request", members: "those of the request",
  absent: "those of the request", top: "the first of a sum, cut by `top`", errors: "the first faults of a body",
  rejected_lines: "the lines of a body that were refused", periods: "at most 100 of one board",
  scopes: "one setting", prefixes: "one setting", in_progress: "at most one of each partition",
  runs: "one of each partition",
  counters: "one page of a repair", objects: "one page of a repair", refused: "one page of a restore or an import",
  changes: "one page of a restore", alerts_without_secret: "the alerts of a body", rank: "a number, or its two bounds",
  clocks: "at most one of each datacenter", "": "one reply of each command",
};

function* arraysOf(schema) {
  const known = resolved(schema) ?? {};
  if ([known.type].flat().includes("array")) yield "";
  for (const [name, property] of Object.entries(known.properties ?? {})) {
    if ([...arraysOf(property)].includes("")) yield name;
  }
  for (const one of [...(known.allOf ?? []), ...(known.oneOf ?? []), ...(known.anyOf ?? [])]) yield* arraysOf(one);
}

test("what is listed is in `entries`, and each other array is a part of one thing", () => {
  const found = new Set();
  for (const { call, responses } of operations) {
    for (const [status, { content }] of responses.filter(([status]) => status < 300)) {
      for (const name of arraysOf(content?.["application/json"]?.schema)) {
        if (name === "entries") continue;
        assert.ok(name in PARTS, `${call} ${status}: is \`${name}\` a list?`);
        found.add(name);
      }
    }
  }
  assert.deepEqual([...found].toSorted(), Object.keys(PARTS).toSorted());
});

/** Reads that change something, because browsers and proxies can send nothing else. */
const READS_THAT_WRITE = ["GET /gate/{policies}", "GET /hit/{id}", "GET /pixel/{id}.gif"];
const RETRIES = {
  once: "Send an `Idempotency-Key`, and a repeat with it changes nothing more.",
  same: "A repeat changes nothing more.",
  again: "A repeat does it again.",
};

test("every write says what a repeat does, and whether it takes an Idempotency-Key", () => {
  for (const operation of operations) {
    const { call, method, description = "", "x-retry": retry } = operation;
    const isWrite = method !== "get" || READS_THAT_WRITE.includes(call);
    assert.equal(retry in RETRIES, isWrite, `${call}: ${retry}`);
    if (!isWrite) continue;
    assert.ok(description.endsWith(RETRIES[retry]), call);
    assert.equal(namesOf(operation).includes("Idempotency-Key"), retry === "once", call);
    // A call that removes or replaces what its path names is the same when it is repeated.
    if (["put", "delete"].includes(method)) assert.notEqual(retry, "again", call);
  }
});

test("every 429, 503 and 504 says when to come again, and every 429 names the quota", () => {
  for (const { call, security, responses } of operations) {
    for (const [status, { headers = {} }] of responses) {
      if ([429, 503, 504].includes(status)) assert.ok("Retry-After" in headers, `${call} ${status}: Retry-After`);
      const hasQuota = "RateLimit" in headers && "RateLimit-Policy" in headers;
      if (status === 429) assert.ok(hasQuota, `${call} 429: RateLimit`);
    }
    // A key may have a budget, whatever the call.
    const answers = new Set(responses.map(([status]) => status));
    assert.equal(answers.has(429), security.length > 0, `${call}: 429`);
  }
});

/** Answers without a name. */
const NO_REQUEST_ID = { "GET /live 101": "a handshake, which the platform passes on as it is" };

test("every answer has a Request-Id", () => {
  const wrong = operations.flatMap(({ call, responses }) =>
    responses.filter(([, { headers = {} }]) => !("Request-Id" in headers)).map(([status]) => `${call} ${status}`));
  only(wrong, NO_REQUEST_ID);
});

/** Refusals that have no code. */
const NO_CODE = {
  "POST /redis": "Redis's own form of an error", "POST /redis/pipeline": "Redis's own form of an error",
  "POST /redis/multi-exec": "Redis's own form of an error",
};

test("every refusal is a problem, and its status and its codes are named", () => {
  const wrong = new Set();
  for (const { call, responses } of operations) {
    for (const [status, { content }] of responses.filter(([status]) => !(status < 400))) {
      assert.ok(Number.isInteger(status), `${call}: a class of statuses`);
      const schema = content["application/problem+json"]?.schema;
      const codes = schema?.allOf?.[1]?.properties?.code?.enum ?? [];
      if (codes.length === 0) wrong.add(call);
    }
  }
  only([...wrong], NO_CODE);
});

test("every call refuses a parameter that it does not know, or says that it ignores it", () => {
  for (const { call, security, responses, "x-unknown-query": unknown } of operations) {
    const codes = responses.find(([status]) => status === 400)?.[1].description ?? "";
    const isOfRedis = call.startsWith("POST /redis");
    const refuses = codes.includes("`invalid-query`");
    assert.ok(refuses || unknown === "ignored" || isOfRedis, `${call}: an unknown parameter`);
    if (security.length === 0) assert.equal(unknown, "ignored", call);
  }
});
