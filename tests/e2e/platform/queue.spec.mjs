// A queue of the platform: its binding, its producer, what its consumer acknowledges and what comes again.
import { afterEach, expect, test } from "vitest";
import { QUEUE, letters, reaches, send, valueOf } from "../queueing.mjs";
import { openWorld, until } from "../world.mjs";

let world;
afterEach(() => world.close());

test("takes events of isolates and datacenters, and each is counted once, though batches come again", async () => {
  world = await openWorld({ queue: { ...QUEUE, retryDelay: 0 }, faults: true, edges: 2 });
  let batches = 0;
  world.fail(({ kind }) => (kind === "queue" && batches++ < 2 ? ["before", "after"][batches - 1] : undefined));
  for (let index = 0; index < 12; index += 1) {
    const answer = await send(world, "a", 2, { colo: ["FRA", "IAD", "SYD"][index % 3], edge: index % 2 });
    expect(answer.json).toEqual({ status: "queued", key: "a", increment: 2 });
  }
  await reaches(world, "a", 24);
  await until(async () => {
    await send(world, "b", 1);
    return batches > 2;
  }, "batches that came again");
  expect(await valueOf(world, "a")).toBe(24);
  expect(await world.objects("Inbox"), "no inbox was needed").toEqual([]);
});

test("delivers what nobody can read: dead letters, and the rest counts", async () => {
  world = await openWorld({ queue: QUEUE });
  const producer = await world.producer();
  await producer.sendBatch([
    { body: new Uint8Array([9, 9, 9]), contentType: "bytes" },
    { body: new Uint8Array(2_000), contentType: "bytes" },
    { body: { length: 1e9 }, contentType: "json" },
    { body: "5", contentType: "text" },
    { body: null, contentType: "v8" },
  ]);
  await Promise.all([send(world, "b", 2), send(world, "b", 3)]);
  await reaches(world, "b", 5);
  const dead = await until(async () => {
    const found = await letters(world);
    return found.length === 5 && found;
  }, "five dead letters");
  expect(dead.filter(({ code }) => code === "internal").map(({ id }) => id)).toEqual(["", "", "", "", ""]);
  await world.evict();
  expect((await letters(world)).length).toBe(5);
});
