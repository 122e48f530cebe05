// A page with tally.js in it, without a browser: what the script asks for, and what it shows and says.
import { createContext, runInContext } from "node:vm";

/**
 * Opens `html` at `url`, with the script's `source` where the page loads tally.js. `fetch` answers what it asks for; a
 * stream (`EventSource`) is refused at once, so numbers come by `fetch` too. Returns `{ warnings, history, follow,
 * texts }`: the console, the page's history, what follows a link to a fragment, and what the elements marked data-tally
 * show, by what they are marked with.
 */
export function openPage(html, { url, source, fetch, referrer = "" }) {
  const tags = [...html.matchAll(/<(\w+)([^>]*\sdata-tally[^>]*|[^>]*tally\.js[^>]*)>/g)];
  const dataset = (attributes) =>
    Object.fromEntries(
      [...attributes.matchAll(/data-([\w-]+)="([^"]*)"/g)].map(([, name, value]) => [
        name.replace(/-(\w)/g, (_, letter) => letter.toUpperCase()), value,
      ]),
    );
  const script = tags.find(([, name]) => name === "script");
  const currentScript = { src: script[2].match(/src="([^"]*)"/)[1], dataset: dataset(script[2]) };
  const elements = tags
    .filter(([, name]) => name !== "script")
    .map(([, , attributes]) => ({ dataset: dataset(attributes), textContent: "" }));
  const warnings = [];
  const location = new URL(url);
  const popstates = [];
  const show = (_state, _title, to) => void (location.href = new URL(to, location).href);
  const window = {
    URL,
    URLSearchParams,
    Set,
    Map,
    BigInt,
    Intl,
    setTimeout: () => 0,
    clearTimeout: () => {},
    navigator: {},
    performance: { getEntriesByType: () => [] },
    location,
    history: { pushState: show, replaceState: show },
    console: { warn: (...texts) => warnings.push(texts.join(" ")) },
    EventTarget: { prototype: { addEventListener: (name, entry) => name === "popstate" && popstates.push(entry) } },
    Element: class {
      getAttribute() {
        return this.dataset.tally;
      }
    },
    MutationObserver: class {
      observe() {}
    },
    EventSource: class {
      readyState = 2;
      constructor() {
        queueMicrotask(() => this.onerror());
      }
      close() {}
    },
    document: {
      currentScript,
      referrer,
      readyState: "complete",
      documentElement: { lang: "en" },
      querySelectorAll: () => elements,
    },
    fetch: (target, options) => fetch(new URL(target), { ...options, origin: location.origin }),
  };
  window.window = window;
  runInContext(source, createContext(window));
  return {
    warnings,
    history: window.history,
    follow(fragment) {
      location.hash = fragment;
      for (const entry of popstates) entry({});
    },
    texts: () => Object.fromEntries(elements.map(({ dataset: { tally }, textContent }) => [tally, textContent])),
  };
}
