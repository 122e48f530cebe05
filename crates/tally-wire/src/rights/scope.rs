//! The scopes of keys.
//!
//! Public JSON uses the word scope for rights and for limits. The scope of a limit, where it holds, is a
//! [`tally_core::limit::policy::Scope`].

use serde::{Deserialize, Serialize};

use crate::names::LIMIT_RIGHTS;

/// What a grant allows. Stored: append, never reorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// Reading counters, their history, uniques and listings.
    Read,
    /// Counting. Does not imply [`Scope::Read`]: the key of a beacon need not open the dashboard. The answer to a write
    /// carries the new value all the same.
    Write,
    /// Giving back what a check of a limit has consumed. Whoever may do that can lift the limit.
    Refund,
    /// Settings and deletion. Implies all other scopes.
    Admin,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Refund, Self::Admin];

    /// The scope as configuration and refusals write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Refund => "refund",
            Self::Admin => "admin",
        }
    }

    /// Returns what is wrong with a text that is no scope.
    pub fn why_not(text: &str) -> &'static str {
        match text {
            "limits" => {
                "is no scope, because prefixes say where: send `read` and `write` on the prefix `limits/`"
            }
            _ => "is not a scope",
        }
    }
}

/// What a prefix covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixKind {
    /// Counters and boards, by their ids.
    Counters,
    /// Limits, by their names for access: see [`limit_right`](crate::names::limit_right).
    Limits,
}

impl PrefixKind {
    /// Returns what this prefix covers.
    pub fn of(prefix: &str) -> Self {
        match prefix.starts_with(LIMIT_RIGHTS) {
            true => Self::Limits,
            false => Self::Counters,
        }
    }
}

/// Returns whether all that `inner` covers is covered by `outer`.
pub fn is_within(inner: &str, outer: &str) -> bool {
    inner.starts_with(outer) && PrefixKind::of(inner) == PrefixKind::of(outer)
}
