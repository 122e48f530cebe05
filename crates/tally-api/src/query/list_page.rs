//! A page of a list that is read as a whole: it is bounded, and its parts come in no common order.

use super::parse::{LIST_LIMIT, Query, refuse};
use tally_wire::problem::Problem;

/// A list with opaque cursors. Its cursors begin with its name, so a cursor of another list is refused. Read as a
/// place, it would be the end of this list, and entries would be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagedList {
    /// `GET /alerts`.
    Alerts,
    /// `GET /audit`.
    Audit,
    /// `GET /api/dead-letters`.
    DeadLetters,
    /// `GET /alerts/{alert}/deliveries`.
    Deliveries,
    /// The counters of `POST /repair`.
    Repair,
    /// The counters of `POST /snapshots/{date}/restore`.
    Restore,
    /// `GET /shares`.
    Shares,
    /// `GET /snapshots`.
    Snapshots,
}

impl PagedList {
    fn name(self) -> &'static str {
        match self {
            Self::Alerts => "alerts.",
            Self::Audit => "audit.",
            Self::DeadLetters => "dead-letters.",
            Self::Deliveries => "deliveries.",
            Self::Repair => "repair.",
            Self::Restore => "restore.",
            Self::Shares => "shares.",
            Self::Snapshots => "snapshots.",
        }
    }

    /// The cursor that continues after the entry of this key.
    pub fn cursor(self, key: &str) -> String {
        [self.name(), key].concat()
    }

    /// The key after which the page of a query begins.
    ///
    /// # Errors
    /// `invalid-query` for anything but a cursor of this list.
    pub fn after(self, query: &Query) -> Result<Option<&str>, Problem> {
        let Some(text) = query.get("cursor") else {
            return Ok(None);
        };
        match text.strip_prefix(self.name()) {
            Some(key) if !key.is_empty() => Ok(Some(key)),
            _ => wrong_cursor(),
        }
    }

    /// The counter after which a page begins, of a list of the counters with this prefix; `None` where the text is no
    /// cursor of such a list.
    pub fn after_in(self, cursor: &str, prefix: &str) -> Option<String> {
        let id = cursor.strip_prefix(self.name());
        let id = id.filter(|id| !id.is_empty() && id.starts_with(prefix));
        id.map(str::to_owned)
    }
}

/// Why a cursor is refused.
pub const WRONG_CURSOR: &str = "cursor must be the `cursor` of an answer of this list, unchanged";

/// Refuses a cursor.
///
/// # Errors
/// `invalid-query`.
pub fn wrong_cursor<T>() -> Result<T, Problem> {
    refuse(WRONG_CURSOR.to_owned())
}

/// Which entries of a list are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage {
    list: PagedList,
    after: Option<String>,
    limit: usize,
}

impl ListPage {
    /// The parameters of a page.
    pub const PARAMETERS: [&'static str; 2] = ["cursor", "limit"];

    /// The first page of a list, of the usual length.
    pub fn first(list: PagedList) -> Self {
        Self {
            list,
            after: None,
            limit: usize::try_from(LIST_LIMIT.0).unwrap_or(usize::MAX),
        }
    }

    /// The page that a query asks for.
    ///
    /// # Errors
    /// `invalid-query` for a limit outside 1 to the most, and for a cursor of another list.
    pub fn of(list: PagedList, query: &Query) -> Result<Self, Problem> {
        Ok(Self {
            list,
            after: list.after(query)?.map(str::to_owned),
            limit: usize::try_from(query.limit()?).unwrap_or(usize::MAX),
        })
    }

    /// Reads a query of these parameters alone.
    ///
    /// # Errors
    /// `invalid-query`.
    pub fn parse(list: PagedList, query: &str) -> Result<Self, Problem> {
        Self::of(list, &Query::parse(query, &Self::PARAMETERS)?)
    }

    /// The entries of the page, and its cursor where there are more. Entries come in the order of their keys. A key is
    /// unique and stays, so a page continues after an entry that was deleted since.
    pub fn cut<T>(
        &self,
        entries: impl IntoIterator<Item = T>,
        key: impl Fn(&T) -> String,
    ) -> (Vec<T>, Option<String>) {
        let is_later = |entry: &T| self.after.as_ref().is_none_or(|after| key(entry) > *after);
        let mut rest = entries.into_iter().filter(is_later);
        let page: Vec<T> = rest.by_ref().take(self.limit).collect();
        let last = page.last().filter(|_| rest.next().is_some());
        let cursor = last.map(|entry| self.list.cursor(&key(entry)));
        (page, cursor)
    }
}

/// A key that puts later times first: `time` is a count of milliseconds, seconds or days.
pub fn newest_first(time: i64) -> String {
    format!("{:019}", i64::MAX - time.max(0))
}
