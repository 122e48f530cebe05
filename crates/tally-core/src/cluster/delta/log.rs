//! The revisions in which parts of a view changed.
//!
//! Invariant: the log has every part that changed after its `floor`, once, under the revision of its last change. It
//! has at most [`ENTRIES_MAX`] entries; removing the oldest raises the floor.

use std::collections::BTreeMap;

use crate::counter::id::Datacenter;
use crate::counter::merge::CellKey;
use crate::sketch::Source;

/// The most entries: 4,096 of about 100 bytes are 400 KB for a busy counter. Ten writes a second from each of 100
/// datacenters change 100 cells, their datacenters and, if each is a new visitor, 1,000 registers in a second. So the
/// log reaches back at least 3 s, ten round trips around the world.
const ENTRIES_MAX: usize = 4_096;

/// A part of a view.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ViewPart {
    /// A cell's totals.
    Cell(CellKey),
    /// The report of a datacenter.
    Report(Datacenter),
    /// An item of the unique elements, with its sketch.
    Unique((Source, u32)),
    /// A sketch has changed its form: former items cannot be named any more.
    Form,
}

/// The log of a feed.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    by_revision: BTreeMap<u64, ViewPart>,
    revisions: BTreeMap<ViewPart, u64>,
    floor: u64,
    revision: u64,
}

impl Log {
    /// The number of changes.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Records a change.
    pub fn record(&mut self, changed: ViewPart) {
        self.revision += 1;
        if changed == ViewPart::Form {
            // Receivers of earlier revisions lack items that the log cannot name any more.
            self.forget();
            return;
        }
        if let Some(before) = self.revisions.insert(changed.clone(), self.revision) {
            self.by_revision.remove(&before);
        }
        self.by_revision.insert(self.revision, changed);
        if self.by_revision.len() > ENTRIES_MAX
            && let Some((oldest, changed)) = self.by_revision.pop_first()
        {
            self.revisions.remove(&changed);
            self.floor = oldest;
        }
    }

    /// Drops all entries: no delta can have a base before this revision.
    pub fn forget(&mut self) {
        self.by_revision.clear();
        self.revisions.clear();
        self.floor = self.revision;
    }

    /// The parts that changed after a revision, each once; `None` if the log does not reach back that far.
    pub fn after(&self, revision: u64) -> Option<impl Iterator<Item = &ViewPart>> {
        let reaches = (self.floor..=self.revision).contains(&revision);
        reaches.then(|| self.by_revision.range(revision + 1..).map(|(_, what)| what))
    }
}
