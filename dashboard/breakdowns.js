// What came from where: the panels of a counter's dimensions.
//
// Invariant: a number is shown with what bounds it; what is in no row is said beside the rows.
import { Failure, json } from "./api.js";
import { Bars } from "./bars.js";
import { Comparison, comparedValueTimes, timesWords } from "./changes.js";
import { CountryMap, countryName } from "./countries.js";
import { el, setText } from "./dom.js";
import { count, whole } from "./numbers.js";
import { during, hoursWords } from "./ranges.js";

const ROWS = 10;
// Where more are asked for.
const ROWS_OPEN = 100;
const DAY = 86_400;
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

// Spaces and marks that nobody sees.
const BLANK = /^[\p{Z}\p{C}]*$/u;

/** Returns a value as it is shown: one that would not be seen as a word. */
export function valueWords(by, value) {
  if (BLANK.test(value)) return "(blank)";
  return by === "country" ? countryName(value) : value;
}

/** Returns a value of a dimension in words: "Referrers: news.example". */
export const whereWords = ({ by, value }) => `${KNOWN[by] ?? by}: ${valueWords(by, value)}`;

/** Returns the dimensions that a counter has, the well-known first: those that are shown, and the others. */
export function shownDimensions(has) {
  const known = Object.keys(KNOWN).filter((name) => has.includes(name));
  const others = has.filter((name) => !Object.hasOwn(KNOWN, name)).sort();
  const all = [...known, ...others];
  return [all.slice(0, PANELS_MAX), all.slice(PANELS_MAX)];
}

/** Returns what is said of dimensions that have no panel; "" where there are none. */
export function unshownWords(names) {
  if (names.length === 0) return "";
  return `${names.length} more ${names.length === 1 ? "dimension has" : "dimensions have"} no panel here: ${names.join(", ")}. GET /counters/{id}/breakdown?by= returns them.`;
}

/** Returns what is said of dimensions that have no value in a range; "" where there are none. */
export function noneWords(names, range) {
  return names.length === 0 ? "" : `None ${during(range.words)}: ${names.map((by) => KNOWN[by] ?? by).join(", ")}.`;
}

/**
 * Returns of which time the values of an answer are, in a sentence; "" where that is the range. Values are kept by
 * the hour, and by the day of UTC once they are older than a week.
 */
export function windowWords(range, window) {
  if (range.name === "all" || !window || window.starts_at === null) return "";
  const [from, to] = [window.starts_at / 1_000, window.ends_at / 1_000];
  if (from >= range.from && to <= range.to) return "";
  const isByDays = from % DAY === 0 && range.now - range.from > 7 * DAY;
  const kept = isByDays ? "older values are kept by the day of UTC" : "values are kept by the hour";
  // A day that is under way is one of the days.
  const end = isByDays && range.to > range.now ? range.now - (range.now % DAY) + DAY : to;
  return `Of ${hoursWords(from, end)}: ${kept}.`;
}

/**
 * Returns the rows of dimensions for an export, each with the time that it is of, and how it changed; `answers` is
 * dimension → answer, `changes` dimension → how a value changed.
 */
export function exportRows(answers, changes = new Map()) {
  return [...answers].flatMap(([by, { window, rows }]) => {
    const time = window?.starts_at == null ? {} : { from: window.starts_at / 1_000, to: window.ends_at / 1_000 };
    const changeOf = changes.get(by);
    return rows.map(({ value, count: least }) => ({
      section: by, name: value, count: whole(least), ...time, ...changeOf?.(value)?.columns,
    }));
  });
}

/**
 * Returns the rows of an answer as `Bars` shows them; `leads(by, value)` returns where a row leads, `changeOf(value)`
 * how it changed.
 */
export function breakdownRows(by, answer, leads = () => undefined, changeOf = () => undefined) {
  return answer.rows.map(({ value, count: least, error }) => ({
    key: value,
    name: valueWords(by, value),
    // Its code rather than its flag, which not every machine can draw.
    mark: by === "country" ? value : undefined,
    count: least,
    title: error === undefined || error === 0 ? undefined : `${count(least)} to ${count(whole(least) + whole(error))}`,
    href: leads(by, value),
    change: changeOf(value),
  }));
}

/** Returns what is not in the rows of an answer, how true they are, and of which time, in sentences. */
export function restWords(by, answer, range) {
  const error = answer.rows.reduce((most, row) => (whole(row.error ?? 0) > most ? whole(row.error) : most), 0n);
  const parts = [
    whole(answer.other.count) > 0n ? `${count(answer.other.count)} with other values (at most ${count(answer.other.each_max)} each)` : "",
    whole(answer.none) > 0n ? `${count(answer.none)} ${NONE[by] ?? "without it"}` : "",
    error > 0n ? `a row may be up to ${count(error)} more` : "",
  ].filter(Boolean);
  const rest = parts.length === 0 ? "" : `${parts.join("; ")}.`;
  return [rest, windowWords(range, answer.window)].filter(Boolean).join(" ");
}

/** Returns the element for pages that counts them as `id`, whatever marks that has: people copy it into their pages. */
export function pageScript(origin, id) {
  const written = id.replaceAll(/[&'<]/g, (mark) => `&#${mark.charCodeAt(0)};`);
  return `<script src='${origin}/tally.js' data-id='${written}' data-by='page referrer country device browser utm_source' defer></script>`;
}

/** The panels of the dimensions of a counter, or of all of a prefix. `node` goes on the page. */
export class Breakdowns {
  #signal;
  #path;
  #id;
  #panels = new Map();
  #map = new CountryMap();
  #isMissing = false;
  #answers = new Map();
  #changes = new Map();
  #comparison;
  // Dimensions of which more rows were asked for.
  #opened = new Set();
  #unshown = el("p", { class: "sub unshown" });
  #compared = el("p", { class: "sub unshown" });
  #leads;
  node = el("div", { class: "breakdowns" });

  /** Those of a path; `id` is what a page would count as; `leads(by, value)` returns where a row leads. */
  constructor(path, id, signal, leads) {
    this.#leads = leads;
    this.#path = path;
    this.#id = id;
    this.#signal = signal;
    this.#comparison = new Comparison(signal);
    this.#say(el("p", { class: "sub", role: "status" }, "Loading …"));
  }

  /** What is shown, as rows of an export. */
  get rows() {
    return exportRows(this.#answers, this.#changes);
  }

  /**
   * Asks again, for one dimension after the other, and shows each as it comes. A service without breakdowns is asked
   * once.
   */
  async refresh(range) {
    if (this.#isMissing) return;
    try {
      const first = await this.#ask("referrer", range);
      const [shown, others] = shownDimensions(first.dimensions);
      this.#answers = new Map(shown.filter((by) => this.#answers.has(by)).map((by) => [by, this.#answers.get(by)]));
      if (shown.length === 0) return this.#empty();
      this.#place(shown);
      for (const by of shown) {
        this.#answers.set(by, by === "referrer" ? first : await this.#ask(by, range));
        this.#show(by, range);
      }
      const none = shown.filter((by) => this.#answers.get(by).rows.length === 0);
      setText(this.#unshown, [noneWords(none, range), unshownWords(others)].filter(Boolean).join(" "));
    } catch (error) {
      if (this.#signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      if (error.isNoCall) {
        this.#isMissing = true;
        return this.node.replaceChildren();
      }
      // What was shown stays; that the service is away is said elsewhere.
      for (const note of this.node.querySelectorAll("[role=status]")) {
        setText(note, `Could not be read: ${error.message}.`);
      }
    }
  }

  #ask(by, range) {
    return json(breakdownPath(this.#path, by, range, this.#opened.has(by) ? ROWS_OPEN : ROWS), this.#signal);
  }

  /** Asks for more rows of a dimension, and shows them. */
  async #open(by, range) {
    this.#opened.add(by);
    try {
      this.#answers.set(by, await this.#ask(by, range));
      this.#show(by, range);
      await this.#compareOne(by, range);
    } catch (error) {
      // What was shown stays, and its button; that the service is away is said elsewhere.
      if (!(error instanceof Failure) && !this.#signal.aborted) throw error;
    }
  }

  async #compareOne(by, range) {
    const pathOf = (time, rows) => breakdownPath(this.#path, by, time, rows);
    const compared = await this.#comparison.between(comparedValueTimes(range), pathOf, this.#answers.get(by));
    this.#changes.set(by, compared?.of);
    this.#show(by, range);
  }

  /** Asks for what the rows are compared with, and shows how each changed. */
  async compare(range) {
    const times = comparedValueTimes(range);
    for (const by of this.#answers.keys()) await this.#compareOne(by, range);
    setText(this.#compared, [...this.#changes.values()].some(Boolean) ? timesWords(range, times) : "");
  }

  /** Puts the panels of dimensions on the page, in order. */
  #place(shown) {
    for (const by of shown) {
      if (this.#panels.has(by)) continue;
      const panel = new Bars(`by-${by}`, KNOWN[by] ?? by);
      panel.tell(el("p", { role: "status" }, "Loading …"));
      this.#panels.set(by, panel);
    }
    const nodes = [...shown.map((by) => this.#panels.get(by).node), this.#unshown, this.#compared];
    const isSame =
      nodes.length === this.node.children.length && nodes.every((node, at) => this.node.children[at] === node);
    if (!isSame) this.node.replaceChildren(...nodes);
  }

  #show(by, range) {
    const panel = this.#panels.get(by);
    const answer = this.#answers.get(by);
    const rows = breakdownRows(by, answer, (...row) => this.#leads(range, ...row), this.#changes.get(by));
    // Those without any are named together.
    panel.node.hidden = rows.length === 0;
    const hasMore = whole(answer.other.count) > 0n && rows.length < ROWS_OPEN;
    panel.show(rows, answer.total, restWords(by, answer, range), hasMore ? () => this.#open(by, range) : undefined);
    if (by === "country") this.#map.showIn(panel.node, answer.rows);
  }

  /** Says something in place of all panels. */
  #say(...nodes) {
    const title = el("h2", { id: "breakdowns-title", class: "label" }, "Referrers, countries, devices, browsers");
    this.node.replaceChildren(
      el("section", { class: "panel wide", "aria-labelledby": "breakdowns-title" }, title, ...nodes),
    );
  }

  #empty() {
    const page = pageScript(location.origin, this.#id);
    const log = `curl --data-binary @access.log '${location.origin}/ingest?format=clf&id=site&site=example.com&by=page,referrer,browser,device'`;
    this.#say(
      el("p", { class: "sub" }, "Nothing was counted with these dimensions yet. The script for pages sends them, and an access log has them:"),
      el("pre", {}, el("code", {}, page)),
      el("pre", {}, el("code", {}, log)),
    );
  }
}
