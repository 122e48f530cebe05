// Boards as clients see them: each way to read agrees with a sorted list, bad input is refused by name, and keys reach
// what they may.
import { afterAll, beforeAll, expect, test } from "vitest";
import { connect, liveMetrics, watch } from "./live-client.mjs";
import { API, faults } from "./openapi.mjs";
import { openWorld, randomFrom, until } from "./world.mjs";

const SEED = Number(process.env.SEED ?? 1);

let world;
beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());

const post = (path, body, options) =>
  world.well("POST", path, { body: typeof body === "string" ? body : JSON.stringify(body), ...options });
const get = (path) => world.well("GET", path);
const names = ({ entries }) => entries.map(({ member, rank }) => `${rank} ${member}`);

test("a thousand members are ranked, paged, counted and exported as a sorted list has them", async () => {
  const members = Array.from({ length: 1_500 }, (_, index) => ({ member: `m${index}`, score: (index * 7919) % 1_000 }));
  const lines = members.map((member) => JSON.stringify(member)).join("\n");
  expect(await post("/boards/many/members", lines)).toMatchObject({
    accepted: 1_500, rejected: 0, changed: 1_500, total: 1_500,
  });
  const sorted = [...members].sort((one, other) => other.score - one.score || (one.member < other.member ? 1 : -1));
  const rows = sorted.map(({ member }, place) => `${place + 1} ${member}`);
  expect(names(await get("/boards/many/members?limit=1000"))).toEqual(rows.slice(0, 1_000));
  expect(names(await get("/boards/many/members?rank=701&limit=50"))).toEqual(rows.slice(700, 750));
  for (const place of [0, 1, 750, 1_498, 1_499]) {
    const { member, score } = sorted[place];
    const one = await get(`/boards/many/members/${member}`);
    expect(one).toMatchObject({ member, score, rank: place + 1, total: 1_500, exact: true });
    expect(one.percentile).toBeCloseTo((100 * (1_499 - place)) / 1_499, 2);
    expect(names(await get(`/boards/many/members?around=${member}&limit=3`))).toEqual(
      rows.slice(Math.max(0, place - 3), place + 4),
    );
    expect((await get(`/boards/many/members?limit=1&rank=${place + 1}`)).entries).toMatchObject([{ member, score }]);
  }
  const between = sorted.filter(({ score }) => score >= 100 && score <= 200);
  expect(await get("/boards/many/members?limit=0&min=100&max=200")).toMatchObject({
    count: between.length, entries: [],
  });
  expect(await get("/boards/many/members?min=100&max=200&limit=5")).toMatchObject({
    count: between.length, entries: between.slice(0, 5),
  });
  const exported = [];
  for (let cursor = ""; cursor !== null; ) {
    const path = `/boards/many/members?format=ndjson&limit=700${cursor && `&cursor=${cursor}`}`;
    const { text, headers } = await world.call("GET", path);
    exported.push(...text.trimEnd().split("\n").map((line) => JSON.parse(line)));
    cursor = headers.get("tally-cursor");
  }
  expect(names({ entries: exported })).toEqual(rows);
});

test("a cursor stands for a place: who moves away does not take the next page along", async () => {
  for (const [member, score] of [
    ["a", 5], ["b", 4], ["c", 3], ["d", 2],
  ]) {
    await post(`/boards/moves/members/${member}`, { score });
  }
  const first = await get("/boards/moves/members?limit=2");
  expect(names(first)).toEqual(["1 a", "2 b"]);
  await post("/boards/moves/members/b", { score: 9 });
  await world.well("DELETE", "/boards/moves/members/a");
  expect(names(await get(`/boards/moves/members?limit=2&cursor=${first.cursor}`))).toEqual(["2 c", "3 d"]);
});

test("members are changed under a condition, hidden, removed, and found by name", async () => {
  const at = "/boards/friends/members/ann";
  expect(await post(at, { score: 3, metadata: { car: "red" } })).toMatchObject({
    score: 3, previous: null, rank: 1, total: 1,
  });
  const tag = (await world.call("GET", at)).headers.get("etag");
  expect(await post(at, { delta: 2.5 }, { headers: { "If-Match": tag } })).toMatchObject({ score: 5.5, previous: 3 });
  await world.refused(412, "precondition-failed", "POST", at, { body: '{"delta":1}', headers: { "If-Match": tag } });
  await world.refused(412, "precondition-failed", "POST", "/boards/friends/members/eve", {
    body: '{"delta":1}', headers: { "If-Match": "*" },
  });
  await post("/boards/friends/members/bob", { score: 9 });
  expect(await world.well("POST", "/boards/friends/members/bob", { body: '{"hidden":true}' })).toMatchObject({
    score: 9, rank: null, total: 1,
  });
  expect(await get("/boards/friends/members?id=bob&id=ann&id=eve")).toMatchObject({
    entries: [
      { member: "bob", score: 9, rank: null, hidden: true },
      { member: "ann", score: 5.5, rank: 1, metadata: { car: "red" } },
    ],
    absent: ["eve"],
  });
  await world.refused(404, "member-not-found", "GET", "/boards/friends/members?around=bob");
  expect(await world.well("POST", "/boards/friends/members/bob", { body: '{"hidden":false}' })).toMatchObject({
    rank: 1, total: 2,
  });
  expect(await world.well("DELETE", "/boards/friends/members/bob")).toMatchObject({
    score: null, previous: 9, total: 1,
  });
  await world.refused(404, "member-not-found", "GET", "/boards/friends/members/bob");
});

test("a key writes once, a line that is refused costs that line, and a version is reached", async () => {
  const body = '{"member":"ann","delta":1}\n{"member":"bob"}\nno JSON\n{"member":"cat","delta":0.5}';
  await world.well("PUT", "/boards/sums", { body: '{"keep":"sum","scores":"integer"}' });
  const options = { headers: { "Idempotency-Key": "once" } };
  const first = await post("/boards/sums/members", body, options);
  expect(first).toMatchObject({ accepted: 1, rejected: 3, changed: 1, total: 1 });
  expect(first.errors.map(({ line, code }) => `${line} ${code}`)).toEqual([
    "2 invalid-body", "3 invalid-json", "4 invalid-score",
  ]);
  const again = await world.call("POST", "/boards/sums/members", { body, ...options });
  expect([again.status, again.headers.get("idempotency-replayed")]).toEqual([200, "true"]);
  expect(await get(`/boards/sums/members/ann?at_least=${first.version}`)).toMatchObject({ score: 1 });
  const later = first.version.replace(/[0-9a-f]+$/, "fffff");
  await world.refused(504, "version-not-reached", "GET", `/boards/sums/members?at_least=${later}`);
  await world.refused(400, "invalid-body", "POST", "/boards/sums/members/ann", { body: '{"score":1}' });
});

test("a repeat on a board of several shards mixes no rank of now with the first score", async () => {
  await world.well("PUT", "/boards/kept", { body: '{"shards":4,"keep":"sum"}' });
  await until(async () => (await get("/boards/kept")).shards === 4, "four shards");
  const options = { headers: { "Idempotency-Key": "first" } };
  const once = await post("/boards/kept/members/ann", { delta: 5 }, options);
  expect(once).toMatchObject({ score: 5, rank: 1, total: 1, exact: true });
  const lines = '{"member":"bob","delta":9}\n{"member":"cat","delta":8}\n{"member":"dan","delta":7}';
  const many = await post("/boards/kept/members", lines, options);
  expect(many).toMatchObject({ accepted: 3, total: 4, exact: true });
  for (const _ of [1, 2]) {
    const again = await post("/boards/kept/members/ann", { delta: 5 }, options);
    expect(again).toMatchObject({ score: 5, previous: null, rank: null, total: null, exact: false, changed: 1 });
    expect(again.as_of).toBeLessThanOrEqual(once.as_of);
    const all = await post("/boards/kept/members", lines, options);
    expect(all).toMatchObject({ accepted: 3, changed: 3, total: null, exact: false });
    await world.well("DELETE", "/boards/kept/members/ann");
  }
});

test("a repeat on a board of one object is the first answer, after other writes too", async () => {
  const options = { headers: { "Idempotency-Key": "first" } };
  const write = () => post("/boards/one/members/ann", { score: 5 }, options);
  const first = await write();
  expect(first).toMatchObject({ rank: 1, total: 1, exact: true });
  await post("/boards/one/members", '{"member":"bob","score":9}\n{"member":"cat","score":8}');
  expect(await write()).toEqual(first);
  await world.well("DELETE", "/boards/one/members/ann");
  expect(await write()).toEqual(first);
  // A hidden member has no rank. Whether the stored total was exact is not known.
  await post("/boards/one/members/dan", { score: 1 });
  await post("/boards/one/members/dan", { hidden: true });
  const hidden = () => post("/boards/one/members/dan", { score: 2 }, { headers: { "Idempotency-Key": "hidden" } });
  const { score, rank, total, as_of } = await hidden();
  expect([score, rank, total]).toEqual([2, null, 2]);
  await world.well("DELETE", "/boards/one/members/bob");
  const again = await hidden();
  expect(again).toMatchObject({ score: 2, rank: null, total: 2, exact: false });
  expect(again.as_of).toBeLessThanOrEqual(as_of);
});

test("each rejected line of a body is named, also beyond the first hundred", async () => {
  const lines = Array.from({ length: 250 }, (_, index) => {
    const score = index % 2 === 0 ? index : null;
    return index >= 240 ? "no JSON" : JSON.stringify({ member: `m${index}`, score });
  });
  const report = await post("/boards/lines/members", lines.join("\n"));
  expect(report).toMatchObject({ accepted: 120, rejected: 130 });
  expect(report.errors.length).toBe(100);
  const even = Array.from({ length: 120 }, (_, index) => 2 * index + 2).join(",");
  expect(report.rejected_lines).toEqual([
    { code: "invalid-body", count: 120, lines: even }, { code: "invalid-json", count: 10, lines: "241-250" },
  ]);
  const well = await post("/boards/lines/members", '{"member":"m0","score":1}');
  expect(well.rejected_lines).toBeUndefined();
});

test("a board without periods keeps none, not even that of 1970", async () => {
  for (const [board, settings] of [["unending", {}], ["unending-shards", { shards: 2 }]]) {
    await world.well("PUT", `/boards/${board}`, { body: JSON.stringify(settings) });
    await post(`/boards/${board}/members/ann`, { score: 1 });
    for (const period of ["0", "1970-01-01", "60"]) {
      for (const path of ["members", "members/ann", "members?id=ann"]) {
        const join = path.includes("?") ? "&" : "?";
        await world.refused(404, "period-not-found", "GET", `/boards/${board}/${path}${join}period=${period}`);
      }
    }
  }
});

test("settings are refused that would change the order of members, and a full board takes no more", async () => {
  await world.well("PUT", "/boards/small", { body: '{"members_max":1,"order":"asc"}' });
  await post("/boards/small/members/ann", { score: 1 });
  await world.refused(409, "board-full", "POST", "/boards/small/members/bob", { body: '{"score":1}' });
  const fixed = await world.refused(409, "board-settings-fixed", "PUT", "/boards/small", { body: '{"zone":"+02:00"}' });
  expect(fixed.json.detail).toMatch(/^order, zone cannot change/);
  expect(
    (await world.well("PUT", "/boards/small", { body: '{"members_max":2,"order":"asc"}' })).settings,
  ).toMatchObject({ members_max: 2 });
  expect(await post("/boards/small/members/bob", { score: 0 })).toMatchObject({ rank: 1 });
  for (const [field, value] of [
    ["keep", "last"], ["zone", "Europe/Atlantis"], ["members_max", 0], ["archive", 101], ["period", "year"],
    ["shards", 17], ["home", "a b"],
  ]) {
    await world.refused(400, "invalid-body", "PUT", "/boards/other", { body: JSON.stringify({ [field]: value }) });
  }
  for (const score of ['"7"', "null", "1e999"]) {
    const { json } = await world.call("POST", "/boards/small/members/ann", { body: `{"score":${score}}` });
    expect(["invalid-score", "invalid-body", "invalid-json"]).toContain(json.code);
  }
  const large = JSON.stringify({ score: 1, metadata: "x".repeat(1_023) });
  await world.refused(400, "invalid-body", "POST", "/boards/small/members/ann", { body: large });
});

test("keys reach boards by the prefix of their names, and who has none writes only where an entry says so", async () => {
  const keys = {
    keys: [{ name: "game", key: "k".repeat(32), scopes: ["read", "write"], prefix: "game/" }],
    public: [
      { origins: ["*"], scopes: ["read", "write"], prefix: "open/", allow: ["board"] },
      { origins: ["*"], scopes: ["read", "write"], prefix: "shop/" },
    ],
  };
  const closed = await openWorld({ vars: { TALLY_KEYS: JSON.stringify(keys) } });
  try {
    const score = { body: '{"score":1}' };
    const key = { headers: { authorization: `Bearer ${"k".repeat(32)}` } };
    await closed.well("POST", "/boards/game%2Frace/members/ann", { ...score, ...key });
    await closed.refused(403, "forbidden", "POST", "/boards/race/members/ann", { ...score, ...key });
    await closed.refused(403, "forbidden", "DELETE", "/boards/game%2Frace", key);
    await closed.well("GET", "/top?boards=game/race", key);
    await closed.refused(403, "forbidden", "GET", "/top?boards=game/race,race", key);
    expect((await closed.well("GET", "/boards?prefix=game/", key)).entries).toEqual(["game/race"]);
    await closed.well("POST", "/boards/open%2Frace/members/ann", { ...score, clientIp: "203.0.113.9" });
    await closed.refused(401, "unauthorized", "POST", "/boards/shop%2Frace/members/ann", {
      ...score, clientIp: "203.0.113.9",
    });
    await closed.refused(401, "unauthorized", "POST", "/boards/open%2Frace/members/ann", {
      body: '{"hidden":true}', clientIp: "203.0.113.9",
    });
  } finally {
    await closed.close();
  }
});

test("a body of which no line is written is refused by the reason of the first", async () => {
  const body = '{"member":"ann","score":"much"}\n{"member":"bob"}';
  await world.refused(400, "invalid-score", "POST", "/boards/refused/members", { body });
  await world.well("PUT", "/boards/of-one", { body: '{"members_max":1}' });
  await post("/boards/of-one/members", '{"member":"ann","score":1}');
  await world.refused(409, "board-full", "POST", "/boards/of-one/members", { body: '{"member":"bob","score":1}' });
});

test("lines of /events write to boards, besides those that count", async () => {
  const lines = ['{"board":"race","member":"ann","score":7}', '{"id":"laps"}', '{"board":"race","member":"bob","score":9,"metadata":{"car":"red"}}', '{"board":"race","member":"eve"}', '{"board":"race","member":"ann","delta":4,"expires_in_seconds":60}', '{"board":""}', '{"id":"laps","board":"race"}'];
  const options = { body: lines.join("\n"), headers: { "Idempotency-Key": "of-race" } };
  const report = await world.well("POST", "/events", options);
  expect(report).toMatchObject({ accepted: 4, rejected: 3 });
  expect(report.errors.map(({ line, code }) => `${line} ${code}`)).toEqual([
    "4 invalid-body", "6 invalid-id", "7 unknown-field",
  ]);
  const top = await get("/boards/race/members");
  expect(names(top)).toEqual(["1 ann", "2 bob"]);
  expect(top.entries).toMatchObject([{ score: 11 }, { score: 9, metadata: { car: "red" } }]);
  const again = await world.call("POST", "/events", options);
  expect([again.status, again.headers.get("idempotency-replayed")]).toEqual([200, "true"]);
  expect((await get("/boards/race/members/ann")).score).toBe(11);
  expect((await get("/counters/laps")).value).toBe(1);
  await world.well("PUT", "/boards/whole", { body: '{"scores":"integer"}' });
  const body = '{"board":"whole","member":"ann","score":1}\n{"board":"whole","member":"bob","score":1.5}';
  const refused = await world.well("POST", "/events", { body });
  expect(refused).toMatchObject({ accepted: 1, rejected: 1, errors: [{ line: 2, code: "invalid-score" }] });
});

test("what is asked or written wrongly is refused by its name, and nothing has changed", async () => {
  await post("/boards/wrong/members/ann", { score: 1, metadata: { kept: true } });
  const before = await get("/boards/wrong/members/ann");
  const many = Array.from({ length: 101 }, (_, index) => `id=m${index}`).join("&");
  const reads = [
    ...[
      "members?limit=-1", "members?limit=1001", "members?limit=x", "members?period=x", "members?consistency=2",
      "members?exact=1", "members?at_least=x", "members?limit=1&limit=2",
    ],
    ...[
      "members?rank=0", "members?rank=x", "members?cursor=x", "members?rank=0&cursor=x", `members?${many}`,
      "members?around=ann&limit=101", "members?around=ann&limit=-1", "members?around=ann&rank=1",
      "members?id=ann&limit=1",
    ],
    ...[
      "members?min=x", "members?max=nan", "members?min=2&max=1", "members?min=1&rank=2", "members?format=csv",
      "members?format=ndjson&limit=10001", "members?format=ndjson&cursor=x", "members?format=ndjson&min=1",
    ],
  ];
  for (const path of reads) await world.refused(400, "invalid-query", "GET", `/boards/wrong/${path}`);
  for (const query of ["limit=1", "include=", "include=members", "include=periods&include=periods"]) {
    await world.refused(400, "invalid-query", "GET", `/boards/wrong?${query}`);
  }
  await world.refused(404, "period-not-found", "GET", "/boards/wrong/members?period=1");
  for (const path of [
    "", "/members", "/members/ann", "/members?around=ann", "/members?id=ann", "/members?min=1&limit=0",
    "/members?rank=1", "?include=periods", "/members?format=ndjson",
  ]) {
    await world.refused(404, "board-not-found", "GET", `/boards/none${path}`);
  }
  await world.refused(404, "board-not-found", "DELETE", "/boards/none");
  await world.refused(404, "member-not-found", "GET", "/boards/wrong/members/bob");
  const write = (code, body, headers = {}) =>
    world.refused(code === "precondition-failed" ? 412 : 400, code, "POST", "/boards/wrong/members/ann", {
      body, headers,
    });
  for (const body of [
    '{"score":1,"delta":1}', "{}", '{"metadata":1}', '{"score":1,"expires_in_seconds":0}',
    '{"score":1,"expires_in_seconds":1.5}',
    '{"score":1,"expires_in_seconds":1e12}', '{"score":1,"member":"ann"}', '{"score":1,"board":"b"}',
  ]) {
    await write("invalid-body", body);
  }
  for (const body of ['{"score":"1"}', '{"score":true}', '{"delta":[]}']) await write("invalid-score", body);
  await write("unknown-field", '{"score":1,"points":2}');
  for (const body of ["", "{", '{"score":01}']) await write("invalid-json", body);
  await write("invalid-precondition", '{"score":2}', { "If-Match": "x" });
  await write("invalid-precondition", '{"score":2}', { "If-None-Match": "*" });
  await write("precondition-failed", '{"score":2}', { "If-Match": '"0000000000000000"' });
  const { json: wrong } = await world.refused(400, "invalid-id", "POST", `/boards/wrong/members/${"x".repeat(513)}`, {
    body: '{"score":1}',
  });
  expect([wrong.title, wrong.detail]).toEqual([
    "An id or a name is not valid", "`member` has at most 512 bytes of UTF-8, this one has 513",
  ]);
  await world.refused(400, "invalid-body", "POST", "/boards/wrong/members", { body: "\n\n" });
  await world.refused(413, "body-too-large", "POST", "/boards/wrong/members", {
    body: '{"member":"a","score":1}\n'.repeat(10_001),
  });
  for (const body of ["{}", '{"hidden":1}']) {
    await world.refused(400, "invalid-body", "POST", "/boards/wrong/members/ann", { body });
  }
  expect(
    await post("/boards/wrong/members", '{"member":"bob","score":"x"}\n{"member":"cat","score":3}\n{"score":4}\nx'),
  ).toMatchObject({ accepted: 1, rejected: 3 });
  expect(await get("/boards/wrong/members/ann")).toMatchObject({
    score: before.score, metadata: { kept: true }, rank: 2, total: 2,
  });
});

test("several boards are read as one, and a member has its rank among all of them", async () => {
  for (const [board, members] of Object.entries({ eu: { ann: 5, bob: 9 }, us: { ann: 7, cat: 9, dan: 1 } })) {
    for (const [member, score] of Object.entries(members)) await post(`/boards/${board}/members/${member}`, { score });
  }
  const answer = await get("/top?boards=us,eu,asia&limit=4&member=ann");
  expect(answer).toMatchObject({
    entries: [
      { board: "us", member: "cat", score: 9, rank: 1 },
      { board: "eu", member: "bob", score: 9, rank: 1 },
      { board: "us", member: "ann", score: 7, rank: 3 },
      { board: "eu", member: "ann", score: 5, rank: 4 },
    ],
    members: [
      { board: "us", member: "ann", score: 7, rank: 3, percentile: 50 },
      { board: "eu", member: "ann", score: 5, rank: 4, percentile: 25 },
    ],
    boards: [{ board: "us", total: 3, exact: true }, { board: "eu", total: 2, exact: true }],
    absent: ["asia"], missing_boards: [], total: 5, exact: true,
  });
  expect((await get("/top?boards=eu,us&member=nobody&limit=1")).members).toEqual([]);
  await world.well("PUT", "/boards/golf", { body: '{"order":"asc"}' });
  const { json } = await world.refused(409, "boards-differ", "GET", "/top?boards=eu,golf");
  expect(json.detail).toContain('"golf"');
  await world.refused(404, "board-not-found", "GET", "/top?boards=asia,africa");
  await world.refused(404, "period-not-found", "GET", "/top?boards=eu&period=1");
  const many = Array.from({ length: 17 }, (_, index) => `b${index}`).join(",");
  for (const query of [`=${many}`, "=eu,eu", "=eu&limit=1001", "=eu&x=1", "=eu&cursor=x"]) {
    await world.refused(400, "invalid-query", "GET", `/top?boards${query}`);
  }
  for (const query of ["boards=", "boards=eu,,us"]) {
    await world.refused(400, "invalid-id", "GET", `/top?${query}`);
  }
  // A board may have any name.
  await post("/boards/top/members/ann", { score: 1 });
  expect(await get("/boards/top")).toMatchObject({ board: "top", total: 1 });
  expect(await get("/top?boards=top")).toMatchObject({ entries: [{ board: "top", member: "ann", rank: 1 }] });
  await world.well("DELETE", "/boards/top");
});

test("a rank may be approximate, and its error is told", async () => {
  await world.well("PUT", "/boards/spread", { body: '{"shards":3}' });
  await until(async () => (await get("/boards/spread")).shards === 3, "its shards");
  const lines = Array.from({ length: 2_000 }, (_, score) => `{"member":"m${score}","score":${score}}`).join("\n");
  await post("/boards/spread/members", lines);
  for (const score of [0, 7, 1_000, 1_999]) {
    const { rank, error, percentile, percentile_error } = await get(`/boards/spread/members/m${score}?approximate=1`);
    expect(Math.abs(rank - (2_000 - score))).toBeLessThanOrEqual(error);
    expect(Math.abs(percentile - (score / 1_999) * 100)).toBeLessThanOrEqual(percentile_error + 0.002);
  }
  await post("/boards/whole-one/members/ann", { score: 1 });
  expect(await get("/boards/whole-one/members/ann?approximate=1")).toMatchObject({
    rank: 1, error: 0, percentile_error: 0,
  });
  for (const query of ["approximate=0", "approximate=1&consistency=strong", "approximate=1&period=1"]) {
    await world.refused(400, "invalid-query", "GET", `/boards/spread/members/m1?${query}`);
  }
  await world.refused(404, "member-not-found", "GET", "/boards/spread/members/nobody?approximate=1");
});

const bytesOrder = (one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other));

for (const [order, ties, shards] of ["desc", "asc"].flatMap((order) =>
  ["member", "first", "shared"].flatMap((ties) => [1, 3].map((shards) => [order, ties, shards])),
)) {
  test(`a board of ${shards} with order ${order} and ties ${ties} is read alike in every way, at both ends`, async () => {
    const at = `/boards/${order}-${ties}-${shards}`;
    await world.well("PUT", at, { body: JSON.stringify({ order, ties, shards }) });
    await until(async () => (await get(at)).shards === shards, "its shards");
    const random = randomFrom(SEED);
    const known = new Map();
    for (let write = 0; write < 40; write += 1) {
      const [member, score] = [`m${Math.floor(random() * 24)}`, Math.floor(random() * 6) / 2];
      const answer = await post(`${at}/members/${member}`, { score });
      expect(answer).toMatchObject({ score, previous: known.get(member)?.score ?? null, exact: true });
      if (known.get(member)?.score !== score) known.set(member, { member, score, write });
      // Whoever was first is told by clocks.
      await world.advance(20);
    }
    const sign = order === "desc" ? -1 : 1;
    const better = (one, other) => sign * (one.score - other.score);
    const tied = (one, other) =>
      ties === "first" ? one.write - other.write : sign * bytesOrder(one.member, other.member);
    const sorted = [...known.values()].sort((one, other) => better(one, other) || tied(one, other));
    const rank = (row, place) =>
      ties === "shared" ? 1 + sorted.filter((other) => better(other, row) < 0).length : place + 1;
    const rows = sorted.map((row, place) => ({ member: row.member, score: row.score, rank: rank(row, place) }));
    const total = rows.length;
    const whole = await get(`${at}/members?limit=${total}`);
    expect(whole).toMatchObject({ entries: rows, total, exact: true, cursor: null });
    expect((await get(`${at}/members?limit=1`)).entries).toEqual(rows.slice(0, 1));
    for (const [place, row] of rows.entries()) {
      expect(await get(`${at}/members/${row.member}`)).toMatchObject({ ...row, total });
      expect((await get(`${at}/members?around=${row.member}&limit=2`)).entries, row.member).toEqual(
        rows.slice(Math.max(0, place - 2), place + 3),
      );
      expect((await get(`${at}/members?rank=${place + 1}&limit=2`)).entries).toEqual(rows.slice(place, place + 2));
    }
    expect((await get(`${at}/members?rank=${total + 1}`)).entries).toEqual([]);
    const names = rows.map(({ member }) => member);
    expect(
      await get(
        `${at}/members?${names
          .toReversed()
          .map((member) => `id=${member}`)
          .join("&")}&id=none`,
      ),
    ).toMatchObject({ entries: rows.toReversed(), absent: ["none"] });
    const within = rows.filter(({ score }) => score >= 0.5 && score <= 1.5);
    expect(await get(`${at}/members?min=0.5&max=1.5`)).toMatchObject({ entries: within, count: within.length });
    expect((await get(`${at}/members?limit=0&max=0.5`)).count).toBe(rows.filter(({ score }) => score <= 0.5).length);
    expect((await get(`${at}/members?limit=0&min=9`)).count).toBe(0);
    const paged = async (path, limit) => {
      const all = [];
      for (let cursor = ""; cursor !== null; ) {
        const page = await get(`${at}/${path}limit=${limit}${cursor && `&cursor=${cursor}`}`);
        all.push(...page.entries);
        cursor = page.cursor;
      }
      return all;
    };
    expect(await paged("members?", 5)).toEqual(rows);
    expect(await paged("members?min=0.5&max=1.5&", 3)).toEqual(within);
    const { text } = await world.call("GET", `${at}/members?format=ndjson`);
    expect(text.trim().split("\n").map((line) => JSON.parse(line))).toEqual(rows);
  });
}

test("a board has a zone with summer time, a home and shards", async () => {
  const { settings, shards } = await world.well("PUT", "/boards/far", { body: '{"period":"week","zone":"Europe/Berlin","shards":3,"home":"SYD","archive":2}' });
  expect(settings).toMatchObject({ zone: "Europe/Berlin", shards: 3, home: "SYD" });
  // What is taken is as described.
  const zones = ["UTC", "America/New_York", "America/Argentina/Rio_Gallegos", "America/Port-au-Prince", "-03:30"];
  for (const [index, zone] of zones.entries()) {
    expect(faults(API.components.schemas.BoardSettings, { zone }), zone).toEqual([]);
    const body = JSON.stringify({ period: "day", zone });
    expect((await world.well("PUT", `/boards/zone-${index}`, { body })).settings).toMatchObject({ zone });
  }
  for (const zone of ["utc", "Berlin", "+15:00", ""]) {
    expect(faults(API.components.schemas.BoardSettings, { zone }), zone).not.toEqual([]);
    await world.refused(400, "invalid-body", "PUT", "/boards/zone", { body: JSON.stringify({ zone }) });
  }
  expect([1, 3]).toContain(shards);
  await until(async () => (await get("/boards/far")).shards === 3, "three shards");
  const members = Array.from({ length: 400 }, (_, index) => ({ member: `m${index}`, score: (index * 7919) % 100 }));
  await post("/boards/far/members", members.map((member) => JSON.stringify(member)).join("\n"));
  const sorted = [...members].sort((one, other) => other.score - one.score || (one.member < other.member ? 1 : -1));
  const rows = sorted.map(({ member }, place) => `${place + 1} ${member}`);
  expect(names(await get("/boards/far/members?rank=101&limit=50&consistency=strong"))).toEqual(rows.slice(100, 150));
  const one = await post(`/boards/far/members/${sorted[200].member}`, { score: 1_000 });
  expect(one).toMatchObject({ rank: 1, total: 400, exact: true });
  expect((await get(`/boards/far/members?limit=1&at_least=${one.version}`)).entries).toMatchObject([
    { member: sorted[200].member, rank: 1 },
  ]);
});

test("a stream tells the first members of a board and one of them", async () => {
  await post("/boards/seen/members/ann", { score: 5 });
  await post("/boards/seen/members/bob", { score: 7 });
  const watcher = await watch(world, "/live?board=seen&top=1&member=ann&id=a");
  await until(() => watcher.boards.seen, "the board");
  expect(watcher.boards.seen).toMatchObject({
    top: [{ member: "bob", score: 7, rank: 1 }], member: { member: "ann", rank: 2, percentile: 0 }, total: 2,
    exact: true, reachable: true,
  });
  expect(watcher.counters).toEqual({ a: null });
  await post("/boards/seen/members/ann", { score: 9 });
  await until(() => watcher.boards.seen.member.rank === 1, "ann before bob");
  expect(watcher.boards.seen.top).toMatchObject([{ member: "ann", score: 9 }]);
  await world.well("DELETE", "/boards/seen");
  await until(() => watcher.boards.seen === null, "the end of the board");
  watcher.close();
  const socket = await connect(world, "/live?board=seen");
  await until(() => socket.boards.seen === null, "no board");
  await post("/boards/seen/members/eve", { score: 1 });
  await until(() => socket.boards.seen?.top.length === 1, "eve");
  socket.close();
});

test("many who watch a member of one board each are one read a second", async () => {
  const players = Array.from({ length: 40 }, (_, index) => `p${index}`);
  await post("/boards/crowd/members", players.map((member, score) => JSON.stringify({ member, score })).join("\n"));
  const watchers = [];
  for (const member of players) watchers.push(await watch(world, `/live?board=crowd&top=3&member=${member}`));
  const seen = () =>
    watchers.every(
      ({ boards }, index) => boards.crowd?.member?.member === players[index] && boards.crowd.top.length === 3,
    );
  await until(seen, "all members");
  const before = await liveMetrics(world);
  for (let second = 0; second < 10; second += 1) {
    await post("/boards/crowd/members/p0", { score: 100 + second });
    await world.advance(1_000);
  }
  await until(() => watchers.every(({ boards }) => boards.crowd.top[0].score === 109), "the last score");
  const { reads } = await liveMetrics(world);
  expect(reads - before.reads).toBeGreaterThanOrEqual(8);
  expect(reads - before.reads).toBeLessThan(40);
  for (const watcher of watchers) watcher.close();
});
