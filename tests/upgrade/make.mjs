// Writes a fixture: a data folder as this checkout's build leaves it, and what is read of it.
//
//   make fixture
//
// builds, and writes tests/fixtures/data/<version>-<host>.tar.br and .json for each host, by the version of
// package.json. Until the version is tagged they may be written again. After that they never change: every later build
// must open them (upgrade.test.mjs). Who stores something new adds it to story.mjs and reads.mjs first.
//
// Life: five acts, each with the server started anew at its own time; the reads; events that are acknowledged and not
// yet counted; SIGKILL. What SQLite had not moved into its files by then is moved, so that a fixture is small; but
// not of the native server, which wants its logs as they are after a kill.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { pause } from "../crash/wait.mjs";
import { pack } from "./archive.mjs";
import { HOSTS, serverOf } from "./hosts.mjs";
import { READS, stableParts } from "./reads.mjs";
import { Scene, json } from "./scene.mjs";
import { ACTS, WAITING } from "./story.mjs";

const FIXTURES = fileURLToPath(new URL("../fixtures/data/", import.meta.url));
const PACKAGE = fileURLToPath(new URL("../../package.json", import.meta.url));
// A root writes down what it knows of a counter that is watched every 10 s, a limiter what it judged every second.
const WATCHED_MS = 11_000;
const WATCHED_EVERY_MS = 250;
// What lies there only while a part of the service cannot be reached, for a moment, or where a queue of the platform is
// bound; and what moved from objects of their own into tablets.
const FLEETING = [
  ...["tally-directory-v1.duties", "tally-inbox-v1.batches", "tally-board-v1.changed", "tally-directory-v1.senders"],
  "tally-directory-v1.alert_deliveries",
  ...["tally-board-v1.noted", "tally-tablet-v1.alarms", "tally-cell-v1.ledger"],
];
// What lies in the log of a tablet is folded into its rows a minute later.
const FOLDED_MS = 66_000;
const VARIABLES = { TALLY_LIMITERS: "2" };
const variablesOf = (tablets) => ({ ...VARIABLES, ...(tablets && { TALLY_TABLETS: String(tablets) }) });

// Starts the server at a time, does something, and ends it. Returns what that gave, and when it was over by the
// server's clock.
async function at(host, { begins_ms, tablets }, folder, name, work) {
  const began_ms = Date.now();
  const server = serverOf(host, { folder, name, variables: variablesOf(tablets), now_ms: begins_ms });
  try {
    await server.start();
    const given = await work(new Scene(server.urls[0]), server);
    return { given, ended_ms: begins_ms + Date.now() - began_ms };
  } finally {
    if (!server.isGone) await server.end();
  }
}

async function watch(scene) {
  const end_ms = Date.now() + WATCHED_MS;
  while (Date.now() < end_ms) {
    await scene.call("GET", "/counters/world");
    await pause(WATCHED_EVERY_MS);
  }
}

async function readAll(scene) {
  const reads = [];
  for (const [path, days, colo = "FRA"] of READS) {
    const answer = await scene.ask("GET", path, { colo });
    reads.push({ path, days, colo, ...stableParts(answer) });
  }
  return reads;
}

// Moves what lies in write-ahead logs into the files, and returns how many rows each kind of object has in each table.
function tidied(objects) {
  const rows = {};
  const files = readdirSync(objects, { recursive: true, withFileTypes: true }).filter(({ name }) =>
    name.endsWith(".sqlite"),
  );
  for (const { parentPath, name } of files) {
    const database = new DatabaseSync(join(parentPath, name));
    database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    for (const { name: table } of database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all()) {
      const { count } = database.prepare(`SELECT count(*) AS count FROM "${table}"`).get();
      const kind = parentPath.slice(objects.length + 1);
      if (!table.startsWith("_cf_") && !table.startsWith("sqlite_")) {
        rows[`${kind}.${table}`] = (rows[`${kind}.${table}`] ?? 0) + count;
      }
    }
    database.close();
  }
  return rows;
}

async function make(host, version) {
  const name = `${version}-${host}`;
  const folder = mkdtempSync(join(tmpdir(), "tally-make-"));
  try {
    const kept = [];
    let last;
    for (const [index, { act, ...when }] of ACTS.entries()) {
      const isLast = index === ACTS.length - 1;
      last = await at(host, when, folder, `act-${index}`, async (scene, server) => {
        await act(scene);
        kept.push(...scene.kept);
        if (when.folds) await pause(FOLDED_MS);
        if (!isLast) return undefined;
        await watch(scene);
        const reads = await readAll(scene);
        for (const [key, increment, colo] of WAITING) {
          await scene.call("POST", "/api/event", json({ key, increment }, { colo }));
        }
        await server.kill();
        return reads;
      });
    }
    const looked = host === "native" ? join(folder, "looked") : join(folder, "data/objects");
    if (host === "native") cpSync(join(folder, "data/objects"), looked, { recursive: true });
    const rows = tidied(looked);
    const empty = Object.keys(rows).filter((table) => rows[table] === 0 && !FLEETING.includes(table));
    if (empty.length > 0) throw new Error(`nothing is in ${empty.join(", ")}: a fixture has some of everything`);
    rmSync(join(folder, "data/workerd.capnp"), { force: true });
    mkdirSync(FIXTURES, { recursive: true });
    const archive = pack(join(folder, "data"));
    writeFileSync(join(FIXTURES, `${name}.tar.br`), archive);
    const lines = (list) => `[\n${list.map((one) => `    ${JSON.stringify(one)}`).join(",\n")}\n  ]`;
    const head = `"host": ${JSON.stringify(host)},\n  "ended_ms": ${last.ended_ms},\n  "variables": ${JSON.stringify(variablesOf(ACTS.at(-1).tablets))},\n  "rows": ${JSON.stringify(rows)}`;
    const text = `{\n  ${head},\n  "kept": ${lines(kept)},\n  "reads": ${lines(last.given)}\n}\n`;
    writeFileSync(join(FIXTURES, `${name}.json`), text);
    console.log(`${name}: ${archive.length.toLocaleString("en")} bytes, ${kept.length} writes, ${last.given.length} reads`);
    console.log(Object.entries(rows).map(([table, count]) => `  ${table}: ${count}`).join("\n"));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const wanted = process.argv.slice(2);
const { version } = JSON.parse(readFileSync(PACKAGE, "utf8"));
for (const host of wanted.length === 0 ? HOSTS : wanted) await make(host, version);
