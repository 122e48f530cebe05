// What pages embed, in a real browser and from another origin: views are counted and numbers shown, as a visitor would
// see it.
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { openWorld, until } from "../e2e/world.mjs";
import { axeFaults, openAlone, openBrowser, openSite, screenshot } from "./browser.mjs";

const KEY = "admin-key-0123456789";
const ADMIN = { headers: { authorization: `Bearer ${KEY}` } };
const files = {};
let world, browser, site, tally;
const opened = [];

const html = (body, { lang = "en", head = "" } = {}) =>
  `<!doctype html><html lang="${lang}"><head><meta charset="utf-8"><title>A page</title>${head}</head><body><main><h1>A page</h1>${body}</main></body></html>`;
const script = (attributes = "") => `<script defer src="${tally}/tally.js" ${attributes}></script>`;
const add = (id, delta) => world.add(id, { delta }, ADMIN);

beforeAll(async () => {
  site = await openSite(files);
  const config = {
    keys: [{ key: KEY, scopes: ["admin"] }],
    public: [{ prefix: "", origins: [site.url], scopes: ["read", "write"] }],
  };
  world = await openWorld({ vars: { TALLY_ACCESS: undefined, TALLY_KEYS: JSON.stringify(config) } });
  tally = (await world.url()).origin;
  browser = await openBrowser();
});
afterEach(async () => {
  for (const page of opened.splice(0)) await page.context().close();
});
afterAll(async () => {
  await browser?.close();
  await site?.close();
  await world?.close();
});

// Opens a page of the site, and notes the ids that it counts and what it sends.
async function visit(path, options) {
  const page = await browser.page(options);
  opened.push(page);
  page.sent = [];
  page.streams = 0;
  page.on("request", (request) => {
    if (new URL(request.url()).pathname === "/live") page.streams += 1;
    const [, id] = new URL(request.url()).pathname.match(/^\/counters\/(.*)\/increment$/) ?? [];
    if (id) {
      page.sent.push({ id: decodeURIComponent(id), body: request.postData(), type: request.headers()["content-type"] });
    }
  });
  await page.goto(site.url + path);
  return page;
}
const ids = (page) => page.sent.map(({ id }) => id);
const counted = (id, value) =>
  until(
    async () => (await world.call("GET", `/counters/${encodeURIComponent(id)}`, ADMIN)).json.value === value,
    `${id} is ${value}`,
  );

test("a page of another origin counts its view once, by a call that needs no preflight", async () => {
  files["/posts/hello"] = html("", { head: script() + script() });
  const page = await visit("/posts/hello?from=mail");
  await counted("/posts/hello", 1);
  expect(page.sent.length).toBe(1);
  expect(page.sent[0].type).toMatch(/^text\/plain/);
  await page.reload();
  await counted("/posts/hello", 2);
});

test("a page names its counter, and asks for uniques", async () => {
  files["/named"] = html("", { head: script('data-id="blog/named" data-unique="auto"') });
  files["/prefixed"] = html("", { head: script('data-prefix="example.com"') });
  const named = await visit("/named");
  await until(() => named.sent.length > 0);
  expect(named.sent).toMatchObject([{ id: "blog/named", body: '{"unique":"auto"}' }]);
  await visit("/prefixed");
  await counted("example.com/prefixed", 1);
});

test("a page names dimensions with spaces or commas, and is told which are not known", async () => {
  files["/said"] = html("", { head: script('data-id="said" data-by="page,device, pages"') });
  const page = await browser.page();
  opened.push(page);
  const [warning, request] = await Promise.all([
    page.waitForEvent("console", (message) => message.type() === "warning"),
    page.waitForRequest(/\/counters\/said\/increment$/),
    page.goto(`${site.url}/said`),
  ]);
  expect(JSON.parse(request.postData())).toEqual({ by: { page: "/said", device: "auto" } });
  expect(warning.text()).toContain("data-by has no pages: it knows page, referrer");
});

test("who asks not to be tracked is not counted where the page respects it, and sees numbers all the same", async () => {
  const asks = () => {
    Object.defineProperty(navigator, "doNotTrack", { value: "1" });
    Object.defineProperty(navigator, "globalPrivacyControl", { value: true });
  };
  await add("shown", 7);
  const body = '<p data-tally="shown">…</p>';
  files["/dnt"] = html(body, { head: script('data-respect="dnt"') });
  files["/gpc"] = html(body, { head: script('data-respect="gpc"') });
  files["/off"] = html(body, { head: script('data-count="off"') });
  files["/none"] = html(body, { head: script() });
  for (const path of ["/dnt", "/gpc", "/off"]) {
    const page = await visit(path, { before: asks });
    await page.getByText("7", { exact: true }).waitFor();
    expect(ids(page), path).toEqual([]);
  }
  for (const path of ["/dnt", "/gpc"]) {
    await visit(path);
    await counted(path, 1);
  }
  await visit("/none", { before: asks });
  await counted("/none", 1);
});

test("a change of the path without a load is a view, one of the query is not", async () => {
  files["/app"] = html("", { head: script() });
  files["/still"] = html("", { head: script('data-routes="off"') });
  const page = await visit("/app");
  await until(() => page.sent.length === 1);
  await page.evaluate(() => {
    history.pushState({}, "", "/app?tab=2");
    history.pushState({}, "", "/app/settings");
    history.replaceState({}, "", "/app/settings?x");
    history.pushState({}, "", "/app");
  });
  await until(() => page.sent.length === 3);
  await page.evaluate(() => history.back());
  await until(() => page.sent.length === 4);
  expect(ids(page)).toEqual(["/app", "/app/settings", "/app", "/app/settings"]);
  await counted("/app/settings", 2);

  const still = await visit("/still");
  await until(() => still.sent.length === 1);
  await still.evaluate(() => history.pushState({}, "", "/still/2"));
  await still.evaluate(() => new Promise((done) => requestAnimationFrame(done)));
  expect(ids(still)).toEqual(["/still"]);
});

test("numbers are asked for where the stream is refused", async () => {
  await add("asked", 41);
  files["/refused"] = html('<b data-tally="asked">–</b><i data-tally="absent">–</i>', {
    head: script('data-count="off"'),
  });
  const page = await browser.page();
  opened.push(page);
  browser.allow(/\/refused: .*(\/live\?|\/counters\/absent)/);
  await page.route("**/live?*", (route) =>
    route.fulfill({ status: 403, headers: { "access-control-allow-origin": "*" } }),
  );
  await page.goto(`${site.url}/refused`);
  await page.getByText("41", { exact: true }).waitFor();
  await add("asked", 1);
  await page.getByText("42", { exact: true }).waitFor();
  expect(await page.textContent("i")).toBe("–");
});

test("numbers are those of the stream, and one that does not exist is a dash", async () => {
  const body = '<b id="a" data-tally="streamed">–</b><b id="b" data-tally="absent">0</b><b id="c" data-tally="constructor">0</b>';
  files["/streamed"] = html(body, { head: script('data-count="off"') });
  const page = await browser.page();
  opened.push(page);
  const update = { type: "update", sent_at: 1, counters: { streamed: { value: 41_000 }, absent: null } };
  const queries = [];
  await page.route("**/live?*", (route) => {
    queries.push(new URL(route.request().url()).search);
    const headers = { "access-control-allow-origin": "*", "content-type": "text/event-stream" };
    return route.fulfill({ headers, body: `data: ${JSON.stringify({ type: "ping", sent_at: 0 })}\n\ndata: ${JSON.stringify(update)}\n\n` });
  });
  await page.goto(`${site.url}/streamed`);
  await page.getByText("41,000", { exact: true }).waitFor();
  for (const id of ["#b", "#c"]) expect(await page.textContent(id), id).toBe("–");
  expect(queries[0]).toBe("?id=absent&id=constructor&id=streamed");
});

test("no element shows the number of the page before, or of a counter that is gone", async () => {
  await add("/first", 7);
  await add("kept", 3);
  files["/first"] = html('<b id="own" data-tally="">–</b><b id="kept" data-tally="kept">–</b>', { head: script('data-count="off"') + script('data-prefix="other"') });
  const page = await visit("/first");
  const shows = (selector, text) =>
    page.waitForFunction(([at, wanted]) => document.querySelector(at)?.textContent === wanted, [selector, text]);
  await shows("#own", "7");
  await shows("#kept", "3");
  // The counter of the next page does not exist, and nothing will count it.
  const atOnce = await page.evaluate(() => {
    history.pushState({}, "", "/second");
    return document.querySelector("#own").textContent;
  });
  expect(atOnce).toBe("–");
  await shows("#kept", "3");
  expect(await page.textContent("#own")).toBe("–");
  // Nor where the path changes without a sign of it.
  await page.evaluate(() => history.pushState({}, "", "/first"));
  await shows("#own", "7");
  await page.evaluate(() => history.replaceState({}, "", "/second"));
  await add("kept", 1);
  await shows("#kept", "4");
  await shows("#own", "–");
  await world.well("DELETE", "/counters/kept", ADMIN);
  await shows("#kept", "–");
});

test("what cannot be read any more is a dash, until it can", async () => {
  await add("away", 5);
  files["/away"] = html('<b data-tally="away">–</b>', { head: script('data-count="off"') });
  const page = await browser.page();
  opened.push(page);
  browser.allow(/\/away: .*\/live\?/);
  let isAway = false;
  await page.route("**/live?*", (route) => {
    if (isAway) return route.abort();
    const update = { type: "update", sent_at: 1, counters: { away: { value: 5 } } };
    const headers = { "access-control-allow-origin": "*", "content-type": "text/event-stream" };
    return route.fulfill({ headers, body: `retry: 10\n\ndata: ${JSON.stringify(update)}\n\n` });
  });
  await page.goto(`${site.url}/away`);
  const shows = (text) => page.waitForFunction((wanted) => document.querySelector("b").textContent === wanted, text);
  await shows("5");
  isAway = true;
  await shows("–");
  isAway = false;
  await shows("5");
});

test("elements show numbers in the page's language, follow them, and may come later", async () => {
  await add("likes", 1_234_566);
  files["/numbers"] = html('<p>Likes: <b id="a" data-tally="likes">–</b>, views: <b id="b" data-tally="">–</b></p>', {
    lang: "de",
    head: script(),
  });
  const page = await visit("/numbers");
  const streams = () => page.streams;
  const shows = (selector, text) =>
    page.waitForFunction(([at, wanted]) => document.querySelector(at)?.textContent === wanted, [selector, text]);
  await shows("#a", "1.234.566");
  await shows("#b", "1");
  await add("likes", 1);
  await shows("#a", "1.234.567");
  await add("later", 5);
  await page.evaluate(() =>
    document.querySelector("main").insertAdjacentHTML("beforeend", '<b id="c" data-tally="later"></b>'),
  );
  await shows("#c", "5");
  await shows("#a", "1.234.567");
  await add("later", 1);
  await shows("#c", "6");
  // Nothing is asked for a page that is hidden, and all once it is shown again.
  const hide = (value) =>
    page.evaluate((hidden) => {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, value);
  expect(streams()).toBe(2);
  await hide(true);
  await add("likes", 1);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(done)));
  expect(streams()).toBe(2);
  await hide(false);
  await shows("#a", "1.234.568");
  expect(streams()).toBe(3);
});

test("a prerendered page is counted once it is shown", async () => {
  files["/later"] = html("", { head: script() });
  const page = await visit("/later", {
    before: () => Object.defineProperty(document, "prerendering", { value: true, configurable: true }),
  });
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(done)));
  expect(ids(page)).toEqual([]);
  await page.evaluate(() => {
    Object.defineProperty(document, "prerendering", { value: false });
    document.dispatchEvent(new Event("prerenderingchange"));
  });
  await counted("/later", 1);
});

test("so is one that the browser itself prerenders", async ({ skip }) => {
  let go;
  const gone = new Promise((done) => (go = done));
  files["/before"] = html('<a href="/soon">Next</a>', {
    head: `<script type="speculationrules">{"prerender":[{"source":"list","urls":["/soon"],"eagerness":"immediate"}]}</script>
      <script>fetch("/go").then(() => document.querySelector("a").click())</script>`,
  });
  files["/go"] = async () => ({ body: await gone });
  // After the script's own listener has run, and again once it is shown.
  const tells = `addEventListener("load", () => setTimeout(() => fetch("/loaded?" + document.prerendering)));
    document.addEventListener("prerenderingchange", () => fetch("/shown"))`;
  files["/soon"] = html("", { head: `${script()}<script>${tells}</script>` });
  files["/loaded"] = files["/shown"] = "";
  const close = await openAlone(`${site.url}/before`);
  try {
    const requestFor = (path) => until(() => site.hits.some((hit) => hit.path === path), `the page asks for ${path}`);
    // A browser does not where memory is short, and may not by its policy.
    await requestFor("/loaded?true").catch(() => skip("this browser did not prerender the page"));
    await world.refused(404, "counter-not-found", "GET", "/counters/%2Fsoon?consistency=strong", ADMIN);
    go("");
    await requestFor("/shown");
    await counted("/soon", 1);
  } finally {
    await close();
  }
});

test("a page that comes back from the browser's cache is seen again", async () => {
  files["/back"] = html("", { head: script() + script() });
  const page = await visit("/back");
  await counted("/back", 1);
  await page.evaluate(() => dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true })));
  await counted("/back", 2);
  expect(ids(page)).toEqual(["/back", "/back"]);
});

test("where a beacon cannot be queued, a fetch counts", async () => {
  files["/fetched"] = html("", { head: script() });
  await visit("/fetched", { before: () => (navigator.sendBeacon = () => false) });
  await counted("/fetched", 1);
});

test("without scripts a pixel counts", async () => {
  files["/plain"] = html(`<noscript><img src="${tally}/pixel/%2Fplain.gif" alt="" width="1" height="1"></noscript>`, { head: script() });
  await visit("/plain", { javaScriptEnabled: false });
  await counted("/plain", 1);
  // With scripts the same page counts by the beacon alone.
  await visit("/plain");
  await counted("/plain", 2);
});

test("badges are drawn as wide as their text, in every style, and pass axe-core", async () => {
  await add("stars", 12_345);
  const badge = (query, id = "stars") => `<p><img src="${tally}/badge/${id}.svg?${query}" alt="${query.replaceAll("&", " ") || "hits"}"></p>`;
  files["/badges"] = html(
    `<div id="badges" style="padding:0 1em">${[
      badge(""),
      badge("label=views&color=green"),
      badge("label=views&style=flat-square&color=yellow&format=full"),
      badge("label=visits today&style=for-the-badge&color=purple&show=today"),
      badge("label=visiteurs d’été&color=red"),
      badge("label=", "stars"),
      badge("label=new", "nothing"),
    ].join("")}</div>`,
  );
  const page = await visit("/badges", { viewport: { width: 240, height: 400 } });
  const sizes = await page.$$eval("img", (images) =>
    images.map(({ naturalWidth, naturalHeight }) => [naturalWidth, naturalHeight]),
  );
  expect(sizes.map(([, height]) => height)).toEqual([20, 20, 20, 28, 20, 20, 20]);
  for (const [width] of sizes) expect(width).toBeGreaterThan(20);
  expect(await axeFaults(page)).toEqual([]);
  await screenshot(page.locator("#badges"), "docs/badges.png");

  // What `textLength` says is what the browser needs for the text.
  const { text } = await world.call("GET", "/badge/stars.svg?label=Visits%20of%20this%20page", ADMIN);
  const widths = await page.evaluate((svg) => {
    document.body.insertAdjacentHTML("beforeend", svg);
    return [...document.querySelectorAll("svg text")].map((element) => {
      const wanted = element.textLength.baseVal.value;
      element.removeAttribute("textLength");
      return [wanted, element.getComputedTextLength()];
    });
  }, text);
  expect(widths.length).toBe(2);
  for (const [wanted, needed] of widths) expect(Math.abs(wanted - needed)).toBeLessThan(0.08 * needed + 1);
});
