// One batch that names thousands of counters: all of it is counted, part by part, or the lines are named that are not;
// and others are served meanwhile.
import { afterAll, beforeAll, expect, test } from "vitest";
import { each, openWorld } from "./world.mjs";

// A first opening costs 5 to 10 ms on 2 cores, with other specs beside it: 3,200 of them, 32 s.
const BATCH_MS_MAX = 110_000;
// What the edge may call for one body: 400 counters, or 133 under a key with an element each.
const SUBREQUESTS = "1000";

// Many more than the tests need; so bulk bodies rest between groups.
const OPEN_OBJECTS_MAX = "10000";

// Each counter has an object of its own, also where all specs run with tablets.
const OWN = { TALLY_TABLETS: undefined };

let world;
let narrow;
let hosted;
beforeAll(async () => {
  world = await openWorld({ vars: OWN, edgeVars: { TALLY_OPEN_OBJECTS_MAX: OPEN_OBJECTS_MAX } });
  narrow = await openWorld({ vars: OWN, edgeVars: { TALLY_SUBREQUESTS: SUBREQUESTS } });
  hosted = await openWorld({
    vars: { TALLY_TABLETS: "8" }, edgeVars: { TALLY_SUBREQUESTS: SUBREQUESTS, TALLY_OPEN_OBJECTS_MAX: "40" },
  });
});
afterAll(() => Promise.all([world.close(), narrow.close(), hosted.close()]));

const eventsOf = (length, name) =>
  Array.from({ length }, (_, index) => ({ id: `${name}/${index}`, delta: (index % 3) + 1 }));
const bodyOf = (events) => events.map((event) => JSON.stringify(event)).join("\n");
const sumOf = (events) => events.reduce((total, { delta }) => total + delta, 0);

test("a batch counts thousands of counters, and others are answered meanwhile", async () => {
  const events = eventsOf(3_200, "thousands");
  let isCounted = false;
  const counted = world.well("POST", "/events", { body: bodyOf(events) }).finally(() => {
    isCounted = true;
  });
  let answered = 0;
  while (!isCounted) {
    await world.well("GET", "/healthz");
    await world.add("beside");
    answered += Number(!isCounted);
  }
  expect(await counted).toEqual({ accepted: 3_200, rejected: 0, errors: [] });
  // There are 400 rests. Without them a handful gets in, at the beginning and at the end.
  expect(answered).toBeGreaterThan(40);
  const answer = await world.well("GET", "/counters/thousands%2F*/aggregate");
  expect(answer).toMatchObject({ counters: 3_200, value: sumOf(events), exact: true });
}, BATCH_MS_MAX);

// The lines whose counters come last by name: 98 and 99 of 402.
const REFUSED = {
  accepted: 400, rejected: 2, rejected_lines: [{ code: "too-many-counters", count: 2, lines: "99-100" }],
};

test("of a batch of more counters than there are calls the lines are named that are not counted, and a batch of those is counted", async () => {
  const events = eventsOf(402, "many");
  const report = await narrow.well("POST", "/events", { body: bodyOf(events) });
  expect(report).toMatchObject(REFUSED);
  expect(report.errors[0].detail).toContain("nothing of this line was counted, send it in another body");
  await narrow.refused(404, "counter-not-found", "GET", "/counters/many%2F98");
  expect(await narrow.well("POST", "/events", { body: bodyOf(events.slice(98, 100)) })).toMatchObject({
    accepted: 2, rejected: 0,
  });
  const answer = await narrow.well("GET", "/counters/many%2F*/aggregate");
  expect(answer).toMatchObject({ counters: 402, value: sumOf(events), exact: true });
});

test("so it is under a key, where what is counted is counted once, however often it is sent", async () => {
  const headers = { "idempotency-key": "body" };
  // A claim and a count for each, and a flush for its element.
  const events = eventsOf(134, "keyed").map((event) => ({ ...event, unique: "ann" }));
  for (let round = 0; round < 2; round += 1) {
    const report = await narrow.well("POST", "/events", { body: bodyOf(events), headers });
    expect(report).toMatchObject({
      accepted: 133, rejected: 1, rejected_lines: [{ code: "too-many-counters", count: 1, lines: "100" }],
    });
  }
  const answer = await narrow.well("GET", "/counters/keyed%2F*/aggregate");
  expect(answer).toMatchObject({ counters: 133, value: sumOf(events) - events[99].delta, exact: true });
});

test("where tablets host counters a body names as many as it likes, with few calls and few objects", async () => {
  const events = eventsOf(1_000, "hosted").map((event) => ({ ...event, unique: "ann" }));
  for (const headers of [{}, { "idempotency-key": "body" }, { "idempotency-key": "body" }]) {
    expect(await hosted.well("POST", "/events", { body: bodyOf(events), headers })).toMatchObject({
      accepted: 1_000, rejected: 0,
    });
  }
  const answer = await hosted.well("GET", "/counters/hosted%2F*/aggregate");
  expect(answer).toMatchObject({ counters: 1_000, value: 2 * sumOf(events), exact: true });
  expect(await hosted.objects("Cell")).toEqual([]);
});

test("no more counters are opened to be read than may be open: the others are told as of what their datacenter has said last", async () => {
  const small = await openWorld({
    vars: { ...OWN, TALLY_OPEN_OBJECTS_MAX: "8" }, edgeVars: { TALLY_OPEN_OBJECTS_MAX: OPEN_OBJECTS_MAX },
  });
  try {
    const ids = Array.from({ length: 40 }, (_, index) => `read/${index}`);
    for (const id of ids) await small.add(id);
    let seen;
    do {
      seen = await small.well("GET", "/counters/read%2F*/aggregate");
      expect(seen).toMatchObject({ counters: ids.length, exact: false });
    } while (seen.value < ids.length);
    expect(seen.value).toBe(ids.length);
    const counters = [];
    for (const id of ids) counters.push(await small.well("GET", `/counters/${encodeURIComponent(id)}`));
    expect(counters.map(({ value }) => value)).toEqual(ids.map(() => 1));
    const exact = counters.filter((counter) => counter.exact).length;
    expect(exact).toBeGreaterThan(0);
    expect(exact).toBeLessThan(ids.length);
  } finally {
    await small.close();
  }
});

test("no more shards are opened to be read, and no more counters to be changed, than may be open", async () => {
  const small = await openWorld({
    vars: { ...OWN, TALLY_OPEN_OBJECTS_MAX: "8" }, edgeVars: { TALLY_OPEN_OBJECTS_MAX: OPEN_OBJECTS_MAX },
  });
  try {
    await small.put("wide", { shards: 64 });
    await each(
      Array.from({ length: 400 }, (_, index) => index), 20,
      (index) => small.add("wide", { unique: `visitor ${index}` }),
    );
    const answer = await small.strong("wide");
    expect(answer.exact).toBe(false);
    expect(answer.value).toBeLessThanOrEqual(400);
    expect(await small.strong("wide")).toMatchObject({ exact: false });
    // There is room for the shards of one.
    expect((await small.call("PUT", "/counters/wide/value", { body: '{"value":0}' })).status).toBe(200);
    const ids = Array.from({ length: 100 }, (_, index) => `gone/${index}`);
    for (const id of ids) await small.add(id);
    const answers = await each(ids, 10, (id) => small.call("DELETE", `/counters/${encodeURIComponent(id)}`));
    const refused = answers.filter(({ status }) => status !== 200);
    expect(refused.length).toBeGreaterThan(0);
    for (const { json } of refused) expect(json).toMatchObject({ status: 503, code: "unavailable" });
    const left = await small.well("GET", "/counters?prefix=gone");
    expect(left.entries.length, "what was refused is as it was").toBe(refused.length);
  } finally {
    await small.close();
  }
});

test("no more counters are opened than may be open: one more is told when to come again, those that are open go on", async () => {
  const small = await openWorld({ vars: OWN, edgeVars: { TALLY_OPEN_OBJECTS_MAX: "8" } });
  try {
    for (let index = 0; index < 8; index += 1) await small.add(`open/${index}`);
    for (const headers of [{}, { "idempotency-key": "k" }]) {
      const refused = await small.refused(503, "overloaded", "POST", "/counters/more/increment", { headers });
      expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(5);
    }
    expect((await small.add("open/3")).value).toBe(2);
    await small.refused(404, "counter-not-found", "GET", "/counters/more");
  } finally {
    await small.close();
  }
});
