// What the dashboard says of the truth of a number, of addresses, and of limiters.
import assert from "node:assert/strict";
import { test } from "node:test";
import { datacenterList, freshness, truthOf, unreachable } from "../../dashboard/freshness.js";
import { RANGES } from "../../dashboard/ranges.js";
import { counterHash, countersHash, overviewHash, parseRoute, rowHash } from "../../dashboard/routes.js";
import { lookColumns, ratesBetween, verdictsOf, withLook } from "../../dashboard/verdicts.js";

const exact = { exact: true, staleness_ms: 3, unreachable: [] };

test("exact is said only of an exact answer by a connection that is up", () => {
  for (const connection of ["live", "polling", "connecting", "offline"]) {
    for (const reading of [
      undefined,
      exact,
      { ...exact, exact: false },
      { ...exact, unreachable: ["SYD"] },
      { ...exact, exact: false, staleness_ms: 9_000 },
    ]) {
      const { text, tone } = freshness({ connection, reading, silent_ms: 12_000 });
      const may = ["live", "polling"].includes(connection) && reading === exact;
      assert.equal(/exact/.test(text), may, text);
      assert.equal(
        tone === "good",
        ["live", "polling"].includes(connection) &&
          (reading === exact || (reading?.staleness_ms === 3 && reading.unreachable.length === 0)),
        text,
      );
    }
  }
});

test("what is missing is named, with its age", () => {
  const reading = { exact: false, staleness_ms: 3_200, unreachable: ["SYD"] };
  assert.deepEqual(freshness({ connection: "live", reading }), { tone: "bad", text: "stale 3.2 s · SYD unreachable" });
  assert.deepEqual(
    freshness({ connection: "live", reading: { ...reading, unreachable: ["A", "B", "C", "D"] } }).text,
    "stale 3.2 s · A, B, C … unreachable",
  );
  assert.match(truthOf({ connection: "live", reading, clock: "14:00:00" }).text, /^SYD does not answer/);
  assert.equal(freshness({ connection: "offline", reading, silent_ms: 12_000 }).text, "offline · last seen 12 s ago");
  assert.equal(freshness({ connection: "offline" }).text, "offline");
  assert.match(truthOf({ connection: "offline", reading: exact, clock: "14:00:00" }).text, /cannot be reached/);
});

test("datacenters come as a list or by name", () => {
  const list = [
    { id: "FRA", value: 1, reachable: true },
    { id: "SYD", value: 2, reachable: false },
  ];
  const named = { FRA: { value: 1, reachable: true, as_of: 4_000 }, SYD: { value: 2, reachable: false, as_of: 1_000 } };
  assert.deepEqual(datacenterList(named, 4_100), [
    { ...list[0], as_of: 4_000, staleness_ms: 100 },
    { ...list[1], as_of: 1_000, staleness_ms: 3_100 },
  ]);
  assert.equal(datacenterList(list), list);
  assert.deepEqual(unreachable(list), ["SYD"]);
  assert.deepEqual(datacenterList(undefined), []);
});

test("every id survives its address, and nothing else is taken for one", () => {
  for (const id of ["a", "/", "a/b?c#d", "<script>", "100%", "%41", "…", "שלום", " ", "?range=day", "x".repeat(512)]) {
    for (const range of Object.keys(RANGES)) {
      const route = parseRoute(counterHash(id, range));
      assert.deepEqual([route.view, route.id, route.range], ["counter", id, range]);
    }
  }
  for (const hash of ["", "#", "#/", "#/counter/", "#/counter/%", "#/nothing", "#main"])
    assert.equal(parseRoute(hash).view, "overview");
  assert.equal(parseRoute("#/limits").view, "limits");
  assert.equal(parseRoute("#/limits").id, undefined);
  const policy = parseRoute("#/limits/login");
  assert.deepEqual([policy.view, policy.id, policy.unknown], ["limits", "login", undefined]);
  for (const view of ["keys", "alerts"]) {
    const row = parseRoute(rowHash(view, "a/ü"));
    assert.deepEqual([row.view, row.id, parseRoute(`#/${view}`).id, row.unknown], [view, "a/ü", undefined, undefined]);
  }
  const route = parseRoute(countersHash({ prefix: "a&b=c/", order: "value" }));
  assert.deepEqual([route.view, route.prefix, route.order, route.unknown], ["counters", "a&b=c/", "value", undefined]);
  const overview = parseRoute(overviewHash({ prefix: "a&b=c/", range: "2015-05-17..2015-05-20" }));
  assert.deepEqual([overview.view, overview.prefix, overview.range], ["overview", "a&b=c/", "2015-05-17..2015-05-20"]);
});

test("lengths are known as people write them, and what is not known is said", () => {
  const lengths = {
    "15m": "minutes", "1h": "hour", "24h": "today", "1d": "today", "7d": "week", "30d": "days", month: "month",
  };
  for (const [length, range] of Object.entries(lengths)) {
    const route = parseRoute(`#/counter/a?range=${length}`);
    assert.deepEqual([route.range, route.unknown], [range, undefined], length);
  }
  assert.equal(parseRoute("#/counter/a").range, undefined);
  const wrong = ["8d", "toString", "", "2015-02-30..2015-03-01", "2015-05-20..2015-05-17", "2015-05-17.."];
  for (const name of wrong) {
    const route = parseRoute(`#/counter/a?range=${name}`);
    assert.deepEqual([route.id, route.range], ["a", undefined]);
    assert.match(route.unknown, /^There is no range .*\. Known: minutes, hour, today, .*2025-01-31\.\.2025-02-28\.$/);
  }
  assert.equal(
    parseRoute("#/?range=2930-01-01..2930-01-02").unknown, "The range 2930-01-01..2930-01-02 has not begun.",
  );
  const long = parseRoute("#/counter/a?range=1980-01-01..2015-01-01");
  assert.deepEqual([long.range, long.unknown], [undefined, "The range 1980-01-01..2015-01-01 has 12,785 days: 9,999 are shown at most."]);
  assert.match(parseRoute("#/?order=toString").unknown, /^There is no order toString/);
  for (const hash of ["#/counter/", "#/counter/%", "#/nothing", "#main"]) {
    assert.match(parseRoute(hash).unknown, /^There is no view #/);
  }
  for (const hash of ["", "#", "#/", "#/?prefix=a"]) assert.equal(parseRoute(hash).unknown, undefined);
});

const METRICS = `# HELP tally_limit_checks_total Checks
tally_start_time_seconds{worker="edge"} 1000
tally_start_time_seconds{worker="aggregator"} 900
tally_limit_checks_total{verdict="allowed"} 7
tally_limit_checks_total{verdict="refused"} 2
tally_limit_checks_total{verdict="error"} 0
`;

test("verdicts are those of one isolate, and two isolates are never compared", () => {
  const verdicts = verdictsOf(METRICS);
  assert.deepEqual(verdicts, { allowed: 7, refused: 2, error: 0, started_s: 1000 });
  assert.equal(verdictsOf("nothing 1\n"), undefined);
  const later = { at_ms: 2_000, verdicts: { ...verdicts, allowed: 11 } };
  assert.deepEqual(ratesBetween({ at_ms: 0, verdicts }, later), { allowed: 2, refused: 0, error: 0 });
  assert.equal(ratesBetween(undefined, later), undefined);
  assert.equal(ratesBetween({ at_ms: 0, verdicts: { ...verdicts, started_s: 999 } }, later), undefined);
  assert.equal(ratesBetween({ at_ms: 0, verdicts: { ...verdicts, allowed: 99 } }, later), undefined);
});

test("verdicts of the whole deployment go before those of one isolate, and are not compared with them", () => {
  const all = verdictsOf(`${METRICS}tally_fleet_limit_checks_total{verdict="allowed"} 70\ntally_fleet_limit_checks_total{verdict="refused"} 20\ntally_fleet_age_seconds 3.5\n`);
  assert.deepEqual(all, { allowed: 70, refused: 20, error: 0, age_s: 3.5 });
  const later = { at_ms: 2_000, verdicts: { ...all, allowed: 74, age_s: 0.1 } };
  assert.deepEqual(ratesBetween({ at_ms: 0, verdicts: all }, later), { allowed: 2, refused: 0, error: 0 });
  assert.equal(ratesBetween({ at_ms: 0, verdicts: verdictsOf(METRICS) }, later), undefined);
});

test("looks that cannot be compared are gaps, and only the newest are kept", () => {
  const rates = (allowed, refused) => ({ allowed, refused, error: 0 });
  const looks = [undefined, rates(1, 0), undefined, rates(4, 9)].reduce((kept, look) => withLook(kept, look, 3), []);
  assert.deepEqual(lookColumns(looks), { allowed: [1, null, 4], refused: [0, null, 9], top: 9 });
  assert.deepEqual(lookColumns([undefined]), { allowed: [null], refused: [null], top: 0 });
});
