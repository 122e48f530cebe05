// How the code is broken on purpose, by `mutations.mjs`, for the worlds of whole services: as for the simulation of tests/sim, but
// where that breaks a shell of its own the shell that ships is broken.
//
// Invariant: the text stands once in its file.
import { MUTATIONS as OF_SIM } from "../../tests/sim/broken.mjs";

/** [what is broken, file, text, in its place]; one of the name of another stands for that. */
const OF_SHELLS = [
  [
    "rows that are in a batch stay in the log",
    "src/node/objects/inbox_store.rs",
    "DELETE FROM log WHERE seq <= ?",
    "DELETE FROM log WHERE seq < ?",
  ],
  [
    "an inbox notes a generation that was taken back",
    "src/node/objects/inbox.rs",
    "if self.releases.get() == releases {",
    "if self.releases.get() >= releases {",
  ],
  [
    "an operation looks at who counts alone before it stops that",
    "src/node/objects/operations.rs",
    "self.stop(counter, &root, &sole).await?;\n        let seen = self.observe(counter, &root, &root.counting()).await;",
    "let seen = self.observe(counter, &root, &root.counting()).await;\n        self.stop(counter, &root, &sole).await?;",
  ],
  [
    "a set goes on though who counts alone is silent",
    "src/node/objects/operations.rs",
    "cells.is_none() && sole.contains(datacenter)",
    "cells.is_none() && sole.is_empty() && sole.contains(datacenter)",
  ],
  [
    "a home is told before the root has written it down",
    "src/node/objects/operations.rs",
    "        self.roots\n            .save(counter, Entry::Live(root.clone()), &[])\n            .await?;\n        if let Some(home) = &home {\n            let telling = Telling::Configure;\n            self.roots\n                .tell(counter, home, telling, generation, Some(&root))\n                .await?;\n        }\n",
    "        if let Some(home) = &home {\n            let telling = Telling::Configure;\n            self.roots\n                .tell(counter, home, telling, generation, Some(&root))\n                .await?;\n        }\n        self.roots\n            .save(counter, Entry::Live(root.clone()), &[])\n            .await?;\n",
  ],
  [
    "an operation under a key is not noted",
    "src/node/objects/operation_store.rs",
    "        if self.claims.claim_of(counter, &claims, key.key)?.is_none() {\n",
    "        if self.claims.claim_of(counter, &claims, key.key)?.is_some() {\n",
  ],
  [
    "a claim moves away from a lead that has not struck the key out",
    "src/node/objects/claim_store.rs",
    "Some(found) if found.is_struck(claim, generation) => {",
    "Some(found) if found.is_struck(claim, generation) || found.holder.as_ref().is_some_and(|one| one.datacenter != next.datacenter) => {",
  ],
  [
    "a late claim moves a key that has come back",
    "src/node/objects/claim_store.rs",
    "self.holder == claim.struck_at",
    "self.holder.as_ref().map(|one| &one.datacenter) == claim.struck_at.as_ref().map(|one| &one.datacenter)",
  ],
  [
    "a sliding counter ends without asking its leads",
    "src/node/objects/roots/lead_notifications.rs",
    "        if !root.is_sliding() {\n",
    "        if root.is_sliding() || !root.is_sliding() {\n",
  ],
  [
    "a deletion takes silent leads for stopped once the time is over",
    "src/node/objects/roots/lead_notifications.rs",
    "let stop_by_themselves = is_expiry && ",
    "let stop_by_themselves = (is_expiry || root.is_due(self.host.now_ms())) && ",
  ],
  [
    "a counter ends while a lead does not know that it will",
    "src/node/objects/roots/lead_notifications.rs",
    "        if self.duties.is_configuring(counter)? {\n",
    "        if self.duties.is_configuring(counter)? && root.generation == 0 {\n",
  ],
  [
    "a home that moves raises no revision",
    "src/node/objects/operations.rs",
    "        root.revision += 1;\n        let duties = duties(counter, &root, Telling::Configure);\n",
    "        root.revision += u64::from(root.home.is_none());\n        let duties = duties(counter, &root, Telling::Configure);\n",
  ],
  [
    "a key names an operation and a write",
    "src/node/objects/operation_store.rs",
    "        let slot = (self.claims).claim_for_operation(counter, key.key, generation, now_ms)?;\n",
    "        let other = WriteKey([0; 16]);\n        let slot = (self.claims).claim_for_operation(counter, other, generation, now_ms)?;\n",
  ],
  [
    "an operation is done under the key of a write",
    "src/node/objects/operation_store.rs",
    "            return Ok(Some(Operated::Reused));\n        };\n",
    "            return Ok(None);\n        };\n",
  ],
  [
    "a cell forgets nothing of a commit that storage refused",
    "src/node/objects/group_commit.rs",
    "            outcomes.fill(Err(fault));\n",
    "            drop(fault);\n",
  ],
  [
    "an isolate sends a flush again under another number",
    "src/node/edge/flush_sender.rs",
    "(Err(fault @ Fault::Unavailable(_)), _) => last = Some(fault),",
    "(Err(fault @ Fault::Unavailable(_)), _) => { flush.nonce.lane ^= 1; last = Some(fault) }",
  ],
  [
    "the aggregator leaves out a datacenter that does not answer",
    "src/node/aggregator/mod.rs",
    "            Err(_) => datacenters.push((datacenter, None)),\n",
    "            Err(_) => drop(datacenter),\n",
  ],
];

const named = new Map([...OF_SIM, ...OF_SHELLS].map((mutation) => [mutation[0], mutation]));

/** [what is broken, file, text, in its place] */
export const MUTATIONS = [...named.values()];

/** The first seed from 0 that caught each, of worlds as `Plan::draw_first` draws them without tablets; another plan has other seeds. */
export const CAUGHT = new Map([
  ["flushes are forgotten in a crash", 11],
  ["a sealed cell counts", 3],
  ["a cell forgets in a crash that it is sealed", 93],
  ["a grant from before a seal is taken", 73],
  ["a lead asks a shard that it let count again for its part no more", 40],
  ["a keyed write is recorded and not added", 0],
  ["a numbered write is counted without its number", 6],
  ["a numbered write is struck out without its number", 128],
  ["a number that one lead was told to count is given to the next home, though that has not struck it out", 662],
  ["the ledger is lost in a crash", 18],
  ["a keyed write counts in another generation than it was claimed for", 88],
  ["a key's payload is not compared", 1],
  ["a lone lead is not told that it is alone no more", 1],
  ["a clock that stepped back makes an older generation", 1118],
  ["a stray copy of a flush counts", 17],
  ["a flush counts in a newer generation than its lane has seen", 523],
  ["an older view passes for a reader's version", 116],
  ["a batch is told the outcome of another", 4],
  ["rows that are in a batch stay in the log", 0],
  ["a strong read does not wait for batches", 166],
  ["a strong read does not wait for the log", 106],
  ["a queued write of unknown outcome is struck off", 254],
  ["a lead calls its total exact while events wait", 13],
  ["whoever counts alone is not stopped for an operation", 2],
  ["a set goes on though who counts alone is silent", 226],
  ["a home is told before the root has written it down", 54],
  ["a datacenter that was not observed counts as if it had held nothing", 80],
  ["what came after an operation is forgotten where a datacenter is settled", 1125],
  ["an operation under a key is not noted", 5],
  ["keyed decrements do not see the floor", 21],
  ["a datacenter that counts no more is taken back while its home lives elsewhere", 22],
  ["a cell counts whose time to live is over", 450],
  ["a sliding counter ends without asking its leads", 1253],
  ["elements are lost at a seal", 38],
  ["an isolate sends a flush again under another number", 1],
  ["the aggregator leaves out a datacenter that does not answer", 1],
]);

/**
 * What none of the seeds 0 to 1,399 of those worlds caught. `make mutants` asks tests/sim for them: most need one
 * message to come at one moment, as its worlds that are written out have it. */
export const NOT_CAUGHT = [
  "events of two generations are summed",
  "an inbox notes a generation that was taken back",
  "an operation looks at who counts alone before it stops that",
  "a part from before an admission is kept",
  "an inbox forgets in a crash which appends it has",
  "a write that is struck out is not recorded",
  "a claim moves away from a lead that has not struck the key out",
  "a late claim moves a key that has come back",
  "a late copy of a write lifts what struck it out",
  "a decrement that was refused is not recorded",
  "a lead never counts what it has struck out",
  "flushes do not see the floor",
  "a deletion takes silent leads for stopped once the time is over",
  "a counter ends while a lead does not know that it will",
  "a lane joins elements of two hashes",
  "a home that moves raises no revision",
  "a home that moves has no number",
];
