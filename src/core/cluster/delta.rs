//! What travels between leads, roots and views: what changed since the receiver was last known to be
//! complete, or what its digests show to be missing.
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
//! lead:  Feed ── since(what the root has) ──► Delta ──► root: Gathering.take ──► Have ──► lead
//! view:  Replica.have ──► Have ──► root: Feed.since ──► Delta ──► view: Replica.apply
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::view::{Heard, View};
use crate::core::counter::id::Datacenter;
use crate::core::counter::merge::CellTotals;
use crate::core::counter::total::CellTotal;
use crate::core::sketch::{Digests, Packed, Source};

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
pub enum Have {
    /// The sender does not know. It sends all cells and, where they are few, all unique elements.
    Unknown,
    /// Nothing: it needs the whole.
    Nothing,
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

impl Have {
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
pub struct Part {
    /// The datacenter.
    pub datacenter: Datacenter,
    /// How current it is.
    pub heard: Option<Heard>,
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
    pub parts: Vec<Part>,
    /// Unique elements that changed, packed; empty for none.
    pub uniques: Vec<Packed>,
}

impl Delta {
    /// Whether it tells nothing but its mark.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.uniques.is_empty()
    }

    /// Takes back what it says of times after `now_ms`, the receiver's own clock: a lead whose clock is ahead must
    /// not seem current once it has fallen silent.
    pub fn not_after(&mut self, now_ms: i64) {
        for heard in self.parts.iter_mut().filter_map(|part| part.heard.as_mut()) {
            heard.as_of_ms = heard.as_of_ms.min(now_ms);
        }
    }

    /// Its cells and elements alone, for a receiver that lacks others. Of a datacenter that it has not heard of it takes no cell:
    /// a view tells of those alone that it has heard of.
    fn without_times(&self, receiver: &View) -> Self {
        let mut known = self.clone();
        let is_heard = |part: &Part| receiver.heard_of(&part.datacenter).is_some();
        known.parts.retain(is_heard);
        for part in &mut known.parts {
            part.heard = None;
        }
        known
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

/// What applying a delta has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Whether anything was counted that was not known. That a datacenter has counted nothing more until
    /// some later moment is no news.
    pub news: bool,
    /// Whether the receiver has all that the sender had.
    pub is_complete: bool,
}

/// A view that follows one feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replica {
    view: View,
    mark: Option<Mark>,
    /// Whether digests must tell what is missing.
    is_unclear: bool,
}

impl Replica {
    /// What is known.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// What to tell the feed that one has. Cost: constant, and a pass over the unique elements only
    /// where digests are needed.
    pub fn have(&self) -> Have {
        match self.mark {
            _ if self.is_unclear => Have::digests_of(&self.view),
            Some(mark) => Have::All(mark),
            None => Have::Nothing,
        }
    }

    /// Takes a delta. One of an older generation changes nothing.
    pub fn apply(&mut self, delta: &Delta) -> Applied {
        if delta.generation < self.view.generation() {
            return Applied {
                news: false,
                is_complete: false,
            };
        }
        if delta.generation > self.view.generation() {
            self.mark = None;
            self.is_unclear = false;
        }
        // The log of what changed has no reader here.
        let news = feed::take(&mut self.view, delta, &mut |_| ()).is_news;
        let is_complete = delta.completes(self.mark);
        if is_complete {
            self.mark = Some(delta.mark_after(self.mark));
            self.is_unclear = false;
        } else if delta.basis == Basis::Unclear {
            self.is_unclear = true;
        }
        Applied { news, is_complete }
    }
}

/// What a root has of each lead's feed: everything up to a mark.
pub type Marks = BTreeMap<Datacenter, Mark>;

/// What a root has gathered from the leads of a counter, and hands on to views.
#[derive(Clone, Debug)]
pub struct Gathering {
    feed: Feed,
    marks: Marks,
}

/// What became of a lead's delta.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is taken over, durable with the next write of the view and the marks. The lead is told
    /// what the root has now.
    Over(Have, Applied),
    /// It is of a generation that has ended; this one lives.
    Outdated(u64),
}

impl Gathering {
    /// A root's memory, from what it had stored; `incarnation` is drawn at random. The view and the
    /// marks must have been written in one commit.
    pub fn new(view: View, marks: Marks, incarnation: u64) -> Self {
        Self {
            feed: Feed::new(view, incarnation),
            marks,
        }
    }

    /// What views follow.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// What to store beside the view.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Goes over to a newer generation; an older one changes nothing.
    pub fn begin(&mut self, generation: u64) {
        if self.feed.begin(generation) {
            self.marks.clear();
        }
    }

    /// Takes over what a lead has sent, and says what to answer.
    pub fn take(&mut self, from: &Datacenter, delta: &Delta) -> Taken {
        let generation = self.feed.view().generation();
        if delta.generation < generation {
            return Taken::Outdated(generation);
        }
        self.begin(delta.generation);
        let mark = self.marks.get(from).copied();
        let is_complete = delta.completes(mark);
        // A root that was restored lacks what the delta builds upon, so it is no more current than it was.
        let lacks_cells = !is_complete && delta.basis != Basis::Unclear;
        let news = match lacks_cells {
            true => self.feed.take(&delta.without_times(self.feed.view())),
            false => self.feed.take(delta),
        };
        let applied = Applied { news, is_complete };
        if is_complete {
            let mark = delta.mark_after(mark);
            self.marks.insert(from.clone(), mark);
            return Taken::Over(Have::All(mark), applied);
        }
        // An older state of the same feed was restored: its log may reach back there. If not, its next
        // delta is unclear, and digests follow.
        let same_feed = mark.filter(|mark| mark.incarnation == delta.mark.incarnation);
        let have = match same_feed {
            Some(mark) if delta.basis != Basis::Unclear => Have::All(mark),
            _ => Have::digests_of(self.feed.view()),
        };
        Taken::Over(have, applied)
    }
}
