// Tally for pages: counts views, and fills elements marked data-tally="<counter id>" with live numbers.
//   <script defer src="https://tally.example.com/tally.js"></script>
// A view counts once the page has loaded, and again when its path changes. Nothing is stored.
// Its attributes are described in docs/guide/page-views.md.
//
// Invariant: nothing of this file throws into the page. Whatever the page or the browser calls is behind `guard`. The
// listeners exist before the first view. Each fault is one warning that says what to do.
(() => {
  const warned = [];
  // Of a stream, and of a page: browsers open few connections to one place.
  const STREAM_MAX = 100;
  const COUNTERS_MAX = 400;

  // Nothing that the page adds to all objects, such as `toJSON`, is a part of it.
  const bare = (object) => Object.setPrototypeOf(object, null);

  function warn(fault, what = "Read Tally's guide of page views.") {
    try {
      if (warned.includes(`${fault}`)) return;
      warned.push(`${fault}`);
      console.warn(`tally.js: ${fault}`, what);
    } catch {
      // The console is the page's too.
    }
  }

  // Returns an entry that neither throws nor rejects.
  const guard = (entry) => async (event) => {
    try {
      await entry(event);
    } catch (error) {
      warn(error);
    }
  };
  const on = (target, name, entry) =>
    guard(() => apply(EventTarget.prototype.addEventListener, target, [name, guard(entry)]))();

  let id, prefix, unique, by, routes, api, shows, counts, apply, get;
  let isArrival = true;
  let path;

  // An image of that name hides the property of the document, but not that of its prototype.
  const ofDocument = (name) => get(window.Document?.prototype || document, name, document);
  const all = (selector) => [...apply(ofDocument("querySelectorAll"), document, [selector])];

  // Reads the script's own tag. Leaves `api` undefined where that does not say where Tally is.
  function configure() {
    // The page may replace it later.
    ({ apply, get } = Reflect);
    let script = ofDocument("currentScript");
    // A module has no current script, and neither has what a tag manager evaluates.
    if (!script?.src && !script?.dataset.origin) {
      const tags = all("script");
      script = tags.find(({ src }) => /\/tally\.js/.test(src)) || tags.find(({ dataset }) => dataset?.origin);
    }
    let respect, count, origin;
    ({ id, prefix = "", unique, by = "", respect = "", routes, count, origin } = script?.dataset || {});
    // The stack names the file of an imported module: `import.meta` is a syntax error in other scripts.
    const from = origin || script?.src || `${Error().stack}`.match(/http[^\s()]+\/tally\.js/);
    try {
      // The calls of a Tally below a path are below the same path.
      const base = /^(https?:\/)?\/./.test(from) && new URL(origin || ".", origin ? location : from);
      api = base.href.replace(/\/+$/, "");
    } catch {
      return warn(`data-origin is ${origin}`, 'Add data-origin="https://…", the address of Tally, to its script.');
    }

    // The same script twice on a page counts once. The first alone shows numbers: two could tell of different ones.
    const scripts = (window[Symbol.for("tally.js")] ||= []);
    const key = `${[api, id, prefix]}`;
    shows = !scripts.length;
    for (const [name, value, known] of [
      ["count", count, /^(off)?$/], ["routes", routes, /^(off)?$/], ["respect", respect, /^((dnt|gpc)[\s,]*)*$/i],
    ]) {
      if (!known.test(value || "")) warn(`data-${name} has no ${value}`);
    }
    counts = !(
      scripts.includes(key) ||
      count === "off" ||
      (/dnt/i.test(respect) && navigator.doNotTrack === "1") ||
      (/gpc/i.test(respect) && navigator.globalPrivacyControl)
    );
    scripts.push(counts && key);
    // Whoever comes back has been counted with where they came from.
    guard(() => (isArrival = performance.getEntriesByType("navigation")[0]?.type !== "back_forward"))();
  }

  // An address such as about:srcdoc has no path.
  const pageId = () => id || (/^\//.test(location.pathname) ? prefix + location.pathname : "");
  // One or two dots in an address are folders.
  const encoded = (name) =>
    /^\.{0,2}$|[\p{Cs}\p{Cc}]/u.test(name)
      ? warn(`"${name}" is no id`, "Write another data-id, data-prefix or data-tally.")
      : encodeURIComponent(name);

  // What a view says of itself, by the names in data-by. Where it came from is said once, and not of this site; no
  // address, no query.
  function said() {
    const host = (url) => `${url}`.match(/^[\w-]+:\/\/(?:www\.)?(\[.*?]|[^/:?#]*)/)?.[1];
    const referrer = host(document.referrer);
    const known = {
      page: location.pathname,
      referrer: isArrival && referrer !== host(location.href) && referrer,
      utm_source: isArrival && new URLSearchParams(location.search).get("utm_source"),
      country: "auto",
      browser: "auto",
      // A tablet of Apple calls itself a Mac.
      device: navigator.maxTouchPoints > 1 && /Mac/.test(navigator.platform) ? "tablet" : "auto",
    };
    isArrival = false;
    const unknown = [];
    const dimensions = bare({});
    for (const name of by.split(/[\s,]+/).filter(Boolean)) {
      if (!Object.hasOwn(known, name)) unknown.push(name);
      else if (known[name]) {
        dimensions[name] = [...known[name].replace(/\p{Cc}/gu, " ")].slice(0, name === "page" ? 256 : 64).join("");
      }
    }
    if (unknown[0]) warn(`data-by has no ${unknown.join(", ")}: it knows ${Object.keys(known).join(", ")}`, "");
    return dimensions;
  }

  function view() {
    if (!counts || path === location.pathname) return;
    path = location.pathname;
    let dimensions;
    try {
      if (by) dimensions = said();
    } catch (error) {
      // A view counts also where the page broke what it says of itself.
      warn(error);
    }
    const body = unique || dimensions ? JSON.stringify(bare({ unique, by: dimensions })) : "";
    // A text as body asks for no preflight. A redirected write would be a read, and its answer no count. A beacon
    // would not say whether it was refused.
    return ask(pageId(), "/increment", { method: "POST", body, keepalive: true, redirect: "error" });
  }

  // Returns the answer's text, "" where there is no such counter, undefined where it was refused. Says once in the
  // console why, in Tally's words, where the browser lets them be read.
  async function ask(name, call, options) {
    if (!encoded(name)) return;
    const url = `${api}/counters/${encoded(name)}${call}`;
    let status = "no answer";
    let problem;
    try {
      const answer = await fetch(url, options);
      ({ status } = answer);
      if (answer.ok) return await answer.text();
      problem = await answer.json();
    } catch {
      // The status tells it.
    }
    const hint = `Is Tally there, without a redirect, and does a public entry of its TALLY_KEYS name "${window.origin || location.origin}" with a prefix of this id?`;
    warn(`${url}: ${status}.`, problem?.detail || hint);
    if (status === 404) return "";
  }

  let values = {};
  // The stream of each counter, with how often in a row it could not be opened.
  let streams = {};
  let watched = "";
  // Each list of counters that is followed is one turn.
  let turns = 0;

  // Asks every few seconds, less often where that fails, and after a while for a stream again.
  async function poll(ids) {
    const turn = turns;
    for (let left = 12, pause = 5e3; left--; ) {
      let isWell = true;
      for (const name of ids) {
        // Text is the number alone.
        const value = await ask(name, "", { headers: { accept: "text/plain" } });
        if (turn !== turns) return;
        values[name] = { value: /^-?\d+$/.test(value) ? value : null };
        isWell &&= value !== undefined;
      }
      watch();
      pause = isWell ? 5e3 : Math.min(2 * pause, 6e4);
      await new Promise((done) => setTimeout(done, pause));
      if (turn !== turns) return;
    }
    watched = "";
    watch();
  }

  // Elements of other namespaces have no `dataset`, and a form's inputs may hide what it has.
  const nameOf = (element) => apply(Element.prototype.getAttribute, element, ["data-tally"]) || pageId();

  function watch() {
    if (!shows) return;
    // Nobody looks at a hidden page, and browsers open few connections to one place.
    const elements = document.hidden === true ? [] : all("[data-tally]");
    const ids = [...new Set(elements.map(nameOf))].filter(encoded).sort();
    const list = ids.join("\n");
    if (list !== watched) {
      turns += 1;
      for (const name in streams) streams[name].source?.close();
      watched = list;
      values = Object.fromEntries(ids.map((name) => [name, values[name]]));
      streams = bare({});
      if (ids.length > COUNTERS_MAX) warn(`${ids.length} counters`, `A page shows ${COUNTERS_MAX}.`);
      for (let at = 0; ids[at] && at < COUNTERS_MAX; at += STREAM_MAX) follow(ids.slice(at, at + STREAM_MAX));
    }
    const lang = document.documentElement?.lang;
    let format = (value) => BigInt(value).toLocaleString();
    try {
      const numbers = new Intl.NumberFormat(lang || undefined);
      if (numbers.format(0)) ({ format } = numbers);
    } catch (error) {
      warn(`lang="${lang}": ${error}`, 'Write a language such as "en-US".');
    }
    // What is not known now is a dash: a number would be of another time, or of the page before.
    elements.forEach(guard((element) => {
      const name = nameOf(element);
      const value = streams[name]?.failures > 1 ? null : values[name]?.value;
      const text = value == null ? "–" : format(value);
      if (element.textContent !== text) element.textContent = text;
    }));
  }

  function follow(ids) {
    const stream = { failures: 0 };
    let source;
    for (const name of ids) streams[name] = stream;
    try {
      stream.source = source = new EventSource(`${api}/live?${ids.map((name) => `id=${encoded(name)}`).join("&")}`);
    } catch {
      return guard(poll)(ids);
    }
    source.onopen = guard(() => {
      stream.failures = 0;
      watch();
    });
    source.onmessage = guard(({ data }) => {
      const { type, counters } = JSON.parse(data);
      if (type !== "update") return;
      Object.assign(values, counters);
      watch();
    });
    // The browser mends a broken stream, but not one that was refused.
    source.onerror = guard(() => {
      if (source.readyState === 2) return poll(ids);
      stream.failures += 1;
      watch();
    });
  }

  function moved() {
    guard(view)();
    guard(watch)();
  }

  function start() {
    on(document, "visibilitychange", watch);
    // A page that comes back from the browser's cache is seen again.
    on(window, "pageshow", ({ persisted }) => {
      if (!persisted) return;
      path = undefined;
      moved();
    });
    if (routes !== "off") {
      on(window, "popstate", moved);
      guard(() => {
        const { pushState, replaceState } = history;
        // An assignment to a frozen object would be no error here.
        Object.assign(history, {
          pushState(...parts) {
            const result = apply(pushState, this, parts);
            moved();
            return result;
          },
          replaceState(...parts) {
            const result = apply(replaceState, this, parts);
            // The page that was counted has another path now.
            path = location.pathname;
            return result;
          },
        });
      })();
    }
    // Elements may come later.
    guard(() => {
      let timer;
      const later = guard(() => {
        timer = 0;
        watch();
      });
      const observer = new MutationObserver(guard(() => (timer ||= setTimeout(later, 100))));
      observer.observe(document, { childList: true, subtree: true, attributeFilter: ["data-tally"] });
    })();
    moved();
  }

  const loaded = () => (/^(loading|interactive)$/.test(document.readyState) ? on(window, "load", start) : start());
  guard(() => {
    configure();
    if (!api) return;
    if (document.prerendering === true) on(document, "prerenderingchange", loaded);
    else loaded();
  })();
})();
