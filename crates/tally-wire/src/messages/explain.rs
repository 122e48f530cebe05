//! Messages of explained reads: the sum, and how it was read.

use serde::{Deserialize, Serialize};

use super::call::Call;
use super::read::{GlobalSum, Read};
use crate::names::Address;
use tally_core::counter::id::Datacenter;
use tally_core::counter::merge::ShardReadTrace;
use tally_core::counter::queue::InboxId;

calls! {
    Explain => Option<Explained>, "/explain", |_| Address::Aggregator;
}

/// Edge → aggregator: sums a counter, and says how; `None` where it does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explain {
    /// What to read.
    pub read: Read,
    /// Whether every cell must be asked now.
    pub strong: bool,
}

/// A sum, and how it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explained {
    /// The sum.
    pub sum: GlobalSum,
    /// How it was read.
    pub trace: ReadTrace,
}

/// The objects that a read asked, and how long each took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadTrace {
    /// The partition that holds the root.
    pub partition: u32,
    /// How long the root took, milliseconds.
    pub root_ms: u64,
    /// The leads that were asked.
    pub leads: Vec<LeadTrace>,
    /// The inboxes that were asked to count what they had acknowledged.
    pub inboxes: Vec<InboxTrace>,
}

/// A lead that was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeadTrace {
    /// Its datacenter.
    pub datacenter: Datacenter,
    /// How long it took, milliseconds; also for one that did not answer.
    pub latency_ms: u64,
    /// Its other shards, in order; empty where it did not answer.
    pub shards: Vec<ShardReadTrace>,
}

/// An inbox that was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxTrace {
    /// The inbox.
    pub inbox: InboxId,
    /// How long it took, milliseconds.
    pub latency_ms: u64,
    /// Whether all events that it had acknowledged are counted.
    pub is_drained: bool,
}
