// Tally for pages: counts views, and fills elements marked data-tally="<counter id>" with live numbers.
//   <script defer src="https://tally.example.com/tally.js"></script>
// A view counts once the page has loaded, and again when its path changes. Nothing is stored.
// Its attributes are described in docs/guide/page-views.md.
(() => {
  const script = document.currentScript;
  if (!script) return;
  const { id, prefix = "", unique, respect = "", routes, count, origin = new URL(script.src).origin } = script.dataset;
  const pageId = () => id || prefix + location.pathname;
  const counter = (name) => `${origin}/counters/${encodeURIComponent(name)}`;

  // The same script twice on a page counts once.
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

  function view() {
    if (!counts || path === location.pathname) return;
    path = location.pathname;
    const url = `${counter(pageId())}/increment`;
    const body = unique ? JSON.stringify({ unique }) : "";
    // A text as body asks for no preflight.
    navigator.sendBeacon?.(url, body) || fetch(url, { method: "POST", body, mode: "no-cors", keepalive: true });
  }

  const values = {};
  let watched = "";
  let stop = () => {};

  function fill() {
    const format = new Intl.NumberFormat(document.documentElement.lang || undefined);
    for (const element of document.querySelectorAll("[data-tally]")) {
      const value = values[element.dataset.tally || pageId()];
      const text = value != null && format.format(value);
      if (text && element.textContent !== text) element.textContent = text;
    }
  }

  // Asks every few seconds, less often where that fails, and after a while for a stream again.
  function poll(ids) {
    let left = 12;
    let pause = 5e3;
    let timer;
    const ask = async () => {
      let isWell = true;
      for (const name of ids) {
        // Text is the number alone. 404: nothing is counted yet.
        const answer = await fetch(counter(name), { headers: { accept: "text/plain" } }).catch(() => ({}));
        if (answer.ok) values[name] = BigInt(await answer.text());
        else isWell &&= answer.status === 404;
      }
      fill();
      pause = isWell ? 5e3 : Math.min(2 * pause, 6e4);
      if (timer !== null) timer = setTimeout(--left ? ask : again, pause);
    };
    stop = () => {
      clearTimeout(timer);
      timer = null;
    };
    ask();
  }

  function again() {
    watched = "";
    watch();
  }

  function watch() {
    // Nobody looks at a hidden page, and browsers open few connections to one place.
    const elements = document.hidden ? [] : [...document.querySelectorAll("[data-tally]")];
    const ids = [...new Set(elements.map((element) => element.dataset.tally || pageId()))];
    const list = ids.sort().map((name) => `id=${encodeURIComponent(name)}`).join("&");
    if (list !== watched) {
      stop();
      stop = () => {};
      watched = list;
      if (list) {
        const source = new EventSource(`${origin}/live?${list}`);
        source.onmessage = ({ data }) => {
          const { type, counters } = JSON.parse(data);
          if (type !== "update") return;
          for (const name in counters) values[name] = counters[name]?.value;
          fill();
        };
        // The browser mends a broken stream, but not one that was refused.
        source.onerror = () => source.readyState === 2 && poll(ids);
        stop = () => source.close();
      }
    }
    fill();
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
