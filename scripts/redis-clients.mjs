// Runs clients of other languages against the native server's Redis port, as they are published:
//
//   node_modules/.bin/node scripts/redis-clients.mjs [client…]
//
// Debian's packages are installed where this user may (`debian.mjs`), and the Python ones into a folder for temporary
// files. TALLY_SERVER names the server, otherwise `cargo build -p tally-server` has made it.
//
// Invariant: each client has a server of its own, with a key. A client that cannot be installed is left out, and this
// says so. A program of `tests/redis-clients` ends with 0 only if each reply was as its client's users expect.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { NativeServer, killAll } from "../tests/server/program.mjs";
import { findProgram, install } from "./debian.mjs";

const HERE = fileURLToPath(new URL("../tests/redis-clients/", import.meta.url));
const KEY = "all-of-it-0123456789";
const KEYS = JSON.stringify({ keys: [{ name: "all", key: KEY, scopes: ["admin"], prefix: "" }] });
const PYTHON_PACKAGES = ["celery==5.7.0", "django==5.2.19", "redis==8.1.0"];
const RUN_MS_MAX = 300_000;

// Go's packages of Debian are source below a path of its own.
const GO = { GOPATH: "/usr/share/gocode", GO111MODULE: "off" };
/** Each client: what Debian names it, and the command that runs its program. */
const CLIENTS = {
  "go-redis": { packages: ["golang-go", "golang-gopkg-redis.v5-dev"], command: ["go", "run", "goredis.go"], env: GO },
  "redigo": {
    packages: ["golang-go", "golang-github-gomodule-redigo-dev"], command: ["go", "run", "redigo.go"], env: GO,
  },
  "redis-rb": { packages: ["ruby-redis"], command: ["ruby", "client.rb"] },
  "phpredis and Predis": { packages: ["php-cli", "php-redis", "php-predis"], command: ["php", "client.php"] },
  "Perl's Redis": { packages: ["libredis-perl"], command: ["perl", "client.pl"] },
  "Celery and Django": { packages: ["python3-venv"], python: PYTHON_PACKAGES, command: ["python", "counters.py"] },
};

const isInstalled = (name) => {
  const { stdout } = spawnSync("dpkg-query", ["-W", "-f", "${db:Status-Status}", name], { encoding: "utf8" });
  return stdout === "installed";
};

/** Installs what a client needs. Returns why that failed, or undefined. */
function prepare({ packages, python }, folder) {
  for (const name of packages.filter((name) => !isInstalled(name))) {
    const why = install(name);
    if (why !== undefined) return why.split("\n")[0];
  }
  if (python === undefined) return undefined;
  const steps = [
    ["python3", ["-m", "venv", join(folder, "python")]],
    [join(folder, "python/bin/python"), ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ...python]],
  ];
  const failed = steps.find(([program, args]) => spawnSync(program, args).status !== 0);
  return failed === undefined ? undefined : `${failed[1].slice(0, 3).join(" ")} failed`;
}

/** Runs a client's program. Returns what it said of a fault, or undefined. */
async function run({ command, env, python }, folder) {
  const keys = join(folder, "keys.json");
  writeFileSync(keys, KEYS);
  const server = new NativeServer({ folder: join(folder, "data"), options: ["--resp", "0", "--keys", keys] });
  await server.ready();
  const [program, ...args] = command;
  const path = python === undefined ? findProgram([program]) : join(folder, "python/bin/python");
  const { status, stdout, stderr, error } = spawnSync(path, [...args, new URL(server.respUrl).port, KEY], {
    cwd: HERE, encoding: "utf8", timeout: RUN_MS_MAX,
    env: { ...process.env, ...env, GOCACHE: join(folder, "go"), PYTHONDONTWRITEBYTECODE: "1" },
  });
  await server.end();
  return status === 0 ? undefined : `${error?.message ?? ""}${stdout}${stderr}`;
}

async function main(names) {
  const unknown = names.find((name) => !(name in CLIENTS));
  if (unknown !== undefined) throw new Error(`${unknown} is none of ${Object.keys(CLIENTS).join(", ")}`);
  let isWell = true;
  for (const name of names.length > 0 ? names : Object.keys(CLIENTS)) {
    const folder = mkdtempSync(join(tmpdir(), "tally-redis-clients-"));
    try {
      const missing = prepare(CLIENTS[name], folder);
      const fault = missing === undefined ? await run(CLIENTS[name], folder) : undefined;
      isWell &&= fault === undefined;
      if (missing !== undefined) console.log(`${name}: skip: ${missing}`);
      else console.log(fault === undefined ? `${name}: passes` : `${name}: fails\n${fault}`);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }
  process.exitCode = isWell ? 0 : 1;
}

try {
  await main(process.argv.slice(2));
} finally {
  killAll();
}
