// How lines become bodies of POST /import, and what a damaged file of an export is told: without a service.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";
import { crc32, gunzipSync } from "node:zlib";
import { Values } from "../command/import/values.mjs";
import { TALLY, run as runProgram } from "./server.mjs";

/** Collects bodies, and answers as the service does: it counts lines, and refuses boards of these names. */
function receiver(refusedBoards = []) {
  const bodies = [];
  const request = async (_method, _path, { query, body, idempotencyKey }) => {
    const lines = (typeof body === "string" ? body : gunzipSync(body).toString()).trimEnd().split("\n");
    bodies.push({ mode: query.mode, lines, key: idempotencyKey });
    const report = { counters: 0, policies: 0, boards: 0, members: 0, rejected: 0, refused: [] };
    for (const [at, line] of lines.entries()) {
      const { board, member } = JSON.parse(line);
      const refuse = (code, detail) => (
        (report.rejected += 1),
        report.refused.length < 100 && report.refused.push({ line: at + 1, id: board, code, detail })
      );
      if (board === undefined) {
        report.counters += 1;
      } else if (refusedBoards.includes(board)) {
        refuse(
          member === undefined ? "already-exists" : "invalid-line", member === undefined ? "" : "its board was refused",
        );
      } else {
        report[member === undefined ? "boards" : "members"] += 1;
      }
    }
    return report;
  };
  return { bodies, client: { request } };
}

const run = (client, mode = "create") => new Values(client, { mode, prefix: "", isLocal: true });
const counter = (id) => `{"id":"${id}","value":1}`;
const members = (board, count) =>
  Array.from({ length: count }, (_, at) => `{"board":"${board}","member":"m${at}","score":${at}}`);
const fileOf = (lines, { counters, checksum } = {}) => {
  const text = lines.map((line) => `${line}\n`).join("");
  const sum = checksum ?? `crc32:${crc32(text).toString(16).padStart(8, "0")}`;
  return `${text}{"end":true,"counters":${counters ?? lines.filter((line) => line.startsWith('{"id"')).length},"checksum":"${sum}","complete":true}\n`;
};
const chunks = (text) => [Buffer.from(text)];

test("a board of more members than a body has lines goes on behind its line, and adds to what was begun", async () => {
  const lines = [
    counter("a"), '{"board":"big","settings":{}}', ...members("big", 2_500), '{"board":"next"}', ...members("next", 2),
    counter("b"),
  ];
  for (const mode of ["create", "replace", "add"]) {
    const { bodies, client } = receiver();
    const values = run(client, mode);
    await values.lines(chunks(fileOf(lines)));
    assert.deepEqual(bodies.map((body) => body.mode), [mode, mode, "add", "add", mode]);
    for (const { lines: some } of bodies.slice(2, 4)) {
      assert.equal(some[0], lines[1]);
      assert.ok(some.slice(1).every((line) => JSON.parse(line).board === "big" && JSON.parse(line).member));
    }
    assert.equal(new Set(bodies.map((body) => body.key)).size, 5);
    const { counters, boards, members: all, rejected, complete } = values.end().json;
    assert.deepEqual([counters, boards, all, rejected, complete], [2, 2, 2_502, 0, true]);
  }
});

test("members of a board that was refused are not sent on", async () => {
  const { bodies, client } = receiver(["big"]);
  const values = run(client);
  await values.lines(chunks(fileOf(['{"board":"big"}', ...members("big", 2_500), counter("b")])));
  assert.deepEqual(bodies.map(({ mode, lines }) => [mode, lines.length]), [["create", 1_000], ["create", 1]]);
  const { members: all, counters, present, rejected } = values.end().json;
  assert.deepEqual([all, counters, present + rejected], [0, 1, 2_501]);
});

test("a board that may go on is not blamed for what was refused before it, nor sent on for what was not", async () => {
  const small = Array.from({ length: 150 }, (_, at) => [`{"board":"small${at}"}`, ...members(`small${at}`, 1)]).flat();
  const lines = [...small, '{"board":"big"}', ...members("big", 2_500), counter("b")];
  for (const [refused, sent, counts] of [
    [["big"], 699, [150, 150, 1]],
    [small.map((line) => JSON.parse(line).board), 2_500, [2_500, 1, 1]],
  ]) {
    const { bodies, client } = receiver(refused);
    const values = run(client);
    await values.lines(chunks(fileOf(lines)));
    const ofBig = bodies.flatMap((body) => body.lines).filter((line) => /"big","member"/.test(line));
    const { members: all, boards, counters } = values.end().json;
    assert.deepEqual([ofBig.length, all, boards, counters], [sent, ...counts]);
  }
});

test("an import that is run again has other keys, but for one that adds", async () => {
  for (const [mode, isSame] of [["create", false], ["replace", false], ["add", true]]) {
    const keys = [];
    for (const _ of [1, 2]) {
      const { bodies, client } = receiver();
      await run(client, mode).lines(chunks(fileOf([counter("a")])));
      keys.push(bodies[0].key);
    }
    assert.equal(keys[0] === keys[1], isSame, mode);
  }
});

test("a file that was cut, changed or joined to another is told", async () => {
  const whole = fileOf([counter("a"), counter("b")]);
  const outcomeOf = async (text) => {
    const { client } = receiver();
    const values = run(client);
    await values.lines(chunks(text), "x.ndjson");
    const { complete: isWhole, why } = values.end().json;
    return [isWhole, why?.[0]];
  };
  for (const text of [whole, whole.replaceAll("\n", "\r\n"), `\ufeff${whole}`]) {
    assert.deepEqual(await outcomeOf(text), [true, undefined]);
  }
  for (const [text, why] of [
    [whole.slice(0, whole.indexOf('{"end"')), /x\.ndjson has no last line, so it was cut/],
    [whole.replace(`${counter("a")}\n`, ""), /has 1 counters, and its last line says 2/],
    [whole.replace('"value":1', '"value":2'), /it was changed or damaged/],
    [`${whole}${counter("c")}\n`, /continues after its last line/],
    [whole.replace('"complete":true', '"complete":false'), /is not complete/],
  ]) {
    const [isWhole, reason] = await outcomeOf(text);
    assert.equal(isWhole, false);
    assert.match(reason, why);
  }
});

test("an import that fails says how boards are finished", async (context) => {
  const refusing = createServer((request, response) =>
    response.writeHead(request.url === "/healthz" ? 200 : 403).end("{}"),
  ).listen(0, "127.0.0.1");
  context.after(() => (refusing.closeAllConnections(), refusing.close()));
  await once(refusing, "listening");
  const url = `http://127.0.0.1:${refusing.address().port}`;
  for (const [line, mode, hasHint] of [
    ['{"board":"b"}', "create", true],
    ['{"board":"b"}', "replace", false],
    [counter("a"), "create", false],
  ]) {
    const { code, stderr } = await runProgram(
      process.execPath, [TALLY, "import", "--url", url, "--format", "tally", "--mode", mode, "-"],
      { input: `${line}\n` },
    );
    assert.equal(code, 4, stderr);
    assert.equal(stderr.includes("import again with --mode replace"), hasHint, stderr);
  }
});
