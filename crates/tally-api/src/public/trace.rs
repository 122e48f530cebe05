//! How a counter's sum was read, as clients see it.

use serde::Serialize;

use super::storage::CellStorage;
use crate::fields::{Latency, Moment, ObjectName, Total, VersionText};
use tally_core::counter::id::Datacenter;

#[derive(Serialize)]
pub(super) struct Tree {
    pub(super) root: RootView,
    pub(super) datacenters: Vec<Branch>,
    /// Only strong reads ask them, where events of the counter may be queued.
    pub(super) inboxes: Vec<InboxView>,
}

#[derive(Serialize)]
pub(super) struct RootView {
    pub(super) object: ObjectName,
    pub(super) latency_ms: Latency,
    /// Which creation of the counter; what earlier ones counted is gone.
    pub(super) generation: u64,
    /// How often what is granted to its cells has changed.
    pub(super) revision: u64,
    /// Sets and resets so far.
    pub(super) operations: u64,
}

#[derive(Serialize)]
pub(super) struct Branch {
    pub(super) id: Datacenter,
    pub(super) object: ObjectName,
    /// `asked` for this read; `pushed` by its lead within 3 s; `known` from before, since it does not answer; `none`
    /// where nothing is known.
    pub(super) origin: &'static str,
    pub(super) as_of: Moment,
    /// How long its lead took, as the aggregator measured it; `null` where the read did not ask it.
    pub(super) latency_ms: Option<Latency>,
    /// What its cells alone had counted; `null` where nothing is known.
    pub(super) version: Option<VersionText>,
    pub(super) cells: Vec<CellView>,
    /// Shards that did not answer; what was last known of them is among the cells.
    pub(super) missing: Vec<u8>,
}

#[derive(Serialize)]
pub(super) struct CellView {
    pub(super) shard: u8,
    pub(super) object: ObjectName,
    pub(super) generation: u64,
    /// Flushes that it has counted.
    pub(super) sequence: u64,
    pub(super) added: Total,
    pub(super) removed: Total,
    /// Whether writes no longer spread to it; `null` where the read did not ask its lead.
    pub(super) sealed: Option<bool>,
    /// How long it took, as its lead measured it; `null` where the lead did not ask.
    pub(super) latency_ms: Option<Latency>,
    /// What it stores, with `explain=storage`; left out where it did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) storage: Option<CellStorage>,
}

#[derive(Serialize)]
pub(super) struct InboxView {
    pub(super) object: ObjectName,
    pub(super) latency_ms: Latency,
    /// Whether all that it had acknowledged is counted.
    pub(super) drained: bool,
}
