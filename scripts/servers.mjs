// Installs the servers and proxies of Debian's packages that `tests/servers` runs, where it can (`debian.mjs`). Without
// one its tests are left out, and this says so; where `CI` is set they fail.
import { findProgram, install } from "./debian.mjs";
import { fileURLToPath } from "node:url";

/** The programs that the tests run, each with the package that has it. */
export const SERVERS = {
  nginx: "nginx",
  apache2: "apache2",
  caddy: "caddy",
  haproxy: "haproxy",
  lighttpd: "lighttpd",
  varnishd: "varnish",
  varnishncsa: "varnish",
  logrotate: "logrotate",
};
// Debian keeps servers where the PATH of a plain user does not look.
const FOLDERS = ["/usr/sbin", "/usr/local/sbin", "/sbin"];

/** The path of a program of `SERVERS`; undefined where it is not installed. */
export function findServer(name, env = process.env) {
  return findProgram([name], { ...env, PATH: [env.PATH ?? "", ...FOLDERS].join(":") });
}

function ensure() {
  const isMissing = ([name]) => findServer(name) === undefined;
  const reasons = new Map();
  for (const name of new Set(Object.entries(SERVERS).filter(isMissing).map(([, name]) => name))) {
    reasons.set(name, install(name));
  }
  const missing = Object.entries(SERVERS).filter(isMissing);
  if (missing.length === 0) return console.log(`servers: ${Object.keys(SERVERS).join(", ")}`);
  for (const [program, name] of missing) {
    const why = reasons.get(name) ?? "it is not on the PATH";
    console.log(`servers: nothing is tested with ${program}: ${why}\nwhat to do: apt-get install ${name}`);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) ensure();
