// What is measured: a list. To add a measure, add an object; to add a program under load, servers.mjs.
//
// A measure: name; unit (what its rate counts); connections (requests in flight at once); counters
// (ids that it may change, compared at its end with what was acknowledged); seed (what each of them
// holds before); adds (what one request adds to all of them together); optionally target (the least
// ratio wanted) and round_seconds (where 4 give too few answers); and two sides, `tally` and `baseline`. A side: server (a name of servers.mjs),
// method, path, expect (a Lua pattern for a good answer, see load.lua), and optionally body and
// content_type. Each measure has counters of its own, so that none sees what another left.

const HOT = "bench-hot";
const READ = "bench-read";
const READ_SEED = 12_345;
const BATCH_EVENTS = 5_000;
const BATCH_COUNTERS = Array.from({ length: 100 }, (_, index) => `bench-batch-${index}`);

// Every counter has the same share (5,000 / 100 = 50), so each can be compared by itself. Line after
// line names another counter, as in a log. About 47 bytes a line: 5,000 × 47 = 235 KB.
const BATCH = Array.from(
  { length: BATCH_EVENTS },
  (_, index) => `{"key":"${BATCH_COUNTERS[(index * 37) % BATCH_COUNTERS.length]}","increment":1}\n`,
).join("");

// Both sides answer the same paths, so one request serves for both.
const both = (request) => ({
  tally: { server: "tally", ...request },
  baseline: { server: "javascript", ...request },
});

export const MEASURES = [
  {
    name: "stateless answer",
    unit: "requests",
    connections: 64,
    counters: [],
    seed: 0,
    adds: 0,
    ...both({ method: "GET", path: "/healthz", expect: '"status":"ok"' }),
  },
  {
    name: "durable increment, one hot counter",
    unit: "requests",
    connections: 64,
    counters: [HOT],
    seed: 0,
    adds: 1,
    ...both({ method: "POST", path: `/counters/${HOT}/increment`, expect: '"status":"ok"' }),
  },
  {
    name: "read of one counter",
    unit: "requests",
    connections: 64,
    counters: [READ],
    seed: READ_SEED,
    adds: 0,
    ...both({ method: "GET", path: `/counters/${READ}`, expect: `"value":${READ_SEED}[,}]` }),
  },
  {
    name: `events in batches of ${BATCH_EVENTS.toLocaleString("en")} over ${BATCH_COUNTERS.length} counters`,
    unit: "events",
    connections: 4,
    // On a slow disk a batch takes more than a second: 100 objects, each with a durable write.
    round_seconds: 6,
    counters: BATCH_COUNTERS,
    seed: 0,
    adds: BATCH_EVENTS,
    ...both({
      method: "POST",
      path: "/events",
      body: BATCH,
      content_type: "application/x-ndjson",
      expect: '"accepted":(%d+),"rejected":0,',
    }),
  },
];
