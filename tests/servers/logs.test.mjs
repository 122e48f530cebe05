// Real servers and the logs that they write, read by `tally import`: each counter has what was sent, no more and no
// less; also while logrotate rotates the log under a command that follows it.
//
// Invariant: the requests say what is expected (`requests.mjs`); logs are only read by the command.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { TALLY, openServer } from "../../package/test/server.mjs";
import { Place, freePorts, missing, until } from "./programs.mjs";
import { REQUESTS, counted, send } from "./requests.mjs";
import { ALL, READY } from "./servers.mjs";

let tally;
before(async () => (tally = await openServer()));
after(() => tally?.end());

const isLine = (line) => line !== "" && !line.includes(READY);
const linesOf = (file) => readFileSync(file, "utf8").split("\n").filter(isLine).length;

/**
 * Sends all requests but those for targets that a server is `without`. Resolves to how many were answered, and what
 * they count: `{ answered, expected, clients }`.
 */
async function sendAll(ports, { without = [], saysNoAgents = false }) {
  const sent = { answered: 0, expected: new Map(), clients: new Set() };
  const broken = REQUESTS.filter(({ bytes }) => bytes !== undefined);
  for (const request of REQUESTS.filter((one) => !broken.includes(one) && !without.includes(one.target))) {
    const status = await send(request, ports);
    sent.answered += status === undefined ? 0 : 1;
    // What a log does not say leaves nothing out.
    const id = counted(saysNoAgents ? { ...request, isBot: false } : request, status);
    if (id === undefined) continue;
    sent.expected.set(id, (sent.expected.get(id) ?? 0) + 1);
    sent.clients.add(request.from ?? request.address);
  }
  // The server ends each of these when it has waited long enough.
  await Promise.all(broken.map((request) => send(request, ports)));
  return sent;
}

const total = (expected) => [...expected.values()].reduce((sum, count) => sum + count, 0);
const sumOf = async (prefix) =>
  (await tally.json(`/counters/${encodeURIComponent(prefix)}*/aggregate?consistency=strong`)).value ?? 0;

// No counter is missing, none has more or less, and there is no other.
async function sameCounters(prefix, expected, times = 1) {
  const values = await Promise.all(
    [...expected.keys()].map(async (id) => {
      const { value } = await tally.json(`/counters/${encodeURIComponent(prefix + id)}?consistency=strong`);
      return { id, value: value ?? 0, sent: expected.get(id) * times };
    }),
  );
  assert.deepEqual(values.filter(({ value, sent }) => value !== sent), [], prefix);
  assert.equal(await sumOf(prefix), total(expected) * times, `counters below ${prefix} that nobody asked for`);
}

async function imports(log, prefix, expected) {
  const { code, stdout, stderr } = await tally.tally(["import", "--json", "--prefix", prefix, log]);
  assert.ok(stdout.startsWith("{"), `${code} ${stderr}`);
  const { lines, counted: count, left_out, unreadable, unread } = JSON.parse(stdout);
  const left = Object.values(left_out).reduce((sum, number) => sum + number, 0);
  await sameCounters(prefix, expected);
  assert.deepEqual([code, unreadable, count], [0, 0, total(expected)], JSON.stringify(unread));
  assert.equal(count + left, lines);
}

async function countsClients(log, site, { expected, clients }) {
  const { code, stderr } = await tally.tally(["import", "--site", site, "--unique", "ip", log]);
  assert.equal(code, 0, stderr);
  const { value, uniques } = await tally.json(`/counters/${site}?consistency=strong`);
  assert.deepEqual([value, uniques.estimate], [total(expected), clients.size]);
}

/** Rotates a log as Debian's packages do it: at once, by its own configuration and state. */
async function rotate(place, log, { postrotate, copies }) {
  const how = copies ? "copytruncate" : `create 0644\n  postrotate\n    ${postrotate}\n  endscript`;
  const config = place.file("logrotate.conf", `${log} {\n  rotate 3\n  nocompress\n  missingok\n  ${how}\n}\n`);
  await place.run("logrotate", ["--force", "--state", place.file("logrotate.state"), config]);
}

async function follows(place, server, log, prefix, { ports, sent }) {
  const env = { ...process.env, TALLY_URL: tally.url, TALLY_STATE: place.file(`state-${prefix}`) };
  const follower = spawn(process.execPath, [TALLY, "import", "--follow", "--json", "--prefix", prefix, log], { env });
  let said = "";
  let summary = "";
  follower.stdout.on("data", (part) => (summary += part));
  follower.stderr.on("data", (part) => (said += part));
  try {
    const reaches = (times) => async () => {
      assert.equal(follower.exitCode, null, said);
      return (await sumOf(prefix)) >= total(sent.expected) * times;
    };
    await until(`what was there is counted\n${said}`, reaches(1));
    await rotate(place, log, server);
    const again = await sendAll(ports, server);
    assert.deepEqual(again.expected, sent.expected);
    await until("what came after the rotation is counted", reaches(2)).catch(async (error) => {
      throw new Error(`${error.message}: ${await sumOf(prefix)} of ${total(sent.expected) * 2}\n${said}`);
    });
    await sameCounters(prefix, sent.expected, 2);
  } finally {
    follower.kill("SIGINT");
    await once(follower, "close");
  }
  const { counted: count, unreadable } = JSON.parse(summary);
  assert.deepEqual([follower.exitCode, count, unreadable], [0, total(sent.expected) * 2, 0], said);
}

for (const [name, { needs, start }] of Object.entries(ALL)) {
  test(`logs of ${name}`, { skip: missing(...needs, "logrotate"), timeout: 180_000 }, async () => {
    const place = new Place();
    try {
      const [port, http2Port] = await freePorts(2);
      const server = await start(place, { port, http2Port });
      const ports = { port, http2Port: server.http2Port ?? http2Port };
      const sent = await sendAll(ports, server);
      assert.ok(total(sent.expected) >= 40, `${total(sent.expected)} of the requests count`);
      for (const file of server.logs) {
        const log = join(place.folder, file);
        const look = () => linesOf(log) >= sent.answered;
        await until(`${file} has a line for each answer`, look).catch((error) => {
          throw new Error(`${error.message}: ${linesOf(log)} of ${sent.answered}`);
        });
        await imports(log, `${name}-${file}:`, sent.expected);
        await countsClients(log, `${name}-${file}`, sent);
      }
      await follows(place, server, join(place.folder, server.logs[0]), `${name}-follow:`, { ports, sent });
    } finally {
      await place.end();
    }
  });
}

const programs = ALL.haproxy.needs;
test("HAProxy's own format is refused, because its times have no offset", { skip: missing(...programs) }, async () => {
  const place = new Place();
  try {
    const [port, http2Port] = await freePorts(2);
    await ALL.haproxy.start(place, { port, http2Port, httplog: "option httplog" });
    assert.equal((await fetch(`http://127.0.0.1:${port}/page.html`)).status, 200);
    const log = place.file("access.log");
    await until("it has logged the request", () => readFileSync(log, "utf8").includes("/page.html"));
    const { code, stderr } = await tally.tally(["import", "--prefix", "haproxy-own:", log]);
    assert.deepEqual([code, await sumOf("haproxy-own:")], [1, 0]);
    assert.match(stderr, /access\.log: no format fits its first lines/);
  } finally {
    await place.end();
  }
});
