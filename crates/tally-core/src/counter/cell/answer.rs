//! What a cell has to say to a reader.

use std::collections::BTreeMap;

use super::CellState;
use crate::counter::history::History;
use crate::counter::merge::{CellTotals, Part, Question, Range};
use crate::sketch::Uniques;

impl CellState {
    /// What it has counted; `None` if it counts for no generation.
    pub fn totals(&self) -> Option<CellTotals> {
        Some(CellTotals {
            generation: self.generation()?,
            sequence: self.sequence,
            added: self.added,
            removed: self.removed,
        })
    }

    /// What the cell has to say to a reader; `None` if it counts for no or another generation.
    /// Uniques of a window, samples and breakdowns are not in memory: the shell adds them.
    pub fn answer(&self, question: &Question) -> Option<Part> {
        let totals = self.totals();
        let totals = totals.filter(|own| own.generation == question.generation)?;
        let (counted, kept_from) = match question.history {
            Some(Range { step, from, to }) => (
                self.history.points(step, from, to),
                self.history.kept_from(step),
            ),
            None => (Vec::new(), i64::MIN),
        };
        let uniques = (!question.totals_only).then(|| self.uniques());
        let window = question
            .window
            .map(|(from, to)| self.history.count(from, to));
        // Not `collect`, whose code contains another sort.
        let mut points = BTreeMap::new();
        points.extend(counted);
        Some(Part {
            cells: vec![(0, totals)],
            facts: self.facts,
            uniques: uniques.unwrap_or_default(),
            window: window.unwrap_or_default(),
            points,
            kept_from: Some(kept_from).filter(|from| *from != i64::MIN),
            ..Part::default()
        })
    }

    /// Its buckets.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The sketches that are in memory: of all time without the open minute, and of the open minute.
    pub fn sketches(&self) -> [(&'static str, Option<&Uniques>); 2] {
        let open = self.open_uniques.as_ref().map(|(_, open)| open);
        [("all_time", Some(&self.all_time)), ("open_minute", open)]
    }

    /// The unique elements of all time.
    pub fn uniques(&self) -> Uniques {
        let mut all = self.all_time.clone();
        if let Some((_, open)) = &self.open_uniques {
            all.merge(open);
        }
        all
    }
}
