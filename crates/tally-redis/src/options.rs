//! Options of commands: numbers, words in any case, and expiry times.

use crate::error;
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
