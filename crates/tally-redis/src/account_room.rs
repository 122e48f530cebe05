//! The room for values in the keyspace, by account.
//!
//! Invariants: a row counts for the account of whoever wrote it last. An account has at most its part, and never more
//! than is left for all others. Rows of callers that may write everything are in no part.

use std::collections::BTreeMap;

use tally_core::callers::account::{AccountId, account_max, fits};
use tally_wire::redis::Reply;
use tally_wire::shell_limits::KEYSPACE_BYTES_MAX;

/// What a row uses besides its key and its value, bytes: its place in two indexes, its expiry and its account.
pub const ROW_BYTES: u64 = 64;

/// What a row counts for an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPart {
    /// The account.
    pub account: AccountId,
    /// The size of the row, bytes.
    pub bytes: u64,
}

impl RowPart {
    /// Its stored form.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.account.0.to_le_bytes());
        bytes[8..].copy_from_slice(&self.bytes.to_le_bytes());
        bytes
    }

    /// The part with this stored form.
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (account, bytes) = bytes.split_at_checked(8)?;
        Some(Self {
            account: AccountId(u64::from_le_bytes(account.try_into().ok()?)),
            bytes: u64::from_le_bytes(bytes.try_into().ok()?),
        })
    }
}

/// The sizes of all accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountSizes {
    sizes: BTreeMap<AccountId, u64>,
    all: u64,
}

impl AccountSizes {
    /// The sizes that are stored.
    pub fn of(stored: impl Iterator<Item = (AccountId, u64)>) -> Self {
        let sizes: BTreeMap<_, _> = stored.collect();
        let all = sizes
            .values()
            .fold(0, |all: u64, size| all.saturating_add(*size));
        Self { sizes, all }
    }

    /// Returns whether no account has anything.
    pub fn is_empty(&self) -> bool {
        self.all == 0
    }

    /// Returns whether an account may replace `replaced` bytes of its rows by `bytes`. It may always have less than
    /// before.
    pub fn has_room(&self, account: AccountId, replaced: u64, bytes: u64) -> bool {
        let own = self.sizes.get(&account).copied().unwrap_or(0);
        let after = |size: u64| size.saturating_sub(replaced).saturating_add(bytes);
        bytes <= replaced || fits(after(own), after(self.all), KEYSPACE_BYTES_MAX)
    }

    /// Replaces the part of a row. Returns the new size of each account that changes.
    pub fn replace(&mut self, before: Option<RowPart>, after: Option<RowPart>) -> Vec<AccountId> {
        let mut changed = Vec::new();
        if before == after {
            return changed;
        }
        if let Some(RowPart { account, bytes }) = before {
            let size = self.sizes.entry(account).or_default();
            *size = size.saturating_sub(bytes);
            self.all = self.all.saturating_sub(bytes);
            changed.push(account);
        }
        if let Some(RowPart { account, bytes }) = after {
            let size = self.sizes.entry(account).or_default();
            *size = size.saturating_add(bytes);
            self.all = self.all.saturating_add(bytes);
            changed.push(account);
        }
        changed
    }

    /// The size of an account, bytes.
    pub fn size(&self, account: AccountId) -> u64 {
        self.sizes.get(&account).copied().unwrap_or(0)
    }
}

/// The refusal of a command whose account has no room.
pub fn no_room(account: AccountId) -> Reply {
    Reply::err(format!(
        "account {account} has as many bytes of values as it may have: at most {} of {KEYSPACE_BYTES_MAX}, with all keys of \
         the account, and never more than is left for others; nothing was done, delete keys first",
        account_max(KEYSPACE_BYTES_MAX)
    ))
}
