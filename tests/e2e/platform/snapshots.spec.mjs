// Snapshots in a bucket of the platform: written, listed, read, restored and deleted through its binding.
import { afterEach, expect, test } from "vitest";
import { each, openWorld, until } from "../world.mjs";

const COUNTERS = 40;
const DAY_MS = 86_400_000;
// Names that the bucket lists at once.
const PAGE = 1_000;
// A run of so many days ago is kept only where it is the first of its month.
const OLD_DAYS = 500;

const worlds = [];
afterEach(async () => {
  for (const world of worlds.splice(0)) await world.close();
});

async function open(logs = false) {
  // In the first hour of a day a snapshot would be made by itself.
  const vars = { TALLY_DATACENTERS: "one", TALLY_SNAPSHOTS: "off" };
  const world = await openWorld({ bucket: true, logs, vars });
  worlds.push(world);
  return { world, bucket: await world.host.bucket() };
}

const pathOf = (id) => `/counters/${encodeURIComponent(id)}`;
const set = (world, id, value) => world.well("PUT", `${pathOf(id)}/value`, { body: JSON.stringify({ value }) });

async function made(world) {
  return until(async () => {
    const { status, json } = await world.call("POST", "/snapshots");
    return status === 200 && json.complete && json;
  }, "a snapshot is made");
}

async function filled(logs) {
  const { world, bucket } = await open(logs);
  const numbers = Array.from({ length: COUNTERS }, (_, number) => number);
  await each(numbers, 8, (number) => set(world, `page/${number}`, number));
  return { world, bucket, first: await made(world) };
}

const namesOf = async (bucket, prefix) => (await bucket.list({ prefix })).objects.map(({ key }) => key);
const bytesOf = async (bucket, name) => Buffer.from(await (await bucket.get(name)).arrayBuffer());

test("a snapshot goes to the bucket, and tells the day after all memory of it is gone", async () => {
  const { world, bucket, first } = await filled(true);
  expect([first.full, first.counters, first.partitions]).toEqual([true, COUNTERS, 16]);
  const names = await namesOf(bucket, "s1/");
  expect(names.filter((name) => name.includes("/runs/")).length).toBe(16);
  expect(names.filter((name) => name.includes("/parts/")).length).toBeGreaterThan(8);

  await set(world, "page/3", 1_003);
  await world.well("DELETE", pathOf("page/4"));
  const { date, full, changed } = await made(world);
  expect([full, changed]).toEqual([false, 2]);
  const { entries: snapshots } = await world.well("GET", "/snapshots");
  expect(snapshots[0]).toMatchObject({ date, complete: true, counters: COUNTERS - 1 });
  // What was read of files before is let go: all comes from the bucket.
  await world.evict();
  expect((await world.well("GET", `${pathOf("page/3")}?on=${date}`)).value).toBe(1_003);
  expect((await world.well("GET", `${pathOf("page/5")}?on=${date}`)).value).toBe(5);
  await world.refused(404, "counter-not-found", "GET", `${pathOf("page/4")}?on=${date}`);
  const listed = await world.well("GET", `/counters?prefix=page%2F&on=${date}&limit=1000`);
  expect(listed.entries.length).toBe(COUNTERS - 1);

  // A part that is gone is said, and nothing is told in its place.
  const [part] = names.filter((name) => name.includes("/parts/"));
  const [, partition] = part.split("/");
  const gone = await namesOf(bucket, `s1/${partition}/parts/`);
  await bucket.delete(gone);
  const answers = await each(listed.entries, 8, ({ id }) => world.call("GET", `${pathOf(id)}?on=${date}`));
  const refused = answers.filter(({ status }) => status !== 200);
  expect(refused.length).toBeGreaterThan(0);
  for (const { status, json } of refused) {
    expect([status, json.detail]).toEqual([503, expect.stringContaining(`s1/${partition}/parts/`)]);
  }
  expect(world.errors.length).toBeGreaterThan(0);
});

const rotated = (word, bits) => (word << bits) | (word >>> (32 - bits));

// XXH32. Source: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
function xxh32(bytes, seed) {
  const [P1, P2, P3, P4, P5] = [2_654_435_761, 2_246_822_519, 3_266_489_917, 668_265_263, 374_761_393];
  let [hash, at] = [seed + P5, 0];
  if (bytes.length >= 16) {
    const lanes = [seed + P1 + P2, seed + P2, seed, seed - P1].map((lane) => lane | 0);
    for (; at + 16 <= bytes.length;) {
      for (let lane = 0; lane < 4; lane++, at += 4) {
        lanes[lane] = Math.imul(rotated((lanes[lane] + Math.imul(bytes.readUInt32LE(at), P2)) | 0, 13), P1);
      }
    }
    hash = [1, 7, 12, 18].reduce((sum, bits, lane) => sum + rotated(lanes[lane], bits), 0);
  }
  hash = (hash + bytes.length) | 0;
  for (; at + 4 <= bytes.length; at += 4) {
    hash = Math.imul(rotated((hash + Math.imul(bytes.readUInt32LE(at), P3)) | 0, 17), P4);
  }
  for (; at < bytes.length; at++) hash = Math.imul(rotated((hash + Math.imul(bytes[at], P5)) | 0, 11), P1);
  hash = Math.imul(hash ^ (hash >>> 15), P2);
  hash = Math.imul(hash ^ (hash >>> 13), P3);
  return (hash ^ (hash >>> 16)) >>> 0;
}

// Version and checksum stand before a body.
const FRAME_BYTES = 6;

function checksumOf(bytes) {
  const sum = Buffer.alloc(4);
  sum.writeUInt32LE(xxh32(bytes.subarray(FRAME_BYTES), 1));
  return sum;
}

/** The manifest of the first run, a full one, as that of a later one of another day: with parts of their own names. */
function manifestOf(first, run, days_ago) {
  const bytes = Buffer.from(first.toString("latin1").replaceAll("/parts/00000001-", `/parts/0000000${run}-`), "latin1");
  // It begins with the run, that before it, of which there is none, and the day: a zigzag number of 3 bytes.
  expect([bytes[FRAME_BYTES], bytes[FRAME_BYTES + 1]]).toEqual([1, 0]);
  bytes[FRAME_BYTES] = run;
  const day = 2 * (Math.floor(Date.now() / DAY_MS) - days_ago);
  bytes.set([(day & 127) | 128, ((day >> 7) & 127) | 128, day >> 14], FRAME_BYTES + 2);
  bytes.set(checksumOf(bytes), 2);
  return bytes;
}

test("an empty deployment takes a bucket over, also of more files than are listed at once, and lets go what is too old", async () => {
  const { world, bucket, first } = await filled();
  const names = await namesOf(bucket, "s1/");
  const [{ entries: counters }] = [await world.well("GET", `/counters?prefix=page%2F&on=${first.date}&limit=1000`)];
  expect(counters.length).toBe(COUNTERS);
  const files = new Map(await each(names, 8, async (name) => [name, await bytesOf(bucket, name)]));
  const part = names.find((name) => name.includes("/parts/00000001-"));
  const folder = part.slice(0, part.indexOf("parts/"));
  const manifest = files.get(`${folder}runs/00000001`);
  expect(checksumOf(manifest)).toEqual(manifest.subarray(2, FRAME_BYTES));
  // Of one partition: a run that is the first of its month, one of the same day that goes, and today's.
  for (const [run, days_ago] of [[1, OLD_DAYS], [2, OLD_DAYS], [3, 0]]) {
    files.set(`${folder}runs/0000000${run}`, manifestOf(manifest, run, days_ago));
    files.set(part.replace("/parts/00000001-", `/parts/0000000${run}-`), files.get(part));
  }
  // They are listed before, and say what the first run says.
  const old = manifestOf(manifest, 1, OLD_DAYS);
  for (let copy = 0; copy < PAGE; copy++) files.set(`${folder}runs/0-${copy}`, old);

  const empty = await open();
  await each([...files], 32, ([name, bytes]) => empty.bucket.put(name, bytes));
  const restored = await empty.world.well("POST", `/snapshots/${first.date}/restore`, { body: "{}" });
  expect([restored.created, restored.rejected]).toEqual([COUNTERS, 0]);
  const next = await made(empty.world);
  expect([next.full, next.counters]).toEqual([true, COUNTERS]);
  const isGone = async () => {
    const left = await namesOf(empty.bucket, `${folder}parts/0000000`);
    return (
      left.every((name) => !name.includes("/parts/00000002-")) &&
      (await empty.bucket.head(`${folder}runs/00000002`)) === null
    );
  };
  await until(isGone, "the run that is too old goes");
  expect(await empty.bucket.head(`${folder}runs/00000001`)).not.toBeNull();
  expect(await empty.bucket.head(`${folder}runs/00000003`)).not.toBeNull();
});
