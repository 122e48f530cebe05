// Finds the Chromium or Chrome that the tests in a real browser drive, and installs Debian's where it can
// (`debian.mjs`); elsewhere one sentence says what to install.
//
// Life: CHROMIUM → the PATH → apt-get → the PATH again → its version, printed.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { findProgram, install, isProgram } from "./debian.mjs";

/** Names by which distributions install it, in the order in which they are looked for. */
export const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const PACKAGE = "chromium";
const WHAT_TO_DO =
  "install Chromium or Chrome (Debian: apt-get install chromium), or set CHROMIUM to the path of its program";

/**
 * The path of the browser: CHROMIUM, else the first of NAMES on the PATH; undefined where there is none.
 * Throws where CHROMIUM is set and is no program: a wrong setting is not passed over.
 */
export function findChromium(env = process.env) {
  if (env.CHROMIUM) {
    if (!isProgram(env.CHROMIUM)) throw new Error(`CHROMIUM=${env.CHROMIUM} is not a program: ${WHAT_TO_DO}`);
    return env.CHROMIUM;
  }
  return findProgram(NAMES, env);
}

function ensure() {
  let reason;
  let path = findChromium();
  if (path === undefined) {
    reason = install(PACKAGE);
    path = findChromium();
  }
  if (path === undefined) throw new Error(`no browser for the tests in a real one: ${reason ?? "it is not on the PATH"}\nwhat to do: ${WHAT_TO_DO}`);
  const probe = spawnSync(path, ["--version"], { encoding: "utf8" });
  if (probe.status !== 0) throw new Error(`${path} does not run: ${probe.error?.message ?? probe.stderr}\nwhat to do: ${WHAT_TO_DO}`);
  console.log(`chromium: ${path}, ${probe.stdout.trim()}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    ensure();
  } catch (error) {
    console.error(`chromium: ${error.message}`);
    process.exit(1);
  }
}
