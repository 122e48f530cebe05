// The view of costs: what a month would cost, at the rate of what this deployment counts, or of numbers by hand.
import { Failure, json, text } from "./api.js";
import { refusalOf } from "./counter.js";
import { PLAN, WAYS, costsOf } from "./costs.js";
import { el, setText } from "./dom.js";
import { repeat } from "./idle.js";
import { count, duration, whole } from "./numbers.js";
import { monthOf, usageBetween, usageOf } from "./usage.js";

const LOOK_MS = 5_000;
// From when on a rate since the beginning is shown before it is asked for: a first hour says little of a month.
const DAY_S = 86_400;
const FIELDS = [
  ["writes", "Writes a month"],
  ["reads", "Reads and other requests a month"],
  ["checks", "Checks of limits a month"],
];
// Where numbers come from, the best first.
const SOURCES = {
  begun: "since the first report", days: "in the last 30 days", open: "while this page is open", hand: "by hand",
};
const dollars = (value) => `$${value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
const dateOf = (seconds) => new Date(seconds * 1000).toLocaleDateString("en", { dateStyle: "medium" });

/** The form of the numbers of a month, and what they cost. */
class Calculator {
  // What each source knows: `{ month, text, name, isEarly }`.
  #known = { hand: { text: "These numbers are yours." } };
  #isChosen = false;
  #note = el("p", { class: "sub", role: "status" }, "Looking for what was counted …");
  #refused = el("div", {});
  #result = el("div", {});
  #form = this.#newForm();
  #from = this.#field("from");
  node = el(
    "section", { class: "panel wide", "aria-label": "Calculator" }, this.#form, this.#note, this.#refused, this.#result,
  );

  constructor() {
    this.#work();
  }

  /** Whether a source has told its numbers. */
  knows(source) {
    return source in this.#known;
  }

  /** Takes what a source knows, and shows it where it is chosen, or the best. */
  learn(source, what) {
    this.#known[source] = what;
    this.#refused.replaceChildren();
    const shown = this.#from.querySelector(`[value=${source}]`);
    shown.disabled = false;
    setText(shown, what.name ?? SOURCES[source]);
    this.#feed();
  }

  /** Says why nothing is known. Returns whether it does: not where something is. */
  refuse(error) {
    if (Object.keys(this.#known).length > 1) return false;
    this.#refused.replaceChildren(refusalOf(error, "what was counted"));
    return true;
  }

  #newForm() {
    const labelled = (id, label, node) => el("div", {}, el("label", { for: `cost-${id}` }, label), node);
    const input = ([id, label]) =>
      labelled(
        id, label, el("input", { id: `cost-${id}`, inputmode: "numeric", autocomplete: "off", value: "0" }),
      );
    const select = (id, label, options, change) =>
      labelled(id, label, el("select", { id: `cost-${id}`, on: { change } }, options));
    const option = (value, name, disabled) => el("option", { value, disabled }, name);
    const sources = Object.entries(SOURCES).map(([value, name]) => option(value, name, value !== "hand"));
    const ways = Object.entries(WAYS).map(([value, { name }]) => option(value, name));
    const byHand = ({ target }) => target !== this.#from && this.#choose("hand");
    return el(
      "form",
      { class: "fields", on: { input: byHand, submit: (event) => event.preventDefault() } },
      select("from", "Counted", sources, () => this.#choose(this.#from.value)),
      FIELDS.map(input),
      select("way", "Writes come", ways),
    );
  }

  #field(id) {
    return this.#form.querySelector(`#cost-${id}`);
  }

  #choose(source) {
    this.#isChosen = true;
    this.#from.value = source;
    this.#feed();
  }

  // Fills the fields from the source that is chosen, or is the best that is known.
  #feed() {
    const from = this.#from;
    if (!this.#isChosen) {
      from.value = Object.keys(SOURCES).find((source) => this.knows(source) && this.#known[source].isEarly !== true);
    }
    const { month = {}, text: source } = this.#known[from.value];
    for (const [id] of FIELDS) if (month[id] !== undefined) this.#field(id).value = count(month[id]);
    if (month.way !== undefined) this.#field("way").value = month.way;
    if (from.value !== "hand" || this.#isChosen) setText(this.#note, source);
    this.#work(month.requests);
  }

  // Shows what the numbers in the fields cost.
  #work(requests) {
    const numberOf = (id) => Number(this.#field(id).value.replaceAll(/[,\s]/g, "")) || 0;
    const amounts = Object.fromEntries(FIELDS.map(([id]) => [id, numberOf(id)]));
    const { rows, dollars: sum } = costsOf({ ...amounts, requests, way: this.#field("way").value });
    const line = ({ name, amount, dollars: own }) =>
      el(
        "tr", {}, el("th", { scope: "row" }, name), el("td", { "data-label": "A month" }, count(amount)),
        el("td", { "data-label": "Beyond the plan" }, dollars(own)),
      );
    const head = el(
      "tr", {}, ["What", "A month", "Beyond the plan"].map((label) => el("th", { scope: "col" }, label)),
    );
    this.#result.replaceChildren(
      el("table", { class: "policies" }, el("thead", {}, head), el("tbody", {}, rows.map(line))),
      el("p", {}, el("strong", { id: "cost-sum" }, dollars(sum)), ` a month, the plan's ${dollars(PLAN)} included. Memory time and storage come on top.`),
    );
  }
}

/** Shows the calculator in `main`; `status` is the chip of the page. Returns a function that ends it. */
export function showCosts(main, _, status) {
  const stopped = new AbortController();
  const { signal } = stopped;
  const calculator = new Calculator();
  main.replaceChildren(
    el(
      "div", { class: "title" }, el("h1", { tabindex: "-1" }, "Costs"),
      el(
        "p", { class: "sub" },
        "What a month of 30 days would cost on Cloudflare. Compare the prices with its current page.",
      ),
    ),
    el("div", { class: "panels" }, calculator.node),
  );
  // What it would cost can be worked out without numbers of its own.
  const refuse = (error) => {
    if (calculator.refuse(error)) status({ tone: "none", text: error.wantsKey ? "key needed" : "not known" });
  };
  let first;
  const look = async () => {
    try {
      const usage = usageOf(await text("/metrics", signal));
      if (usage === undefined) return status({ tone: "none", text: "a part does not answer" });
      const now = { usage, at_ms: Date.now() };
      learnSinceBegin(calculator, now);
      if (!learnSinceFirst(calculator, first, now)) first = now;
      status({ tone: "good", text: "polling · all isolates" });
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      // Whoever may not read the numbers of the deployment need not ask again.
      if (error.status >= 400 && error.status < 500) watching.stop();
      refuse(error);
    }
  };
  learnDays(calculator, status, signal).catch((error) => {
    if (signal.aborted) return;
    if (!(error instanceof Failure)) throw error;
    refuse(error);
  });
  const watching = repeat(look, () => LOOK_MS);
  return () => {
    stopped.abort();
    watching.stop();
  };
}

/** What the deployment has counted since the first report of an isolate. */
function learnSinceBegin(calculator, { usage, at_ms }) {
  const since_s = at_ms / 1000 - usage.begun_s;
  if (since_s <= 0) return;
  const name = `since ${dateOf(usage.begun_s)}`;
  calculator.learn("begun", {
    name, isEarly: since_s < DAY_S, month: monthOf(usage, since_s),
    text: textOf(usage.sums, `In ${duration(since_s * 1000)}, ${name},`),
  });
}

/** What it has counted since the first look. Returns whether that is known. */
function learnSinceFirst(calculator, first, { usage, at_ms }) {
  const more = first === undefined ? undefined : usageBetween(first.usage, usage);
  if (more === undefined) return false;
  const open_ms = at_ms - first.at_ms;
  calculator.learn("open", {
    month: monthOf(more, open_ms / 1000), text: textOf(more.sums, `In the last ${duration(open_ms)}`),
  });
  return true;
}

/** What its counters have counted in the last 30 days. */
async function learnDays(calculator, status, signal) {
  const { total, counters } = await json("/top?window=30d&by=count&limit=1", signal);
  const what = `In the last 30 days ${count(counters)} ${counters === 1 ? "counter" : "counters"} counted ${count(total)}.`;
  if (!calculator.knows("begun")) status({ tone: "good", text: "30 days" });
  calculator.learn("days", { month: { writes: whole(total) }, text: `${what} Reads and checks are not known for this time: choose another one, or fill them in.` });
}

function textOf({ requests, writes, checks, reads }, when) {
  const some = (number, one, many) => `${count(number)} ${number === 1 ? one : many}`;
  const of = [
    some(writes, "write", "writes"), some(checks, "check of a limit", "checks of limits"),
    some(reads, "other request", "other requests"),
  ];
  return `${when} the deployment has answered ${some(requests, "request", "requests")}: ${of[0]}, ${of[1]} and ${of[2]}. A month has as many at this rate.`;
}
