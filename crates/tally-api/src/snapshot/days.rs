//! Days in requests.

use tally_logs::time::{TIMES, parse_time};
use tally_wire::problem::{Code, Problem};
use tally_wire::snapshot::{date_of, day_of_ms};

/// The most days of one question. Each day's values are in a file of their own.
const DAYS_MAX: i64 = 100;

/// Reads a day.
///
/// # Errors
/// `invalid-query` for text that is no day.
pub fn parse_date(text: &str) -> Result<i64, Problem> {
    parse_time(text, true).map(day_of_ms).ok_or_else(|| {
        let detail = format!("a day must be {TIMES} within it; {text:?} is none");
        Problem::new(Code::InvalidQuery, detail)
    })
}

/// The days of a request: the first and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Days {
    /// The first.
    pub first: i64,
    /// The last.
    pub last: i64,
    /// Whether both were named.
    pub is_range: bool,
}

impl Days {
    /// Reads `2026-11-01` or `2026-11-01..2026-11-30`; days end with `now_ms`.
    ///
    /// # Errors
    /// `invalid-query` for text that is no day, for future days, and for more than 100 days.
    pub fn parse(text: &str, now_ms: i64) -> Result<Self, Problem> {
        let refuse = |detail: String| Err(Problem::new(Code::InvalidQuery, detail));
        let (first, last, is_range) = match text.split_once("..") {
            Some((first, last)) => (parse_date(first)?, parse_date(last)?, true),
            None => (parse_date(text)?, parse_date(text)?, false),
        };
        let today = day_of_ms(now_ms);
        if last > today {
            let (last, today) = (date_of(last), date_of(today));
            return refuse(format!("{last} is still to come: today is {today} (UTC)"));
        }
        if first > last {
            return refuse("the first day must not be after the last".to_owned());
        }
        if last - first >= DAYS_MAX {
            return refuse(format!("ask for at most {DAYS_MAX} days at once"));
        }
        Ok(Self {
            first,
            last,
            is_range,
        })
    }
}
