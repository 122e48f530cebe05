// Bad input is answered with a problem and a stable code, and changes nothing.
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { API } from "./openapi.mjs";
import { openWorld } from "./world.mjs";

const MIB = 1024 * 1024;
const INCREMENT = "/counters/bad/increment";

let world;
beforeAll(async () => {
  world = await openWorld();
  await world.add("bad", { delta: 5, unique: "ann" });
});
afterAll(() => world.close());

// The whole state of the counter that bad input was aimed at.
async function state() {
  const { value, version, updated_at, expires_at, uniques, datacenters } = await world.strong("bad");
  const { entries: counters } = await world.well("GET", "/counters?limit=1000");
  return { value, version, updated_at, expires_at, uniques, places: datacenters.length, counters };
}

async function unchanged(work) {
  const before = await state();
  await work();
  expect(await state()).toEqual(before);
}

test("a byte order mark before a body is no part of it, and too large is told as too large", async () => {
  const mark = "\ufeff";
  expect(await world.well("POST", "/events", { body: `${mark}{"id":"marked"}\n{"id":"marked"}` })).toMatchObject({
    accepted: 2, rejected: 0,
  });
  expect(await world.well("POST", "/events", { body: gzipSync(`${mark}[{"id":"marked"}]`) })).toMatchObject({
    accepted: 1,
  });
  expect(await world.well("POST", "/counters/marked/increment", { body: `${mark}{"delta":2}` })).toMatchObject({
    delta: 2,
  });
  expect(await world.well("POST", "/counters/marked/increment", { body: mark })).toMatchObject({ delta: 1 });
  expect((await world.strong("marked")).value).toBe(6);
  const { json } = await world.refused(400, "invalid-delta", "POST", "/counters/marked/increment", {
    body: '{"delta":1e400}',
  });
  expect(json.detail).toContain("1e400 is too large");
});

describe("bodies", () => {
  const table = [
    ["invalid-json", "{"],
    ["invalid-json", '{"delta":1,}'],
    ["invalid-json", "{delta:1}"],
    ["invalid-json", '{"delta":1} {}'],
    ["invalid-json", "\u0000"],
    ["invalid-body", "[]"],
    ["invalid-body", "1"],
    ["invalid-body", "null"],
    ["invalid-body", '"delta"'],
    ["invalid-body", '{"unique":7}'],
    ["invalid-body", '{"unique":null}'],
    ["invalid-body", '{"unique":""}'],
    ["invalid-body", JSON.stringify({ unique: "x".repeat(1_025) })],
    ["invalid-body", '{"at":"now"}'],
    ["invalid-body", '{"at":1.5}'],
    ["invalid-body", '{"at":-1}'],
    ["clock-skew", '{"at":0}'],
    ["invalid-body", '{"at":99999999999999}'],
    ["invalid-body", '{"at":"2026-02-30"}'],
    ["clock-skew", '{"at":"1970-01-01"}'],
    ["clock-skew", '{"at":253402300799}'],
    ["invalid-delta", '{"delta":0}'],
    ["invalid-delta", '{"delta":-1}'],
    ["invalid-delta", '{"delta":1.5}'],
    ["invalid-delta", '{"delta":15e-1}'],
    ["invalid-delta", '{"delta":"0"}'],
    ["invalid-delta", '{"delta":"-1"}'],
    ["invalid-delta", '{"delta":""}'],
    ["invalid-delta", '{"delta":"1.0"}'],
    ["invalid-delta", '{"delta":" 1"}'],
    ["invalid-delta", '{"delta":"+1"}'],
    ["invalid-delta", '{"delta":"0x10"}'],
    ["invalid-delta", `{"delta":${2n ** 128n}}`],
    ["invalid-delta", `{"delta":"${2n ** 128n}"}`],
    ["unknown-field", '{"dleta":1}'],
    ["unknown-field", '{"delta":1,"key":"bad"}'],
  ];
  for (const [code, body] of table) {
    test(`${code}: ${body.slice(0, 60)}`, () =>
      unchanged(async () => {
        for (const path of [INCREMENT, "/counters/bad/decrement"]) {
          const { json } = await world.refused(400, code, "POST", path, { body });
          if (code === "unknown-field") expect(json.detail).toMatch(/dleta|key/);
        }
      }));
  }

  test("a delta of a wrong type", () =>
    unchanged(async () => {
      for (const delta of ["true", "null", "[1]", "{}"]) {
        const answer = await world.call("POST", INCREMENT, { body: `{"delta":${delta}}` });
        expect([answer.status, answer.json.code]).toEqual([400, expect.stringMatching(/^invalid-(delta|body)$/)]);
      }
    }));

  test("a field that stands twice", () =>
    unchanged(() => world.refused(400, "invalid-body", "POST", INCREMENT, { body: '{"delta":1,"delta":2}' })));

  test("text that is not UTF-8", () =>
    unchanged(async () => {
      const answer = await world.call("POST", INCREMENT, { body: Buffer.from('{"unique":"\xff\xfe"}', "latin1") });
      expect([answer.status, answer.json.code]).toEqual([400, expect.stringMatching(/^invalid-(json|body)$/)]);
    }));

  test("over 1 MiB: the client sees 413", () =>
    unchanged(async () => {
      for (const size of [MIB + 1, 20 * MIB]) {
        await world.refused(413, "body-too-large", "POST", INCREMENT, { body: Buffer.alloc(size, " ") });
        await world.refused(413, "body-too-large", "PUT", "/counters/bad", { body: Buffer.alloc(size, " ") });
      }
    }));

  test("of exactly 1 MiB are read", async () => {
    const body = Buffer.alloc(MIB, " ");
    body.write("{}");
    expect(await world.add("mebibyte", undefined, { body })).toMatchObject({ value: 1 });
  });

  test("compressed where that is not read", () =>
    unchanged(async () => {
      const headers = { "content-encoding": "gzip" };
      await world.refused(415, "unsupported-encoding", "POST", INCREMENT, { body: gzipSync("{}"), headers });
    }));

  test("a large body to a route that does not exist is answered, not reset", () =>
    unchanged(() => world.refused(404, "not-found", "POST", "/nowhere", { body: Buffer.alloc(8 * MIB, " ") })));
});

describe("ids", () => {
  const table = {
    "too long": "x".repeat(513),
    "too long in bytes, not in characters": encodeURIComponent("ü".repeat(257)),
    "a control character": "a%00b",
    "a line feed": "%0A",
    "a delete character": "a%7F",
    "a control character above ASCII": "%C2%85",
    "a percent sign alone": "100%",
    "a percent sign with other letters": "a%G1",
    "a percent sign with one digit": "a%2",
    "bytes that are not UTF-8": "%FF",
    "a surrogate in UTF-8": "%ED%A0%80",
    "an overlong form": "%C0%AF",
  };
  for (const [what, id] of Object.entries(table)) {
    test(what, () =>
      unchanged(async () => {
        const path = `/counters/${id}`;
        await world.refused(400, "invalid-id", "POST", `${path}/increment`);
        await world.refused(400, "invalid-id", "POST", `${path}/decrement`);
        await world.refused(400, "invalid-id", "PUT", path);
        await world.refused(400, "invalid-id", "DELETE", path);
        await world.refused(400, "invalid-id", "GET", path);
        await world.refused(400, "invalid-id", "GET", `${path}/history`);
      }));
  }

  test("an empty one", () =>
    unchanged(async () => {
      await world.refused(400, "invalid-id", "POST", "/counters//increment");
      await world.refused(400, "invalid-id", "GET", "/counters/");
    }));

  test("in a union", () =>
    unchanged(async () => {
      for (const id of ["", ".", "..", "%00", "x".repeat(513)]) {
        await world.refused(400, "invalid-id", "GET", `/uniques?id=bad&id=${id}`);
      }
    }));

  test("512 bytes are an id", async () => {
    const id = "ü".repeat(256);
    expect(await world.add(id)).toMatchObject({ id, value: 1 });
  });
});

describe("routes and methods", () => {
  test("unknown routes", () =>
    unchanged(async () => {
      for (const path of [
        "//",
        "/counter", "/counters/bad/reset-all", "/counters/bad/increment/", "/counters/bad/increment/x", "/events/",
        "/Counters", "/counters/bad/aggregate",
      ]) {
        for (const method of ["GET", "POST", "PUT", "DELETE"]) await world.refused(404, "not-found", method, path);
      }
    }));

  // Redis's words are refused in Redis's words, see redis.spec.
  // The gate reads any method, see gate.spec.
  const isOther = (path) => path.startsWith("/redis") || path.startsWith("/gate/");
  for (const [template, methods] of Object.entries(API.paths).filter(([path]) => !isOther(path))) {
    const path = template.replace("{id}", "bad").replace("{prefix}", "bad");
    // A board of the name `top`, and a key of the name `overrides`, have the other calls of boards and keys.
    const others = { "/boards/top": "/boards/{board}", "/limits/{policy}/overrides": "/limits/{policy}/{key}" };
    const all = { ...API.paths[others[template]], ...methods };
    const known = ["GET", "POST", "PUT", "DELETE", "PATCH"].filter((method) =>
      Object.hasOwn(all, method.toLowerCase()),
    );
    test(`${template} refuses methods other than ${known}`, () =>
      unchanged(async () => {
        const unknown = ["GET", "POST", "PUT", "DELETE", "PATCH"].filter((method) => !known.includes(method));
        for (const method of unknown) {
          const { headers } = await world.refused(405, "method-not-allowed", method, path);
          const allowed = headers.get("allow").split(/,\s*/);
          expect(allowed).toEqual(expect.arrayContaining(known));
          expect(allowed).not.toContain(method);
        }
      }));
  }
});

describe("queries", () => {
  const table = [
    "/counters/bad?consistncy=strong",
    "/counters/bad?consistency=eventual",
    "/counters/bad?datacenter=",
    "/counters/bad?datacenter=a/b",
    "/counters/bad?window=0",
    "/counters/bad?window=-1",
    "/counters/bad?window=1.5",
    "/counters/bad?window=x",
    "/counters/bad?window=99999999999",
    "/counters/bad?at=1",
    "/counters/bad?window=60&at=x",
    "/counters/bad?window=60&window=61",
    "/counters/bad?numbers=hex",
    "/counters/bad/history?step=2m",
    "/counters/bad/history?from=x",
    "/counters/bad/history?from=1700000000000",
    "/counters/bad/history?window=60",
    "/counters?limit=0",
    "/counters?offset=10",
    "/counters/bad*/aggregate?limit=1",
    "/uniques?ids=bad",
    "/uniques?id=bad&window=34560001",
  ];
  for (const path of table) {
    test(path, () => unchanged(() => world.refused(400, "invalid-query", "GET", path)));
  }

  test("of writes", () =>
    unchanged(async () => {
      await world.refused(400, "invalid-query", "POST", `${INCREMENT}?delta=5`);
      await world.refused(400, "invalid-query", "PUT", "/counters/bad?ttl_seconds=5", { body: "{}" });
      await world.refused(400, "invalid-query", "DELETE", "/counters/bad?really=no");
    }));
});
