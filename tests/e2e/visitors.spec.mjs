// Visitors: told apart for a day by a salted hash of address and user agent, which is kept nowhere; bots left out and
// counted apart.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { openWorld } from "./world.mjs";

let world;
let folder;
afterEach(async () => {
  await world?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
  world = folder = undefined;
});

const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const SAFARI = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.4 Safari/605.1.15";
const BOT = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
const from = (address, agent = FIREFOX) => ({ headers: { "cf-connecting-ip": address, "user-agent": agent } });
const auto = { unique: "auto" };
const uniques = async (id) => (await world.strong(id)).uniques?.estimate ?? 0;

test("visitors are told apart by address and user agent, in increments and beacons", async () => {
  world = await openWorld();
  await world.add("a", auto, from("203.0.113.9"));
  await world.add("a", auto, from("203.0.113.9"));
  expect(await world.strong("a")).toMatchObject({ value: 2, uniques: { estimate: 1 } });
  await world.add("a", auto, from("203.0.113.9", SAFARI));
  await world.add("a", auto, from("203.0.113.10"));
  // A device changes the lower half of its IPv6 address all day.
  await world.add("a", auto, from("2001:db8:1:2:aaaa::1"));
  await world.add("a", auto, from("2001:db8:1:2:bbbb::2"));
  await world.add("a", auto, from("2001:db8:1:3::1"));
  expect(await uniques("a")).toBe(5);
  const beacon = from("203.0.113.11");
  beacon.headers["content-type"] = "text/plain";
  await world.add("a", JSON.stringify(auto), beacon);
  expect(await uniques("a")).toBe(6);
  // The same visitors of two counters are the same.
  await world.add("b", auto, from("203.0.113.9"));
  expect(await world.well("GET", "/uniques?id=a&id=b&consistency=strong")).toMatchObject({ estimate: 6 });
});

test("without an address nothing is counted, and who must do what is said", async () => {
  // Miniflare's front writes an address into every request; what is called behind it has none.
  world = await openWorld({ edges: 2 });
  const options = { body: JSON.stringify(auto), headers: { "user-agent": FIREFOX }, edge: 1 };
  const { json } = await world.refused(400, "no-client-address", "POST", "/counters/a/increment", options);
  expect(json.detail).toContain("TALLY_CLIENT_ADDRESS_HEADER");
  const keyed = { ...options, headers: { ...options.headers, "idempotency-key": "1" } };
  await world.refused(400, "no-client-address", "POST", "/counters/a/increment", keyed);
  await world.refused(404, "counter-not-found", "GET", "/counters/a");
});

test("on plain workerd the address is the connection's, whatever headers say, unless a proxy on the machine is forgotten", async () => {
  world = await openWorld({ edges: 2 });
  const connected = (clientIp, headers = {}) => ({ clientIp, edge: 1, headers: { "user-agent": FIREFOX, ...headers } });
  await world.add("a", auto, connected("203.0.113.9:46402"));
  await world.add("a", auto, connected("203.0.113.9:46403", { "cf-connecting-ip": "6.6.6.6" }));
  await world.add("a", auto, connected("203.0.113.9:46404", { "x-forwarded-for": "7.7.7.7" }));
  expect(await uniques("a")).toBe(1);
  await world.add("a", auto, connected("127.0.0.1:46405"));
  expect(await uniques("a")).toBe(2);
  const behind = connected("127.0.0.1:46406", { "x-forwarded-for": "203.0.113.10" });
  const { json } = await world.refused(400, "no-client-address", "POST", "/counters/a/increment", {
    body: JSON.stringify(auto), ...behind,
  });
  expect(json.detail).toContain("x-forwarded-for");
});

test("the header of one's own proxy is trusted once it is named, and then no other", async () => {
  world = await openWorld({ edgeVars: { TALLY_CLIENT_ADDRESS_HEADER: "X-Forwarded-For" } });
  const behind = (list, more = {}) => ({ headers: { "x-forwarded-for": list, "user-agent": FIREFOX, ...more } });
  await world.add("a", auto, behind("203.0.113.9"));
  // What comes before the proxy's own word anybody can write, and so any other header.
  await world.add("a", auto, behind("6.6.6.6, 203.0.113.9"));
  await world.add("a", auto, behind("203.0.113.9", { "cf-connecting-ip": "7.7.7.7" }));
  expect(await uniques("a")).toBe(1);
  for (const options of [from("203.0.113.9"), behind("unknown")]) {
    const { json } = await world.refused(400, "no-client-address", "POST", "/counters/a/increment", {
      body: JSON.stringify(auto), ...options,
    });
    expect(json.detail).toContain("X-Forwarded-For");
  }
});

test("a server says who its visitors are, in increments and in lines, both address and user agent", async () => {
  world = await openWorld();
  const visitor = { unique: "auto", ip: "203.0.113.9", user_agent: FIREFOX };
  // The server's own user agent is no browser's, and its address is nobody's.
  await world.add("a", visitor, { headers: { "user-agent": "python-requests/2.32" } });
  await world.add("a", auto, from("203.0.113.9"));
  const line = (more) => ({ id: "a", ...visitor, ...more });
  const lines = [
    line(), line({ ip: "203.0.113.10" }), line({ idempotency_key: "1", ip: "203.0.113.11" }), line({ user_agent: BOT }),
    line({ user_agent: BOT, bots: "count" }),
  ];
  const report = await world.well("POST", "/events", { body: JSON.stringify(lines) });
  expect(report).toEqual({ accepted: 4, rejected: 0, bots_ignored: 1, errors: [] });
  expect(await world.strong("a")).toMatchObject({ value: 6, uniques: { estimate: 4 } });
  expect(await world.metric("tally_bots_ignored_total")).toBe(1);
});

test("a line that lacks what it needs costs that line only", async () => {
  world = await openWorld();
  const lines = [
    { id: "a", unique: "auto" },
    { id: "a", unique: "auto", ip: "203.0.113.9" },
    { id: "a", unique: "auto", ip: "here", user_agent: FIREFOX },
    { id: "a", unique: "bob", ip: "203.0.113.9" },
    { id: "a", bots: "ignore" },
    { id: "a", bots: "sometimes", user_agent: FIREFOX },
    { id: "a", bots: "ignore", user_agent: FIREFOX },
  ];
  const body = lines.map((line) => JSON.stringify(line)).join("\n");
  const report = await world.well("POST", "/events", { body, ...from("203.0.113.9") });
  expect([report.accepted, report.errors.map(({ line, code }) => [line, code])]).toEqual([
    1,
    [1, 2, 3, 4, 5, 6].map((line) => [line, "invalid-body"]),
  ]);
  const log = '{"path":"/","unique":"auto"}';
  const { json } = await world.refused(400, "invalid-body", "POST", "/ingest?format=ndjson", { body: log });
  expect(json.errors[0].detail).toContain("/events");
  for (const wrong of [
    { bots: "never" }, { unique: "auto", ip: "203.0.113.9" }, { ip: "203.0.113.9" }, { user_agent: "x" },
    { unique: "auto", ip: "x", user_agent: "x" },
  ]) {
    await world.refused(400, "invalid-body", "POST", "/counters/a/increment", {
      body: JSON.stringify(wrong), ...from("203.0.113.9"),
    });
  }
  expect(await world.strong("a")).toMatchObject({ value: 1, uniques: null });
});

test("a bot's write changes nothing, is answered well and counted apart, unless it is to be counted", async () => {
  world = await openWorld();
  await world.add("a", auto, from("203.0.113.9"));
  const before = await world.strong("a");
  expect(await world.add("a", auto, from("203.0.113.9", BOT))).toEqual({ id: "a", delta: 0, status: "bot-ignored" });
  expect(await world.add("a", { delta: 5, bots: "ignore" }, from("203.0.113.9", "curl/8.7.1"))).toMatchObject({
    status: "bot-ignored",
  });
  expect(await world.subtract("a", { bots: "ignore" }, from("203.0.113.9", BOT))).toMatchObject({
    status: "bot-ignored",
  });
  // Browsers name themselves.
  expect(await world.add("a", auto, from("203.0.113.9", ""))).toMatchObject({ status: "bot-ignored" });
  const { value, version, uniques } = await world.strong("a");
  expect({ value, version, uniques }).toEqual({
    value: before.value, version: before.version, uniques: before.uniques,
  });
  expect(await world.metric("tally_bots_ignored_total")).toBe(4);
  expect(await world.metric('tally_acknowledged_total{operation="increment"}')).toBe(1);
  // Without `auto` a bot counts, as it always has.
  await world.add("a", {}, from("203.0.113.9", BOT));
  await world.add("a", { ...auto, bots: "count" }, from("203.0.113.9", BOT));
  expect(await world.strong("a")).toMatchObject({ value: 3, uniques: { estimate: 2 } });
});

test("a pixel counts visitors too, and no bots", async () => {
  world = await openWorld();
  for (const options of [from("203.0.113.9"), from("203.0.113.9"), from("203.0.113.10"), from("203.0.113.11", BOT)]) {
    expect((await world.call("GET", "/pixel/a.gif?unique=auto", options)).status).toBe(200);
  }
  expect(await world.strong("a")).toMatchObject({ value: 3, uniques: { estimate: 2 } });
  expect(await world.metric("tally_bots_ignored_total")).toBe(1);
});

test("a pixel of a visitor without an address counts the view, and still no bots", async () => {
  world = await openWorld({ edges: 2 });
  const behind = (userAgent) => ({
    clientIp: "127.0.0.1:46406", edge: 1,
    headers: { "user-agent": userAgent, "x-forwarded-for": "203.0.113.10" },
  });
  for (const userAgent of [FIREFOX, FIREFOX, BOT]) {
    const { status, headers } = await world.call("GET", "/pixel/a.gif?unique=auto", behind(userAgent));
    expect([status, headers.get("content-type")]).toEqual([200, "image/gif"]);
  }
  const { value, uniques: found } = await world.strong("a");
  expect([value, found?.estimate ?? 0]).toEqual([2, 0]);
  await world.refused(400, "no-client-address", "GET", "/hit/a?unique=auto", behind(FIREFOX));
});

test("a keyed write counts its visitor once, also if the retry comes from another address", async () => {
  world = await openWorld();
  const keyed = (address) => ({ headers: { ...from(address).headers, "idempotency-key": "view-1" } });
  const body = JSON.stringify(auto);
  const first = await world.call("POST", "/counters/a/increment", { body, ...keyed("203.0.113.9") });
  const again = await world.call("POST", "/counters/a/increment", { body, ...keyed("203.0.113.9") });
  expect([first.status, again.status, again.headers.get("idempotency-replayed")]).toEqual([200, 200, "true"]);
  expect(await world.strong("a")).toMatchObject({ value: 1, uniques: { estimate: 1 } });
  // It asks for the same, so it is the same write.
  const moved = await world.call("POST", "/counters/a/increment", { body, ...keyed("203.0.113.10") });
  expect([moved.status, moved.json.value]).toEqual([200, 1]);
});

test("visitors stay the same when all objects and the edge forget, and in other isolates", async () => {
  world = await openWorld({ edges: 2 });
  await world.add("a", auto, from("203.0.113.9"));
  await world.evict();
  await world.add("a", auto, { ...from("203.0.113.9"), edge: 1, colo: "NRT" });
  expect(await uniques("a")).toBe(1);
});

test("without the directory visitors wait, and everything else is counted by the key that is known or set", async () => {
  for (const key of [undefined, "0123456789abcdef0123456789abcdef"]) {
    world = await openWorld({ faults: true, edgeVars: { TALLY_HASH_KEY: key } });
    // The key is learned before, if it is not set.
    await world.add("known", { unique: "bob" });
    world.fail(({ path }) => (path === "/secrets" ? "before" : undefined));
    const body = JSON.stringify(auto);
    await world.refused(503, "unavailable", "POST", "/counters/a/increment", { body, ...from("203.0.113.9") });
    const visitor = { id: "a", unique: "auto", ip: "203.0.113.9", user_agent: FIREFOX };
    const lines = [{ id: "a", unique: "bob" }, visitor, { id: "a" }, { id: "a", idempotency_key: "1" }];
    const report = await world.well("POST", "/events", { body: JSON.stringify(lines) });
    const refused = key === undefined ? [2] : [2, 4];
    expect(report.errors.map(({ line, code }) => [line, code])).toEqual(refused.map((line) => [line, "unavailable"]));
    expect(await world.strong("a")).toMatchObject({ value: report.accepted, uniques: { estimate: 1 } });
    world.mend();
    await world.add("a", auto, from("203.0.113.9"));
    expect(await world.strong("a")).toMatchObject({ value: report.accepted + 1, uniques: { estimate: 2 } });
    await world.close();
  }
  world = undefined;
});

// Everything that was ever written, as it lies on disk: databases and their logs.
function bytesOf(path) {
  return readdirSync(path, { withFileTypes: true }).flatMap((entry) => {
    const within = join(path, entry.name);
    return entry.isDirectory() ? bytesOf(within) : [readFileSync(within)];
  });
}

test("no address, no user agent and no element is on disk, in metrics or in an answer", async () => {
  folder = mkdtempSync(join(tmpdir(), "tally-visitors-"));
  world = await openWorld({ folder });
  const addresses = ["203.0.113.77", "2001:db8:77:88::99"];
  const agent = "Mozilla/5.0 (Visitorland; rv:140.0) Gecko/20100101 Firefox/140.0";
  const answers = [];
  for (const address of addresses) {
    const { headers } = from(address, agent);
    answers.push(await world.call("POST", "/counters/kept-id/increment", { body: JSON.stringify(auto), headers }));
    answers.push(
      await world.call("POST", "/counters/kept-id/increment", {
        body: JSON.stringify(auto), headers: { ...headers, "idempotency-key": address },
      }),
    );
    const line = { id: "kept-id", unique: "auto", ip: address, user_agent: agent, idempotency_key: `line ${address}` };
    answers.push(
      await world.call("POST", "/events", {
        body: JSON.stringify(line), headers: { "idempotency-key": `body-${address}` },
      }),
    );
    answers.push(await world.call("POST", "/counters/kept-id/increment", { body: '{"unique":"element-77"}' }));
  }
  answers.push(await world.call("GET", "/counters/kept-id?consistency=strong&explain=1"));
  answers.push(await world.call("GET", "/metrics"));
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
  await world.close();
  const output = answers.map(({ text }) => text).join("\n") + world.errors.join("\n");
  world = undefined;
  const disk = Buffer.concat(bytesOf(folder));
  // What is searched for would be found: the counter's id is.
  expect(disk.includes("kept-id")).toBe(true);
  const network = Buffer.from("20010db800770088", "hex");
  for (const secret of [...addresses, agent, "Visitorland", "element-77", "113.77", "77:88", network]) {
    expect(disk.includes(secret), `${secret} on disk`).toBe(false);
  }
  for (const secret of [...addresses, agent, "element-77"]) expect(output).not.toContain(secret);
});
