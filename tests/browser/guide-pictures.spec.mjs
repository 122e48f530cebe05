// Pictures for the guide: a counter's page, a live board, limits and alerts, of a made-up shop. They are written into
// docs where SCREENSHOTS=1 asks for it.
import { once } from "node:events";
import { createServer } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { between, randomFrom } from "../crash/random.mjs";
import { screenshot } from "./browser.mjs";
import { openDashboard, says } from "./dashboard.mjs";

const SEED = 45;
const WIDTH = 880;
const HOUR_S = 3_600;
const HOURS = 15 * 24;
const PLAYERS = ["ann", "bo", "chidi", "dana", "emre", "fatou", "goro", "hana", "ines", "jun"];
const CALLERS = ["ann", "bo", "acme", "203.0.113.9", "2001:db8::/64", "nightly-job"];
const SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
// The first look is at once, the next within a minute.
const LOOKED_MS_MAX = 90_000;
// Less than what lies between panels.
const MARGIN = 10;

let dashboard, world, receiver;
const requests = [];
beforeAll(async () => {
  receiver = createServer((request, response) => {
    requests.push(request.url);
    response.writeHead(204).end();
  }).listen(0, "127.0.0.1");
  await once(receiver, "listening");
  dashboard = await openDashboard({ vars: { TALLY_ALERTS_ALLOW: '["127.0.0.1"]' } });
  world = dashboard.world;
}, 120_000);
afterAll(async () => {
  await dashboard?.close();
  receiver?.close();
});

/** Writes a picture of a page from its top down to the end of what `last` selects. */
async function picture(page, last, name) {
  const bottom = await page.evaluate(
    (selector) => document.querySelector(selector).closest(".panel").getBoundingClientRect().bottom + scrollY, last,
  );
  await page.setViewportSize({ width: WIDTH, height: Math.ceil(bottom) + MARGIN });
  const image = await screenshot(page, `docs/dashboard-${name}.png`);
  expect(image.readUInt32BE(16)).toBe(WIDTH);
}

const open = (hash) => dashboard.open(hash, { viewport: { width: WIDTH, height: 900 }, colorScheme: "light" });

test("a picture of a counter's page", async () => {
  const chance = randomFrom(SEED);
  const now_s = Math.floor(Date.now() / 1000);
  const lines = Array.from({ length: HOURS }, (_, hour) => {
    const second = now_s - 60 - hour * HOUR_S;
    const delta = Math.round(40 * (1.3 + Math.sin((second / 86_400) * 2 * Math.PI)) * (0.6 + chance()));
    return JSON.stringify({ id: "orders", delta, at: second, unique: `v${between(chance, 1, 4_000)}` });
  });
  await world.well("POST", "/ingest?format=ndjson", { body: lines.join("\n") });
  const page = await open("#/counter/orders?range=week");
  await says(page, "#headline", /^[1-9]/);
  // The counts depend on the time of the day, so both weeks may have as many.
  await says(page, ".compare", /(against|as many as) (the same part of )?the 7 days before/);
  await picture(page, ".uplot", "counter");
});

test("a picture of a live board", async () => {
  const chance = randomFrom(SEED);
  const members = PLAYERS.map((member) => JSON.stringify({ member, score: between(chance, 900, 9_900) }));
  await world.well("PUT", "/boards/weekly", { body: '{"period":"week","archive":4}' });
  await world.well("POST", "/boards/weekly/members", { body: members.join("\n") });
  const page = await open("#/boards/weekly");
  await says(page, ".members", "jun");
  // Without a reload the page shows the new leader.
  await world.well("POST", "/boards/weekly/members/hana", { body: '{"score":9999}' });
  await page.waitForFunction(
    () => document.querySelector("[aria-labelledby=top-title] tr th a")?.textContent === "hana",
  );
  await page.reload();
  await says(page, ".members", "hana");
  await picture(page, "[aria-labelledby=top-title]", "board");
});

test("a picture of limits", async () => {
  await world.well("PUT", "/limits/login", { body: '{"limit":5,"window_seconds":60}' });
  await world.well("PUT", "/limits/api", { body: '{"limit":120,"window_seconds":60}' });
  const chance = randomFrom(SEED);
  for (const caller of CALLERS) {
    const checks = caller === "nightly-job" ? 24 : between(chance, 3, 14);
    const path = `/limits/login/${encodeURIComponent(caller)}`;
    for (let check = 0; check < checks; check += 1) await world.call("POST", path);
  }
  const page = await open("#/limits/login?range=hour");
  await says(page, "h1", "login");
  await says(page, "[data-verdict=refused].tile", /Refused[1-9]/);
  await says(page, "#refused-keys li", "nightly-job");
  await picture(page, "#refused-keys", "limits");
});

test("a picture of alerts", async () => {
  const hook = `http://127.0.0.1:${receiver.address().port}/hook`;
  const put = (name, watched) =>
    world.well("PUT", `/alerts/${name}`, { body: JSON.stringify({ ...watched, webhook: hook, secret: SECRET }) });
  await world.add("sales", { delta: 12_345 });
  await put("many-sales", { counter: "sales", when: { value: { above: 10_000 } } });
  await put("big-day", { counter: "sales", when: { value: { above: 50_000 } } });
  await put("login-attacks", { policy: "login", when: { refused_in: { seconds: 600, above: 100 } } });
  await expect.poll(() => requests, { timeout: LOOKED_MS_MAX, interval: 100 }).toEqual(["/hook"]);
  const page = await open("#/alerts");
  await says(page, 'tr[data-id="many-sales"]', "firing");
  await says(page, "[aria-labelledby=deliveries-title] tr", /many-sales.*delivered/);
  await picture(page, "[aria-labelledby=deliveries-title]", "alerts");
});
