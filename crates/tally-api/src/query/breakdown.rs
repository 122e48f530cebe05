//! The dimension and the time of a breakdown.

use super::parse::{Query, refuse};
use tally_core::counter::breakdown::covered;
use tally_core::counter::dimensions::{DIMENSION_VALUE_BYTES_MAX, DimensionName, Dimensions};
use tally_core::counter::history::Resolution;
use tally_core::counter::merge::Range;
use tally_core::sketch::VALUES_MAX;
use tally_wire::messages::ReadParts;
use tally_wire::problem::Problem;

/// The default number of rows of a breakdown.
pub const BREAKDOWN_LIMIT: usize = 20;

/// The parameters of every query of a breakdown.
const PARAMETERS: [&str; 8] = [
    "by",
    "window",
    "from",
    "to",
    "limit",
    "consistency",
    "datacenter",
    "numbers",
];

/// The parameters of a breakdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakdownQuery {
    /// The dimension.
    pub by: DimensionName,
    /// The first and the last second in the answer, widened to whole hours or days; `None` for all time.
    pub window: Option<(i64, i64)>,
    /// The most rows.
    pub limit: usize,
    /// The second of the request, unix time.
    pub now: i64,
}

impl Query {
    /// Reads a query of a breakdown, which may also hold the parameters `extra`.
    ///
    /// # Errors
    /// `invalid-query`.
    pub fn parse_breakdown(text: &str, extra: &[&str]) -> Result<Self, Problem> {
        Self::parse(text, &[&PARAMETERS, extra].concat())
    }

    /// The dimension and the time of the query.
    ///
    /// # Errors
    /// `invalid-query`.
    pub fn breakdown(&self, now: i64) -> Result<BreakdownQuery, Problem> {
        let by = match self.get("by").map(DimensionName::parse) {
            Some(Ok(by)) => by,
            Some(Err(fault)) => return refuse(fault.to_string()),
            None => {
                return refuse(
                    "by is needed: the name of a dimension, such as referrer".to_owned(),
                );
            }
        };
        let limit = self.rows()?;
        let window = self.covered_window(now)?;
        Ok(BreakdownQuery {
            by,
            window,
            limit,
            now,
        })
    }

    /// The value of the dimension whose counters are listed.
    ///
    /// # Errors
    /// `invalid-query` for a text that no write can have.
    pub fn breakdown_value(&self) -> Result<Option<String>, Problem> {
        let Some(value) = self.get("value") else {
            return Ok(None);
        };
        match Dimensions::default().insert("value", value) {
            Ok(()) => Ok(Some(value.to_owned())),
            Err(_) => refuse(format!(
                "value has 1 to {DIMENSION_VALUE_BYTES_MAX} bytes of UTF-8 without control characters"
            )),
        }
    }

    /// The first and the last second of a window, by its name or by `from` and `to`, widened to whole hours or days;
    /// `None` for all time.
    pub(super) fn covered_window(&self, now: i64) -> Result<Option<(i64, i64)>, Problem> {
        let range = (self.unix_seconds("from")?, self.unix_seconds("to")?);
        let (_, since) = self.named_window(now)?;
        Ok(match (since, range) {
            (None, (None, None)) => None,
            (Some(_), (None, None)) => since.map(|since| (since.seconds(), open_end(now))),
            (None, (Some(from), _)) if from > open_end(now) => {
                return refuse("from must not be after now".to_owned());
            }
            (None, (Some(from), to)) if from <= to.unwrap_or(now) => {
                Some(covered((from, to.unwrap_or(now)), now))
            }
            (None, (Some(_), _)) => {
                return refuse("from must not be after to, or now where to is left out".to_owned());
            }
            (None, (None, Some(_))) => return refuse("to needs from".to_owned()),
            (Some(_), _) => return refuse("give window, or from and to, not both".to_owned()),
        })
    }

    /// The most rows of the answer.
    pub fn rows(&self) -> Result<usize, Problem> {
        match self.get("limit").map(str::parse::<usize>) {
            None => Ok(BREAKDOWN_LIMIT),
            Some(Ok(limit)) if (1..=VALUES_MAX).contains(&limit) => Ok(limit),
            Some(_) => refuse(format!("limit must be from 1 to {VALUES_MAX}")),
        }
    }
}

/// The last second of a day that has not begun anywhere. Writes stamped a little ahead of this clock are before it too.
fn open_end(now: i64) -> i64 {
    let day = Resolution::Day.seconds();
    Resolution::Day.start_of(now).saturating_add(2 * day - 1)
}

/// A range without buckets: its answer says since when days are stored.
pub fn kept_only(from: i64) -> Range {
    Range {
        step: Resolution::Day,
        from,
        to: from.saturating_sub(1),
    }
}

impl BreakdownQuery {
    /// Since when data is stored, where that is after the window's beginning.
    pub fn kept_after(&self, kept_from: i64) -> Option<i64> {
        let window = self.window.filter(|(from, _)| kept_from > *from);
        window.map(|_| kept_from)
    }

    /// The question to the cells.
    pub fn wanted(&self) -> ReadParts {
        ReadParts {
            window: self.window,
            history: self.window.map(|(from, _)| kept_only(from)),
            breakdown: Some(self.by),
            totals_only: true,
            ..ReadParts::default()
        }
    }
}
