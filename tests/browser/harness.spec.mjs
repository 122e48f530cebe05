// The harness itself: a real browser shows a page, its faults are found, and Tally answers it across origins.
import { afterAll, beforeAll, expect, test } from "vitest";
import { openWorld } from "../e2e/world.mjs";
import { axeFaults, openBrowser, openSite, screenshot } from "./browser.mjs";

let world, browser, site;
const page = (body) => `<!doctype html><html lang="en"><head><title>A page</title></head><body><main><h1>A page</h1>${body}</main></body></html>`;

beforeAll(async () => {
  world = await openWorld();
  browser = await openBrowser();
  site = await openSite({
    "/": page("<p>Well made.</p>"),
    "/bad": page('<p style="color:#ccc;background:#fff">Hard to read.</p><input>'),
  });
});
afterAll(async () => {
  await browser?.close();
  await site?.close();
  await world?.close();
});

test("a page of another origin counts by a fetch", async () => {
  const tally = await world.url();
  const opened = await browser.page();
  await opened.goto(`${site.url}/`);
  const answer = await opened.evaluate(
    async (url) => (await fetch(url, { method: "POST" })).json(),
    `${tally.origin}/counters/harness/increment`,
  );
  expect(answer.value).toBe(1);
  expect((await world.strong("harness")).value).toBe(1);
});

test("axe-core finds nothing on a well-made page, and names what is wrong with another", async () => {
  const opened = await browser.page();
  await opened.goto(`${site.url}/`);
  expect(await axeFaults(opened)).toEqual([]);
  await opened.goto(`${site.url}/bad`);
  const found = (await axeFaults(opened)).map((fault) => fault.split(" ")[0]);
  expect(found).toContain("color-contrast");
  expect(found).toContain("label");
});

test("a picture of a page is a PNG", async () => {
  const opened = await browser.page({ viewport: { width: 360, height: 640 } });
  await opened.goto(`${site.url}/`);
  const picture = await screenshot(opened, "docs/harness.png");
  expect([...picture.subarray(1, 4)]).toEqual([..."PNG"].map((letter) => letter.charCodeAt(0)));
  expect(picture.readUInt32BE(16)).toBe(360);
});
