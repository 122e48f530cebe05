// Live views of what cannot be reached, and of what rests.
import { afterEach, expect, test } from "vitest";
import { connect, watch } from "./live-client.mjs";
import { openWorld, until } from "./world.mjs";

let world;
const open = async (options) => (world = await openWorld(options));
afterEach(async () => {
  await world?.close();
  world = undefined;
});

test("what cannot be reached is said to be so, and holds up nothing else", async () => {
  await open({ faults: true });
  const colos = ["FRA", "IAD", "SYD"];
  for (const colo of colos) await world.add("a", { delta: 10 }, { colo });
  const watcher = await watch(world, "/live?id=a");
  await watcher.sees("a", (a) => a.value === 30);
  // What is cut off before it has pushed is not known at all.
  await until(async () => {
    const { explain } = await world.read("a", "?explain=1");
    return explain.datacenters.every(({ origin }) => origin === "pushed");
  }, "leads that push");
  const failing = (fits) => world.fail((call) => (fits(call) ? "hang" : undefined));
  failing(({ kind, name, path }) => (kind === "cell" && name.includes("/IAD/")) || path === "/push");
  const isAway = ({ datacenters }) => !datacenters.IAD.reachable && datacenters.FRA.reachable;
  await watcher.sees("a", isAway, "a datacenter that is away");
  expect(watcher.counters.a).toMatchObject({ exact: false, reachable: true });
  expect(watcher.counters.a.datacenters.IAD.value).toBe(10);
  expect(watcher.counters.a.as_of).toBe(watcher.counters.a.datacenters.IAD.as_of);
  const times_ms = [];
  for (let value = 31; value <= 34; value++) {
    const began_ms = world.now();
    await world.add("a", undefined, { colo: "FRA" });
    await watcher.sees("a", (a) => a.value === value && isAway(a));
    times_ms.push(Math.round(world.now() - began_ms));
  }
  console.log(`beside a datacenter that hangs, increments arrive after ${times_ms.join(", ")} ms`);
  // It is waited for 0.35 s, and not for 3 s with each read.
  expect(Math.min(...times_ms)).toBeLessThan(2_500);
  world.mend();
  await watcher.sees("a", ({ datacenters }) => datacenters.IAD.reachable, "a datacenter that is back");
  // Its root away: what is known stays, and is not called exact.
  failing(({ kind }) => kind === "directory");
  await watcher.sees("a", ({ reachable }) => !reachable, "a counter that cannot be read");
  expect(watcher.counters.a).toMatchObject({ value: 34, exact: false });
  const late = await connect(world, "/live?id=b");
  await late.sees("b", (b) => !b.reachable);
  expect(late.counters.b).toMatchObject({ value: null, uniques: null, as_of: null, staleness_ms: null });
  world.mend();
  await watcher.sees("a", ({ reachable }) => reachable, "a counter that can be read again");
  await late.sees("b", (b) => b === null);
  // Its live reader away.
  failing(({ path }) => path === "/look");
  await watcher.sees("a", ({ reachable }) => !reachable, "a live reader that is silent");
  world.mend();
  await watcher.sees("a", ({ reachable }) => reachable, "a live reader that answers");
  for (const one of [watcher, late]) one.close();
  // And the hub.
  world.fail(({ path }) => (path === "/live-join" ? "before" : undefined));
  await world.refused(503, "unavailable", "GET", "/live?id=a");
  world.mend();
});

test("where nothing changes a ping is all that is sent, and who is slow gets the newest state", async () => {
  await open();
  await world.add("quiet");
  await world.add("busy");
  const [events, socket] = [await watch(world, "/live?id=quiet"), await connect(world, "/live?id=quiet")];
  for (const watcher of [events, socket]) await watcher.sees("quiet", (quiet) => quiet.rate_per_second !== null);
  const slow = await watch(world, "/live?id=busy");
  const quick = await watch(world, "/live?id=busy");
  await slow.sees("busy", (busy) => busy.value === 1);
  slow.response.pause();
  let value = 1;
  await until(async () => {
    await world.add("busy");
    value += 1;
    await quick.sees("busy", (busy) => busy.value === value);
    return [events, socket].every(({ messages }) => messages.at(-1).type === "ping");
  }, "a ping", 40_000);
  for (const { messages } of [events, socket]) {
    const [last, ping] = messages.slice(-2);
    expect(last.type).toBe("update");
    // After 15 s, with the next second; a busy machine may be late with it.
    expect(ping.sent_at - last.sent_at).toBeGreaterThanOrEqual(14_900);
    expect(ping.sent_at - last.sent_at).toBeLessThan(20_000);
  }
  slow.response.resume();
  await slow.sees("busy", (busy) => busy.value === value);
  console.log(`slow: ${slow.updates.length} updates, quick: ${quick.updates.length}`);
  for (const watcher of [events, socket, slow, quick]) watcher.close();
});
