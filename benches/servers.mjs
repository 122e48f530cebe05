// The programs under load. Each listens on free ports of loopback with its data in a folder of its own.
//
// Invariants: a server ends with this process (process.mjs), and its data starts empty.
// To add one: a function like `tally` below, and its name in SERVERS.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import workerd from "workerd";
import { workerdConfig } from "../scripts/workerd-config.mjs";
import { BenchError } from "./load.mjs";
import { freePort, start } from "./process.mjs";

const path = (name) => fileURLToPath(new URL(name, import.meta.url));
const WORKERD = workerd.default ?? workerd;

// Resolves to what a counter holds: 0 where it does not exist, as no write of it has landed yet.
async function value(url) {
  const answer = await fetch(url);
  const body = await answer.text();
  if (answer.status === 404 && JSON.parse(body).code === "counter-not-found") return 0;
  if (answer.status !== 200) throw new BenchError(`${url} answers ${answer.status}: ${body}`);
  return Number(JSON.parse(body).value);
}

const strong = (server) => (id) => value(`${server.urls[0]}/counters/${id}?consistency=strong`);

// The release build, as `make serve` runs it. root: the checkout whose build it is.
async function tally(folder, edges, { variables = {}, nofile, root = path("..") } = {}) {
  const server = await start("Tally", [process.execPath, join(root, "scripts/serve.mjs")], {
    env: { PORT: "0", DATA: folder, SERVE_EDGES: String(edges), ...variables },
    nofile,
    announced: (text) => text.match(/^Tally is ready on (http:.*)$/m)?.[1].split(", "),
  });
  return { ...server, total: strong(server) };
}

// The native server, as `make native` builds it.
const NATIVE = path("../target/native/tally-server");
async function native(folder, threads, { variables = {}, nofile } = {}) {
  const options = ["--port", "0", "--data", join(folder, "data"), ...(threads ? ["--threads", String(threads)] : [])];
  const server = await start("the native server", [NATIVE, ...options], {
    env: variables,
    nofile,
    announced: (text) => text.match(/^Tally is ready on (http:.*)$/m)?.[1].split(", "),
  });
  return { ...server, total: strong(server) };
}

// Returns the urls that workerd wrote to its control stream, once all `count` sockets listen.
function listening(text, count) {
  const ports = [...text.matchAll(/"event":"listen","socket":"http[^"]*","port":(\d+)/g)];
  return ports.length < count ? undefined : ports.map(([, port]) => `http://127.0.0.1:${port}`);
}

// The release build with counters around its objects. Its rates are not those of what is shipped.
async function counted(folder, edges, { variables = {} } = {}) {
  const build = path("../build");
  const objects = join(folder, "objects");
  mkdirSync(objects);
  const shipped = workerdConfig({
    addresses: Array.from({ length: edges }, () => "127.0.0.1:0"),
    build,
    objects,
    compatibilityDate: readFileSync(path("../wrangler.jsonc"), "utf8").match(/"compatibility_date": "([\d-]+)"/)[1],
    environment: ["TALLY_ACCESS", ...Object.keys(variables)],
    cfBlobHeader: undefined,
  });
  const embedded = `esModule = embed ${JSON.stringify(`${build}/index.js`)}`;
  const wrapper = `esModule = embed ${JSON.stringify(path("counting/worker.js"))}`;
  const wrapped = shipped.replaceAll(
    `(name = "index.js", ${embedded})`,
    `(name = "index.js", ${wrapper}), (name = "built.js", ${embedded})`,
  );
  // One Worker is the edges', the other the aggregator's.
  if (wrapped.split(wrapper).length !== 3) throw new BenchError("scripts/workerd-config.mjs embeds index.js in another way: adapt benches/servers.mjs");
  const config = join(folder, "workerd.capnp");
  writeFileSync(config, wrapped);
  const server = await start("the counted Tally", [WORKERD, "serve", "--import-path", "/", "--control-fd=3", config], {
    env: { TALLY_ACCESS: "open", ...variables },
    stream: 3,
    announced: (text) => listening(text, edges),
  });
  const counts = async () => (await fetch(`${server.urls[0]}/bench-counts`)).json();
  return { ...server, total: strong(server), counts };
}

// The baseline: a Worker in JavaScript with one Durable Object per counter.
async function javascript(folder) {
  const command = [
    ...[WORKERD, "serve", path("baseline/workerd.capnp"), "--control-fd=3"],
    ...["--socket-addr=http=127.0.0.1:0", `--directory-path=objects=${folder}`],
  ];
  const server = await start("the JavaScript baseline", command, {
    stream: 3, announced: (text) => listening(text, 1),
  });
  return { ...server, total: (id) => value(`${server.urls[0]}/counters/${id}`) };
}

// The other way to count over HTTP: Redis behind webdis. fsync: Redis's appendfsync, when it makes what it
// acknowledges durable: "always" before the answer, as Tally does; "everysec" up to a second after it.
async function redis(folder, fsync) {
  const [port, http_port] = [await freePort(), await freePort()];
  const store = await start("Redis", [
    ...["redis-server", "--port", String(port), "--bind", "127.0.0.1", "--dir", folder],
    ...["--appendonly", "yes", "--appendfsync", fsync, "--save", ""],
  ], { announced: (text) => (/Ready to accept connections/.test(text) ? [] : undefined) });
  const config = join(folder, "webdis.json");
  writeFileSync(config, JSON.stringify({
    ...{ redis_host: "127.0.0.1", redis_port: port, http_host: "127.0.0.1", http_port },
    ...{ threads: 2, daemonize: false, verbosity: 0, logfile: join(folder, "webdis.log") },
  }));
  const url = `http://127.0.0.1:${http_port}`;
  const answers = async () => ((await fetch(`${url}/PING`)).status === 200 ? [url] : undefined);
  const server = await start("webdis", ["webdis", config], { cwd: folder, answers }).catch(async (error) => {
    await store.end();
    throw error;
  });
  return {
    ...server,
    total: async (id) => Number((await (await fetch(`${url}/GET/${id}`)).json()).GET ?? 0),
    cpu_us: () => server.cpu_us() + store.cpu_us(),
    log: () => `${server.log()}${store.log()}`,
    end: async () => {
      await server.end();
      await store.end();
    },
  };
}

const SERVERS = {
  tally: (folder) => tally(folder, 1),
  "tally-before": (folder) => tally(folder, 1, { root: resolve(process.env.BENCH_BEFORE) }),
  "tally-32": (folder) => tally(folder, 32),
  "counted": (folder) => counted(folder, 1),
  "counted-32": (folder) => counted(folder, 32),
  "counted-32-few": (folder) => counted(folder, 32),
  native: (folder) => native(folder),
  "native-1": (folder) => native(folder, 1),
  "native-2": (folder) => native(folder, 2),
  javascript,
  "redis-always": (folder) => redis(folder, "always"),
  "redis-everysec": (folder) => redis(folder, "everysec"),
};

const isOnPath = (program) => spawnSync("/bin/sh", ["-c", `command -v ${program}`]).status === 0;

/** Returns why a server cannot be started here, or undefined where it can. name: one of SERVERS. */
export function missing(name) {
  if (name.startsWith("native")) return existsSync(NATIVE) ? undefined : "not built: make native";
  if (!name.startsWith("redis-") || ["redis-server", "webdis"].every(isOnPath)) return undefined;
  return "not installed: apt-get install redis-server webdis";
}

/**
 * Resolves to a running server: urls (one per isolate), total(id) (what it says a counter holds, nothing
 * cached), log() and end(); and counts() for those that count: {rows, calls} since they started.
 * name: one of SERVERS. folder: made for its data.
 * Errors: BenchError where it does not get ready. Cost: about 1 s, with 32 isolates some more.
 */
export async function startServer(name, folder) {
  mkdirSync(folder, { recursive: true });
  return SERVERS[name](folder);
}

/**
 * As `startServer`, of Tally with these variables, on workerd or as the native server; counts: whether it counts rows
 * and calls, on workerd. nofile: how many files it may open.
 */
export async function startTally(folder, { host = "workerd", variables, nofile, counts = false }) {
  mkdirSync(folder, { recursive: true });
  if (host === "native") return native(folder, undefined, { variables, nofile });
  return (counts ? counted : tally)(folder, 1, { variables, nofile });
}
