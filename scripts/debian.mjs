// Programs that tests drive, found on the PATH or installed from Debian's packages where that is possible.
//
// Invariant: nothing is downloaded but by the machine's own package manager, and only where this user may
// use it without being asked.
import { spawnSync } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";

// Another installation of this machine may be under way: it is waited for.
const LOCK_SECONDS_MAX = 120;

/** Whether a path is that of a program that this user may run. */
export function isProgram(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** The path of the first of these programs that is on the PATH; undefined where none is. */
export function findProgram(names, env = process.env) {
  const folders = (env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find(isProgram);
}

const succeeds = (program, args) => spawnSync(program, args, { stdio: "ignore" }).status === 0;

/**
 * Installs a package of Debian, as root or by sudo without a password. Returns why not, or undefined once it was done.
 */
export function install(name) {
  if (!succeeds("apt-get", ["--version"])) return "this machine has no apt-get";
  const isRoot = process.getuid?.() === 0;
  if (!isRoot && !succeeds("sudo", ["-n", "true"])) return "this user may not install packages without a password";
  const apt = (...args) => {
    const command = [
      "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", `DPkg::Lock::Timeout=${LOCK_SECONDS_MAX}`,
      ...args,
    ];
    const [program, ...rest] = isRoot ? command : ["sudo", "-n", ...command];
    // What it says is shown only where it fails: a hundred lines otherwise, of other programs.
    return spawnSync(program, rest, { encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
  };
  const attempt = () => apt("install", "-y", "--no-install-recommends", name);
  console.log(`${name}: installing the package ${name} (about a minute)`);
  let done = attempt();
  if (done.status !== 0) {
    // A fresh machine has no lists of packages, and old lists name files that are gone.
    apt("update");
    done = attempt();
  }
  return done.status === 0 ? undefined : `apt-get could not install ${name}:\n${done.stdout}${done.stderr}`.trimEnd();
}
