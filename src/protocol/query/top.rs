//! By what, and since when, counters stand in order.

use super::{Query, refuse};
use crate::protocol::messages::{By, Since};
use crate::protocol::problem::Problem;

/// What a top was asked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopQuery {
    /// By what counters stand in order.
    pub by: By,
    /// The window, as it is asked for; `None` for all time.
    pub window: Option<&'static str>,
    /// Since when what was counted counts, so that the window is covered.
    pub since: Option<Since>,
}

impl Query {
    /// By what counters stand in order, and since when it counts.
    ///
    /// # Errors
    /// `invalid-query` for other words than are known, and for what the directory is not told.
    pub fn top(&self, now: i64) -> Result<TopQuery, Problem> {
        let (window, since) = self.named_window(now)?;
        let by = match (self.get("by"), window) {
            (Some("count"), _) | (None, Some(_)) => By::Count,
            (Some("value") | None, None) => By::Value,
            (Some("uniques"), None) => By::Uniques,
            (Some("value"), Some(_)) => {
                return refuse(
                    "a value is of now; ask by=count for what was counted in a window".to_owned(),
                );
            }
            (Some("uniques"), Some(_)) => {
                return refuse(
                    "by=uniques knows all time only; leave window out, or read a counter's own uniques of a window"
                        .to_owned(),
                );
            }
            (Some(_), _) => return refuse("by can only be value, count or uniques".to_owned()),
        };
        Ok(TopQuery { by, window, since })
    }

    /// The window that was asked for by its name, and since when what was counted is in it: whole hours or days, so that it is covered.
    ///
    /// # Errors
    /// `invalid-query` for other names than are known.
    pub(super) fn named_window(
        &self,
        now: i64,
    ) -> Result<(Option<&'static str>, Option<Since>), Problem> {
        let (hour, day) = (now.div_euclid(3_600), now.div_euclid(86_400));
        Ok(match self.get("window") {
            None => (None, None),
            Some("3600") => (Some("3600"), Some(Since::Hour(hour - 1))),
            Some("86400") => (Some("86400"), Some(Since::Hour(hour - 24))),
            Some("today") => (Some("today"), Some(Since::Day(day))),
            Some("7d") => (Some("7d"), Some(Since::Day(day - 6))),
            Some("30d") => (Some("30d"), Some(Since::Day(day - 29))),
            Some(_) => {
                return refuse(
                    "window can only be 3600, 86400, today, 7d or 30d; leave it out for all time"
                        .to_owned(),
                );
            }
        })
    }
}
