//! Messages from leads to roots: the changes since the root was last complete, or the parts that its digests show to be
//! missing.
//!
//! Invariant: a [`Delta`] is state. Applying one is a merge, so lost, repeated and reordered deltas are harmless. Marks
//! tell whether the receiver then has *everything* that the sender had: a delta names its base revision, and completes
//! a receiver that has this revision or a later one. Source: Almeida, Shoker and Baquero 2018, "Delta state replicated
//! data types", delta-intervals and the causal delta-merging condition.
//!
//! Numbers are absolute, in varints, not differences from the receiver's. That costs two or three bytes more for a
//! cell. In return any receiver can apply any delta, without the base states of its sender. So several messages may be
//! in flight, each with all that is not confirmed.
//!
//! A sender is a [`Feed`](feed::Feed): a view, and a log of changes by revision. Revisions are in memory and belong to
//! an *incarnation*, a number drawn at random when the feed is made. A receiver whose mark is of another incarnation,
//! or older than the log, gets all cells (they are few) and is asked for the digests of its unique elements. Then only
//! the blocks that differ are sent.
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
use crate::sketch::{Digests, NewItems, PackedSketch, Source};

pub mod feed;
mod log;

/// A revision of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The feed.
    pub incarnation: u64,
    /// The number of its changes.
    pub revision: u64,
}

/// The state of a receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReceiverState {
    /// The state is unknown. The sender sends all cells and, if they are few, all unique elements.
    Unknown,
    /// Everything that the feed had at this mark.
    All(Mark),
    /// Unique elements with these digests. Any cells may be missing.
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

/// The base of a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Basis {
    /// No base is needed: the delta has everything, or all parts that are missing by the receiver's digests.
    Whole,
    /// Everything that the same feed had at this revision.
    Revision(u64),
    /// The delta has all cells, but unique elements may be missing: the receiver should send its digests.
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

/// The changes in a datacenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeltaPart {
    /// The datacenter.
    pub datacenter: Datacenter,
    /// The time and progress of its state.
    pub report: Option<ReportOrder>,
    /// Its cells that changed.
    pub cells: Vec<CellChange>,
}

/// The parts that a receiver lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// The generation of all its content.
    pub generation: u64,
    /// Its base.
    pub basis: Basis,
    /// The mark of a receiver that has the base and applies the delta.
    pub mark: Mark,
    /// Datacenters that changed.
    pub parts: Vec<DeltaPart>,
    /// Unique elements that changed, packed; empty for none.
    pub uniques: Vec<PackedSketch>,
}

impl Delta {
    /// Limits its times to `now_ms`, the receiver's own clock: a lead whose clock is ahead must not seem current after
    /// it has fallen silent.
    pub fn not_after(&mut self, now_ms: i64) {
        for report in self
            .parts
            .iter_mut()
            .filter_map(|part| part.report.as_mut())
        {
            report.as_of_ms = report.as_of_ms.min(now_ms);
        }
    }

    /// The newest write that it reports, unix milliseconds; `None` if it reports none.
    pub fn last_write_ms(&self) -> Option<i64> {
        let reports = self.parts.iter().filter_map(|part| part.report.as_ref());
        reports.map(|report| report.facts.last_write_ms).max()
    }

    /// Whether a receiver with `mark` has everything up to this delta's own mark after applying it.
    fn completes(&self, mark: Option<Mark>) -> bool {
        match self.basis {
            Basis::Whole => true,
            Basis::Revision(revision) => mark.is_some_and(|mark| {
                mark.incarnation == self.mark.incarnation && mark.revision >= revision
            }),
            Basis::Unclear => false,
        }
    }

    /// The mark of a receiver that had `mark` and the base, after applying the delta. Marks of one feed only rise: a
    /// late delta has nothing new.
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

/// The mark up to which a root has each lead's feed.
pub type Marks = BTreeMap<Datacenter, Mark>;

/// The state that a root has received from the leads of a counter.
#[derive(Clone, Debug)]
pub struct ViewReceiver {
    view: View,
    marks: Marks,
    has_news: bool,
}

/// The outcome of a lead's delta.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeltaOutcome {
    /// It was applied, and is durable with the next write of the view and the marks. The answer to the lead is the
    /// root's state now.
    Applied(ReceiverState),
    /// It is of an ended generation; this one lives.
    Outdated(u64),
}

impl ViewReceiver {
    /// Restores a root's state. The view and the marks must have been written in one commit.
    pub fn new(view: View, marks: Marks) -> Self {
        Self {
            view,
            marks,
            has_news: false,
        }
    }

    /// The view.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The marks, to store with the view.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Whether counts or unique elements have changed since the view was made or stored: newer times alone are no news.
    pub fn has_news(&self) -> bool {
        self.has_news
    }

    /// Records that the view was stored with its marks.
    pub fn record_stored(&mut self) {
        self.has_news = false;
    }

    /// Begins a newer generation; an older one changes nothing.
    pub fn begin(&mut self, generation: u64) {
        if self.view.begin(generation) {
            self.marks.clear();
            self.has_news = true;
        }
    }

    /// Applies the delta of a lead, and returns the answer.
    pub fn take(&mut self, from: &Datacenter, delta: &Delta) -> DeltaOutcome {
        let generation = self.view.generation();
        if delta.generation < generation {
            return DeltaOutcome::Outdated(generation);
        }
        self.begin(delta.generation);
        let mark = self.marks.get(from).copied();
        let is_complete = delta.completes(mark);
        // A restored root lacks the base of the delta, so it is not more current than before.
        self.merge(delta, is_complete || delta.basis == Basis::Unclear);
        if is_complete {
            let mark = delta.mark_after(mark);
            self.marks.insert(from.clone(), mark);
            return DeltaOutcome::Applied(ReceiverState::All(mark));
        }
        // The root was restored to an older state of the same feed. The feed's log may reach back to it. If not, the
        // next delta is [`Basis::Unclear`], and digests follow.
        let same_feed = mark.filter(|mark| mark.incarnation == delta.mark.incarnation);
        DeltaOutcome::Applied(match same_feed {
            Some(mark) if delta.basis != Basis::Unclear => ReceiverState::All(mark),
            _ => ReceiverState::digests_of(&self.view),
        })
    }

    /// Merges a delta of this generation. Its times are taken only if it lacks no cell (`has_times`). Otherwise it also
    /// takes no cells of a datacenter without a report: the view has only datacenters with one.
    fn merge(&mut self, delta: &Delta, has_times: bool) {
        for part in &delta.parts {
            let is_known = self.view.report_of(&part.datacenter).is_some();
            if !has_times && !is_known {
                continue;
            }
            self.has_news |= !is_known;
            if let Some(report) = part.report.filter(|_| has_times) {
                self.view.merge_report(&part.datacenter, report);
            }
            for cell in &part.cells {
                let key = (part.datacenter.clone(), cell.shard);
                self.has_news |= self.view.merge_cell(key, delta.totals(cell));
            }
        }
        let news = self.view.uniques_mut().merge_packed(&delta.uniques);
        let is_new = |new_items: &NewItems| match new_items {
            NewItems::Items(items) => !items.is_empty(),
            NewItems::Form => true,
        };
        self.has_news |= news.iter().any(|(_, new_items)| is_new(new_items));
    }
}
