// Where the tests of one file run: a folder for all of them, a data folder for each, and native servers there.
//
// Invariant: nothing of a test outlives it, neither its servers nor, once the file has ended, its folders.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, beforeEach } from "node:test";
import { NativeServer, killAll } from "./program.mjs";

class Place {
  #count = 0;
  /** The folder of the file. */
  root;
  /** The data folder of the test that runs. */
  data;

  constructor(name) {
    before(() => (this.root = mkdtempSync(join(tmpdir(), `tally-${name}-`))));
    after(() => rmSync(this.root, { recursive: true, force: true }));
    beforeEach(() => (this.data = join(this.root, `data-${++this.#count}`)));
    afterEach(killAll);
  }

  /** A server on the test's data folder; it may refuse to start. */
  server(options = {}) {
    return new NativeServer({ folder: this.data, ...options });
  }

  /** Resolves to such a server once it is ready, and to its first address. */
  async begin(options) {
    const server = this.server(options);
    const [url] = await server.ready();
    return { server, url };
  }
}

/** The place of a file of tests; name: a word for its folder. */
export const placeFor = (name) => new Place(name);
