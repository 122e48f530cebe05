//! Messages of live views: from the edge to hubs, and from there to live readers.

use serde::{Deserialize, Serialize};

use super::call::Call;
use crate::live::snapshot::CounterSnapshot;
use crate::live::topic::Topic;
use crate::names::Address;
use tally_core::counter::id::Datacenter;

calls! {
    Look => Vec<CounterSnapshot>, "/look", |it| Address::LiveReader(it.partition);
    Join => (), "/live-join", |it| Address::Hub(&it.datacenter, it.hub);
}

/// Hub → live reader: asks for snapshots of these counters. Answered in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// The live reader's partition on the directory's ring.
    pub partition: u32,
    /// What is watched, each once.
    pub topics: Vec<Topic>,
    /// The largest age of the answers, milliseconds.
    pub age_ms_max: u32,
}

/// Edge → hub: adds this watcher. Answered by its stream, or by a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// The datacenter of the watcher; the hub serves its region.
    pub datacenter: Datacenter,
    /// The hub's number in its region.
    pub hub: u32,
    /// What it watches.
    pub topics: Vec<Topic>,
    /// Whether numbers that JavaScript cannot hold exactly are sent as strings.
    pub as_strings: bool,
    /// The state that it has from an earlier stream.
    pub resumes: Option<u64>,
    /// The prefixes of the ids that it may watch besides.
    pub prefixes: Vec<String>,
    /// A hash of the address of a watcher that has no key, or a share. It is kept in memory, and with an open socket.
    pub visitor: Option<u64>,
    /// When the stream of a watcher with a share ends, unix milliseconds, because the share may be revoked meanwhile.
    pub ends_ms: Option<i64>,
}
