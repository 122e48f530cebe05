// Tally in your own tests: both Workers under Miniflare, their objects in memory, open to everybody.
//
//   import { openTally } from "./tally.mjs";
//   const tally = await openTally();
//   await tally.fetch("/counters/likes/increment", { method: "POST" });
//   await tally.close();
//
// It needs the package miniflare (version 5) and the files of build/, which `make build` writes.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import miniflare from "miniflare";

const EDGE = "tally-edge";
const AGGREGATOR = "tally-aggregator";
const CLASSES = { BOARDS: "Board", CELLS: "Cell", DIRECTORY: "Directory", INBOXES: "Inbox", LIMITERS: "Limiter", TABLETS: "Tablet", WATCHERS: "Watcher", KEYSPACES: "Keyspace" };
const TYPES = { js: "esm", wasm: "wasm" };

/**
 * Starts Tally and resolves to `{ fetch, edge, url, close }`. `edge(path, init)` calls Tally; `init.cf`, such as `{ colo: "FRA" }`, names the datacenter.
 * `build`: the folder of the built Worker. `vars`: variables of both Workers. `workers`: Workers of your own, as Miniflare takes them; they may
 * bind the service `tally-edge`. `fetch(path, init)` calls the first of them, or Tally where there is none.
 */
export async function openTally({ build = fileURLToPath(new URL("../../build/", import.meta.url)), vars = {}, workers = [] } = {}) {
  const modules = Object.fromEntries(
    ["index.js", "index_bg.wasm"].map((name) => {
      const type = TYPES[name.split(".").at(-1)];
      return [name, { type, contents: readFileSync(`${build}${name}`, type === "wasm" ? undefined : "utf8") }];
    }),
  );
  const compatibilityDate = readFileSync(`${build}../wrangler.toml`, "utf8").match(/^compatibility_date = "([\d-]+)"/m)[1];
  const text = (value) => ({ type: "text", value });
  const env = (role) => ({
    TALLY_ROLE: text(role),
    ...Object.fromEntries(Object.entries(vars).map(([name, value]) => [name, text(value)])),
    ...Object.fromEntries(
      Object.entries(CLASSES).map(([name, exportName]) => [name, { type: "durable-object", worker: AGGREGATOR, exportName }]),
    ),
  });
  const worker = (name, bindings, exports = {}) => ({
    config: {
      name,
      compatibilityDate,
      manifest: { mainModule: "index.js", modulesRoot: build, modules },
      env: bindings,
      exports,
      triggers: [],
    },
    dev: { rootPath: build },
  });
  const access = vars.TALLY_KEYS === undefined ? { TALLY_ACCESS: text("open") } : {};
  const classes = Object.fromEntries(
    Object.values(CLASSES).map((name) => [name, { type: "durable-object", storage: "sqlite" }]),
  );
  const world = new miniflare.Miniflare({
    workers: [
      ...workers,
      worker(EDGE, { ...env("edge"), ...access, AGGREGATOR: { type: "worker", worker: AGGREGATOR } }),
      worker(AGGREGATOR, env("aggregator"), classes),
    ],
    enableDevRegistry: false,
    telemetry: { enabled: false },
  });
  const url = await world.ready;
  return {
    url,
    fetch: (path, init) => world.dispatchFetch(new URL(path, url), init),
    edge: async (path, init) => (await world.getWorker(EDGE)).fetch(new URL(path, url), init),
    close: () => world.dispose(),
  };
}
