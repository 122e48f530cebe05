// The text of the workerd configuration that `make serve` runs: both Workers from one module.
//
// Invariants: nothing secret is in the text (every value comes `fromEnvironment`), and the names
// under which objects are stored (`uniqueKey`, the folder "objects") never change, because data on
// disk is found by them.

import { BlockList, isIP } from "node:net";

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

// Networks that are not the Internet's, and that workerd counts as public: those that lead to addresses of version 4
// by a translator, and reserved ones. INNER_V4 and INNER_V6 of crates/tally-wire/src/alerts/webhook.rs.
const NOT_PUBLIC = [
  "0.0.0.0/8", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
  "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001:db8::/32", "2002::/16", "3fff::/20",
  "fec0::/10",
];
// Where clouds tell a machine its secrets: METADATA there.
const METADATA = [
  "169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fe80::/10", "fd00:ec2::254/128",
  "fd20:ce::254/128",
];

// Whether a network has all of another. Of two that overlap, workerd goes by the narrower one, and refuses where both
// are as wide.
function covers(outer, inner) {
  const [[base, bits], [address, innerBits]] = [outer, inner].map((network) => network.split("/"));
  const family = (text) => (isIP(text) === 4 ? "ipv4" : "ipv6");
  if (family(base) !== family(address) || Number(bits) > Number(innerBits)) return false;
  const list = new BlockList();
  list.addSubnet(base, Number(bits), family(base));
  return list.check(address, family(address));
}

function entriesOf(setting) {
  try {
    const entries = JSON.parse(setting ?? "[]");
    return Array.isArray(entries) ? entries.filter((entry) => typeof entry === "string") : [];
  } catch {
    return [];
  }
}

/**
 * Returns what workerd may connect to by TALLY_ALERTS_ALLOW, whatever names resolve to: `internet` public addresses,
 * and those that the setting names; `named` inner ones too, for the hosts that it names, or undefined where it names
 * none. Each is `{ allow, deny }`. What is no such setting is refused by the Workers, and allows nothing here.
 */
export function networksOf(setting) {
  const entries = entriesOf(setting);
  const isAddress = (entry) => isIP(entry.split("/")[0]) !== 0;
  const networkOf = (entry) => (entry.includes("/") ? entry : `${entry}/${isIP(entry) === 4 ? 32 : 128}`);
  const named = [...new Set(entries.filter(isAddress).map(networkOf))];
  // An entry as wide as a network of metadata names it; a wider one does not.
  const isSame = (one, other) => covers(one, other) && covers(other, one);
  const metadata = METADATA.filter((network) => !named.some((entry) => isSame(entry, network)));
  const reserved = NOT_PUBLIC.filter((network) => !named.some((entry) => covers(entry, network)));
  const hosts = entries.filter((entry) => !isAddress(entry));
  // This machine is reached by its own names alone.
  const isLocal = hosts.some((host) => /(^|[.])localhost$/i.test(host));
  return {
    internet: { allow: ["public", ...named], deny: [...reserved, ...metadata] },
    named:
      hosts.length === 0
        ? undefined
        : { allow: ["public", "private", ...named], deny: [...metadata, ...(isLocal ? [] : ["local"])] },
  };
}

/**
 * Returns the services by which Workers leave this machine: "internet", which is that of `fetch`, and "named-hosts".
 * Addresses are looked at when a connection is made, so by whatever a name resolves to then.
 */
export function networkServices({ internet, named }) {
  const service = (name, { allow, deny }) =>
    `(name = ${text(name)}, network = (allow = ${list(allow.map(text), "  ")}, deny = ${list(deny.map(text), "  ")}, tlsOptions = (trustBrowserCas = true)))`;
  return [service("internet", internet), ...(named === undefined ? [] : [service("named-hosts", named)])];
}

/**
 * Returns the configuration as Cap'n Proto text.
 *
 * addresses: one "host:port" per edge. Each edge is a Worker of its own, with its own isolate;
 * all share the aggregator's objects.
 * build: absolute folder of index.js and index_bg.wasm. objects: absolute folder of the objects.
 * snapshots: absolute folder of the snapshots' files, or undefined: then none are made.
 * environment: names of the variables handed to both Workers as text bindings.
 * networks: what it may connect to, see `networksOf`.
 * cfBlobHeader: name of the request header that sets `request.cf`, or undefined: then
 * `request.cf` is undefined too.
 * Source: workerd.capnp in the npm package workerd.
 */
export function workerdConfig({
  addresses, build, objects, snapshots, compatibilityDate, environment, networks = networksOf(), cfBlobHeader,
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
    ...networkServices(networks),
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
      ...(networks.named === undefined ? [] : [`(name = "TALLY_NAMED_HOSTS", service = "named-hosts")`]),
      ...(snapshots === undefined ? [] : [`(name = "TALLY_SNAPSHOTS_FOLDER", service = "snapshots")`]),
    ],
    `
  durableObjectNamespaces = ${list(namespaces, "  ")},
  durableObjectStorage = (localDisk = "objects"),`,
  )};
`;
}
