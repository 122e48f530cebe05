// Real proxies that ask the gate of a real Tally, with the configurations that docs/guide/gate.md shows, word for word
// but for addresses and ports: exactly as many requests pass as the policy admits, and none while Tally is away.
import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { after, before, test } from "node:test";
import { openServer } from "../../package/test/server.mjs";
import { parse, read } from "../docs/pages.mjs";
import { Place, freePorts, isRoot, missing } from "./programs.mjs";

const PAGE = "docs/guide/gate.md";
const LIMIT = 5;

let tally;
let place;
let application;
let passed = 0;
before(async () => {
  place = new Place();
  tally = await openServer({ env: { TALLY_CLIENT_ADDRESS_HEADER: "X-Forwarded-For" } });
  application = createServer((_, answer) => {
    passed++;
    answer.end("the application");
  });
  await new Promise((done) => application.listen(0, "127.0.0.1", done));
});
after(async () => {
  application?.close();
  await place?.end();
  await tally?.end();
});

/** What the page changes in a configuration, so that requests pass while Tally is away. */
const OPENS = {
  "gate nginx": [/return 503;/, `if ($gate_status !~ "^50[24]$") { return 503; }\n proxy_pass http://127.0.0.1:3000;`],
  "gate haproxy": [/(?<=unless.*)$/m, " or { var(txn.gate_status) -m int 0 }"],
};

/** The configuration that the page shows under a name, with these addresses. */
function shown(name, port, { gate = new URL(tally.url).host, isOpen = false } = {}) {
  const block = parse(read(PAGE)).blocks.find(({ directive }) => directive === `proxy: ${name}`);
  assert.ok(block, `${PAGE} has a block below <!-- proxy: ${name} -->`);
  const text = isOpen && OPENS[name] ? block.text.replace(OPENS[name][0], () => OPENS[name][1]) : block.text;
  return text
    .replaceAll("127.0.0.1:8788", gate)
    .replaceAll("127.0.0.1:3000", `127.0.0.1:${application.address().port}`)
    .replace("listen 80;", `listen 127.0.0.1:${port};`)
    .replace("bind :80", `bind 127.0.0.1:${port}`)
    .replace(/^www\.example\.com \{/m, `http://127.0.0.1:${port} {`);
}

/** What each proxy needs around what the page shows, and how it is run in the foreground. */
const PROXIES = {
  nginx: (port, how) => ({
    file: place.file(`nginx-${port}.conf`, `${isRoot ? "user root;\n" : ""}
      daemon off; master_process off; pid nginx-${port}.pid; error_log stderr crit;
      events {}
      http {
        access_log off;
        client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
        ${shown("gate nginx", port, how)}
      }`),
    args: (file) => ["-p", place.folder, "-c", file],
  }),
  caddy: (port, how) => ({
    file: place.file(`Caddyfile-${port}`, `{\n\tadmin off\n\tauto_https off\n}\n${shown("gate caddy", port, how)}\n`),
    args: (file) => ["run", "--adapter", "caddyfile", "--config", file],
  }),
  haproxy: (port, how) => {
    const script = place.file(`gate-${port}.lua`, shown("gate haproxy lua", port, how));
    const text = shown("gate haproxy", port, how).replace("lua-load gate.lua", `maxconn 200\n    lua-load ${script}`);
    return { file: place.file(`haproxy-${port}.cfg`, `${text}\n`), args: (file) => ["-db", "-f", file] };
  },
};

async function open(program, how) {
  const [port] = await freePorts(1);
  const { file, args } = PROXIES[program](port, how);
  const env = { XDG_DATA_HOME: place.folder, XDG_CONFIG_HOME: place.folder };
  const job = await place.start(program, args(file), { port, env });
  return { ...job, url: `http://127.0.0.1:${port}/any?x=1` };
}

const get = (url, localAddress) =>
  new Promise((done, failed) => {
    const headers = { "x-forwarded-for": "203.0.113.1", authorization: "Bearer of the client" };
    const sent = request(url, { agent: false, localAddress, headers }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (part) => (text += part)).on("end", () => {
        done({ status: answer.statusCode, headers: answer.headers, text });
      });
    });
    sent.once("error", failed).end();
  });

const put = () =>
  tally.json("/limits/api", { method: "PUT", body: JSON.stringify({ limit: LIMIT, window_seconds: 3_600 }) });
const forget = (key) => tally.json(`/limits/api/${key}`, { method: "DELETE" });

/** As many requests pass as the policy admits, and clients get what Tally says of it. */
async function passesExactly(program, how) {
  await put();
  await Promise.all(["127.0.0.2", "127.0.0.3"].map(forget));
  const { url } = await open(program, how);
  const before = passed;
  const answers = [];
  for (let number = 0; number < LIMIT + 3; number++) answers.push(await get(url, "127.0.0.2"));
  const statuses = answers.map(({ status }) => status);
  assert.deepEqual(statuses, [...Array(LIMIT).fill(200), 429, 429, 429]);
  assert.equal(passed - before, LIMIT);
  const left = answers.slice(0, LIMIT).map(({ headers }) => headers.ratelimit?.match(/r=(\d+)/)?.[1]);
  assert.deepEqual(left, ["4", "3", "2", "1", "0"]);
  const refused = answers.at(-1);
  assert.match(refused.headers["ratelimit-policy"], /^"api";q=5;w=3600/);
  assert.ok(Number(refused.headers["retry-after"]) > 0, JSON.stringify(refused.headers));
  assert.match(refused.headers["content-type"], /^application\/problem\+json/);
  assert.equal(JSON.parse(refused.text).code, "quota-exceeded");
  // Another client has its own quota.
  assert.equal((await get(url, "127.0.0.3")).status, 200);
}

for (const program of Object.keys(PROXIES)) {
  test(`${program} lets exactly as many requests pass as the policy admits`, { skip: missing(program) }, () =>
    passesExactly(program));

  test(`${program} lets nothing pass while Tally is away`, { skip: missing(program) }, async () => {
    const [nobody] = await freePorts(1);
    const { url } = await open(program, { gate: `127.0.0.1:${nobody}` });
    const before = passed;
    const { status } = await get(url, "127.0.0.2");
    assert.equal(status, program === "caddy" ? 502 : 503);
    assert.equal(passed, before);
  });

  if (!(`gate ${program}` in OPENS)) continue;
  test(`${program} lets all requests pass while Tally is away, if it is told so`, { skip: missing(program) }, async () => {
    const [nobody] = await freePorts(1);
    const { url } = await open(program, { gate: `127.0.0.1:${nobody}`, isOpen: true });
    const before = passed;
    for (let number = 0; number < LIMIT + 3; number++) assert.equal((await get(url, "127.0.0.2")).status, 200);
    assert.equal(passed - before, LIMIT + 3);
    // It refuses still where Tally answers, and so it does what is not known to Tally.
    await passesExactly(program, { isOpen: true });
    await tally.json("/limits/api", { method: "DELETE" });
    assert.equal((await get((await open(program, { isOpen: true })).url, "127.0.0.2")).status, 503);
  });
}

test("the page says how each proxy is told so", () => {
  const page = read(PAGE);
  assert.ok(page.includes('if ($gate_status !~ "^50[24]$") { return 503; }` and `proxy_pass http://127.0.0.1:3000;`'));
  assert.ok(page.includes("add `or { var(txn.gate_status) -m int 0 }` to the last `unless`"));
});
