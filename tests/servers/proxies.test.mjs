// Real proxies before a real Tally, with the configurations that docs/operate/machine.md shows, word for word but for
// addresses and ports. What a client sends through a proxy counts as what it sends to Tally itself.
import assert from "node:assert/strict";
import { request } from "node:http";
import { after, before, test } from "node:test";
import { openServer } from "../../package/test/server.mjs";
import { parse, read } from "../docs/pages.mjs";
import { Place, freePorts, isRoot, missing, until } from "./programs.mjs";

const PAGE = "docs/operate/machine.md";
const AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0";
// What proxies decode, merge, encode again, resolve or cut off.
const IDS = [
  "/blog", "/blog/2026/first", "blog", "//double//", "a/../b", "/./c", "trailing/", "50%", "a%2Fb", "%252F", "a+b c",
  "ü/ß", "q?x=1&y=2", "hash#tag", "semi;colon", "back\\slash", "star*", "a&b", "'quotes\"", "{braces}|[x]", "/tally/x",
];
const BODY_BYTES = 3 * 1024 * 1024;

let tally;
let place;
before(async () => {
  place = new Place();
  tally = await openServer({ env: { TALLY_CLIENT_ADDRESS_HEADER: "X-Forwarded-For" } });
});
after(async () => {
  await place?.end();
  await tally?.end();
});

/** Returns the configuration that the page shows under a name, for Tally at its address and the proxy at a port. */
function shown(name, port) {
  const block = parse(read(PAGE)).blocks.find(({ directive }) => directive === `proxy: ${name}`);
  assert.ok(block, `${PAGE} has a block below <!-- proxy: ${name} -->`);
  const text = block.text.replaceAll("127.0.0.1:8788", new URL(tally.url).host);
  const listening = text
    .replace("listen 80;", `listen 127.0.0.1:${port};`)
    .replace("bind :80", `bind 127.0.0.1:${port}`)
    .replace(/^(tally|www)\.example\.com \{/m, `http://127.0.0.1:${port} {`);
  assert.ok(listening.includes(`127.0.0.1:${port}`), `the block of ${name} says where the proxy listens`);
  return listening;
}

/** What each proxy needs around what the page shows, and how it is run in the foreground. */
const PROXIES = {
  nginx: (text) => ({
    file: place.file("nginx.conf", `${isRoot ? "user root;\n" : ""}
      daemon off; master_process off; pid nginx.pid; error_log stderr warn;
      events {}
      http {
        access_log off;
        client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
        ${text}
      }`),
    args: (file) => ["-p", place.folder, "-c", file],
  }),
  caddy: (text) => ({
    file: place.file("Caddyfile", `{\n\tadmin off\n\tauto_https off\n}\n${text}\n`),
    args: (file) => ["run", "--adapter", "caddyfile", "--config", file],
  }),
  apache2: (text) => ({
    file: place.file("apache.conf", `${["mpm_event", "authz_core", "proxy", "proxy_http"].map(
      (name) => `LoadModule ${name}_module /usr/lib/apache2/modules/mod_${name}.so`,
    ).join("\n")}
ServerRoot ${place.folder}
ServerName localhost
PidFile apache.pid
DefaultRuntimeDir ${place.folder}
ErrorLog ${place.file("apache-errors.log")}
${isRoot ? "User www-data\nGroup www-data" : ""}
${text}
`),
    args: (file) => ["-f", file, "-DFOREGROUND"],
  }),
  haproxy: (text) => ({
    file: place.file("haproxy.cfg", `global\n    maxconn 200\n${text}\n`),
    args: (file) => ["-db", "-f", file],
  }),
};

async function open(program, configure) {
  const [port] = await freePorts(1);
  const { file, args } = PROXIES[program](configure(port));
  const env = { XDG_DATA_HOME: place.folder, XDG_CONFIG_HOME: place.folder };
  const job = await place.start(program, args(file), { port, env });
  return { ...job, url: `http://127.0.0.1:${port}` };
}

// One request from an address of this machine. Resolves to `{ status, json }`.
const post = (url, body, { localAddress, headers = {} } = {}) =>
  new Promise((done, failed) => {
    const options = { method: "POST", agent: false, headers: { "user-agent": AGENT, ...headers } };
    const sent = request(url, localAddress ? { ...options, localAddress } : options, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (part) => (text += part)).on("end", () => {
        done({ status: answer.statusCode, json: text.startsWith("{") ? JSON.parse(text) : text });
      });
    });
    sent.once("error", failed).end(body);
  });

const counter = (id) => tally.json(`/counters/${encodeURIComponent(id)}`);

async function countsIds(base, suffix) {
  const ids = IDS.map((id) => `${id}${suffix}`);
  const answers = await Promise.all(
    ids.map((id) => post(`${base}/counters/${encodeURIComponent(id)}/increment`, "")),
  );
  assert.deepEqual(answers.map(({ status }, index) => [ids[index], status]), ids.map((id) => [id, 200]));
  const values = await Promise.all(ids.map(counter));
  assert.deepEqual(values.map(({ value }, index) => [ids[index], value]), ids.map((id) => [id, 1]));
}

// Who is behind a proxy cannot be another by a header, and two clients are two.
async function knowsClients(base, id) {
  const visit = (localAddress, forged) =>
    post(`${base}/counters/${id}/increment`, '{"unique":"auto"}', {
      localAddress, headers: { "x-forwarded-for": forged },
    });
  for (const [address, forged] of [
    ["127.0.0.2", "203.0.113.1"], ["127.0.0.2", "203.0.113.2"], ["127.0.0.3", "203.0.113.1"],
  ]) {
    const { status, json } = await visit(address, forged);
    assert.equal(status, 200, JSON.stringify(json));
  }
  const { value, uniques } = await counter(id);
  assert.deepEqual([value, uniques.estimate], [3, 2]);
}

async function streams(base, id) {
  const ended = new AbortController();
  const answer = await fetch(`${base}/live?id=${id}`, { signal: ended.signal });
  let text = "";
  for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
    text += part;
    if (text.includes(`"${id}":{"value":`)) break;
  }
  ended.abort();
  assert.match(text, /"type":"update"/);
}

function sockets(base, id) {
  const socket = new WebSocket(`${base.replace("http", "ws")}/live?id=${id}`);
  return new Promise((done, failed) => {
    socket.onmessage = ({ data }) => data.includes(`"${id}":{"value":`) && done();
    socket.onerror = ({ message }) => failed(new Error(`the socket failed: ${message}`));
    socket.onclose = ({ code }) => failed(new Error(`the socket closed with ${code}`));
  }).finally(() => socket.close());
}

async function takesBodies(base, id) {
  const line = `${JSON.stringify({ id, delta: 1 })}\n`;
  const lines = Math.ceil(BODY_BYTES / line.length);
  const { status, json } = await post(`${base}/events`, line.repeat(lines));
  assert.deepEqual([status, json.accepted], [200, lines], JSON.stringify(json).slice(0, 400));
}

async function pathOf(url) {
  const { stdout } = await tally.tally(["doctor", "--url", url, "--json"]);
  return JSON.parse(stdout).checks.find(({ check }) => check === "path");
}

for (const program of ["nginx", "caddy", "haproxy"]) {
  for (const [name, below] of [[program, ""], [`${program} below`, "/tally"]]) {
    test(`through ${name}`, { skip: missing(program), timeout: 120_000 }, async () => {
      const proxy = await open(program, (port) => shown(name, port));
      const base = `${proxy.url}${below}`;
      const id = name.replace(" ", "-");
      await countsIds(base, ` ${id}`);
      await knowsClients(base, id);
      await Promise.all([streams(base, id), sockets(base, id), takesBodies(base, `bulk-${id}`)]);
      const script = await fetch(`${base}/tally.js`);
      assert.deepEqual([script.status, /javascript/.test(script.headers.get("content-type"))], [200, true]);
      assert.equal((await pathOf(base)).result, "ok");
      await proxy.end();
    });
  }
}

// What people write into configurations, and what the doctor says of each. `change`: from the page's block to theirs.
const MISTAKES = [
  ["nginx", "decodes %2F", ["proxy_pass http://tally;", "proxy_pass http://tally/;"]],
  ["nginx", "encodes % again", ["proxy_pass http://tally;", "rewrite ^ $request_uri break; proxy_pass http://tally;"]],
  [
    "nginx", "answers a path with %2F itself, with 403",
    ["proxy_pass http://tally;", 'if ($request_uri ~ "%2F") { return 403; } proxy_pass http://tally;'],
  ],
  ["caddy", "decodes %2F", ["reverse_proxy", "uri replace %2F /\n\treverse_proxy"]],
  [
    "caddy", "answers a path with %2F itself, with 400",
    ["reverse_proxy", '@encoded expression `{http.request.orig_uri}.contains("%2F")`\n\terror @encoded 400\n\treverse_proxy'],
  ],
  ["haproxy", "decodes %2F", ["default_backend", "http-request set-path %[path,url_dec]\n    default_backend"]],
  ["haproxy", "encodes % again", ["default_backend", "http-request set-path %[path,regsub(%,%25,g)]\n    default_backend"]],
  [
    "haproxy", "answers a path with %2F itself, with 403",
    ["default_backend", "http-request deny deny_status 403 if { path -m sub -i %2F }\n    default_backend"],
  ],
];

for (const [program, sentence, [from, to]] of MISTAKES) {
  const changed = (text) => {
    assert.ok(text.includes(from), `the block of ${program} has ${from}`);
    return text.replace(from, to);
  };
  const name = `the doctor sees a proxy that ${sentence}: ${program}`;
  test(name, { skip: missing(program), timeout: 60_000 }, async () => {
    const proxy = await open(program, (port) => changed(shown(program, port)));
    const { result, detail } = await pathOf(proxy.url);
    assert.equal(result, "wrong", detail);
    assert.ok(detail.includes(sentence) && detail.includes("machine.md"), detail);
    await proxy.end();
  });
}

test("the 404 of a path whose slashes a proxy has decoded says how ids are sent", { skip: missing("nginx") }, async () => {
  const decoding = (text) => text.replace("proxy_pass http://tally;", "proxy_pass http://tally/;");
  const proxy = await open("nginx", (port) => decoding(shown("nginx", port)));
  assert.deepEqual((await post(`${proxy.url}/counters/%2Fdecoded/increment`, "")).json.id, "decoded");
  const { status, json } = await post(`${proxy.url}/counters/%2Fa%2Fb%2Fc/increment`, "");
  assert.equal(status, 404);
  assert.match(json.detail, /Send each slash of an id as %2F/);
  await proxy.end();
});

// Settings of an Apache, and what the doctor says of each: the page tells what to do then.
const APACHES = [
  ["AllowEncodedSlashes Off", "nocanon", "wrong", /answers a path with %2F itself, with 404/],
  ["AllowEncodedSlashes On", "", "wrong", /decodes %2F/],
  ["AllowEncodedSlashes On", "nocanon", "ok", /arrive as they are sent/],
  ["AllowEncodedSlashes NoDecode", "nocanon", "ok", /arrive as they are sent/],
];

test("the doctor tells what each setting of an Apache does with %2F", { skip: missing("apache2") }, async () => {
  for (const [slashes, canon, result, sentence] of APACHES) {
    const proxy = await open("apache2", (port) =>
      `Listen 127.0.0.1:${port}\n${slashes}\nProxyPass / ${tally.url}/ ${canon}`);
    const found = await pathOf(proxy.url);
    assert.equal(found.result, result, `${slashes} ${canon}: ${found.detail}`);
    assert.match(found.detail, sentence);
    await proxy.end();
  }
});
