// A bit that changes in a file of a cell, a root, a board or a tablet, on each host: what needs it is refused and
// named, never told wrongly, and all else goes on; cells and roots are put back by `POST /repair`.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { until } from "../crash/wait.mjs";
import { databases, flipBit, rows } from "./files.mjs";
import { HOSTS, serverOf } from "./hosts.mjs";
import { Scene, json } from "./scene.mjs";

const WITHIN = { timeout: 180_000 };
// A push leaves when a counter was quiet for 3 s, or 8 s.
const SETTLED_MS = 30_000;

const strong = (id) => `/counters/${id}?consistency=strong`;
const COUNTERS = ["one", "two", "three"];

async function writeSome(scene) {
  for (const id of COUNTERS) {
    for (const colo of ["FRA", "IAD"]) await scene.add(id, { delta: 5, unique: `${id}-${colo}` }, { colo });
    await scene.call("POST", `/boards/${id}/members/ann`, json({ score: 3 }));
  }
  const isSettled = async () => {
    const { json: list } = await scene.call("GET", "/counters?prefix=&values=1");
    return list.entries.every(({ value }) => value === 10);
  };
  await until(isSettled, "the directory has been told", SETTLED_MS);
}

/** Finds the first body that a statement gives of an object of a kind in whose row the names are. */
function found(objects, kind, statement, ...names) {
  for (const { path } of databases(objects).filter((one) => one.kind === kind)) {
    for (const row of rows(path, statement)) {
      const isIn = (name) => Object.values(row).some((value) => Buffer.from(value).includes(name));
      if (names.every(isIn)) return { path, body: row.body };
    }
  }
  throw new Error(`no ${kind} has a body of ${names.join(" and ")}`);
}

const ofCell = (objects, id, colo) => {
  const isOf = ({ body }) => Buffer.from(body).includes(id) && Buffer.from(body).includes(colo);
  for (const { path } of databases(objects).filter(({ kind }) => kind === "tally-cell-v1")) {
    if (rows(path, "SELECT body FROM rows WHERE kind = 0").some(isOf)) {
      return { path, body: rows(path, "SELECT body FROM rows WHERE kind = 1")[0].body };
    }
  }
  throw new Error(`no cell is of ${id} in ${colo}`);
};

const ofBoard = (objects, id) => found(objects, "tally-board-v1", "SELECT body FROM board", id);
const ofRoot = (objects, id) => found(objects, "tally-directory-v1", `SELECT id, body FROM roots WHERE id = '${id}'`);
const ofLog = (objects) => found(objects, "tally-tablet-v1", "SELECT body FROM log", "two", "FRA");

/** What is damaged: how its body is found, which reads and writes need it, and what of the same name does not. */
const PARTS = [
  { what: "a cell", find: (objects) => ofCell(objects, "two", "IAD"), reads: [strong("two")], writes: [["/counters/two/increment", { delta: 1 }, "IAD"]], others: ["/boards/two/members"], damaged: ["totals"], from: "root" },
  { what: "a root", find: (objects) => ofRoot(objects, "two"), reads: [strong("two")], writes: [], others: [], damaged: ["root"], from: "leads" },
  { what: "a board", find: (objects) => ofBoard(objects, "two"), reads: ["/boards/two/members"], writes: [["/boards/two/members/bob", { score: 4 }, "FRA"]], others: [strong("two")] },
];

const whole = async (scene, paths) => {
  for (const path of paths) {
    const { json: answer } = await scene.call("GET", path);
    assert.equal(answer.value ?? answer.entries?.length, path.startsWith("/boards") ? 1 : 10, path);
  }
};

async function isNamed(scene, server) {
  const named = async () => {
    const health = await scene.ask("GET", "/healthz");
    return health.status === 503 && /stored data cannot be read: .*damaged/.test(health.json.detail);
  };
  await until(named, "health names what is damaged", SETTLED_MS);
  const { bytes } = await scene.ask("GET", "/metrics");
  assert.match(bytes.toString(), /\ntally(_objects)?_unreadable_total [1-9]/);
  assert.match(server.log, /stored data cannot be read.*\(object [0-9a-f]{64}\)/);
}

async function refuses(scene, { reads, writes }) {
  for (const path of reads) {
    const { status, json: problem } = await scene.ask("GET", path);
    assert.deepEqual([status, problem.code], [503, "unavailable"], path);
    assert.match(problem.detail, /damaged/);
  }
  for (const [path, body, colo] of writes) await scene.call("POST", path, json(body, { colo, status: 503 }));
}

// The root had been told all, so nothing is lost of the value.
async function repair(scene, { damaged, from }) {
  for (const dry_run of [true, false]) {
    const { json: result } = await scene.call("POST", "/repair", json({ prefix: "", dry_run }));
    assert.deepEqual(
      [result.checked, result.damaged, result.repaired, result.failed], [COUNTERS.length, 1, dry_run ? 0 : 1, []],
    );
    const [{ id, root, cells }] = result.counters;
    assert.equal(id, "two");
    assert.deepEqual([...(root?.damaged ?? []), ...cells.flatMap((cell) => cell.damaged)], damaged);
    assert.equal(root?.from ?? cells[0].totals.from, from);
  }
  const { json: again } = await scene.call("POST", "/repair", json({ prefix: "" }));
  assert.deepEqual([again.damaged, again.counters], [0, []]);
}

/** Lives: data are written, the server ends, a bit changes, the server starts. */
async function damaged(host, variables, { find, ...part }, others) {
  const folder = mkdtempSync(join(tmpdir(), "tally-damage-"));
  const server = serverOf(host, { folder, variables });
  const objects = join(folder, "data/objects");
  try {
    await server.start();
    await writeSome(new Scene(server.urls[0]));
    await server.end();
    const { path, body } = find(objects);
    const mend = flipBit(path, body);
    server.spawn();
    await until(() => server.urls.length > 0, "the server listens", SETTLED_MS);
    const scene = new Scene(server.urls[0]);
    await refuses(scene, part);
    await whole(scene, others);
    await isNamed(scene, server);
    await refuses(scene, part);
    if (part.damaged) {
      await repair(scene, part);
      await whole(scene, [...part.reads, ...others]);
      await server.end();
    } else {
      // Nobody remembers it: the file is put back.
      await server.end();
      mend();
    }
    await server.start();
    await whole(new Scene(server.urls[0]), [...part.reads, ...others]);
  } catch (error) {
    error.message += `\n${server.log}`;
    throw error;
  } finally {
    await server.end();
    rmSync(folder, { recursive: true, force: true });
  }
}

const OTHERS = [strong("one"), strong("three"), "/boards/one/members", "/boards/three/members"];

for (const host of HOSTS) {
  for (const part of PARTS) {
    test(`${host}: a changed bit of ${part.what} is refused and named, all else goes on, and it is put back`, WITHIN, async () => {
      await damaged(host, {}, part, [...OTHERS, ...part.others]);
    });
  }

  test(`${host}: a changed bit of a tablet's log is refused and named, and all else goes on`, WITHIN, async () => {
    const part = { find: ofLog, reads: [strong("two")], writes: [["/counters/two/increment", { delta: 1 }, "FRA"]] };
    await damaged(host, { TALLY_TABLETS: "1" }, part, ["/boards/one/members", "/boards/two/members"]);
  });
}
