// Snapshots on plain workerd, whose disk service is their folder, and on the native server: made, read, restored, with
// a damaged file, and in an empty deployment. tests/crash/data.mjs kills.
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { NativeCrash } from "../crash/native.mjs";
import { Server } from "../crash/server.mjs";
import { until } from "../crash/wait.mjs";

let folder;
let servers;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tally-snapshots-"));
  servers = [];
});
afterEach(async () => {
  for (const server of servers) await server.end();
  rmSync(folder, { recursive: true, force: true });
});

// Without the day's own snapshots: in their hour one would come before those of a test.
async function open(Host, name, variables = { TALLY_TABLETS: "4" }) {
  const server = new Host({
    folder: join(folder, name), variables: { TALLY_DATACENTERS: "one", TALLY_SNAPSHOTS: "off", ...variables },
  });
  servers.push(server);
  await server.start();
  return server;
}

async function call(server, method, path, body, headers = {}) {
  const answer = await fetch(`${server.urls[0]}${path}`, {
    method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: answer.status, json: await answer.json() };
}

async function well(...request) {
  const { status, json } = await call(...request);
  expect([200, 201], JSON.stringify(json)).toContain(status);
  return json;
}

const filesOf = (name, kind) => {
  const all = readdirSync(join(folder, name, "snapshots"), { recursive: true, withFileTypes: true });
  return all
    .filter((entry) => entry.isFile() && entry.parentPath.endsWith(kind))
    .map((entry) => join(entry.parentPath, entry.name));
};
const value = async (server, id) =>
  (await well(server, "GET", `/counters/${encodeURIComponent(id)}?consistency=strong`)).value;

describe.each([["workerd", Server], ["the native server", NativeCrash]])("on %s", (_, Host) => {
  test("a snapshot tells the day, and comes back here and in an empty deployment", { timeout: 120_000 }, async () => {
    const server = await open(Host, "one");
    for (let number = 0; number < 40; number++) {
      await well(server, "PUT", `/counters/page%2F${number}/value`, { value: number });
    }
    await well(server, "PUT", "/counters/other/value", { value: 5 });
    const made = await well(server, "POST", "/snapshots");
    expect([made.complete, made.full, made.counters, made.partitions]).toEqual([true, true, 41, 16]);
    expect(filesOf("one", "runs").length).toBe(16);
    const day = made.date;

    // What changed since is in the next one alone.
    await well(server, "PUT", "/counters/page%2F3/value", { value: 1_003 });
    await well(server, "DELETE", "/counters/page%2F4");
    const next = await well(server, "POST", "/snapshots");
    expect([next.full, next.changed, next.counters]).toEqual([false, 2, 40]);
    const on = (id) => call(server, "GET", `/counters/${encodeURIComponent(id)}?on=${day}`);
    expect((await on("page/3")).json.value).toBe(1_003);
    expect((await on("page/5")).json.value).toBe(5);
    expect((await on("page/4")).status).toBe(404);
    const listed = await well(server, "GET", `/counters?prefix=page%2F&on=${day}&limit=1000`);
    expect(listed.entries.length).toBe(39);

    await well(server, "PUT", "/counters/page%2F3/value", { value: 9 });
    await well(server, "DELETE", "/counters/page%2F5");
    const body = { prefix: "page/", mode: "replace" };
    const path = `/snapshots/${day}/restore`;
    const would = await well(server, "POST", path, { ...body, dry_run: true });
    expect(would.changes).toEqual([
      { id: "page/3", action: "set", now: 9, then: 1_003 },
      { id: "page/5", action: "create", now: null, then: 5 },
    ]);
    for (let time = 0; time < 2; time++) await well(server, "POST", path, body, { "idempotency-key": "once" });
    expect([await value(server, "page/3"), await value(server, "page/5")]).toEqual([1_003, 5]);

    // The folder alone brings all of it back.
    cpSync(join(folder, "one", "snapshots"), join(folder, "two", "snapshots"), { recursive: true });
    const empty = await open(Host, "two", {});
    const restored = await well(empty, "POST", path, {});
    expect([restored.created, restored.rejected]).toEqual([40, 0]);
    expect([await value(empty, "page/3"), await value(empty, "other")]).toEqual([1_003, 5]);
  });

  test("a damaged file is refused and named", { timeout: 60_000 }, async () => {
    const server = await open(Host, "three");
    await well(server, "PUT", "/counters/likes/value", { value: 5 });
    const { date } = await well(server, "POST", "/snapshots");
    const [file] = filesOf("three", "parts");
    const bytes = readFileSync(file);
    bytes[bytes.length - 1] ^= 1;
    writeFileSync(file, bytes);
    const { status, json } = await call(server, "GET", `/counters/likes?on=${date}`);
    expect([status, json.code]).toEqual([503, "unavailable"]);
    expect(json.detail).toMatch(/the file s1\/\d+\/parts\/\S+ of the snapshot of \S+ is damaged: put it back/);
    rmSync(file);
    expect((await call(server, "GET", `/counters/likes?on=${date}`)).json.detail).toMatch(/is missing/);
    expect((await call(server, "GET", "/healthz")).json.detail).toContain(file.slice(file.indexOf("s1/")));
  });
});

const WRONG = { TALLY_SNAPSHOTS: '{"hour":24}' };
const SAID = /TALLY_SNAPSHOTS must be `off`, or JSON such as .*, not `\{"hour":24\}`/;

test("workerd says that a setting is wrong", { timeout: 60_000 }, async () => {
  const wrong = new Server({ folder: join(folder, "four"), variables: WRONG });
  servers.push(wrong);
  wrong.spawn();
  const health = await until(
    () => wrong.urls[0] && call(wrong, "GET", "/healthz").catch(() => undefined), "it does not answer", 20_000,
  );
  expect(health.json.code).toBe("not-configured");
  expect(health.json.detail).toMatch(SAID);
});

test("the native server does not start with a setting that is wrong", { timeout: 60_000 }, async () => {
  const wrong = new NativeCrash({ folder: join(folder, "five"), variables: WRONG });
  servers.push(wrong);
  wrong.spawn();
  await until(() => wrong.isGone, "it runs", 20_000);
  expect(wrong.log).toMatch(SAID);
});
