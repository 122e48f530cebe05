// Jurisdictions: all objects of a deployment are within the one that is set, answers name it, and a host that has none
// stores nothing.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openWorld, until } from "../world.mjs";

const EU = { TALLY_JURISDICTION: "eu" };

let folder;
beforeAll(() => (folder = mkdtempSync(join(tmpdir(), "tally-jurisdiction-"))));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function within(vars, work, more = {}) {
  const world = await openWorld({ platform: "miniflare", within: true, vars, folder, ...more });
  try {
    return await work(world);
  } finally {
    await world.close();
  }
}

// What each kind of object answers.
async function use(world) {
  const header = async (method, path, body) => {
    const answer = await world.call(method, path, { body: JSON.stringify(body) });
    expect([answer.status < 300, answer.text], `${method} ${path}`).toEqual([true, answer.text]);
    return answer.headers.get("tally-jurisdiction");
  };
  return [
    await header("POST", "/counters/c/increment", { delta: 5 }),
    await header("POST", "/boards/b/members/m", { score: 3 }),
    await header("POST", "/limits/p/k", { limit: 9, window_seconds: 60 }),
    await header("PUT", "/limits/p", { limit: 9, window_seconds: 60 }),
    await header("POST", "/redis", ["SET", "k", "v"]),
    await header("GET", "/top"),
  ];
}

test("all objects are in the jurisdiction that is set, and answers say which it is", async () => {
  await within(EU, async (world) => {
    expect(new Set(await use(world))).toEqual(new Set(["eu"]));
    expect((await world.call("GET", "/healthz")).json.jurisdiction).toBe("eu");
  });
  // Alarms of the other jurisdiction are logged.
  await within({}, async (world) => {
    expect((await world.call("GET", "/counters/c")).status).toBe(404);
    expect((await world.call("GET", "/counters")).json.entries).toEqual([]);
    expect((await world.call("GET", "/limits")).json.entries).toEqual([]);
    expect((await world.call("POST", "/redis", { body: JSON.stringify(["GET", "k"]) })).json.result).toBe(null);
    expect((await world.call("GET", "/healthz")).json.jurisdiction).toBe(undefined);
  }, { logs: true });
  await within(EU, async (world) => {
    expect((await world.call("GET", "/counters/c?consistency=strong")).json.value).toBe(5);
    expect((await world.call("POST", "/redis", { body: JSON.stringify(["GET", "k"]) })).json.result).toBe("v");
  });
});

test("objects that are left in another jurisdiction do nothing, and come back with it", async () => {
  const place = join(folder, "changed");
  const use = async (world) => {
    const answer = await world.call("POST", "/counters/left/increment", { body: JSON.stringify({ delta: 5 }) });
    expect(answer.status, answer.text).toBe(200);
  };
  const brief = async (world) => {
    await use(world);
    // Its end is an alarm.
    const body = JSON.stringify({ ttl_seconds: 8 });
    expect((await world.call("POST", "/counters/brief/increment", { body })).status).toBe(200);
  };
  await within(EU, brief, { folder: place });
  for (const vars of [{}, { TALLY_JURISDICTION: "us" }]) {
    const work = async (world) => {
      const isSaid = () => world.errors.some((error) => error.startsWith("TALLY_JURISDICTION was changed"));
      // Their alarms ring here, and would report to the directory of this jurisdiction.
      if (vars.TALLY_JURISDICTION === undefined) await until(isSaid, "an alarm of before");
      expect((await world.call("GET", "/counters")).json.entries).toEqual([]);
    };
    await within(vars, work, { folder: place, logs: true });
  }
  const again = async (world) => {
    await use(world);
    expect((await world.call("GET", "/counters/left?consistency=strong")).json.value).toBe(10);
  };
  await within(EU, again, { folder: place });
});

test("two Workers of different jurisdictions store nothing, and say what differs", async () => {
  const differing = [
    [{}, EU, "is `eu` on the Worker that asks, and not set on the Worker of the objects"],
    [EU, { TALLY_JURISDICTION: null }, "is not set on the Worker that asks, and `eu` on the Worker of the objects"],
    [EU, { TALLY_JURISDICTION: "us" }, "is `us` on the Worker that asks, and `eu` on the Worker of the objects"],
  ];
  const place = join(folder, "differing");
  for (const [vars, edgeVars, said] of differing) {
    const work = async (world) => {
      for (const [method, path, body] of [
        ["POST", "/counters/c/increment", { delta: 5 }],
        ["POST", "/boards/b/members/m", { score: 3 }],
        ["POST", "/api/event", { key: "c", increment: 1 }],
        ["GET", "/counters"],
        ["GET", "/healthz"],
      ]) {
        const { status, json } = await world.call(method, path, { body: JSON.stringify(body) });
        expect([status, json.code, json.detail], `${method} ${path}`).toEqual([
          503, "unavailable", `stored data cannot be read: TALLY_JURISDICTION ${said}: set it alike on both`,
        ]);
      }
    };
    await within(vars, work, { edgeVars, folder: place, logs: true, oneWorker: false });
  }
  for (const vars of [{}, EU, { TALLY_JURISDICTION: "us" }]) {
    const work = async (world) => {
      expect((await world.call("GET", "/counters")).json.entries).toEqual([]);
      expect((await world.call("GET", "/boards")).json.entries).toEqual([]);
    };
    await within(vars, work, { folder: place });
  }
});

test("one Worker with both roles keeps its objects there too", async () => {
  await within(
    EU,
    async (world) => {
      expect(new Set(await use(world))).toEqual(new Set(["eu"]));
    },
    { folder: undefined, oneWorker: true },
  );
});

test("a host without jurisdictions refuses each call, and says why", async () => {
  await within(
    EU,
    async (world) => {
      for (const [method, path, body] of [
        ["POST", "/counters/c/increment", {}], ["GET", "/counters/c"], ["GET", "/healthz"],
      ]) {
        const { status, json, headers } = await world.call(method, path, { body: JSON.stringify(body) });
        expect([status, json.code], `${method} ${path}`).toEqual([503, "not-configured"]);
        expect(json.detail).toBe(
          "TALLY_JURISDICTION cannot be `eu`: Jurisdiction restrictions are not implemented in workerd; leave it out",
        );
        // Nothing is there.
        expect(headers.get("tally-jurisdiction")).toBe(null);
      }
    },
    { within: false, logs: true, folder: undefined },
  );
  await within(
    { TALLY_JURISDICTION: "EU" },
    async (world) => {
      const { status, json } = await world.call("POST", "/counters/c/increment", { body: JSON.stringify({}) });
      expect([status, json.code]).toEqual([503, "not-configured"]);
      expect(json.detail).toContain("`eu`, `fedramp`, `fedramp-high`, `us`, not `EU`");
    },
    { logs: true, folder: undefined },
  );
});
