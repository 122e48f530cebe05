// Ways to take the disk of a server away, and to give it back.
import { spawnSync } from "node:child_process";
import { chmodSync, closeSync, openSync, readdirSync, unlinkSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "./wait.mjs";

const LISTENS_MS_MAX = 20_000;
// Room for a few hundred writes before it is filled up.
const TMPFS = "size=24m";
const FILL_BYTES = 64 * 1024;

/** Whether a program ends well. */
export const works = (program, ...args) => spawnSync(program, args, { stdio: "ignore" }).status === 0;

// Writes a file until nothing more fits.
function fill(path) {
  const file = openSync(path, "w");
  try {
    for (let bytes = FILL_BYTES; bytes >= 1; ) {
      try {
        writeSync(file, Buffer.alloc(bytes));
      } catch (error) {
        if (error.code !== "ENOSPC") throw error;
        bytes = Math.floor(bytes / 2);
      }
    }
  } finally {
    closeSync(file);
  }
}

// Root may write what is read-only, unless it gives that right up.
const CAPABILITIES = "-dac_override,-dac_read_search";
const isRoot = process.getuid?.() === 0;

// Starts the server again on a folder whose rights have been changed: files that are open keep theirs.
async function restartWith({ server, folder }, file, directory) {
  await server.kill();
  const objects = join(folder, "objects");
  for (const entry of readdirSync(objects, { recursive: true, withFileTypes: true })) {
    chmodSync(join(entry.parentPath, entry.name), entry.isDirectory() ? directory : file);
  }
  chmodSync(objects, directory);
  server.spawn();
  await until(() => server.urls.length > 0, "workerd does not listen", LISTENS_MS_MAX);
}

/** Ways to take the disk away: missing() says why it cannot be done here, take() does it and give() undoes it. */
export const WAYS = {
  "a limit of file sizes": {
    missing: () => (works("prlimit", "--version") ? undefined : "prlimit is missing (util-linux)"),
    take: ({ server }) => limit(server, "0:"),
    give: ({ server }) => limit(server, "unlimited:"),
  },
  "a full file system": {
    // A name space of mounts of its own: what is mounted there goes with this process.
    missing: () => (process.env.CRASH_MOUNTS ? undefined : "a file system cannot be mounted here (unshare --user --mount)"),
    mounts: true,
    take: ({ folder }) => fill(join(folder, "ballast")),
    give: ({ folder }) => unlinkSync(join(folder, "ballast")),
  },
  "a read-only data folder": {
    missing: () => (isRoot && !works("setpriv", "--version") ? "setpriv is missing (util-linux), and root may write everything" : undefined),
    before: isRoot ? ["setpriv", `--bounding-set=${CAPABILITIES}`, `--inh-caps=${CAPABILITIES}`] : [],
    take: (place) => restartWith(place, 0o444, 0o555),
    give: (place) => restartWith(place, 0o644, 0o755),
  },
};

function limit({ pid }, fsize) {
  const { status, stderr } = spawnSync("prlimit", ["--pid", String(pid), `--fsize=${fsize}`], { encoding: "utf8" });
  if (status !== 0) throw new Error(`prlimit: ${stderr}`);
}

/** Makes a folder a small file system. Errors: it cannot be mounted. */
export function mountOn(folder) {
  if (!works("mount", "-t", "tmpfs", "-o", TMPFS, "tmpfs", folder)) throw new Error("mount failed");
}

/**
 * Runs this program again where it may mount, if it may not yet and the machine lets it: its exit code. Otherwise
 * undefined.
 */
export function runWithMounts() {
  const isInside = process.env.CRASH_MOUNTS !== undefined;
  const mounts = ["--user", "--map-root-user", "--mount"];
  if (isInside || !works("unshare", ...mounts, "mount", "-t", "tmpfs", "tmpfs", tmpdir())) return undefined;
  const options = { stdio: "inherit", env: { ...process.env, CRASH_MOUNTS: "1" } };
  return spawnSync("unshare", [...mounts, process.execPath, ...process.argv.slice(1)], options).status ?? 1;
}
