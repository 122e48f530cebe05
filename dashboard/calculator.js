// The view of costs: what a month would cost, beginning with what this deployment has counted in the last 30 days.
import { Failure, json } from "./api.js";
import { refusalOf } from "./counter.js";
import { PLAN, WAYS, costsOf } from "./costs.js";
import { el, setText } from "./dom.js";
import { count, whole } from "./numbers.js";

const FIELDS = [
  ["writes", "Writes a month"],
  ["reads", "Reads a month"],
  ["checks", "Checks of limits a month"],
];
const dollars = (value) => `$${value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;

/** Shows the calculator in `main`; `status` is the chip of the page. Returns a function that ends it. */
export function showCosts(main, _, status) {
  const stopped = new AbortController();
  const { signal } = stopped;
  const told = el("p", { class: "sub", role: "status" }, "Looking for what was counted in the last 30 days …");
  const result = el("div", {});
  const input = (id, label) => el("div", {}, el("label", { for: `cost-${id}` }, label), el("input", { id: `cost-${id}`, inputmode: "numeric", autocomplete: "off", value: "0" }));
  const ways = el("select", { id: "cost-way" }, Object.entries(WAYS).map(([value, { name }]) => el("option", { value }, name)));
  const form = el(
    "form",
    { class: "fields", on: { input: () => work(), submit: (event) => event.preventDefault() } },
    FIELDS.map(([id, label]) => input(id, label)),
    el("div", {}, el("label", { for: "cost-way" }, "Writes come"), ways),
  );
  const field = (id) => form.querySelector(`#cost-${id}`);
  const numberOf = (id) => Number(field(id).value.replaceAll(/[,\s]/g, "")) || 0;
  function work() {
    const asked = Object.fromEntries(FIELDS.map(([id]) => [id, numberOf(id)]));
    const { rows, dollars: sum } = costsOf({ ...asked, way: ways.value });
    const line = ({ name, amount, dollars: own }) => el("tr", {}, el("th", { scope: "row" }, name), el("td", { "data-label": "A month" }, count(amount)), el("td", { "data-label": "Beyond the plan" }, dollars(own)));
    const head = el("tr", {}, ["What", "A month", "Beyond the plan"].map((text) => el("th", { scope: "col" }, text)));
    result.replaceChildren(
      el("table", { class: "policies" }, el("thead", {}, head), el("tbody", {}, rows.map(line))),
      el("p", {}, el("strong", { id: "cost-sum" }, dollars(sum)), ` a month, the plan's ${dollars(PLAN)} included. Memory time and storage come on top.`),
    );
  }
  main.replaceChildren(
    el("div", { class: "title" }, el("h1", { tabindex: "-1" }, "Costs"), el("p", { class: "sub" }, "What a month would cost on Cloudflare. Compare the prices with its current page.")),
    el("div", { class: "panels" }, el("section", { class: "panel wide", "aria-label": "Calculator" }, form, told, result)),
  );
  work();
  json("/top?window=30d&by=count&limit=1", signal).then(
    ({ total, counters }) => {
      field("writes").value = count(whole(total));
      setText(told, `In the last 30 days ${count(counters)} ${counters === 1 ? "counter" : "counters"} counted ${count(total)}. Reads and checks are not known here: fill them in.`);
      status({ tone: "good", text: "30 days" });
      work();
    },
    (error) => {
      if (signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      status({ tone: "none", text: error.wantsKey ? "key needed" : "not known" });
      // What it would cost can be worked out without numbers of its own.
      told.replaceWith(refusalOf(error, "what was counted"));
    },
  );
  return () => stopped.abort();
}
