// The view of alerts: their states, what was delivered, and what can be done with each.
import { Failure, json, send } from "./api.js";
import { refuseView } from "./counter.js";
import { el, markRow, panel, setText } from "./dom.js";

// An alert is looked at once a minute; a page that nobody touches asks no more often than other views.
const REFRESH_MS = 30_000;
// The service waits for the receiver of a test for 10 s, and tells what came of it.
const TEST_MS_MAX = 15_000;
const ALERTS_MAX = 1000;
const HOUR_SECONDS = 3_600;
const SILENCES = [
  ["1 h", HOUR_SECONDS],
  ["8 h", 8 * HOUR_SECONDS],
  ["3 d", 72 * HOUR_SECONDS],
];
const TONES = { firing: "bad", pending: "fair", unknown: "fair", ok: "good", silenced: "none" };

const timeOf = (ms) => new Date(ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
const numberOf = (value) => (value === null ? "–" : value.toLocaleString("en-US"));

/** Returns in words what an alert watches and when it is over. */
export function wordsOf({ counter, prefix, policy, when }) {
  const [[measure, { every, seconds, above, below }]] = Object.entries(when);
  const of = counter ?? policy ?? (prefix === "" ? "all counters" : `${prefix}*`);
  const what = measure.replaceAll("_", " ");
  const within = seconds === undefined ? "" : ` ${seconds} s`;
  if (every !== undefined) return `${of}: ${what} each ${every}`;
  const bounds = [
    above === undefined ? "" : `above ${numberOf(above)}`, below === undefined ? "" : `below ${numberOf(below)}`,
  ];
  return `${of}: ${what}${within} ${bounds.filter(Boolean).join(" or ")}`.trim();
}

/** Shows the alerts in `main`; `status` is the chip of the page. Returns a function that ends it. */
export function showAlerts(main, { id }, status) {
  const stopped = new AbortController();
  const { signal } = stopped;
  const note = el("p", { class: "sub", role: "status" });
  const alerts = el("div", {});
  const deliveries = el("div", {});
  const body = el(
    "div",
    { class: "panels" },
    panel("alerts", "Alerts", alerts, note),
    panel("deliveries", "Last 100 deliveries", deliveries),
  );
  main.replaceChildren(
    el("div", { class: "title" }, el("h1", { tabindex: "-1" }, "Alerts"), el("p", { class: "sub" }, "A webhook is called when a number is over its threshold. PUT /alerts/{alert} makes an alert.")),
    body,
  );
  const act = async (work) => {
    try {
      setText(note, await work());
      await refresh();
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      setText(note, `${error.message}.`);
    }
  };
  const acts = {
    silence: (alert, seconds) => act(() => silence(alert, seconds, signal)),
    test: (alert) => act(() => deliverTest(alert, signal)),
  };
  const refresh = async () => {
    const [all, last] = await Promise.all([
      json(`/alerts?limit=${ALERTS_MAX}`, signal), json("/alerts/*/deliveries", signal),
    ]);
    status(summaryOf(all));
    const table = all.entries.length === 0 ? noneYet() : alertTable(all.entries, acts);
    keepFocus(alerts, () => alerts.replaceChildren(table));
    markRow(alerts, id);
    deliveries.replaceChildren(
      last.entries.length === 0 ? el("p", { class: "sub" }, "There are none.") : deliveryTable(last.entries),
    );
  };
  const fail = (error) => {
    const place = { body, status, signal };
    refuseView(error, place, "This key may not see alerts", "Alerts need a key with the scope admin.");
  };
  refresh().catch(fail);
  const timer = setInterval(() => document.hidden || refresh().catch(fail), REFRESH_MS);
  return () => {
    clearInterval(timer);
    stopped.abort();
  };
}

/** Silences an alert for a time; none ends its silence. Returns what to tell. */
async function silence({ alert: name }, seconds, signal) {
  await send("POST", `/alerts/${encodeURIComponent(name)}/silence`, { for_seconds: seconds }, signal);
  return seconds === 0 ? `${name} is not silenced any more.` : `Nothing of ${name} is delivered for a time.`;
}

/** Lets the service deliver a test of an alert. Returns what to tell. */
async function deliverTest({ alert: name }, signal) {
  const path = `/alerts/${encodeURIComponent(name)}/test`;
  const { outcome, why } = await send("POST", path, undefined, signal, TEST_MS_MAX);
  return outcome === "delivered"
    ? `The receiver of ${name} has taken the test.`
    : `The test of ${name} failed: ${why ?? "it is not known why"}.`;
}

/** Returns what the chip of the page says of all alerts. */
function summaryOf({ entries: alerts, missing_partitions: missing }) {
  if (missing?.length > 0) return { tone: "fair", text: "some did not answer" };
  const firing = alerts.filter(({ condition }) => condition === "firing").length;
  if (firing > 0) return { tone: "bad", text: `${firing} firing` };
  return { tone: "good", text: `${alerts.length} ${alerts.length === 1 ? "alert" : "alerts"}` };
}

/** Replaces what stands in `node`. Whoever uses the keyboard stays at the button that has the same label. */
function keepFocus(node, replace) {
  const focused = node.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  replace();
  const buttons = focused === null ? [] : [...node.querySelectorAll("button")];
  buttons.find((one) => one.getAttribute("aria-label") === focused)?.focus({ preventScroll: true });
}

// What puts the first one.
function noneYet() {
  const alert = '{"counter":"orders","when":{"value":{"above":1000}},"webhook":"https://hooks.example.com/tally","secret":"whsec_…"}';
  return el("div", {}, el("p", { class: "sub" }, "There are none. This one calls a webhook when orders are above 1,000:"), el("pre", {}, `curl -X PUT -d '${alert}' ${location.origin}/alerts/many-orders`));
}

function tableOf(heads, rows, kind = "policies") {
  const head = el("tr", {}, heads.map((text) => el("th", { scope: "col" }, text)));
  return el("table", { class: kind }, el("thead", {}, head), el("tbody", {}, rows));
}

function alertTable(alerts, acts) {
  const heads = ["Alert", "Watches", "State", "Value", "Since", "Silence for", "Delivery"];
  const button = (text, label, click) =>
    el("button", { type: "button", class: "quiet small", "aria-label": label, on: { click } }, text);
  const row = (alert) => {
    const { alert: name, state, condition, value, changed_at: since, missing, silence_ends_at: until } = alert;
    const more = [until === null ? "" : `until ${timeOf(until)}, otherwise ${condition}`, missing ?? ""]
      .filter(Boolean)
      .join("; ");
    const silences =
      until === null
        ? SILENCES.map(([text, seconds]) =>
            button(text, `Silence ${name} for ${text}`, () => acts.silence(alert, seconds)),
          )
        : [button("End the silence", `End the silence of ${name}`, () => acts.silence(alert, 0))];
    return el(
      "tr",
      { "data-id": name },
      el("th", { scope: "row" }, el("bdi", {}, name)),
      el("td", { "data-label": heads[1] }, el("bdi", {}, wordsOf(alert))),
      el(
        "td", { "data-label": heads[2] }, el("span", { class: "chip", "data-tone": TONES[state] }, state),
        more === "" ? "" : el("span", { class: "sub" }, ` ${more}`),
      ),
      el("td", { "data-label": heads[3], class: "number" }, numberOf(value)),
      el("td", { "data-label": heads[4] }, timeOf(since)),
      el("td", { "data-label": heads[5] }, el("span", { class: "buttons" }, silences)),
      el("td", { "data-label": heads[6] }, button("Test", `Test ${name}`, () => acts.test(alert))),
    );
  };
  return tableOf(heads, alerts.map(row), "policies alerts");
}

function deliveryTable(deliveries) {
  const heads = ["When", "Alert", "State", "Outcome", "Attempts"];
  const row = ({ id, alert, state, outcome, attempts, created_at: at, status, why }) => {
    const answered = why ?? (status === null ? "" : String(status));
    return el(
      "tr",
      { "data-id": id },
      el("th", { scope: "row" }, timeOf(at)),
      el("td", { "data-label": heads[1] }, el("bdi", {}, alert)),
      el("td", { "data-label": heads[2] }, state),
      el("td", { "data-label": heads[3] }, `${outcome.replace("_", " ")}${answered === "" ? "" : ` (${answered})`}`),
      el("td", { "data-label": heads[4] }, String(attempts)),
    );
  };
  return tableOf(heads, deliveries.map(row));
}
