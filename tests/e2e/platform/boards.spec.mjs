// Boards as they are deployed: their rows and their order in the platform's SQLite, and their alarm.
import { afterAll, beforeAll, expect, test } from "vitest";
import { openWorld, until } from "../world.mjs";

let world;
beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());

test("members are ranked across segments", async () => {
  const line = (_, index) => `{"member":"m${index}","score":${(index * 7919) % 2_000}}`;
  const body = Array.from({ length: 2_500 }, line).join("\n");
  const sent = await world.well("POST", "/boards/b/members", { body, headers: { "Idempotency-Key": "all" } });
  expect(sent).toMatchObject({ accepted: 2_500, total: 2_500 });
  const all = Array.from({ length: 2_500 }, line).map((text) => JSON.parse(text));
  all.sort((one, other) => other.score - one.score || (one.member < other.member ? 1 : -1));
  const check = async () => {
    for (const place of [0, 3, 1_249, 2_498, 2_499]) {
      const { member, score } = all[place];
      expect(await world.well("GET", `/boards/b/members/${member}`)).toMatchObject({
        score, rank: place + 1, total: 2_500,
      });
      const page = await world.well("GET", `/boards/b/members?rank=${place + 1}&limit=4`);
      expect(page.entries.map((row) => row.member)).toEqual(all.slice(place, place + 4).map((row) => row.member));
    }
  };
  await check();
  const again = await world.call("POST", "/boards/b/members", { body, headers: { "Idempotency-Key": "all" } });
  expect([again.status, again.headers.get("idempotency-replayed")]).toEqual([200, "true"]);
  await check();
});

test("a member goes when its time is over, and a deleted board begins anew", async () => {
  await world.well("POST", "/boards/c/members/ann", { body: '{"score":1,"expires_in_seconds":1}' });
  await world.well("POST", "/boards/c/members/bob", { body: '{"score":0.5}' });
  await until(async () => (await world.well("GET", "/boards/c/members")).total === 1, "ann is gone");
  await world.well("DELETE", "/boards/c");
  await world.refused(404, "board-not-found", "GET", "/boards/c/members");
  expect(await world.well("POST", "/boards/c/members/bob", { body: '{"delta":2}' })).toMatchObject({
    score: 2, rank: 1, total: 1,
  });
});
