// Every problem leads to a page about its code, and every answer has an id that the log names.
import { afterEach, beforeEach, expect, test } from "vitest";
import { openWorld } from "./world.mjs";

let world;
beforeEach(async () => {
  world = await openWorld();
});
afterEach(() => world.close());

test("the type of a problem leads to a page that says what to do, as JSON and as HTML", async () => {
  const { json } = await world.call("GET", "/counters/nobody-counts-this");
  expect(json.type).toBe("/problems/counter-not-found");
  expect(await world.well("GET", json.type)).toEqual({
    code: "counter-not-found", status: 404, title: "There is no such counter", remedy: "Write to the counter first",
  });
  const page = await world.call("GET", json.type, { headers: { accept: "text/html,*/*;q=0.8" } });
  expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
  expect(page.text).toContain("<h1>counter-not-found</h1>");
  expect(page.text).toContain("Write to the counter first");
  await world.refused(404, "not-found", "GET", "/problems/%3Cscript%3E");
});

test("each answer has an id of its own", async () => {
  const ids = [];
  for (const path of ["/healthz", "/healthz", "/nowhere", "/counters/%FF"]) {
    ids.push((await world.call("GET", path)).headers.get("request-id"));
  }
  const redis = await world.call("POST", "/redis", { body: '["PING"]' });
  const preflight = await world.call("OPTIONS", "/counters");
  ids.push(redis.headers.get("request-id"), preflight.headers.get("request-id"));
  expect(new Set(ids).size).toBe(ids.length);
});
