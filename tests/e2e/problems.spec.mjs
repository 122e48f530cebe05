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

test("each code of the description has a page, in both forms, with its status and what to do", async () => {
  const api = await world.well("GET", "/openapi.json");
  const codes = api.components.schemas.Code.enum;
  expect(codes.length).toBeGreaterThan(60);
  for (const code of codes) {
    const page = await world.well("GET", `/problems/${code}`);
    expect(page, code).toEqual({
      code, status: expect.any(Number), title: expect.stringMatching(/./), remedy: expect.stringMatching(/./),
    });
    expect(page.status, code).toBeGreaterThan(399);
    const html = await world.call("GET", `/problems/${code}`, { headers: { accept: "text/html" } });
    expect(html.text, code).toContain(`<h1>${code}</h1>`);
  }
});

test("a request that no call answers is a problem with an id", async () => {
  for (const [method, path, status, code] of [
    ["GET", "/nowhere", 404, "not-found"], ["GET", `/counters/${"a".repeat(600)}`, 400, "invalid-id"],
    ["GET", "/counters/%FF", 400, "invalid-id"], ["PATCH", "/counters/a", 405, "method-not-allowed"],
    ["POST", "/healthz", 405, "method-not-allowed"], ["GET", "/counters?nonsense=1", 400, "invalid-query"],
    ["GET", "/counters/a/b/c/d/e", 404, "not-found"], ["DELETE", "/", 405, "method-not-allowed"],
  ]) {
    const { status: answered, json, headers } = await world.call(method, path);
    expect([answered, json?.code, json?.type], `${method} ${path}`).toEqual([status, code, `/problems/${code}`]);
    expect(headers.get("request-id"), `${method} ${path}`).toMatch(/^\S+$/);
    expect(headers.get("content-type"), `${method} ${path}`).toBe("application/problem+json");
  }
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
