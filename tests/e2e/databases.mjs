// The databases of objects, of a world with a folder: for specs that look into them, or write what no call would.
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { CLASSES } from "./classes.mjs";

/** Where the databases of a class are. */
export function objectFolder(folder, className) {
  const binding = Object.keys(CLASSES).find((name) => CLASSES[name] === className);
  const platform = join(folder, "do");
  return existsSync(platform) ? join(platform, `tally-aggregator-${className}`) : join(folder, binding);
}

/** Returns the paths of the databases of all objects of a class that have written something. */
export function databasesOf(folder, className) {
  const objects = objectFolder(folder, className);
  const names = readdirSync(objects).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name));
  // One may be gone since the folder was read: that is what some specs wait for.
  const isWritten = (path) => (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0;
  return names.map((name) => join(objects, name)).filter(isWritten);
}

/** Returns what `work` returns of a database. options: those of `DatabaseSync`. */
export function withDatabase(path, work, options = {}) {
  const database = new DatabaseSync(path, options);
  try {
    return work(database);
  } finally {
    database.close();
  }
}

/** Makes a database one of a build from before bodies were framed: what is put into it needs no frame. */
export function unframe(database) {
  database.exec("INSERT OR IGNORE INTO tally_schema VALUES (5)");
}

/** What `look` returns of databases that are in use, or undefined where one is being written just then. */
export function unlessWritten(look) {
  try {
    return look();
  } catch (error) {
    if (error.code === "ERR_SQLITE_ERROR") return undefined;
    throw error;
  }
}
