// The list of counters: the busiest, the largest or the first by name, live.
//
// Invariant: which they are is told by the directory, in one call however many there are.
import { Failure, counterPath, json } from "./api.js";
import { refusalOf } from "./counter.js";
import { el, nameForm, nameOf, notice, setText, svg } from "./dom.js";
import { exportButtons } from "./export.js";
import { each, watch, watchable } from "./feed.js";
import { freshness } from "./freshness.js";
import { repeat } from "./idle.js";
import { count, drawn, rate, short, whole } from "./numbers.js";
import { ORDERS, counterHash, countersHash } from "./routes.js";
import { sparkline } from "./series.js";
import { sharedPrefix } from "./share.js";

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
  const view = new CountersView(main, route, status);
  const { stop } = repeat(() => view.look(), () => view.pause_ms());
  const clock = setInterval(() => view.refresh(), 1_000);
  return () => {
    view.end();
    stop();
    clearInterval(clock);
  };
}

/** What stands on the page: the parts that are filled later. `exportOf` returns what an export has. */
function countersFrame(main, { prefix, order }, exportOf) {
  const form = nameForm({
    id: "prefix", label: "Names that begin with", value: prefix, placeholder: "/blog/", button: "Show",
    submit: (name) => (location.hash = countersHash({ prefix: name, order })),
  });
  const orders = ORDERS.map((name) =>
    el(
      "a",
      { href: countersHash({ prefix, order: name }), "aria-current": name === order ? "true" : undefined, "data-keep": "" },
      ORDER_LABELS[name],
    ),
  );
  const summary = el("p", { class: "sub", role: "status" }, "Loading …");
  const { promise: first, resolve: arrive } = Promise.withResolvers();
  const list = el("ul", { class: "counters" });
  // For eyes only: each row says what its parts are by their units.
  const heads = ["Counter", "Last hour", "Rate", "Value"].map((head) => el("span", {}, head));
  const listing = el("div", { class: "listing" }, el("div", { class: "heads", "aria-hidden": "true" }, heads), list);
  listing.hidden = true;
  const body = el("div", {}, listing);
  main.replaceChildren(
    el("div", { class: "title" }, el("h1", { tabindex: "-1" }, "Counters"), summary),
    el(
      "div", { class: "filters" }, form, el("nav", { class: "tabs", "aria-label": "Order" }, orders),
      exportButtons(first, exportOf),
    ),
    body,
  );
  return { summary, list, listing, body, arrive };
}

/** The rows on the page, and what their counters say now. */
class CountersView {
  #route;
  #status;
  #frame;
  #stopped = new AbortController();
  #rows = new Map();
  #counters = new Map();
  #connection = "connecting";
  #last_contact_ms = Date.now();
  #isRanked = true;
  #unwatch = () => {};
  #watched = "";
  // The counters that will not tell their value.
  #ended = new Set();
  #drawn = new Set();

  constructor(main, route, status) {
    this.#route = route;
    this.#status = status;
    this.#frame = countersFrame(main, route, () => this.#exported());
  }

  end() {
    this.#stopped.abort();
    this.#unwatch();
  }

  pause_ms() {
    return this.#rows.size === 0 || !this.#isRanked ? EMPTY_MS : RANK_MS;
  }

  /** Asks which counters are shown, and shows them. */
  async look() {
    try {
      await this.#rank();
    } catch (error) {
      if (this.#stopped.signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      if (error.status >= 400 && error.status < 500) return this.#refuse(error);
      this.#connection = "offline";
      if (this.#rows.size === 0) {
        this.#instead(notice("The service cannot be reached", "This page tries again every few seconds."));
      }
      this.refresh();
    }
  }

  /** Shows on the chip of the page how true the rows are together. */
  refresh() {
    const readings = [...this.#rows.keys()].map((id) => this.#counters.get(id)?.reading).filter(Boolean);
    if (readings.length === 0 && this.#connection !== "offline") {
      return this.#status({ tone: "none", text: this.#rows.size === 0 ? "no counters" : "connecting" });
    }
    const silent_ms = Date.now() - this.#last_contact_ms;
    this.#status(freshness({ connection: this.#connection, reading: leastTrue(readings), silent_ms }));
  }

  async #rank() {
    const found = await shownCounters(this.#route, this.#stopped.signal);
    const { ids } = found;
    this.#isRanked = !found.isSoonKnown;
    this.#last_contact_ms = Date.now();
    if (ids.length === 0) return this.#empty();
    setText(this.#frame.summary, lookedAt({ ...found, shown: ids.length }));
    this.#arrange(ids);
    this.refresh();
    const isNew = ids.filter((id) => !this.#drawn.has(id));
    this.#follow(watchable(ids));
    await each(isNew, READS_AT_ONCE, (id) => this.#draw(id));
  }

  #arrange(ids) {
    const rows = this.#rows;
    const nodes = ids.map((id) => {
      const row = rows.get(id) ?? rowOf(id);
      rows.set(id, row);
      row.show(this.#counters.get(id) ?? { id });
      return row.node;
    });
    for (const id of rows.keys()) if (!ids.includes(id)) rows.delete(id);
    const { list, listing, body } = this.#frame;
    // A row that has the focus keeps it: nothing moves while somebody is in the list.
    const isSame = nodes.length === list.children.length && nodes.every((node, index) => list.children[index] === node);
    if (!isSame && (!list.contains(document.activeElement) || list.children.length !== nodes.length))
      list.replaceChildren(...nodes);
    if (body.firstChild !== listing) body.replaceChildren(listing);
    listing.hidden = false;
  }

  #empty() {
    this.#frame.list.replaceChildren();
    this.#rows.clear();
    this.#follow([]);
    this.#instead(noCounters(this.#route.prefix));
    this.#connection = "polling";
    this.refresh();
    this.#frame.arrive();
  }

  #refuse(failure) {
    this.#status({ tone: "none", text: failure.wantsKey ? "key needed" : "not shown" });
    this.#instead(refusalOf(failure, ""));
    this.#frame.arrive();
  }

  // Shows a notice instead of the list.
  #instead(node) {
    setText(this.#frame.summary, "");
    this.#frame.body.replaceChildren(node);
  }

  #follow(ids) {
    const key = JSON.stringify([...ids].sort());
    if (key === this.#watched) return;
    this.#watched = key;
    this.#unwatch();
    this.#unwatch = watch(ids, {
      onReading: (id, reading) => {
        const before = this.#counters.get(id) ?? { id };
        const counter = { ...before, value: reading.value, now: reading.rate, reading };
        this.#counters.set(id, counter);
        this.#rows.get(id)?.show(counter);
        this.refresh();
        this.#arriveWithLast();
      },
      onFailure: (failure, id) => {
        if (failure.wantsKey) return this.#refuse(failure);
        if (failure.code === "counter-not-found") this.#rows.get(id)?.end();
        this.#ended.add(id);
        this.#arriveWithLast();
      },
      onContact: () => (this.#last_contact_ms = Date.now()),
      onState: (name) => {
        this.#connection = name;
        this.refresh();
      },
    });
  }

  // Values come one by one: an export waits for all.
  #arriveWithLast() {
    const isKnown = (id) => this.#ended.has(id) || this.#counters.get(id)?.value !== undefined;
    if ([...this.#rows.keys()].every(isKnown)) this.#frame.arrive();
  }

  // Draws the last hour of a counter into its row.
  async #draw(id) {
    const { signal } = this.#stopped;
    this.#drawn.add(id);
    const to = Math.floor(Date.now() / 1000);
    const from = to - (SPARK.points - 1) * 60;
    try {
      const answer = await json(`${counterPath(id)}/history?step=${SPARK.step}&from=${from}&to=${to}&numbers=string`, signal);
      this.#rows.get(id)?.draw(answer.points.map(([, value]) => drawn(value)));
    } catch (error) {
      if (!(error instanceof Failure) && !signal.aborted) throw error;
    }
  }

  #exported() {
    const { prefix, order } = this.#route;
    const rows = [...this.#rows.keys()]
      .map((id) => ({ section: "value", name: id, count: this.#counters.get(id)?.value }))
      .filter((row) => row.count !== undefined);
    return rows.length === 0 ? undefined : { file: `tally-counters-${prefix || "all"}`, what: { prefix, order }, rows };
  }
}

/** Returns what is true of several readings together; undefined of none. */
function leastTrue(readings) {
  if (readings.length === 0) return undefined;
  return {
    exact: readings.every(({ exact }) => exact),
    staleness_ms: Math.max(...readings.map(({ staleness_ms }) => staleness_ms)),
    unreachable: [...new Set(readings.flatMap(({ unreachable }) => unreachable))],
  };
}

/** Returns which counters are shown, in which order, and how many there are: undefined where nobody says. */
async function shownCounters({ prefix, order }, signal) {
  const query = `prefix=${encodeURIComponent(prefix)}&limit=${SHOWN_MAX}`;
  const top = (by) => json(`/top?${query}&${by}&numbers=string`, signal);
  const idsOf = (rows) => rows.map(({ id }) => id);
  if (order === "rate") {
    const { entries: rows, counters: among } = await top(`by=count&window=${BUSY_WINDOW}`);
    const busy = rows.filter((row) => whole(row.count) > 0n);
    if (busy.length > 0) return { ids: idsOf(busy), among, order };
  }
  if (order !== "name") {
    const { entries: rows, counters: among } = await top("by=value");
    if (rows.length > 0) return { ids: idsOf(rows), among, order: "value", isQuiet: order === "rate" };
  }
  const page = await json(`/counters?${query}`, signal);
  const among = page.cursor === null ? page.entries.length : undefined;
  // The directory hears of a new counter within seconds; until then it is listed by name.
  return { ids: idsOf(page.entries), among, order: "name", isSoonKnown: order !== "name" };
}

/** Returns what to tell where no counter has a name that begins with a prefix. */
function noCounters(prefix) {
  if (prefix === "") {
    const command = `curl -X POST ${location.origin}/counters/hello/increment`;
    return notice(
      "Nothing has been counted yet",
      "The first write creates a counter. It then appears here:",
      el("pre", {}, el("code", {}, command)),
    );
  }
  return notice(
    "No counter has a name that begins so",
    "Upper and lower case differ.",
    el("p", {}, el("a", { href: countersHash({ prefix: sharedPrefix() }) }, "All counters")),
  );
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
      const { tone, text: words } = freshness({ connection: "live", reading: counter.reading });
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
