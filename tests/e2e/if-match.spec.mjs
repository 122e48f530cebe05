// If-Match: a write or an operation is done only while the counter is what its sender has seen.
import { afterEach, beforeEach, expect, test } from "vitest";
import { numbers } from "./calls.mjs";
import { each, openWorld, until } from "./world.mjs";

const COLOS = ["FRA", "IAD", "SYD"];
const INCREMENT = "/counters/a/increment";
const anywhere = (index) => ({ colo: COLOS[index % COLOS.length], edge: index % 2 });
const ifMatch = (tag, more = {}) => ({ ...more, headers: { "if-match": tag, ...more.headers } });
const matching = (version, more) => ifMatch(`"${version}"`, more);

// Everything that may be made to depend on what was seen.
const CALLS = [
  ["POST", INCREMENT],
  ["POST", "/counters/a/decrement"],
  ["PUT", "/counters/a/value", '{"value":7}'],
  ["PUT", "/counters/a/value", '{"value":0}'],
  ["PUT", "/counters/a", "{}"],
  ["DELETE", "/counters/a"],
];

let world;
beforeEach(async () => {
  world = await openWorld({ edges: 2 });
});
afterEach(() => world.close());

const changed = (method, path, options) => world.refused(412, "precondition-failed", method, path, options);

// What never creates a counter is refused as it would be without a condition (RFC 9110, 13.2.1).
const missing = ([method, path, body], tag) => {
  const neverCreates = method === "DELETE";
  const [status, code] = neverCreates ? [404, "counter-not-found"] : [412, "precondition-failed"];
  return world.refused(status, code, method, path, ifMatch(tag, { body }));
};

test("a call is done once the version fits, and refused once it does not", async () => {
  for (const [method, path, body] of CALLS) {
    await world.put("a", { home: "IAD" });
    const { version: first } = await world.add("a", { delta: 5 });
    const { version } = await world.add("a", { delta: 5 }, { colo: "SYD" });
    await changed(method, path, matching(first, { body }));
    await changed(method, path, matching(first, { body, colo: "SYD", edge: 1 }));
    expect(await world.strong("a"), `${method} ${path} changed something`).toMatchObject({ value: 10, version });
    await world.well(method, path, matching(version, { body, colo: "SYD", edge: 1 }));
    if (method !== "DELETE") await world.well("DELETE", "/counters/a");
  }
});

test("the version of every answer fits, and so does the tag of a read", async () => {
  await world.put("a", { home: "IAD" });
  let { version } = await world.add("a", { delta: 5 });
  ({ version } = await world.add("a", { delta: 1 }, matching(version, { colo: "SYD" })));
  ({ version } = await world.well("PUT", "/counters/a/value", matching(version, { body: '{"value":50}' })));
  ({ version } = await world.subtract("a", { delta: 1 }, matching(version)));
  ({ version } = await world.well("PUT", "/counters/a/value", matching(version, { body: '{"value":0}', colo: "SYD" })));
  ({ version } = await world.add("a", { delta: 3 }, matching(version, { edge: 1 })));
  ({ version } = await world.put("a", { home: "IAD", ttl_seconds: 3_600 }, matching(version)));
  const read = await world.call("GET", "/counters/a?consistency=strong");
  expect(read.json).toMatchObject({ value: 3, version });
  const tag = read.headers.get("etag");
  expect(tag).toMatch(/^"[\w-]+\.\d+"$/);
  await world.add("a", { delta: 1 }, ifMatch(tag));
  await changed("POST", INCREMENT, ifMatch(tag));
  // Where others counted before there was a home, the tag is still home's.
  await world.put("a", {});
  for (const colo of COLOS) {
    await until(async () => (await world.add("a", { delta: 1 }, { colo })).datacenter === colo, `a write in ${colo}`);
  }
  await world.put("a", { home: "SYD" });
  const answer = await world.call("GET", "/counters/a?consistency=strong", { colo: "IAD" });
  const next = await world.add("a", { delta: 1 }, ifMatch(answer.headers.get("etag"), { colo: "IAD" }));
  expect(next).toMatchObject({ value: answer.json.value + 1, exact: true });
  await changed("POST", INCREMENT, matching(answer.json.version));
  const after = await world.strong("a");
  await world.add("a", { delta: 1 }, matching(after.version));
});

test("an operation changes what was seen, a setting of the same kind does not", async () => {
  const { version } = await world.add("a", { delta: 5 });
  await world.put("a", { ttl_seconds: 60, home: "FRA" });
  const written = await world.add("a", { delta: 1 }, matching(version));
  await world.well("PUT", "/counters/a/value", { body: '{"value":6}' });
  await changed("POST", INCREMENT, matching(written.version));
  const { version: late } = await world.strong("a");
  await world.well("DELETE", "/counters/a");
  for (const call of CALLS) await missing(call, `"${late}"`);
  await world.add("a", { delta: 6 });
  for (const [method, path, body] of CALLS) await changed(method, path, matching(late, { body }));
  expect(await world.strong("a")).toMatchObject({ value: 6, exact: true });
});

test("a star asks for a counter that exists, and for no home", async () => {
  for (const [method, path, body] of CALLS) {
    const { json } = await missing([method, path, body], "*");
    if (json.code === "precondition-failed") expect(json.detail).toContain("there is no such counter; nothing was");
    await world.refused(404, "counter-not-found", "GET", "/counters/a?consistency=strong");
  }
  for (const [method, path, body] of CALLS) {
    for (const colo of COLOS) await world.add("a", { delta: 9 }, { colo });
    await world.well(method, path, ifMatch("*", { body, colo: "IAD" }));
  }
});

test("what is no precondition is refused, and a weak tag never fits", async () => {
  const { version } = await world.add("a", { delta: 5 });
  for (const tag of [version, `"${version}`, `"${version}", "${version}"`, '"x"', '""', '"*"', "**"]) {
    for (const [method, path, body] of CALLS) {
      await world.refused(400, "invalid-precondition", method, path, ifMatch(tag, { body }));
    }
  }
  for (const tag of ["*", `"${version}"`]) {
    for (const [method, path, body] of CALLS) {
      await world.refused(400, "invalid-precondition", method, path, { body, headers: { "If-None-Match": tag } });
    }
  }
  const weak = (await world.call("GET", "/counters/a")).headers.get("etag");
  expect(weak).toMatch(/^W\//);
  for (const [method, path, body] of CALLS) {
    await changed(method, path, ifMatch(weak, { body }));
    await changed(method, path, ifMatch(`W/"${version}"`, { body }));
  }
  expect(await world.strong("a")).toMatchObject({ value: 5, exact: true });
});

test("the only datacenter becomes home; of several one must be named", async () => {
  const { version } = await world.add("a", { delta: 5 }, { colo: "IAD" });
  expect(await world.add("a", { delta: 1 }, matching(version, { colo: "FRA" }))).toMatchObject({
    value: 6, datacenter: "IAD",
  });
  expect(await world.add("a", { delta: 1 }, { colo: "SYD" })).toMatchObject({
    value: 7, exact: true, datacenter: "IAD",
  });

  let last;
  for (const colo of COLOS) last = await world.add("b", { delta: 5 }, { colo });
  const calls = CALLS.map(([method, path, body]) => [method, path.replace("/a", "/b"), body]);
  for (const [method, path, body] of calls) {
    await world.refused(409, "needs-home", method, path, matching(last.version, { body }));
  }
  expect(await world.strong("b")).toMatchObject({ value: 15, exact: true });

  // A counter that nobody has written gets the client's.
  const made = await world.put("c", {});
  expect(await world.add("c", { delta: 1 }, matching(made.version, { colo: "SYD" }))).toMatchObject({
    value: 1, datacenter: "SYD",
  });
});

test("where the only datacenter has several shards they are sealed first", async () => {
  await world.put("a", { shards: 4 });
  await each(numbers(40), 8, (index) => world.add("a", { unique: `u${index}` }));
  const written = await until(async () => {
    const { version } = await world.strong("a");
    const answer = await world.call("POST", INCREMENT, matching(version));
    return answer.status === 200 && answer.json;
  }, "a write that fits");
  expect(written).toMatchObject({ value: 41, exact: true });
  expect(await world.add("a", { delta: 1 }, matching(written.version, { colo: "IAD" }))).toMatchObject({
    value: 42, exact: true,
  });
});

test("what was seen before home went elsewhere and came back does not fit", async () => {
  await world.put("a", { home: "FRA" });
  const { version } = await world.add("a", { delta: 5 });
  for (const home of ["IAD", "FRA"]) {
    await world.put("a", { home });
    if (home === "IAD") await world.add("a", { delta: 5 }, { colo: home });
    for (const [method, path, body] of CALLS) await changed(method, path, matching(version, { body, colo: "SYD" }));
  }
  // The same where it was given up, and others counted.
  await world.put("a", {});
  await until(
    async () => (await world.add("a", { delta: 1 }, { colo: "SYD" })).datacenter === "SYD", "a write elsewhere",
  );
  const { version: shared } = await world.strong("a");
  await world.add("a", { delta: 1 }, { colo: "SYD" });
  await world.put("a", { home: "FRA" });
  await changed("POST", INCREMENT, matching(shared));
  const { version: now, value } = await world.strong("a");
  expect(await world.add("a", { delta: 1 }, matching(now))).toMatchObject({ value: value + 1, exact: true });
});

test("a keyed write with a condition is done once, and repeated whatever came after it", async () => {
  await world.put("a", { home: "IAD" });
  const { version } = await world.add("a", { delta: 5 });
  for (const [path, method, body] of [[INCREMENT, "POST"], ["/counters/a/value", "PUT", '{"value":9}']]) {
    const { version: now } = await world.strong("a");
    const options = (more) => ({ body, ...more, headers: { "idempotency-key": `k${method}`, "if-match": `"${now}"` } });
    const first = await world.call(method, path, options());
    expect(first.status).toBe(200);
    const again = await world.call(method, path, options({ colo: "SYD", edge: 1 }));
    expect([again.text, again.headers.get("idempotency-replayed")]).toEqual([first.text, "true"]);
  }
  await changed("POST", INCREMENT, matching(version));
  expect(await world.strong("a")).toMatchObject({ value: 9, exact: true });
});

test("a keyed write with a condition gets its answer again where it could not be decided any more", async () => {
  const { version } = await world.add("a", { delta: 5 });
  const send = (key, more) =>
    world.call("POST", INCREMENT, { ...more, headers: { "idempotency-key": key, "if-match": `"${version}"` } });
  const first = await send("k");
  expect(first.status).toBe(200);
  await world.put("a", {});
  for (const colo of COLOS) {
    await until(async () => (await world.add("a", { delta: 1 }, { colo })).datacenter === colo, `a write in ${colo}`);
  }
  // Nobody can decide it now, and the key was for this.
  for (const [index, colo] of COLOS.entries()) {
    const again = await send("k", { colo, edge: index % 2 });
    expect([again.text, again.headers.get("idempotency-replayed")]).toEqual([first.text, "true"]);
    const other = await send("other", { colo, edge: index % 2 });
    expect([other.status, other.json.code], other.text).toEqual([409, "needs-home"]);
  }
  await world.well("DELETE", "/counters/a");
  const ended = await send("k");
  expect([ended.status, ended.json.code], ended.text).toEqual([409, "counter-ended"]);
  const other = await send("other");
  expect([other.status, other.json.code], other.text).toEqual([412, "precondition-failed"]);
});

test("clients that read, and write what they read plus something if nobody was faster, lose nothing", async () => {
  const clients = 6;
  const rounds = 12;
  // One of six wins each time, and nobody is next in line.
  const ROUND_MS_MAX = 100_000;
  await world.add("a", { delta: 1 }, { colo: "IAD" });
  let refusals = 0;
  await each(numbers(clients), clients, async (client) => {
    for (let round = 0; round < rounds; round += 1) {
      await until(
        async () => {
          const { value, version } = await world.strong("a", "", anywhere(client));
          // As many kinds of writes as there are, each worth one more.
          const answer =
            round % 2
              ? await world.call("POST", INCREMENT, matching(version, anywhere(client + round)))
              : await world.call(
                  "PUT", "/counters/a/value",
                  matching(version, { body: `{"value":${value + 1}}`, ...anywhere(client) }),
                );
          if (answer.status === 200) return true;
          expect([answer.status, answer.json.code], answer.text).toEqual([412, "precondition-failed"]);
          refusals += 1;
          return false;
        },
        "a round", ROUND_MS_MAX,
      );
    }
  });
  expect(await world.strong("a")).toMatchObject({ value: 1 + clients * rounds, exact: true });
  expect(refusals, "they were in each other's way").toBeGreaterThan(0);
});
