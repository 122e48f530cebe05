//! Which part of a view changed when.
//!
//! Invariant: the log names every change after its `floor`, each changed thing once, under the revision
//! of its last change. It has at most [`ENTRIES_MAX`] entries; letting the oldest go raises the floor.

use std::collections::BTreeMap;

use crate::counter::id::Datacenter;
use crate::counter::merge::CellKey;
use crate::sketch::Source;

/// The most entries: 4,096 of about 100 bytes are 400 KB for a counter under way. Ten writes a second
/// from each of 100 datacenters change 100 cells, their datacenters and, were each a new visitor, 1,000
/// registers in a second: it reaches back 3 s at least, ten round trips round the world.
const ENTRIES_MAX: usize = 4_096;

/// A part of a view.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ViewPart {
    /// A cell's totals.
    Cell(CellKey),
    /// How current a datacenter is.
    Report(Datacenter),
    /// An item of the unique elements, and of which sketch.
    Unique((Source, u32)),
    /// A sketch has another form: items before have no names any more.
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
    /// How many changes there were.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Records a change.
    pub fn record(&mut self, changed: ViewPart) {
        self.revision += 1;
        if changed == ViewPart::Form {
            // Whoever had less lacks items that the log cannot name any more.
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

    /// Drops all entries: nobody can build upon a revision up to this one.
    pub fn forget(&mut self) {
        self.by_revision.clear();
        self.revisions.clear();
        self.floor = self.revision;
    }

    /// What changed after a revision, each thing once; `None` where the log does not reach back so far.
    pub fn after(&self, revision: u64) -> Option<impl Iterator<Item = &ViewPart>> {
        let reaches = (self.floor..=self.revision).contains(&revision);
        reaches.then(|| self.by_revision.range(revision + 1..).map(|(_, what)| what))
    }
}
