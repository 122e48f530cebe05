// What is measured: a list of groups. To add a figure, add a line; to add a program under load, servers.mjs.
//
// Invariant: the loads of a group run in turn within each round, so what else the machine does falls on all,
// and a ratio compares two loads of one round.
//
// A group: name; optionally part (of the report, see report.mjs); round_seconds; optionally warms_each_run (a second of
// load before each measured run); loads (name → load); lines. A load: server (a name of servers.mjs),
// connections (requests in flight at once), unit (what its rate counts), counters (ids that it may change,
// compared at its end with what was acknowledged), adds (what one request adds to all of them together),
// method, path, expect (a Lua pattern for a good answer, see load.lua), and optionally status, keys,
// follow, body, content_type, prepare (what is done before, see prepare.mjs) and key (fields of a key that a call
// makes, by which all requests come). A counter belongs to one load of its server.
// A line: name; of (a load) and figure (one of report.mjs); optionally to (the load that it is divided by)
// and target: {least} or {most}.

const HOT = "bench-hot";
const READ = "bench-read";
const BATCH_EVENTS = 50_000;
const BATCH_COUNTERS = Array.from({ length: 1_000 }, (_, index) => `bench-batch-${index}`);

// Every counter has the same share (50,000 / 1,000 = 50), so each can be compared by itself. Line after
// line names another counter, as in a log. About 40 bytes a line: 50,000 × 40 = 2 MB.
const BATCH = Array.from(
  { length: BATCH_EVENTS },
  (_, index) => `{"id":"${BATCH_COUNTERS[(index * 37) % BATCH_COUNTERS.length]}","delta":1}\n`,
).join("");

const stateless = {
  unit: "requests", connections: 64, counters: [], adds: 0, method: "GET", path: "/healthz", expect: '"status":"ok"',
};
const increment = {
  ...{ unit: "requests", connections: 64, counters: [HOT], adds: 1 },
  ...{ method: "POST", path: `/counters/${HOT}/increment`, expect: '"status":"ok"' },
};
const incrementOf = (id) => ({ ...increment, counters: [id], path: `/counters/${id}/increment` });
// Each load has a counter of its own, on whichever server.
const incrementBy = (server, id, connections) =>
  server === "native-1" ? { server, ...incrementOf(id), connections }
    : { server, ...redis, counters: [id], path: `/INCR/${id}`, connections };
const [NATIVE, REDIS] = ["native-1", "redis-always"];
const SPREAD_COUNTERS = 10_000;
const spread = (server) => ({
  ...increment, server, counters: [], keys: SPREAD_COUNTERS, path: "/counters/KEY/increment",
});
// The same with a body, and with one that says four dimensions.
const described = (name, body) => ({
  ...{
    unit: "requests", connections: 64, counters: [name], adds: 1, body: JSON.stringify(body),
    content_type: "application/json",
  },
  ...{ method: "POST", path: `/counters/${name}/increment`, expect: '"status":"ok"' },
});
const BARE = { delta: 1 };
const FOUR = { delta: 1, by: { referrer: "news.ycombinator.com", country: "DE", device: "phone", browser: "Firefox" } };
const TOP_COUNTERS = 1_000;
const redis = { ...increment, method: "GET", path: `/INCR/${HOT}`, expect: '"INCR":%d+' };
// A good answer names the value.
const READ_HELD = 12_345;
const read = {
  ...{ unit: "requests", connections: 64, counters: [READ], adds: 0, prepare: { add: READ_HELD } },
  ...{ method: "GET", path: `/counters/${READ}`, expect: `"value":${READ_HELD}[,}]` },
};
const events = {
  ...{ unit: "events", connections: 16, counters: BATCH_COUNTERS, adds: BATCH_EVENTS },
  ...{ method: "POST", path: "/events", body: BATCH, content_type: "application/x-ndjson" },
  expect: '"accepted":(%d+),"rejected":0,',
};
// Batches of prepare.mjs (2 × 2,000). A cached read is not `exact`, so its value is what tells.
const SHARDED_HELD = 4_000;
// Default and strong reads of one counter each, so that neither warms the other's cache.
const sharded = (shards, query) => {
  const id = `bench-shards-${shards}${query === "" ? "" : "-strong"}`;
  return {
    ...{ server: "tally", unit: "requests", connections: 1, counters: [id], adds: 0, prepare: { shards } },
    ...{ method: "GET", path: `/counters/${id}${query}`, expect: `"value":${SHARDED_HELD}[,}]` },
  };
};

// A limit that nobody reaches, and one that is used up by the first call of an hour.
const limit = (policy, more) => ({
  ...{ server: "tally", unit: "requests", connections: 64, counters: [], adds: 0, method: "POST" },
  ...{ path: `/limits/${policy}/hot`, expect: '"allowed":true', ...more },
});
const AMPLE = { name: "ample", limit: 1_000_000_000, window_seconds: 60 };
// Its keys have no override, but 100,000 others do.
const OVERRIDDEN = { name: "overridden", limit: 1_000_000_000, window_seconds: 60 };
const OVERRIDES = 100_000;
const SPENT = { name: "spent", limit: 1, window_seconds: 3_600 };
// Each hold is settled as soon as a connection is free; a settlement counts as so many requests.
const holds = (server, counts) => limit("held", {
  server, path: "/limits/held/hot/holds", body: '{"amount":2,"ttl_seconds":60}', content_type: "application/json",
  expect: '"hold":', prepare: { policy: { ...AMPLE, name: "held" } },
  follow: { path: "/limits/held/hot/holds/ID/settle", body: '{"amount":2}', id: '"hold":{"id":"(%x+)"', counts },
});
// The header `Host` is the key: wrk sends no other that a client may choose.
const GATE = { method: "GET", path: "/gate/ample;key=host", status: 204, expect: "^$" };
const KEYS = 10_000;

// Scores of a board: its members, as wrk draws their numbers.
const BOARD_MEMBERS = 10_000;
const member = (method, path, more) => ({
  ...{ server: "tally", unit: "requests", connections: 64, counters: [], adds: 0, method, path },
  ...{ expect: '"rank":', prepare: { board: path.split("/")[2], members: BOARD_MEMBERS }, ...more },
});

// One isolate with more clients than the lane of one shard takes: see `LANE_WRITES_MAX`.
const LANE_CLIENTS = 512;
const lanes = (server, shards) => ({
  ...{ ...incrementOf(`bench-lanes-${shards}`), server, connections: LANE_CLIENTS, prepare: { shards } },
});

// What the design asks of latencies, microseconds: a name of the load, its figures, and the most of each.
const LATENCIES = [
  ["increment", incrementOf, { p50_us: 500, p99_us: 2_000 }],
  ["cached read", (id) => ({ ...read, counters: [id], path: `/counters/${id}` }), { p50_us: 800, p99_us: 5_000 }],
  ["check of a limit", () => limit("ample", { prepare: { policy: AMPLE } }), { p50_us: 1_000, p99_us: 1_000 }],
];

// A group of them on one server. On workerd 64 clients wait for its one thread, so there only a lone one has targets.
function latencies(host) {
  const measured = [1, 64].flatMap((connections) =>
    LATENCIES.map(([what, load, most]) => ({
      name: `${what}, ${connections === 1 ? "lone client" : "64 clients"}, ${host}`,
      load: {
        ...load(`bench-${what.replaceAll(" ", "-")}-${connections}`),
        server: host === "workerd" ? "tally" : host,
        connections,
      },
      most: host === "workerd" && connections > 1 ? {} : most,
    })),
  );
  return {
    round_seconds: 1,
    warms_each_run: true,
    loads: Object.fromEntries(measured.map(({ name, load }) => [name, load])),
    lines: measured.flatMap(({ name, most }) =>
      Object.entries(most).map(([figure, target]) => ({
        name: `${name}, ${figure.slice(0, 3)}, µs`, of: name, figure, target: { most: target },
      })),
    ),
  };
}

const ALL_GROUPS = [
  {
    name: "hot",
    round_seconds: 4,
    loads: {
      "stateless answer": { server: "tally", ...stateless },
      "stateless answer, JavaScript": { server: "javascript", ...stateless },
      increment: { server: "tally", ...increment },
      "increment, 32 isolates": { server: "tally-32", ...increment },
      "increment, JavaScript": { server: "javascript", ...increment },
      "increment, Redis + webdis, fsync always": { server: "redis-always", ...redis },
      "increment, Redis + webdis, fsync everysec": { server: "redis-everysec", ...redis },
      "cached read": { server: "tally", ...read },
      "cached read, JavaScript": { server: "javascript", ...read },
    },
    lines: [
      { name: "CPU of a durable increment of one hot counter, µs", of: "increment", figure: "cpu_us" },
      { name: "the same ÷ JavaScript Durable Object", of: "increment", figure: "cpu_us", to: "increment, JavaScript" },
      { name: "the same ÷ our stateless answer", of: "increment", figure: "cpu_us", to: "stateless answer" },
      { name: "durable increments/s of one hot counter ÷ JavaScript Durable Object", of: "increment", figure: "rate_s", to: "increment, JavaScript" },
      { name: "its p99 at 64 connections ÷ JavaScript Durable Object", of: "increment", figure: "p99_us", to: "increment, JavaScript", target: { most: 1 } },
      { name: "durable increments/s ÷ Redis + webdis, fsync always", of: "increment", figure: "rate_s", to: "increment, Redis + webdis, fsync always" },
      { name: "durable increments/s ÷ Redis + webdis, fsync everysec", of: "increment", figure: "rate_s", to: "increment, Redis + webdis, fsync everysec" },
      { name: "durable increments/s, 32 isolates ÷ one", of: "increment, 32 isolates", figure: "rate_s", to: "increment" },
      { name: "CPU of a stateless answer, µs", of: "stateless answer", figure: "cpu_us" },
      { name: "the same ÷ a stateless answer in JavaScript", of: "stateless answer", figure: "cpu_us", to: "stateless answer, JavaScript" },
      { name: "CPU of a cached read, µs", of: "cached read", figure: "cpu_us" },
      { name: "cached reads/s ÷ our stateless answer", of: "cached read", figure: "rate_s", to: "stateless answer", target: { least: 0.9 } },
      { name: "cached reads/s ÷ JavaScript Durable Object", of: "cached read", figure: "rate_s", to: "cached read, JavaScript" },
    ],
  },
  {
    name: "limits",
    round_seconds: 4,
    warms_each_run: true,
    loads: {
      "stateless answer, beside limits": { server: "tally", ...stateless },
      "hot key, allowed": limit("ample", { prepare: { policy: AMPLE } }),
      "hot key, denied": limit("spent", {
        prepare: { policy: SPENT, spent: "hot" }, status: 429, expect: '"allowed":false',
      }),
      "10,000 keys": limit("ample", { path: "/limits/ample/KEY", keys: KEYS, prepare: { policy: AMPLE } }),
      "10,000 keys, beside 100,000 overrides": limit("overridden", {
        path: "/limits/overridden/KEY", keys: KEYS, prepare: { policy: OVERRIDDEN, overrides: OVERRIDES },
      }),
      "hot key, JavaScript, in memory": limit("memory", { server: "javascript" }),
      "hot key, JavaScript, stored": limit("stored", { server: "javascript" }),
      "10,000 keys, JavaScript, in memory": limit("memory", {
        server: "javascript", path: "/limits/memory/KEY", keys: KEYS,
      }),
    },
    lines: [
      { name: "CPU of a verdict for one hot allowed key, µs", of: "hot key, allowed", figure: "cpu_us" },
      { name: "the same ÷ JavaScript Durable Object in memory, as documented", of: "hot key, allowed", figure: "cpu_us", to: "hot key, JavaScript, in memory" },
      { name: "CPU of a verdict for a denied key, µs", of: "hot key, denied", figure: "cpu_us" },
      { name: "CPU of a verdict for one of 10,000 keys, µs", of: "10,000 keys", figure: "cpu_us" },
      { name: "verdicts/s for one hot allowed key ÷ our stateless answer", of: "hot key, allowed", figure: "rate_s", to: "stateless answer, beside limits", target: { least: 0.7 } },
      { name: "verdicts/s for a denied key ÷ our stateless answer", of: "hot key, denied", figure: "rate_s", to: "stateless answer, beside limits", target: { least: 0.9 } },
      { name: "verdicts/s for 10,000 keys, evenly ÷ our stateless answer", of: "10,000 keys", figure: "rate_s", to: "stateless answer, beside limits", target: { least: 0.4 } },
      { name: "verdicts/s for 10,000 keys of a policy with 100,000 overrides ÷ without", of: "10,000 keys, beside 100,000 overrides", figure: "rate_s", to: "10,000 keys", target: { least: 0.97 } },
      { name: "verdicts/s for one hot allowed key ÷ JavaScript Durable Object in memory, as documented", of: "hot key, allowed", figure: "rate_s", to: "hot key, JavaScript, in memory" },
      { name: "verdicts/s for one hot allowed key ÷ JavaScript Durable Object that stores what it counts", of: "hot key, allowed", figure: "rate_s", to: "hot key, JavaScript, stored" },
      { name: "verdicts/s for 10,000 keys ÷ JavaScript Durable Objects in memory", of: "10,000 keys", figure: "rate_s", to: "10,000 keys, JavaScript, in memory" },
    ],
  },
  {
    name: "holds",
    round_seconds: 3,
    warms_each_run: true,
    loads: {
      "check, beside holds": limit("ample", { prepare: { policy: AMPLE } }),
      // A hot key would be admitted from what the isolate is lent, which was written once.
      "check of 10,000 keys that is written first": limit("written", {
        path: "/limits/written/KEY", keys: KEYS,
        prepare: { policy: { ...AMPLE, name: "written", durability: "commit" } },
      }),
      "reserve and settle": holds("tally", 1),
      "reserve and settle, counted": holds("counted", 0),
      gate: limit("ample", { ...GATE, prepare: { policy: AMPLE } }),
    },
    lines: [
      { name: "reserve and settle, requests/s ÷ checks/s", of: "reserve and settle", figure: "rate_s", to: "check, beside holds", target: { least: 0.8 } },
      { name: "the same ÷ checks/s of 10,000 keys that are written before their answers, as holds are", of: "reserve and settle", figure: "rate_s", to: "check of 10,000 keys that is written first" },
      { name: "rows written per 1,000 holds that are settled, 64 clients", of: "reserve and settle, counted", figure: "rows_per_1000", target: { most: 100 } },
      { name: "requests/s of the gate ÷ checks/s", of: "gate", figure: "rate_s", to: "check, beside holds", target: { least: 0.95 } },
    ],
  },
  {
    name: "counted",
    round_seconds: 3,
    loads: {
      "increment, counted": { server: "counted", ...increment },
      "increment, 32 isolates, counted": { server: "counted-32", ...increment, connections: 32 * 32 },
      "increment, 32 isolates, two clients each, counted": { server: "counted-32-few", ...increment },
    },
    lines: [
      { name: "rows written per 1,000 hot increments, one isolate", of: "increment, counted", figure: "rows_per_1000", target: { most: 40 } },
      { name: "object calls per 1,000 hot increments, one isolate", of: "increment, counted", figure: "calls_per_1000", target: { most: 40 } },
      { name: "rows written per 1,000 hot increments, 32 isolates", of: "increment, 32 isolates, counted", figure: "rows_per_1000", target: { most: 100 } },
      { name: "object calls per 1,000 hot increments, 32 isolates", of: "increment, 32 isolates, counted", figure: "calls_per_1000", target: { most: 100 } },
      // A client waits for its answer, so an isolate with two clients joins two writes at most: 500 calls are the
      // least.
      { name: "the same with two clients an isolate: rows", of: "increment, 32 isolates, two clients each, counted", figure: "rows_per_1000" },
      { name: "the same with two clients an isolate: calls", of: "increment, 32 isolates, two clients each, counted", figure: "calls_per_1000" },
    ],
  },
  {
    name: "events",
    // The 16 batches in flight are answered together, after 3 s here and after 9 s by the baseline.
    round_seconds: 4,
    // Objects are let go after 10 s of rest, which is less than the other load takes: a round that also opened
    // 1,000 of them again showed a third of the rate.
    warms_each_run: true,
    loads: { events: { server: "tally", ...events }, "events, JavaScript": { server: "javascript", ...events } },
    lines: [
      { name: "events/s, NDJSON, 50,000 over 1,000 counters, 16 in flight", of: "events", figure: "rate_s", target: { least: 1_000_000 } },
      { name: "the same ÷ JavaScript Durable Objects", of: "events", figure: "rate_s", to: "events, JavaScript" },
    ],
  },
  {
    name: "lone",
    round_seconds: 3,
    loads: {
      "lone increment": { server: "tally", ...increment, connections: 1 },
      "lone increment, JavaScript": { server: "javascript", ...increment, connections: 1 },
    },
    lines: [
      { name: "CPU of a lone increment, µs", of: "lone increment", figure: "cpu_us" },
      { name: "the same, alone, ÷ JavaScript Durable Object", of: "lone increment", figure: "cpu_us", to: "lone increment, JavaScript" },
      { name: "lone increment on an idle service ÷ JavaScript Durable Object, median latency", of: "lone increment", figure: "p50_us", to: "lone increment, JavaScript" },
    ],
  },
  {
    name: "keys",
    round_seconds: 3,
    loads: {
      "increment without a key": { server: "tally", ...incrementOf("bench-no-key") },
      "increment with a key": { server: "tally", ...incrementOf("bench-key"), key: {} },
      // So much that nothing is refused.
      "increment with a key and its budget": {
        server: "tally", ...incrementOf("bench-budget"), key: { rate_per_minute: 100_000_000 },
      },
    },
    lines: [
      { name: "increments/s with a key that a call made ÷ without", of: "increment with a key", figure: "rate_s", to: "increment without a key" },
      { name: "increments/s with a key and its budget ÷ without", of: "increment with a key and its budget", figure: "rate_s", to: "increment without a key" },
    ],
  },
  {
    name: "breakdowns",
    round_seconds: 3,
    warms_each_run: true,
    loads: {
      "increment with a body": { server: "tally", ...described("bench-bare", BARE) },
      "increment with four dimensions": { server: "tally", ...described("bench-four", FOUR) },
      "lone increment with a body": { server: "tally", ...described("bench-bare-lone", BARE), connections: 1 },
      "lone increment with four dimensions": { server: "tally", ...described("bench-four-lone", FOUR), connections: 1 },
      "cached read, beside a top": { server: "tally", ...read },
      "top of 1,000 counters": {
        ...{
          server: "tally", unit: "requests", connections: 64, counters: [], adds: 0,
          prepare: { named: "bench-top-", count: TOP_COUNTERS },
        },
        ...{ method: "GET", path: "/top?prefix=bench-top-&by=count&limit=10", expect: `"counters":${TOP_COUNTERS},` },
      },
    },
    lines: [
      { name: "increments/s with four dimensions ÷ without", of: "increment with four dimensions", figure: "rate_s", to: "increment with a body", target: { least: 0.667 } },
      { name: "lone increment with four dimensions ÷ without, median latency", of: "lone increment with four dimensions", figure: "p50_us", to: "lone increment with a body", target: { most: 1.5 } },
      { name: "tops of 1,000 counters/s ÷ cached reads/s", of: "top of 1,000 counters", figure: "rate_s", to: "cached read, beside a top", target: { least: 0.667 } },
    ],
  },
  {
    name: "boards",
    round_seconds: 3,
    warms_each_run: true,
    loads: {
      "increment, beside boards": { server: "tally", ...increment },
      "score updates": member("POST", "/boards/bench/members/mKEY", {
        keys: BOARD_MEMBERS, body: '{"delta":1}', content_type: "application/json",
      }),
      "score updates of a board of sums": member("POST", "/boards/bench-sums/members/mKEY", {
        keys: BOARD_MEMBERS, body: '{"delta":1}', content_type: "application/json",
      }),
      ranks: member("GET", "/boards/bench/members/mKEY", { keys: BOARD_MEMBERS }),
      "tops of 100": member("GET", "/boards/bench/members?limit=100", { expect: '"entries":%[' }),
    },
    lines: [
      { name: "CPU of a score update, µs", of: "score updates", figure: "cpu_us" },
      { name: "the same ÷ a durable increment", of: "score updates", figure: "cpu_us", to: "increment, beside boards" },
      { name: "the same of a board that keeps sums", of: "score updates of a board of sums", figure: "cpu_us", to: "increment, beside boards" },
      { name: "rank of one of 10,000 members, median latency at 64 connections", of: "ranks", figure: "p50_us" },
      { name: "top 100 of 10,000 members, median latency at 64 connections", of: "tops of 100", figure: "p50_us" },
    ],
  },
  {
    name: "breakdowns, counted",
    round_seconds: 3,
    loads: {
      "increment with a body, counted": { server: "counted", ...described("bench-bare", BARE) },
      "increment with four dimensions, counted": { server: "counted", ...described("bench-four", FOUR) },
    },
    lines: [
      // A flush writes one row: two more are three times as many.
      { name: "rows written for increments with four dimensions ÷ without", of: "increment with four dimensions, counted", figure: "rows_per_1000", to: "increment with a body, counted", target: { most: 3 } },
    ],
  },
  {
    name: "shards",
    round_seconds: 2,
    loads: {
      "read, 1 shard": sharded(1, ""),
      "read, 64 shards": sharded(64, ""),
      "strong read, 1 shard": sharded(1, "?consistency=strong"),
      "strong read, 64 shards": sharded(64, "?consistency=strong"),
    },
    // Of default reads the mean: their median sees only what the cache answers, not what filling it costs.
    // Every strong read pays in full, so there the median, which one pause of the machine does not move.
    lines: [
      { name: "default read, 64 shards ÷ 1, mean latency", of: "read, 64 shards", figure: "mean_us", to: "read, 1 shard", target: { most: 1.5 } },
      { name: "strong read, 64 shards ÷ 1, median latency", of: "strong read, 64 shards", figure: "p50_us", to: "strong read, 1 shard", target: { most: 25 } },
    ],
  },
  {
    name: "lanes",
    round_seconds: 2,
    warms_each_run: true,
    loads: {
      "increment of one isolate, 1 shard": lanes("tally", 1),
      "increment of one isolate, 4 shards": lanes("tally", 4),
      "increment of one isolate, 16 shards": lanes("tally", 16),
      "increment of one isolate, 16 shards, counted": lanes("counted", 16),
    },
    // workerd runs all objects on one thread, so more shards cannot be faster there: they must not be slower.
    lines: [
      { name: "increments/s of one isolate, 512 clients, 4 shards ÷ 1", of: "increment of one isolate, 4 shards", figure: "rate_s", to: "increment of one isolate, 1 shard", target: { least: 0.8 } },
      { name: "the same, 16 shards ÷ 1", of: "increment of one isolate, 16 shards", figure: "rate_s", to: "increment of one isolate, 1 shard", target: { least: 0.8 } },
      { name: "object calls per 1,000 of these increments, 16 shards", of: "increment of one isolate, 16 shards, counted", figure: "calls_per_1000", target: { most: 40 } },
    ],
  },
  {
    name: "latencies",
    ...latencies("workerd"),
  },
  // One thread, as Redis has: what is beside it has the other cores.
  {
    name: "native",
    part: "native",
    round_seconds: 3,
    loads: {
      "increment, native": incrementBy(NATIVE, HOT, 64),
      "increment, 256 clients, native": incrementBy(NATIVE, "bench-256", 256),
      "lone increment, native": incrementBy(NATIVE, "bench-lone", 1),
      "increment, fsync always": incrementBy(REDIS, HOT, 64),
      "increment, 256 clients, fsync always": incrementBy(REDIS, "bench-256", 256),
      "lone increment, fsync always": incrementBy(REDIS, "bench-lone", 1),
      "cached read, native": { ...read, server: NATIVE },
      "read, Redis": { ...stateless, server: REDIS, path: `/GET/${HOT}`, expect: '"GET":"%d+"' },
      "check of a hot limit, native": limit("ample", { server: NATIVE, prepare: { policy: AMPLE } }),
      "events, native": { server: NATIVE, ...events },
    },
    lines: [
      { name: "CPU of a durable increment, 64 connections, µs", of: "increment, native", figure: "cpu_us", target: { most: 12 } },
      { name: "CPU of the same by Redis + webdis, fsync always, µs", of: "increment, fsync always", figure: "cpu_us" },
      { name: "durable increments/s of one hot counter, 64 connections ÷ Redis + webdis, fsync always", of: "increment, native", figure: "rate_s", to: "increment, fsync always", target: { least: 1.2 } },
      { name: "the same, 256 connections", of: "increment, 256 clients, native", figure: "rate_s", to: "increment, 256 clients, fsync always", target: { least: 1.2 } },
      { name: "lone durable increment ÷ Redis + webdis, fsync always, median latency", of: "lone increment, native", figure: "p50_us", to: "lone increment, fsync always", target: { most: 1 } },
      { name: "cached reads/s ÷ Redis + webdis GET", of: "cached read, native", figure: "rate_s", to: "read, Redis", target: { least: 1.3 } },
      { name: "checks of one hot limit/s ÷ Redis + webdis INCR, fsync always", of: "check of a hot limit, native", figure: "rate_s", to: "increment, fsync always", target: { least: 1.5 } },
      { name: "p99 of increments at 64 connections, µs", of: "increment, native", figure: "p99_us", target: { most: 5_000 } },
      { name: "p99 of cached reads at 64 connections, µs", of: "cached read, native", figure: "p99_us", target: { most: 5_000 } },
      { name: "p99 of checks at 64 connections, µs", of: "check of a hot limit, native", figure: "p99_us", target: { most: 5_000 } },
      { name: "events/s, NDJSON, 50,000 over 1,000 counters, 16 in flight, native", of: "events, native", figure: "rate_s", target: { least: 3_000_000 } },
    ],
  },
  {
    name: "threads",
    part: "native",
    round_seconds: 3,
    warms_each_run: true,
    loads: {
      "spread increments, one thread": spread("native-1"),
      "spread increments, two threads": spread("native-2"),
    },
    lines: [
      { name: "increments/s of 10,000 counters, two threads ÷ one", of: "spread increments, two threads", figure: "rate_s", to: "spread increments, one thread" },
      { name: "the same, CPU an increment", of: "spread increments, two threads", figure: "cpu_us", to: "spread increments, one thread" },
    ],
  },
  // A thread for each core.
  {
    name: "native lanes",
    part: "native",
    round_seconds: 2,
    warms_each_run: true,
    loads: {
      "increment, 1 shard, native": lanes("native", 1),
      "increment, 4 shards, native": lanes("native", 4),
      "increment, 16 shards, native": lanes("native", 16),
    },
    lines: [
      { name: "increments/s of the native server, 512 clients, 4 shards ÷ 1", of: "increment, 4 shards, native", figure: "rate_s", to: "increment, 1 shard, native" },
      { name: "the same on the native server, 16 shards ÷ 1", of: "increment, 16 shards, native", figure: "rate_s", to: "increment, 1 shard, native" },
    ],
  },
  {
    name: "native latencies",
    part: "native",
    ...latencies("native"),
  },
];

// Of each group the loads whose rate a change must not lower, beside those of another build: BENCH_BEFORE names its
// checkout.
const KEPT = {
  hot: ["increment", "cached read"],
  limits: ["hot key, allowed", "hot key, denied", "10,000 keys"],
  holds: ["check of 10,000 keys that is written first", "reserve and settle"],
  events: ["events"],
  lone: ["lone increment"],
  boards: ["increment, beside boards", "score updates", "score updates of a board of sums"],
};

// Returns the group's loads of both builds. Its lines say this build ÷ that one.
function besideBefore({ name, loads, ...group }) {
  const pairs = KEPT[name].flatMap((load) => [
    [load, loads[load]], [`${load}, before`, { ...loads[load], server: "tally-before" }],
  ]);
  const lines = KEPT[name].map((load) => ({
    name: `${load} ÷ before`, of: load, figure: "rate_s", to: `${load}, before`, target: { least: 0.97 },
  }));
  return { ...group, name: `before-${name}`, loads: Object.fromEntries(pairs), lines };
}

/** What is measured. With BENCH_BEFORE that is this build beside the other, and nothing else. */
export const GROUPS = process.env.BENCH_BEFORE
  ? ALL_GROUPS.filter(({ name }) => name in KEPT).map(besideBefore)
  : ALL_GROUPS;
