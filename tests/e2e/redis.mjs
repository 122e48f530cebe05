// A real redis-server for one spec: its own process, a unix socket in its own folder, nothing on disk.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { findProgram } from "../../scripts/debian.mjs";

const PROGRAM = findProgram(["redis-server"]);

/** Why there is no Redis to compare with; undefined where there is one. */
export const MISSING = PROGRAM === undefined ? "redis-server is not installed (Debian package redis-server)" : undefined;

// One reply of the protocol at the start of these bytes, with where it ends; undefined where it is not all there.
function replyIn(bytes) {
  const end = bytes.indexOf("\r\n");
  if (end < 0) return undefined;
  const line = bytes.toString("latin1", 1, end);
  const after = end + 2;
  switch (String.fromCharCode(bytes[0])) {
    case "+":
      return [line, after];
    case "-":
      return [new Error(line), after];
    case ":":
      // Beyond 2^53 its digits.
      return [Number.isSafeInteger(Number(line)) ? Number(line) : line, after];
    case "$": {
      const length = Number(line);
      if (length < 0) return [null, after];
      if (bytes.length < after + length + 2) return undefined;
      return [bytes.subarray(after, after + length), after + length + 2];
    }
    case "*": {
      const items = Number(line) < 0 ? null : [];
      let at = after;
      for (let left = Number(line); left > 0; left -= 1) {
        const item = replyIn(bytes.subarray(at));
        if (item === undefined) return undefined;
        items.push(item[0]);
        at += item[1];
      }
      return [items, at];
    }
    default:
      throw new Error(`Redis answers ${line}`);
  }
}

class Redis {
  #server;
  #folder;
  #path;
  #socket;
  #listening = [];
  #received = Buffer.alloc(0);
  #commands = [];

  constructor(server, folder, path, socket) {
    this.#server = server;
    this.#folder = folder;
    this.#path = path;
    this.#socket = socket;
    socket.on("data", (piece) => {
      this.#received = Buffer.concat([this.#received, piece]);
      for (let reply; (reply = replyIn(this.#received)) !== undefined; ) {
        this.#received = this.#received.subarray(reply[1]);
        const { resolve, reject } = this.#commands.shift();
        if (reply[0] instanceof Error) reject(reply[0]);
        else resolve(reply[0]);
      }
    });
  }

  /** The socket on which it listens. */
  get path() {
    return this.#path;
  }

  /** The answer to a command: a number, null, bytes, or a word; it throws what Redis refuses. */
  call(...words) {
    const parts = words.flatMap((word) => {
      const bytes = Buffer.isBuffer(word) ? word : Buffer.from(String(word));
      return [Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from("\r\n")];
    });
    const answered = new Promise((resolve, reject) => this.#commands.push({ resolve, reject }));
    this.#socket.write(Buffer.concat([Buffer.from(`*${words.length}\r\n`), ...parts]));
    return answered;
  }

  /** What is told of keys from now on, as it comes: `event key`, without an end. */
  async listen() {
    await this.call("config", "set", "notify-keyspace-events", "KEA");
    const socket = createConnection(this.#path);
    await once(socket, "connect");
    this.#listening.push(socket);
    const [events, prefix] = [[], "__keyevent@0__:"];
    let received = Buffer.alloc(0);
    const began = new Promise((resolve) => {
      socket.on("data", (piece) => {
        received = Buffer.concat([received, piece]);
        for (let reply; (reply = replyIn(received)) !== undefined; ) {
          received = received.subarray(reply[1]);
          const [kind, , channel, key] = reply[0].map(String);
          if (kind === "pmessage") events.push(`${channel.slice(prefix.length)} ${key}`);
          else resolve();
        }
      });
    });
    socket.write(`PSUBSCRIBE ${prefix}*\r\n`);
    await began;
    return events;
  }

  async close() {
    for (const socket of [this.#socket, ...this.#listening]) socket.destroy();
    const ended = once(this.#server, "exit");
    this.#server.kill("SIGKILL");
    await ended;
    rmSync(this.#folder, { recursive: true });
  }
}

/** Starts one, and returns it once it listens. */
export async function openRedis() {
  const folder = mkdtempSync(join(tmpdir(), "tally-redis-"));
  const path = join(folder, "socket");
  const args = ["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket", path, "--dir", folder];
  const server = spawn(PROGRAM, args, { stdio: ["ignore", "pipe", "inherit"] });
  const lines = [];
  // It says when it listens; the lines end where it died instead.
  for await (const line of createInterface({ input: server.stdout })) {
    lines.push(line);
    if (line.includes("eady to accept connections")) break;
  }
  const isReady = lines.at(-1)?.includes("eady to accept connections");
  if (!isReady) throw new Error(`redis-server ended:\n${lines.join("\n")}`);
  server.stdout.resume();
  const socket = createConnection(path);
  await once(socket, "connect");
  return new Redis(server, folder, path, socket);
}
