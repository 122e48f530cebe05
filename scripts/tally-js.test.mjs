// The script for pages is small: it is part of every page that uses it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { openPage } from "../tests/e2e/page.mjs";
import { SCRIPT, servedFiles, shortScript } from "./dashboard.mjs";

const GZIP_BYTES_MAX = 2_750;

test("tally.js has at most 2.75 KB gzipped", () => {
  const bytes = gzipSync(servedFiles().get("tally.js"), { level: 9 }).length;
  assert.ok(bytes <= GZIP_BYTES_MAX, `${bytes} of ${GZIP_BYTES_MAX} bytes`);
});

test("tally.js is what is made of its source", () => {
  assert.equal(servedFiles().get("tally.js"), shortScript(), `${SCRIPT.made} is not made of ${SCRIPT.source}: run make script`);
});

test("a page that holds tally.js within itself is not ended by it", () => {
  assert.doesNotMatch(servedFiles().get("tally.js"), /<\/script|<!--|<script/i);
});

test("tally.js says once for each call why it was refused and what to do", async () => {
  for (const status of [401, 403, 404, 429]) {
    const html = '<script src="https://tally.test/tally.js" data-id="a"></script><b data-tally="a"></b><b data-tally="a"></b>';
    let requests = 0;
    const answer = { ok: false, status, json: async () => ({ detail: `do this about ${status}` }) };
    const fetch = async () => (requests++, answer);
    const { warnings } = openPage(html, { url: "https://site.test/", source: servedFiles().get("tally.js"), fetch });
    await new Promise((done) => setImmediate(done));
    assert.equal(requests, 2);
    const url = "https://tally.test/counters/a";
    assert.deepEqual(warnings.sort(), [`tally.js: ${url}/increment: ${status}. do this about ${status}`, `tally.js: ${url}: ${status}. do this about ${status}`].sort());
  }
});

test("a path that a page gives itself by replaceState is no view, and neither are fragments and queries of it", async () => {
  const sent = [];
  const fetch = async ({ pathname }) => (sent.push(decodeURIComponent(pathname)), { ok: true, text: async () => "" });
  const page = { url: "https://site.test/a", source: servedFiles().get("tally.js"), fetch };
  const { history, follow } = openPage('<script src="https://tally.test/tally.js"></script>', page);
  history.replaceState(null, "", "/a/");
  follow("#section");
  history.pushState(null, "", "?q=1");
  history.pushState(null, "", "/a");
  history.replaceState(null, "", "/b");
  history.pushState(null, "", "/a");
  assert.deepEqual(sent, Array(3).fill("/counters//a/increment"));
});

test("tally.js shows the first 400 counters of a page in streams of 100, and says that there are more", async () => {
  const id = (at) => `n/${String(at).padStart(3, "0")}`;
  const elements = Array.from({ length: 450 }, (_, at) => `<b data-tally="${id(at)}">–</b>`).join("");
  const html = `<script src="https://tally.test/tally.js" data-count="off"></script>${elements}`;
  const asked = new Set();
  const fetch = async ({ pathname }) => {
    asked.add(decodeURIComponent(pathname));
    return { ok: true, status: 200, text: async () => "7" };
  };
  // Streams are refused here, so each is asked for by itself.
  const page = openPage(html, { url: "https://site.test/", source: servedFiles().get("tally.js"), fetch });
  while (asked.size < 400) await new Promise((done) => setImmediate(done));
  assert.deepEqual([...asked].sort(), Array.from({ length: 400 }, (_, at) => `/counters/${id(at)}`));
  assert.deepEqual(page.warnings, ["tally.js: 450 counters A page shows 400."]);
  await new Promise((done) => setImmediate(done));
  assert.deepEqual([page.texts()[id(0)], page.texts()[id(449)]], ["7", "–"]);
});
