// Servers of other people, run in the foreground on free ports, with all their files in one temporary folder.
//
// Invariant: nothing that was started outlives `end()`, and nothing is read or written of the machine's own services.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SERVERS, findServer } from "../../scripts/servers.mjs";

// A busy machine takes long; one that hangs is found out all the same.
const PATIENCE_MS = 60_000;
const LOOK_MS = 20;

/** Whether this user is root: servers then give up their rights, unless they are told not to. */
export const isRoot = process.getuid?.() === 0;

/** Returns why a test with these programs is left out; undefined where all are installed. Throws where `CI` is set. */
export function missing(...names) {
  const without = names.filter((name) => findServer(name) === undefined);
  if (without.length === 0) return undefined;
  const packages = without.map((name) => SERVERS[name] ?? name).join(" ");
  const sentence = `${without.join(", ")} not installed: apt-get install ${packages}`;
  if (process.env.CI) throw new Error(sentence);
  return sentence;
}

/** Resolves once `look()` resolves to something true, and to that. `what`: what is waited for. */
export async function until(what, look) {
  const late = performance.now() + PATIENCE_MS;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (performance.now() > late) throw new Error(`not within ${PATIENCE_MS / 1000} s: ${what}`);
    await new Promise((done) => setTimeout(done, LOOK_MS));
  }
}

/** Resolves to ports of 127.0.0.1 and ::1 that nobody listens at. */
export async function freePorts(count) {
  const servers = Array.from({ length: count }, () => createServer());
  // All are held until all are known, so no two are the same.
  const ports = await Promise.all(
    servers.map(async (server) => {
      await once(server.listen({ port: 0, host: "::", ipv6Only: false }), "listening");
      return server.address().port;
    }),
  );
  await Promise.all(servers.map((server) => once(server.close(), "close")));
  return ports;
}

const listens = (port) =>
  new Promise((done) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => (socket.destroy(), done(true))).once("error", () => done(false));
  });

/** A folder, and the programs that run in it. */
export class Place {
  folder = mkdtempSync(join(tmpdir(), "tally-servers-"));
  #running = new Set();

  constructor() {
    // Workers of servers run as other users.
    chmodSync(this.folder, 0o755);
  }

  /** Returns the path of a file in the folder, whose folders exist then. `text`: what is written into it. */
  file(name, text) {
    const path = join(this.folder, name);
    mkdirSync(join(path, ".."), { recursive: true });
    if (text !== undefined) writeFileSync(path, text);
    return path;
  }

  /** Starts a program of the tests in the foreground, and resolves once it listens at `port`. */
  async start(name, args, { port, env = {}, stdout = "pipe" } = {}) {
    const child = spawn(findServer(name) ?? name, args, {
      cwd: this.folder, env: { ...process.env, HOME: this.folder, ...env }, stdio: ["ignore", stdout, "pipe"],
    });
    const job = { child, pid: child.pid, said: "", ended: once(child, "close"), end: () => this.#end(job) };
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding("utf8").on("data", (text) => (job.said += text));
    }
    this.#running.add(job);
    let code;
    job.ended.then(([ended, signal]) => ((code = ended ?? signal), this.#running.delete(job)));
    await until(`${name} listens`, () => {
      if (code !== undefined) throw new Error(`${name} ended with ${code}\n${job.said}`);
      return port === undefined || listens(port);
    });
    return job;
  }

  /** Runs a program to its end. Resolves to what it printed; rejects where it fails. */
  async run(name, args) {
    const job = await this.start(name, args);
    const [code] = await job.ended;
    if (code !== 0) throw new Error(`${name} ${args.join(" ")} ended with ${code}\n${job.said}`);
    return job.said;
  }

  async #end(job) {
    if (job.child.exitCode === null && job.child.signalCode === null) {
      job.child.kill("SIGTERM");
      const late = setTimeout(() => job.child.kill("SIGKILL"), 5_000);
      await job.ended;
      clearTimeout(late);
    }
  }

  async end() {
    await Promise.all([...this.#running].map((job) => this.#end(job)));
    rmSync(this.folder, { recursive: true, force: true });
  }
}
