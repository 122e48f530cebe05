// The view of costs: what a month would cost, at the rate of what this deployment counts, or of numbers by hand.
import { Failure, json, text } from "./api.js";
import { refusalOf } from "./counter.js";
import { PLAN, WAYS, costsOf } from "./costs.js";
import { el, setText } from "./dom.js";
import { repeat } from "./idle.js";
import { count, lasting, whole } from "./numbers.js";
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

/** Shows the calculator in `main`; `status` is the chip of the page. Returns a function that ends it. */
export function showCosts(main, _, status) {
  const stopped = new AbortController();
  const { signal } = stopped;
  const told = el("p", { class: "sub", role: "status" }, "Looking for what was counted …");
  const refused = el("div", {});
  const result = el("div", {});
  const input = (id, label) =>
    el(
      "div", {}, el("label", { for: `cost-${id}` }, label),
      el("input", { id: `cost-${id}`, inputmode: "numeric", autocomplete: "off", value: "0" }),
    );
  const select = (id, label, options, change) =>
    el(
      "div", {}, el("label", { for: `cost-${id}` }, label), el("select", { id: `cost-${id}`, on: { change } }, options),
    );
  const option = (value, name, disabled) => el("option", { value, disabled }, name);
  // What each source knows: `{ month, text, name, isEarly }`.
  const known = { hand: { text: "These numbers are yours." } };
  let isChosen = false;
  const choose = () => {
    isChosen = true;
    feed();
  };
  const byHand = () => {
    isChosen = true;
    from.value = "hand";
    feed();
  };
  const form = el(
    "form",
    {
      class: "fields",
      on: { input: ({ target }) => target !== from && byHand(), submit: (event) => event.preventDefault() },
    },
    select(
      "from", "Counted", Object.entries(SOURCES).map(([value, name]) => option(value, name, value !== "hand")), choose,
    ),
    FIELDS.map(([id, label]) => input(id, label)),
    select("way", "Writes come", Object.entries(WAYS).map(([value, { name }]) => option(value, name))),
  );
  const field = (id) => form.querySelector(`#cost-${id}`);
  const from = field("from");
  const numberOf = (id) => Number(field(id).value.replaceAll(/[,\s]/g, "")) || 0;

  /** Fills the fields from the source that is chosen, or is the best that is known. */
  function feed() {
    if (!isChosen) {
      from.value = Object.keys(SOURCES).find((source) => source in known && known[source].isEarly !== true);
    }
    const { month = {}, text: source } = known[from.value];
    for (const [id] of FIELDS) if (month[id] !== undefined) field(id).value = count(month[id]);
    if (month.way !== undefined) field("way").value = month.way;
    if (from.value !== "hand" || isChosen) setText(told, source);
    work(month.requests);
  }
  function learn(source, what) {
    known[source] = what;
    refused.replaceChildren();
    const shown = from.querySelector(`[value=${source}]`);
    shown.disabled = false;
    setText(shown, what.name ?? SOURCES[source]);
    feed();
  }
  function work(requests) {
    const asked = Object.fromEntries(FIELDS.map(([id]) => [id, numberOf(id)]));
    const { rows, dollars: sum } = costsOf({ ...asked, requests, way: field("way").value });
    const line = ({ name, amount, dollars: own }) =>
      el(
        "tr", {}, el("th", { scope: "row" }, name), el("td", { "data-label": "A month" }, count(amount)),
        el("td", { "data-label": "Beyond the plan" }, dollars(own)),
      );
    const head = el(
      "tr", {}, ["What", "A month", "Beyond the plan"].map((label) => el("th", { scope: "col" }, label)),
    );
    result.replaceChildren(
      el("table", { class: "policies" }, el("thead", {}, head), el("tbody", {}, rows.map(line))),
      el("p", {}, el("strong", { id: "cost-sum" }, dollars(sum)), ` a month, the plan's ${dollars(PLAN)} included. Memory time and storage come on top.`),
    );
  }
  main.replaceChildren(
    el(
      "div", { class: "title" }, el("h1", { tabindex: "-1" }, "Costs"),
      el(
        "p", { class: "sub" },
        "What a month of 30 days would cost on Cloudflare. Compare the prices with its current page.",
      ),
    ),
    el(
      "div", { class: "panels" },
      el("section", { class: "panel wide", "aria-label": "Calculator" }, form, told, refused, result),
    ),
  );
  work();

  let first;
  const look = async () => {
    try {
      const usage = usageOf(await text("/metrics", signal));
      if (usage === undefined) return status({ tone: "none", text: "a part does not answer" });
      const now_ms = Date.now();
      const since_s = now_ms / 1000 - usage.begun_s;
      if (since_s > 0) {
        const name = `since ${dateOf(usage.begun_s)}`;
        learn("begun", {
          name, isEarly: since_s < DAY_S, month: monthOf(usage, since_s),
          text: textOf(usage.sums, `In ${lasting(since_s * 1000)}, ${name},`),
        });
      }
      const more = first === undefined ? undefined : usageBetween(first.usage, usage);
      if (more === undefined) first = { usage, at_ms: now_ms };
      else {
        const open_ms = now_ms - first.at_ms;
        learn("open", {
          month: monthOf(more, open_ms / 1000), text: textOf(more.sums, `In the last ${lasting(open_ms)}`),
        });
      }
      status({ tone: "good", text: "polling · all isolates" });
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      // Whoever may not read the numbers of the deployment need not ask again.
      if (error.status >= 400 && error.status < 500) watching.stop();
      refuse(error);
    }
  };
  // What it would cost can be worked out without numbers of its own.
  const refuse = (error) => {
    if (Object.keys(known).length > 1) return;
    status({ tone: "none", text: error.wantsKey ? "key needed" : "not known" });
    refused.replaceChildren(refusalOf(error, "what was counted"));
  };
  json("/top?window=30d&by=count&limit=1", signal).then(
    ({ total, counters }) => {
      const what = `In the last 30 days ${count(counters)} ${counters === 1 ? "counter" : "counters"} counted ${count(total)}.`;
      if (known.begun === undefined) status({ tone: "good", text: "30 days" });
      learn("days", { month: { writes: whole(total) }, text: `${what} Reads and checks are not known for this time: choose another one, or fill them in.` });
    },
    (error) => {
      if (signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      refuse(error);
    },
  );
  const watching = repeat(look, () => LOOK_MS);
  return () => {
    stopped.abort();
    watching.stop();
  };
}

function textOf({ requests, writes, checks, reads }, when) {
  const some = (number, one, many) => `${count(number)} ${number === 1 ? one : many}`;
  const of = [
    some(writes, "write", "writes"), some(checks, "check of a limit", "checks of limits"),
    some(reads, "other request", "other requests"),
  ];
  return `${when} the whole deployment has answered ${some(requests, "request", "requests")}: ${of[0]}, ${of[1]} and ${of[2]}. A month has as many at this rate.`;
}
