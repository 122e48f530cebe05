// Finds the Chromium or Chrome that the tests in a real browser drive, and installs Debian's where it can.
//
// Invariant: nothing is downloaded but by the machine's own package manager, and only where this user may
// use it without being asked; elsewhere one sentence says what to install.
// Life: CHROMIUM → the PATH → apt-get as root or by passwordless sudo → the PATH again → its version, printed.
import { spawnSync } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Names by which distributions install it, in the order in which they are looked for. */
export const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const PACKAGE = "chromium";
// Another installation of this machine may be under way: it is waited for.
const LOCK_SECONDS_MAX = 120;
const WHAT_TO_DO =
  "install Chromium or Chrome (Debian: apt-get install chromium), or set CHROMIUM to the path of its program";

function isProgram(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/**
 * The path of the browser: CHROMIUM, else the first of NAMES on the PATH; undefined where there is none.
 * Throws where CHROMIUM is set and is no program: a wrong setting is not passed over.
 */
export function findChromium(env = process.env) {
  if (env.CHROMIUM) {
    if (!isProgram(env.CHROMIUM)) throw new Error(`CHROMIUM=${env.CHROMIUM} is not a program: ${WHAT_TO_DO}`);
    return env.CHROMIUM;
  }
  const folders = (env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  return NAMES.flatMap((name) => folders.map((folder) => join(folder, name))).find(isProgram);
}

const succeeds = (program, args) => spawnSync(program, args, { stdio: "ignore" }).status === 0;

// Installs Debian's package. Returns why not, or undefined once it was done.
function install() {
  if (!succeeds("apt-get", ["--version"])) return "this machine has no apt-get";
  const isRoot = process.getuid?.() === 0;
  if (!isRoot && !succeeds("sudo", ["-n", "true"])) return "this user may not install packages without a password";
  const apt = (...args) => {
    const command = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", `DPkg::Lock::Timeout=${LOCK_SECONDS_MAX}`, ...args];
    const [program, ...rest] = isRoot ? command : ["sudo", "-n", ...command];
    // What it says is shown only where it fails: a hundred lines otherwise, of other programs.
    return spawnSync(program, rest, { encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
  };
  const attempt = () => apt("install", "-y", "--no-install-recommends", PACKAGE);
  console.log(`chromium: installing the package ${PACKAGE} (about a minute)`);
  let done = attempt();
  if (done.status !== 0) {
    // A fresh machine has no lists of packages, and old lists name files that are gone.
    apt("update");
    done = attempt();
  }
  return done.status === 0 ? undefined : `apt-get could not install ${PACKAGE}:\n${done.stdout}${done.stderr}`.trimEnd();
}

function ensure() {
  let reason;
  let path = findChromium();
  if (path === undefined) {
    reason = install();
    path = findChromium();
  }
  if (path === undefined) throw new Error(`no browser for the tests in a real one: ${reason ?? "it is not on the PATH"}\nwhat to do: ${WHAT_TO_DO}`);
  const asked = spawnSync(path, ["--version"], { encoding: "utf8" });
  if (asked.status !== 0) throw new Error(`${path} does not run: ${asked.error?.message ?? asked.stderr}\nwhat to do: ${WHAT_TO_DO}`);
  console.log(`chromium: ${path}, ${asked.stdout.trim()}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    ensure();
  } catch (error) {
    console.error(`chromium: ${error.message}`);
    process.exit(1);
  }
}
