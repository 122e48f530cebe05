//! The measure and the window by which counters are ordered.

use super::{Query, refuse};
use crate::protocol::messages::{By, Since};
use crate::protocol::problem::Problem;

/// The parameters of a top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopQuery {
    /// The measure of the order.
    pub by: By,
    /// The name of the window; `None` for all time.
    pub window: Option<&'static str>,
    /// The beginning of the hours or days that cover the window.
    pub since: Option<Since>,
}

impl Query {
    /// The measure of the order, and the window.
    ///
    /// # Errors
    /// `invalid-query` for unknown words, and for combinations that the directory does not store.
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

    /// The window of that name, and the beginning of the whole hours or days that cover it.
    ///
    /// # Errors
    /// `invalid-query` for unknown names.
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
