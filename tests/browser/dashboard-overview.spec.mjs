// What a site's owner asks the dashboard: what are my top pages, when, and was it more than before? The log of the
// README is the scene.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { until } from "../e2e/world.mjs";
import { openDashboard, says } from "./dashboard.mjs";

const LOG = readFileSync(new URL("../fixtures/access.log", import.meta.url));
const LINES = 2_000;
const MINUTE_MS = 60_000;

let dashboard, world;
beforeAll(async () => {
  dashboard = await openDashboard({ vars: { TALLY_TABLETS: "16" } });
  world = dashboard.world;
  const report = await world.well("POST", "/ingest?format=clf&id=path&unique=ip", { body: LOG });
  expect(report.accepted).toBe(LINES);
});
afterAll(() => dashboard?.close());

/** The paths of the log, the most frequent first: `[path, how often]`. */
function frequent() {
  const times = new Map();
  for (const line of LOG.toString().trim().split("\n")) {
    const path = line.match(/"[A-Z]+ (\S+)/)[1].split("?")[0];
    times.set(path, (times.get(path) ?? 0) + 1);
  }
  return [...times].sort(([one, more], [other, less]) => less - more || (one < other ? -1 : 1));
}

test("after the import of a log of 2015 the busiest path is on top, and its history is visible", async () => {
  const page = await dashboard.open("");
  await says(page, "#headline", /^2,000$/);
  expect(page.url()).toMatch(/range=2015-05-1\d\.\.2015-05-\d\d$/);
  const [[path, times]] = frequent();
  expect(await page.locator("#top li .id").first().textContent()).toBe(path);
  expect(await page.locator("#top li .number").first().textContent()).toBe(String(times));
  await says(page, ".readout", /^2,000 counted, at most/);
  await page.click("#top li >> nth=0 >> a");
  await says(page, "h1", path);
  await says(page, "#headline", new RegExp(`^${times}$`));
  await says(page, ".readout", new RegExp(`^${times} counted, at most`));
  // The same from its own address: it opens where something was counted.
  const alone = await dashboard.open(`#/counter/${encodeURIComponent(path)}`);
  await says(alone, "#headline", new RegExp(`^${times}$`));
  await page.click(".tabs >> text=All time");
  await says(page, "#headline", new RegExp(`^${times}$`));
  await page.click(".tabs >> text=Today");
  await says(page, "#headline", /^0$/);
});

test("no label of the chart is cut off", async () => {
  // Which texts are drawn, and how far to the right of their canvas they end, in its pixels.
  const before = () => {
    const { fillText } = CanvasRenderingContext2D.prototype;
    globalThis.drawn = [];
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
      const { width } = this.measureText(text);
      const end = this.textAlign === "center" ? x + width / 2 : x;
      globalThis.drawn.push({ text, over: this.getTransform().e + end - this.canvas.width });
      return fillText.call(this, text, x, y);
    };
  };
  for (const width of [1280, 390]) {
    const page = await dashboard.open("#/?range=2015-05-17..2015-05-20", { before, viewport: { width, height: 900 } });
    await says(page, ".readout", /^2,000 counted/);
    const drawn = await page.evaluate(() => globalThis.drawn);
    expect(drawn.map(({ text }) => text)).toContain(width === 390 ? "18 May" : "18 May 2015");
    expect(drawn.filter(({ over }) => over > 0)).toEqual([]);
    await page.close();
  }
});

test("a row filters by its folder, and the range stays", async () => {
  const page = await dashboard.open("#/?range=all");
  await says(page, "#headline", /^2,000$/);
  const only = page.locator("#top .only").first();
  const folder = (await only.getAttribute("aria-label")).replace("Only names that begin with ", "");
  await only.click();
  await says(page, "h1", folder);
  const sum = frequent().reduce((all, [path, times]) => (path.startsWith(folder) ? all + times : all), 0);
  await says(page, "#headline", new RegExp(`^${sum.toLocaleString("en")}$`));
  expect(page.url()).toContain("range=all");
  const ids = await page.locator("#top li .id").allTextContents();
  expect(ids.every((id) => id.startsWith(folder))).toBe(true);
});

test("what came from where is shown once it is sent, and how to send it before", async () => {
  const page = await dashboard.open("#/?range=all");
  await says(page, ".breakdowns code", "tally.js");
  const by = (referrer, country) => ({ by: { referrer, country, device: "phone" } });
  await world.add("from/a", { delta: 3, ...by("a.example", "DE") });
  await world.add("from/b", { delta: 2, ...by("b.example", "DE") });
  await world.add("from/b", { delta: 1 });
  const all = await dashboard.open("#/?prefix=from/&range=today");
  await says(all, "#by-referrer li >> nth=0", /a\.example3/);
  await says(all, "#by-referrer", /1 came directly, or did not say from where/);
  await says(all, "#by-country li", /DEGermany5/);
  expect(await all.locator("#by-country circle title").textContent()).toBe("Germany: 5");
  const one = await dashboard.open("#/counter/from%2Fb?range=today");
  await says(one, "#by-referrer li", /b\.example2/);
  expect(await one.textContent("#by-referrer")).not.toContain("a.example");
});

test("a referrer leads to the pages that have it, and back", async () => {
  const by = (referrer) => ({ by: { referrer } });
  await world.add("led/a", { delta: 3, ...by("one.example") });
  await world.add("led/b", { delta: 2, ...by("one.example") });
  await world.add("led/b", { delta: 9, ...by("two.example") });
  const page = await dashboard.open("#/?prefix=led/&range=today");
  await says(page, "#headline", /^14$/);
  await page.click("#by-referrer li a >> text=one.example");
  await says(page, ".where", "Referrers: one.example");
  await says(page, "#headline", /^5$/);
  expect(page.url()).toContain("where=referrer%3Aone.example");
  expect(await page.locator("#top li .id").allTextContents()).toEqual(["led/a", "led/b"]);
  expect(await page.locator("#top li .number").allTextContents()).toEqual(["3", "2"]);
  await says(page, ".facts", /Counters2$/);
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#top .export >> text=CSV")]);
  expect(readFileSync(await download.path(), "utf8")).toContain("\r\ntop,led/a,3,");
  await page.click(".tabs >> text=7 days");
  await says(page, ".where", "one.example");
  await page.click(".where a");
  await says(page, "#headline", /^14$/);
});

test("a row of a counter's own page leads to the counters that have it", async () => {
  for (const id of ["own/a", "own/b"]) await world.add(id, { delta: 2, by: { referrer: "own.example" } });
  const page = await dashboard.open("#/counter/own%2Fa?range=today");
  await page.click("#by-referrer li a >> text=own.example");
  await says(page, ".where", "Referrers: own.example");
  expect(page.url()).toContain("range=today");
  await says(page, "#headline", /^4$/);
  expect(await page.locator("#top li .id").allTextContents()).toEqual(["own/a", "own/b"]);
  await page.goBack();
  await says(page, "h1", "own/a");
});

test("long names of dimensions widen no page, rows of pages lead to no counter that is not there, and blanks are a word", async () => {
  const name = "d".repeat(64);
  await world.add("site/of", { by: { [name]: "v".repeat(256), page: "/none", campaign: " " } });
  const page = await dashboard.open("#/?prefix=site/&range=today", { viewport: { width: 390, height: 800 } });
  await says(page, `#by-${name} li`, /v{256}/);
  await says(page, "#by-campaign li", /\(blank\)1/);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
  await page.click("#by-page li a");
  await says(page, ".where", "Pages: /none");
  await says(page, "#top li .id", "site/of");
  expect(await page.locator("#top li .id").allTextContents()).toEqual(["site/of"]);
  const own = await dashboard.open(`#/?prefix=site/&range=today&where=${name}:${"v".repeat(256)}`, {
    viewport: { width: 390, height: 800 },
  });
  await says(own, ".where", /v{256}/);
  await says(own, "#headline", /^1$/);
  expect(await own.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
});

test("any days can be asked for, and a range that ends before it begins is refused", async () => {
  const page = await dashboard.open("#/?range=2015-05-17..2015-05-18");
  await says(page, "#headline", /^\d/);
  await page.fill("#range-from", "2015-05-19");
  await page.click(".dates button");
  await says(page, ".fault", "ends before it begins");
  await page.fill("#range-to", "2015-05-20");
  await page.click(".dates button");
  await page.waitForURL(/range=2015-05-19\.\.2015-05-20/);
  await says(page, ".compare", /2 days before/);
});

test("today is compared with yesterday until the same hour", async () => {
  const hour = 3_600_000;
  const now = Date.now() - (Date.now() % hour);
  const midnight = now - (now % (24 * hour));
  // In the first hour of a day there is nothing to compare.
  if (now === midnight) return;
  const lineAt = (at_ms, increment) => line("compared/a", at_ms, increment);
  await world.well("POST", "/ingest?format=ndjson", {
    body: [
      lineAt(midnight + 1_000, 30), lineAt(midnight - 24 * hour + 1_000, 20), lineAt(now - 24 * hour + hour / 2, 1_000),
    ].join("\n"),
  });
  const page = await dashboard.open("#/?prefix=compared/&range=today");
  await says(page, "#headline", /^30$/);
  await says(page, ".compare", /^\+50 % against the same part of yesterday/);
});

/** Returns an event of an amount at a time, unix milliseconds. */
const line = (id, at_ms, delta, by) => JSON.stringify({ id, at: Math.floor(at_ms / 1_000), delta, by });
/** Returns what is shown as CSV. */
async function saved(page) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.click(".export >> text=CSV")]);
  return readFileSync(await download.path(), "utf8");
}

const changes = (page, list) => page.locator(`${list} li .change`).allTextContents();

test("each row says how it changed since the range before, or that it is new", async () => {
  const day = 24 * 3_600_000;
  const noon = Date.now() - (Date.now() % day) - day / 2;
  const of = (referrer) => ({ referrer });
  const lines = [
    [line("rows/a", noon, 30, of("one")), line("rows/b", noon, 10, of("two")), line("rows/c", noon, 5, of("three"))],
    [line("rows/a", noon - day, 20, of("one")), line("rows/b", noon - day, 20, of("two")), line("rows/d", noon - day, 7, of("four"))],
  ].flat();
  await world.well("POST", "/ingest?format=ndjson", { body: lines.join("\n") });
  const page = await dashboard.open("#/?prefix=rows/&range=yesterday");
  await says(page, "#headline", /^45$/);
  await says(page, "#by-referrer .change", /^new$/);
  expect(await changes(page, "#top")).toEqual(["+50 %", "−50 %", "new"]);
  expect(await changes(page, "#by-referrer")).toEqual(["+50 %", "−50 %", "new"]);
  expect(await page.locator("#top .change").first().getAttribute("title")).toMatch(/: 30\. .*: 20\.$/);
  expect(await page.locator("#top .change").nth(1).getAttribute("data-tone")).toBe("down");
  const rows = (await saved(page)).split("\r\n").map((row) => row.split(","));
  const changeRows = rows.map(([section, name, amount, , , , , , before, , , change]) =>
    [section, name, amount, before, change].join(),
  );
  expect(changeRows.slice(1, 8)).toEqual([
    "total,counted,45,47,-4.25", "top,rows/a,30,20,50", "top,rows/b,10,20,-50", "top,rows/c,5,0,new",
    "referrer,one,30,20,50", "referrer,two,10,20,-50", "referrer,three,5,0,new",
  ]);
  expect(changeRows.filter((row) => row.startsWith("history before,") && row.includes(",47,"))).toHaveLength(1);
  // The same of one referrer.
  await page.click("#by-referrer li a >> text=one");
  await says(page, ".where", "Referrers: one");
  await says(page, "#top .change", /^\+50 %$/);
  expect(await saved(page)).toMatch(/\r\ntotal,counted,30,.*,20,[^,]+,[^,]+,50\r\ntop,rows\/a,30,.*,20,[^,]+,[^,]+,50\r\n/);
  await says(page, ".compare", /^\+50 % against the day before \(20\)$/);
  const own = await dashboard.open("#/counter/rows%2Fb?range=yesterday");
  await says(own, "#by-referrer .change", /^−50 %$/);
  expect(await saved(own)).toMatch(/\r\ntotal,counted,10,.*,20,[^,]+,[^,]+,-50\r\nreferrer,two,10,.*,20,[^,]+,[^,]+,-50\r\n/);
  // What has no range before has no changes.
  await own.click(".tabs >> text=All time");
  await says(own, "#headline", /^30$/);
  await says(own, "#by-referrer li", /two30/);
  expect(await changes(own, "#by-referrer")).toEqual([""]);
});

test("rows of old days are compared with the days before them", async () => {
  const at = (date) => Date.parse(`${date}T12:00:00Z`);
  const of = (page) => ({ page });
  const lines = [
    line("old/a", at("2016-03-02"), 6, of("/x")), line("old/a", at("2016-03-03"), 6, of("/y")),
    line("old/a", at("2016-03-01"), 4, of("/x")),
  ];
  await world.well("POST", "/ingest?format=ndjson", { body: lines.join("\n") });
  const page = await dashboard.open("#/?prefix=old/&range=2016-03-02..2016-03-03");
  await says(page, "#headline", /^12$/);
  await says(page, "#by-page .change", /^new$/);
  expect(await changes(page, "#top")).toEqual(["+200 %"]);
  expect(await changes(page, "#by-page")).toEqual(["+50 %", "new"]);
});

test("a page that nobody touches asks at most ten times a minute, and a hidden one not at all", async () => {
  for (const hash of ["#/?range=hour", "#/counters", "#/counter/%2F?range=minutes", "#/limits"]) {
    const page = await dashboard.browser.page();
    await page.clock.install();
    const sent = [];
    page.on("request", (request) => sent.push(request.url()));
    await page.goto(`${dashboard.gate.url}/dashboard/${hash}`);
    await says(page, "#connection", /exact|old|isolate|counters/);
    // What is asked for at the beginning comes by itself; then nobody touches the page.
    const pass = async (minutes) => {
      const before = sent.length;
      for (let second = 0; second < minutes * 60; second += 5) {
        await page.clock.runFor(5_000);
        await page.evaluate(() => fetch("/healthz")).then(() => sent.pop());
      }
      return sent.length - before;
    };
    await pass(2);
    for (let minute = 0; minute < 2; minute += 1) {
      expect(await pass(1), `${hash}: ${sent.slice(-15).join(" ")}`).toBeLessThanOrEqual(10);
    }
    await page.evaluate(() => {
      Object.defineProperty(document, "hidden", { value: true, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    });
    expect(await pass(2), `${hash}, hidden`).toBe(0);
    await page.close();
  }
}, 3 * MINUTE_MS);

test("what is shown can be had as CSV and JSON", async () => {
  const page = await dashboard.open("#/?prefix=/&range=all");
  await says(page, "#headline", /^2,000$/);
  const saved = async (kind) => {
    const [download] = await Promise.all([page.waitForEvent("download"), page.click(`.export >> text=${kind}`)]);
    return [download.suggestedFilename(), readFileSync(await download.path(), "utf8")];
  };
  const [name, csv] = await saved("CSV");
  const [[path, times]] = frequent();
  expect(name).toBe("tally-all.csv");
  expect(csv).toContain(`\r\ntop,${path},${times},`);
  expect(csv).toMatch(/^section,name,count,from,to\r\n/);
  const { prefix, rows } = JSON.parse((await saved("JSON"))[1]);
  expect(prefix).toBe("/");
  const sum = rows.filter(({ section }) => section === "history").reduce((all, { count }) => all + count, 0);
  expect(sum).toBe(LINES);
});

test("an export that is clicked before the answers have come waits for all of them", async () => {
  await world.well("PUT", "/limits/waits", { body: '{"limit":2,"window_seconds":60}' });
  await world.add("waits", { by: { referrer: "late.example" } });
  const cases = [
    ["#/counter/waits?range=today", "**/breakdown?*", "\r\nreferrer,late.example,1,"],
    ["#/?prefix=waits&range=today", "**/breakdown?*", "\r\nreferrer,late.example,1,"],
    ["#/counters?prefix=waits", "**/live?*", "\r\nvalue,waits,1,"],
    ["#/limits/waits?range=today", "**/*include=refused*", "\r\nchecks,allowed,0,"],
    ["#/limits", "**/limits?*", "\r\nlimit,waits,2,"],
  ];
  for (const [hash, path, row] of cases) {
    const page = await dashboard.browser.page();
    const { promise: released, resolve: release } = Promise.withResolvers();
    await page.route(path, async (route) => {
      await released;
      await route.continue();
    });
    await page.goto(`${dashboard.gate.url}/dashboard/${hash}`);
    const button = page.locator(".export >> text=CSV");
    await button.click();
    expect(await button.getAttribute("aria-busy"), hash).toBe("true");
    const download = page.waitForEvent("download");
    release();
    expect(readFileSync(await (await download).path(), "utf8"), hash).toContain(row);
    expect(await button.isEnabled()).toBe(true);
    await page.close();
  }
});

test("more rows of a list are shown where there are more, each with its change", async () => {
  const at = Date.parse("2017-01-10T12:00:00Z");
  const lines = Array.from({ length: 30 }, (_, number) =>
    line(`more/${number}`, at, 100 - number, { referrer: `r${number}.example` }),
  );
  await world.well("POST", "/ingest?format=ndjson", { body: lines.join("\n") });
  const page = await dashboard.open("#/?prefix=more/&range=2017-01-10..2017-01-10");
  await says(page, "#by-referrer", /with other values \(at most 90 each\)/);
  expect(await page.locator("#top li, #by-referrer li").count()).toBe(20);
  await page.click("#by-referrer >> text=Show more");
  await says(page, "#by-referrer li", /r29\.example71.*new/);
  await page.click("#top >> text=Show more");
  await says(page, "#top li", /more\/2971.*new/);
  expect(await page.locator("#top li, #by-referrer li").count()).toBe(60);
  expect(await page.locator("#top button:visible, #by-referrer button:visible").count()).toBe(0);
  expect((await saved(page)).match(/\r\n(top|referrer),.*,new(?=\r\n)/g)).toHaveLength(60);
});

test("dimensions without a value in the range are named in one line", async () => {
  await world.add("sparse", { by: { referrer: "a.example" } });
  await world.well("POST", "/ingest?format=ndjson", {
    body: line("sparse", Date.parse("2017-02-01T12:00:00Z"), 1, { page: "/old", status: "200" }),
  });
  const page = await dashboard.open("#/counter/sparse?range=today");
  await says(page, ".unshown", /^None today: Pages, Status codes\.$/);
  await says(page, "#by-referrer li", "a.example");
  expect(await page.locator("#by-page").isHidden()).toBe(true);
});

test("where nothing is busy the list of counters shows the largest and says so", async () => {
  const page = await dashboard.open("#/counters?prefix=/");
  await says(page, ".title .sub", /^Nothing was counted in the last hour\. The 20 largest of /);
  const [[path, times]] = frequent();
  await says(page, ".row >> nth=0", new RegExp(`${path}.*${times}`));
});

test("an overview leads to a new share link for its prefix", async () => {
  const page = await dashboard.open("#/?prefix=led/&range=today");
  await page.click(".prefix >> text=Share");
  await says(page, "h1", "Share links");
  expect(await page.inputValue("#share-prefix")).toBe("led/");
});

test("one box finds counters, policies, keys and pages", async () => {
  await world.well("PUT", "/limits/login", { body: '{"limit":2,"window_seconds":60}' });
  // The directory hears of totals within seconds.
  await until(async () => (await world.well("GET", "/top?prefix=%2Ffav&limit=1")).entries.length === 1);
  const { id: key } = await world.well("POST", "/keys", {
    body: '{"name":"for-ann","scopes":["read"],"prefixes":["led/"]}',
  });
  const page = await dashboard.open("");
  await says(page, "#headline", /^\d/);
  const field = page.locator("#find-id");
  await field.fill("favi");
  await says(page, "#find-list li", "/favicon.ico");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await says(page, "h1", "/favicon.ico");
  await field.fill("log");
  await says(page, "#find-list li", /login.*policy/);
  await field.fill("login");
  await page.keyboard.press("Enter");
  await says(page, "#form-title", "Change it");
  expect(page.url()).toContain("#/limits/login");
  const [download] = await Promise.all([page.waitForEvent("download"), page.click(".export >> text=CSV")]);
  expect(readFileSync(await download.path(), "utf8")).toContain("\r\nchecks,allowed,0,");
  // Anywhere in the name.
  await field.fill("con.ic");
  await says(page, "#find-list li", /\/favicon\.ico.*counter/);
  await field.fill("R-ann");
  await says(page, "#find-list li", /for-ann.*key/);
  await page.keyboard.press("Enter");
  await says(page, "tr[aria-current=true]", /for-ann/);
  expect(page.url()).toContain(`#/keys/${key}`);
  await field.fill("lim");
  await says(page, "#find-list li", /Rate limits.*page/);
  await page.keyboard.press("Escape");
  expect(await page.locator("#find-list").isHidden()).toBe(true);
});
