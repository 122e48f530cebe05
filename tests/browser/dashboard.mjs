// What the specs of the dashboard share: a world, a door to it, a browser, and pages on views.
import { openWorld } from "../e2e/world.mjs";
import { openBrowser } from "./browser.mjs";
import { openGate } from "./gate.mjs";

/**
 * Opens a world with a browser; with `faults` it is under Miniflare, as nothing reaches into the native server.
 * `open(hash, options)` resolves to a page that shows a view.
 */
export async function openDashboard(options = {}) {
  const world = await openWorld(options.faults ? { platform: "miniflare", ...options } : options);
  const gate = await openGate(await world.url());
  const browser = await openBrowser();
  // A browser logs every answer of 4xx, also those that a page asked for on purpose.
  browser.allow(/the server responded with a status of 40[134]/);
  return {
    world,
    gate,
    browser,
    async open(hash, settings) {
      const page = await browser.page(settings);
      await page.goto(`${gate.url}/dashboard/${hash}`);
      return page;
    },
    async close() {
      await browser.close();
      await gate.close();
      await world.close();
    },
  };
}

/** Resolves once the page's text matches. */
export function says(page, selector, pattern) {
  return page.locator(selector, { hasText: pattern }).first().waitFor();
}
