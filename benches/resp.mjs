// Redis's protocol on the native server beside Redis, by redis-benchmark, in one run: requests a second, and the share
// of a Redis that syncs each write (`appendfsync always`). `make native` makes the server, or TALLY_SERVER names it.
//
//   node_modules/.bin/node benches/resp.mjs [requests]
//
// Invariant: each server has an empty folder on the same disk, and is alone while it is measured. The counter's value
// is compared with the requests, so no figure is of errors.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { findProgram } from "../scripts/debian.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SERVER = process.env.TALLY_SERVER ?? join(ROOT, "target/native/tally-server");
const REQUESTS = Number(process.argv[2] ?? 50_000);
const PORT = 16_380;

const LINES = [
  ["INCR, 64 connections", ["-c", "64"], ["INCR", "counter"]],
  ["INCR, 64 connections, 100 at a time", ["-c", "64", "-P", "100"], ["INCR", "counter"]],
  ["ZADD, 64 connections", ["-c", "64", "-r", "10000"], ["ZADD", "race", "__rand_int__", "member:__rand_int__"]],
  ["ZREVRANK, 64 connections", ["-c", "64", "-r", "10000"], ["ZREVRANK", "race", "member:__rand_int__"]],
];

const redis = (sync) => (folder) => [
  findProgram(["redis-server"]),
  ["--port", PORT, "--dir", folder, "--save", "", "--appendonly", "yes", "--appendfsync", sync],
];
const SERVERS = {
  "Redis, appendfsync always": redis("always"),
  "Redis, appendfsync everysec": redis("everysec"),
  Tally: (folder) => [SERVER, ["--port", "0", "--resp", PORT, "--data", join(folder, "data")]],
};

const cli = (...words) => spawnSync("redis-cli", ["-p", PORT, ...words], { encoding: "utf8" }).stdout.trim();

async function measured(command) {
  const folder = mkdtempSync(join(tmpdir(), "tally-bench-resp-"));
  const [program, args] = command(folder);
  const server = spawn(program, args.map(String), { stdio: "ignore" });
  const ended = once(server, "exit");
  try {
    while (cli("PING") !== "PONG") await new Promise((done) => setTimeout(done, 50));
    const rates = LINES.map(([, options, words]) => {
      const args = ["-p", PORT, "-n", REQUESTS, "--csv", ...options, ...words].map(String);
      const { stdout } = spawnSync("redis-benchmark", args, { encoding: "utf8" });
      return Number(/^"[^"]*","([\d.]+)"/m.exec(stdout.trim().split("\n").at(-1))?.[1]);
    });
    const counted = Number(cli("GET", "counter"));
    if (counted !== 2 * REQUESTS) throw new Error(`${program} has counted ${counted} of ${2 * REQUESTS}`);
    return rates;
  } finally {
    server.kill();
    await ended;
    rmSync(folder, { recursive: true });
  }
}

const rates = {};
for (const [name, command] of Object.entries(SERVERS)) rates[name] = await measured(command);
const [always, , own] = Object.values(rates);
console.log(["requests a second", ...Object.keys(rates), "share"].join(" | "));
LINES.forEach(([line], index) => {
  const figures = Object.values(rates).map((all) => Math.round(all[index]));
  console.log([line, ...figures, (own[index] / always[index]).toFixed(2)].join(" | "));
});
