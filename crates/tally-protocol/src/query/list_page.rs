//! A page of a list that is read as a whole: it is bounded, and its parts come in no common order.

use super::{LIST_LIMIT, Query};
use crate::problem::Problem;

/// Which entries of a list are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage {
    after: Option<String>,
    limit: usize,
}

impl Default for ListPage {
    fn default() -> Self {
        Self {
            after: None,
            limit: usize::try_from(LIST_LIMIT.0).unwrap_or(usize::MAX),
        }
    }
}

impl ListPage {
    /// The parameters of a page.
    pub const PARAMETERS: [&'static str; 2] = ["cursor", "limit"];

    /// The page that a query asks for.
    ///
    /// # Errors
    /// `invalid-query` for a limit outside 1 to the most.
    pub fn of(query: &Query) -> Result<Self, Problem> {
        Ok(Self {
            after: query.get("cursor").map(str::to_owned),
            limit: usize::try_from(query.limit()?).unwrap_or(usize::MAX),
        })
    }

    /// Reads a query of these parameters alone.
    ///
    /// # Errors
    /// `invalid-query`.
    pub fn parse(query: &str) -> Result<Self, Problem> {
        Self::of(&Query::parse(query, &Self::PARAMETERS)?)
    }

    /// The entries of the page, and its cursor where there are more. Entries come in the order of their keys. A key is
    /// unique and stays, so a page goes on behind an entry that was deleted since.
    pub fn cut<T>(
        &self,
        entries: impl IntoIterator<Item = T>,
        key: impl Fn(&T) -> String,
    ) -> (Vec<T>, Option<String>) {
        let is_later = |entry: &T| self.after.as_ref().is_none_or(|after| key(entry) > *after);
        let mut rest = entries.into_iter().filter(is_later);
        let page: Vec<T> = rest.by_ref().take(self.limit).collect();
        let cursor = page.last().filter(|_| rest.next().is_some()).map(&key);
        (page, cursor)
    }
}

/// A key that puts later times first: `time` is a count of milliseconds, seconds or days.
pub fn newest_first(time: i64) -> String {
    format!("{:019}", i64::MAX - time.max(0))
}
