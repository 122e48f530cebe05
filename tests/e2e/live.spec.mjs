// Live views: what watchers are told, how soon, and what that costs.
import { afterEach, beforeEach, expect, test } from "vitest";
import { watch } from "./live-client.mjs";
import { openWorld } from "./world.mjs";

let world;
beforeEach(async () => {
  world = await openWorld();
});
afterEach(async () => {
  await world?.close();
  world = undefined;
});

test("a stream of server-sent events tells of what is there, what changes, what comes and what goes", async () => {
  await world.add("a", { delta: 5, unique: "ann" });
  const watcher = await watch(world, "/live?id=b&id=a&id=a");
  expect([watcher.status, watcher.headers["content-type"]]).toEqual([200, "text/event-stream"]);
  await watcher.sees("a", (a) => a.value === 5);
  expect(watcher.updates[0].counters).toMatchObject({
    a: { value: 5, rate_per_second: null, uniques: { estimate: 1 }, exact: true, reachable: true },
    b: null,
  });
  expect(watcher.counters.a.datacenters).toMatchObject({ FRA: { value: 5, reachable: true } });
  await world.add("a", { delta: 2 }, { colo: "SYD" });
  await watcher.sees("a", (a) => a.value === 7);
  expect(watcher.counters.a.datacenters).toMatchObject({ FRA: { value: 5 }, SYD: { value: 2 } });
  await world.add("b");
  await watcher.sees("b", (b) => b?.value === 1);
  await world.well("DELETE", "/counters/a");
  await watcher.sees("a", (a) => a === null);
  watcher.close();
});
