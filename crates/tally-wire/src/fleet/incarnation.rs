//! The stored counts of each incarnation of an isolate.

use serde::{Deserialize, Serialize};

use super::report::{Counts, ReportExtras, Role};

/// The counts of one incarnation. Without a number, the sum of all incarnations that were folded. Stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncarnationCounts {
    /// The number of its last report; 0 for none.
    pub sequence: u64,
    /// Its role.
    pub role: Option<Role>,
    /// Its counts, by the numbers of the series, in their order.
    pub sums: Vec<(u32, u64)>,
    /// Its other current values.
    pub news: ReportExtras,
}

/// The result of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReportOutcome {
    /// It is counted, now or before.
    Counted,
    /// It is not counted, because the reports before it are not known. It must come again as the first of another
    /// incarnation.
    Forgotten,
    /// There is no room for another incarnation: it is not counted.
    Full,
}

impl IncarnationCounts {
    /// Adds a report, unless it was added before. Returns the result, and whether anything has changed.
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
