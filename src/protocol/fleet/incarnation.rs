//! What is kept of each incarnation of an isolate.

use serde::{Deserialize, Serialize};

use super::{Counts, News, Role};

/// What one incarnation has told; or, without a number, what all have told that are forgotten. Stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncarnationCounts {
    /// The number of its last report; 0 for none.
    pub sequence: u64,
    /// What it is for.
    pub role: Option<Role>,
    /// What it counted, by the numbers of the series, in their order.
    pub sums: Vec<(u32, u64)>,
    /// What it said besides.
    pub news: News,
}

/// What becomes of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReportOutcome {
    /// It is counted, now or before.
    Counted,
    /// Nothing is known of reports before it: it is not counted, and must come as the first of another incarnation.
    Forgotten,
    /// There is no room for another incarnation: it is not counted.
    Full,
}

impl IncarnationCounts {
    /// Adds a report, unless it was added before. Returns what became of it, and whether anything has changed.
    pub fn take(&mut self, report: Counts) -> (ReportOutcome, bool) {
        if report.sequence <= self.sequence {
            return (ReportOutcome::Counted, false);
        }
        if report.sequence != self.sequence + 1 {
            return (ReportOutcome::Forgotten, false);
        }
        self.sequence = report.sequence;
        self.role = Some(report.role);
        self.add(&report.rose);
        self.news = report.news;
        (ReportOutcome::Counted, true)
    }

    /// Adds numbers.
    pub fn add(&mut self, rose: &[(u32, u64)]) {
        for (series, amount) in rose {
            match self.sums.binary_search_by_key(series, |(known, _)| *known) {
                Ok(at) => {
                    if let Some((_, sum)) = self.sums.get_mut(at) {
                        *sum = sum.saturating_add(*amount);
                    }
                }
                Err(at) => self.sums.insert(at, (*series, *amount)),
            }
        }
    }
}
