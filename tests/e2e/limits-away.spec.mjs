// What is answered where limiters, or the directory with the policies, cannot be reached.
import { afterEach, beforeEach, expect, test } from "vitest";
import { numbers } from "./calls.mjs";
import { body, check, items, peek, put } from "./limiting.mjs";
import { openWorld, until } from "./world.mjs";

let world;
afterEach(() => world.close());
beforeEach(async () => {
  world = await openWorld({ faults: true });
});
const isLimiter = (of) => ({ kind, name }) => (kind === "limiter" && name.startsWith(of) ? "before" : undefined);

test("the policy's on_error decides, and a header says so", async () => {
  await put(world, "open", { limit: 5, window_seconds: 60 });
  await put(world, "closed", { limit: 5, window_seconds: 60, on_error: "closed" });
  world.fail(isLimiter("l1/"));
  const open = await check(world, "open", "a");
  expect([open.status, open.headers.get("tally-on-error")]).toEqual([200, "open"]);
  expect(open.json).toMatchObject({ allowed: true, degraded: true, remaining: null });
  expect(items(open, "ratelimit-policy")).toEqual([["open", { q: 5, w: 60 }]]);
  const closed = await check(world, "closed", "a");
  expect([closed.status, closed.json.code, closed.headers.get("tally-on-error")]).toEqual([
    503, "limiter-unavailable", "closed",
  ]);
  expect(closed.headers.get("retry-after")).toBe("1");
  // One that only watches refuses nobody, whatever it says.
  const watched = await check(world, "watched", "a", {
    limit: 5, window_seconds: 60, on_error: "closed", shadow: true,
  });
  expect([watched.status, watched.headers.get("tally-on-error")]).toEqual([200, "open"]);
  for (const method of ["GET", "DELETE"]) await world.refused(503, "limiter-unavailable", method, "/limits/open/a");
  const two = { checks: [{ policy: "open", key: "a" }, { policy: "closed", key: "b" }] };
  const both = await world.refused(503, "limiter-unavailable", "POST", "/limits", body(two));
  expect(both.headers.get("tally-on-error")).toBe("closed");
  world.mend();
  expect(await peek(world, "open", "a")).toMatchObject({ remaining: 5 });
  const again = await check(world, "closed", "a");
  expect(again.json).toMatchObject({ remaining: 4 });
  // A client knows it while nothing answers.
  expect(again.headers.get("ratelimit-policy")).toBe('"closed";q=5;w=60;tally-on-error=closed');
});

test("a key that was refused is refused from memory, without a call, for a second at most", async () => {
  const policy = { limit: 1, window_seconds: 60 };
  expect((await check(world, "p", "a", policy)).status).toBe(200);
  expect((await check(world, "p", "a", policy)).status).toBe(429);
  let calls = 0;
  world.fail(({ kind }) => {
    calls += kind === "limiter" ? 1 : 0;
    return kind === "limiter" ? "before" : undefined;
  });
  const begun = world.now();
  const refused = await check(world, "p", "a", policy);
  // On a machine that took a second for this the memory is over.
  if (world.now() - begun < 500) expect([refused.status, calls]).toEqual([429, 0]);
  expect((await check(world, "p", "b", policy)).headers.get("tally-on-error"), "another key").toBe("open");
  // Then the limiter is asked again, and is not there.
  await until(
    async () => (await check(world, "p", "a", policy)).headers.get("tally-on-error") === "open", "the end of it",
  );
  expect(world.now() - begun).toBeLessThan(10_000);
});

test("what was reserved elsewhere is given back", async () => {
  const policy = { limit: 5, window_seconds: 60, on_error: "closed" };
  await put(world, "p", policy);
  // Keys of several limiters.
  const keys = numbers(16).map((index) => `k${index}`);
  const checks = keys.map((key) => ({ policy: "p", key }));
  const lost = ({ kind, name, path }) =>
    kind === "limiter" && name.endsWith("/3") && path === "/limit-reserve" ? "after" : undefined;
  world.fail(lost);
  await world.refused(503, "limiter-unavailable", "POST", "/limits", body({ checks }));
  world.mend();
  for (const key of keys) expect(await peek(world, "p", key), key).toMatchObject({ remaining: 5 });
});

test("a datacenter that is cut off from the world admits what it holds, and refuses then, whatever its policy says for errors", async () => {
  const policy = { limit: 1_000, window_seconds: 600, scope: "global" };
  for (const [key, on_error] of [["closed", undefined], ["open", "open"]]) {
    expect((await put(world, key, { ...policy, on_error })).on_error, "closed where nothing is said").toBe(key);
    for (const _ of numbers(5)) expect((await check(world, key, "k")).status).toBe(200);
    world.fail(isLimiter("g1/"));
    let admitted = 0;
    const refused = await until(async () => {
      const answer = await check(world, key, "k");
      if (answer.status === 200) admitted += 1;
      return answer.status === 200 ? undefined : answer;
    }, "the end of what it holds");
    expect([refused.status, refused.json.remaining, refused.headers.get("tally-on-error")]).toEqual([
      429, refused.json.remaining, null,
    ]);
    expect([refused.json.retry_after_ms > 0, refused.json.retry_after_ms <= 1_000], refused.text).toEqual([true, true]);
    expect(admitted, "a small part").toBeLessThan(200);
    // Where nothing was ever lent nobody can tell.
    const fresh = await check(world, key, "fresh");
    expect([fresh.status, fresh.headers.get("tally-on-error")]).toEqual([key === "open" ? 200 : 503, key]);
    world.mend();
    await until(async () => (await check(world, key, "k")).status === 200, "the world");
  }
});

test("a policy that cannot be read again is used as it was", async () => {
  await put(world, "p", { limit: 5, window_seconds: 60 });
  world.fail(({ kind }) => (kind === "directory" ? "before" : undefined));
  expect((await check(world, "p", "a")).json).toMatchObject({ remaining: 4 });
  await world.refused(503, "unavailable", "POST", "/limits/unknown/a");
});
