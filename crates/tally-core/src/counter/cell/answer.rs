//! What a cell has to say to a reader.

use super::Cell;
use crate::counter::merge::{CellTotals, Part, Question, Range};
use crate::sketch::Uniques;

impl Cell {
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
    /// Uniques of a window are not in memory: the shell adds them.
    pub fn answer(&self, question: &Question) -> Option<Part> {
        let totals = self.totals();
        let totals = totals.filter(|own| own.generation == question.generation)?;
        let (points, kept_from) = match question.history {
            Some(Range { step, from, to }) => (
                self.history.points(step, from, to),
                self.history.kept_from(step),
            ),
            None => (Vec::new(), i64::MIN),
        };
        let uniques = (!question.totals_only).then(|| self.uniques());
        Some(Part {
            totals,
            last_write_ms: self.last_write_ms,
            uniques: uniques.unwrap_or_default(),
            window: question
                .window
                .map(|(from, to)| self.history.count(from, to)),
            points,
            kept_from,
        })
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
