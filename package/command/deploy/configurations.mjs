// The two configurations of a deployment, made of those of the source: so classes, migrations and dates stand once.
import { readFileSync } from "node:fs";
import { join } from "node:path";

const SECTION = /^\[build\]\n(?:[^[\n].*\n)*/m;

/**
 * Returns `{ edge, aggregator }`, the texts of wrangler.toml and wrangler.aggregator.toml. `build`: the folder of the
 * built Worker, from theirs.
 */
export function configurations(root, { name, domain, datacenters, tablets, queue, snapshots, analytics, build }) {
  const own = (file) =>
    readFileSync(join(root, file), "utf8")
      .replaceAll(/^#.*\n/gm, "")
      .replace(SECTION, "")
      .replaceAll("tally-aggregator", `${name}-aggregator`)
      .replaceAll("tally-edge", `${name}-edge`)
      .replace(/^main = .*$/m, `main = ${JSON.stringify(join(build, "index.js"))}`);
  const variables = (text, values) => {
    const lines = Object.entries(values)
      .filter(([, value]) => value !== undefined)
      .map(([variable, value]) => `${variable} = ${JSON.stringify(String(value))}\n`);
    return text.replace(/^TALLY_ROLE = .*\n/m, (role) => role + lines.join(""));
  };
  const shared = { TALLY_TABLETS: tablets };
  let edge = variables(own("wrangler.toml"), {
    TALLY_DATACENTERS: datacenters === "colos" ? undefined : datacenters, ...shared,
  });
  let aggregator = variables(own("wrangler.aggregator.toml"), shared);
  if (domain !== undefined) {
    edge = edge.replace(/^workers_dev = true$/m, `workers_dev = false\nroutes = [{ pattern = ${JSON.stringify(domain)}, custom_domain = true }]`);
  }
  if (queue) {
    edge += `\n[[queues.producers]]\nbinding = "TALLY_QUEUE"\nqueue = "${name}-events"\n`;
    aggregator += `\n[[queues.consumers]]\nqueue = "${name}-events"\nmax_batch_size = 100\nmax_batch_timeout = 1\nmax_retries = 100\ndead_letter_queue = "${name}-events-dead"\n`;
  }
  if (snapshots) aggregator += `\n[[r2_buckets]]\nbinding = "TALLY_SNAPSHOTS_BUCKET"\nbucket_name = "${name}-snapshots"\n`;
  if (analytics) for (const add of [(text) => (edge += text), (text) => (aggregator += text)]) add(`\n[[analytics_engine_datasets]]\nbinding = "TALLY_ANALYTICS"\ndataset = "${name.replaceAll("-", "_")}"\n`);
  const tidy = (text) => `# Written by tally deploy.\n${text.replaceAll(/\n{3,}/g, "\n\n").trimStart()}`;
  return { edge: tidy(edge), aggregator: tidy(aggregator) };
}
