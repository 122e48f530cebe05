// The view of one counter: what was counted in a range, its value now, where it was counted, by how many.
import { Failure, counterPath, json, key } from "./api.js";
import { Bands } from "./bands.js";
import { Breakdowns } from "./breakdowns.js";
import { comparedTimes, totalRow } from "./changes.js";
import { Chart } from "./chart.js";
import { Days } from "./days.js";
import { el, nameOf, notice, setChip, setText } from "./dom.js";
import { beforeRows, exportButtons, pointRows } from "./export.js";
import { readingOf, watch } from "./feed.js";
import { freshness, truthOf } from "./freshness.js";
import { Headline, fact } from "./headline.js";
import { compared, countedDays, historyOf, pointsBefore } from "./history.js";
import { repeat } from "./idle.js";
import { count, isSafe, rate, short, whole } from "./numbers.js";
import { Places } from "./places.js";
import { rangeBar } from "./range-bar.js";
import { openingRange, rangeOf } from "./ranges.js";
import { counterHash, overviewHash, storageHash } from "./routes.js";
import { sharedPrefix } from "./share.js";
import { Spread } from "./spread.js";

// As far as windows reach: five years.
const WINDOW_SECONDS_MAX = 157_766_400;
const SLOW_MS = 60_000;
// Where somebody looks at a number that moves, its range follows soon.
const SOON_MS = 10_000;
const SECOND_MS = 2_000;
const REFRESH_MS = { minutes: 5_000, hour: 10_000 };

const nowSeconds = () => Math.floor(Date.now() / 1000);

/** Shows a counter in `main`; `status` is the chip of the page. Returns a function that ends it. */
export function showCounter(main, route, status) {
  const stopped = new AbortController();
  const parts = counterParts(main, route, stopped.signal);
  const unwatch = watchNow(parts, route, status);
  let stop = () => {};
  const begin = async () => {
    let { range } = route;
    try {
      range ??= openingRange(await countedDays(counterPath(route.id), nowSeconds(), stopped.signal), nowSeconds());
    } catch (error) {
      if (stopped.signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      // What is wrong is told by what comes next.
      range = "today";
    }
    if (route.range === undefined) history.replaceState(null, "", counterHash(route.id, range));
    parts.ranges.replaceChildren(rangeBar(route, range));
    stop = followRange(parts, { ...route, range }, stopped.signal);
  };
  begin();
  return () => {
    stopped.abort();
    unwatch();
    stop();
    parts.chart.close();
  };
}

/** What stands on the page. */
function counterParts(main, { id, prefix }, signal) {
  const value = el("p", { class: "fact", id: "value" }, "–");
  const perSecond = el("p", { class: "fact" }, "–");
  const updated = el("p", { class: "fact" }, "–");
  const truth = el("p", { class: "sub truth" });
  const trouble = el("div", { class: "trouble" });
  const { promise: first, resolve: arrive } = Promise.withResolvers();
  const parts = { value, perSecond, updated, truth, trouble, reading: undefined, arrive, onSoon: () => {} };
  parts.headline = new Headline(fact("Value", value), fact("Rate", perSecond), fact("Last write", updated));
  parts.headline.node.append(truth);
  parts.ranges = el("div", { class: "range-place" });
  parts.chart = new Chart();
  parts.places = new Places();
  parts.bands = new Bands();
  parts.spread = new Spread(id, signal);
  const up = prefix === "" ? sharedPrefix() : prefix;
  // To the counters that have a value: this one and others.
  parts.breakdowns = new Breakdowns(counterPath(id), id, signal, (range, by, value) =>
    overviewHash({ prefix: up, range: range.name, where: { by, value } }),
  );
  parts.days = new Days(id, signal);
  const exported = exportButtons(first, () => exportOf(parts, id));
  parts.panels = el(
    "div",
    { class: "panels" },
    parts.headline.node,
    el(
      "section",
      { class: "panel wide", "aria-labelledby": "history-title" },
      el("div", { class: "head" }, el("h2", { id: "history-title", class: "label" }, "Over time"), exported),
      trouble,
      parts.chart.node,
    ),
    parts.places.node,
    parts.bands.node,
    parts.spread.node,
    parts.breakdowns.node,
    parts.days.node,
  );
  parts.body = el("div", {}, parts.panels);
  main.replaceChildren(
    el(
      "div",
      { class: "title" },
      el("p", { class: "crumb" }, el("a", { href: overviewHash({ prefix: up }) }, "Overview")),
      el("h1", { tabindex: "-1" }, nameOf(id)),
      el("p", { class: "sub" }, el("a", { href: storageHash(id) }, "How it is stored")),
    ),
    parts.ranges,
    parts.body,
  );
  return parts;
}

/** Follows what the counter says now. Returns a function that ends it. */
function watchNow(parts, { id }, status) {
  let last_contact_ms = Date.now();
  let connection = "connecting";
  let refused = false;
  const refresh = () => {
    const { reading } = parts;
    status(freshness({ connection, reading, silent_ms: Date.now() - last_contact_ms }));
    if (reading === undefined) return;
    const clock = new Date(reading.as_of).toLocaleTimeString("en-GB");
    setChip(parts.truth, truthOf({ connection, reading, clock }));
    if (reading.updated_at) setText(parts.updated, ago(reading.updated_at));
  };
  const onReading = (_, next) => {
    // A counter that was missing is there now: its panels come back.
    if (refused) return dispatchEvent(new Event("hashchange"));
    const { reading } = parts;
    // A stream does not tell when the last write was: one that shows now was just now.
    const isNew = reading !== undefined && whole(reading.value) !== whole(next.value);
    const updated_at = next.updated_at ?? (isNew ? Date.now() : reading?.updated_at);
    parts.reading = {
      ...reading, updated_at, ...Object.fromEntries(Object.entries(next).filter(([, part]) => part !== undefined)),
    };
    if (isNew) parts.onSoon();
    const text = count(parts.reading.value);
    setText(parts.value, text);
    parts.value.classList.toggle("long", text.length > 15);
    parts.value.title = isSafe(parts.reading.value) ? "" : `about ${short(parts.reading.value)}`;
    setText(parts.perSecond, rate(parts.reading.rate));
    parts.places.show(parts.reading.datacenters);
    parts.bands.showAll(parts.reading.uniques);
    refresh();
  };
  const onFailure = (failure) => {
    if (!(failure instanceof Failure)) throw failure;
    refused = true;
    parts.isRefused = true;
    status({ tone: "none", text: failure.wantsKey ? "key needed" : "not shown" });
    parts.ranges.replaceChildren();
    parts.body.replaceChildren(refusalOf(failure, id));
  };
  parts.listener = { onReading, onFailure, onContact: () => (last_contact_ms = Date.now()) };
  const timer = setInterval(refresh, 1_000);
  const unwatch = watch([id], {
    onReading,
    onFailure,
    onContact: parts.listener.onContact,
    onState: (name) => {
      // Back after a break: what was missed is asked for at once.
      if (name !== connection && connection === "offline") parts.onSoon();
      connection = name;
      if (!refused) refresh();
    },
  });
  return () => {
    unwatch();
    clearInterval(timer);
  };
}

/** Follows what was counted in the range. Returns a function that ends it. */
function followRange(parts, route, signal) {
  const path = counterPath(route.id);
  let slow_ms = 0;
  let looks = 0;
  let before = [];
  const look = async () => {
    if (parts.isRefused) return parts.ranges.replaceChildren();
    // The first answers may come from a cache: the second look asks for all of it again.
    looks += 1;
    const isSlow = looks <= 2 || Date.now() - slow_ms >= SLOW_MS;
    try {
      const { history, range } = await historyOf(path, rangeOf(route.range, nowSeconds()), signal);
      parts.listener.onContact();
      if (isSlow) before = await pointsBefore(path, range, signal);
      const totals = compared(range, history.points, before);
      parts.headline.show(range, totals);
      parts.chart.show(history.points, range, before);
      parts.shown = { range, totals, points: history.points, before };
      setText(parts.trouble, history.exact || history.staleness_ms < 3_000 ? "" : "Some datacenters did not answer. Their counts are missing here.");
      if (!isSlow) return;
      slow_ms = Date.now();
      await windowOf(parts, route.id, range, signal);
      await parts.spread.refresh(range);
      await parts.breakdowns.refresh(range);
      await parts.breakdowns.compare(range);
      parts.arrive();
      await parts.days.show();
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      const isRefusal = error.status >= 400 && error.status < 500;
      if (isRefusal && parts.reading === undefined) return parts.listener.onFailure(error);
      setText(parts.trouble, `The history could not be read: ${error.message}.`);
    }
  };
  const pause_ms = REFRESH_MS[route.range] ?? SLOW_MS;
  const loop = repeat(look, () => (looks === 1 ? SECOND_MS : pause_ms));
  let soon;
  parts.onSoon = () => {
    soon ??= setTimeout(
      () => {
        soon = undefined;
        loop.again();
      },
      Math.min(SOON_MS, pause_ms),
    );
  };
  return () => {
    clearTimeout(soon);
    loop.stop();
  };
}

/** The unique elements of the range, and when the last write was. */
async function windowOf(parts, id, range, signal) {
  const seconds = range.until - range.from;
  const isLong = seconds > WINDOW_SECONDS_MAX;
  const query = isLong ? "" : `window=${seconds}&at=${range.until - 1}&`;
  const answer = await json(`${counterPath(id)}?${query}numbers=string`, signal);
  parts.bands.showWindow(answer.window, range.words);
  if (parts.reading === undefined) parts.listener.onReading(id, readingOf({ ...answer, window: undefined }));
  else parts.reading = { ...parts.reading, updated_at: answer.updated_at };
}

function exportOf(parts, id) {
  const { range, totals, points, before } = parts.shown;
  return {
    file: `tally-${id}-${range.name}`, what: { id }, from: range.from, to: range.until,
    rows: [
      totalRow(totals, comparedTimes(range)), ...parts.breakdowns.rows, ...pointRows(points, range.step_seconds),
      ...beforeRows(range, before),
    ],
  };
}

function ago(ms) {
  const seconds = Math.max(0, Math.round((Date.now() - ms) / 1000));
  if (seconds < 2) return "just now";
  if (seconds < 120) return `${seconds} s ago`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min ago`;
  return new Date(ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

/** What to tell where a counter cannot be shown. */
export function refusalOf(failure, id) {
  const giveKey = () => {
    const open = () => document.getElementById("key-open").click();
    return el("p", {}, el("button", { type: "button", on: { click: open } }, "Enter a key"));
  };
  if (failure.wantsKey) {
    return notice("A key is needed", "Reading needs a key with the scope read.", giveKey());
  }
  if (failure.status === 403 && key() === "") {
    const sentence = "Without a key only public counters can be read. Enter a public prefix to list them, or a name to open one.";
    return notice("This needs a key", sentence, giveKey());
  }
  if (failure.code === "counter-not-found") {
    const command = `curl -X POST ${location.origin}${counterPath(id).replaceAll("'", "%27")}/increment`;
    return notice(
      "There is no such counter",
      "Nothing was counted under this name, or it was deleted or has expired. The first write creates it:",
      el("pre", {}, el("code", {}, command)),
    );
  }
  if (failure.status === 403 && id === "")
    return notice(
      "This key may not list all counters",
      "A key with a prefix lists the names that begin with it. Enter the prefix above, or use another key.",
    );
  if (failure.status === 403)
    return notice("This key may not read this counter", "Its scopes or its prefix do not cover it. Use another key.");
  return notice("The counter cannot be shown", `${failure.message}.`);
}

/**
 * Shows in `body` why a view that needs the scope admin cannot be shown: `title` and `sentence` where the key has not
 * that scope. Throws what is none of the service's refusals.
 */
export function refuseView(error, { body, status, signal }, title, sentence) {
  if (signal.aborted) return;
  if (!(error instanceof Failure)) throw error;
  status({ tone: "none", text: error.wantsKey ? "key needed" : "not shown" });
  body.replaceChildren(error.status === 403 ? notice(title, sentence) : refusalOf(error, ""));
}
