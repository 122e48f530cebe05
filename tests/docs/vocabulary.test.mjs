// The public API has one word for a thing. Walks the parameters, properties and required fields of openapi.json, and
// fails for a word that docs/develop/conventions.md has retired, where the contract of the seed does not keep it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const api = JSON.parse(readFileSync("crates/tally-api/openapi.json", "utf8"));

/** Words with the one that is used instead. */
const RETIRED = {
  increment: "delta", reset_ms: "reset_after_ms", unasked: "omitted", whole: "complete", under_way: "in_progress",
  acts: "entries", hyll: "hll", kept_from: "kept_from_at", expires_in: "expires_in_seconds",
};
// `POST /api/event` and `GET /api/counter` keep the names of the seed.
const OF_THE_SEED = /^\/paths\/\/api\/(event|counter)\/|^\/components\/schemas\/QueuedEvent\//;

/** Yields `{ name, at, schema }` of each parameter and property. */
function* names(node, at = "") {
  if (node === null || typeof node !== "object") return;
  if (typeof node.name === "string" && typeof node.in === "string") yield { name: node.name, at, schema: node.schema };
  for (const [name, schema] of Object.entries(node.properties ?? {})) yield { name, at, schema };
  for (const [name, below] of Object.entries(node)) yield* names(below, `${at}/${name}`);
}
const all = [...names(api)];

test("no parameter and no property has a retired name, and no path has one", () => {
  const found = all.filter(({ name, at }) => name in RETIRED && !OF_THE_SEED.test(`${at}/`));
  assert.deepEqual(found.map(({ name, at }) => `${at}: ${name}, use ${RETIRED[name]}`), []);
  // `increment` is a verb in the path of a counter.
  const { increment: _, ...nouns } = RETIRED;
  const paths = Object.keys(api.paths).filter((path) => path.split("/").some((segment) => segment in nouns));
  assert.deepEqual(paths, []);
});

/** Yields `{ at, text }` of each text that people read: descriptions, and examples that are lines. */
function* texts(node, at = "") {
  for (const [name, below] of Object.entries(node)) {
    if (typeof below === "string" && /^(description|example)$/.test(name)) yield { at: `${at}/${name}`, text: below };
    else if (below !== null && typeof below === "object") yield* texts(below, `${at}/${name}`);
  }
}

test("no description and no line of an example has a retired name", () => {
  const { increment: _, ...nouns } = RETIRED;
  const wrong = [...texts(api)].filter(({ at, text }) =>
    Object.keys(nouns).some((name) => text.includes(`\`${name}\``) || text.includes(`"${name}":`)) ||
    at.includes("ndjson") && /"(key|increment)":/.test(text));
  assert.deepEqual(wrong.map(({ at }) => at), []);
});

test("each line of an example of lines is JSON, and a line of events has the fields of one", () => {
  const ofLines = [...texts(api)].filter(({ at }) => at.endsWith("ndjson/example"));
  assert.ok(ofLines.length >= 5, `${ofLines.length} examples`);
  for (const { at, text } of ofLines) {
    for (const line of text.trimEnd().split("\n").map((one) => JSON.parse(one))) {
      if (!at.includes("/events/")) continue;
      const known = api.components.schemas.Event.properties;
      assert.deepEqual(Object.keys(line).filter((name) => !(name in known)), [], at);
    }
  }
});

/** Words that mean one thing, and the places that mean it: see the table of words in the conventions. */
const PLACES = {
  // Whom a limit counts, and the secret of a caller.
  key: /\/components\/(parameters\/LimitKey|schemas\/(LimitLine|LimitVerdict|RefusedKeys|HeldKeys|ApiKey)(\/|$))/,
  // How much was added in a range, and how many there are.
  count: /\/schemas\/(Window|PrefixHistory|(Prefix)?Breakdown|PrefixValue|Distribution|SampledStep|Page|Top|RejectedLines|BoardRows|RefusedKeys)(\/|$)/,
};

test("a word that means one thing stands only where it means that", () => {
  for (const [word, places] of Object.entries(PLACES)) {
    const found = all.filter(({ name, at }) => name === word && !OF_THE_SEED.test(`${at}/`));
    assert.deepEqual(found.filter(({ at }) => !places.test(at)).map(({ at }) => `${at}: ${word}`), []);
    assert.ok(found.length > 3, word);
  }
});

/**
 * The most operations: a new one says what it replaces. Those of holds, overrides and the gate replace nothing, and
 * are counted apart.
 */
const OPERATIONS_MAX = 75;
const APART = /\/(holds|overrides)(\/|$)|^\/gate\//;
const METHODS = ["get", "put", "post", "patch", "delete"];

test("no operation comes without another one going", () => {
  const paths = Object.entries(api.paths).filter(([path]) => !APART.test(path));
  const all = paths.flatMap(([, item]) => Object.keys(item).filter((name) => METHODS.includes(name)));
  assert.ok(all.length <= OPERATIONS_MAX, `${all.length} operations`);
  // A call of a policy's keys has a path of its own, so that a key may have any name. A key of the name `overrides` is
  // looked at as `%6Fverrides`: see protocol_routes.rs.
  const ofKeys = Object.keys(api.paths).filter((path) => /^\/limits\/\{policy\}\/[^{/]+$/.test(path));
  assert.deepEqual(ofKeys, ["/limits/{policy}/overrides"]);
});

test("an event names its counter, amount and key as a counter's own calls do", () => {
  const { Event: event, DeadLetter: letter, Written: written } = api.components.schemas;
  assert.deepEqual(Object.keys(event.properties).slice(0, 2), ["id", "delta"]);
  assert.ok("idempotency_key" in event.properties && !("key" in event.properties));
  for (const name of ["id", "delta"]) assert.ok(name in letter.properties && name in written.properties, name);
});

test("one word asks for a strong read, and one word has one set of values", () => {
  const values = new Map();
  for (const { name, at, schema } of all.filter(({ schema }) => Array.isArray(schema?.enum))) {
    if (!["consistency", "numbers"].includes(name)) continue;
    const known = values.get(name) ?? schema.enum.join();
    assert.equal(schema.enum.join(), known, `${at}: ${name}`);
    values.set(name, known);
  }
  assert.deepEqual(Object.fromEntries(values), { consistency: "strong", numbers: "string" });
  const parameters = all.filter(({ at }) => /\/parameters\/\w+$/.test(at)).map(({ name }) => name);
  assert.ok(!parameters.includes("exact"));
});

const MOMENT = "#/components/schemas/Moment";
const TIME = "#/components/schemas/Time";
/** The schemas of which a schema is one. */
const optionsOf = (schema) => [schema, ...(schema.oneOf ?? []), ...(schema.anyOf ?? []), ...(schema.allOf ?? [])];
const isOf = (schema, type) => optionsOf(schema ?? {}).some(({ $ref }) => $ref === type);
const isNumber = (schema) =>
  optionsOf(schema).some(({ type }) => [type].flat().some((one) => /^(integer|number)$/.test(one)));
/** Names that say neither that a number is a time nor its unit. */
const OF_NO_UNIT = /^(at|from|to|since|until|start|end|time|begun|ended|date|on|day)$|_(from|to|since|until|in|time|date|day|hour)$/;
const isOfSeed = ({ at }) => OF_THE_SEED.test(`${at}/`);

test("a time of an answer is a Moment, whose name ends in _at or is as_of, and a time of a request is a Time", () => {
  const wrong = [];
  for (const { name, at, schema } of all.filter((one) => !isOfSeed(one))) {
    const isTime = isOf(schema, TIME);
    if (/_at$|^as_of$/.test(name) !== isOf(schema, MOMENT) && !isTime) wrong.push(`${at}: ${name}, a Moment`);
    if (isTime && !/^(at|from|to|date|period|expires_at|ends_at)$/.test(name)) wrong.push(`${at}: ${name}, a Time`);
    if (OF_NO_UNIT.test(name) && isNumber(schema)) wrong.push(`${at}: ${name} has no unit`);
  }
  assert.deepEqual(wrong, []);
  assert.equal(api.components.schemas.Moment.description, "Unix milliseconds.");
  for (const { name, at } of all.filter(({ schema, at }) => isOf(schema, TIME) && !at.includes("/parameters"))) {
    assert.match(at, /\/(requestBody|Change|Decrease|Event|KeyChange|OverrideSpec)(\/|$)/, `${name}: a Time is of requests`);
  }
});

test("a duration has its unit in its name, and no description has a unit that the name lacks", () => {
  const units = /\b(unix|milliseconds?|seconds?)\b/i;
  const named = /(_ms|_seconds|^seconds|_at|^as_of|_per_second(_max)?|^(at|from|to|window|period|step|error))$/;
  const wrong = all.filter(({ name, schema }) =>
    isNumber(schema ?? {}) && units.test(schema.description ?? "") && !named.test(name));
  assert.deepEqual(wrong.map(({ name, at }) => `${at}: ${name}`), []);
});

/** Calls whose answer is a list. */
const LISTS = [
  "/counters", "/limits", "/keys", "/shares", "/audit", "/alerts", "/alerts/{alert}/deliveries", "/boards",
  "/boards/{board}/members", "/snapshots", "/api/dead-letters", "/limits/{policy}/overrides",
];
/** Lists that have one page. */
const OF_ONE_PAGE = ["/top"];
const at = (address) => address.split("/").slice(1).reduce((node, name) => node[name.replaceAll("~1", "/")], api);
const resolved = (node) => (node?.$ref === undefined ? node : resolved(at(node.$ref)));
const schemasOf = (call) => {
  const schema = resolved(call.responses["200"]?.content?.["application/json"]?.schema) ?? {};
  return (schema.oneOf ?? schema.anyOf ?? [schema]).map(resolved);
};

test("every list has entries, a cursor, and the parameters cursor and limit", () => {
  for (const path of [...LISTS, ...OF_ONE_PAGE]) {
    const call = api.paths[path].get;
    const ofLists = schemasOf(call).filter(({ properties }) => "entries" in properties);
    assert.ok(ofLists.length > 0, path);
    for (const { required, properties } of ofLists) {
      assert.equal(resolved(properties.entries).type, "array", path);
      for (const name of ["entries", "cursor"]) assert.ok(required.includes(name), `${path}: ${name}`);
    }
    const given = [...(call.parameters ?? []), ...(api.paths[path].parameters ?? [])].map((one) => resolved(one).name);
    assert.ok(given.includes("limit"), `${path}: limit`);
    assert.equal(given.includes("cursor"), LISTS.includes(path), `${path}: cursor`);
  }
  const lists = Object.entries(api.paths).filter(([, { get }]) =>
    schemasOf(get ?? { responses: {} }).some(({ properties }) => "entries" in (properties ?? {})));
  assert.deepEqual(lists.map(([path]) => path).sort(), [...LISTS, ...OF_ONE_PAGE].sort());
});
