//! Accounts of narrow writers, and the room of each in a table that writers fill.
//!
//! A *narrow* writer is a key that does not write everything. Keys of one account fill one part.

use core::fmt;

use serde::{Deserialize, Serialize};

/// The parts of a table. One account fills one at most.
pub const ACCOUNT_PARTS: u64 = 10;

/// The account of a narrow writer. The default, 0, is no account: the writer may write everything, or has no key.
/// Stored, and a part of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AccountId(pub u64);

impl AccountId {
    /// The account with this name: the id of a key, or `configured-` and a digest. Its first 16 hexadecimal digits are
    /// the number.
    pub fn of_name(name: &str) -> Self {
        let digits = name.rsplit('-').next().and_then(|digits| digits.get(..16));
        let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        Self(number.unwrap_or(0))
    }

    /// Returns whether it is one.
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

/// The most that one account has in a table of this size: a tenth.
pub const fn account_max(size_max: u64) -> u64 {
    size_max / ACCOUNT_PARTS
}

/// Returns whether an account may have `own` of `all` in a table of this size: no more than its part, and no more than
/// is then left for all other accounts. So an account that fills what it may is refused, and no other is. A tenth is
/// left for writers that are not narrow.
pub const fn fits(own: u64, all: u64, size_max: u64) -> bool {
    let left = (size_max - account_max(size_max)).saturating_sub(all);
    own <= account_max(size_max) && own <= left
}
