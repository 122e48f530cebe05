// The native server with a certificate speaks TLS and nothing else.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import net from "node:net";
import { join } from "node:path";
import { before, test } from "node:test";
import { placeFor } from "./place.mjs";

const WITHIN = { timeout: 60_000 };

const place = placeFor("tls");
let certificate;
let key;
before(() => {
  [certificate, key] = ["certificate.pem", "key.pem"].map((name) => join(place.root, name));
  const { status, stderr } = spawnSync("openssl", [
    ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"],
    ...["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
  ], { encoding: "utf8" });
  assert.equal(status, 0, stderr);
});

const optionsOf = (...files) => ["--tls-certificate", files[0], "--tls-key", files[1]];

/** Resolves to the text of an answer. */
function ask(protocol, url, options) {
  return new Promise((done, failed) => {
    const request = protocol.request(url, options, async (response) => {
      const pieces = [];
      for await (const piece of response) pieces.push(piece);
      done(Buffer.concat(pieces).toString());
    });
    request.on("error", failed).end();
  });
}

test("answers over TLS, and not in the clear", WITHIN, async () => {
  const server = place.server({ options: optionsOf(certificate, key) });
  const [url] = await server.ready();
  assert.match(url, /^https:/);
  const { port } = new URL(url);
  const ca = readFileSync(certificate);
  const add = () => ask(https, `https://localhost:${port}/counters/a/increment`, {
    method: "POST", ca, host: "127.0.0.1", servername: "localhost", headers: { host: "localhost" },
  });
  assert.equal(JSON.parse(await add()).value, 1);
  await assert.rejects(ask(http, `http://127.0.0.1:${port}/counters/a/increment`, { method: "POST" }));
  // One that never shakes hands keeps nobody else waiting.
  const silent = net.connect(Number(port), "127.0.0.1");
  silent.on("error", () => {});
  assert.equal(JSON.parse(await add()).value, 2);
  silent.destroy();
  assert.deepEqual(await server.end(), { code: 0, signal: null });
});

test("says which file is no certificate, or no key of it", WITHIN, async () => {
  const empty = join(place.root, "empty.pem");
  writeFileSync(empty, "nothing\n");
  for (const [files, wrong] of [
    [[empty, key], empty], [[certificate, empty], empty], [[join(place.root, "missing.pem"), key], "missing.pem"],
  ]) {
    const server = place.server({ options: optionsOf(...files) });
    assert.equal((await server.ended()).code, 1);
    assert.ok(server.errors.includes(wrong), server.errors);
  }
});
