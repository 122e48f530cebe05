// What this build has only read stays as 0.1.0 can read it: no row of 0.1.0 changes and no schema rises, and one write
// raises the schema of the objects alone that it touches.
//
// The fixture was killed: events wait in it, acknowledged and not yet counted, and leads have not told their roots all.
// That is finished first, as any start of 0.1.0 would, and what it has touched is left out: nearly all partitions.
// Partitions that were at rest are read in simulation/tests/stored.rs.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { BUILD, Server } from "../crash/server.mjs";
import { until } from "../crash/wait.mjs";
import { unpack } from "./archive.mjs";
import { clocked } from "./clocked.mjs";
import { databases, rows } from "./files.mjs";
import { READS } from "./reads.mjs";
import { Scene } from "./scene.mjs";
import { WAITING } from "./story.mjs";

const FIXTURES = fileURLToPath(new URL("../fixtures/data/", import.meta.url));
const WITHIN = { timeout: 300_000 };
const WITHIN_MS = 60_000;
// The first schema that 0.1.0 refuses, and what it has no class for.
const REFUSED_FROM = 6;
const KINDS = ["cell", "directory", "inbox", "limiter", "watcher"].map((kind) => `tally-${kind}-v1`);
// Cells, limiters and inboxes, most of what there is.
const UNTOUCHED_MIN = 60;
// Two datacenters tell the root of `world`, and each is asked again.
const PUSHES_MIN = 4;

const plain = (value) => (value instanceof Uint8Array ? Buffer.from(value).toString("hex") : String(value));

// All rows of a table, each as a text; numbers may be larger than JavaScript's.
function lines(path, table) {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    const all = database.prepare(`SELECT * FROM "${table}"`);
    all.setReadBigInts(true);
    return all.all().map((row) => Object.values(row).map(plain).join(" "));
  } finally {
    database.close();
  }
}

// The objects of the classes that 0.1.0 has: newest schema, and all rows by table.
function stored(objects) {
  const all = new Map();
  for (const { kind, path } of databases(objects)) {
    if (!KINDS.includes(kind) || path.endsWith("metadata.sqlite")) continue;
    const named = rows(path, "SELECT name FROM sqlite_master WHERE type = 'table'").map(({ name }) => name);
    const own = named.filter((name) => !/^(_cf_|sqlite_)/.test(name));
    const tables = Object.fromEntries(own.map((name) => [name, lines(path, name)]));
    const [{ version = 0 } = {}] = rows(path, "SELECT max(version) AS version FROM tally_schema");
    all.set(path, { kind, version: version ?? 0, tables });
  }
  return all;
}

const isOpen = ({ version }) => version < REFUSED_FROM;
const raised = (before, after) =>
  [...after].filter(([path, { version }]) => version >= REFUSED_FROM && isOpen(before.get(path) ?? { version: 0 }));

// Tables that 0.1.0 has not are none of its business.
function isAsItWas(before, after) {
  for (const [path, one] of before) {
    for (const [table, held] of Object.entries(one.tables)) {
      assert.deepEqual(after.get(path).tables[table], held, `${one.kind} ${path}: ${table}`);
    }
  }
}

const only = (all, paths) => new Map([...all].filter(([path]) => paths.has(path)));

async function countWhatWaits({ call }) {
  const due = Map.groupBy(WAITING, ([id]) => id);
  for (const [id, events] of due) {
    const sum = events.reduce((total, [, amount]) => total + amount, id === "queued/a" ? 12 : 0);
    const isCounted = async () => (await call("GET", `/api/counter?key=${encodeURIComponent(id)}&consistency=strong`)).json.count === sum;
    await until(isCounted, `${id} is ${sum}`, WITHIN_MS);
  }
}

async function pushes({ ask }) {
  const { bytes } = await ask("GET", "/metrics");
  return Number(/^tally_pushes_total\{reason="watched"\} (\d+)/m.exec(bytes.toString())?.[1] ?? 0);
}

const BY_DEFAULT = [
  "/counters/world", "/counters/home", "/counters/shards", "/counters?prefix=&values=1", "/top?by=count",
  "/top?by=uniques",
];

async function readAll(scene) {
  for (const colo of ["FRA", "IAD"]) for (const [path] of READS) await scene.ask("GET", path, { colo });
  const areSettled = async () => {
    for (const colo of ["FRA", "IAD"]) for (const path of BY_DEFAULT) await scene.call("GET", path, { colo });
    return (await pushes(scene)) >= PUSHES_MIN;
  };
  await until(areSettled, "leads have told their roots that they are watched", WITHIN_MS);
}

async function countOnce({ call, ask }) {
  const before = (await call("GET", "/counters/negative?consistency=strong")).json.value;
  await call("POST", "/counters/negative/increment", { body: '{"delta":5}' });
  const isSettled = async () =>
    (await ask("GET", "/counters?prefix=negative&values=1")).json.counters[0]?.value === before + 5;
  await until(isSettled, "the root has been told", WITHIN_MS);
}

test("a folder of 0.1.0 that was only read is as 0.1.0 left it, and a write raises what it touches", WITHIN, async () => {
  const folder = mkdtempSync(join(tmpdir(), "tally-downgrade-"));
  const { ended_ms, variables } = JSON.parse(readFileSync(join(FIXTURES, "0.1.0.json"), "utf8"));
  const [data, objects] = [join(folder, "data"), join(folder, "data/objects")];
  unpack(readFileSync(join(FIXTURES, "0.1.0.tar.br")), data);
  const build = clocked({ build: BUILD, folder: join(folder, "build"), now_ms: ended_ms + 1_000 });
  const server = new Server({ folder: data, variables, build });
  const opened = async (work) => {
    await server.start();
    const scene = new Scene(server.urls[0]);
    await work({ call: scene.call.bind(scene), ask: scene.ask.bind(scene) });
    await server.end();
    return stored(objects);
  };
  try {
    const first = stored(objects);
    const counted = await opened(countWhatWaits);
    const untouched = only(first, new Set([...counted].filter(([, one]) => isOpen(one)).map(([path]) => path)));
    assert.ok(untouched.size >= UNTOUCHED_MIN, `${untouched.size} objects are as they were`);
    const read = await opened(readAll);
    isAsItWas(untouched, read);
    assert.deepEqual(raised(counted, read), []);
    const written = await opened(countOnce);
    const touched = raised(read, written).map(([path, { kind }]) => [kind, path]);
    // The root of this counter was told when the fixture was opened.
    assert.deepEqual(touched.map(([kind]) => kind), ["tally-cell-v1"]);
    const paths = new Set(touched.map(([, path]) => path));
    isAsItWas(only(untouched, new Set([...untouched.keys()].filter((path) => !paths.has(path)))), written);
  } catch (error) {
    error.message += `\n${server.log}`;
    throw error;
  } finally {
    await server.end();
    rmSync(folder, { recursive: true, force: true });
  }
});
