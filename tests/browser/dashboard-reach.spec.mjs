// Who can use the dashboard: by keyboard, on a phone, with a screen reader, in light and dark, with hostile names.
import { afterAll, beforeAll, expect, test } from "vitest";
import { axeFaults } from "./browser.mjs";
import { openDashboard, says } from "./dashboard.mjs";

const LARGEST = (2n ** 128n - 1n).toString();
const HOSTILE = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "\"'><svg/onload=alert(1)>",
  "שלום/\u202Eكود",
  "x".repeat(512),
  "a b?c#d%41&e=f",
  "a*",
];
const WIDTHS = [360, 768, 1280];

let dashboard, world;
beforeAll(async () => {
  dashboard = await openDashboard();
  world = dashboard.world;
  for (const [index, id] of HOSTILE.entries())
    await world.add(id, { delta: index + 1, unique: `u${index}` }, { colo: ["FRA", "SYD"][index % 2] });
  await world.add(HOSTILE[4], { sample: 12.5 }, { colo: "FRA" });
  await world.well("PUT", "/counters/huge/value", { body: JSON.stringify({ value: LARGEST }) });
  await world.subtract("negative", { delta: "9007199254740993" });
  await world.well("POST", "/shares", { body: '{"prefix":"blog/","name":"for Ann"}' });
  await world.well("POST", "/keys", { body: '{"name":"for Bob","scopes":["read"],"prefixes":["blog/"]}' });
  const alert = {
    counter: HOSTILE[4], when: { value: { above: 10 } },
    webhook: "https://hooks.example.com/",
    secret: `whsec_${Buffer.alloc(32).toString("base64")}`,
  };
  await world.well("PUT", "/alerts/many", { body: JSON.stringify(alert) });
  await world.well("PUT", "/limits/login", { body: '{"limit":2,"window_seconds":60}' });
});
afterAll(() => dashboard?.close());

const counter = (id) => `#/counter/${encodeURIComponent(id)}`;
// Each view with a text that it has once it is complete.
const VIEWS = [
  ["#/", "#top .number", /\d/],
  ["#/counters", ".row .number", /\d/],
  [counter(HOSTILE[4]), ".spread", /1 sample, 12.5 on average/],
  [counter("huge"), ".readout", /counted/],
  [counter("missing"), "h2", "There is no such counter"],
  ["#/limits", ".policies", /login/],
  ["#/limits/login", "#form-title", "Change it"],
  ["#/shares", ".policies", /for Ann/],
  ["#/keys", ".policies", /for Bob/],
  ["#/alerts", ".policies", /x{512}: value above 10/],
  ["#/costs", "#cost-sum", /\$5\.00/],
];

test("names and numbers are shown as they are, whatever they hold", async () => {
  const page = await dashboard.open("#/counters?order=name");
  await says(page, ".row", /negative/);
  const names = await page.locator(".row bdi").allTextContents();
  expect(names.sort()).toEqual([...HOSTILE, "huge", "negative"].sort());
  for (const [id, digits] of [
    ["huge", "340,282,366,920,938,463,463,374,607,431,768,211,455"],
    ["negative", "−9,007,199,254,740,993"],
    [HOSTILE[0], "1"],
  ]) {
    await page.evaluate((hash) => (location.hash = hash), counter(id));
    await says(page, "h1", id);
    await says(page, "#value", new RegExp(`^${digits}$`));
    expect(await page.title()).toContain(id);
  }
  expect(await page.locator("main script, main img").count()).toBe(0);
});

for (const colorScheme of ["light", "dark"]) {
  test(`axe-core finds nothing, ${colorScheme}`, async () => {
    for (const [hash, selector, text] of VIEWS) {
      const page = await dashboard.open(hash, { colorScheme });
      await says(page, selector, text);
      expect(await axeFaults(page), hash).toEqual([]);
      if (hash === "#/") {
        await page.click("#key-open");
        expect(await axeFaults(page), "the dialog for keys").toEqual([]);
      }
      await page.close();
    }
  });
}

test("axe-core finds nothing while the first answers are under way", async () => {
  for (const [hash, selector, text] of [["#/limits/login", "#form-title", "Change it"], ["#/", "h1", "Overview"]]) {
    const page = await dashboard.browser.page();
    const { promise: released, resolve: release } = Promise.withResolvers();
    await page.route("**/history?step=*", async (route) => {
      await released;
      await route.continue();
    });
    await page.goto(`${dashboard.gate.url}/dashboard/${hash}`);
    await says(page, selector, text);
    expect(await axeFaults(page), hash).toEqual([]);
    release();
    await page.unrouteAll({ behavior: "wait" });
    await page.close();
  }
});

test("nothing is wider than the screen", async () => {
  for (const [hash, selector, text] of VIEWS) {
    const page = await dashboard.open(hash, { viewport: { width: WIDTHS[0], height: 800 } });
    await says(page, selector, text);
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 800 });
      // The chart follows once the browser has told it.
      await page.waitForFunction(() =>
        [...document.querySelectorAll(".plot")].every(
          (box) => Math.abs(box.firstChild.offsetWidth - box.clientWidth) <= 1,
        ),
      );
      const [content, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      expect(content, `${hash} at ${width}`).toBeLessThanOrEqual(screen);
    }
    await page.close();
  }
});

test("everything is reached by keys alone", async () => {
  const page = await dashboard.open("#/counters?order=name");
  await says(page, ".row", "huge");
  const focused = () =>
    page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent.trim());
  const tabTo = async (pattern) => {
    for (let step = 0; step < 60; step += 1) {
      await page.keyboard.press("Tab");
      if (pattern.test(await focused())) return;
    }
    throw new Error(`${pattern} was not reached`);
  };
  await page.keyboard.press("Tab");
  expect(await focused()).toBe("Skip to the main content");
  await page.keyboard.press("Enter");
  await tabTo(/^Largest$/);
  await page.keyboard.press("Enter");
  await says(page, "[aria-current=true]", "Largest");
  expect(await focused()).toBe("Largest");
  await says(page, ".row", /^huge/);
  await tabTo(/^huge/);
  await page.keyboard.press("Enter");
  await says(page, "h1", "huge");
  expect(await focused()).toBe("huge");
  await says(page, ".readout", /counted/);
  await tabTo(/^Today$/);
  await tabTo(/^Custom$/);
  await tabTo(/^Chart of counts per/);
  await page.keyboard.press("+");
  await says(page, "[aria-label='Show all']:not([disabled])", "All");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("0");
  await says(page, "[aria-label='Show all'][disabled]", "All");
  await tabTo(/^Counters$/);
  await page.keyboard.press("Enter");
  await says(page, "h1", "Counters");
});

test("a key is asked for, sent as a header, and kept in the tab alone", async () => {
  const secret = "dashboard-key-0123456789";
  const keys = JSON.stringify({
    keys: [
      { name: "dash", key: secret, scopes: ["read"] },
      { name: "ops", key: "write-key-0123456789", scopes: ["admin"] },
    ],
  });
  const closed = await openDashboard({ vars: { TALLY_KEYS: keys, TALLY_ACCESS: undefined } });
  try {
    await closed.world.add("kept", { delta: 6 }, { headers: { authorization: "Bearer write-key-0123456789" } });
    const page = await closed.open("#/counter/kept");
    await says(page, "h2", "A key is needed");
    await page.click("text=Enter a key");
    await page.keyboard.type(secret);
    await page.keyboard.press("Enter");
    await says(page, "#value", /^6$/);
    expect(page.url()).not.toContain(secret);
    const kept = await page.evaluate(() => [
      JSON.stringify(localStorage), document.cookie, document.documentElement.outerHTML,
    ]);
    expect(kept.join("\n")).not.toContain(secret);
    await page.reload();
    await says(page, "#value", /^6$/);
    await page.goto(`${closed.gate.url}/dashboard/#/limits`);
    await says(page, ".panel", "admin and no prefix");
    await page.click("#key-open");
    await page.click("#key-forget");
    await says(page, "h2", "A key is needed");
  } finally {
    await closed.close();
  }
});
