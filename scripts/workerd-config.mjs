// The text of the workerd configuration that `make serve` runs: both Workers from one module.
//
// Invariants: nothing secret is in the text (every value comes `fromEnvironment`), and the names
// under which objects are stored (`uniqueKey`, the folder "objects") never change, because data on
// disk is found by them.

import { isIP } from "node:net";

/**
 * The classes of objects. workerd derives object ids and the folders of its storage from the values: a change loses all
 * data.
 */
export const UNIQUE_KEYS = {
  Board: "tally-board-v1",
  Cell: "tally-cell-v1",
  Directory: "tally-directory-v1",
  Inbox: "tally-inbox-v1",
  Limiter: "tally-limiter-v1",
  Tablet: "tally-tablet-v1",
  Watcher: "tally-watcher-v1",
  Keyspace: "tally-keyspace-v1",
};

// A Cap'n Proto text literal. JSON's escapes are a subset of Cap'n Proto's except \u, so what
// would need \u is refused; paths and addresses do not hold control characters.
function text(value) {
  const literal = JSON.stringify(value);
  if (literal.includes("\\u")) throw new Error(`control character in ${literal}`);
  return literal;
}

function list(items, indent) {
  return `[\n${items.map((item) => `${indent}  ${item},\n`).join("")}${indent}]`;
}

/**
 * Returns the networks that workerd may connect to besides public ones, by TALLY_ALERTS_ALLOW: those that it names, and
 * for names of hosts the private ones, or this machine's. What is no such setting is refused by the Workers, and allows
 * nothing here.
 */
export function networksOf(setting) {
  let entries;
  try {
    entries = JSON.parse(setting ?? "[]");
  } catch {
    return [];
  }
  const networkOf = (entry) => {
    if (isIP(entry.split("/")[0]) !== 0) {
      return entry.includes("/") ? entry : `${entry}/${isIP(entry) === 4 ? 32 : 128}`;
    }
    return /(^|[.])localhost$/i.test(entry) ? "local" : "private";
  };
  return Array.isArray(entries)
    ? [...new Set(entries.filter((entry) => typeof entry === "string").map(networkOf))]
    : [];
}

/**
 * Returns the configuration as Cap'n Proto text.
 *
 * addresses: one "host:port" per edge. Each edge is a Worker of its own, with its own isolate;
 * all share the aggregator's objects.
 * build: absolute folder of index.js and index_bg.wasm. objects: absolute folder of the objects.
 * snapshots: absolute folder of the snapshots' files, or undefined: then none are made.
 * environment: names of the variables handed to both Workers as text bindings.
 * networks: what it may connect to besides public addresses, see `networksOf`.
 * cfBlobHeader: name of the request header that sets `request.cf`, or undefined: then
 * `request.cf` is undefined too.
 * Source: workerd.capnp in the npm package workerd.
 */
export function workerdConfig({
  addresses, build, objects, snapshots, compatibilityDate, environment, networks = [], cfBlobHeader,
}) {
  const variables = environment.map((name) => `(name = ${text(name)}, fromEnvironment = ${text(name)})`);
  const edge = (index) => (index === 0 ? "edge" : `edge-${index + 1}`);
  const http = cfBlobHeader ? `(cfBlobHeader = ${text(cfBlobHeader)})` : "()";
  const sockets = addresses.map(
    (address, index) =>
      `(name = ${text(`http-${edge(index)}`)}, address = ${text(address)}, http = ${http}, service = ${text(edge(index))})`,
  );
  const services = [
    `(name = "aggregator", worker = .aggregatorWorker)`,
    `(name = "objects", disk = (path = ${text(objects)}, writable = true))`,
    ...(snapshots === undefined ? [] : [`(name = "snapshots", disk = (path = ${text(snapshots)}, writable = true))`]),
    ...addresses.map((_, index) => `(name = ${text(edge(index))}, worker = .edgeWorker)`),
    // As workerd's own, which allows public addresses alone, whatever a name resolves to.
    ...(networks.length === 0 ? [] : [`(name = "internet", network = (allow = ${list(["public", ...networks].map(text), "  ")}, tlsOptions = (trustBrowserCas = true)))`]),
  ];
  const worker = (bindings, more = "") => `(
  compatibilityDate = ${text(compatibilityDate)},
  modules = [
    (name = "index.js", esModule = embed ${text(`${build}/index.js`)}),
    (name = "index_bg.wasm", wasm = embed ${text(`${build}/index_bg.wasm`)}),
  ],
  bindings = ${list([...bindings, ...variables], "  ")},${more}
)`;
  const namespaces = Object.entries(UNIQUE_KEYS).map(
    ([name, key]) => `(className = ${text(name)}, uniqueKey = ${text(key)}, enableSql = true)`,
  );
  return `# Written by scripts/server.mjs at each start.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  sockets = ${list(sockets, "  ")},
  services = ${list(services, "  ")},
);

const edgeWorker :Workerd.Worker = ${worker([
    `(name = "TALLY_ROLE", text = "edge")`,
    `(name = "AGGREGATOR", service = "aggregator")`,
    `(name = "BOARDS", durableObjectNamespace = (className = "Board", serviceName = "aggregator"))`,
    `(name = "CELLS", durableObjectNamespace = (className = "Cell", serviceName = "aggregator"))`,
    `(name = "DIRECTORY", durableObjectNamespace = (className = "Directory", serviceName = "aggregator"))`,
    `(name = "INBOXES", durableObjectNamespace = (className = "Inbox", serviceName = "aggregator"))`,
    `(name = "LIMITERS", durableObjectNamespace = (className = "Limiter", serviceName = "aggregator"))`,
    `(name = "TABLETS", durableObjectNamespace = (className = "Tablet", serviceName = "aggregator"))`,
    `(name = "KEYSPACES", durableObjectNamespace = (className = "Keyspace", serviceName = "aggregator"))`,
    `(name = "WATCHERS", durableObjectNamespace = (className = "Watcher", serviceName = "aggregator"))`,
  ])};

const aggregatorWorker :Workerd.Worker = ${worker(
    [
      `(name = "TALLY_ROLE", text = "aggregator")`,
      `(name = "BOARDS", durableObjectNamespace = "Board")`,
      `(name = "CELLS", durableObjectNamespace = "Cell")`,
      `(name = "DIRECTORY", durableObjectNamespace = "Directory")`,
      `(name = "INBOXES", durableObjectNamespace = "Inbox")`,
      `(name = "LIMITERS", durableObjectNamespace = "Limiter")`,
      `(name = "TABLETS", durableObjectNamespace = "Tablet")`,
      `(name = "KEYSPACES", durableObjectNamespace = "Keyspace")`,
      `(name = "WATCHERS", durableObjectNamespace = "Watcher")`,
      ...(snapshots === undefined ? [] : [`(name = "TALLY_SNAPSHOTS_FOLDER", service = "snapshots")`]),
    ],
    `
  durableObjectNamespaces = ${list(namespaces, "  ")},
  durableObjectStorage = (localDisk = "objects"),`,
  )};
`;
}
