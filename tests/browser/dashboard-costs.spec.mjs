// The view of costs: fed by what the whole deployment has counted, or by hand.
import { afterAll, beforeAll, expect, test } from "vitest";
import { until } from "../e2e/world.mjs";
import { openDashboard, says } from "./dashboard.mjs";

const WRITES = 30;
const CHECKS = 6;
const READS = 3;

// A deployment with keys, whose owner may do everything and whose reader may read counters.
const OWNER = { headers: { authorization: "Bearer write-key-0123456789" } };
const READER = { headers: { authorization: "Bearer dashboard-key-0123456789" } };
const KEYS = JSON.stringify({
  keys: [
    { name: "dash", key: "dashboard-key-0123456789", scopes: ["read"] },
    { name: "ops", key: "write-key-0123456789", scopes: ["admin"] },
  ],
});

let dashboard, world, closed;
// Both are written first, since what was written takes seconds to be told to the directory.
beforeAll(async () => {
  [dashboard, closed] = await Promise.all([
    openDashboard(), openDashboard({ vars: { TALLY_KEYS: KEYS, TALLY_ACCESS: undefined } }),
  ]);
  await closed.world.add("kept", { delta: 6 }, OWNER);
  world = dashboard.world;
  await world.well("PUT", "/limits/login", { body: '{"limit":1000,"window_seconds":60}' });
  for (let write = 0; write < WRITES; write += 1) await world.add(`c${write % 3}`);
  for (let check = 0; check < CHECKS; check += 1) await world.well("POST", "/limits/login/ann");
  for (let read = 0; read < READS; read += 1) await world.well("GET", "/counters/c1");
});
afterAll(async () => {
  await dashboard?.close();
  await closed?.close();
});

// What was counted is in tops once it has been told to the directory.
const isSettled = (of, total, options) =>
  until(
    async () => (await of.well("GET", "/top?window=30d&by=count&limit=1", options)).total === total, "what was counted",
  );
const numberOf = async (page, id) => Number((await page.inputValue(`#cost-${id}`)).replaceAll(",", ""));
const amounts = (page) => page.locator("tbody td:first-of-type").allTextContents();

test("the calculator begins with what the deployment counted, says over which time, and may be filled in by hand", async () => {
  await isSettled(world, WRITES);
  const page = await dashboard.open("#/costs");
  await says(page, "[role=status]", new RegExp(`In the last 30 days 3 counters counted ${WRITES}\\.`));
  expect([await page.inputValue("#cost-from"), await numberOf(page, "writes")]).toEqual(["days", WRITES]);

  // A deployment of today is not taken for a month unless that is asked for.
  await page.waitForFunction(() => !document.querySelector("#cost-from [value=begun]").disabled);
  expect(await page.inputValue("#cost-from")).toBe("days");
  await page.selectOption("#cost-from", "begun");
  await says(
    page, "[role=status]",
    new RegExp(`since .* the deployment has answered .*: ${WRITES} writes, ${CHECKS} checks of limits`),
  );
  const [writes, checks, reads] = [
    await numberOf(page, "writes"), await numberOf(page, "checks"), await numberOf(page, "reads"),
  ];
  expect(writes / checks).toBeCloseTo(WRITES / CHECKS, 1);
  expect(reads).toBeGreaterThan(writes / WRITES);

  // Once it has been looked at twice.
  await page.waitForFunction(() => !document.querySelector("#cost-from [value=open]").disabled);
  await page.selectOption("#cost-from", "open");
  await world.add("c1");
  await says(page, "[role=status]", /In the last .*: 1 write,/);
  expect(await numberOf(page, "writes")).toBeGreaterThan(1_000);

  await page.fill("#cost-writes", "300,000,000");
  await page.fill("#cost-reads", "0");
  await page.fill("#cost-checks", "0");
  await page.selectOption("#cost-way", "tablets");
  expect(await page.inputValue("#cost-from")).toBe("hand");
  expect(await amounts(page)).toEqual(["300,000,000", "624,000,000", "3,738,000,000"]);
  expect(await page.textContent("#cost-sum")).toBe("$3,873.45");
  await page.close();
}, 60_000);

test("a key that may read counters alone knows the writes of 30 days", async () => {
  await isSettled(closed.world, 6, READER);
  const page = await closed.open("#/costs");
  await says(page, "h2", "A key is needed");
  await page.click("text=Enter a key");
  await page.keyboard.type("dashboard-key-0123456789");
  await page.keyboard.press("Enter");
  await says(page, "[role=status]", /1 counter counted 6/);
  expect(await page.inputValue("#cost-from")).toBe("days");
  expect(await page.locator("#cost-from [value=begun]").isDisabled()).toBe(true);
});
