// `src/recovery.js`, alone and in the built Worker: a trap of the Wasm ends one call, and loses nothing that was
// acknowledged.
import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import { send } from "../tests/crash/client.mjs";
import { BUILD, Server } from "../tests/crash/server.mjs";
import { UNIQUE_KEYS } from "./workerd-config.mjs";

// Like what wasm-bindgen writes. An object of an instance that is gone must not be called.
const BINDINGS = `
export const seen = { state: { criticalError: false, instanceId: 1 }, made: [], instances: 1 };
export const __worker_init_state = () => seen.state;
export const __wbg_reset_state = () => {
  seen.instances += 1;
};
class Bound {
  constructor(...given) {
    if (given[0] === "unmakable" && seen.instances === 1) throw new Error("no object");
    seen.made.push(given[0]);
    this.instance = seen.instances;
  }
  fetch(request) {
    if (this.instance !== seen.instances) throw new Error("the object's instance is gone");
    if (request === "trap") throw new WebAssembly.RuntimeError("unreachable");
    if (request === "fail") throw new Error("an error");
    return [request, this.instance];
  }
}
class Woken extends Bound {
  alarm() {
    return "rang";
  }
}
export { Bound as Board, Bound as Cell, Bound as Inbox, Bound as Keyspace, Bound as Limiter, Bound as Tablet, Bound as Watcher, Woken as Directory };
export const fetch = (request, env, ctx) => [request, env, ctx];
export const queue = (batch) => batch;`;
const WORKERS = "export class WorkerEntrypoint { constructor(ctx, env) { this.ctx = ctx; this.env = env; } }";

async function bundled(name) {
  const folder = mkdtempSync(join(tmpdir(), "tally-recovery-"));
  const path = (file) => join(folder, `${file}.mjs`);
  writeFileSync(path("bindings"), BINDINGS);
  writeFileSync(path("workers"), WORKERS);
  const listeners = {};
  globalThis.addEventListener = (event, listener) => {
    listeners[event] = listener;
  };
  try {
    buildSync({
      stdin: { contents: 'export * from "recovery"; export { default } from "recovery"; export { seen } from "bindings";', resolveDir: folder },
      ...{ bundle: true, format: "esm", outfile: path(name), logLevel: "warning" },
      alias: {
        recovery: fileURLToPath(new URL("../src/recovery.js", import.meta.url)),
        bindings: path("bindings"),
        "cloudflare:workers": path("workers"),
      },
    });
    return { ...(await import(path(name))), listeners };
  } finally {
    delete globalThis.addEventListener;
    rmSync(folder, { recursive: true, force: true });
  }
}

test("after a trap each object is made again for its next call, in a new instance, of what it was given", async (t) => {
  for (const method of ["error", "log"]) t.mock.method(console, method, () => {});
  const { Cell, Directory, default: Worker, seen } = await bundled("trap");
  const [one, other] = [new Cell("one"), new Directory("other")];
  assert.throws(() => one.fetch("fail"), /an error/);
  assert.deepEqual([one.fetch("a"), other.alarm(), seen.instances], [["a", 1], "rang", 1]);
  assert.throws(() => one.fetch("trap"), WebAssembly.RuntimeError);
  assert.equal(seen.instances, 2, "a timer must not find the one that trapped");
  assert.deepEqual([other.fetch("a"), one.fetch("a")], [["a", 2], ["a", 2]]);
  assert.deepEqual([seen.made, seen.instances], [["one", "other", "other", "one"], 2]);
  seen.state.criticalError = true;
  assert.deepEqual(new Worker("ctx", "env").fetch("a"), ["a", "env", "ctx"]);
  assert.equal(seen.instances, 3);
});

test("traps that no call meets are noted too, and other errors are not", async (t) => {
  for (const method of ["error", "log"]) t.mock.method(console, method, () => {});
  const { Cell, listeners, seen } = await bundled("events");
  const cell = new Cell("one");
  const trap = new WebAssembly.RuntimeError("unreachable");
  for (const [event, fields, instance] of [
    ["error", { error: new Error("other") }, 1],
    ["error", { error: trap }, 2],
    ["error", { error: new Error("Critical error", { cause: trap }) }, 3],
    ["unhandledrejection", { reason: "other" }, 3],
    ["unhandledrejection", { reason: trap }, 4],
  ]) {
    listeners[event](fields);
    assert.deepEqual(cell.fetch("a"), ["a", instance], event);
  }
  assert.equal(seen.state.criticalError, false);
});

test("an object that cannot be made is an error, and the next call begins with a new instance", async (t) => {
  for (const method of ["error", "log"]) t.mock.method(console, method, () => {});
  const { Cell, seen } = await bundled("unmakable");
  assert.throws(() => new Cell("unmakable"), /no object/);
  assert.deepEqual(new Cell("unmakable").fetch("a"), ["a", 2]);
  assert.deepEqual(seen.made, ["unmakable"]);
});

test("a class has the handlers of the one that it stands for, and no others", async () => {
  const { Cell, Directory } = await bundled("handlers");
  assert.deepEqual(
    [Cell, Directory].map(({ prototype }) => ["alarm" in prototype, "webSocketMessage" in prototype]),
    [
      [false, false], [true, false],
    ],
  );
});

// Takes about 3 s; a loaded machine gets the rest.
const WITHIN = { timeout: 120_000 };
// A trap is made by the clock: what it throws through the Wasm is an error as a trap's. The edge's is armed by a
// header, a cell's by the name of its counter, at its first flush.
const TRAPPING = `
import * as built from "built";
const { now } = Date;
let isArmed = false;
Date.now = () => {
  if (!isArmed) return now();
  isArmed = false;
  throw new WebAssembly.RuntimeError("unreachable");
};
let isDone = false;
const trapping = (Sound) => class extends Sound {
  #name;
  constructor(state, env) {
    super(state, env);
    this.#name = state.id.name ?? "";
  }
  fetch(request) {
    if (!isDone && this.#name.endsWith("/trap") && request.url.endsWith("/flush")) isDone = isArmed = true;
    return super.fetch(request);
  }
};
export default {
  fetch(request, env, ctx) {
    isArmed = request.headers.has("x-trap");
    return built.default.fetch(request, env, ctx);
  },
};
${Object.keys(UNIQUE_KEYS).map((name) => `export const ${name} = trapping(built.${name});`).join("\n")}`;

// Randomness is taken away by a header, for as long as a request is begun.
const SECRETLESS = `
import * as built from "built";
export * from "built";
const given = crypto.getRandomValues.bind(crypto);
let isClosed = false;
crypto.getRandomValues = (bytes) => {
  if (isClosed) throw new Error("the source is closed");
  return given(bytes);
};
export default {
  async fetch(request, env, ctx) {
    isClosed = request.headers.has("x-no-randomness");
    try {
      return await built.default.fetch(request, env, ctx);
    } finally {
      isClosed = false;
    }
  },
};`;

function buildAround(contents, folder) {
  mkdirSync(folder);
  buildSync({
    stdin: { contents, resolveDir: folder },
    bundle: true,
    format: "esm",
    alias: { built: join(BUILD, "index.js") },
    external: ["cloudflare:workers", "*.wasm"],
    outfile: join(folder, "index.js"),
    logLevel: "warning",
  });
  copyFileSync(join(BUILD, "index_bg.wasm"), join(folder, "index_bg.wasm"));
  return folder;
}

test("a trap ends one call: the next get a new instance, and objects read again what they had stored", WITHIN, async () => {
  const folder = mkdtempSync(join(tmpdir(), "tally-recovery-"));
  const server = new Server({ folder: join(folder, "data"), build: buildAround(TRAPPING, join(folder, "build")) });
  const add = (id, headers) => send(server.urls[0], "POST", `/counters/${id}/increment`, { headers });
  const value = async (id) => (await send(server.urls[0], "GET", `/counters/${id}?consistency=strong`)).json.value ?? 0;
  try {
    await server.start();
    for (const wanted of [1, 2, 3]) assert.equal((await add("a")).json.value, wanted);
    assert.equal((await add("a", { "x-trap": "1" })).status, 500);
    for (const wanted of [4, 5]) assert.equal((await add("a")).json.value, wanted, server.log);
    // The object of "a" is in the same isolate as the one that is trapped: it is made again too.
    const trapped = await add("trap");
    assert.ok([200, 503].includes(trapped.status), trapped.text);
    for (const wanted of [6, 7]) assert.equal((await add("a")).json.value, wanted, server.log);
    // Where the trap came before the counter was created there is none.
    const before = await value("trap");
    assert.ok(before === 1 || (before === 0 && trapped.status === 503), `${before} after ${trapped.status}`);
    assert.equal((await add("trap")).json.value, before + 1);
    assert.equal(await value("a"), 7);
  } finally {
    await server.end();
    rmSync(folder, { recursive: true, force: true });
  }
});

test("without randomness no secret is made, and no write has a name that could be another's", WITHIN, async () => {
  const folder = mkdtempSync(join(tmpdir(), "tally-secretless-"));
  const server = new Server({ folder: join(folder, "data"), build: buildAround(SECRETLESS, join(folder, "build")) });
  const closed = { headers: { "x-no-randomness": "1" } };
  const body = '{"name":"a","scopes":["read"]}';
  const makeKey = (options) => send(server.urls[0], "POST", "/keys", { body, ...options });
  const add = (options) => send(server.urls[0], "POST", "/counters/a/increment", options);
  try {
    await server.start();
    assert.equal((await makeKey()).status, 201, server.log);
    // The entry of the log of acts needs a name of its own first: without one the isolate ends.
    const refused = await makeKey(closed);
    assert.ok([500, 503].includes(refused.status), refused.text);
    assert.match(server.log, /The platform has no randomness/);
    assert.equal((await send(server.urls[0], "GET", "/keys")).json.entries.length, 1);
    assert.equal((await add()).json.value, 1);
    // One that needs a new name fails, one that needs none counts: an answer is true either way.
    const added = await add({ headers: { ...closed.headers, "idempotency-key": "one" } });
    const value = added.status === 200 ? 2 : 1;
    assert.ok([200, 500, 503].includes(added.status), added.text);
    const read = await send(server.urls[0], "GET", "/counters/a?consistency=strong");
    assert.equal(read.json.value, value, server.log);
  } finally {
    await server.end();
    rmSync(folder, { recursive: true, force: true });
  }
});
