// What a policy did in a range: how much it allowed and refused, when, and which keys it refused most.
import { Failure, json } from "./api.js";
import { Bars } from "./bars.js";
import { exportRows, windowWords } from "./breakdowns.js";
import { changeOf, comparedTimes } from "./changes.js";
import { el, setText } from "./dom.js";
import { exportButtons, pointRows } from "./export.js";
import { compared, historyOf, pointsBefore } from "./history.js";
import { repeat } from "./idle.js";
import { count, share, whole } from "./numbers.js";
import { during, rangeOf } from "./ranges.js";
import { VerdictChart } from "./verdict-chart.js";

const PAUSE_MS = 15_000;
// What came before is asked for with each eighth look.
const SLOW = 8;
const KEYS = 10;
const TILES = [
  ["allowed", "Allowed"],
  ["refused", "Refused"],
  ["error", "No verdict"],
];
const SENT =
  "Isolates report every 10 s; what one had not reported when it ended is missing. Checks that bring a policy of their own are not included. A shadow policy counts what it would have answered.";

/** The path of a policy. */
export const policyPath = (id) => `/limits/${encodeURIComponent(id)}`;

/** Returns a tile of a verdict with its number, a line about it, and how it changed, as `changeOf` tells it. */
export function tileOf(name, label, number, line, change) {
  const changed =
    change && el("span", { class: "change", "data-tone": "none", title: change.title }, change.words);
  return el(
    "div", { class: "tile", "data-verdict": name }, el("h3", { class: "label" }, label),
    el("p", { class: "value small" }, number), el("p", { class: "sub" }, line, change && " · ", changed),
  );
}

/**
 * Returns how each kind of verdict changed since the range before, as `changeOf` tells it, undefined where nothing is
 * compared; points are `[start, allowed, refused, error]`.
 */
export function verdictChanges(range, points, before) {
  const of = (all, at) => all.map((point) => [point[0], point[at + 1]]);
  return TILES.map((_, at) => {
    const { now, before: was } = compared(range, of(points, at), of(before, at));
    return was === undefined ? undefined : changeOf([now, now], [was, was], comparedTimes(range));
  });
}

/** Returns what no row of refused keys holds, in a sentence. */
export function otherKeys({ other, none, kept_from_at }) {
  const parts = [
    whole(other.count) > 0n ? `${count(other.count)} of other keys` : "",
    whole(none) > 0n ? `${count(none)} whose keys are not kept${kept_from_at === null ? "" : " any more"}` : "",
  ].filter(Boolean);
  return parts.length === 0 ? "" : `${parts.join("; ")}.`;
}

/** Returns the sums, the refused keys and the points of a policy as rows of an export. */
function rowsOf(history, range, changes, refused) {
  const sums = TILES.map(([name], at) => ({
    section: "checks", name, count: whole(history[name]), ...changes[at]?.columns,
  }));
  const keys = { ...refused, rows: refused.rows.map((row) => ({ value: row.key, ...row })) };
  const points = history.points.flatMap(([second, ...counts]) =>
    pointRows(TILES.map(([name], at) => [second, counts[at], name]), range.step_seconds),
  );
  return [...sums, ...exportRows(new Map([["refused key", keys]])), ...points];
}

/** Shows what a policy did. Returns `{ nodes, stop }`. */
export function policyHistory(id, range_name, status, signal) {
  const tiles = el("div", { class: "tiles" });
  const chart = new VerdictChart();
  const keys = new Bars("refused-keys", "Keys refused most");
  keys.node.classList.add("wide");
  keys.node.append(el("p", { class: "sub" }, "Of an IP address only its network is kept. Keys are kept for 7 days."));
  const title = el("h2", { id: "verdicts-title", class: "label" }, "Allowed and refused");
  let shown;
  let looks = 0;
  let before = [];
  const { promise: first, resolve: arrive } = Promise.withResolvers();
  const head = el(
    "div", { class: "head" }, title, exportButtons(first, () => shown),
  );
  const node = el(
    "section", { class: "panel wide", "aria-labelledby": "verdicts-title" }, head, tiles, chart.node,
    el("p", { class: "sub" }, SENT),
  );

  const look = async () => {
    try {
      const requested = rangeOf(range_name, Math.floor(Date.now() / 1000));
      const { history, range } = await historyOf(policyPath(id), requested, signal);
      if (looks % SLOW === 0) before = await pointsBefore(policyPath(id), range, signal);
      looks += 1;
      const changes = verdictChanges(range, history.points, before);
      const all = TILES.reduce((sum, [name]) => sum + whole(history[name]), 0n);
      setText(title, `Allowed and refused ${during(range.words)}`);
      tiles.replaceChildren(
        ...TILES.map(([name, label], at) =>
          tileOf(name, label, count(history[name]), share(history[name], all), changes[at]),
        ),
      );
      chart.show(history.points, range);
      const time = range.name === "all" ? `from=${range.from}` : `from=${range.from}&to=${range.until - 1}`;
      const { refused } = await json(`${policyPath(id)}?include=refused&${time}&limit=${KEYS}&numbers=string`, signal);
      const rest = [otherKeys(refused), windowWords(range, refused.window)].filter(Boolean).join(" ");
      shown = {
        file: `tally-limit-${id}-${range.name}`, what: { policy: id }, from: range.from, to: range.until,
        rows: rowsOf(history, range, changes, refused),
      };
      arrive();
      if (refused.rows.length === 0) {
        keys.tell(
          el("p", {}, whole(refused.total) === 0n ? `Nothing was refused ${during(range.words)}.` : otherKeys(refused)),
        );
      } else {
        keys.show(
          refused.rows.map((row) => ({ key: row.key, name: row.key, count: row.count })), refused.total, rest,
        );
      }
      status({ tone: "good", text: "polling" });
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      status(
        error.isOffline || error.status >= 500
          ? { tone: "bad", text: "offline" }
          : { tone: "none", text: error.wantsKey ? "key needed" : "not shown" },
      );
      if (!error.isOffline) tiles.replaceChildren(el("p", { class: "sub" }, `${error.message}.`));
    }
  };
  return { nodes: [node, keys.node], stop: repeat(look, () => PAUSE_MS).stop };
}
