//! Options of commands: numbers, words in any case, expiry times, and the options of `SCAN` and `ZSCAN`.

use crate::error;
use crate::glob::{Pattern, StepsLeft};
use crate::space::whole;
use tally_wire::redis::Reply;

/// A whole number.
///
/// # Errors
/// `value is not an integer or out of range`.
pub fn number(text: &str) -> Result<i64, Reply> {
    whole(text).ok_or_else(error::not_whole)
}

/// The unit of an expiry time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// In so many seconds from now.
    Seconds,
    /// In so many milliseconds from now.
    Milliseconds,
    /// At a unix second.
    AtSeconds,
    /// At a unix millisecond.
    AtMilliseconds,
}

impl Unit {
    /// The option of `SET` and `GETEX` of that name.
    pub fn parse(option: &str) -> Option<Self> {
        let units = [
            ("EX", Self::Seconds),
            ("PX", Self::Milliseconds),
            ("EXAT", Self::AtSeconds),
            ("PXAT", Self::AtMilliseconds),
        ];
        let found = units
            .into_iter()
            .find(|(name, _)| option.eq_ignore_ascii_case(name));
        found.map(|(_, unit)| unit)
    }

    /// The moment, unix milliseconds; `None` for one out of range.
    pub fn moment(self, amount: i64, now_ms: i64) -> Option<i64> {
        let milliseconds = match self {
            Self::Seconds | Self::AtSeconds => amount.checked_mul(1_000)?,
            Self::Milliseconds | Self::AtMilliseconds => amount,
        };
        match self {
            Self::Seconds | Self::Milliseconds => now_ms.checked_add(milliseconds),
            Self::AtSeconds | Self::AtMilliseconds => Some(milliseconds),
        }
    }

    /// The moment that an option of `command` names: it must be after zero.
    ///
    /// # Errors
    /// `not an integer`, `invalid expire time`.
    pub fn end(self, amount: &str, now_ms: i64, command: &str) -> Result<i64, Reply> {
        let amount = number(amount)?;
        let moment = self.moment(amount, now_ms).filter(|_| amount > 0);
        moment.ok_or_else(|| error::expire_time(command))
    }
}

/// The fewest keys or members of one page: used if `COUNT` is smaller.
pub const SCAN_COUNT_MIN: usize = 1_000;

/// The options of a page of names.
pub struct ScanOptions<'a> {
    /// Which names.
    pub pattern: Pattern<'a>,
    /// The most names of the page.
    pub count: usize,
    /// The type of the keys; `None` for all.
    pub of_type: Option<String>,
    /// Whether the reply names the type of each key.
    pub with_type: bool,
}

impl<'a> ScanOptions<'a> {
    /// Reads the words after the cursor. Only keys have types.
    ///
    /// # Errors
    /// `syntax error`, `value is not an integer or out of range`.
    pub fn parse(
        words: &'a [String],
        steps: &StepsLeft,
        (are_keys, count_max): (bool, usize),
    ) -> Result<Self, Reply> {
        let mut scan = Self {
            pattern: Pattern::parse("*", steps)?,
            count: SCAN_COUNT_MIN,
            of_type: None,
            with_type: false,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let name = word.to_ascii_uppercase();
            if name == "WITHTYPE" && are_keys {
                scan.with_type = true;
                continue;
            }
            let value = words.next().ok_or_else(error::syntax)?;
            match name.as_str() {
                "MATCH" => scan.pattern = Pattern::parse(value, steps)?,
                "COUNT" => {
                    let count = number(value)?;
                    if count < 1 {
                        return Err(error::syntax());
                    }
                    let count = usize::try_from(count).unwrap_or(count_max);
                    scan.count = count.clamp(SCAN_COUNT_MIN, count_max);
                }
                "TYPE" if are_keys => scan.of_type = Some(value.to_ascii_lowercase()),
                _ => return Err(error::syntax()),
            }
        }
        Ok(scan)
    }
}
