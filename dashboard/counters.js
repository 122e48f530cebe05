// The view of all counters: the busiest of those that were looked at, live.
//
// Invariant: it costs a bounded number of calls however many counters there are, and says how many it looked at.
import { Failure, counterPath, json } from "./api.js";
import { refusalOf } from "./counter.js";
import { el, nameOf, notice, setText, svg } from "./dom.js";
import { each, readingOf, watch, watchable } from "./feed.js";
import { count, drawn, rate, short } from "./numbers.js";
import { ORDERS, counterHash, overviewHash } from "./routes.js";
import { ranked, sparkline } from "./series.js";
import { standing } from "./standing.js";

// Each costs a read. A hundred are a fraction of a second; more are looked at on demand, and less often.
const PAGE = 100;
const PAGES_MAX = 10;
const SHOWN_MAX = 20;
const READS_AT_ONCE = 4;
// What counts as busy now. Exact to the second.
const BUSY_SECONDS = 300;
const RANK_MS = 60_000;
const EMPTY_MS = 2_000;
const SPARK = { width: 120, height: 28, points: 60, step: "1m" };
const ORDER_LABELS = { rate: "Busiest", value: "Largest", name: "Name" };

/** Shows the counters in `main`; `status` is the chip of the page. Returns a function that ends it. */
export function showOverview(main, route, status) {
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
    placeholder: "blog/",
  });
  const onPrefix = (event) => {
    event.preventDefault();
    location.hash = overviewHash({ prefix: field.value, order });
  };
  const orders = ORDERS.map((name) =>
    el(
      "a",
      { href: overviewHash({ prefix, order: name }), "aria-current": name === order ? "true" : undefined, "data-keep": "" },
      ORDER_LABELS[name],
    ),
  );
  const told = el("p", { class: "sub", role: "status" }, "Loading …");
  const list = el("ul", { class: "counters" });
  // For eyes only: each row says what its parts are by their units.
  const heads = ["Counter", "Last hour", "Rate", "Value"].map((head) => el("span", {}, head));
  const listing = el("div", { class: "listing" }, el("div", { class: "heads", "aria-hidden": "true" }, heads), list);
  const body = el("div", {}, listing);
  let pages = 1;
  const lookFurther = () => {
    pages += 1;
    setText(more, "Loading …");
    rank();
  };
  const more = el("button", { type: "button", class: "quiet further", hidden: true, on: { click: lookFurther } });
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
    ),
    body,
    more,
  );

  listing.hidden = true;

  const rows = new Map();
  const counters = new Map();
  let connection = "connecting";
  let heard_ms = Date.now();
  let unwatch = () => {};
  let watched = "";

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

  const names = async () => {
    const ids = [];
    let cursor = null;
    for (let page = 0; page < pages && (page === 0 || cursor !== null); page += 1) {
      const after = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const told = await json(`/counters?limit=${PAGE}&prefix=${encodeURIComponent(prefix)}${after}`, signal);
      ids.push(...told.counters.map(({ id }) => id));
      cursor = told.cursor;
    }
    return { ids, hasMore: cursor !== null };
  };

  const look = async () => {
    const { ids, hasMore } = await names();
    heard_ms = Date.now();
    if (ids.length === 0) return empty(prefix);
    let missing = 0;
    // By name nobody has to be compared.
    const compared = order === "name" ? ids.slice(0, SHOWN_MAX) : ids;
    await each(compared, READS_AT_ONCE, async (id) => {
      try {
        const answer = await json(`${counterPath(id)}?window=${BUSY_SECONDS}&numbers=string`, signal);
        counters.set(id, {
          id,
          value: answer.value,
          rate: Number(answer.window.count) / BUSY_SECONDS,
          reading: readingOf(answer),
        });
      } catch (error) {
        if (signal.aborted || error.isOffline) throw error;
        // It may have ended since it was listed.
        counters.delete(id);
        missing += 1;
      }
    });
    heard_ms = Date.now();
    const found = compared.map((id) => counters.get(id)).filter(Boolean);
    const shown = ranked(found, order).slice(0, SHOWN_MAX);
    setText(
      told,
      lookedAt({ shown: shown.length, among: ids.length, hasMore, order }) +
        (missing > 0 ? `; ${missing} could not be read` : ""),
    );
    more.hidden = !hasMore || pages >= PAGES_MAX || order === "name";
    setText(more, `Compare ${PAGE} more`);
    arrange(shown);
    // Those whose names are too long together for one stream are asked with the next look.
    follow(watchable(shown.map(({ id }) => id)));
    await each(shown, READS_AT_ONCE, ({ id }) => spark(id));
  };

  const empty = (of) => {
    more.hidden = true;
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
            el("p", {}, el("a", { href: "#/" }, "All counters")),
          ),
    );
    connection = "polling";
    refresh();
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
      },
      onFailure: (failure, id) => {
        if (failure.wantsKey) refuse(failure);
        else if (failure.code === "counter-not-found") rows.get(id)?.end();
      },
      onHeard: () => (heard_ms = Date.now()),
      onState: (name) => {
        connection = name;
        refresh();
      },
    });
  };

  const spark = async (id) => {
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
  };

  let isLooking = false;
  let isAskedAgain = false;
  const rank = async () => {
    isAskedAgain = isLooking;
    if (isLooking) return;
    isLooking = true;
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
    } finally {
      isLooking = false;
      clearTimeout(again);
      if (!signal.aborted)
        again = setTimeout(
          () => (document.hidden ? void 0 : rank()),
          isAskedAgain ? 0 : rows.size === 0 ? EMPTY_MS : RANK_MS * pages,
        );
    }
  };
  let again;
  const onVisible = () => {
    if (document.hidden) return;
    clearTimeout(again);
    rank();
  };
  document.addEventListener("visibilitychange", onVisible);
  const clock = setInterval(refresh, 1_000);
  rank();
  return () => {
    stopped.abort();
    unwatch();
    clearTimeout(again);
    clearInterval(clock);
    document.removeEventListener("visibilitychange", onVisible);
  };
}

/** Says which counters are shown, of how many. */
function lookedAt({ shown, among, hasMore, order }) {
  const which = { rate: `busiest in ${BUSY_SECONDS / 60} minutes`, value: "largest", name: "first by name" }[order];
  if (shown === among && !hasMore)
    return `${among === 1 ? "1 counter" : `${among} counters`}, ${which} first`.replace("first by name first", "by name");
  if (order === "name") return `The first ${shown} by name${hasMore ? "" : ` of ${among}`}; enter a prefix for others`;
  return `The ${shown} ${which} of ${hasMore ? `the first ${among} counters by name; enter a prefix for others` : `${among} counters`}`;
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
    el("a", { class: "row", href: counterHash(id) }, el("span", { class: "name" }, nameOf(id)), line, perSecond, value, flag),
  );
  return {
    node,
    show(counter) {
      const text = count(counter.value);
      setText(value, text.length > 20 ? short(counter.value) : text);
      setText(perSecond, rate(counter.now ?? counter.rate));
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
