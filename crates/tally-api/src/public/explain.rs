//! How a counter's sum was read, for `?explain=1`, and what its cells store, for `?explain=storage`.
//!
//! Invariant: the explanation lists the cells of the answer that it comes with, and nothing that was not read for that
//! answer.

use super::counter_view::SummedCounter;
use super::storage::CellStorage;
use super::trace::{Branch, CellView, InboxView, RootView, Tree};
use crate::number::Exact;
use crate::query::Window;
use tally_core::counter::id::Datacenter;
use tally_core::counter::merge::{CellTotals, Origin, Part, ShardReadTrace};
use tally_core::counter::total::Value;
use tally_wire::messages::{LeadTrace, ReadTrace, decode};
use tally_wire::names;
use tally_wire::names::CellAddress;

impl SummedCounter<'_> {
    /// The JSON of `GET /counters/{id}?explain=`: as [`SummedCounter::to_json`], and how it was read.
    pub fn explained_json(
        &self,
        strings: bool,
        window: Option<Window>,
        trace: &ReadTrace,
    ) -> String {
        self.json_with(strings, window, None, Some(self.tree(strings, trace)))
    }

    fn tree(&self, strings: bool, trace: &ReadTrace) -> Tree {
        let root = &self.sum.root;
        let parts = self.sum.datacenters.iter();
        Tree {
            root: RootView {
                object: names::directory(trace.partition).name,
                latency_ms: trace.root_ms,
                generation: root.generation,
                revision: root.revision,
                operations: root.operations.number(),
            },
            datacenters: parts
                .map(|(datacenter, part)| self.branch(strings, trace, datacenter, part.as_ref()))
                .collect(),
            inboxes: trace
                .inboxes
                .iter()
                .map(|inbox| InboxView {
                    object: names::inbox(&inbox.inbox).name,
                    latency_ms: inbox.latency_ms,
                    drained: inbox.is_drained,
                })
                .collect(),
        }
    }

    fn branch(
        &self,
        strings: bool,
        trace: &ReadTrace,
        datacenter: &Datacenter,
        part: Option<&Part>,
    ) -> Branch {
        let lead = CellAddress::lead(self.id, datacenter);
        let lead_trace = trace
            .leads
            .iter()
            .find(|known| known.datacenter == *datacenter);
        let is_asked = part.is_some_and(|part| part.origin == Origin::Queried);
        let cell = |(shard, totals): &(u8, CellTotals)| {
            let own = lead_trace.and_then(|lead| trace_of_shard(lead, *shard));
            CellView {
                shard: *shard,
                object: names::cell(&lead.sibling(*shard)).name,
                generation: totals.generation,
                sequence: totals.sequence,
                added: Exact::new(Value::new(totals.added, 0), strings),
                removed: Exact::new(Value::new(totals.removed, 0), strings),
                sealed: match own {
                    Some(shard) => Some(shard.is_sealed),
                    // The lead itself is never sealed by the autoscaler.
                    None => (is_asked && *shard == 0).then_some(false),
                },
                latency_ms: own.and_then(|shard| shard.latency_ms),
                storage: storage_of(part, *shard),
            }
        };
        let version = self.version.of_datacenter(datacenter);
        Branch {
            id: datacenter.clone(),
            object: names::cell(&lead).name,
            origin: match part.map(|part| part.origin) {
                Some(Origin::Queried) => "asked",
                Some(Origin::Pushed(_)) => "pushed",
                Some(Origin::Known(_)) => "known",
                None => "none",
            },
            as_of: self.freshness_of(datacenter, part).as_of_ms,
            latency_ms: lead_trace.map(|lead| lead.latency_ms),
            version: (!version.cells().is_empty()).then(|| version.encode()),
            cells: part.map_or_else(Vec::new, |part| part.cells.iter().map(cell).collect()),
            missing: part.map_or_else(Vec::new, |part| part.missing.clone()),
        }
    }
}

fn storage_of(part: Option<&Part>, shard: u8) -> Option<CellStorage> {
    let mut stored = part?.storage.iter();
    let (_, bytes) = stored.find(|(of, _)| *of == i64::from(shard))?;
    decode(bytes).ok()
}

fn trace_of_shard(lead: &LeadTrace, shard: u8) -> Option<&ShardReadTrace> {
    lead.shards.iter().find(|known| known.shard == shard)
}
