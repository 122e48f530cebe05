// `src/handlers.js`: requests go past the class of src/recovery.js, but for the first after a trap.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

const folder = mkdtempSync(join(tmpdir(), "tally-handlers-"));
after(() => rmSync(folder, { recursive: true, force: true }));

// Like src/recovery.js: a class whose making gets a new instance of the Wasm after a trap.
const BUILT = `
const state = globalThis.__worker_init_state = { criticalError: false, instanceId: 0 };
state.note = (error) => {
  state.criticalError ||= error instanceof WebAssembly.RuntimeError;
};
export const seen = { made: 0, state };
class Entrypoint {
  constructor(ctx, env) {
    seen.made += 1;
    if (state.criticalError) {
      state.criticalError = false;
      state.instanceId += 1;
    }
    this.ctx = ctx;
    this.env = env;
  }
  fetch(request) {
    if (request === "trap") throw new WebAssembly.RuntimeError("unreachable");
    if (request?.url?.includes("trap")) throw new WebAssembly.RuntimeError("unreachable");
    if (request === "fail") throw new Error("an error");
    return [request, this.env, this.ctx, state.instanceId];
  }
  queue(batch) {
    return ["batch", batch];
  }
}
export default Entrypoint;
`;
const PLATFORM = `
export class WorkerEntrypoint {
  constructor(ctx, env) {
    Object.assign(this, { ctx, env });
  }
}
export class RpcTarget {}
`;

const { queueMicrotask } = globalThis;
after(() => {
  globalThis.queueMicrotask = queueMicrotask;
  delete globalThis.reportError;
});

async function bundled(name) {
  const at = (file) => join(folder, file);
  const [built, platform, outfile] = [at("built.mjs"), at("platform.mjs"), at(`${name}.mjs`)];
  writeFileSync(built, BUILT);
  writeFileSync(platform, PLATFORM);
  const entry = fileURLToPath(new URL("../src/handlers.js", import.meta.url));
  const alias = { built, "cloudflare:workers": platform };
  buildSync({ entryPoints: [entry], bundle: true, format: "esm", alias, outfile, logLevel: "warning" });
  return import(outfile);
}

test("a request goes past the class, and the first after a trap through it", async () => {
  const { default: worker, seen } = await bundled("requests");
  assert.deepEqual(worker.fetch("a", "env", "ctx"), ["a", "env", "ctx", 0]);
  assert.deepEqual(worker.queue("b", "env", "ctx"), ["batch", "b"]);
  assert.throws(() => worker.fetch("fail", "env", "ctx"), /an error/);
  assert.deepEqual(worker.fetch("a", "env", "ctx"), ["a", "env", "ctx", 0]);
  assert.equal(seen.made, 0);

  assert.throws(() => worker.fetch("trap", "env", "ctx"), WebAssembly.RuntimeError);
  assert.equal(seen.state.criticalError, true);
  assert.deepEqual(worker.fetch("a", "env", "ctx"), ["a", "env", "ctx", 1]);
  assert.equal(seen.made, 1);
  assert.deepEqual(worker.fetch("a", "env", "ctx"), ["a", "env", "ctx", 1]);
  assert.equal(seen.made, 1);
});

test("a method throws an error of its name where the handler throws, and the next one gets a new instance", async () => {
  const { Tally, seen } = await bundled("methods");
  const tally = new Tally({}, {});
  const trapped = { name: "TallyError", code: "no-answer", status: 0, message: /^no-answer: .*unreachable/ };
  await assert.rejects(tally.get("trap"), trapped);
  assert.equal(seen.state.criticalError, true);
  await assert.rejects(tally.board("a").get("b"), { name: "TallyError" });
  assert.deepEqual([seen.state.criticalError, seen.made], [false, 1]);
});

test("microtasks run in order, before timers, and one that fails is reported and stops no other", async () => {
  const seen = [];
  globalThis.reportError = ({ message }) => seen.push(message);
  await bundled("tasks");
  assert.notEqual(globalThis.queueMicrotask, queueMicrotask);
  const timer = new Promise((done) => setTimeout(() => done(seen.push("timer"))));
  globalThis.queueMicrotask(() => seen.push("first"));
  globalThis.queueMicrotask(() => {
    throw new Error("failed");
  });
  globalThis.queueMicrotask(() => seen.push("last"));
  seen.push("now");
  await timer;
  assert.deepEqual(seen, ["now", "first", "failed", "last", "timer"]);
});
