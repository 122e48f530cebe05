// Alerts on plain workerd, as `make serve` runs it: what a receiver gets over HTTP, that its signature is right, and
// that nobody is led elsewhere by a redirect.
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { Server } from "../../crash/server.mjs";

const KEY = Buffer.from("0123456789abcdef0123456789abcdef");
const SECRET = `whsec_${KEY.toString("base64")}`;
// A look a minute, or each 10 s; the first at once.
const WAIT = { timeout: 60_000, interval: 50 };

let folder, server, receiver, url;
const requests = [];

/** A receiver: keeps what it gets. Below /away it redirects, below /broken it fails. */
async function listen() {
  const listening = createServer((request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", () => {
      requests.push({
        method: request.method, path: request.url, headers: request.headers, body: Buffer.concat(parts).toString(),
      });
      if (request.url === "/away") return response.writeHead(302, { location: "/elsewhere" }).end("go there");
      if (request.url === "/away-for-good") return response.writeHead(308, { location: "/elsewhere" }).end();
      if (request.url === "/broken") return response.writeHead(500).end("not now");
      response.writeHead(200).end("x".repeat(100_000));
    });
  });
  listening.listen(0, "127.0.0.1");
  await once(listening, "listening");
  return listening;
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tally-alerts-"));
  receiver = await listen();
  server = new Server({ folder, variables: { TALLY_ALERTS_ALLOW: '["127.0.0.1"]', TALLY_DATACENTERS: "one" } });
  await server.start();
  url = server.urls[0];
});
afterAll(async () => {
  await server?.end();
  receiver?.close();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => requests.splice(0));

const at = (path) => `http://127.0.0.1:${receiver.address().port}${path}`;

async function call(method, path, body) {
  const answer = await fetch(`${url}${path}`, { method, body: body && JSON.stringify(body) });
  return { status: answer.status, json: await answer.json() };
}

async function well(method, path, body) {
  const { status, json } = await call(method, path, body);
  expect([status < 300, json], `${method} ${path}`).toEqual([true, json]);
  return json;
}

const put = (name, webhook, counter = name) =>
  well("PUT", `/alerts/${name}`, { counter, when: { value: { above: 10 } }, webhook: at(webhook), secret: SECRET });

function checked({ headers, body }) {
  const { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature } = headers;
  expect(signature).toBe(`v1,${createHmac("sha256", KEY).update(`${id}.${timestamp}.${body}`).digest("base64")}`);
  expect(Math.abs(Date.now() / 1000 - Number(timestamp))).toBeLessThan(60);
  expect(headers["content-type"]).toBe("application/json");
  const json = JSON.parse(body);
  expect(json.id).toBe(id);
  return json;
}

test("a receiver is told that it fires and that it is over, signed", async () => {
  await well("POST", "/counters/sold/increment", { delta: 11 });
  await put("sold", "/hook?key=1");
  await expect.poll(() => requests.length, WAIT).toBe(1);
  expect(requests[0]).toMatchObject({ method: "POST", path: "/hook?key=1" });
  const firing = checked(requests[0]);
  expect(firing).toMatchObject({
    alert: "sold", state: "firing", counter: "sold", value: 11, threshold: 10, exact: true,
  });
  await expect.poll(async () => (await well("GET", "/alerts/sold")).last_delivery?.outcome, WAIT).toBe("delivered");
  expect(await well("GET", "/alerts/sold")).toMatchObject({
    state: "firing", value: 11, last_delivery: { status: 200, attempts: 1 },
  });
  // It is near: the next look is within 10 s.
  await well("POST", "/counters/sold/decrement", { delta: 1 });
  await expect.poll(() => requests.length, WAIT).toBe(2);
  const resolved = checked(requests[1]);
  expect(resolved).toMatchObject({ state: "resolved", incident: firing.incident, value: 10 });
  expect(resolved.id).not.toBe(firing.id);
});

test("a redirect is not followed, and said", async () => {
  for (const [path, status] of [["/away", 302], ["/away-for-good", 308]]) {
    await put("led", path);
    requests.splice(0);
    const delivery = await well("POST", "/alerts/led/test");
    expect(delivery).toMatchObject({
      state: "test", outcome: "given_up", status, why: expect.stringContaining("not followed"),
    });
    expect(requests.map((one) => one.path)).toEqual([path]);
  }
});

test("a test tells what the receiver answered, or that nobody is there", async () => {
  await put("tried", "/hook");
  expect(await well("POST", "/alerts/tried/test")).toMatchObject({ outcome: "delivered", status: 200 });
  expect(checked(requests[0])).toMatchObject({ state: "test", alert: "tried" });
  await put("tried", "/broken");
  expect(await well("POST", "/alerts/tried/test")).toMatchObject({
    outcome: "given_up", status: 500, why: "the receiver answered 500",
  });
  const nobody = createServer().listen(0, "127.0.0.1");
  await once(nobody, "listening");
  const { port } = nobody.address();
  nobody.close();
  await well("PUT", "/alerts/tried", {
    counter: "tried", when: { value: { above: 10 } },
    webhook: `http://127.0.0.1:${port}/`,
  });
  const delivery = await well("POST", "/alerts/tried/test");
  expect(delivery).toMatchObject({
    outcome: "given_up", status: null, why: expect.stringContaining("cannot be reached"),
  });
  const { entries: deliveries } = await well("GET", "/alerts/tried/deliveries");
  expect(deliveries.map(({ outcome }) => outcome)).toEqual(["given_up", "given_up", "delivered"]);
});

test("it is tried again with one id, also after workerd was killed", async () => {
  await well("POST", "/counters/kept/increment", { delta: 11 });
  await put("kept", "/broken");
  await expect.poll(() => requests.length, WAIT).toBe(1);
  await server.kill();
  await server.start();
  url = server.urls[0];
  // Where it is tried next is asked when it is.
  await well("PUT", "/alerts/kept", { counter: "kept", when: { value: { above: 10 } }, webhook: at("/hook") });
  await expect.poll(() => requests.some(({ path }) => path === "/hook"), WAIT).toBe(true);
  const ids = new Set(requests.map(({ headers }) => headers["webhook-id"]));
  expect(ids.size).toBe(1);
  requests.forEach(checked);
});

test("inner addresses that are not allowed are refused", async () => {
  for (const webhook of [
    "http://localhost/",
    "https://10.0.0.1/",
    "https://127.1/",
    "http://127.0.0.2/",
    "https://[::1]/",
  ]) {
    const { status, json } = await call("PUT", "/alerts/inner", {
      counter: "a", when: { value: { above: 1 } }, webhook, secret: SECRET,
    });
    expect([webhook, status, json.code]).toEqual([webhook, 400, "webhook-not-allowed"]);
  }
});

test("a host that is named is reached by its name, and its address is still refused", async () => {
  const place = mkdtempSync(join(tmpdir(), "tally-named-"));
  const named = new Server({
    folder: place, variables: { TALLY_ALERTS_ALLOW: '["localhost","hooks.corp"]', TALLY_DATACENTERS: "one" },
  });
  try {
    await named.start();
    const send = async (method, path, body) => {
      const answer = await fetch(`${named.urls[0]}${path}`, { method, body: body && JSON.stringify(body) });
      return { status: answer.status, json: await answer.json() };
    };
    const alert = (webhook) => ({ counter: "a", when: { value: { above: 1 } }, webhook, secret: SECRET });
    const { port } = receiver.address();
    expect((await send("PUT", "/alerts/named", alert(`http://localhost:${port}/hook`))).status).toBe(201);
    const { json } = await send("POST", "/alerts/named/test");
    expect(json).toMatchObject({ outcome: "delivered", status: 200 });
    expect(requests.map(({ path }) => path)).toEqual(["/hook"]);
    for (const host of ["127.0.0.1", "[::1]", "127.0.0.1.nip.io", "a.localhost"]) {
      const refused = await send("PUT", "/alerts/inner", alert(`http://${host}:${port}/`));
      expect([host, refused.json.code]).toEqual([host, "webhook-not-allowed"]);
    }
  } finally {
    await named.end();
    rmSync(place, { recursive: true, force: true });
  }
});
