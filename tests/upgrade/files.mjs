// The files of a data folder: which objects they are, and a bit of a stored body changed where it lies.
import { closeSync, openSync, readFileSync, readdirSync, writeSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

// So many bytes of a body are looked for in its file: the rest of a long one lies on other pages.
const FOUND_BY = 60;
// Version and checksum stand before a body.
const FRAME_BYTES = 6;

/** The databases below a folder of objects, as {kind, path}. What lay in a write-ahead log is moved into the file. */
export function databases(objects) {
  const files = readdirSync(objects, { recursive: true, withFileTypes: true }).filter(({ name }) =>
    name.endsWith(".sqlite"),
  );
  return files.map(({ parentPath, name }) => {
    const path = join(parentPath, name);
    const database = new DatabaseSync(path);
    database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    database.close();
    return { kind: parentPath.slice(objects.length + 1), path };
  });
}

/** The rows of a statement in a database; none where it has no such table. */
export function rows(path, statement, ...values) {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    return database.prepare(statement).all(...values);
  } catch (error) {
    if (/no such table/.test(error.message)) return [];
    throw error;
  } finally {
    database.close();
  }
}

/** Changes one bit of a body in its file. Returns what changes it back. */
export function flipBit(path, body) {
  const file = readFileSync(path);
  const sought = Buffer.from(body).subarray(0, FOUND_BY);
  const at = file.indexOf(sought);
  if (at < 0) throw new Error(`${path} does not hold the body`);
  const place = at + FRAME_BYTES + ((sought.length - FRAME_BYTES) >> 1);
  const write = (byte) => {
    const handle = openSync(path, "r+");
    writeSync(handle, Buffer.of(byte), 0, 1, place);
    closeSync(handle);
  };
  write(file[place] ^ 4);
  return () => write(file[place]);
}
