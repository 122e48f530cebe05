// The view of boards: their names; of one its first members, live, where one member stands, and its ended periods.
//
// Invariant: a rank is shown as the answer tells it; what is hidden has none.
import { Failure, json } from "./api.js";
import { refusalOf } from "./counter.js";
import { el, nameForm, notice, panel, setText } from "./dom.js";
import { exportButtons } from "./export.js";
import { freshness } from "./freshness.js";
import { repeat } from "./idle.js";
import { count, measured } from "./numbers.js";
import { boardHash, boardsHash } from "./routes.js";

const BOARDS_MAX = 100;
// Each costs a call, once.
const DESCRIBED_MAX = 8;
const ROWS = 20;
const AROUND = 3;
const TOP_MS = 5_000;
const METADATA_CHARS = 80;
const TIES = {
  member: "equal scores by name", first: "equal scores by who came first", shared: "equal scores share a rank",
};
const KEEPS = { set: "last score", best: "best score", sum: "sum of scores" };

const boardPath = (board) => `/boards/${encodeURIComponent(board)}`;
// All of its digits: two members may differ in the last one.
const scoreOf = (score) =>
  typeof score === "number" ? score.toLocaleString("en", { maximumFractionDigits: 20 }) : String(score);
/** Returns a rank in words: far from the board's home it may be known as the lowest and the highest that it may be. */
export const rankOf = (rank) =>
  rank === null ? "hidden" : Array.isArray(rank) ? rank.map(count).join(" to ") : count(rank);
const clock = (second) =>
  new Date(second * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" });

/**
 * Shows the boards in `main`, or the one that `id` names; `status` is the chip of the page. Returns a function that
 * ends it.
 */
export function showBoards(main, route, status) {
  const stopped = new AbortController();
  const show = route.id === undefined ? showList : showBoard;
  const end = show(main, route, status, stopped.signal);
  return () => {
    stopped.abort();
    end();
  };
}

/** Shows why there is no answer; throws what is none of the service's refusals. */
function tellFailure(error, body, status, signal) {
  if (signal.aborted) return;
  if (!(error instanceof Failure)) throw error;
  if (error.isOffline || error.status >= 500) return status(freshness({ connection: "offline" }));
  status({ tone: "none", text: error.wantsKey ? "key needed" : "not shown" });
  const title =
    { "board-not-found": "There is no such board", "period-not-found": "There is no such period" }[error.code] ??
    "Not shown";
  body.replaceChildren(error.wantsKey ? refusalOf(error, "") : notice(title, `${error.message}.`));
}

function tableOf(name, heads, rows) {
  const head = el("tr", {}, heads.map((text) => el("th", { scope: "col" }, text)));
  return el("table", { class: name }, el("thead", {}, head), el("tbody", {}, rows));
}

// The rows of an export; none while nothing is shown.
const exported = (file, what, rows) => (rows.length === 0 ? undefined : { file, what, rows });

function showList(main, { prefix }, status, signal) {
  const field = el("input", {
    id: "prefix", type: "search", value: prefix, autocomplete: "off", autocapitalize: "off", spellcheck: "false",
  });
  const onPrefix = (event) => {
    event.preventDefault();
    location.hash = boardsHash({ prefix: field.value });
  };
  const form = el(
    "form", { class: "prefix", on: { submit: onPrefix } }, el("label", { for: "prefix" }, "Names that begin with"),
    field, el("button", { type: "submit", class: "quiet" }, "Show"),
  );
  const body = el("div", { class: "panels" });
  main.replaceChildren(
    el("div", { class: "title" }, el("h1", { tabindex: "-1" }, "Boards")), el("div", { class: "filters" }, form), body,
  );

  const totals = [];
  const { promise: first, resolve: arrive } = Promise.withResolvers();
  const describe = async (row) => {
    const { total, settings } = await json(boardPath(row.dataset.board), signal);
    totals.push({ section: "members", name: row.dataset.board, count: total });
    const facts = [
      count(total), settings.order === "asc" ? "lowest first" : "highest first", KEEPS[settings.keep] ?? settings.keep,
      settings.period === "none" ? "–" : settings.period,
    ];
    [...row.querySelectorAll("td")].forEach((cell, at) => setText(cell, facts[at]));
  };
  const list = async () => {
    try {
      const page = await json(`/boards?limit=${BOARDS_MAX}&prefix=${encodeURIComponent(prefix)}`, signal);
      status({ tone: "good", text: `${page.entries.length}${page.cursor === null ? "" : "+"} ${page.entries.length === 1 ? "board" : "boards"}` });
      if (page.entries.length === 0) {
        const first = el(
          "pre", {}, el("code", {}, `curl -X POST -d '{"score":83}' ${location.origin}/boards/race/members/bob`),
        );
        return body.replaceChildren(
          notice(
            prefix === "" ? "There are no boards" : "No board has a name that begins so", "The first score makes one:",
            first,
          ),
        );
      }
      const heads = ["Board", "Members", "Order", "Keeps", "Period"];
      const row = (board) =>
        el(
          "tr", { "data-board": board },
          el("th", { scope: "row" }, el("a", { href: boardHash(board) }, el("bdi", {}, board))),
          heads.slice(1).map((head) => el("td", { "data-label": head }, "–")),
        );
      const more =
        page.cursor === null ? undefined : el("p", { class: "sub" }, `The first ${page.entries.length} by name.`);
      body.replaceChildren(
        panel(
          "boards", ["Boards", exportButtons(first, () => exported("tally-boards", { prefix }, totals))],
          tableOf("policies", heads, page.entries.map(row)), more,
        ),
      );
      for (const one of [...body.querySelectorAll("tr[data-board]")].slice(0, DESCRIBED_MAX)) await describe(one);
    } catch (error) {
      tellFailure(error, body, status, signal);
    } finally {
      arrive();
    }
  };
  list();
  return () => {};
}

function memberRows(rows, board, { period, member }) {
  const heads = ["Rank", "Member", "Score", "Metadata"];
  const row = (one) => {
    const metadata = one.metadata === undefined ? "" : JSON.stringify(one.metadata);
    return el(
      "tr",
      { "data-member": one.member, "aria-current": one.member === member ? "true" : undefined },
      el("td", { class: "number" }, rankOf(one.rank)),
      el(
        "th", { scope: "row" },
        el("a", { href: boardHash(board, { period, member: one.member }) }, el("bdi", {}, one.member)),
      ),
      el("td", { class: "number" }, scoreOf(one.score)),
      el(
        "td", { class: "sub metadata" },
        metadata.length > METADATA_CHARS ? `${metadata.slice(0, METADATA_CHARS)}…` : metadata,
      ),
    );
  };
  return tableOf("members", heads, rows.map(row));
}

function settingsWords({ order, keep, ties, scores, period, zone }) {
  const parts = [
    order === "asc" ? "lowest first" : "highest first", `keeps the ${KEEPS[keep] ?? keep}`, TIES[ties] ?? ties,
  ];
  if (scores === "integer") parts.push("whole numbers");
  if (period !== "none") parts.push(`begins anew each ${period}, ${zone}`);
  return parts.join(" · ");
}

function showBoard(main, route, status, signal) {
  const frame = boardFrame(main, route);
  const tell = (error) => tellFailure(error, frame.body, status, signal);
  describeBoard(frame, route, signal).catch(tell);
  const look = async () => {
    try {
      const page = await showTop(frame, route, signal);
      status(freshness({ connection: "polling", reading: page }));
      if (route.member !== undefined) await showMember(frame.member, route, signal);
    } catch (error) {
      tell(error);
    }
  };
  // What is over does not change.
  return repeat(look, () => (route.period === undefined ? TOP_MS : 12 * TOP_MS)).stop;
}

/** What stands on the page of a board: the parts that are filled later. */
function boardFrame(main, { id: board, period, member }) {
  const about = el("p", { class: "sub" }, "Loading …");
  const form = nameForm({
    id: "member", name: "member", label: "Member", value: member ?? "", required: true, button: "Find",
    submit: (name) => (location.hash = boardHash(board, { period, member: name })),
  });
  const { promise: first, resolve: arrive } = Promise.withResolvers();
  const frame = {
    about, arrive, shown: [], top: el("div", {}), total: el("p", { class: "sub" }),
    member: el("div", { role: "status" }), periods: el("div", { class: "range-place" }),
  };
  const buttons = exportButtons(first, () => exported(`tally-board-${board}`, { board, period }, frame.shown));
  frame.body = el(
    "div", { class: "panels" }, panel("member", "Find a member", form, frame.member),
    panel("top", [`The first ${ROWS}`, buttons], frame.top, frame.total),
  );
  main.replaceChildren(
    el(
      "div", { class: "title" }, el("p", { class: "crumb" }, el("a", { href: boardsHash() }, "Boards")),
      el("h1", { tabindex: "-1" }, el("bdi", {}, board)), about,
    ),
    frame.periods, frame.body,
  );
  return frame;
}

// What a query says of the period; empty for the one that runs.
const periodQuery = (period) => (period === undefined ? "" : `&period=${encodeURIComponent(period)}`);

/** Shows the first members. Returns the answer. */
async function showTop(frame, route, signal) {
  const { id: board, period } = route;
  const page = await json(`${boardPath(board)}/members?limit=${ROWS}${periodQuery(period)}`, signal);
  frame.top.replaceChildren(
    page.entries.length === 0 ? el("p", {}, "Nobody has a score here.") : memberRows(page.entries, board, route),
  );
  frame.shown = page.entries.map(({ rank, member, score }) => ({
    section: `rank ${rankOf(rank)}`, name: member, count: score,
  }));
  frame.arrive();
  setText(frame.total, page.total > page.entries.length ? `${count(page.total)} members in all.` : "");
  return page;
}

/** Shows in `node` where the member of the route stands, among those around. */
async function showMember(node, route, signal) {
  const { id: board, period, member } = route;
  const path = `${boardPath(board)}/members`;
  const name = encodeURIComponent(member);
  try {
    const own = await json(`${path}/${name}?${periodQuery(period).slice(1)}`, signal);
    const around = await json(`${path}?around=${name}&limit=${AROUND}${periodQuery(period)}`, signal);
    const rank =
      own.rank === null
        ? "Hidden: it has no rank."
        : `Rank ${rankOf(own.rank)} of ${count(own.total)}, at or above ${measured(own.percentile)} % of the others.`;
    node.replaceChildren(
      el("p", { class: "fact", id: "stands" }, `${scoreOf(own.score)} points. ${rank}`),
      memberRows(around.entries, board, route),
    );
  } catch (error) {
    if (!(error instanceof Failure) || error.code !== "member-not-found") throw error;
    node.replaceChildren(el("p", { class: "fact" }, `${member} is not on this board.`));
  }
}

/** Shows the settings of a board, and its ended periods where it has some. */
async function describeBoard(frame, { id: board, period, member }, signal) {
  const { settings, total } = await json(boardPath(board), signal);
  setText(frame.about, `${count(total)} ${total === 1 ? "member" : "members"} · ${settingsWords(settings)}`);
  if (settings.period === "none") return;
  const ended = await json(`${boardPath(board)}?include=periods`, signal);
  const link = (start, text) =>
    el(
      "a",
      {
        href: boardHash(board, { period: start, member }),
        "aria-current": String(start ?? "") === (period ?? "") ? "true" : undefined, "data-keep": "",
      },
      text,
    );
  const links = ended.periods.map(({ starts_at, total: members }) => {
    const start = starts_at / 1_000;
    return link(start, `${clock(start)} (${count(members)})`);
  });
  frame.periods.replaceChildren(el("nav", { class: "tabs", "aria-label": "Period" }, link(undefined, "Now"), links));
}
