// The list of counters: the busiest, the largest or the first by name, live.
//
// Invariant: which they are is told by the directory, in one call however many there are.
import { Failure, counterPath, json } from "./api.js";
import { refusalOf } from "./counter.js";
import { el, nameOf, notice, setText, svg } from "./dom.js";
import { exportButtons } from "./export.js";
import { each, readingOf, watch, watchable } from "./feed.js";
import { repeat } from "./idle.js";
import { count, drawn, rate, short, whole } from "./numbers.js";
import { ORDERS, counterHash, countersHash } from "./routes.js";
import { sparkline } from "./series.js";
import { sharedPrefix } from "./share.js";
import { standing } from "./standing.js";

const SHOWN_MAX = 20;
const READS_AT_ONCE = 4;
const RANK_MS = 60_000;
const EMPTY_MS = 2_000;
const SPARK = { width: 120, height: 28, points: 60, step: "1m" };
const ORDER_LABELS = { rate: "Busiest", value: "Largest", name: "Name" };
// What was counted in this hour and the one before is what counts as busy.
const BUSY_WINDOW = "3600";

/** Shows the counters in `main`; `status` is the chip of the page. Returns a function that ends it. */
export function showCounters(main, route, status) {
  const { prefix, order } = route;
  const stopped = new AbortController();
  const { signal } = stopped;
  const field = el("input", {
    id: "prefix",
    type: "search",
    value: prefix,
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    placeholder: "/blog/",
  });
  const onPrefix = (event) => {
    event.preventDefault();
    location.hash = countersHash({ prefix: field.value, order });
  };
  const orders = ORDERS.map((name) =>
    el(
      "a",
      { href: countersHash({ prefix, order: name }), "aria-current": name === order ? "true" : undefined, "data-keep": "" },
      ORDER_LABELS[name],
    ),
  );
  const told = el("p", { class: "sub", role: "status" }, "Loading …");
  const { promise: first, resolve: arrive } = Promise.withResolvers();
  const list = el("ul", { class: "counters" });
  // For eyes only: each row says what its parts are by their units.
  const heads = ["Counter", "Last hour", "Rate", "Value"].map((head) => el("span", {}, head));
  const listing = el("div", { class: "listing" }, el("div", { class: "heads", "aria-hidden": "true" }, heads), list);
  const body = el("div", {}, listing);
  main.replaceChildren(
    el("div", { class: "title" }, el("h1", { tabindex: "-1" }, "Counters"), told),
    el(
      "div",
      { class: "filters" },
      el(
        "form",
        { class: "prefix", on: { submit: onPrefix } },
        el("label", { for: "prefix" }, "Names that begin with"),
        field,
        el("button", { type: "submit", class: "quiet" }, "Show"),
      ),
      el("nav", { class: "tabs", "aria-label": "Order" }, orders),
      exportButtons(first, () => exportOf()),
    ),
    body,
  );

  listing.hidden = true;

  const rows = new Map();
  const counters = new Map();
  let connection = "connecting";
  let heard_ms = Date.now();
  let isRanked = true;
  let unwatch = () => {};
  let watched = "";

  const ended = new Set();
  // Values come one by one: an export waits for all.
  const arriveWithLast = () => {
    if ([...rows.keys()].every((id) => ended.has(id) || counters.get(id)?.value !== undefined)) arrive();
  };

  const exportOf = () => {
    const told = [...rows.keys()].map((id) => ({ section: "value", name: id, count: counters.get(id)?.value }));
    const known = told.filter((row) => row.count !== undefined);
    return known.length === 0
      ? undefined
      : { file: `tally-counters-${prefix || "all"}`, what: { prefix, order }, rows: known };
  };

  const refresh = () => {
    const readings = [...rows.keys()].map((id) => counters.get(id)?.reading).filter(Boolean);
    const together =
      readings.length === 0
        ? undefined
        : {
            exact: readings.every(({ exact }) => exact),
            staleness_ms: Math.max(...readings.map(({ staleness_ms }) => staleness_ms)),
            unreachable: [...new Set(readings.flatMap(({ unreachable }) => unreachable))],
          };
    const silent_ms = Date.now() - heard_ms;
    status(
      together === undefined && connection !== "offline"
        ? { tone: "none", text: rows.size === 0 ? "no counters" : "connecting" }
        : standing({ connection, reading: together, silent_ms }),
    );
  };

  /** Which counters are shown, in which order, and how many there are: undefined where nobody says. */
  const names = async () => {
    const query = `prefix=${encodeURIComponent(prefix)}&limit=${SHOWN_MAX}`;
    const top = (by) => json(`/top?${query}&${by}&numbers=string`, signal);
    const idsOf = (rows) => rows.map(({ id }) => id);
    if (order === "rate") {
      const { rows, counters: among } = await top(`by=count&window=${BUSY_WINDOW}`);
      const busy = rows.filter((row) => whole(row.count) > 0n);
      if (busy.length > 0) return { ids: idsOf(busy), among, order };
    }
    if (order !== "name") {
      const { rows, counters: among } = await top("by=value");
      if (rows.length > 0) return { ids: idsOf(rows), among, order: "value", isQuiet: order === "rate" };
    }
    const page = await json(`/counters?${query}`, signal);
    const among = page.cursor === null ? page.counters.length : undefined;
    // The directory hears of a new counter within seconds; until then it is listed by name.
    return { ids: idsOf(page.counters), among, order: "name", isSoonKnown: order !== "name" };
  };

  const look = async () => {
    const found = await names();
    const { ids } = found;
    isRanked = !found.isSoonKnown;
    heard_ms = Date.now();
    if (ids.length === 0) return empty(prefix);
    setText(told, lookedAt({ ...found, shown: ids.length }));
    arrange(ids.map((id) => counters.get(id) ?? { id }));
    refresh();
    const isNew = ids.filter((id) => !drawnIds.has(id));
    follow(watchable(ids));
    await each(isNew, READS_AT_ONCE, spark);
  };

  const empty = (of) => {
    list.replaceChildren();
    rows.clear();
    follow([]);
    setText(told, "");
    const command = `curl -X POST ${location.origin}/counters/hello/increment`;
    body.replaceChildren(
      of === ""
        ? notice(
            "Nothing has been counted yet",
            "The first write creates a counter. It then appears here:",
            el("pre", {}, el("code", {}, command)),
          )
        : notice(
            "No counter has a name that begins so",
            "Upper and lower case differ.",
            el("p", {}, el("a", { href: countersHash({ prefix: sharedPrefix() }) }, "All counters")),
          ),
    );
    connection = "polling";
    refresh();
    arrive();
  };

  const arrange = (shown) => {
    const nodes = shown.map((counter) => {
      const row = rows.get(counter.id) ?? rowOf(counter.id);
      rows.set(counter.id, row);
      row.show(counter);
      return row.node;
    });
    for (const id of rows.keys()) if (!shown.some((counter) => counter.id === id)) rows.delete(id);
    // A row that has the focus keeps it: nothing moves while somebody is in the list.
    const isSame = nodes.length === list.children.length && nodes.every((node, index) => list.children[index] === node);
    if (!isSame && (!list.contains(document.activeElement) || list.children.length !== nodes.length))
      list.replaceChildren(...nodes);
    if (body.firstChild !== listing) body.replaceChildren(listing);
    listing.hidden = false;
  };

  const follow = (ids) => {
    const key = JSON.stringify([...ids].sort());
    if (key === watched) return;
    watched = key;
    unwatch();
    unwatch = watch(ids, {
      onReading: (id, reading) => {
        const before = counters.get(id) ?? { id };
        const counter = { ...before, value: reading.value, now: reading.rate, reading };
        counters.set(id, counter);
        rows.get(id)?.show(counter);
        refresh();
        arriveWithLast();
      },
      onFailure: (failure, id) => {
        if (failure.wantsKey) return refuse(failure);
        if (failure.code === "counter-not-found") rows.get(id)?.end();
        ended.add(id);
        arriveWithLast();
      },
      onHeard: () => (heard_ms = Date.now()),
      onState: (name) => {
        connection = name;
        refresh();
      },
    });
  };

  const drawnIds = new Set();
  const spark = async (id) => {
    drawnIds.add(id);
    const to = Math.floor(Date.now() / 1000);
    const from = to - (SPARK.points - 1) * 60;
    try {
      const answer = await json(`${counterPath(id)}/history?step=${SPARK.step}&from=${from}&to=${to}&numbers=string`, signal);
      rows.get(id)?.draw(answer.points.map(([, value]) => drawn(value)));
    } catch (error) {
      if (!(error instanceof Failure) && !signal.aborted) throw error;
    }
  };

  const refuse = (failure) => {
    setText(told, "");
    status({ tone: "none", text: failure.wantsKey ? "key needed" : "not shown" });
    body.replaceChildren(refusalOf(failure, ""));
    arrive();
  };

  const rank = async () => {
    try {
      await look();
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      if (error.status >= 400 && error.status < 500) return refuse(error);
      connection = "offline";
      if (rows.size === 0) {
        setText(told, "");
        body.replaceChildren(notice("The service cannot be reached", "This page tries again every few seconds."));
      }
      refresh();
    }
  };
  const { stop } = repeat(rank, () => (rows.size === 0 || !isRanked ? EMPTY_MS : RANK_MS));
  const clock = setInterval(refresh, 1_000);
  return () => {
    stopped.abort();
    unwatch();
    stop();
    clearInterval(clock);
  };
}

/** Says which counters are shown, of how many; `isQuiet` where the busiest were asked for and none was. */
export function lookedAt({ shown, among, order, isQuiet }) {
  const quiet = isQuiet ? "Nothing was counted in the last hour. " : "";
  const all = among === undefined ? "" : ` of ${count(among)}`;
  if (shown === among) {
    const after = { name: ", by name", rate: " counted in the last hour", value: "" }[order];
    return `${quiet}${among === 1 ? "1 counter" : `${count(among)} counters`}${after}`;
  }
  const words = {
    rate: `The ${shown} busiest in the last hour${all}`, value: `The ${shown} largest${all}`,
    name: `The first ${shown} by name${all}`,
  };
  return quiet + words[order];
}

/** A row: a link with the name, the value, the rate, and the last hour as a line. */
function rowOf(id) {
  const value = el("span", { class: "number" }, "–");
  const perSecond = el("span", { class: "rate" }, "–");
  const flag = el("span", { class: "flag" });
  const path = svg("path", { class: "line" });
  const area = svg("path", { class: "area" });
  const line = svg(
    "svg",
    { class: "spark", viewBox: `0 -1 ${SPARK.width} ${SPARK.height + 2}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    area,
    path,
  );
  const node = el(
    "li",
    {},
    el(
      "a", { class: "row", href: counterHash(id) }, el("span", { class: "name" }, nameOf(id)), line, perSecond, value,
      flag,
    ),
  );
  return {
    node,
    show(counter) {
      const text = count(counter.value);
      if (counter.value === undefined) return;
      setText(value, text.length > 20 ? short(counter.value) : text);
      setText(perSecond, rate(counter.now));
      const { tone, text: words } = standing({ connection: "live", reading: counter.reading });
      setText(flag, tone === "good" ? "" : words);
      flag.dataset.tone = tone;
    },
    end() {
      setText(value, "–");
      setText(perSecond, "–");
      setText(flag, "deleted or expired");
      flag.dataset.tone = "fair";
    },
    draw(values) {
      const drawing = sparkline(values, SPARK.width, SPARK.height);
      path.setAttribute("d", drawing);
      line.classList.toggle(
        "flat",
        values.every((value) => !value),
      );
      area.setAttribute(
        "d",
        values.includes(null) || drawing === "" ? "" : `${drawing}L${SPARK.width} ${SPARK.height}L0 ${SPARK.height}Z`,
      );
    },
  };
}
