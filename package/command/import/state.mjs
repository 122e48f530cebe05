// What earlier runs have imported, so that a run goes on where the last one ended, days later too.
//
// Invariant: a part is noted before it is sent, and as counted only after it was acknowledged. What was noted and not
// acknowledged is sent again as the same part under the same key. Keys are forgotten by the server after a day: this
// note is not.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { HEAD_BYTES_MAX, fingerprint } from "./parts.mjs";

function home() {
  return process.env.TALLY_STATE || join(process.env.XDG_STATE_HOME || join(homedir(), ".local", "state"), "tally");
}

const nameOf = (text) => createHash("sha256").update(text).digest("base64url").slice(0, 16);

/** The notes of one deployment and one way of counting (`target`: the ids that it leads to). */
export class State {
  constructor(base, target) {
    this.folder = join(home(), "imports", nameOf(`${base}\n${target}`));
    mkdirSync(this.folder, { recursive: true, mode: 0o700 });
  }

  /** Returns the note of the file that begins with `head`; a new one where there is none. */
  find(head) {
    // Notes of files that were shorter than a head are under as many bytes as those had.
    const names = existsSync(this.folder) ? readdirSync(this.folder) : [];
    const lengths = [...new Set(names.map((name) => Number(name.split("-", 1)[0])))].filter(
      (length) => length > 0 && length <= head.length,
    );
    for (const length of lengths.sort((one, other) => other - one)) {
      const path = join(this.folder, `${length}-${fingerprint(head.subarray(0, length))}.json`);
      if (existsSync(path)) return { path, ...JSON.parse(readFileSync(path, "utf8")) };
    }
    const bytes = head.subarray(0, HEAD_BYTES_MAX);
    const file = fingerprint(bytes);
    return { path: join(this.folder, `${bytes.length}-${file}.json`), file, done: 0, pending: [], ids: [] };
  }

  save({ path, ...note }) {
    writeFileSync(`${path}.new`, JSON.stringify(note));
    renameSync(`${path}.new`, path);
  }
}
