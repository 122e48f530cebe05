// What is read of the fixture, and for how long each read must be answered as it was recorded.
//
// Invariants: what must hold longest has no time in it: sums, settings, sketches of all time, windows and histories of
// days that are over. What is let go by age says after how many days, by the promise in the README. Moments of the read
// itself are never compared. `exact: false` promises nothing, so a build may know better; `exact: true` must stay true.
import assert from "node:assert/strict";

/** No build may ever answer otherwise. */
const ALWAYS = null;
// Days after the recording: an hour for what is let go within a day.
const AN_HOUR = 0.04;
/** Keys are known again for a day. */
export const KEYS_KEPT = 1;
const UNIQUES_BY_HOURS_KEPT = 6;
// The oldest samples and elements that are read are 50 days old.
const SAMPLES_KEPT = 90 - 51;
const UNIQUES_BY_DAYS_KEPT = 400 - 51;
const TIME_TO_LIVE = 126_230_400 / 86_400 - 51;
// The windows of limits are of 30 days, and nothing of them was consumed on an earlier day.
const LIMITS_KEPT = 29;

const BOARDS_OF_A_DAY = AN_HOUR;
const SHARE_KEPT = 364;
const BREAKDOWN_HOURS_KEPT = AN_HOUR;

const DAY_SECONDS = 86_400;
const second = (text) => Date.parse(text) / 1_000;
const OCTOBER = second("2026-10-01T00:00:00Z");
const MAY = second("2015-05-17T00:00:00Z");
const TODAY = second("2026-11-20T00:00:00Z");
const NOON = second("2026-11-20T12:00:00Z");

const IDS = [
  ...[
    "plain", "world", "shards", "sealed", "samples", "uniques/keyed", "uniques/dense", "uniques/redis",
    "uniques/imported",
  ],
  ...[
    "visitors", "/log/a", "/log/b", "large", "negative", "deleted", "again", "set", "reset", "home", "floor", "match",
    "keys", "seconds",
  ],
  ...["ended", "operations", "ttl/over", "queued/full", "none"],
];

const counter = (id, call = "") => `/counters/${encodeURIComponent(id)}${call}`;
const strong = (id, more = "") => `${counter(id)}?consistency=strong&numbers=string${more}`;
const history = (id, step, from, to) => `${counter(id, "/history")}?step=${step}&from=${from}&to=${to}`;
// A whole day in UTC, which is told to the day once it is more than a week ago.
const day = (first, days = 1) => `&window=${days * DAY_SECONDS}&at=${first + days * DAY_SECONDS - 1}`;

const BOARDS = [
  ...[
    "/members?limit=20", "/members/m3", "/members?around=m3&limit=2", "/members/m1", "/members/m2",
    "/members?rank=2&limit=1", "/members?min=5&max=20", "",
  ].map((call) => [`/boards/race${call}`, ALWAYS, "FRA"]),
  ["/boards/spread/members?limit=20", ALWAYS, "IAD"],
  ["/boards/spread/members/m7?consistency=strong", ALWAYS, "IAD"],
  ["/boards/laps?include=periods", BOARDS_OF_A_DAY],
  [`/boards/laps/members?period=${OCTOBER}`, ALWAYS],
  ["/boards/laps/members?limit=10", BOARDS_OF_A_DAY],
  ["/boards/empty", ALWAYS],
  ["/boards/gone/members", ALWAYS],
  ["/boards?prefix=", ALWAYS],
];

/** The reads: [path, days for which it must be answered so, datacenter]. */
export const READS = [
  ...IDS.map((id) => [strong(id), ALWAYS]),
  ...["ttl/fixed", "ttl/sliding"].map((id) => [strong(id), TIME_TO_LIVE]),
  [strong("world", "&datacenter=IAD"), ALWAYS],
  [strong("shards", "&datacenter=FRA"), ALWAYS],
  [strong("world", `&window=86400&at=${OCTOBER + DAY_SECONDS - 1}`), UNIQUES_BY_DAYS_KEPT],
  [strong("uniques/keyed", day(OCTOBER)), UNIQUES_BY_DAYS_KEPT],
  [strong("uniques/keyed", day(OCTOBER, 50)), UNIQUES_BY_DAYS_KEPT],
  [strong("uniques/dense", day(OCTOBER)), UNIQUES_BY_DAYS_KEPT],
  [strong("uniques/keyed", `&window=3600&at=${NOON - 1}`), UNIQUES_BY_HOURS_KEPT],
  [strong("uniques/keyed", `&window=120&at=${NOON - 1}`), AN_HOUR],
  [strong("world", `&window=7200&at=${NOON - 1}`), AN_HOUR],
  [`${counter("plain")}?consistency=strong&window=${50 * DAY_SECONDS}&at=${TODAY - 1}`, UNIQUES_BY_DAYS_KEPT],
  ...["plain", "world", "shards", "set"].flatMap((id) => [
    [history(id, "1d", OCTOBER, TODAY + DAY_SECONDS), ALWAYS],
    [history(id, "1h", OCTOBER + 36_000, OCTOBER + 43_200), ALWAYS],
    [history(id, "1h", TODAY, TODAY + DAY_SECONDS - 1), ALWAYS],
  ]),
  // From 10:58:20 to 11:03:20, seconds that left memory a day later.
  [history("seconds", "1s", OCTOBER + 39_500, OCTOBER + 39_800), ALWAYS],
  [history("plain", "1m", NOON - 120, NOON + 60), AN_HOUR],
  [history("/log/a", "1d", MAY, MAY + 4 * DAY_SECONDS), ALWAYS],
  [history("/log/b", "1h", MAY, MAY + 2 * DAY_SECONDS), ALWAYS],
  [`${counter("samples", "/distribution")}?consistency=strong&window=7200&at=${OCTOBER + 43_199}`, SAMPLES_KEPT],
  [`${counter("samples", "/distribution")}?consistency=strong&window=${50 * DAY_SECONDS}&at=${TODAY - 1}`, SAMPLES_KEPT],
  [`${counter("samples", "/distribution")}?consistency=strong&datacenter=IAD&window=7200&at=${NOON - 1}`, AN_HOUR],
  ["/uniques?consistency=strong&id=world&id=uniques%2Fkeyed", ALWAYS],
  ["/uniques?consistency=strong&id=uniques%2Fkeyed&id=keys&op=intersection", ALWAYS],
  ["/uniques?consistency=strong&id=uniques%2Fredis&id=uniques%2Fimported", ALWAYS],
  ["/uniques?consistency=strong&id=uniques%2Fredis&id=world", ALWAYS],
  ["/uniques?id=uniques%2Fredis&format=hll&consistency=strong", ALWAYS],
  ["/uniques?id=uniques%2Fimported&format=hll&consistency=strong", ALWAYS],
  ["/uniques?id=uniques%2Fkeyed&format=hll", ALWAYS],
  ["/counters?prefix=uniques%2F&limit=10", ALWAYS],
  ["/counters?prefix=ttl%2F", TIME_TO_LIVE],
  ["/counters?prefix=&limit=11", ALWAYS],
  ["/counters/uniques*/aggregate?numbers=string", ALWAYS],
  ["/counters/%2Flog%2F*/aggregate?numbers=string", ALWAYS],
  ["/api/dead-letters?numbers=string", ALWAYS],
  ["/limits", ALWAYS],
  ...["sliding", "precise", "fixed", "bucket", "world", "committed", "shadow", "gone"].map((name) => [
    `/limits/${name}`, ALWAYS,
  ]),
  ...["sliding", "precise", "committed"].map((name) => [`/limits/${name}/bob`, LIMITS_KEPT]),
  // A window of the clock ends on 3 December. A bucket refills: one in 43 minutes.
  ["/limits/fixed/bob", 12],
  ["/limits/bucket/bob", AN_HOUR / 4],
  ["/limits/shadow/bob", LIMITS_KEPT],
  ["/limits/sliding/ann", LIMITS_KEPT, "IAD"],
  ["/limits/sliding/ann", LIMITS_KEPT, "SYD"],
  ["/limits/precise/used-up", LIMITS_KEPT],
  ...BOARDS,
  ...[
    "GET/redis:text", "GET/redis:passing", "HGETALL/redis:hash", "SMEMBERS/redis:set", "GET/redis:number",
    "GET/redis:ended",
  ].map((command) => [`/redis/${command}`, command.includes("passing") ? 3_600 : ALWAYS]),
  ...["ZRANGE/redis:sorted/0/-1/WITHSCORES", "PFCOUNT/redis:hll", "GET/redis:orders"].map((command) => [
    `/redis/${command}`, ALWAYS,
  ]),
  [counter("site", `/breakdown?consistency=strong&by=referrer&from=${OCTOBER}&to=${TODAY}`), UNIQUES_BY_DAYS_KEPT],
  [counter("site", `/breakdown?consistency=strong&by=site&from=${TODAY}&to=${NOON - 1}`), BREAKDOWN_HOURS_KEPT],
  ["/shares", SHARE_KEPT],
  ["/keys", ALWAYS],
  ["/counters?prefix=uniques%2F&values=1&limit=20", ALWAYS],
  ["/top?prefix=uniques%2F&by=count&limit=5", ALWAYS],
];

// What is of the moment of the read, and what follows from it.
const OF_THE_MOMENT = new Set([
  "as_of", "staleness_ms", "reset_after_ms", "retry_after_ms", "detail", "title", "type", "instance",
]);

/** Returns of an answer what must hold: its status, and its JSON without what is of the moment, or its bytes. */
export function stableParts({ status, json, bytes }) {
  if (json === undefined) return { status, bytes: bytes.toString("base64") };
  if (status >= 400) return { status, json: { code: json.code } };
  // A board's version rises when a period ends.
  const isOfBoard = (name, value) => name === "version" && String(value).startsWith("b1.");
  const isMoving = (name, value) =>
    OF_THE_MOMENT.has(name) || (name === "kept_from_at" && value !== null) || isOfBoard(name, value);
  const text = JSON.stringify(json, (name, value) => (isMoving(name, value) ? undefined : value));
  return { status, json: JSON.parse(text) };
}

/** Fails where an answer is not what was recorded. A build may add fields. */
export function agrees(now, recorded, at) {
  if (at.endsWith(".exact") && recorded === false) return;
  // Builds before 0.2 never told the directory of more than 128 elements that nobody watched: their lists said that
  // they do not know.
  if (at.endsWith(".uniques") && recorded === null && now !== null) {
    assert.ok(Number.isSafeInteger(now.estimate) && now.standard_error > 0, at);
    return;
  }
  if (Array.isArray(recorded)) {
    assert.equal(now?.length, recorded.length, at);
    recorded.forEach((one, index) => agrees(now[index], one, `${at}[${index}]`));
  } else if (typeof recorded === "object" && recorded !== null) {
    for (const [name, value] of Object.entries(recorded)) agrees(now?.[name], value, `${at}.${name}`);
  } else {
    assert.deepEqual(now, recorded, at);
  }
}
