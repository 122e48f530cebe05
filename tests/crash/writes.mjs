// The writes of the load: what is sent, and what it adds to which counter.
//
// A write: {method?, path, body, parts, key?, ids?}. method: POST unless it is named. parts: per line of the body
// {id, added?, removed?, elements?}. key: its Idempotency-Key; ids: its lines have ids of their own. With either it
// may be sent again. An operation is a write without parts; where it changes values it has operates: [{id, base}],
// else it is a setting. isBulk: its answer tells what was refused of it, and it is not answered as replayed.
import { between, oneOf } from "./random.mjs";

const DELTA_MAX = 1_000;
const LINES_MAX = 20;
// Few enough that a sketch counts them one by one: its answer is exact then.
const VISITORS = 60;

/** Counters of unkeyed writes, whose outcome may stay unknown. */
const PLAIN = ["plain/a", "plain/b"];
/** Counters of keyed writes: what they hold is known to the unit. */
const KEYED = ["keyed/a", "keyed/sharded"];
const EVENTS = ["events/a", "events/b", "keyed/sharded"];
const MIXED = "mixed";
/** A counter of several shards from the start. */
export const SHARDED = "keyed/sharded";
export const SHARDS = 4;

/** Counters that are set and reset too; the second one's home moves besides. */
const OPERATED = ["operated/a", "operated/home"];
/** A counter that is deleted, and created again by the next write. */
const RENEWED = "renewed/a";
/** A counter whose home moves. */
const MOVED = "moved/a";
const COLOS = ["FRA", "IAD", "SYD"];

/** Counters that files of lines are added to. */
const IMPORTED = Array.from({ length: 24 }, (_, number) => `imported/${number}`);
const IMPORTED_LEAST = 4;
/** Counters that are set, deleted, and restored from a snapshot of what they are here. */
export const RESTORED = Array.from({ length: 12 }, (_, number) => ({
  id: `restored/${number}`, base: 1_000_000n * BigInt(number + 1),
}));
const RESTORED_IDS = RESTORED.map(({ id }) => id);

/** Whether the value of a counter is what operations have made of it. */
export const isOperated = (id) => OPERATED.includes(id) || id === RENEWED || RESTORED_IDS.includes(id);

const amount = (random) => between(random, 1, DELTA_MAX);
const visitor = (random) => `visitor ${between(random, 1, VISITORS)}`;

function one(id, call, delta, unique) {
  const body = JSON.stringify({ delta, unique });
  const part = { id, [call === "increment" ? "added" : "removed"]: BigInt(delta), elements: unique ? [unique] : [] };
  return { path: `/counters/${encodeURIComponent(id)}/${call}`, body, parts: [part] };
}

function lines(random, ids, keys) {
  const events = Array.from({ length: between(random, 1, LINES_MAX) }, (_, index) => ({
    id: oneOf(random, ids),
    delta: amount(random),
    idempotency_key: keys ? `${keys}/${index}` : undefined,
  }));
  return {
    path: "/events",
    body: events.map((event) => JSON.stringify(event)).join("\n"),
    parts: events.map(({ id, delta }) => ({ id, added: BigInt(delta) })),
  };
}

const queued = (random, id) => {
  const increment = amount(random);
  return {
    path: "/api/event", body: JSON.stringify({ key: id, increment }), parts: [{ id, added: BigInt(increment) }],
  };
};

const pathOf = (id) => `/counters/${encodeURIComponent(id)}`;
const operation = (method, id, path, body, base) => ({
  method, path: pathOf(id) + path, body, parts: [], operates: [{ id, base }],
});
const set = (random, id) => {
  const value = amount(random);
  return operation("PUT", id, "/value", JSON.stringify({ value }), BigInt(value));
};
const reset = (id) => operation("PUT", id, "/value", '{"value":0}', 0n);
const end = (id) => operation("DELETE", id, "", undefined, 0n);
const move = (random, id) => {
  const home = oneOf(random, [...COLOS, undefined]);
  return { method: "PUT", path: pathOf(id), body: JSON.stringify({ home }), parts: [], isSetting: true };
};

// Lines that are added to counters: what they add was counted in a minute that is over.
function imported(random, key, { begun }) {
  const minute = begun - (begun % 60);
  const from = between(random, 0, IMPORTED.length - IMPORTED_LEAST);
  const ids = IMPORTED.slice(from, from + between(random, IMPORTED_LEAST, IMPORTED.length));
  const lines = ids.map((id) => ({
    id, added: amount(random), removed: amount(random), datacenter: oneOf(random, COLOS),
  }));
  const text = ({ id, added, removed, datacenter }) =>
    JSON.stringify({
      id, value: added - removed, datacenters: [{ id: datacenter, added, removed, minutes: [[minute * 1_000, added]] }],
    });
  const parts = lines.map(({ id, added, removed }) => ({ id, added: BigInt(added), removed: BigInt(removed) }));
  return { path: "/import?mode=add", body: lines.map(text).join("\n"), parts, key, isBulk: true };
}

const snapshot = () => ({ path: "/snapshots", parts: [], isBulk: true });
const restored = (key, { date }) => ({
  path: `/snapshots/${date}/restore`,
  body: JSON.stringify({ prefix: "restored/", mode: "replace" }),
  parts: [],
  operates: RESTORED,
  key,
  isBulk: true,
});

/** Under its key, or without one. */
const keyed = (random, name, write) => (random() < 0.6 ? { ...write, key: name } : write);
const counted = (random, id) => one(id, random() < 0.8 ? "increment" : "decrement", amount(random));

// Weight, and how such a write is made: (random, its own name, the number of the server's incarnation).
const KINDS = [
  [24, (random) => one(oneOf(random, PLAIN), "increment", amount(random))],
  [6, (random) => one("plain/visitors", "increment", amount(random), visitor(random))],
  [6, (random) => lines(random, PLAIN)],
  [5, (random) => one(MIXED, "increment", amount(random))],
  [5, (random, name) => ({ ...one(MIXED, "increment", amount(random)), key: name })],
  [20, (random, name) => ({ ...one(oneOf(random, KEYED), "increment", amount(random)), key: name })],
  [8, (random, name) => ({ ...one("keyed/visitors", "increment", amount(random), visitor(random)), key: name })],
  [5, (random, name) => ({ ...one("keyed/both", "increment", amount(random)), key: name })],
  [5, (random, name) => ({ ...one("keyed/both", "decrement", amount(random)), key: name })],
  // A counter that begins in this incarnation of the server, perhaps with a write that it does not survive.
  [8, (random, name, incarnation) => ({ ...one(`fresh/${incarnation}`, "increment", amount(random)), key: name })],
  [8, (random, name) => ({ ...lines(random, EVENTS), key: name })],
  [8, (random, name) => ({ ...lines(random, EVENTS, name), ids: true })],
  [20, (random, name) => keyed(random, name, counted(random, oneOf(random, OPERATED)))],
  [3, (random, name) => keyed(random, name, set(random, oneOf(random, OPERATED)))],
  [3, (random, name) => keyed(random, name, reset(oneOf(random, OPERATED)))],
  [8, (random, name) => keyed(random, name, counted(random, RENEWED))],
  [2, (random, name) => keyed(random, name, end(RENEWED))],
  [8, (random, name) => keyed(random, name, counted(random, MOVED))],
  [3, (random, name) => keyed(random, name, move(random, oneOf(random, [MOVED, OPERATED[1]])))],
];
const QUEUED = [
  [10, (random) => queued(random, "queued/plain")],
  [8, (random, name) => ({ ...queued(random, "queued/keyed"), key: name })],
  [6, (random) => queued(random, MIXED)],
];

// As above, with what is known besides: {begun, date}.
const IMPORTS = [
  [20, (random, name) => ({ ...one(oneOf(random, IMPORTED), "increment", amount(random)), key: name })],
  [8, (random, name) => ({ ...lines(random, IMPORTED, name), ids: true })],
  [8, (random, name, incarnation) => ({ ...one(`fresh/${incarnation}`, "increment", amount(random)), key: name })],
  [3, (random, name, incarnation, known) => imported(random, name, known)],
  [1, snapshot],
];
// A restore is of all its counters at once: so seldom that each has writes of its own between two of them.
const RESTORES = [
  [150, (random, name) => keyed(random, name, counted(random, oneOf(random, RESTORED_IDS)))],
  [6, (random, name) => keyed(random, name, end(oneOf(random, RESTORED_IDS)))],
  [1, (random, name, incarnation, known) => restored(name, known)],
];
/** What loads there are, by their names. */
const LOADS = { mixed: KINDS, imports: IMPORTS, restores: RESTORES };

/**
 * Returns a maker of writes: (random, name, incarnation) → write. name: unique, its key is made of it. load: one of
 * LOADS. known: of its writes.
 */
export function writesOf({ hasQueue, load = "mixed", known }) {
  const kinds = hasQueue && load === "mixed" ? [...KINDS, ...QUEUED] : LOADS[load];
  const all = kinds.flatMap(([weight, make]) => Array.from({ length: weight }, () => make));
  return (random, name, incarnation) => oneOf(random, all)(random, name, incarnation, known);
}

/** Returns a write of the same key as another that asks for something else. */
export const altered = (write) =>
  write.operates === undefined && !write.isSetting
    ? alteredCount(write)
    : {
        ...write, method: "PUT", path: write.path.replace(/(\/counters\/[^/]+).*/, "$1/value"),
        body: '{"value":1000000}',
      };

const alteredCount = (write) => ({
  ...write,
  body: write.body.replace(/"(delta|increment)":(\d+)/, (_, name, digits) => `"${name}":${Number(digits) + 1}`),
});
