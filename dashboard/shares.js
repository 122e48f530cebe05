// The view of share links: who may read what, until when; new ones, and an end of old ones.
import { Failure, json, send } from "./api.js";
import { refusalOf } from "./counter.js";
import { el, notice, panel, setText } from "./dom.js";

const DAY_SECONDS = 86_400;
const LENGTHS = [
  ["", "until it is revoked"],
  [String(DAY_SECONDS), "for a day"],
  [String(30 * DAY_SECONDS), "for 30 days"],
  [String(365 * DAY_SECONDS), "for a year"],
];

const dateOf = (ms) => new Date(ms).toLocaleDateString("en-GB", { dateStyle: "medium" });

// The most links that there are.
const SHARES_MAX = 1000;

/** Shows the share links in `main`; `status` is the chip of the page. Returns a function that ends it. */
export function showShares(main, { prefix }, status) {
  const stopped = new AbortController();
  const { signal } = stopped;
  const note = el("p", { class: "sub", role: "status" });
  const list = el("div", {});
  const form = shareForm(prefix, async (request) => {
    try {
      const share = await send("POST", "/shares", request, signal);
      await refresh();
      setText(note, `The link for ${share.prefix === "" ? "all counters" : share.prefix} is made. Copy it below.`);
    } catch (error) {
      tell(error);
    }
  });
  const body = el(
    "div",
    { class: "panels" },
    panel("new", "New link", form, note),
    panel("shares", "Links", list),
  );
  main.replaceChildren(
    el("div", { class: "title" }, el("h1", { tabindex: "-1" }, "Share links"), el("p", { class: "sub" }, "Everyone with a link can read the counters whose names begin with its prefix, and nothing else.")),
    body,
  );
  const tell = (error) => {
    if (signal.aborted) return;
    if (!(error instanceof Failure)) throw error;
    setText(note, `${error.message}.`);
  };
  const revoke = async (share) => {
    try {
      await send("DELETE", `/shares/${share.id}`, undefined, signal);
      setText(note, "The link is revoked. It ends everywhere within a minute, and what is open by it within 10 minutes.");
      await refresh();
    } catch (error) {
      tell(error);
    }
  };
  const refresh = async () => {
    const { entries: shares } = await json(`/shares?limit=${SHARES_MAX}`, signal);
    status({ tone: "good", text: `${shares.length} ${shares.length === 1 ? "link" : "links"}` });
    list.replaceChildren(shares.length === 0 ? el("p", { class: "sub" }, "There are none.") : tableOf(shares, revoke));
  };
  refresh().catch((error) => {
    if (signal.aborted) return;
    if (!(error instanceof Failure)) throw error;
    status({ tone: "none", text: error.wantsKey ? "key needed" : "not shown" });
    body.replaceChildren(
      error.status === 403
        ? notice("This key may not share", "Share links need a key with the scope admin.")
        : refusalOf(error, "shares"),
    );
  });
  return () => stopped.abort();
}

function shareForm(prefix, make) {
  const field = (id, label, attributes) =>
    el(
      "div", {}, el("label", { for: id }, label),
      el("input", { id, autocomplete: "off", autocapitalize: "off", spellcheck: "false", ...attributes }),
    );
  const lengths = el(
    "select",
    { id: "share-length" },
    LENGTHS.map(([value, label]) => el("option", { value }, label)),
  );
  const onSubmit = (event) => {
    event.preventDefault();
    const [own, name] = ["#share-prefix", "#share-name"].map((id) => form.querySelector(id).value);
    make({ prefix: own, name, ...(lengths.value === "" ? {} : { expires_in_seconds: Number(lengths.value) }) });
  };
  const form = el(
    "form",
    { class: "fields", on: { submit: onSubmit } },
    field("share-prefix", "Names that begin with", { value: prefix, placeholder: "/blog/ (empty: all)" }),
    field("share-name", "For whom", { maxlength: "64", placeholder: "Ann" }),
    el("div", {}, el("label", { for: "share-length" }, "It lasts"), lengths),
    el("button", { type: "submit" }, "Make a link"),
  );
  return form;
}

function tableOf(shares, revoke) {
  const heads = ["Prefix", "For", "Made", "Until", "Link"];
  const row = (share) => {
    const link = `${location.origin}${share.url}`;
    const copy = el("button", { type: "button", class: "quiet small" }, "Copy the link");
    copy.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(link);
        setText(copy, "Copied");
      } catch {
        // Pages that are not served securely have no clipboard: the link can be copied by hand.
        copy.replaceWith(el("input", { value: link, readonly: true, "aria-label": "The link" }));
      }
    });
    return el(
      "tr",
      { "data-id": share.id },
      el("th", { scope: "row" }, share.prefix === "" ? "all counters" : el("bdi", {}, share.prefix)),
      el("td", { "data-label": heads[1] }, share.name === "" ? "–" : el("bdi", {}, share.name)),
      el("td", { "data-label": heads[2] }, dateOf(share.created_at)),
      el("td", { "data-label": heads[3] }, share.expires_at === null ? "it is revoked" : dateOf(share.expires_at)),
      el(
        "td", { "data-label": heads[4] },
        el(
          // A key sees the links of others without their tokens.
          "span", { class: "buttons" }, share.url === undefined ? "" : copy,
          el("button", { type: "button", class: "quiet small", on: { click: () => revoke(share) } }, "Revoke"),
        ),
      ),
    );
  };
  const head = el("tr", {}, heads.map((text) => el("th", { scope: "col" }, text)));
  return el("table", { class: "policies" }, el("thead", {}, head), el("tbody", {}, shares.map(row)));
}
