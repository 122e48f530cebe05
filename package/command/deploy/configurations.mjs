// The configurations of a deployment, made of those of the source: so classes and dates stand once.
import { readFileSync } from "node:fs";
import { join } from "node:path";

/** The jurisdictions of Cloudflare. */
export const JURISDICTIONS = ["eu", "fedramp", "fedramp-high", "us"];

// The first wrangler that takes `exports`.
const WRANGLER_MIN = [4, 107];

/** Whether wrangler of this version takes these configurations. */
export function isTaken(version) {
  const [major, minor] = version.split(".").map(Number);
  return major > WRANGLER_MIN[0] || (major === WRANGLER_MIN[0] && minor >= WRANGLER_MIN[1]);
}

/** A configuration. Its comments have lines of their own, and a list may end in a comma. */
export const read = (path) =>
  JSON.parse(
    readFileSync(path, "utf8")
      .replaceAll(/^\s*\/\/.*$/gm, "")
      .replaceAll(/,(?=\s*[\]}])/g, ""),
  );

// A queue of events, from both sides.
const producers = (name) => ({ producers: [{ binding: "TALLY_QUEUE", queue: `${name}-events` }] });
const consumers = (name) => ({
  consumers: [
    {
      queue: `${name}-events`, max_batch_size: 100, max_batch_timeout: 1, max_retries: 100,
      dead_letter_queue: `${name}-events-dead`,
    },
  ],
});

// What the aggregator has, for the edge: then one Worker has both roles, and its edge binds its own entrypoint.
function together(edge, aggregator, name) {
  const both = {
    ...edge, name, vars: { ...aggregator.vars, ...edge.vars }, durable_objects: aggregator.durable_objects,
    exports: aggregator.exports, services: [{ binding: "AGGREGATOR", service: name, entrypoint: "Aggregator" }],
  };
  if (aggregator.queues) both.queues = { ...edge.queues, ...aggregator.queues };
  if (aggregator.r2_buckets) both.r2_buckets = aggregator.r2_buckets;
  return both;
}

/**
 * Returns `{ edge, aggregator }`, the texts of wrangler.jsonc and wrangler.aggregator.jsonc; `{ edge }` alone where one
 * Worker has both roles. `build`: the folder of the built Worker, from theirs.
 */
export function configurations(root, settings) {
  const { name, domain, datacenters, tablets, queue, snapshots, analytics, jurisdiction, oneWorker, build } = settings;
  const own = (file) => {
    const { build: _, ...rest } = read(join(root, file));
    const named = JSON.stringify({ ...rest, main: join(build, "index.js") })
      .replaceAll('"tally-aggregator"', JSON.stringify(`${name}-aggregator`))
      .replaceAll('"tally-edge"', JSON.stringify(`${name}-edge`));
    return JSON.parse(named);
  };
  const [edge, aggregator] = [own("wrangler.jsonc"), own("wrangler.aggregator.jsonc")];
  const set = (to, values) => {
    for (const [variable, value] of Object.entries(values)) if (value !== undefined) to.vars[variable] = String(value);
  };
  for (const one of [edge, aggregator]) set(one, { TALLY_TABLETS: tablets, TALLY_JURISDICTION: jurisdiction });
  set(edge, { TALLY_DATACENTERS: datacenters === "colos" ? undefined : datacenters });
  if (domain !== undefined) {
    Object.assign(edge, { workers_dev: false, routes: [{ pattern: domain, custom_domain: true }] });
  }
  if (queue) [edge.queues, aggregator.queues] = [producers(name), consumers(name)];
  if (snapshots) {
    const bucket = { binding: "TALLY_SNAPSHOTS_BUCKET", bucket_name: `${name}-snapshots` };
    aggregator.r2_buckets = [bucketJurisdiction(jurisdiction, bucket)];
  }
  const points = [{ binding: "TALLY_ANALYTICS", dataset: name.replaceAll("-", "_") }];
  if (analytics) for (const one of [edge, aggregator]) one.analytics_engine_datasets = points;
  const text = (one) => `// Written by tally deploy.\n${JSON.stringify(one, undefined, 2)}\n`;
  if (oneWorker) return { edge: text(together(edge, aggregator, name)) };
  return { edge: text(edge), aggregator: text(aggregator) };
}

/** A bucket in the jurisdiction of a deployment, where R2 has it. */
const bucketJurisdiction = (jurisdiction, bucket) =>
  R2_JURISDICTIONS.includes(jurisdiction) ? { ...bucket, jurisdiction } : bucket;

/** The jurisdictions that buckets of R2 have. */
export const R2_JURISDICTIONS = ["eu", "fedramp"];
