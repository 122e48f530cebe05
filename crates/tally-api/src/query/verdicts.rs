//! The time of a report on a policy's checks.

use super::breakdown::BreakdownQuery;
use super::parse::{Query, refuse};
use tally_core::counter::breakdown::covered;
use tally_core::counter::dimensions::DimensionName;
use tally_core::counter::history::Resolution;
use tally_core::counter::merge::Range;
use tally_wire::problem::Problem;

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
        let seconds = window.parse::<i64>().ok();
        let usual = match seconds.unwrap_or(now - since.seconds()) {
            // Minutes of a window that is an hour or less, but never of a day with a name.
            ..=3_600 if seconds.is_some() => Resolution::Minute,
            ..=HOURS_SECONDS_MAX => Resolution::Hour,
            _ => Resolution::Day,
        };
        let step = self.step()?.unwrap_or(usual);
        // The last 60 minutes of an hour, the last 24 hours of a day: the bucket of now is one of them.
        let from = match seconds {
            Some(seconds) => (now - seconds).saturating_add(usual.seconds()).min(now),
            None => since.seconds(),
        };
        Self::range(step, (from, now))
    }

    /// Refuses what is wrong with a parameter of either report, also where only the other one is asked for.
    ///
    /// # Errors
    /// `invalid-query`.
    pub fn verdict_parameters(&self) -> Result<(), Problem> {
        self.step()?;
        self.rows()?;
        self.is_strong()?;
        self.history_format().map(drop)
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
