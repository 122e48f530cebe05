//! How a counter's sum was read, for `?explain=1`, and what its cells store, for `?explain=storage`.
//!
//! Invariant: the explanation lists the cells of the answer that it comes with, and nothing that was not read for that
//! answer.

use serde::{Deserialize, Serialize};

use super::counter_view::SummedCounter;
use super::number::Exact;
use crate::fields::{Latency, Moment, ObjectName, Total, VersionText};
use crate::messages::{LeadTrace, ReadTrace, decode};
use crate::names::{self, CellAddress};
use crate::query::Window;
use tally_core::counter::id::Datacenter;
use tally_core::counter::merge::{CellTotals, Origin, Part, ShardReadTrace};
use tally_core::counter::total::Value;

#[derive(Serialize)]
pub(super) struct Tree {
    root: RootView,
    datacenters: Vec<Branch>,
    /// Only strong reads ask them, where events of the counter may be queued.
    inboxes: Vec<InboxView>,
}

#[derive(Serialize)]
struct RootView {
    object: ObjectName,
    latency_ms: Latency,
    /// Which creation of the counter; what earlier ones counted is gone.
    generation: u64,
    /// How often what is granted to its cells has changed.
    revision: u64,
    /// Sets and resets so far.
    operations: u64,
}

#[derive(Serialize)]
struct Branch {
    id: Datacenter,
    object: ObjectName,
    /// `asked` for this read; `pushed` by its lead within 3 s; `known` from before, since it does not answer; `none`
    /// where nothing is known.
    origin: &'static str,
    as_of: Moment,
    /// How long its lead took, as the aggregator measured it; `null` where the read did not ask it.
    latency_ms: Option<Latency>,
    /// What its cells alone had counted; `null` where nothing is known.
    version: Option<VersionText>,
    cells: Vec<CellView>,
    /// Shards that did not answer; what was last known of them is among the cells.
    missing: Vec<u8>,
}

#[derive(Serialize)]
struct CellView {
    shard: u8,
    object: ObjectName,
    generation: u64,
    /// Flushes that it has counted.
    sequence: u64,
    added: Total,
    removed: Total,
    /// Whether writes no longer spread to it; `null` where the read did not ask its lead.
    sealed: Option<bool>,
    /// How long it took, as its lead measured it; `null` where the lead did not ask.
    latency_ms: Option<Latency>,
    /// What it stores, with `explain=storage`; left out where it did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    storage: Option<CellStorage>,
}

/// What a cell stores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "CellStorage+")]
pub struct CellStorage {
    /// Rows that were counted; 20,000 are, and then the rest of the page.
    pub rows: u64,
    /// Their bytes, without names and checksums.
    pub bytes: u64,
    /// Whether these are all its rows.
    #[serde(rename = "complete")]
    pub is_complete: bool,
    /// The buckets of each width.
    pub buckets: Vec<HeldBuckets>,
    /// The sketches in memory: one for each hash and range of shards. Sketches of times that are over are rows.
    pub sketches: Vec<HeldSketch>,
    /// Records of keyed writes: by clients' keys, by drawn keys, and by keys of callers without an API key.
    pub records: [u64; 3],
    /// The rows by kind, in the order in which they are stored.
    pub kinds: Vec<StoredRows>,
}

/// The buckets of one width.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldBuckets {
    /// The width: 1, 60, 3,600 or 86,400 seconds.
    pub seconds: i64,
    /// Buckets whose time is over. Only those with a count are stored.
    pub closed: u64,
    /// Whether the bucket of now has a count.
    #[serde(rename = "open")]
    pub is_open: bool,
    /// When the first begins.
    pub first_at: Option<Moment>,
    /// When the last begins.
    pub last_at: Option<Moment>,
}

/// A sketch of unique elements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldSketch {
    /// `all_time`, which lacks the open minute, or `open_minute`.
    pub of: String,
    /// Whether it is the dense form: 16,384 registers. Otherwise it is a list of at most 3,072 tokens.
    #[serde(rename = "dense")]
    pub is_dense: bool,
    /// Registers above 0; of a list those that the dense form would have.
    pub registers: u32,
    /// Its size when stored.
    pub bytes: u64,
}

/// The rows of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRows {
    /// `hot` is the row that each write changes.
    pub kind: String,
    /// How many there are.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the time of the first begins; `null` for kinds without times.
    pub first_at: Option<Moment>,
    /// When the time of the last begins.
    pub last_at: Option<Moment>,
}

#[derive(Serialize)]
struct InboxView {
    object: ObjectName,
    latency_ms: Latency,
    /// Whether all that it had acknowledged is counted.
    drained: bool,
}

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
