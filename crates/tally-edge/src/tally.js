//! Tally for pages: counts views, and fills elements marked data-tally="<counter id>" with live numbers.
//   <script defer src="https://tally.example.com/tally.js"></script>
// A view counts once the page has loaded, and again when its path changes. Nothing is stored.
// Its attributes are described in docs/guide/page-views.md.
(() => {
  const script = document.currentScript;
  if (!script) return;
  const {
    id, prefix = "", unique, by = "", respect = "", routes, count, origin = new URL(script.src).origin,
  } = script.dataset;
  const pageId = () => id || prefix + location.pathname;
  const counter = (name) => `${origin}/counters/${encodeURIComponent(name)}`;

  // The same script twice on a page counts once. The first alone shows numbers: two could tell of different ones.
  const shows = !window.tallyScripts;
  const scripts = (window.tallyScripts ||= {});
  const isSecond = scripts[[origin, id, prefix]];
  scripts[[origin, id, prefix]] = true;
  const counts = !(
    isSecond ||
    count === "off" ||
    (/dnt/i.test(respect) && navigator.doNotTrack === "1") ||
    (/gpc/i.test(respect) && navigator.globalPrivacyControl)
  );
  let path;
  // The warnings that were given.
  const warnings = new Set();

  // What a view says of itself, by the names in data-by. Where it came from is said once, and not of this site; no
  // address, no query.
  function said() {
    const host = (url) => url.hostname.replace(/^www\./, "");
    const from = path === undefined && document.referrer ? host(new URL(document.referrer)) : "";
    const known = {
      page: location.pathname,
      referrer: from === host(location) ? "" : from,
      utm_source: path === undefined && new URLSearchParams(location.search).get("utm_source"),
      country: "auto",
      browser: "auto",
      // A tablet of Apple calls itself a Mac.
      device: navigator.maxTouchPoints > 1 && /Mac/.test(navigator.platform) ? "tablet" : "auto",
    };
    const names = by.split(/[\s,]+/).filter(Boolean);
    const unknown = names.filter((name) => !Object.hasOwn(known, name)).join(", ");
    if (unknown && !warnings.has(unknown)) {
      warnings.add(unknown);
      console.warn(`tally.js: data-by has no ${unknown}: it knows ${Object.keys(known).join(", ")}`);
    }
    const named = names.map((name) => [
      name, [...(known[name] || "").replace(/\p{Cc}/gu, " ")].slice(0, name === "page" ? 256 : 64).join(""),
    ]);
    return Object.fromEntries(named.filter(([, value]) => value));
  }

  function view() {
    if (!counts || path === location.pathname) return;
    const url = `${counter(pageId())}/increment`;
    const body = unique || by ? JSON.stringify({ unique, by: by ? said() : undefined }) : "";
    path = location.pathname;
    // A text as body asks for no preflight. A beacon would not tell whether it was refused.
    ask(url, { method: "POST", body, keepalive: true });
  }

  // Fetches, and says once in the console why that was refused and what to do: in Tally's words, where the browser lets
  // them be read.
  async function ask(url, options) {
    const answer = await fetch(url, options).catch(() => ({ status: "no answer" }));
    const refusal = `tally.js: ${url}: ${answer.status}`;
    if (!answer.ok && !warnings.has(refusal)) {
      warnings.add(refusal);
      const problem = await answer.json?.().catch(() => {});
      const hint = `Is Tally there, and does a public entry of its TALLY_KEYS name "${location.origin}" with a prefix of this id?`;
      console.warn(refusal, problem?.detail || hint);
    }
    return answer;
  }

  const values = new Map();
  let watched = "";
  let stop = () => {};
  // How often in a row the stream could not be opened.
  let failures = 0;

  // Asks every few seconds, less often where that fails, and after a while for a stream again.
  function poll(ids) {
    let left = 12;
    let pause = 5e3;
    let timer;
    const round = async () => {
      let isWell = true;
      for (const name of ids) {
        // Text is the number alone. 404: nothing is counted yet.
        const answer = await ask(counter(name), { headers: { accept: "text/plain" } });
        const value = answer.ok ? BigInt(await answer.text()) : null;
        if (timer === null) return;
        values.set(name, value);
        isWell &&= answer.ok || answer.status === 404;
      }
      pause = isWell ? 5e3 : Math.min(2 * pause, 6e4);
      timer = setTimeout(--left ? round : again, pause);
      watch();
    };
    stop = () => {
      clearTimeout(timer);
      timer = null;
    };
    round();
  }

  function again() {
    watched = "";
    watch();
  }

  function watch() {
    if (!shows) return;
    // Nobody looks at a hidden page, and browsers open few connections to one place.
    const elements = document.hidden ? [] : [...document.querySelectorAll("[data-tally]")];
    const names = elements.map((element) => element.dataset.tally || pageId());
    const ids = [...new Set(names)].sort();
    const list = ids.map((name) => `id=${encodeURIComponent(name)}`).join("&");
    if (list !== watched) {
      stop();
      stop = () => {};
      watched = list;
      if (list) follow(ids, list);
    }
    // What is not known now is a dash: a number would be of another time, or of the page before.
    const format = new Intl.NumberFormat(document.documentElement.lang || undefined);
    elements.forEach((element, index) => {
      const value = failures > 1 ? null : values.get(names[index]);
      const text = value == null ? "–" : format.format(value);
      if (element.textContent !== text) element.textContent = text;
    });
  }

  function follow(ids, list) {
    for (const name of values.keys()) ids.includes(name) || values.delete(name);
    failures = 0;
    const source = new EventSource(`${origin}/live?${list}`);
    source.onopen = () => {
      failures = 0;
      watch();
    };
    source.onmessage = ({ data }) => {
      const { type, counters } = JSON.parse(data);
      if (type !== "update") return;
      for (const name in counters) values.set(name, counters[name]?.value);
      watch();
    };
    // The browser mends a broken stream, but not one that was refused.
    source.onerror = () => {
      if (source.readyState === 2) return poll(ids);
      failures += 1;
      watch();
    };
    stop = () => source.close();
  }

  function moved() {
    view();
    watch();
  }

  function start() {
    moved();
    // Elements may come later.
    let timer;
    new MutationObserver(() => {
      timer ||= setTimeout(() => {
        timer = 0;
        watch();
      }, 100);
    }).observe(document.documentElement, { childList: true, subtree: true, attributeFilter: ["data-tally"] });
    document.addEventListener("visibilitychange", watch);
    // A page that comes back from the browser's cache is seen again.
    addEventListener("pageshow", ({ persisted }) => {
      if (!persisted) return;
      path = undefined;
      moved();
    });
    if (routes === "off") return;
    const { pushState } = history;
    history.pushState = function () {
      pushState.apply(this, arguments);
      moved();
    };
    addEventListener("popstate", moved);
  }

  const loaded = () => (document.readyState === "complete" ? start() : addEventListener("load", start));
  if (document.prerendering) document.addEventListener("prerenderingchange", loaded, { once: true });
  else loaded();
})();
