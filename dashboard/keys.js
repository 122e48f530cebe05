// The view of keys: which there are, new ones, an end of old ones; and what admins did.
//
// Invariant: a key is shown once, when it is made or has got another secret, and is nowhere after the view has ended.
import { Failure, json, send } from "./api.js";
import { refuseView } from "./counter.js";
import { el, markRow, panel, setText } from "./dom.js";

const SCOPES = ["read", "write", "refund", "admin"];
const DAY_SECONDS = 86_400;
const LENGTHS = [
  ["", "until it is revoked"],
  [String(30 * DAY_SECONDS), "for 30 days"],
  [String(365 * DAY_SECONDS), "for a year"],
];
const KEYS_MAX = 1000;
const ACTS_MAX = 50;

const dateOf = (ms) => new Date(ms).toLocaleDateString("en-GB", { dateStyle: "medium" });
const timeOf = (ms) => new Date(ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });

/** Shows the keys in `main`; `status` is the chip of the page. Returns a function that ends it. */
export function showKeys(main, { id }, status) {
  const stopped = new AbortController();
  const { signal } = stopped;
  const note = el("p", { class: "sub", role: "status" });
  const once = el("div", {});
  const list = el("div", {});
  const acts = el("div", {});
  const change = async (work) => {
    try {
      await work();
      await Promise.all([refresh(), showActs(acts, signal)]);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      setText(note, `${error.message}.`);
    }
  };
  const shown = ({ key, name }, text) => {
    setText(note, text(name));
    once.replaceChildren(onceOf(key));
  };
  const form = keyForm((request) =>
    change(async () =>
      shown(await send("POST", "/keys", request, signal), (name) => `The key ${name} is made. It is not shown again.`),
    ),
  );
  const rotate = (key) =>
    change(async () => shown(await send("POST", `/keys/${key.id}/rotate`, {}, signal), (name) => `The key ${name} has another secret. It is not shown again. The earlier secret stays valid for a day.`));
  const revoke = (key) =>
    change(async () => {
      await send("DELETE", `/keys/${key.id}`, undefined, signal);
      setText(note, `The key ${key.name} is revoked. It ends everywhere within 30 seconds.`);
    });
  const body = el(
    "div", { class: "panels" }, panel("new-key", "New key", form, note, once), panel("keys", "Keys", list),
    panel("acts", "What admins did", acts),
  );
  main.replaceChildren(
    el("div", { class: "title" }, el("h1", { tabindex: "-1" }, "Keys"), el("p", { class: "sub" }, "Keys that calls have made. Keys of TALLY_KEYS are not listed here.")),
    body,
  );
  const refresh = async () => {
    const { entries: keys } = await json(`/keys?limit=${KEYS_MAX}`, signal);
    status({ tone: "good", text: `${keys.length} ${keys.length === 1 ? "key" : "keys"}` });
    list.replaceChildren(
      keys.length === 0 ? el("p", { class: "sub" }, "There are none.") : tableOf(keys, rotate, revoke),
    );
    markRow(list, id);
  };
  Promise.all([refresh(), showActs(acts, signal)]).catch((error) => {
    const place = { body, status, signal };
    refuseView(error, place, "This key may not see keys", "Keys need a key with the scope admin.");
  });
  return () => {
    stopped.abort();
    once.replaceChildren();
  };
}

/** Shows what admins did, to those who may see it. */
async function showActs(node, signal) {
  try {
    const { entries } = await json(`/audit?limit=${ACTS_MAX}`, signal);
    node.replaceChildren(entries.length === 0 ? el("p", { class: "sub" }, "Nothing yet.") : actsOf(entries));
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof Failure) || error.status !== 403) throw error;
    node.replaceChildren(el("p", { class: "sub" }, "A key with the scope admin on all counters sees this."));
  }
}

function onceOf(key) {
  const field = el("input", { value: key, readonly: true, "aria-label": "The key", id: "made-key" });
  const copy = el("button", { type: "button", class: "quiet small" }, "Copy the key");
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(key);
      setText(copy, "Copied");
    } catch {
      // Pages that are not served securely have no clipboard: it can be copied by hand.
      field.select();
    }
  });
  return el("div", { class: "fields" }, field, copy);
}

function keyForm(make) {
  const field = (id, label, attributes) =>
    el(
      "div", {}, el("label", { for: id }, label),
      el("input", { id, autocomplete: "off", autocapitalize: "off", spellcheck: "false", ...attributes }),
    );
  const lengths = el(
    "select", { id: "key-length" }, LENGTHS.map(([value, label]) => el("option", { value }, label)),
  );
  const box = (scope) => {
    const attributes = scope === "read" || scope === "write" ? { checked: "" } : {};
    return el("label", {}, el("input", { type: "checkbox", name: "scope", value: scope, ...attributes }), scope);
  };
  const onSubmit = (event) => {
    event.preventDefault();
    const valueOf = (id) => form.querySelector(id).value.trim();
    const scopes = [...form.querySelectorAll("[name=scope]")].filter((one) => one.checked).map((one) => one.value);
    const prefixes = valueOf("#key-prefixes").split(/\s+/).filter((prefix) => prefix !== "");
    const rate = valueOf("#key-rate");
    make({
      name: valueOf("#key-name"),
      scopes,
      ...(prefixes.length === 0 ? {} : { prefixes }),
      ...(rate === "" ? {} : { rate_per_minute: Number(rate) }),
      ...(lengths.value === "" ? {} : { expires_in_seconds: Number(lengths.value) }),
    });
  };
  const form = el(
    "form",
    { class: "fields", on: { submit: onSubmit } },
    field("key-name", "What it is for", { maxlength: "64", required: "", placeholder: "blog" }),
    field("key-prefixes", "Names that begin with", { placeholder: "/blog/ limits/login/ (empty: all counters)" }),
    field("key-rate", "Requests a minute", { inputmode: "numeric", pattern: "[0-9]*", placeholder: "no limit" }),
    el("div", {}, el("label", { for: "key-length" }, "It lasts"), lengths),
    el("fieldset", {}, el("legend", {}, "It may"), SCOPES.map(box)),
    el("button", { type: "submit" }, "Make a key"),
  );
  return form;
}

function tableOf(keys, rotate, revoke) {
  const heads = ["Name", "May", "Names", "A minute", "Until", "Used", "Id"];
  const row = (key) => {
    const button = (text, work) =>
      el("button", { type: "button", class: "quiet small", on: { click: () => work(key) } }, text);
    const prefixes = key.prefixes.map((prefix) => (prefix === "" ? "all counters" : prefix)).join(" ");
    const cells = [
      key.scopes.join(", "),
      el("bdi", {}, prefixes),
      key.rate_per_minute === null ? "no limit" : String(key.rate_per_minute),
      key.expires_at === null ? "it is revoked" : dateOf(key.expires_at),
      key.last_used_at === null ? "never" : timeOf(key.last_used_at),
      el("span", { class: "buttons" }, el("code", {}, key.id), button("New secret", rotate), button("Revoke", revoke)),
    ];
    return el(
      "tr", { "data-id": key.id }, el("th", { scope: "row" }, el("bdi", {}, key.name)),
      cells.map((cell, place) => el("td", { "data-label": heads[place + 1] }, cell)),
    );
  };
  const head = el(
    "tr", {}, heads.map((text) => el("th", { scope: "col" }, text)),
  );
  return el("table", { class: "policies" }, el("thead", {}, head), el("tbody", {}, keys.map(row)));
}

function actsOf(acts) {
  const heads = ["When", "Who", "What", "About", "Outcome"];
  const row = (act) => {
    const cells = [
      act.by === "" ? "anybody" : el("bdi", {}, act.by),
      el("code", {}, act.call),
      el("bdi", {}, act.target === "" ? "–" : act.target),
      act.status === undefined ? act.outcome : `${act.outcome} (${act.status})`,
    ];
    return el(
      "tr", {}, el("th", { scope: "row" }, timeOf(act.began_at)),
      cells.map((cell, place) => el("td", { "data-label": heads[place + 1] }, cell)),
    );
  };
  const head = el(
    "tr", {}, heads.map((text) => el("th", { scope: "col" }, text)),
  );
  return el("table", { class: "policies acts" }, el("thead", {}, head), el("tbody", {}, acts.map(row)));
}
