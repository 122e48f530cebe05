// The dashboard: one page whose fragment says what it shows, so that views can be linked to and "back" works.
//
// Life: fragment → view → its feed; another fragment ends the feed and the view before it. A new key does the same.
import { key, setKey } from "./api.js";
import { showAlerts } from "./alerts.js";
import { showBoards } from "./boards.js";
import { showCosts } from "./calculator.js";
import { showCounter } from "./counter.js";
import { showCounters } from "./counters.js";
import { el, setChip, setText } from "./dom.js";
import { showKeys } from "./keys.js";
import { showLimits } from "./limits.js";
import { showOverview } from "./overview.js";
import { overviewHash, parseRoute } from "./routes.js";
import { completes } from "./search.js";
import { showShares } from "./shares.js";
import { showStorage } from "./storage.js";
import { forgetShare, openShare, sharedPrefix, takeShare } from "./share.js";

const VIEWS = {
  alerts: showAlerts, boards: showBoards, costs: showCosts, counter: showCounter, counters: showCounters,
  keys: showKeys, limits: showLimits, overview: showOverview, shares: showShares, storage: showStorage,
};
const TITLES = {
  alerts: () => "Alerts – Tally",
  boards: ({ id }) => `${id ?? "Boards"} – Tally`,
  counter: ({ id }) => `${id} – Tally`,
  limits: ({ id }) => `${id ?? "Rate limits"} – Tally`,
  costs: () => "Costs – Tally",
  counters: () => "Counters – Tally",
  keys: () => "Keys – Tally",
  shares: () => "Share links – Tally",
  storage: ({ id }) => `How ${id} is stored – Tally`,
  overview: ({ prefix }) => (prefix === "" ? "Tally" : `${prefix} – Tally`),
};

const main = document.getElementById("main");
const chip = document.getElementById("connection");
let end = () => {};
let shown;
// Why a link was not taken, until a view says so.
let refusal;

function show() {
  let route = parseRoute(location.hash);
  if (route.view === "share") {
    // The token does not stay in the address.
    location.replace(overviewHash({ prefix: route.prefix, range: route.range }));
    return offer(route);
  }
  const only = sharedPrefix();
  if (only !== undefined && !["counter", "storage"].includes(route.view) && !route.prefix.startsWith(only)) {
    route = { ...route, prefix: only };
  }
  const isFirst = shown === undefined;
  // Another length or order of the same thing: the focus stays where it was.
  const isSame = shown?.view === route.view && shown?.id === route.id && shown?.prefix === route.prefix;
  const focused = isSame ? document.activeElement?.getAttribute("href") : undefined;
  end();
  setChip(chip, { tone: "none", text: "connecting" });
  end = VIEWS[route.view](main, route, (status) => setChip(chip, status));
  const unknown = route.unknown ?? refusal;
  refusal = undefined;
  if (unknown !== undefined) main.prepend(el("p", { class: "sub unknown", role: "status" }, unknown));
  shown = route;
  document.title = TITLES[route.view](route);
  tellWhere(route.view);
  if (isFirst) return;
  const same = [...main.querySelectorAll("a[data-keep]")].find((link) => link.getAttribute("href") === focused);
  (same ?? main.querySelector("h1")).focus({ preventScroll: isSame });
  if (!isSame) scrollTo(0, 0);
}

/** Marks the view in the menu, and opens the second row where it is one of those. */
function tellWhere(view) {
  const mark = (link, value) =>
    value === undefined ? link.removeAttribute("aria-current") : link.setAttribute("aria-current", value);
  for (const link of document.querySelectorAll("nav [data-view]")) {
    mark(link, link.dataset.view === view ? "page" : undefined);
  }
  for (const link of document.querySelectorAll("nav [data-opens]")) {
    const row = document.getElementById(link.dataset.opens);
    row.hidden = sharedPrefix() !== undefined || row.querySelector("[aria-current]") === null;
    mark(link, row.hidden ? undefined : "true");
  }
}

completes(document.getElementById("find"), document.getElementById("find-id"));

const dialog = document.getElementById("key-dialog");
const field = document.getElementById("key-field");
const opener = document.getElementById("key-open");
const tellKey = () => {
  const isShared = sharedPrefix() !== undefined;
  setText(opener, isShared ? "Shared with you" : key() === "" ? "Key" : "Key set");
  for (const link of document.querySelectorAll("[data-own]")) link.hidden = isShared;
};
const useKey = (text) => {
  setKey(text);
  forgetShare();
  field.value = "";
  dialog.close();
  tellKey();
  show();
};
const shareDialog = document.getElementById("share-dialog");
let offered;
/** Opens the share of a link, after a question where that would replace the tab's key. */
function offer({ id: token, prefix }) {
  const answer = openShare(token, prefix);
  // Said by the view that the address without the token shows next.
  if (answer === "refuse") refusal = "This is not a share link: you still use your earlier key.";
  if (answer === "ask") {
    offered = { token, prefix };
    const what = prefix === "" ? "all counters" : `counters that begin with ${prefix}`;
    setText(document.getElementById("share-what"), what);
    shareDialog.showModal();
  }
  tellKey();
}
document.getElementById("share-close").addEventListener("click", () => shareDialog.close());
document.getElementById("share-form").addEventListener("submit", (event) => {
  event.preventDefault();
  takeShare(offered.token, offered.prefix);
  shareDialog.close();
  tellKey();
  show();
});
opener.addEventListener("click", () => dialog.showModal());
document.getElementById("key-close").addEventListener("click", () => dialog.close());
document.getElementById("key-forget").addEventListener("click", () => useKey(""));
document.getElementById("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey(field.value.trim());
});
tellKey();

// The link would be taken for the fragment of a view.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", show);
show();
