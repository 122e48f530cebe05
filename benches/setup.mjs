// `make bench-setup`: how long a newcomer waits, from the clone to the first number.
//
// Invariant: nothing that was downloaded or built before is used, but for rustup's toolchains: the clone, cargo's home,
// npm's cache and the target folder are new and empty. What the user has configured of registries stays. Whether
// anything is built twice is asked too: once `make serve` is ready, `make build` has nothing to do.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { slowness } from "./slowness.mjs";
import { firstRun } from "./setup-report.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const READY = /^Tally is ready on (\S+)$/;

// What the commands of a newcomer see: an empty home, and the registries that this user has configured.
function environment(folder) {
  const home = homedir();
  const cargo = process.env.CARGO_HOME ?? join(home, ".cargo");
  mkdirSync(join(folder, "cargo"), { recursive: true });
  for (const name of ["config.toml", "config"]) {
    if (existsSync(join(cargo, name))) copyFileSync(join(cargo, name), join(folder, "cargo", name));
  }
  // Without what `make` hands to a make of its own: that would print the folders which it enters, and each line counts
  // as work.
  const { CARGO_TARGET_DIR, DATA, MAKEFLAGS, MAKELEVEL, MFLAGS, ...env } = process.env;
  return {
    ...env,
    HOME: folder,
    CARGO_HOME: join(folder, "cargo"),
    RUSTUP_HOME: process.env.RUSTUP_HOME ?? join(home, ".rustup"),
    PATH: `${join(cargo, "bin")}:${process.env.PATH}`,
    npm_config_cache: join(folder, "npm"),
    npm_config_userconfig: process.env.npm_config_userconfig ?? join(home, ".npmrc"),
    PORT: "0",
  };
}

// Runs `make serve` until it is ready. Resolves to its lines, each with the milliseconds at which it came, and the
// server.
async function served(clone, env) {
  const began = performance.now();
  const child = spawn("make", ["serve"], { cwd: clone, env, stdio: ["ignore", "pipe", "inherit"], detached: true });
  const ended = once(child, "close");
  const lines = [];
  for await (const text of createInterface({ input: child.stdout })) {
    lines.push({ text, at_ms: performance.now() - began });
    console.log(text);
    const url = text.match(READY)?.[1];
    if (url !== undefined) return { lines, url, end: () => (process.kill(-child.pid, "SIGTERM"), ended) };
  }
  throw new Error("make serve ended before it was ready");
}

async function main() {
  const out = join(ROOT, "bench-out");
  mkdirSync(out, { recursive: true });
  const folder = mkdtempSync(join(out, "setup-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(1));
  const before = slowness(folder);
  const env = environment(folder);
  const clone = join(folder, "clone");
  const cloned = spawnSync("git", ["clone", "--quiet", "--no-local", "--depth", "1", `file://${ROOT}`, clone], {
    stdio: "inherit",
  });
  if (cloned.status !== 0) throw new Error("git clone failed");
  const server = await served(clone, env);
  try {
    const answer = await fetch(`${server.url}/counters/likes/increment`, { method: "POST" });
    const { value } = await answer.json();
    if (value !== 1) throw new Error(`the first number is ${value}`);
    const began = performance.now();
    const again = spawnSync("make", ["build"], { cwd: clone, env, encoding: "utf8" });
    const rebuilt = { ms: performance.now() - began, output: again.stdout.trim() };
    console.log(`\n${firstRun({ lines: server.lines, rebuilt, slow: [before, slowness(folder)] })}`);
    if (again.status !== 0 || rebuilt.output !== "") throw new Error("make build built something again");
  } finally {
    await server.end();
  }
}

main().catch((error) => {
  console.error(`bench-setup: ${error.message}`);
  process.exitCode = 1;
});
