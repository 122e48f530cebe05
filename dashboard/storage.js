// What the Durable Objects of a counter hold: the answer of `explain=storage`, cell by cell.
import { counterPath, json } from "./api.js";
import { refuseView } from "./counter.js";
import { el, nameOf, panel, svg } from "./dom.js";
import { count } from "./numbers.js";
import { counterHash } from "./routes.js";

const STEPS = { 1: "seconds", 60: "minutes", 3600: "hours", 86400: "days" };
const REGISTERS = 16_384;
const KEYS = ["of clients", "drawn", "without an API key"];

const timeOf = (ms) =>
  ms === null ? "–" : new Date(ms).toLocaleString("en-GB", { dateStyle: "short", timeStyle: "medium" });

/** Shows what a counter's cells store in `main`; `status` is the chip of the page. Returns a function that ends it. */
export function showStorage(main, { id }, status) {
  const stopped = new AbortController();
  const body = el("div", { class: "panels" });
  main.replaceChildren(
    el(
      "div", { class: "title" }, el("p", { class: "crumb" }, el("a", { href: counterHash(id) }, nameOf(id))),
      el("h1", { tabindex: "-1" }, "How ", nameOf(id), " is stored"),
      el("p", { class: "sub" }, "Each cell counts one shard of one datacenter. The value is the sum of all cells."),
    ),
    body,
  );
  const look = async () => {
    try {
      const { explain } = await json(`${counterPath(id)}?explain=storage&numbers=string`, stopped.signal);
      status({ tone: "good", text: "read now" });
      body.replaceChildren(...panelsOf(explain));
    } catch (error) {
      const sentence = "It needs a key with the scope admin for this counter.";
      refuseView(error, { body, status, signal: stopped.signal }, "This key may not see what is stored", sentence);
    }
  };
  look();
  return () => stopped.abort();
}

/** Returns a panel for each cell, and one for each datacenter that did not answer. */
function panelsOf({ datacenters }) {
  return datacenters.flatMap(({ id, cells }) =>
    cells.some(({ storage }) => storage !== undefined)
      ? cells.map((cell) => cellPanel(id, cell))
      : [panel(`cell-${id}`, id, el("p", { class: "sub" }, "It did not answer."))],
  );
}

function cellPanel(datacenter, { shard, object, added, removed, sequence, storage }) {
  const heading = `${datacenter}, shard ${shard}`;
  const sums = `Added ${count(added)}, removed ${count(removed)}, in ${count(sequence)} flushes.`;
  const name = el("p", { class: "sub" }, "Object ", el("code", {}, object));
  const first = [name, el("p", {}, sums)];
  if (storage === undefined) return panel(`cell-${object}`, heading, ...first, el("p", {}, "It did not answer."));
  const more = storage.complete ? "" : ", and more that were not read";
  const records = storage.records.map((number, place) => `${count(number)} ${KEYS[place]}`).join(", ");
  return panel(
    `cell-${object}`, heading, ...first,
    el("p", {}, `${count(storage.rows)} rows, ${count(storage.bytes)} bytes${more}. Keys of writes: ${records}.`),
    bytesOf(storage),
    tableOf(["Buckets", "Over", "Open", "First", "Last"], storage.buckets.map((one) => [
      STEPS[one.seconds], count(one.closed), one.open ? "1" : "0", timeOf(one.first_at), timeOf(one.last_at),
    ])),
    sketchesOf(storage.sketches),
  );
}

function sketchesOf(sketches) {
  if (sketches.length === 0) return el("p", { class: "sub" }, "No sketches of unique elements are in memory.");
  const row = ({ of, dense, registers, bytes }) => [
    of.replace("_", " "), dense ? "dense" : "list of tokens", `${count(registers)} of ${count(REGISTERS)}`,
    count(bytes),
  ];
  return tableOf(["Sketch", "Form", "Registers above 0", "Bytes"], sketches.map(row));
}

/** Returns a bar for each kind of row: its share of the bytes. */
function bytesOf({ kinds, bytes }) {
  const bar = (own) => svg("rect", { height: "100%", width: `${(own / Math.max(bytes, 1)) * 100}%` });
  const row = ({ kind, rows, bytes: own, first_at, last_at }) => el(
    "li", { title: first_at === null ? undefined : `${timeOf(first_at)} to ${timeOf(last_at)}` },
    el("span", { class: "place" }, kind.replaceAll("_", " ")),
    svg("svg", { class: "bar", "aria-hidden": "true" }, bar(own)),
    el("span", { class: "number" }, `${count(own)} bytes`),
    el("span", { class: "share" }, rows === 1 ? "1 row" : `${count(rows)} rows`),
  );
  return el("ul", { class: "bars" }, kinds.map(row));
}

function tableOf(heads, rows) {
  const row = ([first, ...cells]) => el(
    "tr", {}, el("th", { scope: "row" }, first),
    cells.map((cell, place) => el("td", { "data-label": heads[place + 1] }, cell)),
  );
  const head = el("tr", {}, heads.map((text) => el("th", { scope: "col" }, text)));
  return el("table", { class: "policies" }, el("thead", {}, head), el("tbody", {}, rows.map(row)));
}
