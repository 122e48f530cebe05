// What is shown, as a file: CSV for tables, JSON for programs. It is made in the browser.
import { el, setText } from "./dom.js";
import { STEPS } from "./ranges.js";

// A spreadsheet runs a text that begins so.
const FORMULA = /^[=+\-@\t\r]/;

function cell(value) {
  const text =
    typeof value === "bigint" || typeof value === "number"
      ? String(value)
      : FORMULA.test(value)
        ? `'${value}`
        : String(value ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const iso = (second) => (second === undefined ? "" : new Date(second * 1000).toISOString());

// How a row compares with the range before, as `changeColumns` returns it: its columns of a number or a text, and of
// a time.
const COMPARED = {
  count_compared: false, compared_from: true, compared_to: true, count_before: false, before_from: true,
  before_to: true, change_percent: false,
};

/**
 * Returns rows `{ section, name, count, from, to }` as CSV; one without a time of its own, unix seconds from `from`
 * until before `to`, is of that of the whole. Where a row is compared, each has the columns of that too. Source: RFC
 * 4180.
 */
export function csvOf({ from, to, rows }) {
  const compared = rows.some((row) => row.count_before !== undefined) ? Object.entries(COMPARED) : [];
  const line = (row) => [
    row.section, row.name, row.count, iso(row.from ?? from), iso(row.to ?? to),
    ...compared.map(([name, isTime]) => (isTime ? iso(row[name]) : row[name])),
  ];
  const heads = ["section", "name", "count", "from", "to", ...compared.map(([name]) => name)];
  return [heads, ...rows.map(line)].map((cells) => cells.map(cell).join(",")).concat("").join("\r\n");
}

/** Returns what is shown as JSON; counts beyond 2^53 are strings. A row has the time that it is of, where that is not that of the whole. */
export function jsonOf({ what, from, to, rows }) {
  const wide = (_, value) => (typeof value === "bigint" ? (Number.isSafeInteger(Number(value)) ? Number(value) : String(value)) : value);
  return JSON.stringify({ ...what, from, to, rows }, wide, 2);
}

function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  el("a", { href: url, download: name }).click();
  // The browser has it by then.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/**
 * Returns two buttons. `first` resolves once the page shows its first answer: until then they wait. `shown` returns
 * `{ file, what, from, to, rows }`, or undefined where there is nothing.
 */
export function exportButtons(first, shown) {
  const note = el("span", { class: "sub", role: "status" });
  const button = (kind, type, write) => {
    const act = async ({ target }) => {
      // A button that waits says so.
      target.disabled = true;
      target.setAttribute("aria-busy", "true");
      await first;
      target.disabled = false;
      target.removeAttribute("aria-busy");
      // Who has left the page since wants no file of it.
      if (!target.isConnected) return;
      const saved = shown();
      setText(note, saved === undefined ? "Nothing to save" : "");
      if (saved !== undefined) save(`${saved.file.replaceAll(/[^A-Za-z0-9.]+/g, "-")}.${kind}`, type, write(saved));
    };
    return el("button", { type: "button", class: "quiet small", title: `What is shown, as ${kind.toUpperCase()}`, on: { click: act } }, kind.toUpperCase());
  };
  return el(
    "div",
    { class: "export", role: "group", "aria-label": "Export" },
    button("csv", "text/csv", csvOf),
    button("json", "application/json", jsonOf),
    note,
  );
}

/** Returns the points of the range before as rows of an export, where there are any. */
export function beforeRows({ previous }, points) {
  if (previous === undefined) return [];
  return pointRows(points.map(([second, value]) => [second, value, "history before"]), STEPS[previous.step]);
}

/** Returns the points `[second, count, section]` of a history as rows of an export, each of one step. */
export function pointRows(points, step_seconds) {
  return points
    .filter(([, value]) => value !== null)
    .map(([second, value, section = "history"]) => ({
      section, name: iso(second), count: value, from: second, to: second + step_seconds,
    }));
}
