// A real OpenTelemetry collector gets the metrics of a real Tally, by OTLP/HTTP, from the native server and from plain
// workerd: it reads each push, and its names are those of `/metrics`.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { COLLECTOR } from "../../scripts/python-clients.mjs";
import { Server } from "../crash/server.mjs";
import { NativeServer } from "../server/program.mjs";
import { freePorts } from "./programs.mjs";

const WRITES = 7;
const READY_MS_MAX = 20_000;
// The first push is 15 s after the first report, on a machine that may be busy.
const PUSHED_MS_MAX = 120_000;
const POLL_MS = 200;
const TOKEN = "Bearer a b";

const SKIP = COLLECTOR === undefined && process.env.CI === undefined ? "no collector is installed" : false;

let folder;
before(() => (folder = mkdtempSync(join(tmpdir(), "tally-collector-"))));
after(() => rmSync(folder, { recursive: true, force: true }));

async function until(what, within_ms, look) {
  const late = performance.now() + within_ms;
  for (;;) {
    const found = await look();
    if (found) return found;
    assert.ok(performance.now() < late, `${what}: not within ${within_ms} ms`);
    await new Promise((done) => setTimeout(done, POLL_MS));
  }
}

/** A collector that writes what it gets, as text, and the headers of each push on their way to it. */
async function openCollector(name) {
  const [http, grpc] = await freePorts(2);
  const args = [
    "start", "--otlp-http-endpoint", `127.0.0.1:${http}`, "--otlp-grpc-endpoint", `127.0.0.1:${grpc}`, "--pid-file",
    join(folder, `${name}.pid`), "--debug-log", "metrics", "--debug-log-verbosity", "detailed", "--exporter",
    "blackhole",
  ];
  const child = spawn(COLLECTOR, args, { stdio: ["ignore", "pipe", "pipe"] });
  const collector = { output: "", pushes: [] };
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (collector.output += text));
  const inner = `http://127.0.0.1:${http}`;
  const isThere = () =>
    fetch(inner).then(
      () => true,
      () => false,
    );
  await until("the collector is ready", READY_MS_MAX, isThere);
  const proxy = createServer(async (request, response) => {
    const parts = await request.toArray();
    const { method, url, headers } = request;
    const answer = await fetch(`${inner}${url}`, {
      method, body: Buffer.concat(parts), headers: { "content-type": headers["content-type"] },
    });
    collector.pushes.push({ headers, status: answer.status, said: await answer.text() });
    response.writeHead(answer.status).end();
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  collector.url = `http://127.0.0.1:${proxy.address().port}/v1/metrics`;
  collector.end = async () => {
    proxy.close();
    child.kill("SIGKILL");
    await once(child, "close");
  };
  return collector;
}

const variablesOf = (collector) => ({
  TALLY_ALERTS_ALLOW: '["127.0.0.1"]', TALLY_OTLP_URL: collector.url,
  TALLY_OTLP_HEADERS: `Authorization=${encodeURIComponent(TOKEN)}`,
  TALLY_OTLP_ATTRIBUTES: "deployment.environment=test",
});

const HOSTS = {
  "the native server": async (name, variables) => {
    const server = new NativeServer({ folder: join(folder, name), variables });
    const [url] = await server.ready();
    return { url, end: () => server.end?.() ?? server.kill("SIGKILL") };
  },
  "plain workerd": async (name, variables) => {
    const server = new Server({ folder: join(folder, name), variables });
    await server.start();
    return { url: server.urls[0], end: () => server.end() };
  },
};

for (const [host, open] of Object.entries(HOSTS)) {
  test(`a collector reads what ${host} pushes`, { skip: SKIP }, async () => {
    const name = host.replaceAll(" ", "-");
    const collector = await openCollector(name);
    let tally;
    try {
      tally = await open(name, variablesOf(collector));
      for (let number = 0; number < WRITES; number++) {
        const answer = await fetch(`${tally.url}/counters/c/increment`, { method: "POST" });
        assert.equal(answer.status, 200);
        // Objects report with their next call.
        await new Promise((done) => setTimeout(done, 500));
      }
      const written = /Name: tally_fleet_acknowledged_total[^]*?operation: Str\(increment\)[^]*?Value: (\d+)/g;
      const pushed = () => [...collector.output.matchAll(written)].some(([, value]) => Number(value) === WRITES);
      await until(`the collector has ${WRITES} writes`, PUSHED_MS_MAX, pushed);
      const { headers, status, said } = collector.pushes.at(-1);
      assert.deepEqual([headers.authorization, headers["content-type"]], [TOKEN, "application/x-protobuf"]);
      // A collector that refuses some points says so here.
      assert.equal(status, 200, said);
      assert.doesNotMatch(said, /rejectedDataPoints":"?[1-9]/);
      const text = await (await fetch(`${tally.url}/metrics`)).text();
      const families = [...text.matchAll(/^# TYPE (tally_fleet_\S+) (\S+)$/gm)];
      assert.ok(families.length > 40, text);
      const passing = ["tally_fleet_stored_bytes", "tally_fleet_stored_error_bytes", "tally_fleet_unreported_seconds"];
      for (const [, family] of families.filter(([, family]) => !passing.includes(family))) {
        assert.ok(collector.output.includes(`Name: ${family}\n`), `${family} came in no push`);
      }
      assert.match(collector.output, /service\.name: Str\(tally\)/);
      assert.match(collector.output, /deployment\.environment: Str\(test\)/);
      assert.match(collector.output, /IsMonotonic: true\s+-> AggregationTemporality: AGGREGATION_TEMPORALITY_CUMULATIVE/);
    } finally {
      await tally?.end();
      await collector.end();
    }
  });
}
