//! What travels from leads to roots: what changed since the root was last known to be complete, or what its digests
//! show to be missing.
//!
//! Invariant: a [`Delta`] is state. Applying one is a merge, so it never does harm, whatever was lost,
//! repeated or reordered before. Whether the receiver now has *everything* that the sender had is
//! another question, and it is answered by marks: a delta names the revision that it builds upon, and
//! completes a receiver that has that revision or a later one.
//! Source: Almeida, Shoker and Baquero 2018, "Delta state replicated data types", delta-intervals and
//! the causal delta-merging condition.
//!
//! Numbers are absolute, in varints, not differences from what the receiver has: two or three bytes
//! more for a cell, and then any receiver can apply any delta, with no memory of states that its sender
//! once took as a base. Several messages in flight, each with all that is not confirmed, need nothing
//! else to be harmless.
//!
//! A sender is a [`Feed`]: a view, and a log of what changed by revision. Revisions live in memory and
//! belong to an *incarnation*, a number drawn at random when the feed is made. A receiver whose
//! mark is of another incarnation, or older than the log, is sent all cells (they are few) and asked for
//! the digests of its unique elements, so that only blocks that differ follow.
//!
//! ```text
//! lead: Feed ── since(what the root has) ──► Delta ──► root: ViewReceiver::take ──► ReceiverState ──► lead
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::view::{ReportOrder, View};
use crate::counter::id::Datacenter;
use crate::counter::merge::CellTotals;
use crate::counter::total::CellTotal;
use crate::sketch::{Digests, PackedSketch, Source};

mod feed;
mod log;

pub use feed::Feed;

/// A revision of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Which feed.
    pub incarnation: u64,
    /// How many changes it had seen.
    pub revision: u64,
}

/// What a receiver has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReceiverState {
    /// The sender does not know. It sends all cells and, where they are few, all unique elements.
    Unknown,
    /// All that the feed had at this mark.
    All(Mark),
    /// Unique elements with these digests; of cells it may lack any.
    Digests {
        /// The generation that they belong to.
        generation: u64,
        /// A digest of each block of each sketch.
        digests: Vec<(Source, Digests)>,
    },
}

impl ReceiverState {
    fn digests_of(view: &View) -> Self {
        Self::Digests {
            generation: view.generation(),
            digests: view.uniques().digests(),
        }
    }
}

/// Upon what a delta builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Basis {
    /// Nothing else is needed: it holds the whole, or all that lacked by the receiver's own digests.
    Whole,
    /// All that the same feed had at this revision.
    Revision(u64),
    /// All cells are in it, unique elements may be missing: the receiver should send its digests.
    Unclear,
}

/// A cell's totals; their generation is the delta's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellChange {
    /// The shard.
    pub shard: u8,
    /// Flushes that it had counted.
    pub sequence: u64,
    /// Sum of increments.
    pub added: CellTotal,
    /// Sum of decrements.
    pub removed: CellTotal,
}

impl CellChange {
    fn of(shard: u8, totals: &CellTotals) -> Self {
        Self {
            shard,
            sequence: totals.sequence,
            added: totals.added,
            removed: totals.removed,
        }
    }
}

/// What changed in a datacenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeltaPart {
    /// The datacenter.
    pub datacenter: Datacenter,
    /// How current it is.
    pub report: Option<ReportOrder>,
    /// Its cells that changed.
    pub cells: Vec<CellChange>,
}

/// What a receiver lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// The generation that all of it belongs to.
    pub generation: u64,
    /// Upon what it builds.
    pub basis: Basis,
    /// What a receiver has that meets the basis and applies it.
    pub mark: Mark,
    /// Datacenters that changed.
    pub parts: Vec<DeltaPart>,
    /// Unique elements that changed, packed; empty for none.
    pub uniques: Vec<PackedSketch>,
}

impl Delta {
    /// Takes back what it says of times after `now_ms`, the receiver's own clock: a lead whose clock is ahead must
    /// not seem current once it has fallen silent.
    pub fn not_after(&mut self, now_ms: i64) {
        for report in self
            .parts
            .iter_mut()
            .filter_map(|part| part.report.as_mut())
        {
            report.as_of_ms = report.as_of_ms.min(now_ms);
        }
    }

    /// The newest write that it reports, unix milliseconds; `None` where it reports none.
    pub fn last_write_ms(&self) -> Option<i64> {
        let reports = self.parts.iter().filter_map(|part| part.report.as_ref());
        reports.map(|report| report.last_write_ms).max()
    }

    /// Whether a receiver that holds `mark` has everything up to this delta's own mark once it has
    /// applied it.
    fn completes(&self, mark: Option<Mark>) -> bool {
        match self.basis {
            Basis::Whole => true,
            Basis::Revision(revision) => mark.is_some_and(|mark| {
                mark.incarnation == self.mark.incarnation && mark.revision >= revision
            }),
            Basis::Unclear => false,
        }
    }

    /// The mark of a receiver that held `mark`, had met the basis, and applied it. Marks of one feed
    /// only rise: a delta that was late says nothing new.
    fn mark_after(&self, mark: Option<Mark>) -> Mark {
        match mark {
            Some(held)
                if held.incarnation == self.mark.incarnation
                    && held.revision > self.mark.revision =>
            {
                held
            }
            _ => self.mark,
        }
    }

    fn totals(&self, cell: &CellChange) -> CellTotals {
        CellTotals {
            generation: self.generation,
            sequence: cell.sequence,
            added: cell.added,
            removed: cell.removed,
        }
    }
}

/// What a root has of each lead's feed: everything up to a mark.
pub type Marks = BTreeMap<Datacenter, Mark>;

/// What a root has gathered from the leads of a counter.
#[derive(Clone, Debug)]
pub struct ViewReceiver {
    view: View,
    marks: Marks,
}

/// What became of a lead's delta.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeltaOutcome {
    /// It is taken over, durable with the next write of the view and the marks. The lead is answered
    /// what the root has now.
    Over(ReceiverState),
    /// It is of a generation that has ended; this one lives.
    Outdated(u64),
}

impl ViewReceiver {
    /// A root's memory, from what it had stored. The view and the marks must have been written in one commit.
    pub fn new(view: View, marks: Marks) -> Self {
        Self { view, marks }
    }

    /// What is known.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// What to store beside the view.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Goes over to a newer generation; an older one changes nothing.
    pub fn begin(&mut self, generation: u64) {
        if self.view.begin(generation) {
            self.marks.clear();
        }
    }

    /// Takes over what a lead has sent, and says what to answer.
    pub fn take(&mut self, from: &Datacenter, delta: &Delta) -> DeltaOutcome {
        let generation = self.view.generation();
        if delta.generation < generation {
            return DeltaOutcome::Outdated(generation);
        }
        self.begin(delta.generation);
        let mark = self.marks.get(from).copied();
        let is_complete = delta.completes(mark);
        // A root that was restored lacks what the delta builds upon, so it is no more current than it was.
        self.merge(delta, is_complete || delta.basis == Basis::Unclear);
        if is_complete {
            let mark = delta.mark_after(mark);
            self.marks.insert(from.clone(), mark);
            return DeltaOutcome::Over(ReceiverState::All(mark));
        }
        // An older state of the same feed was restored: its log may reach back there. If not, its next
        // delta is unclear, and digests follow.
        let same_feed = mark.filter(|mark| mark.incarnation == delta.mark.incarnation);
        DeltaOutcome::Over(match same_feed {
            Some(mark) if delta.basis != Basis::Unclear => ReceiverState::All(mark),
            _ => ReceiverState::digests_of(&self.view),
        })
    }

    /// Takes over what a delta of this generation knows better; its times only from one that leaves no cell out. Of
    /// another it takes no cell of a datacenter that has not reported: the view holds only those that have.
    fn merge(&mut self, delta: &Delta, has_times: bool) {
        for part in &delta.parts {
            if !has_times && self.view.report_of(&part.datacenter).is_none() {
                continue;
            }
            if let Some(report) = part.report.filter(|_| has_times) {
                self.view.merge_report(&part.datacenter, report);
            }
            for cell in &part.cells {
                let key = (part.datacenter.clone(), cell.shard);
                self.view.merge_cell(key, delta.totals(cell));
            }
        }
        self.view.uniques_mut().merge_packed(&delta.uniques);
    }
}
