// Alerts on the dashboard: what each watches, its state, silences, tests, and what was delivered, to a receiver of this
// machine.
import { once } from "node:events";
import { createServer } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { screenshot } from "./browser.mjs";
import { openDashboard, says } from "./dashboard.mjs";

const SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const HOSTILE = '<img src=x onerror="alert(1)">';
// The first look is at once, the next within a minute.
const LOOKED_MS_MAX = 90_000;
const PICTURES = [1280, 390].flatMap((width) => ["light", "dark"].map((colorScheme) => [width, colorScheme]));

let dashboard, world, receiver;
const requests = [];
beforeAll(async () => {
  receiver = createServer((request, response) => {
    requests.push(request.url);
    response.writeHead(request.url === "/broken" ? 500 : 204).end();
  }).listen(0, "127.0.0.1");
  await once(receiver, "listening");
  dashboard = await openDashboard({ vars: { TALLY_ALERTS_ALLOW: '["127.0.0.1"]' } });
  world = dashboard.world;
});
afterAll(async () => {
  await dashboard?.close();
  receiver.close();
});

const put = (name, watched, path = "/hook") => {
  const webhook = `http://127.0.0.1:${receiver.address().port}${path}`;
  return world.well("PUT", `/alerts/${name}`, { body: JSON.stringify({ ...watched, webhook, secret: SECRET }) });
};
const row = (name) => `tr[data-id="${name}"]`;
const delivered = (page, pattern) => says(page, "[aria-labelledby=deliveries-title] tr", pattern);

test("without alerts it shows how to put one", async () => {
  const page = await dashboard.open("#/alerts");
  await says(page, ".panel pre", /curl -X PUT .*\/alerts\/many-orders/);
  await says(page, "#connection", "0 alerts");
  await says(page, "#deliveries-title ~ div", "There are none.");
  expect(await page.title()).toBe("Alerts – Tally");
});

test("an alert that fires is shown with what it watches and what was delivered; names are text", async () => {
  await world.add(HOSTILE, { delta: 12_345 });
  await put("sold", { counter: HOSTILE, when: { value: { above: 10_000 } } });
  await put("quiet", { counter: "beats", when: { rate_per_minute: { below: 5, above: 900 } }, for_seconds: 600 });
  await put("logins", { policy: "login", when: { refused_in: { seconds: 600, above: 100 } } });
  await expect.poll(() => requests, { timeout: LOOKED_MS_MAX, interval: 100 }).toEqual(["/hook"]);
  const page = await dashboard.open("#/alerts");
  await says(page, row("sold"), /sold.*<img src=x onerror="alert\(1\)">: value above 10,000.*firing.*12,345/);
  await says(page, row("quiet"), /beats: rate per minute above 900 or below 5/);
  await says(page, row("logins"), /login: refused in 600 s above 100/);
  await says(page, "#connection", "1 firing");
  await delivered(page, /sold.*firing.*delivered \(204\).*1/);
  expect(await page.locator("main img").count()).toBe(0);
});

test("an alert is silenced and heard again; the focus stays", async () => {
  const page = await dashboard.open("#/alerts");
  await says(page, row("sold"), "firing");
  await page.click("[aria-label='Silence sold for 8 h']");
  await says(page, row("sold"), /silenced.*until .*, otherwise firing/);
  await says(page, "[role=status]", "Nothing of sold is delivered for a time.");
  const { entries: alerts } = await world.well("GET", "/alerts");
  const { silence_ends_at: until } = alerts.find(({ alert }) => alert === "sold");
  expect(Math.abs(until - Date.now() - 8 * 3_600_000)).toBeLessThan(60_000);
  await page.focus("[aria-label='End the silence of sold']");
  await page.keyboard.press("Enter");
  await page.locator("[aria-label='Silence sold for 1 h']").waitFor();
  await says(page, "[role=status]", "sold is not silenced any more.");
  await page.focus("[aria-label='Test sold']");
  await page.keyboard.press("Enter");
  await says(page, "[role=status]", "The receiver of sold has taken the test.");
  expect(await page.evaluate(() => document.activeElement.getAttribute("aria-label"))).toBe("Test sold");
});

test("a test says what the receiver answered", async () => {
  await put("broken", { counter: "nobody", when: { value: { above: 10 } } }, "/broken");
  const page = await dashboard.open("#/alerts");
  await page.click("[aria-label='Test broken']");
  await says(page, "[role=status]", "The test of broken failed: the receiver answered 500.");
  await delivered(page, /broken.*test.*given up \(the receiver answered 500\).*1/);
});

test("a second row of the menu leads to what operators look at", async () => {
  const page = await dashboard.open("#/");
  expect(await page.isHidden("#operate")).toBe(true);
  await page.click("nav >> text=Operate");
  for (const [entry, title] of [
    ["Costs", "Costs"], ["Keys", "Keys"], ["Shares", "Share links"], ["Alerts", "Alerts"],
  ]) {
    await page.click(`#operate >> text=${entry}`);
    await says(page, "h1", title);
    expect(await page.locator("#operate [aria-current=page]").allTextContents()).toEqual([entry]);
    expect(await page.getAttribute("[data-opens=operate]", "aria-current")).toBe("true");
  }
  await page.click("nav >> text=Limits");
  await says(page, "h1", "Rate limits");
  expect(await page.isHidden("#operate")).toBe(true);
});

for (const [width, colorScheme] of PICTURES) {
  test(`a picture of alerts ${width} pixels wide, ${colorScheme}`, async () => {
    const page = await dashboard.open("#/alerts", { viewport: { width, height: 900 }, colorScheme });
    await says(page, row("sold"), "firing");
    await delivered(page, "delivered");
    const picture = await screenshot(page, `build/dashboard-alerts-${width}-${colorScheme}.png`);
    expect(picture.readUInt32BE(16)).toBe(width);
  });
}
