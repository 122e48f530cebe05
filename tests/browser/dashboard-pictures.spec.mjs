// Pictures of the dashboard at three widths, of a made-up site. They are written into docs where SCREENSHOTS=1 asks for it.
import { afterAll, beforeAll, expect, test } from "vitest";
import { between, oneOf, randomFrom } from "../crash/random.mjs";
import { screenshot } from "./browser.mjs";
import { openDashboard, says } from "./dashboard.mjs";

const SEED = 8;
const COUNTERS = [
  "blog/hello-world",
  "blog/rust-at-the-edge",
  "shop/checkout",
  "shop/cart",
  "api/v1/search",
  "signups",
  "downloads/tally.tar.gz",
  "docs/getting-started",
];
const COLOS = ["FRA", "IAD", "SYD", "NRT", "GRU", "JNB", "LHR", "SJC"];
const VISITORS = 40_000;
const SAMPLES = 150;
const PICTURES = [
  [1280, 1270, "light", "#/counter/shop%2Fcheckout?range=day"],
  [768, 1330, "dark", "#/counter/shop%2Fcheckout?range=day"],
  [360, 800, "light", "#/"],
];

let dashboard, ended, traffic;
beforeAll(async () => {
  dashboard = await openDashboard();
  const chance = randomFrom(SEED);
  const now = Math.floor(Date.now() / 1000);
  // More by day than by night, at each place by its own sun, and no two counters alike.
  const busy = (second, place, counter) =>
    (1.15 + Math.sin((second / 86_400 + place / 8) * 2 * Math.PI)) *
    (0.55 + chance()) *
    (1 + Math.sin(second / (400 + 90 * counter)) / 3);
  for (const [place, colo] of COLOS.entries()) {
    const lines = COUNTERS.flatMap((key, counter) => {
      const weight = (COUNTERS.length - counter) / (1.5 + place);
      const line = (ago_s, amount) =>
        JSON.stringify({
          key,
          increment: Math.max(1, Math.round(amount)),
          at: (now - ago_s) * 1000,
          unique: `v${between(chance, 1, VISITORS)}`,
        });
      const minutes = Array.from({ length: 460 }, (_, step) => 3_600 + step * 180).map((ago_s) =>
        line(ago_s, weight * 6 * busy(now - ago_s, place, counter)),
      );
      const recent = Array.from({ length: 60 }, (_, step) => step * 60 + 5).map((ago_s) =>
        line(ago_s, weight * 2 * busy(now - ago_s, place, counter)),
      );
      return [...minutes, ...recent];
    });
    await dashboard.world.well("POST", "/ingest?format=ndjson", { body: lines.join("\n"), colo });
  }
  // While pictures are taken it goes on, with samples.
  const write = () => {
    const counter = Math.floor(chance() ** 1.5 * COUNTERS.length);
    const body = { unique: `v${between(chance, 1, VISITORS)}`, sample: Math.round(80 / (0.06 + chance())) / 10 };
    return dashboard.world.add(COUNTERS[counter], body, { colo: oneOf(chance, COLOS) });
  };
  for (let sample = 0; sample < SAMPLES; sample += 5) await Promise.all([write(), write(), write(), write(), write()]);
  traffic = (async () => {
    while (!ended) {
      await Promise.all([write(), write(), write()]);
      await new Promise((done) => setTimeout(done, 60));
    }
  })();
}, 120_000);
afterAll(async () => {
  ended = true;
  await traffic;
  await dashboard?.close();
});

for (const [width, height, colorScheme, hash] of PICTURES) {
  test(`a picture ${width} pixels wide`, async () => {
    const page = await dashboard.open(hash, { viewport: { width, height }, colorScheme });
    await says(page, "#connection", /^live/);
    // The line that is asked for last.
    await page.waitForFunction(
      () => document.querySelector(".spread:not([hidden]) .number, li:last-child .spark .line[d^=M]") !== null,
    );
    await says(page, ".fact, .row .rate", /^[1-9].* \/s/);
    const picture = await screenshot(page, `docs/dashboard-${width}.png`);
    expect(picture.readUInt32BE(16)).toBe(width);
  });
}
