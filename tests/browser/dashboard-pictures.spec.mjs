// Pictures of the dashboard in light and dark at two widths, of a made-up site. They are written into docs where
// SCREENSHOTS=1 asks for it.
import { afterAll, beforeAll, expect, test } from "vitest";
import { between, oneOf, randomFrom } from "../crash/random.mjs";
import { screenshot } from "./browser.mjs";
import { openDashboard, says } from "./dashboard.mjs";

const SEED = 8;
const HOUR_S = 3_600;
const DAYS = 15;
const PAGES = [
  "/blog/hello-world", "/blog/rust-at-the-edge", "/shop/checkout", "/shop/cart", "/docs/getting-started",
  "/downloads/tally.tar.gz", "/", "/about",
];
const COLOS = ["FRA", "IAD", "SYD", "NRT"];
const BY = {
  referrer: ["news.ycombinator.com", "duckduckgo.com", "lobste.rs", "github.com", "google.com", undefined],
  country: ["US", "DE", "GB", "FR", "JP", "BR", "IN", "AU", "ZA", "CA"],
  device: ["desktop", "phone", "tablet"],
  browser: ["Chrome", "Firefox", "Safari", "Edge", "Samsung Internet"],
};
const VISITORS = 40_000;
const SAMPLES = 60;
// Less than what lies between panels.
const MARGIN = 10;
// How wide, and with which panel a picture ends.
const SIZES = [
  [1280, "#by-browser"],
  [390, "#by-referrer"],
];
// Those of the overview are kept in docs.
const VIEWS = [
  ["overview", "#/?range=week", "docs/dashboard"],
  ["counter", "#/counter/%2Fshop%2Fcheckout?range=week", "build/dashboard-counter"],
];
const PICTURES = VIEWS.flatMap((view) =>
  SIZES.flatMap((size) => ["light", "dark"].map((scheme) => [...view, ...size, scheme])),
);

/** One of a list, the first ones more often. */
const likely = (chance, list) => list[Math.floor(chance() ** 2.2 * list.length)];

let dashboard;
beforeAll(async () => {
  dashboard = await openDashboard();
  const chance = randomFrom(SEED);
  const now_s = Math.floor(Date.now() / 1000);
  // More by day than by night, at each place by its own sun, and a little more each week.
  const busy = (second, place) =>
    (1.15 + Math.sin((second / 86_400 + place / 4) * 2 * Math.PI)) *
    (0.55 + chance()) *
    (1 - (now_s - second) / 3_500_000);
  for (const [place, colo] of COLOS.entries()) {
    const lines = PAGES.flatMap((key, page) =>
      Array.from({ length: DAYS * 24 }, (_, hour) => {
        const second = now_s - 60 - hour * HOUR_S;
        const by = Object.fromEntries(Object.entries(BY).map(([name, values]) => [name, likely(chance, values)]));
        const increment = Math.max(1, Math.round((PAGES.length - page) * 9 * busy(second, place)));
        const unique = `v${between(chance, 1, VISITORS)}`;
        return JSON.stringify({ id: key, delta: increment, at: second, unique, by });
      }),
    );
    await dashboard.world.well("POST", "/ingest?format=ndjson", { body: lines.join("\n"), colo });
  }
  const write = () =>
    dashboard.world.add(
      "/shop/checkout", { unique: `v${between(chance, 1, VISITORS)}`, sample: Math.round(80 / (0.06 + chance())) / 10 },
      { colo: oneOf(chance, COLOS) },
    );
  for (let sample = 0; sample < SAMPLES; sample += 5) await Promise.all([write(), write(), write(), write(), write()]);
}, 120_000);
afterAll(() => dashboard?.close());

for (const [view, hash, path, width, last, colorScheme] of PICTURES) {
  test(`a picture of the ${view}, ${width} pixels wide, ${colorScheme}`, async () => {
    const page = await dashboard.open(hash, { viewport: { width, height: 1_000 }, colorScheme });
    await says(page, "#headline", /^[1-9]/);
    await says(page, ".compare", /(against|as many as) (the same part of )?the 7 days before/);
    // What is asked for last.
    await says(page, "#by-browser .change", /%$/);
    await page.waitForFunction(() => document.querySelector("#by-country circle") !== null);
    const bottom = await page.evaluate(
      (selector) => document.querySelector(selector).getBoundingClientRect().bottom + scrollY, last,
    );
    await page.setViewportSize({ width, height: Math.ceil(bottom) + MARGIN });
    const picture = await screenshot(page, `${path}-${width}-${colorScheme}.png`);
    expect(picture.readUInt32BE(16)).toBe(width);
  });
}
