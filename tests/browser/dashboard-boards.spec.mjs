// Boards on the dashboard: their names, the first members as scores change, where a member stands, and ended periods.
import { afterAll, beforeAll, expect, test } from "vitest";
import { openDashboard, says } from "./dashboard.mjs";

const MEMBERS = 40;

let dashboard, world;
beforeAll(async () => {
  dashboard = await openDashboard();
  world = dashboard.world;
  const lines = Array.from({ length: MEMBERS }, (_, number) =>
    JSON.stringify({ member: `m${number}`, score: number + 0.125 }),
  );
  await world.well("POST", "/boards/race/members", { body: lines.join("\n") });
  await world.well("POST", "/boards/race/members/ann", {
    body: '{"score":12345.0625,"metadata":{"car":"<b>red</b>"}}',
  });
  await world.well("PUT", "/boards/weekly", { body: '{"order":"asc","period":"week","archive":2}' });
});
afterAll(() => dashboard?.close());

const names = (page) => page.locator("[aria-labelledby=top-title] tr th a").allTextContents();

test("boards are listed with what they are, found by the search box, and lead to their members", async () => {
  const page = await dashboard.open("#/boards");
  await says(page, "tr[data-board=race]", /race.*41.*highest first/);
  await says(page, "tr[data-board=weekly]", /weekly.*0.*lowest first.*week/);
  await page.fill("#find-id", "ra");
  await says(page, "#find-list li", /race.*board/);
  await page.click("tr[data-board=race] a");
  await says(page, "h1", /^race$/);
  await says(page, ".members", "ann");
  expect((await names(page)).slice(0, 3)).toEqual(["ann", "m39", "m38"]);
  // All digits of a score, and text as text.
  await says(page, "tr[data-member=ann]", /12,345\.0625.*<b>red<\/b>/);
  await says(page, ".panel", "41 members in all");
  const none = await dashboard.open("#/boards?prefix=zzz");
  await says(none, ".notice", "No board has a name that begins so");
});

test("the first members follow new scores without a reload", async () => {
  const page = await dashboard.open("#/boards/race");
  await says(page, ".members", "ann");
  await world.well("POST", "/boards/race/members/eve", { body: '{"score":99999}' });
  await page.waitForFunction(
    () => document.querySelector("[aria-labelledby=top-title] tr th a")?.textContent === "eve",
  );
  await world.well("DELETE", "/boards/race/members/eve");
});

test("a member is found with its rank and its neighbours, also at an end, and who is not there is told so", async () => {
  const page = await dashboard.open("#/boards/race");
  await page.fill("#member", "m20");
  await page.click('text="Find"');
  await says(page, "#stands", /20\.125 points\. Rank 21 of 41/);
  expect(page.url()).toContain("member=m20");
  const around = page.locator("[aria-labelledby=member-title] tr th a");
  expect(await around.allTextContents()).toEqual(["m23", "m22", "m21", "m20", "m19", "m18", "m17"]);
  expect(await page.locator("[aria-labelledby=member-title] tr[aria-current] th").textContent()).toBe("m20");
  const last = await dashboard.open("#/boards/race?member=m0");
  await says(last, "#stands", /Rank 41 of 41/);
  const none = await dashboard.open("#/boards/race?member=nobody");
  await says(none, "[aria-labelledby=member-title]", "nobody is not on this board");
});

test("a board with periods shows the one that is under way, and no board says so", async () => {
  const page = await dashboard.open("#/boards/weekly");
  await says(page, ".title .sub", /0 members · lowest first.*begins anew each week, UTC/);
  await says(page, ".tabs [aria-current]", "Now");
  await says(page, ".panel", "Nobody has a score here");
  const none = await dashboard.open("#/boards/none");
  await says(none, ".notice", "There is no such board");
});
