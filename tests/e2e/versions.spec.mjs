// What a version promises: an answer to `at_least` includes all that the version names, or there is none.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openWorld, randomFrom, until } from "./world.mjs";

const SEED = 20_261_121;
// How long a reader waits for a version, and what its answer may take beyond.
const VERSION_MS_MAX = 2_000;
const SLACK_MS = 1_800;

const at = (version) => `?at_least=${version}`;

describe("where all answer", () => {
  let world;
  beforeAll(async () => {
    world = await openWorld({ edges: 2 });
  });
  afterAll(() => world.close());

  test("a write is seen from another datacenter at once, past a warm cache", async () => {
    await world.add("far", { delta: 1 }, { colo: "FRA" });
    let value = 1;
    const took = [];
    for (let round = 0; round < 20; round++) {
      await world.read("far", "", { colo: "IAD", edge: 1 });
      const { version } = await world.add("far", { delta: 2 }, { colo: "FRA" });
      value += 2;
      const began_ms = world.now();
      const answer = await world.read("far", at(version), { colo: "IAD", edge: 1 });
      took.push(world.now() - began_ms);
      expect(answer.value).toBe(value);
      // What covers the version is taken from the view again.
      expect((await world.read("far", at(version), { colo: "IAD", edge: 1 })).value).toBe(value);
    }
    // A machine that is busy may be late now and then.
    expect(took.toSorted((one, other) => one - other)[10]).toBeLessThan(VERSION_MS_MAX / 2);
  });

  test("a view that covers the version is good enough", async () => {
    const { version } = await world.add("view", { delta: 3 });
    const first = await world.read("view");
    await world.add("view", { delta: 4 });
    const second = await world.read("view", at(version));
    if (second.as_of === first.as_of) expect(second).toMatchObject({ value: 3, exact: false });
    else expect(second.value).toBeGreaterThanOrEqual(3);
    expect((await world.read("view", at(second.version))).value).toBeGreaterThanOrEqual(second.value);
  });

  test("it holds for text, windows, history, one datacenter and strong reads", async () => {
    await world.add("kinds", { delta: 1 }, { colo: "FRA" });
    const points = async (query) => {
      const { points } = await world.well("GET", `/counters/kinds/history?${query}`, { edge: 1 });
      return points.reduce((sum, [, count]) => sum + count, 0);
    };
    const to = Math.floor(world.now() / 1_000) + 600;
    const range = `step=1m&from=${to - 1_800}&to=${to}`;
    const text = { edge: 1, headers: { accept: "text/plain" } };
    for (let round = 1; round <= 5; round++) {
      const kinds = ["", "?window=300", "?datacenter=IAD", "?consistency=strong"];
      for (const kind of kinds) await world.call("GET", `/counters/kinds${kind}`, { edge: 1 });
      await points(range);
      const { version } = await world.add("kinds", { delta: 1 }, { colo: "IAD" });
      const more = `at_least=${version}`;
      expect((await world.call("GET", `/counters/kinds?${more}`, text)).text).toBe(String(1 + round));
      expect((await world.read("kinds", `?window=300&${more}`, { edge: 1 })).window.count).toBe(1 + round);
      expect((await world.read("kinds", `?datacenter=IAD&${more}`, { edge: 1 })).value).toBe(round);
      expect((await world.strong("kinds", `&${more}`, { edge: 1 })).exact).toBe(true);
      expect(await points(`${range}&${more}`)).toBe(1 + round);
    }
    // Of one datacenter only what is named there counts.
    const { version } = await world.add("kinds", { delta: 1 }, { colo: "FRA" });
    expect((await world.read("kinds", `?datacenter=IAD&at_least=${version}`)).value).toBe(5);
  });

  // Where the machine stands still for as long as a version is waited for there is no answer, and who reads asks again.
  const reads = (version, options, more = "") =>
    until(async () => {
      const { status, json, text } = await world.call("GET", `/counters/steps${at(version)}${more}`, options);
      expect(status, text).toBeOneOf([200, 504]);
      return status === 200 && json;
    }, "an answer");

  test("the count never falls for who sends versions back, while four clients write", async () => {
    await world.put("steps", { shards: 4 });
    await world.add("steps");
    const random = randomFrom(SEED);
    const colos = ["FRA", "IAD"];
    let acknowledged = 1;
    let begun = 1;
    let writing = true;
    let own = 0;
    const write = async (colo, edge) => {
      while (writing) {
        const delta = 1 + Math.floor(random() * 9);
        begun += delta;
        const { version } = await world.add("steps", { delta, unique: `u${begun}` }, { colo, edge });
        acknowledged += delta;
        if (own++ % 5 === 0) {
          const { value } = await reads(version, { colo: "NRT", edge: 1 - edge });
          expect(value).toBeGreaterThanOrEqual(delta);
          expect(value).toBeLessThanOrEqual(begun);
        }
      }
    };
    const read = async (rounds) => {
      let { version, value } = await world.read("steps");
      for (let round = 0; round < rounds; round++) {
        const strong = random() < 0.1 ? "&consistency=strong" : "";
        const options = { colo: colos[round % 2], edge: Math.floor(random() * 2) };
        const next = await reads(version, options, strong);
        expect(next.value).toBeGreaterThanOrEqual(value);
        ({ version, value } = next);
      }
      return { version, value };
    };
    const writers = Promise.all(colos.flatMap((colo) => [write(colo, 0), write(colo, 1)]));
    const reading = Promise.all([read(150), read(150)]);
    let last;
    try {
      last = await Promise.race([reading, writers.then(() => [])]);
    } finally {
      writing = false;
    }
    await writers;
    expect(last.length).toBe(2);
    for (const { version } of last) await reads(version, { edge: 1 });
    expect((await world.strong("steps")).value).toBe(acknowledged);
  });

  test("versions of a deleted counter: 404, and good once it is created again", async () => {
    const old = await world.add("again", { delta: 9 }, { colo: "IAD" });
    const before = await world.read("again", at(old.version), { edge: 1 });
    expect(before.value).toBe(9);
    await world.well("DELETE", "/counters/again");
    await until(
      async () => (await world.call("GET", "/counters/again", { edge: 1 })).status === 404, "no view of it is left",
    );
    await world.refused(404, "counter-not-found", "GET", `/counters/again${at(old.version)}`);
    await world.refused(404, "counter-not-found", "GET", `/counters/again${at(before.version)}`, { edge: 1 });

    // Created without a count: a view from before it must not pass for it.
    const created = await world.put("again", {});
    expect(created.value).toBe(0);
    expect((await world.read("again", at(created.version), { edge: 1 })).value).toBe(0);
    const { version } = await world.add("again", { delta: 2 }, { colo: "FRA" });
    for (const known of [old.version, before.version, created.version, version]) {
      expect((await world.read("again", at(known), { edge: 1 })).value).toBeOneOf(known === version ? [2] : [0, 2]);
    }
  });

  test("an isolate that still shows the deleted counter fetches the new one", async () => {
    await world.add("twice", { delta: 9 });
    expect((await world.read("twice", "", { edge: 1 })).value).toBe(9);
    await world.well("DELETE", "/counters/twice");
    const { version } = await world.put("twice", {});
    expect((await world.read("twice", at(version), { edge: 1 })).value).toBe(0);
  });

  test("what is no version is refused with the reason", async () => {
    const { version } = await world.add("bad");
    const table = [
      ["", "not a version of this service"],
      ["0", "not a version of this service"],
      ["latest", "not a version of this service"],
      [`${version}%3D`, "not a version of this service"],
      [`%20${version}`, "not a version of this service"],
      [version.slice(0, -1), "it is cut"],
      [`${version}AA`, "not a version of this service"],
      [`Aw${version.slice(2)}`, "its format is 3"],
      ["%00", "not a version of this service"],
      ["A".repeat(12_000), "its format is 0"],
    ];
    for (const path of ["/counters/bad", "/counters/bad/history"]) {
      for (const [text, why] of table) {
        const { json } = await world.refused(400, "invalid-query", "GET", `${path}?at_least=${text}`);
        expect(json.detail).toContain(why);
      }
      await world.refused(400, "invalid-query", "GET", `${path}?at_least=${version}&at_least=${version}`);
      await world.well("GET", `${path}?at_least=${version}`);
    }
    await world.refused(400, "invalid-query", "GET", `/uniques?id=bad&at_least=${version}`);
  });

  test("a version that nobody can have is not reached", async () => {
    await world.add("mine", { delta: 2 });
    // Of another counter, in a datacenter where this one was never counted.
    await world.add("other");
    const other = await world.add("other", { delta: 7 }, { colo: "SYD" });
    const began_ms = world.now();
    const { json } = await world.refused(504, "version-not-reached", "GET", `/counters/mine${at(other.version)}`);
    expect(world.now() - began_ms).toBeLessThan(VERSION_MS_MAX + SLACK_MS);
    expect((await world.read("mine", at(json.seen))).value).toBe(2);
  });
});

describe("where a datacenter does not answer", () => {
  let world;
  beforeEach(async () => {
    // One isolate writes, and may see more by that; the others read.
    world = await openWorld({ faults: true, edges: 3 });
    world.fail(unheard);
  });
  afterEach(() => world.close());

  // What the root had heard of a datacenter would be told in its place.
  const unheard = ({ kind, path }) => (kind === "directory" && path === "/push" ? "before" : undefined);

  const failing = (colo, how) =>
    world.fail((call) => (call.kind === "cell" && call.name.includes(`/${colo}/`) ? how : unheard(call)));

  async function notReached(version, ms_max, options) {
    const began_ms = world.now();
    const answer = await world.refused(504, "version-not-reached", "GET", `/counters/a${at(version)}`, options);
    const took_ms = world.now() - began_ms;
    expect(took_ms).toBeLessThan(ms_max + SLACK_MS);
    expect(answer.headers.get("retry-after")).toBe("1");
    return { ...answer.json, took_ms };
  }

  test("its versions are not reached, and what was seen is told in time", async () => {
    const fra = await world.add("a", { delta: 3 }, { colo: "FRA" });
    const iad = await world.add("a", { delta: 40 }, { colo: "IAD" });
    failing("IAD", "before");
    const { seen, detail, took_ms } = await notReached(iad.version, VERSION_MS_MAX, { edge: 1 });
    expect(took_ms).toBeGreaterThan(VERSION_MS_MAX / 2);
    expect(detail).toContain("shard 0 of IAD is named at 1 and was seen at 0");
    // What was seen is a version; what answers covers it, and what FRA wrote.
    expect((await world.read("a", at(seen), { edge: 1 })).value).toBe(3);
    expect((await world.read("a", at(fra.version), { edge: 2 })).value).toBe(3);
    world.mend();
    expect((await world.read("a", at(iad.version), { edge: 1 })).value).toBe(43);
  });

  test("a datacenter that comes back in time is waited for", async () => {
    await world.add("a", { delta: 3 }, { colo: "FRA" });
    const { version } = await world.add("a", { delta: 40 }, { colo: "IAD" });
    let calls = 0;
    world.fail((call) => {
      const isIad = call.kind === "cell" && call.name.includes("/IAD/") && call.path === "/sum";
      return isIad && ++calls <= 3 ? "before" : unheard(call);
    });
    expect((await world.read("a", at(version), { edge: 1 })).value).toBe(43);
    expect(calls).toBe(4);
  });

  test("one that hangs holds nobody up for longer than a read takes", async () => {
    await world.add("a", { delta: 3 }, { colo: "FRA" });
    const { version } = await world.add("a", { delta: 40 }, { colo: "IAD" });
    failing("IAD", "before");
    const answer = await world.read("a", "", { edge: 1 });
    failing("IAD", "hang");
    // 2 s by its view; where that grew old meanwhile, or there is none, the aggregator's 3 s.
    const warm = await notReached(version, 3_000, { edge: 1 });
    expect(warm.seen).toBe(answer.version);
    const cold = await notReached(version, 3_000, { edge: 2 });
    expect(cold.seen).toBe(answer.version);
  });

  test("a missing shard is not covered, the others are", async () => {
    await world.put("a", { shards: 2 });
    const versions = new Map();
    for (let number = 0; versions.size < 2 || number < 10; number++) {
      const { version } = await world.add("a", { unique: `u${number}` });
      const bytes = Buffer.from(version, "base64url");
      versions.set(bytes[6], version);
    }
    world.fail(({ kind, name }) => (kind === "cell" && name.startsWith("c1/FRA/1/") ? "before" : undefined));
    await world.read("a", at(versions.get(0)), { edge: 1 });
    const { detail } = await notReached(versions.get(1), VERSION_MS_MAX, { edge: 1 });
    expect(detail).toContain("shard 1 of FRA");
  });
});
