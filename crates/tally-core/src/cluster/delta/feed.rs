//! The sender: a view with a log of its changes, from which it derives what a receiver lacks.

use std::collections::BTreeMap;

use super::log::{Log, ViewPart};
use super::{Basis, CellChange, Delta, DeltaPart, Mark, ReceiverState};
use crate::cluster::view::{ReportOrder, View};
use crate::counter::id::Datacenter;
use crate::counter::merge::CellTotals;
use crate::sketch::{NewItems, Source};

/// The most unique elements that are sent to an unknown receiver without asking for its digests: 128 tokens of 4 bytes
/// are 512 bytes, as large as the digests.
const ITEMS_UNASKED_MAX: usize = 128;

/// A view with a log of its changes.
#[derive(Clone, Debug)]
pub struct Feed {
    view: View,
    incarnation: u64,
    log: Log,
    /// The last revision in which counts changed.
    counted: u64,
}

impl Feed {
    /// A feed of a view of which no receiver has anything. `incarnation` is drawn at random.
    pub fn new(view: View, incarnation: u64) -> Self {
        Self {
            view,
            incarnation,
            log: Log::default(),
            counted: 0,
        }
    }

    /// The view.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The mark of its newest revision.
    pub fn mark(&self) -> Mark {
        Mark {
            incarnation: self.incarnation,
            revision: self.log.revision(),
        }
    }

    fn begin(&mut self, generation: u64) {
        if self.view.begin(generation) {
            self.record(ViewPart::Form);
        }
    }

    fn record(&mut self, changed: ViewPart) {
        let is_counted = !matches!(changed, ViewPart::Report(_));
        self.log.record(changed);
        if is_counted {
            self.counted = self.log.revision();
        }
    }

    /// Merges another view. Cost: as a merge.
    pub fn merge(&mut self, other: &View) {
        if other.generation() < self.view.generation() {
            return;
        }
        self.begin(other.generation());
        for (datacenter, report) in other.datacenters() {
            if self.view.merge_report(datacenter, *report) {
                self.record(ViewPart::Report(datacenter.clone()));
            }
        }
        for (cell, totals) in other.cells().iter() {
            if self.view.merge_cell(cell.clone(), *totals) {
                self.record(ViewPart::Cell(cell.clone()));
            }
        }
        for (source, new_items) in self.view.uniques_mut().merge_new(other.uniques()) {
            match new_items {
                NewItems::Items(items) => {
                    for item in items {
                        self.record(ViewPart::Unique((source, item)));
                    }
                }
                NewItems::Form => self.record(ViewPart::Form),
            }
        }
    }

    /// Whether a receiver lacks counts, by its mark. Only that is worth a message; newer times alone go with the next
    /// one.
    pub fn has_news_for(&self, have: &ReceiverState) -> bool {
        match have {
            ReceiverState::All(mark) => {
                mark.incarnation != self.incarnation
                    || !(self.counted..=self.log.revision()).contains(&mark.revision)
            }
            _ => true,
        }
    }

    /// The delta that a receiver lacks. Cost: O(changes) if the log reaches back to its mark, else a pass over the view
    /// and its unique elements.
    pub fn since(&self, have: &ReceiverState) -> Delta {
        let followed = match have {
            ReceiverState::All(mark) if mark.incarnation == self.incarnation => self
                .log
                .after(mark.revision)
                .map(|changes| (mark.revision, changes)),
            _ => None,
        };
        if let Some((revision, changes)) = followed {
            return self.changes(revision, changes);
        }
        let items = match have {
            ReceiverState::Digests {
                generation,
                digests,
            } if *generation == self.view.generation() => {
                Some(self.view.uniques().items_unlike(digests))
            }
            // A receiver of another generation drops everything, also equal parts.
            ReceiverState::Digests { .. } => Some(self.view.uniques().items()),
            ReceiverState::Unknown | ReceiverState::All(_) => {
                let items = self.view.uniques().items();
                (items.len() <= ITEMS_UNASKED_MAX).then_some(items)
            }
        };
        let basis = match items {
            Some(_) => Basis::Whole,
            None => Basis::Unclear,
        };
        self.delta(basis, self.all_parts(), items.unwrap_or_default())
    }

    fn changes<'a>(&self, revision: u64, changes: impl Iterator<Item = &'a ViewPart>) -> Delta {
        let mut parts: BTreeMap<&Datacenter, DeltaPart> = BTreeMap::new();
        let mut items = Vec::new();
        for changed in changes {
            match changed {
                ViewPart::Report(datacenter) => {
                    let part = parts.entry(datacenter).or_insert_with(|| empty(datacenter));
                    part.report = self.view.report_of(datacenter);
                }
                ViewPart::Cell(cell) => {
                    let part = parts.entry(&cell.0).or_insert_with(|| empty(&cell.0));
                    let totals = self.view.cells().get(cell);
                    part.cells
                        .extend(totals.map(|totals| CellChange::of(cell.1, totals)));
                }
                ViewPart::Unique(item) => items.push(*item),
                // Never in the log: this change clears it.
                ViewPart::Form => {}
            }
        }
        let parts = parts.into_values().collect();
        self.delta(Basis::Revision(revision), parts, items)
    }

    fn all_parts(&self) -> Vec<DeltaPart> {
        let part = |(datacenter, report): (&Datacenter, &ReportOrder)| {
            let cells = self.view.cells().cells_of(datacenter);
            let change = |(shard, totals): (u8, CellTotals)| CellChange::of(shard, &totals);
            DeltaPart {
                datacenter: datacenter.clone(),
                report: Some(*report),
                cells: cells.into_iter().map(change).collect(),
            }
        };
        self.view.datacenters().map(part).collect()
    }

    fn delta(&self, basis: Basis, parts: Vec<DeltaPart>, items: Vec<(Source, u32)>) -> Delta {
        Delta {
            generation: self.view.generation(),
            basis,
            mark: self.mark(),
            parts,
            uniques: self.view.uniques().pack(items),
        }
    }
}

fn empty(datacenter: &Datacenter) -> DeltaPart {
    DeltaPart {
        datacenter: datacenter.clone(),
        report: None,
        cells: Vec::new(),
    }
}
