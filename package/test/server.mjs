// A server for the tests of the package: the command's own, on a free port, with a data folder that goes with it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));
export const TALLY = join(ROOT, "package/command/tally.mjs");

/** Returns a folder of its own, in memory where that is possible. */
export function folder() {
  return mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "tally-package-"));
}

/** Runs a program to its end, or to `signal`. Resolves to `{ code, stdout, stderr }`. */
export async function run(program, args, { cwd, env = {}, input, onOutput } = {}) {
  const child = spawn(program, args, { cwd, env: { ...process.env, ...env }, stdio: ["pipe", "pipe", "pipe"] });
  const job = { child, stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text) => ((job.stdout += text), onOutput?.(job)));
  child.stderr.setEncoding("utf8").on("data", (text) => ((job.stderr += text), onOutput?.(job)));
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  const [code, signal] = await once(child, "close");
  return { code: code ?? signal, stdout: job.stdout, stderr: job.stderr };
}

/**
 * Starts a server, and resolves to `{ url, place, tally(args, options), end() }`: `tally` runs the command against it.
 * `program`: what is run instead of the command of the source. `copy`: a data folder that it begins with a copy of.
 * `stop()` ends it and leaves its data.
 */
export async function openServer({ program = [process.execPath, TALLY], env = {}, cwd, copy } = {}) {
  const place = folder();
  if (copy !== undefined) cpSync(copy, join(place, "data"), { recursive: true });
  const base = { ...process.env, TALLY_STATE: join(place, "state"), TALLY_KEYS: "", ...env };
  const child = spawn(
    program[0], [...program.slice(1), "serve", "--port", "0", "--data", join(place, "data"), "--json"],
    {
      cwd: cwd ?? place, env: base, stdio: ["ignore", "pipe", "inherit"],
    },
  );
  const ended = once(child, "exit");
  const ready = once(createInterface({ input: child.stdout }), "line");
  const [line] = await Promise.race([
    ready, ended.then(([code]) => Promise.reject(new Error(`the server ended with ${code}`))),
  ]);
  const url = JSON.parse(line).urls[0];
  const { TALLY_KEYS: _, ...client } = base;
  return {
    url,
    place,
    json: async (path, init) => (await fetch(new URL(path, url), init)).json(),
    tally: (args, options = {}) =>
      run(program[0], [...program.slice(1), ...args], {
        cwd: place, ...options, env: { ...client, TALLY_URL: url, ...options.env },
      }),
    data: join(place, "data"),
    stop: () => (child.kill("SIGTERM"), ended),
    end: async () => {
      child.kill("SIGTERM");
      await ended;
      rmSync(place, { recursive: true, force: true });
    },
  };
}

/** Resolves once `look()` resolves to something true, and to that. */
export async function until(look, { within_ms = 60_000 } = {}) {
  const late = performance.now() + within_ms;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (performance.now() > late) throw new Error(`it did not come about within ${within_ms / 1000} s`);
    await new Promise((done) => setTimeout(done, 20));
  }
}
