// The overview: what was counted in a range, of all counters or of those of a prefix: how much, when, which have most,
// from where.
//
// Invariant: all numbers are of one range, and those of counters of one answer, so that they add up.
import { Failure, json } from "./api.js";
import { Bars } from "./bars.js";
import { Breakdowns, breakdownPath, whereWords, windowWords } from "./breakdowns.js";
import { Comparison, comparedTimes, comparedValueTimes, timesWords, totalRow } from "./changes.js";
import { Chart } from "./chart.js";
import { refusalOf } from "./counter.js";
import { el, nameForm, notice, setText } from "./dom.js";
import { beforeRows, exportButtons, pointRows } from "./export.js";
import { freshness, truthOf } from "./freshness.js";
import { Headline, fact } from "./headline.js";
import { compared, countedDays, historyOf, partOf, pointsBefore, prefixPath } from "./history.js";
import { repeat } from "./idle.js";
import { count, whole } from "./numbers.js";
import { rangeBar } from "./range-bar.js";
import { during, historyQuery, openingRange, rangeOf } from "./ranges.js";
import { counterHash, countersHash, overviewHash, sharesHash } from "./routes.js";
import { sharedPrefix } from "./share.js";

const TOP = 10;
// Where more are asked for: what one answer holds.
const TOP_OPEN = 100;
const PAUSE_MS = 30_000;
// A first count should show soon.
const EMPTY_MS = 2_000;
// What came before and what came from where is asked for with each fourth look.
const SLOW = 4;

const nowSeconds = () => Math.floor(Date.now() / 1000);

/**
 * Returns the prefix of the next folder of an id below a prefix: "/blog/" of "/blog/a"; undefined where it has none.
 */
export function folderOf(id, prefix) {
  const end = id.indexOf("/", Math.max(prefix.length, 1));
  return end === -1 || end + 1 === id.length ? undefined : id.slice(0, end + 1);
}

/** Returns what the rows of a top are called. */
function topTitle(rows) {
  return rows.length > 0 && rows.every(({ id }) => id.startsWith("/")) ? "Top pages" : "Top counters";
}

/** Shows the overview in `main`; `status` is the chip of the page. Returns a function that ends it. */
export function showOverview(main, route, status) {
  const stopped = new AbortController();
  const frame = overviewFrame(main, route, stopped.signal);
  let end = () => {};
  const begin = async () => {
    let { range } = route;
    try {
      range ??= openingRange(await countedDays(prefixPath(route.prefix), nowSeconds(), stopped.signal), nowSeconds());
    } catch (error) {
      if (stopped.signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      // What is wrong is told by what comes next.
      range = "today";
    }
    if (route.range === undefined) history.replaceState(null, "", overviewHash({ ...route, range }));
    frame.placeRanges(rangeBar({ ...route, range }, range));
    end = follow(frame, { ...route, range }, status, stopped.signal);
  };
  begin();
  return () => {
    stopped.abort();
    end();
    frame.chart.close();
  };
}

/** Returns the form that chooses a prefix, with a way back to all. */
function prefixForm({ prefix, range }) {
  const only = sharedPrefix();
  const all = el("a", { href: overviewHash({ prefix: only, range }) }, only === undefined ? "All" : `All of ${only}`);
  return nameForm(
    {
      id: "prefix", label: "Only names that begin with", value: prefix, placeholder: "/blog/", button: "Show",
      submit: (name) => (location.hash = overviewHash({ prefix: name, range })),
    },
    prefix === (only ?? "") ? undefined : all,
    only === undefined ? el("a", { href: sharesHash({ prefix }) }, "Share") : undefined,
  );
}

/** What stands on the page: the parts that are filled later. */
function overviewFrame(main, route, signal) {
  const { prefix } = route;
  const counters = el("p", { class: "fact" }, "–");
  const { promise: first, resolve: arrive } = Promise.withResolvers();
  const truth = el("p", { class: "sub truth" });
  const frame = {
    chart: new Chart(),
    headline: new Headline(fact("Counters", counters)),
    counters,
    truth,
    trouble: el("div", { class: "trouble" }),
    shown: undefined,
    rows: TOP,
    arrive,
    comparison: new Comparison(signal),
    body: el("div", {}),
    breakdowns: new Breakdowns(prefixPath(prefix), "site", signal, (range, by, value) =>
      overviewHash({ prefix, range: range.name, where: { by, value } }),
    ),
    placeRanges: (bar) => ranges.replaceChildren(bar),
  };
  const ranges = el("div", { class: "range-place" });
  const all = el("a", { class: "sub", href: countersHash({ prefix, order: "value" }) }, "All");
  const exported = exportButtons(first, () => exportOf(frame, route));
  // One value has no history at whose head they could stand.
  frame.top = new Bars("top", "Top counters", { head: route.where === undefined ? all : [all, exported] });
  const history = el(
    "section",
    { class: "panel wide", "aria-labelledby": "history-title" },
    el(
      "div", { class: "head" }, el("h2", { id: "history-title", class: "label" }, "Over time"),
      route.where === undefined ? exported : undefined,
    ),
    frame.trouble,
    frame.chart.node,
  );
  const filter =
    route.where &&
    el(
      "p", { class: "where" }, el("bdi", {}, whereWords(route.where)), " ",
      el("a", { href: overviewHash({ prefix, range: route.range }), "data-keep": "" }, "Show all"),
    );
  frame.panels = el("div", { class: "panels" }, frame.headline.node, history, frame.top.node, frame.breakdowns.node);
  frame.history = history;
  frame.headline.node.append(truth);
  main.replaceChildren(
    el("div", { class: "title" }, el("h1", { tabindex: "-1" }, prefix === "" ? "Overview" : el("bdi", {}, prefix))),
    el("div", { class: "filters" }, ranges, prefixForm(route)),
    ...(filter === undefined ? [] : [filter]),
    frame.body,
  );
  setText(truth, "Loading …");
  frame.body.replaceChildren(el("p", { class: "sub", role: "status" }, "Loading …"));
  return frame;
}

/** Asks again and again, and shows what is told. Returns a function that ends it. */
function follow(frame, route, status, signal) {
  const path = prefixPath(route.prefix);
  let looks = 0;
  let before = [];
  let compared_rows;
  let isEmpty = false;
  let last_contact_ms = Date.now();
  const look = async () => {
    const requested = rangeOf(route.range, nowSeconds());
    // Rows that were just asked for are compared too.
    const isSlow = looks % SLOW === 0 || compared_rows !== frame.rows;
    compared_rows = frame.rows;
    try {
      if (route.where !== undefined) {
        const answer = await showValue(frame, route, requested, status, signal);
        last_contact_ms = Date.now();
        looks += 1;
        if (isSlow) await compareValue(frame, route, requested, answer);
        frame.arrive();
        return;
      }
      const { history, range } = await historyOf(path, requested, signal, `&top=${frame.rows}`);
      last_contact_ms = Date.now();
      isEmpty = history.counters === 0 && !history.missing_partitions;
      if (isEmpty) return empty(frame, route, status);
      if (frame.body.firstChild !== frame.panels) frame.body.replaceChildren(frame.panels);
      if (isSlow) before = await pointsBefore(path, range, signal);
      show(frame, route, range, history, before);
      tellTruth(frame, history, status);
      looks += 1;
      if (!isSlow) return;
      await frame.breakdowns.refresh(range);
      await compareTop(frame, route, path, range, history);
      await frame.breakdowns.compare(range);
      frame.arrive();
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      if (error.status >= 400 && error.status < 500) {
        status({ tone: "none", text: error.wantsKey ? "key needed" : "not shown" });
        return frame.body.replaceChildren(refusalOf(error, ""));
      }
      const silent_ms = Date.now() - last_contact_ms;
      status(freshness({ connection: "offline", reading: looks > 0 ? {} : undefined, silent_ms }));
      if (looks === 0) {
        frame.body.replaceChildren(notice("The service cannot be reached", "This page tries again every few seconds."));
      }
    }
  };
  const loop = repeat(look, () => (isEmpty || looks === 0 ? EMPTY_MS : PAUSE_MS));
  frame.open = () => {
    frame.rows = TOP_OPEN;
    loop.again();
  };
  return loop.stop;
}

function tellTruth(frame, answer, status) {
  const missing = (answer.missing_partitions ?? []).map((partition) => `partition ${partition} of the directory`);
  // Counters that are left out are told of by themselves.
  const staleness_ms = missing.length > 0 || answer.omitted ? 0 : answer.staleness_ms;
  const reading = { exact: answer.exact, staleness_ms, unreachable: missing };
  status(freshness({ connection: "polling", reading }));
  const clock = new Date(Date.now() - staleness_ms).toLocaleTimeString("en-GB");
  const truth = truthOf({ connection: "polling", reading, clock });
  frame.truth.dataset.tone = truth.tone;
  setText(frame.truth, truth.text);
  setText(
    frame.trouble,
    omittedWords(answer.omitted) ??
      (answer.exact || answer.staleness_ms < 3_000 ? "" : "Some parts did not answer. Their counts are missing here."),
  );
}

/** Returns what is said of counters that were too many to ask; undefined where all were asked. */
function omittedWords(omitted) {
  if (!omitted) return undefined;
  const { counters, count_max, each_max } = omitted;
  return `These are too many counters to read all: ${count(counters)} small ones are not in the numbers above. Each counted at most ${count(each_max)}, all of them together at most ${count(count_max)}. Choose a prefix to see them.`;
}

function show(frame, route, range, history, before) {
  const totals = compared(range, history.points, before);
  frame.headline.show(range, totals);
  frame.history.hidden = false;
  setText(frame.counters, count(history.counters));
  frame.chart.show(history.points, range, before);
  frame.totals = totals;
  frame.shown = { range, points: history.points, before, top: history.top, total: totals.count };
  showTop(frame, route);
}

/** Asks for what the top is compared with, and shows how each row changed. */
async function compareTop(frame, route, path, range, history) {
  const times = comparedTimes(range);
  const topOf = ({ step, from, until }, rows) =>
    `${path}/${historyQuery({ step, from, to: until }, `&zeros=0&top=${rows}`)}`;
  const own = times?.now.until === range.until ? history : undefined;
  frame.changes = (await frame.comparison.between(times, topOf, own))?.of;
  showTop(frame, route);
}

function showTop(frame, route) {
  const { range, top: rows, total } = frame.shown;
  const { words } = range;
  frame.top.entitle(topTitle(rows));
  if (rows.length === 0) {
    return frame.top.tell(
      el(
        "p", {}, `Nothing was counted ${during(words)}. `,
        el("a", { href: overviewHash({ prefix: route.prefix, range: "all" }) }, "Show all time"),
      ),
    );
  }
  const rest = whole(total) - rows.reduce((sum, row) => sum + whole(row.count), 0n);
  frame.top.show(
    rows.map(({ id, count: amount }) => {
      const folder = folderOf(id, route.prefix);
      const filter =
        folder === undefined
          ? undefined
          : {
              href: overviewHash({ prefix: folder, range: route.range }), text: "only",
              label: `Only names that begin with ${folder}`,
            };
      return {
        key: id, name: id, isId: true, count: amount, href: counterHash(id, route.range), filter,
        change: frame.changes?.(id),
      };
    }),
    total,
    [rest > 0n ? `${count(rest)} in other counters.` : "", frame.compared].filter(Boolean).join(" "),
    rest > 0n && rows.length === TOP ? frame.open : undefined,
  );
}

/**
 * One value of a dimension: how much of it was counted, and by which counters. Values have no history, and no other
 * dimensions.
 */
async function showValue(frame, route, range, status, signal) {
  const answer = await json(valuePath(route, range, frame.rows), signal);
  if (frame.body.firstChild !== frame.panels) frame.body.replaceChildren(frame.panels);
  frame.history.hidden = true;
  frame.breakdowns.node.replaceChildren();
  frame.totals = { ...frame.totals, count: whole(answer.total) };
  frame.headline.show(range, frame.totals);
  // The answer says how many were asked, not how many have the value.
  const hasMore = answer.omitted || whole(answer.other) > 0n;
  setText(frame.counters, `${answer.rows.length}${hasMore ? " or more" : ""}`);
  frame.shown = { range, window: answer.window, points: [], before: [], top: answer.rows, total: answer.total };
  showTop(frame, route);
  tellTruth(frame, answer, status);
  const error = whole(answer.error) > 0n ? ` It may be up to ${count(answer.error)} more: a counter knows 1,000 values by name.` : "";
  setText(frame.trouble, "");
  setText(frame.truth, `${frame.truth.textContent} ${windowWords(range, answer.window)} It has no chart and no other dimensions here: each dimension is counted by itself, by the hour and day.${error}`);
  return answer;
}

const valuePath = ({ prefix, where }, range, rows) => `${breakdownPath(prefixPath(prefix), where.by, range, rows)}&value=${encodeURIComponent(where.value)}`;

/** Asks for what one value is compared with, and shows how it and each row changed. */
async function compareValue(frame, route, range, own) {
  const times = comparedValueTimes(range);
  const found = await frame.comparison.between(times, (time, rows) => valuePath(route, time, rows), own);
  frame.changes = found?.of;
  frame.compared = found === undefined ? "" : timesWords(range, times);
  showTop(frame, route);
  const isSure = (answer) => answer !== undefined && whole(answer.error) === 0n && !answer.omitted;
  const [now, before] = [whole(found?.now.total), whole(found?.before.total)];
  const isBoth = isSure(found?.now) && isSure(found.before);
  frame.totals = { count: whole(own.total), ...(isBoth ? { now, before, part: partOf(now, before) } : {}) };
  frame.headline.show(range, frame.totals);
}

function empty(frame, { prefix }, status) {
  status({ tone: "none", text: "no counters" });
  const first = el("pre", {}, el("code", {}, `curl -X POST ${location.origin}/counters/hello/increment`));
  const log = el("pre", {}, el("code", {}, `curl --data-binary @access.log '${location.origin}/ingest?format=clf&id=path&unique=ip'`));
  frame.body.replaceChildren(
    prefix === ""
      ? notice(
          "Nothing has been counted yet", "The first write creates a counter. It then appears here:", first,
          "Or import an access log, however old:", log,
        )
      : notice(
          "No counter has a name that begins so", "Upper and lower case differ.",
          el("p", {}, el("a", { href: overviewHash({ prefix: sharedPrefix() }) }, "All counters")),
        ),
  );
}

function exportOf(frame, { prefix, where }) {
  const { range, window, points, before, top } = frame.shown;
  const times = where === undefined ? comparedTimes(range) : comparedValueTimes(range);
  return {
    file: `tally-${prefix || "all"}-${range.name}`,
    what: { prefix, where },
    from: window?.starts_at == null ? range.from : window.starts_at / 1_000,
    to: window?.starts_at == null ? range.until : window.ends_at / 1_000,
    rows: [
      totalRow(frame.totals, times),
      ...top.map(({ id, count: amount }) => ({
        section: "top", name: id, count: whole(amount), ...frame.changes?.(id)?.columns,
      })),
      ...frame.breakdowns.rows, ...pointRows(points, range.step_seconds), ...beforeRows(range, before),
    ],
  };
}
