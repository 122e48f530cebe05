//! Messages to and from cells: flushes, grants, parts of sums.

use serde::{Deserialize, Serialize};

use super::call::Call;
use super::converge::PushView;
use crate::names::{Address, CellAddress};
use tally_core::cluster::root::Root;
use tally_core::cluster::tablets::LeadPlace;
use tally_core::counter::cell::CellState;
use tally_core::counter::flush::Load;
use tally_core::counter::grant::Grant;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::merge::{Part, Question};
use tally_core::counter::nonces::{FlushEffect, Nonce};
use tally_core::counter::settings::TtlTerms;
use tally_core::counter::total::Sum as Total;

calls! {
    Flush => FlushAnswer, "/flush", |it| Address::Cell(&it.to);
    Hello => Grant, "/hello", |it| Address::Cell(&it.to);
    LoadReport => u8, "/report", |it| Address::Cell(&it.to);
    Seal => Option<Part>, "/seal", |it| Address::Cell(&it.to);
    Configure => (), "/configure", |it| Address::Cell(&it.to);
    Suspend => (), "/suspend", |it| Address::Cell(&it.to);
    Close => (), "/close", |it| Address::Cell(&it.to);
    Ask => Option<Part>, "/ask", |it| Address::Cell(&it.to);
    SumDatacenter => Part, "/sum", |it| Address::Cell(&it.to);
    Register => Grant, "/register", |it| Address::Root(&it.counter);
    LookUp => Option<Root>, "/look-up", |it| Address::Root(&it.counter);
}

/// Edge → cell: count this, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flush {
    /// The cell; an object learns its own address from it.
    pub to: CellAddress,
    /// The flush's nonce.
    pub nonce: Nonce,
    /// Its content.
    pub load: Load,
    /// Whether the sender reports to the root what the cell's datacenter counts.
    pub wants_report: bool,
}

/// The answer to a flush.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlushAnswer {
    /// What was counted.
    pub flushed: Flushed,
    /// The report that the flush asked for; `None` where the lead has to be asked, see
    /// [`ReportLead`](super::ReportLead).
    pub report: Option<PushView>,
}

/// The cell has counted it durably.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flushed {
    /// The generation it was counted in.
    pub generation: u64,
    /// The cell's state right after it.
    pub outcome: FlushEffect,
    /// Totals (added, removed) of all other cells, if each of them has stopped counting or never counted: the counter's
    /// value is then known exactly. Otherwise `None`.
    pub elsewhere: Option<(Total, Total)>,
    /// Over how many shards writes of this datacenter are now spread.
    pub shards: u8,
    /// How long the lane should gather before its next flush.
    pub linger_ms: u32,
    /// How many set and reset operations the cell knows.
    pub operations: u64,
    /// Whether the lead that counted it has an object of its own, although tablets host others.
    pub is_apart: bool,
}

impl Flushed {
    /// A cell's answer right after it has applied a flush, before it decides how long to gather.
    pub fn after(cell: &CellState, outcome: FlushEffect) -> Self {
        Self {
            generation: cell.generation().unwrap_or(0),
            outcome,
            elsewhere: cell.elsewhere_after(&outcome),
            shards: cell.spread(),
            linger_ms: 0,
            operations: cell.grant().map_or(0, |grant| grant.operations),
            is_apart: false,
        }
    }
}

/// Shard → lead: registers a shard and asks whether it may count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The lead.
    pub to: CellAddress,
    /// The shard that asks.
    pub shard: u8,
    /// The time to live of the counter, if it is created.
    pub ttl_if_new: Option<TtlTerms>,
}

/// Shard → lead: its load. The answer is the number of shards over which writes are spread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadReport {
    /// The lead.
    pub to: CellAddress,
    /// Flushes a second.
    pub per_second: u32,
}

/// Lead → shard: stop counting until told otherwise, and hand over your part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// The shard.
    pub to: CellAddress,
    /// The generation.
    pub generation: u64,
}

/// Root → lead → shards: the counter's settings, or the set of datacenters that count it, have changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configure {
    /// The cell.
    pub to: CellAddress,
    /// The grant from now on.
    pub grant: Grant,
}

/// Root → lead: this generation is about to end; count nothing for it without asking again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspend {
    /// The lead.
    pub to: CellAddress,
    /// The generation.
    pub generation: u64,
}

/// Root → lead → shards: this generation has ended; delete it, storage included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Close {
    /// The cell.
    pub to: CellAddress,
    /// The generation that ended.
    pub generation: u64,
}

/// Lead → shard: asks for its part of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The shard.
    pub to: CellAddress,
    /// The question.
    pub question: Question,
}

/// Aggregator or root → lead: asks for the sum of its datacenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SumDatacenter {
    /// The lead.
    pub to: CellAddress,
    /// The question.
    pub question: Question,
    /// Whether the answer says how long each shard took.
    pub explains: bool,
}

impl SumDatacenter {
    /// A question without an explanation.
    pub fn new(to: CellAddress, question: Question) -> Self {
        Self {
            to,
            question,
            explains: false,
        }
    }
}

/// Lead → root: my datacenter has a write of this counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    /// The counter.
    pub counter: CounterId,
    /// The lead's datacenter.
    pub datacenter: Datacenter,
    /// The grant that the lead holds. It is the only copy if the root has lost its row.
    pub holds: Option<Grant>,
    /// The place of the lead that asks; `None` where it does not know.
    pub place: Option<LeadPlace>,
    /// The number of the newest spread for which it is known that the lead is nowhere else.
    pub located_epoch: Option<u32>,
    /// The time to live of the counter, if it is created.
    pub ttl_if_new: Option<TtlTerms>,
}

/// Any → root: asks for the root's row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookUp {
    /// The counter.
    pub counter: CounterId,
}
