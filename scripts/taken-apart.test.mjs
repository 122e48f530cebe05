// `take_apart` in src/workers/request.rs: what the Worker takes of a request by one call.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const SOURCE = readFileSync(new URL("../src/workers/request.rs", import.meta.url), "utf8");
const [, script] = /inline_js = r#"\n(.*?)"#/s.exec(SOURCE);
const { take_apart } = await import(`data:text/javascript,${encodeURIComponent(script)}`);

const READS = ["authorization", "origin"];
const WRITES = ["content-length", "authorization"];
const taken = (request) =>
  take_apart({ headers: new Headers(), body: null, ...request }, READS, WRITES, [], "/limits/");

test("a request is its body, method, URL and headers, a line each", () => {
  const headers = new Headers({ host: "tally.example:8788", authorization: "Bearer a" });
  const url = "http://tally.example:8788/counters/a?x=1";
  assert.equal(taken({ method: "GET", url, headers }), `\nGET\n${url}\n:Bearer a\n`);
  headers.set("content-length", "2");
  assert.equal(taken({ method: "POST", url, headers }), `+\nPOST\n${url}\n:2\n:Bearer a`);
  // Another Worker's request has no host of its own.
  assert.equal(taken({ method: "GET", url }), `\nGET\n${url}\n\n`);
});

test("a host that has a path is no part of a URL", () => {
  const wrong = [
    "a/counters?", "a/counters#", "a?", "localhost#.evil.example", "a\\..\\counters", "someone@localhost",
  ];
  for (const host of wrong) {
    const headers = new Headers({ host });
    assert.equal(taken({ method: "GET", url: `http://${host}/healthz`, headers }), "\nGET\n\n\n", host);
  }
  for (const host of ["localhost", "127.0.0.1:1", "[::1]:80", "a-b_c.example"]) {
    const headers = new Headers({ host });
    const url = `http://${host}/healthz`;
    assert.equal(taken({ method: "GET", url, headers }).split("\n")[2], url);
  }
});
