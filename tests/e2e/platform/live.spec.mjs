// Live views over real sockets: streams, sockets that sleep with their hub, and how they end.
import { afterEach, expect, test } from "vitest";
import { connect, watch } from "../live-client.mjs";
import { openWorld, until } from "../world.mjs";

let world;
const open = async (options) => (world = await openWorld(options));
afterEach(async () => {
  await world?.close();
  world = undefined;
});

test("a stream tells of what is there and what changes, with the headers of a page of another origin", async () => {
  await open();
  await world.add("a", { delta: 5, unique: "ann" });
  const watcher = await watch(world, "/live?id=b&id=a", { headers: { origin: "http://127.0.0.1:3000" } });
  expect([watcher.status, watcher.headers["content-type"]]).toEqual([200, "text/event-stream"]);
  expect(watcher.headers["access-control-allow-origin"]).toBe("*");
  await watcher.sees("a", (a) => a.value === 5);
  expect(watcher.retry_ms).toBe(2_000);
  await world.add("a", { delta: 2 }, { colo: "SYD" });
  await watcher.sees("a", (a) => a.value === 7);
  expect(watcher.counters.b).toBeNull();
  watcher.close();
});

test("a stream whose client does not read gets the newest state when it reads again", async () => {
  await open();
  await world.add("busy");
  const [slow, quick] = [await watch(world, "/live?id=busy"), await watch(world, "/live?id=busy")];
  await slow.sees("busy", (busy) => busy.value === 1);
  slow.response.pause();
  for (let value = 2; value <= 4; value += 1) {
    await world.add("busy");
    await quick.sees("busy", (busy) => busy.value === value);
  }
  slow.response.resume();
  await slow.sees("busy", (busy) => busy.value === 4);
  for (const watcher of [slow, quick]) watcher.close();
});

test("a socket outlives the memory of its hub, with what it watches", async () => {
  await open();
  await world.add("a");
  const watcher = await connect(world, "/live?id=a");
  await watcher.sees("a", (a) => a.value === 1);
  watcher.say({ add: ["b"] });
  await watcher.sees("b", (b) => b === null);
  await world.evict();
  await world.add("b");
  await watcher.sees("b", (b) => b?.value === 1);
  watcher.say("ping");
  await until(() => watcher.pongs === 1, "a pong");
  expect(watcher.isClosed).toBe(false);
  watcher.close();
});

test("a refused stream and a refused socket are answers", async () => {
  await open();
  await world.refused(400, "invalid-query", "GET", "/live");
  await expect(connect(world, "/live?id=")).rejects.toThrow(/400/);
});

test("a close is answered with its code", async () => {
  await open();
  for (const [code, reason, expected] of [
    [1000, "done", [1000, "done"]],
    [3123, "", [3123, ""]],
    [undefined, undefined, [1005, ""]],
  ]) {
    const watcher = await connect(world, "/live?id=a");
    await watcher.sees("a", (a) => a === null);
    watcher.socket.close(code, reason);
    await until(() => watcher.isClosed, "the answer");
    expect([watcher.code, watcher.reason]).toEqual(expected);
  }
});
