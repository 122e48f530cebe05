// The dashboard in zones whose days begin within an hour of UTC, and on a day whose clock is set back.
import { afterAll, beforeAll, expect, test } from "vitest";
import { openDashboard, says } from "./dashboard.mjs";

const HOUR_MS = 3_600_000;
const ID = "zoned";
// Clocks of London were set back on this day of 25 hours.
const SET_BACK = Date.parse("2026-10-25T00:00Z");

let dashboard;
beforeAll(async () => {
  dashboard = await openDashboard();
  const now_ms = Date.now();
  const recent = Array.from({ length: 24 * 4 }, (_, hour) => now_ms - hour * HOUR_MS);
  const hours = [...recent, ...Array.from({ length: 24 * 3 }, (_, hour) => SET_BACK + (hour - 24) * HOUR_MS)];
  const body = hours.map((at) => JSON.stringify({ id: ID, at: (at - (at % HOUR_MS)) / 1_000 })).join("\n");
  const { accepted } = await dashboard.world.well("POST", "/ingest?format=ndjson", { body });
  expect(accepted).toBe(hours.length);
});
afterAll(() => dashboard?.close());

// The rows of the chart's table, the oldest first: `[label, count]`.
async function rowsOf(range, timezoneId) {
  const page = await dashboard.open(`#/counter/${ID}?range=${range}`, { timezoneId });
  await says(page, ".readout", /counted/);
  const rows = page.locator(".chart .numbers tbody tr");
  const cells = await rows.evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
  await page.context().close();
  return cells.reverse();
}

test("a day in a zone of half or quarter hours begins with its first full hour, and with no zero", async () => {
  for (const [zone, clock] of [["Asia/Kolkata", "00:30"], ["Asia/Kathmandu", "00:45"], ["UTC", "00:00"]]) {
    const rows = await rowsOf("yesterday", zone);
    expect([rows.length, rows[0][0].split(", ")[1]], zone).toEqual([24, clock]);
    expect(rows.filter(([, count]) => count !== "1"), zone).toEqual([]);
  }
});

test("the hour that comes twice has two labels", async () => {
  const rows = await rowsOf("2026-10-25..2026-10-25", "Europe/London");
  const labels = rows.map(([label]) => label.split(", ")[1]);
  expect(labels.slice(0, 4)).toEqual(["00:00", "01:00 BST", "01:00 GMT", "02:00"]);
  expect([labels.length, new Set(labels).size]).toEqual([25, 25]);
  expect(rows.filter(([, count]) => count !== "1")).toEqual([]);
});
