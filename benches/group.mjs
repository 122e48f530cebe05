// One group of loads: servers, warm-up, rounds, comparison of totals.
//
// Invariants: the loads run in turn, their order turned round each round, so that what else the machine does
// falls on all; nothing of another group runs meanwhile.
// Life: servers → per load (prepare, warm up) → rounds → totals → end of the servers.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { BenchError, runLoad } from "./load.mjs";
import { keyOf, prepare } from "./prepare.mjs";
import { faults, per1000, reconcile, slownessSentence } from "./report.mjs";
import { missing, startServer } from "./servers.mjs";
import { slowness } from "./slowness.mjs";

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
  const cpu_us = server.cpu_us();
  const measured = await runLoad({ urls: server.urls, load, body_file, connections: load.connections, seconds });
  const run = { ...measured, cpu_us: (server.cpu_us() - cpu_us) / measured.answers };
  return before === undefined ? run : { ...run, ...per1000(before, await server.counts(), run.acknowledged) };
}

async function startAll(names, servers, folder) {
  for (const name of names) servers[name] = await startServer(name, join(folder, name));
}

/**
 * Resolves to what a group found: lines and loads (as report.mjs has them), totals, slow (how slow the machine was
 * before, between and after the rounds), wrong (sentences) and logs (the last messages of its servers, where something
 * was wrong). folder: made for its data. rounds, seconds: how many rounds, and how long each load of one.
 * say: is given a sentence now and then. Cost: loads × (1 + rounds × seconds) and about a second per server.
 */
export async function runGroup(group, { folder, rounds: count, seconds, say }) {
  const names = Object.keys(group.loads);
  const reasons = names.map((name) => [name, missing(group.loads[name].server)]);
  const absent = Object.fromEntries(reasons.filter(([, why]) => why !== undefined));
  const present = names.filter((name) => absent[name] === undefined);
  const servers = {};
  const serverOf = (name) => servers[group.loads[name].server];
  const [runs, held, rounds, totals, wrong] = [{}, {}, [], [], []];
  const loads = {};
  const slow = [slowness(folder)];
  // Not measured, but what it acknowledges counts.
  const warmUp = async (name) => runs[name].push(await runOnce(serverOf(name), loads[name], folder, WARM_UP_SECONDS));
  const prepareAll = async () => {
    await startAll(new Set(present.map((name) => group.loads[name].server)), servers, folder);
    for (const name of present) {
      const [url] = serverOf(name).urls;
      const { key, ...load } = group.loads[name];
      held[name] = await prepare(url, load);
      loads[name] = key === undefined ? load : { ...load, authorization: await keyOf(url, key) };
      runs[name] = [];
      if (!group.warms_each_run) await warmUp(name);
    }
  };
  const runRound = async (index) => {
    const round = {};
    for (const name of index % 2 === 0 ? present : present.toReversed()) {
      // Of a load that has just rested the measured run would also open its objects again.
      if (group.warms_each_run) await warmUp(name);
      round[name] = await runOnce(serverOf(name), loads[name], folder, seconds);
      runs[name].push(round[name]);
    }
    rounds.push(round);
    slow.push(slowness(folder));
    const rates = present.map((name) => `${name} ${Math.round(round[name].rate_s)}/s`).join("; ");
    say(`${group.name}, round ${index + 1} of ${count}: ${rates}. ${slownessSentence(slow.slice(-2))}`);
  };
  const compareTotals = async () => {
    for (const name of present) {
      const load = group.loads[name];
      const found = reconcile(load, held[name], runs[name], await totalsOf(serverOf(name), load.counters));
      if (load.counters.length > 0) {
        totals.push({ name, adds: load.adds, held: held[name] * load.counters.length, ...found });
      }
      wrong.push(...found.mismatches.map((sentence) => `MISMATCH ${name}: ${sentence}`));
      const bad = faults(runs[name], rounds.map((round) => round[name]));
      wrong.push(...bad.map((sentence) => `BAD ANSWERS ${name}: ${sentence}`));
    }
  };
  try {
    await prepareAll();
    for (let index = 0; index < count; index += 1) await runRound(index);
    await compareTotals();
  } catch (error) {
    if (!(error instanceof BenchError)) throw error;
    // The rounds before it stand.
    wrong.push(`FAILED ${group.name}: ${error.message}`);
  }
  const logs = wrong.length === 0 ? [] : Object.entries(servers).map(([name, server]) => `${name}:\n${server.log()}`);
  await Promise.all(Object.values(servers).map((server) => server.end()));
  return { name: group.name, rounds, absent, totals, slow, wrong, logs };
}
