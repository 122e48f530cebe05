// Redis's protocol on the native server beside Redis, by redis-benchmark, in one run: requests a second, and the share
// of a Redis that syncs each write (`appendfsync always`). `make native` makes the server, or TALLY_SERVER names it.
//
//   ROUNDS=3 REQUESTS=50000 node_modules/.bin/node benches/resp.mjs
//
// Invariant: each server has an empty folder on the same disk, and is alone while it is measured. The counter's value
// is compared with the requests, so no figure is of errors. BENCH_RECORD=1 writes the figures into BENCHMARKS.md.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { findProgram } from "../scripts/debian.mjs";
import { recordSection } from "./record.mjs";
import { median } from "./report.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SERVER = process.env.TALLY_SERVER ?? join(ROOT, "target/native/tally-server");
const ROUNDS = Number(process.env.ROUNDS ?? 3);
const REQUESTS = Number(process.env.REQUESTS ?? 50_000);
const PORT = 16_380;
const READY_MS_MAX = 20_000;
// Not in a temporary folder: that may be memory, where a durable write costs nothing.
const DATA = join(ROOT, "bench-out");

// The name, options of redis-benchmark, the command, and the least share of a Redis that syncs each write.
const LINES = [
  ["`INCR`, 64 connections", ["-c", "64"], ["INCR", "counter"], 0.7],
  ["`INCR`, 64 connections, 100 at a time", ["-c", "64", "-P", "100"], ["INCR", "counter"], 0.5],
  ["`ZADD`, 64 connections", ["-c", "64", "-r", "10000"], ["ZADD", "race", "__rand_int__", "member:__rand_int__"], 0.4],
  ["`ZREVRANK`, 64 connections", ["-c", "64", "-r", "10000"], ["ZREVRANK", "race", "member:__rand_int__"], 0.4],
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
  mkdirSync(DATA, { recursive: true });
  const folder = mkdtempSync(join(DATA, "resp-"));
  const [program, args] = command(folder);
  const server = spawn(program, args.map(String), { stdio: "ignore" });
  const ended = once(server, "exit");
  try {
    for (const until = performance.now() + READY_MS_MAX; cli("PING") !== "PONG"; ) {
      const isLate = server.exitCode !== null || performance.now() > until;
      if (isLate) throw new Error(`${program} does not answer on ${PORT}`);
      await new Promise((done) => setTimeout(done, 50));
    }
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

const names = Object.keys(SERVERS);
const rounds = [];
for (let round = 0; round < ROUNDS; round += 1) {
  const rates = {};
  const order = names.map((_, index) => names[(index + round) % names.length]);
  for (const name of order) rates[name] = await measured(SERVERS[name]);
  rounds.push(rates);
}
const row = (cells) => `| ${cells.join(" | ")} |`;
const lines = LINES.map(([name, , , least], index) => {
  const figures = names.map((server) => Math.round(median(rounds.map((rates) => rates[server][index]))));
  const share = median(rounds.map((rates) => rates.Tally[index] / rates[names[0]][index]));
  return row([name, ...figures, share.toFixed(2), `≥ ${least}${share < least ? ", **missed**" : ""}`]);
});
const head = ["requests a second", ...names, "share", "target"];
const text = [row(head), row(["---", "---:", "---:", "---:", "---:", "---"]), ...lines].join("\n");
console.log(text);
if (process.env.BENCH_RECORD) {
  const page = join(ROOT, "BENCHMARKS.md");
  writeFileSync(page, recordSection("resp", readFileSync(page, "utf8"), text));
  console.log(`recorded in ${page}`);
}
