// The view of rate limits: the policies, and what was allowed and refused.
//
// Invariant: what a policy did is told by the service, over all isolates. The tiles above the list are those of all
// isolates, or, where a part of the deployment does not answer, of the one that did; of all policies and of those that
// checks bring.
import { Failure, json, send, text } from "./api.js";
import { refusalOf } from "./counter.js";
import { el, notice, panel, svg } from "./dom.js";
import { exportButtons } from "./export.js";
import { repeat } from "./idle.js";
import { count, duration, rate, share, whole } from "./numbers.js";
import { overrideNodes } from "./overrides.js";
import { policyForm } from "./policy-form.js";
import { policyHistory, policyPath, tileOf } from "./policy-history.js";
import { policyHolds } from "./policy-holds.js";
import { rangeBar } from "./range-bar.js";
import { limitHash } from "./routes.js";
import { sparkline } from "./series.js";
import { lookColumns, ratesBetween, verdictsOf, withLook } from "./verdicts.js";

const POLICIES_MAX = 100;
// Each costs a call, once.
const COUNTED_MAX = 8;
const RANGE = "today";
const LOOK_MS = 5_000;
const FORM_TITLE = "Change it";
// Ten minutes.
const LOOKS_MAX = 120;
const BOX = { width: 480, height: 48 };

/**
 * Shows the limits in `main`, or of the policies the one that `id` names; `status` is the chip of the page. Returns a
 * function that ends it.
 */
export function showLimits(main, route, status) {
  const { id } = route;
  const range = route.range ?? RANGE;
  const stopped = new AbortController();
  const { signal } = stopped;
  const did = id === undefined ? undefined : policyHistory(id, range, status, signal);
  const holds = id === undefined ? undefined : policyHolds(policyPath(id), signal);
  const verdicts = el("div", {});
  const policies = el("div", {});
  const listed = Promise.withResolvers();
  let shown;
  main.replaceChildren(
    el("div", { class: "title" }, el("h1", { tabindex: "-1" }, id === undefined ? "Rate limits" : el("bdi", {}, id))),
    ...(id === undefined ? [] : [el("div", { class: "range-place" }, rangeBar(route, range))]),
    el(
      "div", { class: "panels" }, did?.nodes ?? panel("verdicts", "Allowed and refused", verdicts), holds?.nodes,
      el(
        "section",
        { class: "panel wide", "aria-labelledby": "policies-title" },
        el(
          "div", { class: "head" },
          el("h2", { id: "policies-title", class: "label" }, id === undefined ? "Policies" : "Policy"),
          id === undefined ? exportButtons(listed.promise, () => shown) : undefined,
        ),
        policies,
      ),
    ),
  );
  showPolicies(policies, id, signal)
    .then((rows) => (shown = rows && { file: "tally-limits", what: {}, rows }))
    .finally(listed.resolve);
  const watching = did ?? repeat(verdictLook(verdicts, status, signal), () => LOOK_MS);
  return () => {
    stopped.abort();
    watching.stop();
    holds?.stop();
  };
}

/** Returns a function that asks once for the verdicts of all policies, and shows them in `node`. */
function verdictLook(node, status, signal) {
  let before;
  let looks = [];
  let last_contact_ms = Date.now();
  return async () => {
    try {
      const after = { at_ms: Date.now(), verdicts: verdictsOf(await text("/metrics", signal)) };
      last_contact_ms = Date.now();
      if (after.verdicts === undefined) {
        node.replaceChildren(el("p", { class: "sub" }, "This service reports no verdicts."));
      } else {
        const rates = ratesBetween(before, after);
        looks = withLook(looks, rates, LOOKS_MAX);
        node.replaceChildren(...verdictNodes(after, rates), ...trendNodes(looks));
      }
      before = after;
      status({ tone: "good", text: `polling · ${after.verdicts !== undefined && "age_s" in after.verdicts ? "all isolates" : "one isolate"}` });
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      if (error.isOffline || error.status >= 500)
        return status({ tone: "bad", text: `offline · last seen ${duration(Date.now() - last_contact_ms)} ago` });
      status({ tone: "none", text: "key needed" });
      node.replaceChildren(verdictRefusal(error));
    }
  };
}

function verdictRefusal(error) {
  const sentence = "Verdicts cover all keys. Reading them needs a key with the scope admin and no prefix.";
  return error.wantsKey ? refusalOf(error, "") : el("p", { class: "sub" }, sentence);
}

/**
 * Shows the policies in `node`, or the one that `id` names, with a form that changes it. Resolves to what an export has
 * of them; undefined where they could not be read.
 */
async function showPolicies(node, id, signal) {
  try {
    const one = async () => ({ entries: [await json(policyPath(id), signal)], cursor: null });
    const page = id === undefined ? await json(`/limits?limit=${POLICIES_MAX}`, signal) : await one();
    node.replaceChildren(
      page.entries.length === 0 ? noneYet() : tableOf(page),
    );
    if (id !== undefined && !node.dataset.form) {
      await showForm(node, page.entries[0], signal);
      const overrides = el("div", {}, ...(await overrideNodes(policyPath(id), signal)));
      node.closest(".panel").after(panel("overrides", "Overrides", overrides));
    }
    const counts = await countEach(node, signal);
    const limits = page.entries.map(({ policy, limit }) => ({ section: "limit", name: policy, count: limit }));
    return [...limits, ...counts];
  } catch (error) {
    if (signal.aborted) return undefined;
    if (!(error instanceof Failure)) throw error;
    const isMissing = error.status === 404 && id !== undefined;
    const what = isMissing ? `There is no stored policy ${id}.` : `The policies could not be read: ${error.message}.`;
    node.replaceChildren(el("p", { class: "sub" }, what));
    return undefined;
  }
}

/** Puts the form of a policy below the panel of `node`, where the policy is shown. */
async function showForm(node, policy, signal) {
  const { policy: id } = policy;
  node.dataset.form = "shown";
  const { schemas } = (await json("/openapi.json", signal)).components;
  const save = async (wanted) => {
    await send("PUT", policyPath(id), wanted, signal);
    await showPolicies(node, id, signal);
  };
  node.closest(".panel").after(panel("form", FORM_TITLE, policyForm(policy, schemas.Policy, save)));
}

// What stores the first one.
function noneYet() {
  const command = `curl -X PUT -d '{"limit":10,"window_seconds":60}' ${location.origin}/limits/login`;
  return notice(
    "There are no stored policies", "This stores one. Policies that callers send with their checks are not listed here.",
    el("pre", {}, el("code", {}, command)),
  );
}

/** Fills in what the first policies of the list did in the last 24 hours. Returns that as rows of an export. */
async function countEach(policies, signal) {
  const rows = [];
  for (const row of [...policies.querySelectorAll("tr[data-policy]")].slice(0, COUNTED_MAX)) {
    const history = (await json(`${policyPath(row.dataset.policy)}?include=history&window=86400&numbers=string`, signal)).history;
    const to = Math.floor(Date.now() / 1000);
    for (const name of ["allowed", "refused"]) {
      row.querySelector(`[data-count=${name}]`).textContent = count(history[name]);
      rows.push({ section: name, name: row.dataset.policy, count: whole(history[name]), from: to - 86_400, to });
    }
  }
  return rows;
}

function verdictNodes({ at_ms, verdicts }, rates) {
  const { allowed, refused, error, started_s, age_s } = verdicts;
  const isOfAll = "age_s" in verdicts;
  const all = allowed + refused + error;
  const now = (name) => (rates === undefined ? "" : ` · ${rate(rates[name])} now`);
  const tile = (name, label, number) => tileOf(name, label, count(number), share(number, all) + now(name));
  const bar = el("div", { class: "split", "aria-hidden": "true" });
  for (const [name, number] of [
    ["allowed", allowed],
    ["refused", refused],
    ["error", error],
  ]) {
    const part = el("span", { "data-verdict": name });
    part.style.flexGrow = String(number);
    bar.append(part);
  }
  const age = started_s === undefined ? "" : ` ${duration(at_ms - started_s * 1000)} ago`;
  const report = age_s === undefined ? "" : ` The newest report came ${duration(age_s * 1000)} ago.`;
  const whose = isOfAll
    ? `Checks of all isolates, as they reported them, every ten seconds.${report}`
    : `Checks of the isolate that answered, since it started${age}. A part of the deployment does not answer, so the checks of the other isolates are not known.`;
  return [
    el(
      "div",
      { class: "tiles" },
      tile("allowed", "Allowed", allowed),
      tile("refused", "Refused", refused),
      tile("error", "No verdict", error),
    ),
    all === 0 ? null : bar,
    el(
      "p",
      { class: "sub" },
      `${whose} Refused includes verdicts of shadow policies.`,
    ),
  ].filter(Boolean);
}

/** How the rates went since the page was opened. */
function trendNodes(looks) {
  const { allowed, refused, top } = lookColumns(looks);
  if (top === 0 || allowed.filter((value) => value !== null).length < 2) return [];
  const path = (name, values) =>
    svg("path", { class: "line", "data-verdict": name, d: sparkline(values, BOX.width, BOX.height, top) });
  return [
    svg(
      "svg",
      {
        class: "spark trend",
        viewBox: `0 -2 ${BOX.width} ${BOX.height + 4}`,
        preserveAspectRatio: "none",
        "aria-hidden": "true",
      },
      path("allowed", allowed),
      path("refused", refused),
    ),
    el(
      "p",
      { class: "sub" },
      `Allowed (solid) and refused (dashed) since this view was opened, ten minutes at most. The top of the chart is ${rate(top)}. A gap is a time in which not all isolates had reported.`,
    ),
  ];
}

/** Returns the window of a policy; one of concurrency has none. */
export function windowText({ window_seconds }) {
  return window_seconds === undefined ? "at once" : duration(window_seconds * 1000).replace(/\.0 /, " ");
}

function tableOf(page) {
  const heads = [
    "Policy", "Limit", "Window", "Algorithm", "Scope", "If the limiter is unreachable", "Allowed, 24 h",
    "Refused, 24 h",
  ];
  const row = (policy) =>
    el(
      "tr",
      { "data-policy": policy.policy },
      el(
        "th", { scope: "row" }, el("a", { href: limitHash(policy.policy) }, el("bdi", {}, policy.policy)),
        policy.shadow ? " (shadow: refuses nobody)" : "",
      ),
      el("td", { class: "number", "data-label": heads[1] }, count(policy.limit)),
      el("td", { "data-label": heads[2] }, windowText(policy)),
      el("td", { "data-label": heads[3] }, policy.algorithm),
      el("td", { "data-label": heads[4] }, policy.scope === "global" ? "global" : "each datacenter"),
      el("td", { "data-label": heads[5] }, policy.on_error === "closed" ? "refuses (503)" : "allows"),
      el("td", { class: "number", "data-label": heads[6], "data-count": "allowed" }, "–"),
      el("td", { class: "number", "data-label": heads[7], "data-count": "refused" }, "–"),
    );
  const more =
    page.cursor === null ? undefined : el("p", { class: "sub" }, `The first ${page.entries.length} by name.`);
  return el(
    "div",
    {},
    el(
      "table",
      { class: "policies" },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          heads.map((head) => el("th", { scope: "col" }, head)),
        ),
      ),
      el("tbody", {}, page.entries.map(row)),
    ),
    more,
  );
}
