// What each server is sent: some sixty requests that logs write in different ways, each with what it counts.
//
// Invariant: what is expected follows from what was sent and from the status that came back, by the rules of
// docs/guide/logs.md alone. No line of a log is read for it.
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";

const BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0";
// Of docs/guide/command.md: files that pages load.
const STATIC = /\.(?:css|js|png|svg|woff2|ico|webp)$/i;
const SILENCE_MS_MAX = 30_000;

/** The files of the site that servers of files have; other paths are 404. */
export const FILES = [
  "index.html", "page.html", "blog/index.html", "blog/2026/first.html", "café.html", "a b.html", 'quote"q.html',
  "50%.html",
  "plus+sign.html", "semi;colon.html", "tilde~.html", "it's.html", "(paren).html", "comma,colon:.html", "dollar$.html",
  "€.html", "star*.html", "absolute.html", "v6.html", "h2.html", "range.html", "style.css", "app.js", "pixel.png",
  "back\\slash.html", "naïve.html", "[bracket].html", "equals=&and.html", "download.pdf", "LOGO.PNG", "no-extension",
];

const get = (target, more = {}) => ({ method: "GET", target, headers: {}, address: "127.0.0.1", ...more });
const by = (agent, target = "/page.html") => get(target, { headers: { "User-Agent": agent } });

function targets() {
  const sent = [
    "/", "/page.html", "/page.html", "/page.html?x=1", '/page.html?say=%22hi%22&to=a%20b', "/page.html?",
    "/?utm_source=mail", "/page.html?redirect=http://other.example/x?y",
    "/blog/", "/blog", "/blog/index.html", "/blog/2026/first.html",
    "/caf%C3%A9.html", "/caf%c3%a9.html", "/a%20b.html", "/%70age.html", "/quote%22q.html", "/50%25.html",
    "/plus+sign.html", "/semi;colon.html", "/tilde~.html", "/it's.html", "/(paren).html", "/comma,colon:.html",
    "/dollar$.html", "/%E2%82%AC.html", "/star*.html", "/back%5Cslash.html", "/%5Bbracket%5D.html",
    "/equals=&and.html", "//page.html", "/blog/../page.html", "/./page.html", "/blog%2F2026%2Ffirst.html",
    "/style.css", "/style.css?v=2", "/app.js", "/pixel.png", "/LOGO.PNG", "/download.pdf", "/no-extension",
    // As they are, which each server escapes in its own way.
    '/quote"q.html', "/back\\slash.html", "/naïve.html", '/page.html?say="hi"\\',
    "/missing.html", "/missing/deeper?x=1", "/missing%22quoted", 'http://127.0.0.1/absolute.html',
    "http://shop.example:8080/absolute.html?x=1", "http://shop.example",
  ];
  return sent.map((target) => get(target));
}

function others() {
  return [
    ...["HEAD", "POST", "OPTIONS", "PURGE"].map((method) => get("/page.html", { method })),
    get("/range.html", { headers: { Range: "bytes=0-9" } }),
    get("/range.html", { headers: { Range: "bytes=999999-" } }),
    get("/range.html", { headers: { "If-Modified-Since": new Date(Date.now() + 86_400_000).toUTCString() } }),
    by(`${BROWSER} "quoted" \\back\\slash\\ "`),
    by(`" 200 5 "-" "${BROWSER}`),
    by(`${BROWSER} [01/Jan/2020:00:00:00 +0000] "/forged.html" 200 1`),
    by(`${BROWSER} ünï\tcode`),
    { ...by("curl/8.0"), isBot: true },
    { ...by(""), isBot: true },
    get("/page.html", { headers: { Referer: 'https://other.example/"a"\\b?c=[d]' } }),
    // nginx logs the user of any request.
    get("/page.html", {
      headers: { Authorization: `Basic ${Buffer.from('jo hn [1/x] "q" \\').toString("base64")}` },
    }),
    get("/v6.html", { address: "::1" }),
    get("/v6.html?from=6", { address: "::1" }),
    get("/page.html", { from: "127.0.0.2" }),
    get("/page.html", { version: "HTTP/1.0" }),
    get(`/missing/${"long".repeat(4_000)}.html`),
    get("/h2.html", { isHttp2: true }),
    get("/h2.html?x=%22", { isHttp2: true }),
    get("/missing-h2.html", { isHttp2: true }),
    get("/h2.html", { isHttp2: true, method: "HEAD" }),
  ];
}

/** What is no request, or none that ends: `bytes`, after which the client waits for the server's end, or `hangsUp`. */
const BROKEN = [
  // The head of a TLS handshake, then what a ClientHello goes on with.
  { bytes: Buffer.concat([Buffer.from("16030100c8010000c40303", "hex"), Buffer.alloc(194, 0x2e)]), hangsUp: true },
  { bytes: "nonsense\r\n\r\n" },
  { bytes: "\r\n\r\n", hangsUp: true },
  { bytes: "", hangsUp: true },
  { bytes: "GET /never.html HTTP/1.1\r\nHost: localhost\r\nX-Never: " },
  { bytes: "GET /never.html HTT" },
];

/** All of them, in the order in which they are sent. */
export const REQUESTS = [...targets(), ...others(), ...BROKEN];

const reject = (what) => () => Promise.reject(new Error(what));

/** Sends bytes. Resolves to all that came back until the server closed, or at once where the client hangs up. */
async function raw(bytes, { port, address = "127.0.0.1", from, hangsUp = false }) {
  const socket = connect({ port, host: address, localAddress: from });
  let text = "";
  socket.setEncoding("latin1").on("data", (part) => (text += part)).on("error", () => {});
  socket.setTimeout(SILENCE_MS_MAX, () => socket.destroy(new Error("the server neither answered nor closed")));
  await Promise.race([once(socket, "connect"), once(socket, "close").then(reject(`${address} ${port} refuses`))]);
  const closed = once(socket, "close");
  socket.write(bytes);
  if (hangsUp) socket.end();
  await closed;
  return text;
}

async function overHttp2({ method, target }, { http2Port }) {
  const session = connectHttp2(`http://127.0.0.1:${http2Port}`);
  const failed = new Promise((_, fail) => session.once("error", fail));
  const stream = session.request({ ":method": method, ":path": target, "user-agent": BROWSER });
  const [headers] = await Promise.race([once(stream, "response"), failed]);
  await Promise.race([once(stream.resume(), "end"), failed]);
  session.close();
  return headers[":status"];
}

/** Sends a request to a server at `ports`. Resolves to the status; undefined where there is none. */
export async function send(request, ports) {
  if (request.bytes !== undefined) {
    await raw(request.bytes, { ...request, ...ports });
    return undefined;
  }
  if (request.isHttp2) return overHttp2(request, ports);
  const { method, target, version = "HTTP/1.1" } = request;
  const headers = { Host: "localhost", "User-Agent": BROWSER, Connection: "close", ...request.headers };
  if (method === "POST") headers["Content-Length"] = "0";
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const text = await raw(`${method} ${target} ${version}\r\n${head.join("")}\r\n`, { ...request, ...ports });
  const status = text.match(/^HTTP\/1\.[01] (\d{3})/)?.[1];
  return status === undefined ? undefined : Number(status);
}

/** Returns the id that a request counts by the rules of page views; undefined where it counts nothing. */
export function counted({ method, target, isBot }, status) {
  if (method !== "GET" || isBot || !(status >= 200 && status <= 299)) return undefined;
  const path = target.replace(/^[a-z]+:\/\/[^/?]*/, "").replace(/\?.*/s, "") || "/";
  return STATIC.test(path) ? undefined : path;
}
