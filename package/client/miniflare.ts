// The real Tally in tests: both Workers under Miniflare, their objects in memory.
//
//   const tally = await startTally();
//   await tally.client.increment("likes");
//   await tally.close();
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Tally } from "./index.ts";

const EDGE = "tally-edge";
const AGGREGATOR = "tally-aggregator";
export interface StartOptions {
  /** The folder that holds `build/` and `wrangler.jsonc`; that of this package. */
  root?: string;
  /** Variables of both Workers. With `TALLY_KEYS` access is as you set it, else open. */
  vars?: Record<string, string>;
  /** Workers of your own, as Miniflare takes them. They may bind the service `tally-edge`. */
  workers?: unknown[];
  /** The key that `client` sends. */
  key?: string;
}

export interface Started {
  url: URL;
  /** A client of the edge. */
  client: Tally;
  /**
   * Calls the first of your Workers, or Tally where there is none. `init.cf`, such as `{ colo: "FRA" }`, names the
   * datacenter.
   */
  fetch(path: string, init?: any): Promise<Response>;
  /** Calls Tally. */
  edge(path: string, init?: any): Promise<Response>;
  /** Ends it. Call it also when a test fails. */
  close(): Promise<void>;
}

// Of your project, where it has one: this package does not bring Miniflare along.
async function miniflare(): Promise<{ Miniflare: new (options: unknown) => any }> {
  for (const from of [join(process.cwd(), "package.json"), fileURLToPath(import.meta.url)]) {
    try {
      const found = await import(pathToFileURL(createRequire(from).resolve("miniflare")).href);
      return found.Miniflare === undefined ? found.default : found;
    } catch (error) {
      if ((error as { code?: string }).code !== "MODULE_NOT_FOUND") throw error;
    }
  }
  throw new Error("startTally() needs the package miniflare, version 5: npm install --save-dev miniflare@5");
}

/** Starts Tally, and resolves once it answers. */
export async function startTally({ root = ROOT, vars = {}, workers = [], key }: StartOptions = {}): Promise<Started> {
  const build = join(root, "build");
  const modules = {
    "index.js": { type: "esm", contents: readFileSync(join(build, "index.js"), "utf8") },
    "index_bg.wasm": { type: "wasm", contents: readFileSync(join(build, "index_bg.wasm")) },
  };
  // The classes stand in the configuration of a deployment.
  const configuration = readFileSync(join(root, "wrangler.aggregator.jsonc"), "utf8");
  const compatibilityDate = configuration.match(/"compatibility_date": "([\d-]+)"/)?.[1];
  const classes = [...configuration.matchAll(/^ *\{ "name": "(\w+)", "class_name": "(\w+)" \}/gm)].map(
    ([, binding, exportName]) => [binding ?? "", exportName ?? ""] as const,
  );
  const text = (value: string) => ({ type: "text", value });
  const objects = classes.map(([name, exportName]) => [
    name, { type: "durable-object", worker: AGGREGATOR, exportName },
  ]);
  const env = (role: string) => ({
    TALLY_ROLE: text(role),
    ...Object.fromEntries(Object.entries(vars).map(([name, value]) => [name, text(value)])),
    ...Object.fromEntries(objects),
  });
  const worker = (name: string, bindings: object, exports: object = {}) => ({
    config: {
      name, compatibilityDate, manifest: { mainModule: "index.js", modulesRoot: build, modules }, env: bindings,
      exports, triggers: [],
    },
    dev: { rootPath: build },
  });
  const access = vars["TALLY_KEYS"] === undefined ? { TALLY_ACCESS: text("open") } : {};
  const stored = Object.fromEntries(classes.map(([, name]) => [name, { type: "durable-object", storage: "sqlite" }]));
  const { Miniflare } = await miniflare();
  const world = new Miniflare({
    workers: [
      ...workers,
      worker(EDGE, { ...env("edge"), ...access, AGGREGATOR: { type: "worker", worker: AGGREGATOR } }),
      worker(AGGREGATOR, env("aggregator"), stored),
    ],
    enableDevRegistry: false,
    telemetry: { enabled: false },
  });
  const url: URL = await world.ready;
  const edge = async (path: string, init?: any) => (await world.getWorker(EDGE)).fetch(new URL(path, url).href, init);
  return {
    url,
    client: new Tally({
      url: url.origin, fetch: (address, init) => edge(address, init), ...(key === undefined ? {} : { key }),
    }),
    fetch: (path, init) => world.dispatchFetch(new URL(path, url), init),
    edge,
    close: () => world.dispose(),
  };
}

// In the package this file is in client/, in the source in package/client/.
const HERE = fileURLToPath(new URL("..", import.meta.url));
const ROOT = HERE.endsWith("/package/") && import.meta.url.endsWith(".ts") ? join(HERE, "..") : HERE;
