// The page docs/trust.md, from the ledger.

const HOUR_MS = 3_600_000;
const COMMITS_SHOWN_MAX = 20;

const number = (value) => Math.round(value).toLocaleString("en-US");
const hours = (ms) => (ms / HOUR_MS).toLocaleString("en-US", { maximumFractionDigits: 1 });
const sum = (entries, name) => entries.reduce((all, entry) => all + (entry[name] ?? 0), 0);

function table(head, rows) {
  if (rows.length === 0) return "None so far.\n";
  const line = (cells) => `| ${cells.join(" | ")} |`;
  return `${[line(head), `|${head.map(() => "---").join("|")}|`, ...rows.map(line)].join("\n")}\n`;
}

function worldsOf(worlds) {
  const rows = worlds.slice(-COMMITS_SHOWN_MAX).toReversed().map((one) => [
    `\`${one.commit}\``, one.date, one.kind, number(one.worlds), hours(one.virtual_ms), hours(one.real_ms),
    one.wrong.length === 0 ? "none" : one.wrong.join(", "),
  ]);
  const faults = [
    ["crashes of objects and isolates", "crashes"], ["evictions", "evictions"], ["messages lost", "lost"],
    ["messages delivered twice", "repeated"], ["statements refused by storage", "failed_statements"],
    ["messages in all", "messages"], ["requests of clients", "requests"],
  ];
  return `A world is the complete service in memory, with faults that a seed draws. \`make soak\` runs
worlds, and adds them here. In worlds of the kind \`two builds\`, objects and isolates change from the build before to
this one. In worlds of the kind \`holds\`, clients hold quota. All others are \`usual\`.

${table(["", "all worlds so far"], [
    ["worlds", number(sum(worlds, "worlds"))],
    ["virtual time, hours", hours(sum(worlds, "virtual_ms"))],
    ["real time, hours", hours(sum(worlds, "real_ms"))],
    ...faults.map(([what, name]) => [what, number(sum(worlds, name))]),
  ])}
${table(["commit", "date", "kind", "worlds", "virtual hours", "real hours", "failing seeds"], rows)}`;
}

/** The seeds of a run that are in no list yet: their faults are not known. */
function openOf(worlds, seeds) {
  const known = new Set(seeds.map(({ seed }) => seed));
  const open = worlds.flatMap(({ kind, wrong }) => wrong.map((seed) => ({ kind, seed: String(seed) })));
  const texts = open.filter(({ seed }) => !known.has(seed)).map(({ kind, seed }) => `${seed} (${kind})`);
  return texts.length === 0 ? "No failing seed is open." : `Open, so not explained yet: ${texts.join(", ")}.`;
}

function mutantsOf(mutants) {
  const rows = mutants.slice(-COMMITS_SHOWN_MAX).toReversed().map((one) => [
    `\`${one.commit}\``, one.date, `${number(one.run)} of ${number(one.all)}`, number(one.caught),
    one.survivors.length === 0 ? "none" : one.survivors.join("; "),
  ]);
  return `A mutant is the shipped code with one fault made on purpose, and a test that must fail for it. A mutant
survives if no assertion of its test fails: a law is missing. \`make mutants\` runs mutants, and adds them here.

${table(["commit", "date", "run", "caught", "survivors"], rows)}`;
}

function historiesOf(histories) {
  const head = ["commit", "date", "source", "histories", "calls", "answers judged", "undecided", "wrong"];
  const rows = histories.slice(-COMMITS_SHOWN_MAX).toReversed().map((one) => [
    `\`${one.commit}\``, one.date, one.source,
    ...["histories", "calls", "judged", "undecided", "wrong"].map((name) => number(one[name])),
  ]);
  return table(head, rows);
}

function killsOf(kills) {
  const head = ["commit", "date", "server", "fault", "times", "writes", "acknowledged", "unknown", "violations"];
  const rows = kills.slice(-COMMITS_SHOWN_MAX).toReversed().map((one) => [
    `\`${one.commit}\``, one.date, one.host, one.fault,
    ...["times", "sent", "acknowledged", "unknown", "violations"].map((name) => number(one[name])),
  ]);
  return table(head, rows);
}

function modelsOf(models) {
  const rows = models.map((one) => [one.name, number(one.states), one.bounds, `\`${one.test}\``]);
  return table(["model", "states", "bounds", "test"], rows);
}

function suitesOf(suites) {
  const rows = suites.map((one) => [one.name, one.passed, one.skipped]);
  return table(["program", "what passes", "what is skipped, and why"], rows);
}

function documentsOf([known]) {
  if (known === undefined) return "None so far.\n";
  const { pages, blocks, not_run: notRun } = known;
  return `A test runs ${number(blocks - notRun)} of the ${number(blocks)} blocks of commands on ${number(pages)} pages, \
and compares their output.
The other ${number(notRun)} need an account or take minutes.
`;
}

/** Returns the text of docs/trust.md. */
export function pageOf({ worlds, histories, seeds, mutants, models, kills, documents, suites }) {
  return `# Trust

This page lists what was run to find faults in Tally, what it found, and what it does not cover. A script makes it from
[simulation/ledger.json](../simulation/ledger.json): \`node simulation/ledger/ledger.mjs\`.

| to see it yourself | run |
|---|---|
| new worlds | \`make soak SEEDS=10000\` |
| one world again, with its events | \`make soak SEED=772\` |
| faults made on purpose | \`make mutants\` |
| the calls of a run, judged by the contract alone | see [Histories](internals/histories.md) |

## Worlds

${worldsOf(worlds)}
## Seeds that failed

Each of these worlds once broke a law. Every test run repeats the world, or the law that it broke.
${openOf(worlds, seeds)}

${table(["seed", "fixed in", "what was wrong", "what it taught"], seeds.map((one) => [
    one.seed, `\`${one.commit}\``, one.wrong, one.taught,
  ]))}
## Histories

An independent checker judges the calls of a run by the contract alone. See [Histories](internals/histories.md). A
history is wrong if one of its answers breaks a law, and undecided if the checker gives up.

${historiesOf(histories)}
## Kills and other faults of real servers

Clients write while a fault happens. Then each acknowledged write must be there, once. A write is unknown if it got no
answer, or a status from 500 on: it may count once or not at all. All other writes reached no server, or were rejected.

${killsOf(kills)}
## Models

A model goes through all interleavings of a protocol, with the same functions that ship. Within its bounds it reaches
every state. The steps in the table are no limit: they are how far the farthest state is. [Models](internals/models.md)
lists the faults, the laws, and the guards that a test removes.

${modelsOf(models)}
## Mutants

${mutantsOf(mutants)}
## Documents

${documentsOf(documents)}
## Programs of others

Tests run programs that other people wrote against Tally, as they were published.

${suitesOf(suites)}
## What none of this covers

| what | because |
|---|---|
| the network and the storage of Cloudflare | worlds run in memory, and servers run on one machine |
| what the checker of histories does not judge | see [Histories](internals/histories.md#laws) |
| faults beyond the bounds of a model | a model has a few objects and one or two faults, and its time stands still |
| disks that lose what they have synced | Tally relies on a sync |
`;
}
