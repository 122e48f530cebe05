// The view of one counter: its value now, its history, where it was counted, by how many.
import { Failure, counterPath, json, key } from "./api.js";
import { Bands } from "./bands.js";
import { Chart } from "./chart.js";
import { el, nameOf, notice, setChip, setText } from "./dom.js";
import { readingOf, watch } from "./feed.js";
import { count, isSafe, rate, short, whole } from "./numbers.js";
import { Places } from "./places.js";
import { RANGES, counterHash } from "./routes.js";
import { Spread } from "./spread.js";
import { standing, truthOf } from "./standing.js";

/** Shows a counter in `main`; `status` is the chip of the page. Returns a function that ends it. */
export function showCounter(main, route, status) {
  const { id, range: rangeName } = route;
  const range = RANGES[rangeName];
  const stopped = new AbortController();
  const { signal } = stopped;
  const value = el("p", { class: "value", id: "value" }, "–");
  const exactly = el("p", { class: "sub" });
  const perSecond = el("p", { class: "fact" }, "–");
  const updated = el("p", { class: "fact" }, "–");
  const truth = el("p", { class: "sub truth" });
  const trouble = el("div", { class: "trouble" });
  const chart = new Chart();
  const places = new Places();
  const bands = new Bands(range);
  const spread = new Spread(id, range, signal);
  const tabs = el(
    "nav",
    { class: "tabs", "aria-label": "Length of history" },
    Object.entries(RANGES).map(([name, { label }]) =>
      el("a", { href: counterHash(id, name), "aria-current": name === rangeName ? "true" : undefined, "data-keep": "" }, label),
    ),
  );
  const body = el(
    "div",
    { class: "panels" },
    el(
      "section",
      { class: "panel now", "aria-labelledby": "now-title" },
      el("h2", { id: "now-title", class: "label" }, "Value"),
      value,
      exactly,
      el("div", { class: "facts" }, fact("Rate", perSecond), fact("Last write", updated)),
      truth,
    ),
    el(
      "section",
      { class: "panel wide", "aria-labelledby": "history-title" },
      el("div", { class: "head" }, el("h2", { id: "history-title", class: "label" }, "Counted in ", range.words), tabs),
      trouble,
      chart.node,
    ),
    places.node,
    bands.node,
    spread.node,
  );
  main.replaceChildren(
    el(
      "div",
      { class: "title" },
      el("p", { class: "crumb" }, el("a", { href: "#/" }, "Counters")),
      el("h1", { tabindex: "-1" }, nameOf(id)),
    ),
    body,
  );

  let reading;
  let heard_ms = Date.now();
  let connection = "connecting";
  let refused = false;

  const refresh = () => {
    const told = standing({ connection, reading, silent_ms: Date.now() - heard_ms });
    status(told);
    if (reading === undefined) return;
    const clock = new Date(reading.as_of).toLocaleTimeString("en-GB");
    setChip(truth, truthOf({ connection, reading, clock }));
    if (reading.updated_at) setText(updated, ago(reading.updated_at));
  };
  const onReading = (_, next) => {
    if (refused) return restart();
    // A stream does not tell when the last write was: one that shows now was just now.
    const isNew = reading !== undefined && whole(reading.value) !== whole(next.value);
    const updated_at = next.updated_at ?? (isNew ? Date.now() : reading?.updated_at);
    reading = { ...reading, updated_at, ...Object.fromEntries(Object.entries(next).filter(([, part]) => part !== undefined)) };
    setText(value, count(reading.value));
    value.classList.toggle("long", count(reading.value).length > 15);
    setText(exactly, isSafe(reading.value) ? "" : `about ${short(reading.value)}`);
    setText(perSecond, rate(reading.rate));
    places.show(reading.datacenters);
    bands.showAll(reading.uniques);
    refresh();
  };
  const onFailure = (failure) => {
    if (!(failure instanceof Failure)) throw failure;
    refused = true;
    status({ tone: "none", text: failure.wantsKey ? "key needed" : "not shown" });
    body.replaceChildren(refusalOf(failure, id));
  };
  // A counter that was missing is there now: its panels come back.
  const restart = () => dispatchEvent(new Event("hashchange"));

  const history = async () => {
    const to = Math.floor(Date.now() / 1000);
    const from = to - range.seconds + 1;
    const path = `${counterPath(id)}/history?step=${range.step}&from=${from}&to=${to}&numbers=string`;
    try {
      const [told, windowed] = await Promise.all([
        json(path, signal),
        json(`${counterPath(id)}?window=${range.seconds}&numbers=string`, signal),
      ]);
      heard_ms = Date.now();
      chart.show(told.points, range, to);
      spread.refresh();
      bands.showWindow(windowed.window);
      setText(
        trouble,
        told.exact || told.staleness_ms < 3_000 ? "" : "Some datacenters did not answer. Their counts are missing here.",
      );
      if (reading === undefined) onReading(id, readingOf({ ...windowed, window: undefined }));
      else reading = { ...reading, updated_at: windowed.updated_at };
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      if (error.status >= 400 && error.status < 500 && reading === undefined) return onFailure(error);
      setText(trouble, `The history could not be read: ${error.message}.`);
    }
  };
  history();
  const timers = [setInterval(refresh, 1_000), setInterval(() => document.hidden || history(), range.refresh_ms)];
  const unwatch = watch([id], {
    onReading,
    onFailure,
    onHeard: () => (heard_ms = Date.now()),
    onState: (name) => {
      // Back after a break: what was missed is asked for at once.
      if (name !== connection && connection === "offline") history();
      connection = name;
      if (!refused) refresh();
    },
  });
  return () => {
    stopped.abort();
    unwatch();
    timers.forEach(clearInterval);
    chart.close();
  };
}

function fact(label, node) {
  return el("div", {}, el("h3", { class: "label" }, label), node);
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
