//! The time of a report on a policy's checks.

use super::{BreakdownQuery, Query, refuse};
use crate::problem::Problem;
use tally_core::counter::breakdown::covered;
use tally_core::counter::dimensions::DimensionName;
use tally_core::counter::history::Resolution;
use tally_core::counter::merge::Range;

/// The longest window with points of an hour by default: 8 days.
const HOURS_SECONDS_MAX: i64 = 8 * 86_400;

impl Query {
    /// The range of a policy's history: by the name of a window, or as [`Query::history`].
    ///
    /// # Errors
    /// As [`Query::history`].
    pub fn verdict_history(&self, now: i64) -> Result<Range, Problem> {
        let (window, since) = self.named_window(now)?;
        let (Some(window), Some(since)) = (window, since) else {
            return self.history(now);
        };
        if self.get("from").or(self.get("to")).is_some() {
            return refuse("give window, or from and to, not both".to_owned());
        }
        let usual = match window {
            "3600" => Resolution::Minute,
            _ if now - since.seconds() > HOURS_SECONDS_MAX => Resolution::Day,
            _ => Resolution::Hour,
        };
        let from = match window {
            // The last 60 minutes, and the last 24 hours.
            "3600" => now - 59 * Resolution::Minute.seconds(),
            "86400" => now - 23 * Resolution::Hour.seconds(),
            _ => since.seconds(),
        };
        Self::range(self.step()?.unwrap_or(usual), (from, now))
    }

    /// The query for refused keys: by default those of the last 24 hours.
    ///
    /// # Errors
    /// `invalid-query`.
    pub fn refused_keys(&self, now: i64) -> Result<BreakdownQuery, Problem> {
        let last_day = || covered((now - Resolution::Day.seconds(), now), now);
        Ok(BreakdownQuery {
            by: DimensionName::REFUSED_KEY,
            window: Some(self.covered_window(now)?.unwrap_or_else(last_day)),
            limit: self.rows()?,
            now,
        })
    }
}
