// Breaks the shipped code on purpose, one way at a time, and sees whether the simulation notices.
//
// Invariants: the tree itself is never touched (a copy is); a mutation that no longer applies is a failure,
// not a pass; the code as it is must pass first, else everything would look caught.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const COPIED = ["src", "tests", "benches", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo"];
// About 50 ms each: two or three minutes for a mutation that survives.
const SEEDS = process.env.SEEDS ?? "3000";
const RUN_MS_MAX = 600_000;

// [what is broken, file, text, in its place]
const MUTATIONS = [
  ["flushes are forgotten in a crash", "src/counter/cell/rows.rs", "nonces: hot.nonces,", "nonces: Default::default(),"],
  ["a sealed cell counts", "src/counter/cell.rs", "self.is_sealed || self.grant.is_none()", "self.grant.is_none()"],
  ["a cell forgets in a crash that it is sealed", "src/counter/cell/rows.rs", "is_sealed: hot.is_sealed,", "is_sealed: false,"],
  [
    "a grant from before a seal is taken",
    "src/counter/cell/shards.rs",
    "let is_current = self.seals == seals_when_asked;",
    "let is_current = self.seals >= seals_when_asked;",
  ],
  [
    "a part from before an admission is kept",
    "src/counter/cell/shards.rs",
    "self.admissions_of(shard) == admissions && shard",
    "self.admissions_of(shard) >= admissions && shard",
  ],
  [
    "a lead asks a shard that it let count again for its part no more",
    "src/counter/cell/shards.rs",
    "let was_sealed = self.sealed.remove(&shard).is_some();",
    "let was_sealed = self.sealed.contains_key(&shard);",
  ],
  [
    "a keyed write is recorded and not added",
    "src/counter/cell/keyed.rs",
    "        self.added = added;\n        self.removed = removed;\n",
    "        self.removed = removed;\n",
  ],
  [
    "the ledger is lost in a crash",
    "src/counter/cell/keyed.rs",
    "        self.ledger = ledger;\n",
    "        drop(ledger);\n",
  ],
  [
    "a keyed write counts in another generation than it was claimed for",
    "src/counter/cell/keyed.rs",
    "if write.generation != 0 && write.generation != generation {",
    "if write.generation != 0 && write.generation > generation {",
  ],
  [
    "a key's payload is not compared",
    "src/counter/cell/keyed.rs",
    "Record::Counted(recorded) if recorded.fingerprint == write.fingerprint => {",
    "Record::Counted(recorded) if recorded.at_ms >= 0 => {",
  ],
  [
    "a lone lead is not told that it is alone no more",
    "src/cluster/root.rs",
    "sole.filter(|lead| *lead != newcomer)",
    "sole.filter(|lead| *lead == newcomer)",
  ],
  [
    "a clock that stepped back makes an older generation",
    "src/cluster/root.rs",
    "generation: from_clock.max(above_old),",
    "generation: from_clock,",
  ],
  [
    "a stray copy of a flush counts",
    "src/counter/nonces.rs",
    "Some(seen) if seen.nonce.number > nonce.number => Known::Stray,",
    "Some(seen) if seen.nonce.number > nonce.number => Known::New,",
  ],
  [
    "a flush counts in a newer generation than its lane has seen",
    "src/counter/cell/former.rs",
    "if newest == 0 || oldest <= newest {",
    "if newest < u64::MAX || oldest <= newest {",
  ],
  [
    "an older view passes for a reader's version",
    "src/protocol/version.rs",
    "Ordering::Equal => self.sequence_of(cell) < cell.sequence,",
    "Ordering::Equal => false,",
  ],
  [
    "a batch is told the outcome of another",
    "src/counter/lane.rs",
    "newest_first.find(|landed| landed.number == ticket.batch)?",
    "newest_first.find(|landed| landed.number >= ticket.batch.saturating_sub(1))?",
  ],
  [
    "an inbox forgets in a crash which appends it has",
    "src/counter/inbox.rs",
    "head.nonces.remember(row.nonce, outcome_of(seq), row.at_ms);",
    "let _ = row;",
  ],
  [
    "rows that are in a batch stay in the log",
    "tests/sim/inbox_rows.rs",
    "self.log.retain(|seq, _| *seq > next.upto_seq);",
    "self.log.retain(|seq, _| *seq >= next.upto_seq);",
  ],
  [
    "a strong read does not wait for batches",
    "src/counter/inbox.rs",
    "!dues.any(|due| due.counter == *counter)",
    "!dues.any(|due| due.counter != due.counter || counter.as_str().is_empty())",
  ],
  [
    "a strong read does not wait for the log",
    "src/counter/inbox.rs",
    "if self.horizon.is_none() && head.log.0 > self.last {",
    "if self.horizon.is_none() && head.log.0 > i64::MIN {",
  ],
  [
    "a queued write of unknown outcome is struck off",
    "src/counter/inbox.rs",
    "Verdict::Later => left.push(due),",
    "Verdict::Later => drop(due),",
  ],
  [
    "events of two generations are summed",
    "src/counter/queue.rs",
    "let place = (&event.counter, *generation);",
    "let place = (&event.counter, 0);",
  ],
  [
    "an inbox notes a generation that was taken back",
    "tests/sim/inbox.rs",
    "Answer::Generation(_) if all_releases.get() != releases => Ok(()),",
    "Answer::Generation(_) if all_releases.get() < releases => Ok(()),",
  ],
  [
    "a lead calls its total exact while events wait",
    "src/cluster/root.rs",
    "alone: self.inboxes.is_empty() && is_sole && !self.may_lack,",
    "alone: is_sole && !self.may_lack,",
  ],
  [
    "an operation looks at who counts alone before it stops that",
    "tests/sim/operate.rs",
    "self.stop(&root, &sole).await?;\n        let seen = self.observe(&root, &root.counting()).await;",
    "let seen = self.observe(&root, &root.counting()).await;\n        self.stop(&root, &sole).await?;",
  ],
  [
    "whoever counts alone is not stopped for an operation",
    "src/cluster/root.rs",
    "self.home.as_ref().or(only)",
    "self.home.as_ref().or(only.filter(|_| false))",
  ],
  [
    "a set goes on though who counts alone is silent",
    "tests/sim/operate.rs",
    "cells.is_none() && sole.contains(datacenter)",
    "cells.is_none() && sole.is_empty() && sole.contains(datacenter)",
  ],
  [
    "a home is told before the root has written it down",
    "tests/sim/operate.rs",
    "        self.save(root.clone());\n        if let Some(home) = &home {\n            self.tell_configure(home, &root).await?;\n        }\n",
    "        if let Some(home) = &home {\n            self.tell_configure(home, &root).await?;\n        }\n        self.save(root.clone());\n",
  ],
  [
    "a datacenter that was not observed counts as if it had held nothing",
    "src/cluster/operation.rs",
    "None => self.unsettled.push(datacenter),",
    "None => drop(datacenter),",
  ],
  [
    "what came after an operation is forgotten where a datacenter is settled",
    "src/cluster/operation.rs",
    "Value::new(heard.since.min(held), 0)",
    "Value::new(heard.since.min(held.min(0)), 0)",
  ],
  [
    "an operation under a key is not noted",
    "tests/sim/operate.rs",
    "let (fingerprint, done) = rows.operations.get(&key.key)?;",
    "let (fingerprint, done) = rows.operations.get(&key.key).filter(|_| false)?;",
  ],
  [
    "a write that is struck out is not recorded",
    "src/counter/cell/keyed.rs",
    "            outcomes.push(KeyedOutcome::Struck);\n",
    "            changes.records.pop();\n            outcomes.push(KeyedOutcome::Struck);\n",
  ],
  [
    "a claim moves away from a lead that has not struck the key out",
    "tests/sim/root.rs",
    "Some(Owner::Lead(struck)) if struck_at.as_ref() == Some(&struck) => {",
    "Some(Owner::Lead(_)) if struck_at.is_some() || root.home.is_some() => {",
  ],
  [
    "a late claim moves a key that has come back",
    "tests/sim/root.rs",
    "if struck_at.as_ref() == Some(&struck) => {",
    "if struck_at.as_ref().is_some_and(|at| at.datacenter == struck.datacenter) => {",
  ],
  [
    "a late copy of a write lifts what struck it out",
    "src/counter/cell/keyed.rs",
    "if moves.unwrap_or(0) > struck =>",
    "if moves.unwrap_or(0) >= struck =>",
  ],
  [
    "a decrement that was refused is not recorded",
    "src/counter/cell/keyed.rs",
    "if moves.is_some() && outcome == KeyedOutcome::BelowFloor {",
    "if moves.is_none() && outcome == KeyedOutcome::BelowFloor {",
  ],
  [
    "a lead never counts what it has struck out",
    "src/counter/cell/keyed.rs",
    "if moves.unwrap_or(0) > struck =>",
    "if moves.unwrap_or(0) > u32::MAX - struck =>",
  ],
  [
    "keyed decrements do not see the floor",
    "src/counter/cell/keyed.rs",
    "floor.is_some_and(|floor| after.is_below(floor))",
    "floor.is_some_and(|floor| floor.is_below(floor))",
  ],
  [
    "flushes do not see the floor",
    "src/counter/cell.rs",
    "if has_floor && load.removed > 0 {",
    "if has_floor && load.removed > 1_000 {",
  ],
  [
    "a datacenter that counts no more is taken back while its home lives elsewhere",
    "src/cluster/root.rs",
    "self.home.as_ref().filter(|home| *home != datacenter)",
    "self.home.as_ref().filter(|home| *home != datacenter && !self.datacenters.contains(datacenter))",
  ],
  [
    "a cell counts whose time to live is over",
    "src/counter/cell.rs",
    "(self.has_lapsed(now_ms) && !just_granted)",
    "(self.has_lapsed(now_ms) && just_granted)",
  ],
  [
    "a sliding counter ends without asking its leads",
    "tests/sim/ending.rs",
    "if !root.is_sliding() {",
    "if root.is_sliding() || !root.is_sliding() {",
  ],
  [
    "a deletion takes silent leads for stopped once the time is over",
    "tests/sim/ending.rs",
    "let stop_by_themselves = is_expiry && ",
    "let stop_by_themselves = root.is_due(self.now_ms()) && ",
  ],
  [
    "a counter ends while a lead does not know that it will",
    "tests/sim/ending.rs",
    "if self.is_configuring() {\n            self.fulfil(",
    "if self.is_configuring() && false {\n            self.fulfil(",
  ],
  [
    "elements are lost at a seal",
    "src/counter/cell/shards.rs",
    "let part = self.answer(&Question::plain(generation))?;",
    "let part = self.answer(&Question { totals_only: true, ..Question::plain(generation) })?;",
  ],
  [
    "elements of the open minute are lost in a crash",
    "src/counter/cell/rows.rs",
    "open_uniques: hot.open_uniques.map(|start| (start, open)),",
    "open_uniques: hot.open_uniques.map(|start| (start, { drop(open); Sketch::new() })),",
  ],
  [
    "a home that moves raises no revision",
    "tests/sim/operate.rs",
    "        root.revision += 1;\n        let done = Done {\n            created,\n            generation: root.generation,\n            pending: Vec::new(),",
    "        root.revision += u64::from(root.home.is_none());\n        let done = Done {\n            created,\n            generation: root.generation,\n            pending: Vec::new(),",
  ],
  [
    "a home that moves has no number",
    "src/cluster/root.rs",
    "if self.home.is_some() || !held.is_empty() {",
    "if self.home.is_some() && held.len() > 9 {",
  ],
  [
    "a part that a lead takes over is no change of its own",
    "src/counter/cell/shards.rs",
    "            self.sequence += u64::from(part.is_some());\n",
    "",
  ],
  [
    "a condition is not looked at",
    "src/counter/cell/keyed.rs",
    "(seen.generation, seen.sequence, seen.operations) != own;",
    "seen.generation != own.0;",
  ],
  [
    "an operation does not look at home's shards",
    "src/protocol/version.rs",
    "self.at_home(home) == *now && cells.iter().all(is_named)",
    "self.at_home(home) == *now && cells.iter().take(1).all(is_named)",
  ],
  [
    "a key names an operation and a write",
    "tests/sim/root.rs",
    "if self.operations.contains_key(&key) {",
    "if self.operations.contains_key(&key) && key.0[0] == 2 {",
  ],
  [
    "an operation is done under the key of a write",
    "tests/sim/operate.rs",
    "if rows.is_claimed(key.key) {",
    "if rows.is_claimed(key.key) && key.key.0[0] == 2 {",
  ],
  [
    "a late retry is told that its key counted nothing",
    "src/counter/cell/keyed.rs",
    "            Known::Answered(outcome) => outcome,\n        });\n    recalled.collect()",
    "            Known::Answered(_) => KeyedOutcome::Unknown,\n        });\n    recalled.collect()",
  ],
  [
    "a clock that steps forward makes a cell forget flushes",
    "src/counter/nonces.rs",
    "gap_ms.saturating_sub(GAP_MS_MAX).max(0)",
    "gap_ms.saturating_sub(GAP_MS_MAX).max(0).min(0)",
  ],
  [
    "an element of a bulk body is left out",
    "src/protocol/batch/plan.rs",
    "for &(second, hashed) in &gathered.tokens {",
    "for &(second, hashed) in gathered.tokens.iter().skip(1) {",
  ],
  [
    "an element of a keyed line is left out",
    "src/protocol/batch/keyed.rs",
    "        for element in &writes.elements {",
    "        for element in writes.elements.iter().skip(1) {",
  ],
  [
    "a lead strikes out what goes with the generation that it must drop",
    "src/counter/cell/keyed.rs",
    "self.generation().is_some_and(|own| own < write.generation)",
    "self.generation().is_some_and(|own| own < write.generation.min(1))",
  ],
];

// A number or two alone: node tests/sim/mutations.mjs 3 5
const numbers = process.argv.slice(2).map(Number);
const chosen = MUTATIONS.filter((_, index) => numbers.length === 0 || numbers.includes(index + 1));

const copy = mkdtempSync(join(tmpdir(), "tally-mutants-"));
const target = process.env.CARGO_TARGET_DIR ?? join(ROOT, "target/mutants");

function fresh() {
  for (const name of COPIED) {
    if (existsSync(join(ROOT, name))) cpSync(join(ROOT, name), join(copy, name), { recursive: true });
  }
}

function simulate(seeds, ...args) {
  const { status, stdout, stderr, error } = spawnSync("cargo", ["test", "--locked", "--quiet", "--test", "sim", "--", ...args], {
    cwd: copy,
    encoding: "utf8",
    timeout: RUN_MS_MAX,
    env: { ...process.env, CARGO_TARGET_DIR: target, RUST_BACKTRACE: "0", SEED: "", FROM: "0", SEEDS: seeds },
  });
  return { isWell: status === 0, output: `${stdout}${stderr}${error ?? ""}` };
}

/** Lives the worlds of the seeds in the copy, then those that are written out. Returns whether all went well,
 * and what was printed. */
function soak(seeds) {
  const worlds = simulate(seeds, "--ignored", "--exact", "sim::seeds::soak", "--nocapture");
  return worlds.isWell ? simulate(seeds, "sim::", "--skip", "sim::seeds") : worlds;
}

/** What a run died of: its seed, or the law of a world that is written out, and the first line of the panic. */
function death(output) {
  const [, thread, why] = output.match(/thread '([^']*)'[^\n]* panicked at [^\n]*\n([^\n]*)/) ?? [];
  const seed = output.match(/the seed is (\d+)/)?.[1];
  return thread === undefined ? undefined : `${seed === undefined ? thread : `seed ${seed}`}: ${why}`;
}

let survivors = 0;
try {
  fresh();
  // As many seeds as a mutation gets: what the code as it is dies of would catch every mutation.
  const plain = soak(SEEDS);
  if (!plain.isWell) throw new Error(`the code as it is does not pass:\n${plain.output}`);
  for (const [what, file, text, instead] of chosen) {
    const path = join(copy, file);
    const source = readFileSync(path, "utf8");
    let verdict = "does not apply any more: mend the list";
    let isCaught = false;
    if (source.split(text).length === 2) {
      writeFileSync(path, source.replace(text, () => instead));
      const { isWell, output } = soak(SEEDS);
      const died = isWell ? undefined : death(output);
      isCaught = died !== undefined;
      verdict = isCaught ? `caught, ${died}` : isWell ? "NOT caught" : `does not run:\n${output}`;
      writeFileSync(path, source);
    }
    if (!isCaught) survivors += 1;
    console.log(`${what}: ${verdict}`);
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}
console.log(`${chosen.length - survivors} of ${chosen.length} mutations caught`);
process.exitCode = survivors === 0 ? 0 : 1;
