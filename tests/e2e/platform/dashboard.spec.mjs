// The files that are served as they stand: on Miniflare and on the native server the same bytes with the same tags.
import { afterAll, beforeAll, expect, test } from "vitest";
import { dashboardFiles, etagOf, servedFiles } from "../../../scripts/dashboard.mjs";
import { openWorld } from "../world.mjs";

let world, url;
beforeAll(async () => {
  // Files need no key, not even where nothing is configured. The native server does not start then.
  const keys = JSON.stringify({ keys: [{ key: "0123456789abcdef".repeat(3), scopes: ["admin"] }] });
  const more = process.env.PLATFORM === "server" ? { TALLY_KEYS: keys } : {};
  world = await openWorld({ vars: { TALLY_ACCESS: undefined, ...more } });
  url = (await world.url()).origin;
});
afterAll(() => world?.close());

const TYPES = { html: "text/html", css: "text/css", js: "text/javascript", svg: "image/svg+xml" };

test("every file is served as it stands, with its type, a tag and a policy", async () => {
  for (const [name, text] of dashboardFiles()) {
    const answer = await fetch(`${url}/dashboard/${name}`);
    expect([name, answer.status, await answer.text()]).toEqual([name, 200, text]);
    expect(answer.headers.get("content-type")).toBe(
      `${TYPES[name.split(".").at(-1)]}${name.endsWith("svg") ? "" : "; charset=utf-8"}`,
    );
    expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
    expect(answer.headers.get("cache-control")).toBe("private, no-cache");
    expect(answer.headers.get("content-security-policy")).toMatch(/^default-src 'self';.*frame-ancestors 'none'$/);
    expect(answer.headers.get("content-security-policy")).not.toMatch(/unsafe/);
    expect(answer.headers.get("etag")).toBe(etagOf(text));
    const again = await fetch(`${url}/dashboard/${name}`, { headers: { "if-none-match": answer.headers.get("etag") } });
    expect([again.status, await again.text()]).toEqual([304, ""]);
  }
});

test("the folder leads to the page, and what is no file is a problem", async () => {
  const moved = await fetch(`${url}/dashboard`, { redirect: "manual" });
  expect([moved.status, moved.headers.get("location")]).toEqual([308, "/dashboard/"]);
  const page = await fetch(`${url}/dashboard/`);
  expect(await page.text()).toBe(dashboardFiles().get("index.html"));
  for (const path of ["nothing.js", "../scripts/build.sh", "a/b", "constructor", "__proto__", "index.html/"]) {
    const answer = await fetch(`${url}/dashboard/${encodeURIComponent(path)}`);
    expect([path, answer.status, (await answer.json()).code]).toEqual([path, 404, "not-found"]);
  }
  expect((await fetch(`${url}/dashboard/`, { method: "HEAD" })).status).toBe(200);
  const posted = await fetch(`${url}/dashboard/`, { method: "POST", body: "x" });
  expect([posted.status, posted.headers.get("allow")]).toEqual([405, "GET, HEAD, OPTIONS"]);
});

test("the front leads a browser to the dashboard, and tells others where things are", async () => {
  const browser = await fetch(`${url}/`, {
    redirect: "manual", headers: { accept: "text/html,application/xhtml+xml,*/*;q=0.8" },
  });
  expect([browser.status, browser.headers.get("location")]).toEqual([303, "/dashboard/"]);
  const other = await fetch(`${url}/`);
  expect([other.status, other.headers.get("content-type")]).toEqual([200, "application/json"]);
  expect(other.headers.get("vary")).toMatch(/Accept/);
  const { service, dashboard, description, health } = await other.json();
  expect(service).toBe("tally");
  expect((await fetch(`${url}${dashboard}`)).headers.get("content-type")).toMatch(/html/);
  expect((await (await fetch(`${url}${description}`)).json()).openapi).toMatch(/^3/);
  expect((await fetch(`${url}${health}`)).status).toBe(200);
  expect((await fetch(`${url}/`, { method: "POST" })).status).toBe(405);
});

test("the API's description is served as it stands, and is no file of the dashboard", async () => {
  const answer = await fetch(`${url}/openapi.json`);
  expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "application/json"]);
  expect(await answer.text()).toBe(servedFiles().get("openapi.json"));
  expect((await fetch(`${url}/dashboard/openapi.json`)).status).toBe(404);
});

test("the script for pages is served as it was built", async () => {
  const answer = await fetch(`${url}/tally.js`);
  const script = servedFiles().get("tally.js");
  expect([answer.status, await answer.text()]).toEqual([200, script]);
  expect(answer.headers.get("etag")).toBe(etagOf(script));
});
