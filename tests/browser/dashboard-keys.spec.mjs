// Keys on the dashboard: made by hand and shown once, given another secret, revoked; and what admins did.
import { afterAll, beforeAll, expect, test } from "vitest";
import { openDashboard, says } from "./dashboard.mjs";

let dashboard, world;
beforeAll(async () => {
  dashboard = await openDashboard();
  world = dashboard.world;
});
afterAll(() => dashboard?.close());

test("a key is made, shown once, gets another secret and is revoked, and each is noted", async () => {
  const page = await dashboard.open("#/keys");
  await says(page, "#keys-title ~ div", "There are none.");
  await page.fill("#key-name", "blog");
  await page.fill("#key-prefixes", "blog/ news/");
  await page.fill("#key-rate", "600");
  await page.click("text=Make a key");
  await says(page, ".policies", /blog.*read, write.*blog\/ news\/.*600/);
  const shown = await page.inputValue("#made-key");
  expect(shown).toMatch(/^tally_[0-9a-f]{16}_[0-9a-f]{80}$/);
  const [key] = (await world.well("GET", "/keys")).entries;
  expect(key).toMatchObject({
    name: "blog", scopes: ["read", "write"], prefixes: ["blog/", "news/"], rate_per_minute: 600, expires_at: null,
  });
  await page.click("button:text-is('New secret')");
  await says(page, "[role=status]", "another secret");
  expect(await page.inputValue("#made-key")).not.toBe(shown);
  await page.click("button:text-is('Revoke')");
  await says(page, "[role=status]", "revoked");
  await says(page, "#keys-title ~ div", "There are none.");
  await says(page, ".acts", /DELETE \/keys\/\{id\}.*done/);
  // The secret goes with the view.
  await page.evaluate(() => (location.hash = "#/shares"));
  expect(await page.locator("#made-key").count()).toBe(0);
});
