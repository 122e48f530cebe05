// A home: all writes are counted by one cell, wherever they enter, so answers are exact; it can be set, moved and given
// up.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { isReplay, keyed, numbers } from "./calls.mjs";
import { each, openWorld, randomFrom, until } from "./world.mjs";

const SEED = 5;
const COLOS = ["FRA", "IAD", "SYD", "NRT", "GRU"];
const partsOf = (answer) => Object.fromEntries(answer.datacenters.map(({ id, value }) => [id, value]));
const anywhere = (index) => ({ colo: COLOS[index % COLOS.length], edge: index % 2 });

let world;

describe("without faults", () => {
  beforeEach(async () => {
    world = await openWorld({ edges: 2 });
  });
  afterEach(() => world.close());

  test("every write is counted at home, and every answer is exact", async () => {
    const created = await world.call("PUT", "/counters/a", { body: '{"home":"iad"}', colo: "SYD" });
    expect([created.status, created.json.settings.home]).toEqual([201, "IAD"]);
    const answers = await each(numbers(60), 12, (index) => world.add("a", { delta: 1 }, anywhere(index)));
    for (const answer of answers) expect(answer).toMatchObject({ exact: true, datacenter: "IAD" });
    expect(answers.map(({ value }) => value).sort((one, other) => one - other)).toEqual(
      numbers(60).map((index) => index + 1),
    );
    expect(await world.subtract("a", { delta: 10 }, { colo: "NRT" })).toMatchObject({
      value: 50, exact: true, datacenter: "IAD",
    });
    const counter = await world.strong("a");
    expect(counter).toMatchObject({ value: 50, exact: true });
    expect(partsOf(counter)).toEqual({ IAD: 50 });
  });

  test("bulk bodies, logs, queued events and elements go home too", async () => {
    await world.put("/a", { home: "IAD" });
    const line = (address) => `${address} - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 1 "-" "-"\n`;
    await each(COLOS, COLOS.length, async (colo, index) => {
      const options = { colo, edge: index % 2 };
      const events = numbers(50)
        .map(() => '{"id":"/a","delta":2}')
        .join("\n");
      expect(await world.well("POST", "/events", { body: events, ...options })).toMatchObject({
        accepted: 50, rejected: 0,
      });
      const keys = numbers(5)
        .map((number) => JSON.stringify({ id: "/a", idempotency_key: `${colo}-${number}` }))
        .join("\n");
      expect(await world.well("POST", "/events", { body: keys, ...options })).toMatchObject({
        accepted: 5, rejected: 0,
      });
      const log = line("10.0.0.1") + line(`10.0.1.${index}`);
      const read = await world.well("POST", "/ingest?format=clf&unique=ip", { body: log, ...options });
      expect(read).toMatchObject({ accepted: 2, rejected: 0 });
      const queued = await world.call("POST", "/api/event", { body: '{"key":"/a","increment":3}', ...options });
      expect(queued.status).toBe(202);
      await world.add("/a", { delta: 1, unique: `visitor-${index}` }, options);
      await world.add("/a", { delta: 1, unique: `visitor-${index}` }, keyed(`k${index}`, options));
    });
    const answer = await world.strong("/a");
    expect(answer).toMatchObject({ value: 5 * (100 + 5 + 2 + 3 + 2), exact: true, uniques: { estimate: 11 } });
    expect(partsOf(answer)).toEqual({ IAD: 560 });
  });

  test("where several counted, what they hold stays and home counts on from the sum", async () => {
    await world.put("a", { shards: 4 });
    await each(numbers(90), 10, (index) =>
      world.add("a", { unique: `u${index}` }, { colo: COLOS[index % 3], edge: index % 2 }),
    );
    const answer = await world.put("a", { home: "FRA" }, { colo: "GRU" });
    expect(answer).toMatchObject({
      value: 90, exact: true, settings: { home: "FRA", shards: "auto" }, pending_datacenters: [],
    });
    // Its own shards are sealed first.
    let value = 90;
    await until(async () => {
      value += 1;
      return (await world.add("a", { delta: 1 })).exact;
    }, "one cell");
    for (const colo of COLOS) {
      value += 1;
      expect(await world.add("a", { delta: 1 }, { colo })).toMatchObject({ value, exact: true, datacenter: "FRA" });
    }
    const counter = await world.strong("a");
    expect(counter).toMatchObject({ value, exact: true });
    expect(partsOf(counter)).toEqual({ FRA: value - 60, IAD: 30, SYD: 30 });
    await world.evict();
    value += 1;
    expect(await world.add("a", { delta: 1 }, { colo: "IAD" })).toMatchObject({
      value, exact: true, datacenter: "FRA",
    });
  });

  test("a home moves, and is given up", async () => {
    await world.add("a", { delta: 10 }, { colo: "FRA" });
    await world.add("a", { delta: 10 }, { colo: "IAD" });
    let value = 20;
    for (const home of ["FRA", "IAD", "SYD", "FRA"]) {
      expect(await world.put("a", { home }, { colo: "NRT" })).toMatchObject({ value, exact: true });
      for (const edge of [0, 1]) {
        value += 1;
        // What an edge remembers of the home before costs one hop.
        expect(await world.add("a", undefined, { colo: "IAD", edge })).toMatchObject({
          value, exact: true, datacenter: home,
        });
      }
    }
    expect((await world.put("a", {})).settings.home).toBeNull();
    await until(async () => {
      value += 1;
      return (await world.add("a", undefined, { colo: "IAD", edge: 0 })).datacenter === "IAD";
    }, "a write that stays where it enters");
    expect(await world.strong("a")).toMatchObject({ value, exact: true });
  });

  test("writes that race moves of the home are each counted once", async () => {
    const counted = [];
    // Each bit is added twice: the sum tells whether one is missing, or there too often.
    const write = async (bit) => {
      const delta = String(2n ** BigInt(bit % 60));
      const options = anywhere(bit);
      if (bit % 3 === 0) {
        const body = JSON.stringify({ delta });
        const first = await world.call("POST", "/counters/a/increment", keyed(`k${bit}`, { body, ...options }));
        const again = await world.call(
          "POST", "/counters/a/increment", keyed(`k${bit}`, { body, ...anywhere(bit + 1) }),
        );
        expect([first.status, again.status, again.text], first.text).toEqual([200, 200, first.text]);
        expect(isReplay(again)).toBe(true);
      } else {
        await world.add("a", { delta }, options);
      }
      counted.push(bit);
    };
    await world.add("a", { delta: 1 }, { colo: "IAD" });
    const move = async () => {
      const all = [
        { home: "FRA" }, { home: "IAD" }, {}, { home: "SYD" }, { home: "FRA", floor: 0 }, {}, { home: "IAD" }, {},
      ];
      for (const [number, settings] of all.entries()) {
        await until(() => counted.length > 12 * (number + 1), "some writes");
        await world.put("a", settings, anywhere(number));
      }
    };
    await Promise.all([each(numbers(120).map((bit) => bit + 1), 10, write), move()]);
    const answer = await world.strong("a");
    expect(answer.exact).toBe(true);
    expect(BigInt(answer.value)).toBe(2n ** 61n - 1n);
    expect(counted.length).toBe(120);
  });

  test("a key is found wherever its counter's home is, and counts once", async () => {
    const write = (key, options) =>
      world.call("POST", "/counters/a/increment", keyed(key, { body: '{"delta":5}', ...options }));
    const firsts = { before: await write("before", { colo: "IAD" }) };
    let value = 5;
    for (const home of ["FRA", "SYD"]) {
      await world.put("a", { home });
      for (const [key, first] of Object.entries(firsts)) {
        for (const colo of COLOS) {
          const again = await write(key, { colo });
          expect([again.text, isReplay(again)], `${key} in ${colo}, home ${home}`).toEqual([first.text, true]);
        }
      }
      value += 5;
      firsts[home] = await write(home, { colo: "IAD" });
      expect(firsts[home].json).toMatchObject({ value, exact: true, datacenter: home });
    }
    await world.put("a", {});
    await world.evict();
    for (const [key, first] of Object.entries(firsts)) {
      expect((await write(key, { colo: "NRT" })).text).toBe(first.text);
    }
    await world.refused(
      422, "idempotency-key-reused", "POST", "/counters/a/increment", keyed("FRA", { body: '{"delta":6}' }),
    );
    expect(await world.strong("a")).toMatchObject({ value, exact: true });
  });

  test("set and reset at home", async () => {
    await world.add("a", { delta: 10 }, { colo: "FRA" });
    await world.add("a", { delta: 10 }, { colo: "IAD" });
    await world.put("a", { home: "FRA" });
    await world.add("a", { delta: 1 }, { colo: "IAD" });
    const answer = await world.well("PUT", "/counters/a/value", { body: '{"value":500}', colo: "SYD" });
    expect(answer).toMatchObject({ value: 500, base: 500, exact: true, pending_datacenters: [] });
    expect(await world.add("a", { delta: 1 }, { colo: "IAD" })).toMatchObject({ value: 501, exact: true });
    await world.put("a", { home: "IAD" });
    expect(await world.add("a", { delta: 1 }, { colo: "SYD" })).toMatchObject({
      value: 502, exact: true, datacenter: "IAD",
    });
    const down = await world.well("PUT", "/counters/a/value", { body: '{"value":0}' });
    expect(down).toMatchObject({ value: 0, exact: true });
    expect(await world.add("a", { delta: 1 })).toMatchObject({ value: 1, exact: true });
    await world.put("a", {});
    expect(await world.strong("a")).toMatchObject({ value: 1, base: 0, exact: true });
  });

  test("settings of a home are read whole or refused", async () => {
    for (const body of [
      '{"home":""}',
      '{"home":"a/b"}',
      '{"home":"01234567890123456"}',
      '{"home":7}',
      '{"home":"FRA","shards":4}',
      '{"floor":0,"shards":2}',
      '{"floor":1.5}',
      '{"floor":"x"}',
    ]) {
      await world.refused(400, "invalid-body", "PUT", "/counters/a", { body });
    }
    await world.refused(404, "counter-not-found", "GET", "/counters/a?consistency=strong");
    expect((await world.put("a", { home: "FRA", shards: 1, ttl_seconds: 60 })).settings).toEqual({
      shards: 1,
      ttl_seconds: 60,
      ttl_mode: "fixed",
      floor: null,
      home: "FRA",
      unique_hash: "keyed",
      seconds_kept: null,
    });
  });

  test("a deleted counter has no home any more", async () => {
    await world.put("a", { home: "FRA" });
    await world.add("a", undefined, { colo: "IAD", edge: 1 });
    await world.well("DELETE", "/counters/a");
    await until(
      async () => (await world.add("a", undefined, { colo: "IAD" })).datacenter === "IAD", "a write that stays",
    );
    expect((await world.put("a", {})).settings.home).toBeNull();
  });
});

describe("with parts that do not answer", () => {
  beforeEach(async () => {
    world = await openWorld({ faults: true, edges: 2 });
  });
  afterEach(() => world.close());

  const away = (colo) =>
    world.fail(({ kind, name }) => (kind === "cell" && name.includes(`/${colo}/`) ? "before" : undefined));
  const unavailable = (method, path, options) => world.refused(503, "unavailable", method, path, options);

  test("while home is away writes are refused and reads go on", async () => {
    await world.add("a", { delta: 4 }, { colo: "IAD" });
    await world.put("a", { home: "FRA" });
    await world.add("a", { delta: 4 }, { colo: "IAD" });
    away("FRA");
    await unavailable("POST", "/counters/a/increment", { colo: "IAD" });
    await unavailable("POST", "/counters/a/decrement", { colo: "FRA" });
    await unavailable("POST", "/counters/a/increment", keyed("k", { colo: "IAD", body: '{"delta":2}' }));
    const report = await world.well("POST", "/events", { body: '{"id":"a"}\n{"id":"b"}', colo: "SYD" });
    expect(report).toMatchObject({ accepted: 1, rejected: 1, errors: [{ line: 1, code: "unavailable" }] });
    await unavailable("PUT", "/counters/a", { body: '{"home":"IAD"}' });
    await unavailable("PUT", "/counters/a", { body: "{}" });
    const answer = await world.strong("a", "", { colo: "IAD" });
    expect(answer).toMatchObject({ value: 4, exact: false });
    expect(answer.datacenters.find(({ id }) => id === "FRA").reachable).toBe(false);
    world.mend();
    const retried = await world.call("POST", "/counters/a/increment", keyed("k", { colo: "SYD", body: '{"delta":2}' }));
    expect(retried.json).toMatchObject({ delta: 2, value: 10, exact: true, datacenter: "FRA" });
    expect((await world.put("a", { home: "IAD" })).settings.home).toBe("IAD");
    expect(await world.add("a", undefined, { colo: "SYD" })).toMatchObject({
      value: 11, exact: true, datacenter: "IAD",
    });
  });

  test("no home is set while a datacenter that counts cannot be stopped", async () => {
    await world.add("a", { delta: 4 }, { colo: "FRA" });
    await world.add("a", { delta: 4 }, { colo: "IAD" });
    away("IAD");
    await unavailable("PUT", "/counters/a", { body: '{"home":"FRA"}' });
    await world.add("a", undefined, { colo: "FRA" });
    world.mend();
    await world.add("a", undefined, { colo: "IAD", edge: 1 });
    expect(await world.strong("a")).toMatchObject({ value: 10, exact: true });
    expect((await world.put("a", {})).settings.home).toBeNull();
    expect((await world.put("a", { home: "FRA" })).settings.home).toBe("FRA");
    expect(await world.add("a", undefined, { colo: "IAD" })).toMatchObject({
      value: 11, exact: true, datacenter: "FRA",
    });
  });

  test("no home is set before all datacenters are part of the value", async () => {
    await world.add("a", { delta: 4 }, { colo: "FRA" });
    await world.add("a", { delta: 4 }, { colo: "IAD" });
    const second = Math.floor(world.now() / 1_000);
    await until(() => Math.floor(world.now() / 1_000) > second, "the next second");
    away("FRA");
    const down = await world.well("PUT", "/counters/a/value", { body: '{"value":0}' });
    expect(down.pending_datacenters).toEqual(["FRA"]);
    await unavailable("PUT", "/counters/a", { body: '{"home":"FRA"}' });
    world.mend();
    expect(await world.put("a", { home: "FRA" })).toMatchObject({ value: 0, exact: true });
    expect(await world.add("a", { delta: 2 }, { colo: "IAD" })).toMatchObject({
      value: 2, exact: true, datacenter: "FRA",
    });
    expect(await world.strong("a")).toMatchObject({ value: 2, exact: true });
  });

  test("a key that was tried in vain at each home counts once one of them has it again", async () => {
    const send = (options) =>
      world.call("POST", "/counters/a/increment", keyed("k", { body: '{"delta":2}', ...options }));
    for (const home of ["FRA", "IAD", "SYD", "IAD"]) {
      await world.put("a", { home });
      world.fail(({ path, name }) => (path === "/count" && name.includes(`/${home}/`) ? "before" : undefined));
      const answer = await send({ colo: "NRT" });
      expect([answer.status, answer.json.code], answer.text).toEqual([503, "unavailable"]);
      world.mend();
    }
    await world.put("a", { home: "FRA" });
    const first = await send();
    expect(first.json).toMatchObject({ value: 2, exact: true, datacenter: "FRA" });
    for (const home of ["IAD", "FRA", "SYD"]) {
      await world.put("a", { home });
      const again = await send({ colo: home });
      expect([again.text, again.headers.get("idempotency-replayed")]).toEqual([first.text, "true"]);
    }
    expect(await world.strong("a")).toMatchObject({ value: 2, exact: true });
  });

  test("keyed writes whose answers are lost count once while the home moves", async () => {
    const lost = ["/claim", "/count", "/register"];
    // Drawn, since the calls of a writer that is left alone would keep step with faults that come in turn, for ever.
    const random = randomFrom(SEED);
    world.fail(({ path }) => (lost.includes(path) ? ["after", "before"][Math.floor(random() * 5)] : undefined));
    const write = async (index) => {
      for (let attempt = 0; ; attempt += 1) {
        const body = `{"delta":${index + 1}}`;
        const answer = await world.call(
          "POST", "/counters/a/increment", keyed(`k${index}`, { body, ...anywhere(index + attempt) }),
        );
        if (answer.status === 200) return;
        expect([answer.status, answer.json.code]).toEqual([503, "unavailable"]);
        expect(attempt, `k${index} is never acknowledged: ${answer.text}`).toBeLessThan(40);
      }
    };
    await world.put("a", { home: "NRT" });
    let counted = 0;
    const move = async () => {
      for (const [number, home] of ["FRA", "IAD", "SYD", "GRU"].entries()) {
        await until(() => counted > 12 * (number + 1), "some writes");
        await until(async () => {
          const answer = await world.call("PUT", "/counters/a", { body: JSON.stringify({ home }) });
          expect(answer.status).toBeOneOf([200, 503]);
          return answer.status === 200;
        }, `home in ${home}`);
      }
    };
    const writing = each(numbers(80), 8, async (index) => {
      await write(index);
      counted += 1;
    });
    await Promise.all([writing, move()]);
    world.mend();
    expect(await world.strong("a")).toMatchObject({ value: (80 * 81) / 2, exact: true });
  });
});
