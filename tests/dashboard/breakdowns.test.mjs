// What came from where: where rows lead, of which time they are, and what is not shown.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  breakdownRows, exportRows, noneWords, pageScript, restWords, shownDimensions, unshownWords, whereWords,
} from "../../dashboard/breakdowns.js";
import { csvOf, jsonOf, pointRows } from "../../dashboard/export.js";
import { rangeOf } from "../../dashboard/ranges.js";

process.env.TZ = "Europe/Berlin";
const DAY = 86_400;
const NOW = Date.UTC(2026, 10, 27, 6, 10) / 1000;
const answer = (window, rows = [{ value: "a.example", count: 3 }]) => ({ window, rows, other: { count: 0 }, none: 0 });

test("a row leads where its view says, and never to a counter that nobody has seen", () => {
  const breakdown = answer(null, [{ value: "/a", count: 3 }]);
  assert.deepEqual(breakdownRows("page", breakdown).map(({ href }) => href), [undefined]);
  const leads = (by, value) => `${by}:${value}`;
  assert.deepEqual(breakdownRows("page", breakdown, leads).map(({ href }) => href), ["page:/a"]);
});

test("a name with marks stays within its attribute of the script that is offered", () => {
  const script = pageScript("https://tally.example", "a&amp;'><script src=//b.example>");
  assert.match(script, / data-id='a&#38;amp;&#39;>&#60;script src=\/\/b\.example>' data-by=/);
  assert.match(pageScript("https://tally.example", "site/a"), / data-id='site\/a' data-by=/);
});

test("values that nobody would see are a word", () => {
  const breakdown = answer(null, [" ", "\u202e", "\u3000", "a b"].map((value) => ({ value, count: 1 })));
  const names = breakdownRows("campaign", breakdown).map(({ name }) => name);
  assert.deepEqual(names, ["(blank)", "(blank)", "(blank)", "a b"]);
  assert.equal(whereWords({ by: "referrer", value: " " }), "Referrers: (blank)");
});

test("values of days of UTC say so where the range is of days of another zone", () => {
  const range = rangeOf("2026-10-01..2026-10-03", NOW);
  const window = { starts_at: Date.UTC(2026, 8, 30), ends_at: Date.UTC(2026, 9, 4) };
  assert.equal(restWords("referrer", answer(window), range), "Of 30 Sept 2026 to 3 Oct 2026, by UTC: older values are kept by the day of UTC.");
  const month = rangeOf("month", NOW);
  const since = { starts_at: Date.UTC(2026, 9, 31), ends_at: (NOW + 3) * 1_000 };
  assert.equal(restWords("referrer", answer(since), month), "Of 31 Oct 2026 to 27 Nov 2026, by UTC: older values are kept by the day of UTC.");
});

test("values of hours say so where the range is of minutes", () => {
  const range = rangeOf("minutes", NOW);
  const window = { starts_at: (range.from - (range.from % 3_600)) * 1_000, ends_at: (NOW + 1) * 1_000 };
  assert.match(restWords("referrer", answer(window), range), /^Of 27 Nov 2026, 06:00 to 27 Nov 2026, 07:10: values are kept by the hour\.$/);
});

test("values of the range itself say nothing", () => {
  const range = rangeOf("today", NOW);
  assert.equal(restWords("referrer", answer({ starts_at: range.from * 1_000, ends_at: (NOW + 2) * 1_000 }), range), "");
  assert.equal(restWords("referrer", answer({ starts_at: null, ends_at: (NOW + 1) * 1_000 }), rangeOf("all", NOW)), "");
});

test("an export tells of each row of which time it is", () => {
  const rows = [
    ...exportRows(new Map([["referrer", answer({ starts_at: 0, ends_at: DAY * 1_000 })]])),
    ...pointRows(
      [
        [3_600, 2], [7_200, null],
      ],
      3_600,
    ),
    { section: "top", name: "=a", count: 1 },
  ];
  const whole = { what: {}, from: 3_600, to: 7_200, rows };
  assert.equal(
    csvOf(whole),
    [
      "section,name,count,from,to",
      "referrer,a.example,3,1970-01-01T00:00:00.000Z,1970-01-02T00:00:00.000Z",
      "history,1970-01-01T01:00:00.000Z,2,1970-01-01T01:00:00.000Z,1970-01-01T02:00:00.000Z",
      "top,'=a,1,1970-01-01T01:00:00.000Z,1970-01-01T02:00:00.000Z",
      "",
    ].join("\r\n"),
  );
  assert.deepEqual(JSON.parse(jsonOf(whole)).rows[0], {
    section: "referrer", name: "a.example", count: 3, from: 0, to: DAY,
  });
});

test("dimensions without a panel are named", () => {
  const has = [..."abcdefghi"].concat("referrer");
  const [shown, others] = shownDimensions(has);
  assert.deepEqual(shown, ["referrer", ..."abcdefg"]);
  assert.match(unshownWords(others), /^2 more dimensions have no panel here: h, i\./);
  assert.equal(unshownWords([]), "");
});

test("dimensions that have nothing in the range are named together", () => {
  const range = rangeOf("yesterday", NOW);
  assert.equal(noneWords(["page", "status", "own"], range), "None yesterday: Pages, Status codes, own.");
  assert.equal(noneWords([], range), "");
});
