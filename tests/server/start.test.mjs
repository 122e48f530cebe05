// The native server starts, counts, ends in order, and opens only a folder of its own.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { placeFor } from "./place.mjs";

// Less than requests in flight may take.
const STREAMS_END_MS_MAX = 4_000;

const place = placeFor("start");

const json = async (url, init) => (await fetch(url, init)).json();
const add = (url, id) => json(`${url}/counters/${id}/increment`, { method: "POST" });

async function refusalOf(server) {
  const { code } = await server.ended();
  return [code, server.errors];
}

// Executes a program with a variable that is no text.
const withByte = (name) => ["sh", "-c", `export ${name}="$(printf '\\377')"; exec "$@"`, "sh"];

describe("the native server", () => {
  test("counts, ends in order, and still knows the counts after the next start", async () => {
    const { server: first, url } = await place.begin();
    assert.equal((await fetch(`${url}/healthz`)).status, 200);
    assert.equal((await add(url, "a")).value, 1);
    assert.equal((await add(url, "a")).value, 2);
    assert.deepEqual(await first.end(), { code: 0, signal: null });
    const { server: second, url: again } = await place.begin();
    assert.equal((await json(`${again}/counters/a?consistency=strong`)).value, 2);
    assert.deepEqual(await second.end("SIGINT"), { code: 0, signal: null });
    assert.equal(first.errors + second.errors, "");
  });

  test("measures requests in microseconds", async () => {
    const { server, url } = await place.begin();
    for (let index = 0; index < 20; index += 1) await add(url, "timed");
    const text = await (await fetch(`${url}/metrics`)).text();
    const value = (rest) => {
      const line = text.split("\n").find((one) => one.startsWith(`tally_server_request_duration_seconds${rest} `));
      return Number(line?.split(" ").at(-1));
    };
    assert.equal(value('_count{route="increment"}'), 20);
    assert.equal(value('_bucket{route="increment",le="+Inf"}'), 20);
    assert.ok(value('_bucket{route="increment",le="0.0005"}') <= value('_bucket{route="increment",le="0.001"}'));
    const mean = value('_sum{route="increment"}') / 20;
    assert.ok(mean > 0.00001 && mean < 5, `${mean} s`);
    await server.end();
  });

  for (const threads of ["1", "2"]) {
    test(`ends its streams when it ends, with threads: ${threads}`, async () => {
      const { server, url } = await place.begin({ options: ["--threads", threads] });
      const streams = await Promise.all(["a", "b", "c", "d"].map(async (id) => {
        const { status, body } = await fetch(`${url}/live?id=${id}`);
        assert.equal(status, 200);
        const texts = body.pipeThrough(new TextDecoderStream())[Symbol.asyncIterator]();
        for (let text = ""; !text.includes(`"${id}":null`); ) text += (await texts.next()).value;
        return texts;
      }));
      const began = performance.now();
      const ended = server.end();
      // A stream that is broken off rejects.
      for (const texts of streams) while (!(await texts.next()).done);
      assert.deepEqual(await ended, { code: 0, signal: null });
      const ms = performance.now() - began;
      assert.ok(ms < STREAMS_END_MS_MAX, `${ms} ms`);
    });
  }

  test("still knows what it acknowledged after a kill", async () => {
    const { server: first, url } = await place.begin();
    assert.equal((await add(url, "a")).value, 1);
    await first.end("SIGKILL");
    const { server: second, url: again } = await place.begin();
    assert.equal((await add(again, "a")).value, 2);
    await second.end();
  });

  test("serves the dashboard and the description of the API", async () => {
    const { server, url } = await place.begin();
    assert.equal((await json(`${url}/openapi.json`)).info.title, "Tally");
    for (const path of ["/dashboard/", "/dashboard/app.js", "/tally.js"]) {
      const answer = await fetch(url + path);
      assert.equal(answer.status, 200, path);
      const again = await fetch(url + path, { headers: { "if-none-match": answer.headers.get("etag") } });
      assert.equal(again.status, 304, path);
    }
    await server.end();
  });

  test("leaves a folder to the server that has it", async () => {
    const { server: first, url } = await place.begin();
    const [code, sentence] = await refusalOf(place.server());
    assert.equal(code, 1);
    assert.match(sentence, /another server has the data folder .*data-\d+: .*--data/);
    assert.equal((await add(url, "a")).value, 1);
    await first.end();
  });

  test("opens neither a folder of workerd nor one of a later build", async () => {
    mkdirSync(place.data);
    writeFileSync(join(place.data, "workerd.capnp"), "");
    const [code, sentence] = await refusalOf(place.server());
    assert.equal(code, 1);
    assert.match(sentence, /on workerd.*tally export/);
    const later = `${place.data}-later`;
    mkdirSync(later);
    writeFileSync(join(later, "format"), "tally-server 2\n");
    assert.match((await refusalOf(place.server({ folder: later })))[1], /format "tally-server 2"/);
    assert.equal(readFileSync(join(later, "format"), "utf8"), "tally-server 2\n");
  });

  test("says which setting may not be so", async () => {
    const file = (text, named = "keys.json") => {
      const name = join(place.root, named);
      writeFileSync(name, text);
      return { options: ["--keys", name] };
    };
    const keys = '{"keys":[{"key":"0123456789abcdef","scopes":["root"]}]}';
    for (const [given, said] of [
      [{ variables: { TALLY_LIMITERS: "many" } }, /TALLY_LIMITERS/],
      [{ variables: { TALLY_KEYS: "{" } }, /TALLY_KEYS cannot be used: it is not JSON/],
      [file(keys), /TALLY_KEYS cannot be used: .*`root` is not a scope/],
      [file(" \n", "none.json"), /none\.json: the file is empty/],
      [{ before: withByte("TALLY_ACCESS") }, /TALLY_ACCESS is no text in UTF-8/],
    ]) {
      const [code, sentence] = await refusalOf(place.server(given));
      assert.equal(code, 1);
      assert.match(sentence, said);
    }
  });

  test("takes a variable that is empty for none, and minds no other program's", async () => {
    const names = [
      "TALLY_HOST", "TALLY_THREADS", "TALLY_RESP", "TALLY_HEAD_SECONDS", "TALLY_LOG", "TALLY_LOG_FORMAT", "SERVE_EDGES",
      "CF_BLOB_HEADER", "TALLY_KEYS", "TALLY_LIMITERS",
    ];
    const variables = Object.fromEntries(names.map((name) => [name, ""]));
    const { server, url } = await place.begin({ variables, before: withByte("PWD_OF_ANOTHER") });
    assert.equal((await add(url, "a")).value, 1);
    assert.deepEqual(await server.end(), { code: 0, signal: null });
  });

  test("refuses what is no name of a header", async () => {
    const [code, sentence] = await refusalOf(place.server({ options: ["--cf-blob-header", "a b"] }));
    assert.notEqual(code, 0);
    assert.match(sentence, /cf-blob-header.*no name of a header/);
  });

  test("needs keys where other machines reach it", async () => {
    const [code, sentence] = await refusalOf(place.server({ options: ["--host", "0.0.0.0"] }));
    assert.equal(code, 1);
    assert.match(sentence, /keys are needed/);
  });
});
