// What the dashboard says while a part of the service does not answer.
import { afterAll, beforeAll, expect, test } from "vitest";
import { openDashboard, says } from "./dashboard.mjs";

let dashboard, world;
beforeAll(async () => {
  dashboard = await openDashboard({ faults: true });
  world = dashboard.world;
});
afterAll(() => dashboard?.close());

test("a datacenter that does not answer is named, with what was last known of it", async () => {
  await world.add("away", { delta: 5 }, { colo: "FRA" });
  await world.add("away", { delta: 3 }, { colo: "SYD" });
  expect(await world.strong("away")).toMatchObject({ value: 8, exact: true });
  // Before anybody watches: what a lead sends by itself does not come by here.
  world.fail(({ kind, name }) => (kind === "cell" && name.includes("/SYD/") ? "before" : undefined));
  const page = await dashboard.open("#/counter/away");
  await says(page, "#connection", /^stale .* · SYD unreachable$/);
  await says(page, ".truth", /^SYD does not answer. The sum has the last known value/);
  await says(page, ".bars .away", /SYD0.*unreachable, as of/);
  // Nobody has ever read it, so nothing is known of what SYD counted.
  expect(await page.textContent("#value")).toBe("5");
  await page.evaluate(() => (location.hash = "#/counters"));
  await says(page, ".row .flag", /SYD unreachable/);
  world.fail(() => undefined);
  await page.evaluate(() => (location.hash = "#/counter/away"));
  await says(page, "#value", /^8$/);
  await says(page, "#connection", /^(live|polling) · /);
  expect(await page.locator(".bars .away").count()).toBe(0);
});

test("without the aggregator the page says that it is cut off, and comes back by itself", async () => {
  dashboard.browser.allow(/status of 503/);
  await world.add("back", { delta: 2 });
  const page = await dashboard.open("#/counter/back");
  await says(page, "#value", /^2$/);
  world.fail(({ kind }) => (kind === "aggregator" || kind === "watcher" ? "before" : undefined));
  await page.reload();
  await says(page, ".trouble", /could not be read/);
  world.fail(() => undefined);
  await says(page, "#value", /^2$/);
});
