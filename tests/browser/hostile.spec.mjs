// Pages that the script for pages did not expect, in a real browser. Law: nothing of it throws into the page; it counts
// what can be counted, shows what can be shown, and warns once of each fault, with what to do.
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { openWorld, until } from "../e2e/world.mjs";
import { openBrowser, openSite } from "./browser.mjs";

const KEY = "admin-key-0123456789";
const ADMIN = { headers: { authorization: `Bearer ${KEY}` } };
const files = {};
let world, browser, site, tally, source;
let opened = [];

const html = (body, { lang = "en", head = "", first = "" } = {}) =>
  `<!doctype html><html lang="${lang}"><head><meta charset="utf-8"><title>A page</title>${first}${head}</head><body><main>${body}</main></body></html>`;
const script = (attributes = "") => `<script defer src="${tally}/tally.js" ${attributes}></script>`;
const add = (id, delta) => world.add(id, { delta }, ADMIN);

beforeAll(async () => {
  site = await openSite(files);
  browser = await openBrowser({ hasBackForwardCache: true });
});
// Each test has a service of its own: an address without a key may write to sixty new counters at once, and no more.
beforeEach(async () => {
  const config = {
    keys: [{ key: KEY, scopes: ["admin"] }],
    public: [{ prefix: "", origins: [site.url], scopes: ["read", "write"] }],
  };
  world = await openWorld({ vars: { TALLY_ACCESS: undefined, TALLY_KEYS: JSON.stringify(config) } });
  tally = (await world.url()).origin;
  source = (await world.call("GET", "/tally.js")).text;
  await add("spoken", 1_234_567);
  await add("kept", 1_234);
});
afterEach(async () => {
  for (const page of opened.splice(0)) await page.context().close();
  await world?.close();
});
afterAll(async () => {
  await browser?.close();
  await site?.close();
});

// Opens a page of the site, and notes what it sends, what it warns of, and what it throws.
async function visit(path, options) {
  const page = await browser.page(options);
  opened.push(page);
  Object.assign(page, { sent: [], warnings: [], thrown: [] });
  page.on("pageerror", (error) => page.thrown.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "warning" && message.text().startsWith("tally.js")) page.warnings.push(message.text());
  });
  page.on("request", (request) => {
    const [, id] = new URL(request.url()).pathname.match(/^\/counters\/(.*)\/increment$/) ?? [];
    if (id) page.sent.push({ id: decodeURIComponent(id), body: request.postData() });
  });
  await page.goto(site.url + path);
  return page;
}
const valueOf = async (id) => (await world.call("GET", `/counters/${encodeURIComponent(id)}`, ADMIN)).json.value;
const counted = (id, value) => until(async () => (await valueOf(id)) === value, `${id} is ${value}`);
// Looked at from a world of its own: the page's has what the page made of it.
const shows = (page, selector, text) =>
  until(async () => (await page.locator(selector).first().textContent()) === text, `${selector} shows ${text}`);
const warned = (page, count) => until(() => page.warnings.length >= count, `${count} warnings`);
// The site's own route changes, as a router makes them: what they return and throw is the site's.
const route = (page, path) =>
  page.evaluate((to) => {
    try {
      return [history.pushState({}, "", to)];
    } catch (error) {
      return `${error}`;
    }
  }, path);

test("a language that is none keeps no number and no route from the page", async () => {
  for (const lang of ["en_US", "zh_CN", "C", "auto", "x", "12"]) {
    const path = `/lang/${lang}`;
    files[path] = html('<b data-tally="spoken">–</b>', { lang, head: script() });
    const page = await visit(path);
    await shows(page, "b", "1,234,567");
    expect(await route(page, `${path}/next`), lang).toEqual([undefined]);
    await counted(`${path}/next`, 1);
    await counted(path, 1);
    expect([page.thrown, page.warnings.length], lang).toEqual([[], 1]);
    expect(page.warnings[0]).toMatch(/^tally\.js: lang="\w+": RangeError: .* Write a language such as "en-US"\.$/);
  }
});

test("a translator that sets the language later changes nothing else", async () => {
  files["/translated"] = html('<b data-tally="spoken">–</b>', { lang: "de", head: script() });
  const page = await visit("/translated");
  await shows(page, "b", "1.234.567");
  await page.evaluate(() => (document.documentElement.lang = "auto"));
  expect(await route(page, "/translated/2")).toEqual([undefined]);
  await shows(page, "b", "1,234,567");
  await counted("/translated/2", 1);
  expect([page.thrown, page.warnings.length]).toEqual([[], 1]);
});

test("an id that is none is not sent, and the others go on", async () => {
  await add("good", 5);
  for (const [name, id] of [["surrogate", "a\ud800"], ["dots", ".."], ["control", "a\u0007"]]) {
    const text = JSON.stringify(id);
    files[`/id/${name}`] = html(`<i>–</i><b data-tally="good">–</b><script>document.querySelector("i").dataset.tally = ${text}</script>`, {
      head: `${script()}<script>document.querySelector("[defer]").dataset.id = ${text}</script>`,
    });
    const page = await visit(`/id/${name}`);
    await shows(page, "b", "5");
    expect(await page.textContent("i"), name).toBe("–");
    expect(await route(page, `/id/${name}/2`), name).toEqual([undefined]);
    expect([page.thrown, page.sent, page.warnings.length], name).toEqual([[], [], 1]);
    expect(page.warnings[0]).toContain("Write another data-id, data-prefix or data-tally.");
  }
});

test("an origin that is none is named, and what to write", async () => {
  for (const origin of ["tally.example.com", "https://", "localhost:8787", "http://[bad"]) {
    files["/origin"] = html("", { head: script(`data-origin="${origin}"`) });
    const page = await visit("/origin");
    await warned(page, 1);
    expect(await route(page, "/origin/2"), origin).toEqual([undefined]);
    expect([page.thrown, page.sent, page.warnings.length], origin).toEqual([[], [], 1]);
    expect(page.warnings[0], origin).toMatch(/data-origin/);
  }
  files["/origin/slash"] = html("", { head: script(`data-origin="${tally}/"`) });
  await visit("/origin/slash");
  await counted("/origin/slash", 1);
});

test("a referrer that is no URL is none", async () => {
  for (const [index, referrer] of ["not a url", "http://[bad", "", "about:client", null, 7].entries()) {
    files[`/from/${index}`] = html("", { head: script('data-by="page,referrer"') });
    const page = await visit(`/from/${index}`, {
      before: `Object.defineProperty(document, "referrer", { value: ${JSON.stringify(referrer)} })`,
    });
    await counted(`/from/${index}`, 1);
    expect([page.thrown, page.warnings], referrer).toEqual([[], []]);
    if (`${referrer}`.startsWith("http")) continue;
    expect(JSON.parse(page.sent[0].body).by).toEqual({ page: `/from/${index}` });
  }
});

// What a page changes of its browser, what it counts all the same, and whether numbers are shown.
const CHANGED = {
  "no-fetch": { before: "delete window.fetch; window.fetch = undefined", counts: false, numbers: true },
  "fetch-throws": { before: "window.fetch = () => { throw new Error('no') }", counts: false, numbers: true },
  "fetch-nothing": { before: "window.fetch = () => undefined", counts: false, numbers: true },
  "no-stream": { before: "delete window.EventSource", numbers: true, warnings: 0 },
  "no-observer": { before: "delete window.MutationObserver", numbers: true },
  "no-intl": { before: "delete window.Intl", numbers: true },
  "no-beacon": { before: "navigator.sendBeacon = () => { throw new Error('no') }", numbers: true, warnings: 0 },
  "no-storage": {
    before: "for (const name of ['localStorage', 'sessionStorage', 'indexedDB', 'caches']) Object.defineProperty(window, name, { get() { throw new Error('private') } });" +
      "Object.defineProperty(document, 'cookie', { get() { throw new Error('private') }, set() { throw new Error('private') } })",
    numbers: true,
    warnings: 0,
  },
  "no-console": {
    before: "delete window.console; window.fetch = undefined", counts: false, numbers: true, warnings: 0,
  },
  "console-throws": {
    before: "console.warn = () => { throw new Error('no') }; window.fetch = undefined",
    counts: false,
    numbers: true,
    warnings: 0,
  },
  frozen: { before: "Object.freeze(history); Object.freeze(navigator); Object.freeze(document)", numbers: true, routes: false },
  "frozen-history": { before: "Object.freeze(History.prototype)", numbers: true, routes: false },
  "frozen-prototypes": {
    before: "for (const it of [Object, Array, Function, String, Promise, Map, Set, Document, Element]) Object.freeze(it.prototype)",
    numbers: true,
    warnings: 0,
  },
  prototypes: {
    before: "Object.prototype.extra = 1; Array.prototype.extra = () => 1; String.prototype.extra = 1; Function.prototype.apply = () => { throw new Error('apply') }",
    numbers: true,
    warnings: 0,
  },
  "to-json": { before: "Object.prototype.toJSON = () => 'theirs'", numbers: true, warnings: 0 },
  "no-timing": { before: "Object.defineProperty(window, 'performance', { value: { now: () => 0 } })", numbers: true },
  "odd-intl": { before: "Intl.NumberFormat = function () { return {} }", numbers: true },
  "intl-throws": { before: "Intl.NumberFormat = function () { return { format() { throw new Error('no') } } }", numbers: true },
  "own-url": { before: "window.URLSearchParams = class { constructor() { throw new Error('no') } }", numbers: true },
};

test("a page that changed its browser is neither broken nor silent", async () => {
  for (const [name, { before, counts = true, numbers, routes = true, warnings = 1 }] of Object.entries(CHANGED)) {
    const path = `/changed/${name}`;
    const attributes =
      { "own-url": 'data-by="page,utm_source"', "to-json": 'data-by="page" data-unique="somebody"' }[name] ?? "";
    files[path] = html('<b data-tally="kept">–</b>', { head: script(attributes) });
    const page = await visit(path, { before });
    if (numbers) await shows(page, "b", "1,234");
    expect(await route(page, `${path}/2`), name).toEqual([undefined]);
    if (counts) await counted(path, 1);
    if (counts && routes) await counted(`${path}/2`, 1);
    if (name === "to-json") expect(JSON.parse(page.sent[0].body)).toEqual({ unique: "somebody", by: { page: path } });
    if (warnings > 0) await warned(page, 1);
    expect(page.thrown, name).toEqual([]);
    if (warnings === 0) expect(page.warnings, name).toEqual([]);
    for (const warning of page.warnings) expect(warning, name).toMatch(/^tally\.js: .*(guide|TALLY_KEYS|such as)/);
  }
});

test("what the site's own pushState returns and throws stays as it is, and what throws is no view", async () => {
  files["/routed"] = html("", { head: script() });
  const page = await visit("/routed", {
    before: () => {
      const { pushState } = history;
      history.pushState = function (...parts) {
        if (parts[2] === "/refused") throw new RangeError("of the site");
        pushState.apply(this, parts);
        return "of the site";
      };
    },
  });
  await counted("/routed", 1);
  expect(await route(page, "/routed/2")).toEqual(["of the site"]);
  expect(await route(page, "/refused")).toBe("RangeError: of the site");
  expect(await route(page, "https://other.example/")).toMatch(/^SecurityError/);
  await counted("/routed/2", 1);
  expect([page.thrown, page.warnings, page.sent.length]).toEqual([[], [], 2]);
  // A router that comes later calls this script's, and goes on where that was replaced.
  await page.evaluate(() => {
    const { pushState } = history;
    history.pushState = (...parts) => [pushState.apply(history, parts), "later"][1];
  });
  expect(await route(page, "/routed/3")).toEqual(["later"]);
  await counted("/routed/3", 1);
});

test("what a page replaces later reaches no router of the site", async () => {
  const throws = "() => { throw new Error('theirs') }";
  const later = [
    "delete window.Reflect", `Reflect.apply = ${throws}`,
    "window.Promise = undefined", `Promise.prototype.then = ${throws}`,
    `Object.defineProperty(Promise.prototype, "constructor", { get: ${throws} })`, "window.fetch = undefined; console.warn = undefined",
  ];
  browser.allow(/\/late/);
  for (const [index, change] of later.entries()) {
    const path = `/late/${index}`;
    files[path] = html('<b data-tally="kept">–</b>', { head: script('data-by="page"') });
    const page = await visit(path);
    await counted(path, 1);
    const routed = await page.evaluate(([text, to]) => {
      const { pushState } = history;
      const apply = Function.prototype.call.bind(Function.prototype.apply);
      document.head.append(Object.assign(document.createElement("script"), { text }));
      try {
        return apply(pushState, history, [{}, "", to]) === undefined && location.pathname;
      } catch (error) {
        return `${error}`;
      }
    }, [change, `${path}/2`]);
    expect([routed, page.thrown], change).toEqual([`${path}/2`, []]);
  }
});

test("elements of other namespaces, and documents that are made anew, show numbers", async () => {
  await add("good", 5);
  const foreign = (name) => `<script>(() => { const it = document.createElementNS("urn:x", "${name}"); it.setAttribute("data-tally", "good"); document.head.append(it) })()</script>`;
  files["/foreign"] = html('<b data-tally="kept">–</b><form data-tally="good"><input name="dataset"></form>', {
    first: foreign("script") + foreign("b"), head: `<script type="module">import "${tally}/tally.js"</script>`,
  });
  const page = await visit("/foreign");
  await shows(page, "main b", "1,234");
  await counted("/foreign", 1);
  await page.evaluate(() => {
    const root = document.createElement("html");
    root.innerHTML = '<body><b data-tally="good">–</b></body>';
    document.replaceChild(root, document.documentElement);
  });
  await shows(page, "b", "5");
  await page.evaluate((at) => {
    document.open();
    document.write(`<!doctype html><script src="${at}/tally.js"></` + 'script><b data-tally="kept">–</b>');
    document.close();
  }, tally);
  await shows(page, "b", "1,234");
  expect([page.thrown, page.warnings, page.sent.length]).toEqual([[], [], 1]);
});

test("names that every object has are no dimensions, and the others are said", async () => {
  files["/named"] = html("", { head: script('data-by="page __proto__ constructor extra toString"') });
  const page = await visit("/named", { before: "Object.prototype.extra = 1" });
  await counted("/named", 1);
  expect(JSON.parse(page.sent[0].body)).toEqual({ by: { page: "/named" } });
  expect([page.thrown, page.warnings.length]).toEqual([[], 1]);
  expect(page.warnings[0]).toMatch(/data-by has no __proto__, constructor, extra, toString: it knows page/);
});

test("values of attributes that do nothing are named", async () => {
  const odd = [
    'data-count="false"', 'data-count="OFF"', 'data-routes="no"', 'data-respect="gcp"', 'data-respect="dnt,gps"',
  ];
  for (const [index, attribute] of odd.entries()) {
    files[`/odd/${index}`] = html("", { head: script(attribute) });
    const page = await visit(`/odd/${index}`);
    await counted(`/odd/${index}`, 1);
    const [name, value] = attribute.split(/="|"/);
    expect([page.thrown, page.warnings], attribute).toEqual([[], [`tally.js: ${name} has no ${value} Read Tally's guide of page views.`]]);
  }
  files["/even"] = html("", { head: script('data-count="" data-routes="" data-respect="DNT, gpc"') });
  const page = await visit("/even");
  await counted("/even", 1);
  expect(page.warnings).toEqual([]);
});

test("a script that counts nothing keeps none of another from counting, and one that counts counts once", async () => {
  files["/quiet"] = html('<b data-tally="kept">–</b>', { head: script('data-count="off"') + script() + script() });
  const page = await visit("/quiet");
  await counted("/quiet", 1);
  await shows(page, "b", "1,234");
  expect([page.warnings, page.sent.length]).toEqual([[], 1]);
});

test("a route back to the path of the last view is a view, if another path was shown between them", async () => {
  files["/login"] = html('<a href="#end">End</a>', { head: script() });
  const page = await visit("/login");
  await counted("/login", 1);
  await page.evaluate(() => history.replaceState({}, "", "/home"));
  await page.click("a");
  expect(await route(page, "/login")).toEqual([undefined]);
  await counted("/login", 2);
  expect(await route(page, "/login?again")).toEqual([undefined]);
  expect(await route(page, "/end")).toEqual([undefined]);
  await counted("/end", 1);
  expect(page.sent.map(({ id }) => id)).toEqual(["/login", "/login", "/end"]);
});

test("a script of the site whose name ends like Tally's is not taken for it", async () => {
  files["/js/digitally.js"] = { type: "text/javascript", body: "" };
  files["/digital"] = html(`<script src="/js/digitally.js"></script><script type="module">import "${tally}/tally.js"</script>`);
  const page = await visit("/digital", { before: "Error.prepareStackTrace = (_, calls) => calls" });
  await counted("/digital", 1);
  expect([page.thrown, page.warnings]).toEqual([[], []]);
});

test("elements that hide what a document has by their names change nothing", async () => {
  const names = [
    "readyState", "currentScript", "referrer", "prerendering", "hidden", "documentElement", "cookie", "tallyScripts",
  ];
  for (const name of names) {
    const path = `/clobbered/${name}`;
    files[path] = html('<b data-tally="kept">–</b>', {
      head: `<meta name="x">`,
    }).replace("<main>", `<img name="${name}" id="${name}" alt="" src="data:,"><main>`).replace("</main>", `</main>${script('data-by="page,referrer"')}`);
    const page = await visit(path);
    await counted(path, 1);
    await shows(page, "b", "1,234");
    await page.evaluate(() => {
      document.querySelector("main").insertAdjacentHTML("beforeend", '<i data-tally="kept">–</i>');
    });
    await shows(page, "i", "1,234");
    expect([page.thrown, page.warnings], name).toEqual([[], []]);
  }
});

test("under policies and Trusted Types the page stands, and the console says why nothing is counted", async () => {
  const policy = (text) => ({ "content-security-policy": text });
  const body = html('<b data-tally="kept">–</b><script type="text/plain" data-tally="kept"></script>', { head: script() });
  files["/trusted"] = { body, headers: policy("require-trusted-types-for 'script'") };
  browser.allow(/\/trusted: .*TrustedScript/);
  const trusted = await visit("/trusted");
  await counted("/trusted", 1);
  await shows(trusted, "b", "1,234");
  expect(trusted.thrown).toEqual([]);

  files["/policed"] = { body, headers: policy("connect-src 'none'") };
  browser.allow(/\/policed(\/2)?: .*(Content Security Policy|connect)/);
  const policed = await visit("/policed");
  await warned(policed, 2);
  expect(await route(policed, "/policed/2")).toEqual([undefined]);
  expect([policed.thrown, policed.sent]).toEqual([[], []]);
  for (const warning of policed.warnings) expect(warning).toMatch(/no answer\. .*TALLY_KEYS/);

  // A policy that allows Tally alone is enough.
  files["/allowed"] = { body: html('<b data-tally="kept">–</b>', { head: script() }), headers: policy(`default-src 'none'; script-src ${tally}; connect-src ${tally}`) };
  const allowed = await visit("/allowed");
  await counted("/allowed", 1);
  await shows(allowed, "b", "1,234");
  expect([allowed.thrown, allowed.warnings]).toEqual([[], []]);
});

test("a number that is none is a dash, and is asked for again", async () => {
  files["/portal"] = html('<b data-tally="kept">–</b>', { head: script('data-count="off"') });
  const page = await browser.page();
  opened.push(page);
  page.thrown = [];
  page.on("pageerror", (error) => page.thrown.push(error.message));
  const headers = { "access-control-allow-origin": "*" };
  const portal = { headers: { ...headers, "content-type": "text/html" }, body: "<p>Sign in</p>" };
  await page.route("**/live?*", (route) => route.fulfill(portal));
  let answers = 0;
  await page.route("**/counters/kept", (route) => route.fulfill(answers++ === 0 ? portal : { headers, body: "1234" }));
  browser.allow(/EventSource's response has a MIME type/);
  await page.goto(`${site.url}/portal`);
  await until(() => answers === 1, "a first answer");
  expect(await page.textContent("b")).toBe("–");
  await shows(page, "b", "1,234");
  expect(page.thrown).toEqual([]);
});

// How a page may get the script, and with what it is counted.
const inline = (type = "") => html(`<script ${type} data-origin="${tally}">${source}</script>`);

test("as a module, by import, inline and by a tag manager it finds its own tag", async () => {
  const manager = (set) => html(`<script>addEventListener("load", () => { const tag = document.createElement("script"); tag.src = "${tally}/tally.js"; ${set} document.head.append(tag); })</script>`);
  const ways = {
    module: [html(`<script type="module" src="${tally}/tally.js" data-prefix="m"></script>`), "m"],
    versioned: [html(`<script type="module" src="${tally}/tally.js?v=3" data-prefix="v"></script>`), "v"],
    imported: [html(`<script type="module">import "${tally}/tally.js";</script>`), ""],
    "imported-later": [html(`<script>setTimeout(() => import("${tally}/tally.js"), 10)</script>`), ""],
    "imported-named": [html(`<script type="module" data-origin="${tally}" data-prefix="i">import "${tally}/tally.js";</script>`), "i"],
    inline: [inline(), ""],
    "inline-module": [inline('type="module"'), ""],
    manager: [manager(""), ""],
    "manager-named": [manager('tag.dataset.prefix = "t"; tag.async = false;'), "t"],
    evaluated: [html(`<script data-origin="${tally}" type="text/tally"></script><script>addEventListener("load", () => fetch("${tally}/tally.js").then((it) => it.text()).then((text) => (0, eval)(text)))</script>`), ""],
    async: [html(`<script async src="${tally}/tally.js" data-prefix="a"></script>`), "a"],
  };
  for (const [name, [body, prefix]] of Object.entries(ways)) {
    files[`/way/${name}`] = body;
    const page = await visit(`/way/${name}`);
    await counted(`${prefix}/way/${name}`, 1);
    await until(() => page.sent.length > 0, "the request is told");
    expect([page.thrown, page.warnings, page.sent.length], name).toEqual([[], [], 1]);
  }
});

test("where it finds no tag it says how to set data-origin", async () => {
  files["/bundle.js"] = { type: "text/javascript", body: source };
  const ways = {
    pasted: html(`<script>${source}</script>`),
    "pasted-module": html(`<script type="module">${source}</script>`),
    bundled: html('<script type="module" src="/bundle.js"></script>'),
    evaluated: html(`<script>addEventListener("load", () => fetch("${tally}/tally.js").then((it) => it.text()).then((text) => new Function(text)()))</script>`),
  };
  for (const [name, body] of Object.entries(ways)) {
    files[`/lost/${name}`] = body;
    const page = await visit(`/lost/${name}`);
    await warned(page, 1);
    expect(page.warnings, name).toEqual([
      'tally.js: data-origin is undefined Add data-origin="https://…", the address of Tally, to its script.',
    ]);
    expect([page.thrown, page.sent], name).toEqual([[], []]);
  }
});

test("below a path its calls are below the same path", async () => {
  const proxy = async (request) => {
    const body = await new Promise((done) => {
      let text = "";
      request.on("data", (part) => (text += part)).on("end", () => done(text));
    });
    const path = request.url.replace(/^\/tally/, "");
    const call = { body: body || undefined, headers: { origin: site.url } };
    const { status, text, headers } = await world.call(request.method, path, call);
    return { status, body: text, type: headers.get("content-type") };
  };
  for (const path of ["/tally/tally.js", "/tally/counters/%2Fbelow/increment"]) files[path] = proxy;
  files["/below"] = html("", { head: '<script defer src="/tally/tally.js?v=1/2"></script>' });
  const page = await visit("/below");
  await counted("/below", 1);
  expect([page.thrown, page.warnings]).toEqual([[], []]);
  files["/tally/counters/%2Fbelow%2Fnamed/increment"] = proxy;
  files["/below/named"] = html("", { head: script('data-origin="/tally"') });
  await visit("/below/named");
  await counted("/below/named", 1);
});

test("a return from the back/forward cache says neither referrer nor campaign again", async () => {
  const cached = (body) => ({ body, headers: { "cache-control": "max-age=60" } });
  files["/came"] = cached(html("", { head: `${script('data-id="came" data-by="page,referrer,utm_source"')}<script>addEventListener("pageshow", ({ persisted }) => (window.persisted = persisted))</script>` }));
  files["/elsewhere"] = cached(html("<p>Elsewhere</p>"));
  const page = await visit("/elsewhere");
  await page.goto(`${site.url}/came?utm_source=mail`, { referer: "https://news.example/item" });
  await counted("came", 1);
  for (const value of [2, 3, 4]) {
    await page.goto(`${site.url}/elsewhere`);
    await page.goBack({ waitUntil: "commit" });
    await counted("came", value);
  }
  expect(await page.evaluate(() => window.persisted), "the page came from the cache").toBe(true);
  const said = page.sent.map(({ body }) => JSON.parse(body).by);
  expect(said).toEqual([
    { page: "/came", referrer: "news.example", utm_source: "mail" }, ...Array(3).fill({ page: "/came" }),
  ]);
});

test("a return without the cache says neither of them again", async () => {
  files["/uncached"] = html("", { head: script('data-id="uncached" data-by="page,referrer,utm_source"') });
  files["/next"] = html("<p>Next</p>");
  const page = await visit("/next");
  await page.goto(`${site.url}/uncached?utm_source=mail`, { referer: "https://news.example/item" });
  await counted("uncached", 1);
  await page.goto(`${site.url}/next`);
  await page.goBack();
  await counted("uncached", 2);
  expect(JSON.parse(page.sent[1].body).by).toEqual({ page: "/uncached" });
});

test("a frame counts by its own path, and one without an address only by its data-id", async () => {
  files["/framing"] = html(`<iframe src="/framed"></iframe><iframe srcdoc='${script()}'></iframe><iframe srcdoc='${script('data-id="in-frame"')}'></iframe>`);
  files["/framed"] = html("", { head: script() });
  const page = await visit("/framing");
  await counted("/framed", 1);
  await counted("in-frame", 1);
  await warned(page, 1);
  expect(page.warnings).toEqual(['tally.js: "" is no id Write another data-id, data-prefix or data-tally.']);
  expect(page.sent.map(({ id }) => id).sort()).toEqual(["/framed", "in-frame"]);
  expect(page.thrown).toEqual([]);
});

test("a frame without an origin is refused and says so", async () => {
  files["/sandboxed"] = html(`<iframe sandbox="allow-scripts" src="/in-sandbox"></iframe>`);
  files["/in-sandbox"] = html("", { head: script() });
  browser.allow(/\/counters\/%2Fin-sandbox/);
  const page = await visit("/sandboxed");
  await warned(page, 1);
  expect(page.warnings[0]).toMatch(/no answer\. .*TALLY_KEYS name "null"/);
  expect(page.thrown).toEqual([]);
});

test("a beacon counts as the guide writes it; one of JSON is dropped by the browser", async () => {
  files["/beacon"] = html("");
  const page = await visit("/beacon");
  const beacon = ([url, made]) => navigator.sendBeacon(url, new Function(`return ${made}`)());
  const send = (id, body) => page.evaluate(beacon, [`${tally}/counters/${id}/increment`, body]);
  expect(await send("beacon-text", 'JSON.stringify({ delta: 1, by: { page: "/x" } })')).toBe(true);
  await counted("beacon-text", 1);
  expect(await send("beacon-empty", "undefined")).toBe(true);
  await counted("beacon-empty", 1);
  browser.allow(/beacon-json/);
  await send("beacon-json", 'new Blob(["{}"], { type: "application/json" })');
  await page.evaluate((url) => fetch(url, { method: "POST" }), `${tally}/counters/beacon-after/increment`);
  await world.refused(404, "counter-not-found", "GET", "/counters/beacon-json?consistency=strong", ADMIN);
});

test("a redirect is not taken for a count: the page says that nothing answered", async () => {
  files["/redirected"] = html("", { head: script() });
  files["/elsewhere"] = "counted";
  const page = await browser.page();
  opened.push(page);
  const [warnings, asked] = [[], []];
  page.on("console", (message) => message.text().startsWith("tally.js") && warnings.push(message.text()));
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  browser.allow(/\/redirected: Failed to load resource/);
  const headers = { location: `${site.url}/elsewhere`, "access-control-allow-origin": "*" };
  await page.route("**/counters/**", (route) => route.fulfill({ status: 302, headers }));
  await page.goto(`${site.url}/redirected`);
  await until(() => warnings.length > 0, "a warning");
  expect(warnings[0]).toMatch(/^tally\.js: .*\/increment: no answer/);
  expect(asked).not.toContain("/elsewhere");
});
