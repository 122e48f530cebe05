// What is shown, as a file: CSV for tables, JSON for programs. It is made in the browser.
import { el } from "./dom.js";

// A spreadsheet runs a text that begins so.
const FORMULA = /^[=+\-@\t\r]/;

function cell(value) {
  const text = typeof value === "bigint" || typeof value === "number" ? String(value) : FORMULA.test(value) ? `'${value}` : String(value ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Returns rows `{ section, name, count }` as CSV. Source: RFC 4180. */
export function csvOf(rows) {
  const lines = rows.map(({ section, name, count }) => [section, name, count].map(cell).join(","));
  return ["section,name,count", ...lines, ""].join("\r\n");
}

/** Returns what is shown as JSON; counts beyond 2^53 are strings. */
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

/** Returns two buttons; `shown` returns `{ file, what, from, to, rows }`, or undefined while there is nothing. */
export function exportButtons(shown) {
  const button = (kind, type, write) => {
    const act = () => {
      const told = shown();
      if (told !== undefined) save(`${told.file.replaceAll(/[^A-Za-z0-9.]+/g, "-")}.${kind}`, type, write(told));
    };
    return el("button", { type: "button", class: "quiet small", title: `What is shown, as ${kind.toUpperCase()}`, on: { click: act } }, kind.toUpperCase());
  };
  return el(
    "div",
    { class: "export", role: "group", "aria-label": "Export" },
    button("csv", "text/csv", ({ rows }) => csvOf(rows)),
    button("json", "application/json", jsonOf),
  );
}

/** Returns the points of a history as rows of an export. */
export function pointRows(points) {
  return points
    .filter(([, value]) => value !== null)
    .map(([second, value]) => ({ section: "history", name: new Date(second * 1000).toISOString(), count: value }));
}
