// The bar of ranges: a link for each that has a name, and two dates for any other.
import { el } from "./dom.js";
import { RANGES, dateText, datesOf, rangeFault } from "./ranges.js";
import { hashWithRange, isNamed } from "./routes.js";

// No prefix can tell seconds of more than 15 minutes.
const ONLY_COUNTERS = ["minutes"];

/** Returns the bar for a view of `route` that shows `range`, by its name in the address. */
export function rangeBar(route, range) {
  const links = Object.entries(RANGES)
    .filter(([name]) => route.view === "counter" || !ONLY_COUNTERS.includes(name))
    .map(([name, { label }]) =>
      el(
        "a", { href: hashWithRange(route, name), "aria-current": name === range ? "true" : undefined, "data-keep": "" },
        label,
      ),
    );
  const now_s = Math.floor(Date.now() / 1000);
  const [first, last] = range === "all" ? ["", ""] : datesOf(range, now_s);
  const input = (id, label, value) => [
    el("label", { for: id }, label),
    el("input", { id, type: "date", value, max: dateText(new Date()), required: true }),
  ];
  const fault = el("p", { class: "sub fault", role: "alert" });
  const onSubmit = (event) => {
    event.preventDefault();
    const [from, to] = ["range-from", "range-to"].map((id) => form.querySelector(`#${id}`).value);
    // A range that ends before it begins is told where it is entered.
    const words = `${from}..${to}`;
    const why = from > to ? "The range ends before it begins." : rangeFault(words, Math.floor(Date.now() / 1000));
    if (why !== undefined) fault.textContent = why;
    else location.hash = hashWithRange(route, words);
  };
  const form = el(
    "form",
    { class: "dates", on: { submit: onSubmit } },
    input("range-from", "From", first),
    input("range-to", "to", last),
    el("button", { type: "submit", class: "quiet small" }, "Show"),
    fault,
  );
  const isCustom = !isNamed(range);
  const custom = el(
    "details", { class: "custom", open: isCustom },
    el("summary", { "aria-current": isCustom ? "true" : undefined }, "Custom"), form,
  );
  return el("div", { class: "ranges" }, el("nav", { class: "tabs", "aria-label": "Range" }, links), custom);
}
