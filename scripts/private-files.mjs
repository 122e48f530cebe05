// Files and folders that their owner alone can read: data, secrets, and what could tell of them.
//
// Invariant: every folder made here has the mode 0700 and every file 0600, whatever the umask. No file is open to
// others for a moment: a file that exists is replaced or narrowed before anything is written to it.
import {
  appendFileSync, chmodSync, closeSync, existsSync, fchmodSync, lstatSync, mkdirSync, openSync, readdirSync,
  realpathSync, renameSync, rmSync, statSync, writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";

const FILE = 0o600;
const FOLDER = 0o700;
const OTHERS = 0o077;

/** Has this process, and those that it starts, open new files to their owner alone. */
export function keepPrivate() {
  process.umask(OTHERS);
}

/**
 * Makes a folder and those above it that are missing. Node's own `recursive` never returns where the system refuses
 * with ENOENT, as in /proc.
 */
export function makeFolder(path) {
  if (existsSync(path)) return;
  makeFolder(dirname(path));
  mkdirSync(path, { mode: FOLDER });
  chmodSync(path, FOLDER);
}

/** Writes a text file, completely or not at all. The error names the file. */
export function writePrivate(path, text) {
  const next = `${path}.new`;
  try {
    rmSync(next, { force: true });
    writeFileSync(next, text, { mode: FILE, flag: "wx" });
    chmodSync(next, FILE);
    renameSync(next, path);
  } catch (cause) {
    rmSync(next, { force: true });
    throw Object.assign(new Error(`${path} cannot be written (${cause.code})`, { cause }), { code: cause.code });
  }
}

/** Appends to a text file, which is made where there is none. */
export function appendPrivate(path, text) {
  appendFileSync(path, text, { mode: FILE });
}

/**
 * Opens a file for output that comes in pieces: `write(bytes)` adds a piece. `end(isWhole)` puts the file in its place,
 * or leaves what was there before. A pipe or a device gets each piece at once, and keeps its mode.
 */
export function privateOutput(path) {
  const isFile = statSync(path, { throwIfNoEntry: false })?.isFile() ?? true;
  // A link stays, and leads to the new file.
  const place = isFile && existsSync(path) ? realpathSync(path) : path;
  const next = isFile ? `${place}.new` : place;
  if (isFile) rmSync(next, { force: true });
  const descriptor = openSync(next, isFile ? "wx" : "w", FILE);
  if (isFile) fchmodSync(descriptor, FILE);
  return {
    write: (bytes) => writeFileSync(descriptor, bytes),
    end(isWhole) {
      try {
        closeSync(descriptor);
        if (isFile && isWhole) renameSync(next, place);
      } finally {
        if (isFile) rmSync(next, { force: true });
      }
    },
  };
}

// Narrows one path. Links are left: what they lead to is somebody's choice.
function narrow(path, found) {
  const status = lstatSync(path);
  if (status.isSymbolicLink()) return;
  if ((status.mode & OTHERS) !== 0) {
    try {
      chmodSync(path, status.mode & FOLDER);
      found.narrowed += 1;
    } catch (error) {
      found.failed ??= { path, code: error.code };
    }
  }
  if (status.isDirectory()) for (const name of readdirSync(path)) narrow(join(path, name), found);
}

/**
 * Takes the rights of others away from a folder's entries of these names, with all in them; from the folder itself too
 * where it has no other entries. A folder with other files is somebody's project, or the system's.
 * Returns `narrowed`, how many files and folders were open to others, and `failed`, the first that could not be
 * changed.
 */
export function tighten(folder, names) {
  const found = { narrowed: 0, failed: undefined };
  const entries = readdirSync(folder);
  for (const name of entries.filter((entry) => names.includes(entry))) narrow(join(folder, name), found);
  if (entries.every((entry) => names.includes(entry))) {
    const { mode } = lstatSync(folder);
    if ((mode & OTHERS) !== 0) {
      try {
        chmodSync(folder, mode & FOLDER);
        found.narrowed += 1;
      } catch (error) {
        found.failed ??= { path: folder, code: error.code };
      }
    }
  }
  return found;
}
