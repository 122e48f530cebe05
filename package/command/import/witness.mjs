// Whether a deployment still has what earlier runs counted: it may have been restored from an older copy.
//
// Invariant: what a counter has reached by its `version` it has reached for good, whatever is set, taken away or
// counted in place of a deleted one since. Only older data lacks it, or a datacenter that does not answer.
import { resolve } from "node:path";
import { path } from "../../client/transport.ts";

// Of the last body, so many counters with the most lines are noted.
const COUNTERS = 3;
// An address has room for it. Counters of many datacenters have longer ones.
const VERSION_LENGTH_MAX = 4_096;
const READ_MS_MAX = 10_000;

export class Witness {
  #client;
  #host;

  /** host: what reads and writes the versions (hostOf of files.mjs). */
  constructor(client, host) {
    this.#client = client;
    this.#host = host;
  }

  #read(id, query) {
    const call = { query: { consistency: "strong", ...query }, retries: 0, deadline_ms: READ_MS_MAX };
    return this.#client.answer("GET", path("/counters/{id}", id), call);
  }

  /** Resolves to what is wrong: `{ isDeleted, why }`; undefined where nothing is. */
  async look() {
    const codes = { "version-not-reached": "behind", "counter-not-found": "deleted" };
    const noted = Object.entries(this.#host.versions());
    const look = ([id, version]) => this.#read(id, { at_least: version });
    const found = await Promise.all(noted.map((one) => look(one).then(() => "there", ({ code }) => codes[code])));
    const behind = found.indexOf("behind");
    const isDeleted = noted.length > 0 && found.every((state) => state === "deleted");
    if (behind === -1 && !isDeleted) return undefined;
    const [id] = noted[Math.max(behind, 0)];
    const what = isDeleted
      ? `${id} does not exist, but an earlier import counted it: it was deleted or expired, or the server was restored from an older copy`
      : `${id} lacks what an earlier import counted: the server was restored from an older copy, or a datacenter does not answer`;
    const folder = resolve(this.#host.folder);
    const why = `${what}. If it was restored, lines that were counted after the copy are missing, and this run does not count them again: put the notes of the same time back into ${folder}, and import again. See docs/operate/backup.md`;
    return { isDeleted, why };
  }

  /** Notes how far the counters of a body are: the last one that was counted. */
  async take(body) {
    const lines = new Map();
    for (const text of body.toString().split("\n")) {
      const { id } = JSON.parse(text);
      lines.set(id, (lines.get(id) ?? 0) + 1);
    }
    const most = [...lines].sort(([, one], [, other]) => other - one).slice(0, COUNTERS);
    const versions = {};
    const read = async ([id]) => {
      const { version } = await (await this.#read(id)).json();
      if (version?.length <= VERSION_LENGTH_MAX) versions[id] = version;
    };
    await Promise.allSettled(most.map(read));
    if (Object.keys(versions).length > 0) this.#host.keepVersions(versions);
  }
}
