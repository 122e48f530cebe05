// One group of loads: servers, warm-up, rounds, comparison of totals.
//
// Invariants: the loads run in turn, their order turned round each round, so that what else the machine does
// falls on all; nothing of another group runs meanwhile.
// Life: servers → per load (prepare, warm up) → rounds → totals → end of the servers.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { runLoad } from "./load.mjs";
import { prepare } from "./prepare.mjs";
import { faults, lineOutcome, loadOutcome, per1000, reconcile } from "./report.mjs";
import { missing, startServer } from "./servers.mjs";

const WARM_UP_SECONDS = 1;
// Totals that are asked for at once.
const TOTALS_AT_ONCE = 16;

async function totalsOf(server, counters) {
  const totals = [];
  for (let from = 0; from < counters.length; from += TOTALS_AT_ONCE) {
    totals.push(...(await Promise.all(counters.slice(from, from + TOTALS_AT_ONCE).map(server.total))));
  }
  return totals;
}

async function runOnce(server, { body, ...load }, folder, seconds) {
  const body_file = body === undefined ? undefined : join(folder, "body");
  if (body_file !== undefined) writeFileSync(body_file, body);
  const before = await server.counts?.();
  const run = await runLoad({ urls: server.urls, load, body_file, connections: load.connections, seconds });
  return before === undefined ? run : { ...run, ...per1000(before, await server.counts(), run.acknowledged) };
}

async function startAll(names, servers, folder) {
  for (const name of names) servers[name] = await startServer(name, join(folder, name));
}

/**
 * Resolves to what a group found: lines and loads (as report.mjs has them), totals, wrong (sentences) and
 * logs (the last messages of its servers, where something was wrong).
 * folder: made for its data. rounds, seconds: how many rounds, and how long each load of one.
 * say: is given a sentence now and then. Cost: loads × (1 + rounds × seconds) and about a second per server.
 */
export async function runGroup(group, { folder, rounds: count, seconds, say }) {
  const names = Object.keys(group.loads);
  const reasons = names.map((name) => [name, missing(group.loads[name].server)]);
  const absent = Object.fromEntries(reasons.filter(([, why]) => why !== undefined));
  const present = names.filter((name) => absent[name] === undefined);
  const servers = {};
  try {
    await startAll(new Set(present.map((name) => group.loads[name].server)), servers, folder);
    const serverOf = (name) => servers[group.loads[name].server];
    const runs = {};
    const held = {};
    // Not measured, but what it acknowledges counts.
    const warmUp = async (name) => runs[name].push(await runOnce(serverOf(name), group.loads[name], folder, WARM_UP_SECONDS));
    for (const name of present) {
      held[name] = await prepare(serverOf(name).urls[0], group.loads[name]);
      runs[name] = [];
      if (!group.warms_each_run) await warmUp(name);
    }
    const rounds = [];
    for (let index = 0; index < count; index += 1) {
      const round = {};
      for (const name of index % 2 === 0 ? present : present.toReversed()) {
        // Of a load that has just rested the measured run would also open its objects again.
        if (group.warms_each_run) await warmUp(name);
        round[name] = await runOnce(serverOf(name), group.loads[name], folder, seconds);
        runs[name].push(round[name]);
      }
      rounds.push(round);
      const rates = present.map((name) => `${name} ${Math.round(round[name].rate_s)}/s`).join("; ");
      say(`${group.name}, round ${index + 1} of ${count}: ${rates}`);
    }
    const totals = [];
    const wrong = [];
    for (const name of present) {
      const load = group.loads[name];
      const found = reconcile(load, held[name], runs[name], await totalsOf(serverOf(name), load.counters));
      if (load.counters.length > 0) totals.push({ name, adds: load.adds, held: held[name] * load.counters.length, ...found });
      wrong.push(...found.mismatches.map((sentence) => `MISMATCH ${name}: ${sentence}`));
      const bad = faults(runs[name], rounds.map((round) => round[name]));
      wrong.push(...bad.map((sentence) => `BAD ANSWERS ${name}: ${sentence}`));
    }
    return {
      lines: group.lines.map((line) => lineOutcome(line, rounds, absent)),
      loads: present.map((name) => loadOutcome(name, group.loads[name], rounds.map((round) => round[name]))),
      totals,
      wrong,
      logs: wrong.length === 0 ? [] : Object.entries(servers).map(([name, server]) => `${name}:\n${server.log()}`),
    };
  } finally {
    await Promise.all(Object.values(servers).map((server) => server.end()));
  }
}
