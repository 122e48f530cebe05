// Share links on the dashboard: made by hand, opened by somebody else, revoked.
import { afterAll, beforeAll, expect, test } from "vitest";
import { openDashboard, says } from "./dashboard.mjs";

let dashboard, world;
beforeAll(async () => {
  dashboard = await openDashboard();
  world = dashboard.world;
  await world.add("blog/a", { delta: 5 });
  await world.add("blog/b", { delta: 2 });
  await world.add("shop/a", { delta: 9 });
});
afterAll(() => dashboard?.close());

test("a link opens the dashboard narrowed to its prefix, until it is revoked", async () => {
  const own = await dashboard.open("#/shares");
  await says(own, "#shares-title ~ div", "There are none.");
  await own.fill("#share-prefix", "blog/");
  await own.fill("#share-name", "Ann");
  await own.click("text=Make a link");
  await says(own, ".policies", /blog\/.*Ann/);
  const [share] = (await world.well("GET", "/shares")).entries;
  const guest = await dashboard.browser.page();
  await guest.goto(`${dashboard.gate.url}${share.url}`);
  await says(guest, "#headline", /^7$/);
  await says(guest, "h1", "blog/");
  expect(await guest.locator("#top li").count()).toBe(2);
  // The token does not stay in the address.
  expect(guest.url()).not.toContain(share.token);
  expect(await guest.locator("nav [data-view=limits]").isHidden()).toBe(true);
  await guest.click("#top li >> nth=0 >> a");
  await says(guest, "#headline", /^5$/);
  await says(guest, "#connection", /^live/);
  await guest.evaluate(() => (location.hash = "#/?prefix=shop/"));
  // The counter's page names the prefix too.
  await says(guest, "#headline", /^7$/);
  await guest.evaluate(() => (location.hash = "#/counter/shop%2Fa"));
  await says(guest, "h2", "may not read this counter");
  await own.click("button:text-is('Revoke')");
  await says(own, "[role=status]", "The link is revoked");
  await guest.evaluate(() => (location.hash = "#/"));
  await says(guest, "h2", "A key is needed");
});

test("a link replaces no key of a tab unasked, and brings no key but a share's", async () => {
  const { token } = await world.well("POST", "/shares", { body: '{"prefix":"blog/","expires_in_seconds":600}' });
  const own = await dashboard.browser.page();
  await own.goto(`${dashboard.gate.url}/dashboard/#/`);
  const keyOf = () => own.evaluate(() => sessionStorage.getItem("tally-key"));
  const visit = (text) => own.evaluate((hash) => (location.hash = hash), `#/share/${text}?prefix=blog/`);
  await visit("admin-key-0123456789");
  await says(own, ".unknown", /^This is not a share link/);
  expect(await keyOf()).toBe(null);
  await own.evaluate(() => sessionStorage.setItem("tally-key", "my-own-key-0123456789"));
  for (const how of ["#share-close", "Escape"]) {
    await visit(token);
    await says(own, "#share-what", "counters that begin with blog/");
    expect(own.url()).not.toContain(token);
    await (how === "Escape" ? own.keyboard.press(how) : own.click(how));
    expect(await own.locator("#share-dialog").isHidden()).toBe(true);
    expect(await keyOf()).toBe("my-own-key-0123456789");
    expect(await own.evaluate(() => sessionStorage.getItem("tally-share-prefix"))).toBe(null);
  }
  await visit(token);
  await own.click("#share-form button[type=submit]");
  await says(own, "#key-open", "Shared with you");
  expect(await keyOf()).toBe(token);
});
