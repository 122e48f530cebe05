// What came from where: the panels of a counter's dimensions.
//
// Invariant: a number is shown with what bounds it; what is in no row is said beside the rows.
import { Failure, json } from "./api.js";
import { Bars } from "./bars.js";
import { CountryMap, countryName } from "./countries.js";
import { el } from "./dom.js";
import { count, whole } from "./numbers.js";
import { during } from "./ranges.js";
import { counterHash } from "./routes.js";

const ROWS = 10;
// The panels that a site's owner looks for first; each of the others that a counter has comes after them.
const KNOWN = {
  page: "Pages",
  referrer: "Referrers",
  country: "Countries",
  device: "Devices",
  browser: "Browsers",
  utm_source: "Campaign sources",
  status: "Status codes",
  method: "Methods",
};
// A counter has 16 at most; each costs a call.
const PANELS_MAX = 8;
const NONE = { referrer: "came directly, or did not say from where", country: "from an unknown country" };

/** Returns the path of a breakdown in a range; `path` is that of a counter or of a prefix. */
export function breakdownPath(path, by, range, limit = ROWS) {
  const time = range.name === "all" ? "" : `&from=${range.from}&to=${range.until - 1}`;
  return `${path}/breakdown?by=${encodeURIComponent(by)}${time}&limit=${limit}&numbers=string`;
}

/** Returns a value of a dimension in words: "Referrers: news.example". */
export const whereWords = ({ by, value }) => `${KNOWN[by] ?? by}: ${by === "country" ? countryName(value) : value}`;

/** Returns the dimensions that are shown, of those that a counter has: the well-known first. */
export function shownDimensions(has) {
  const known = Object.keys(KNOWN).filter((name) => has.includes(name));
  const others = has.filter((name) => !Object.hasOwn(KNOWN, name)).sort();
  return [...known, ...others].slice(0, PANELS_MAX);
}

/** Returns the rows of an answer as `Bars` shows them; `leads(by, value)` returns where a row leads. */
export function breakdownRows(by, told, leads = () => undefined) {
  return told.rows.map(({ value, count: least, error }) => ({
    key: value,
    name: by === "country" ? countryName(value) : value,
    // Its code rather than its flag, which not every machine can draw.
    mark: by === "country" ? value : undefined,
    count: least,
    title: error === undefined || error === 0 ? undefined : `${count(least)} to ${count(whole(least) + whole(error))}`,
    href: by === "page" ? counterHash(value) : leads(by, value),
  }));
}

/** Returns what is not in the rows of an answer, and how true they are, in a sentence. */
export function restWords(by, told) {
  const error = told.rows.reduce((most, row) => (whole(row.error ?? 0) > most ? whole(row.error) : most), 0n);
  const parts = [
    whole(told.other.count) > 0n ? `${count(told.other.count)} with other values` : "",
    whole(told.none) > 0n ? `${count(told.none)} ${NONE[by] ?? "without it"}` : "",
    error > 0n ? `each may be up to ${count(error)} more` : "",
  ].filter(Boolean);
  return parts.length === 0 ? "" : `${parts.join("; ")}.`;
}

/** The panels of the dimensions of a counter, or of all of a prefix. `node` goes on the page. */
export class Breakdowns {
  #signal;
  #path;
  #id;
  #panels = new Map();
  #map = new CountryMap();
  #isMissing = false;
  #told = new Map();
  #leads;
  node = el("div", { class: "breakdowns" });

  /** Those of a path; `id` is what a page would count as; `leads(by, value)` returns where a row leads. */
  constructor(path, id, signal, leads) {
    this.#leads = leads;
    this.#path = path;
    this.#id = id;
    this.#signal = signal;
  }

  /** What is shown: dimension → answer. */
  get told() {
    return this.#told;
  }

  /** Asks again. A service without breakdowns is asked once. */
  async refresh(range) {
    if (this.#isMissing) return;
    const ask = (by) => json(breakdownPath(this.#path, by, range), this.#signal);
    try {
      const first = await ask("referrer");
      const told = new Map();
      for (const by of shownDimensions(first.dimensions)) told.set(by, by === "referrer" ? first : await ask(by));
      this.#told = told;
      if (told.size === 0) this.#empty();
      else this.#show(range);
    } catch (error) {
      if (this.#signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      if (error.isNoCall) this.#isMissing = true;
      // Otherwise what was shown stays; that the service is away is said elsewhere.
    }
  }

  #show(range) {
    const nodes = [];
    for (const [by, told] of this.#told) {
      const panel = this.#panels.get(by) ?? new Bars(`by-${by}`, KNOWN[by] ?? by);
      this.#panels.set(by, panel);
      const rows = breakdownRows(by, told, (...row) => this.#leads?.(range, ...row));
      if (rows.length === 0) panel.tell(el("p", {}, `None ${during(range.words)}.`));
      else panel.show(rows, told.total, restWords(by, told));
      if (by === "country") this.#map.showIn(panel.node, told.rows);
      nodes.push(panel.node);
    }
    const isSame = nodes.length === this.node.children.length && nodes.every((node, at) => this.node.children[at] === node);
    if (!isSame) this.node.replaceChildren(...nodes);
  }

  #empty() {
    const page = `<script src='${location.origin}/tally.js' data-id='${this.#id}' data-by='page referrer country device browser utm_source' defer></script>`;
    const log = `curl --data-binary @access.log '${location.origin}/ingest?format=clf&key=site&site=example.com&by=page,referrer,browser,device'`;
    this.node.replaceChildren(
      el(
        "section",
        { class: "panel wide", "aria-labelledby": "breakdowns-title" },
        el("h2", { id: "breakdowns-title", class: "label" }, "Referrers, countries, devices, browsers"),
        el("p", { class: "sub" }, "Nothing was counted with them yet. A page sends them by the script for pages, an access log has them in its lines:"),
        el("pre", {}, el("code", {}, page)),
        el("pre", {}, el("code", {}, log)),
      ),
    );
  }
}
