//! What an entry of the configuration allows.
//!
//! Invariant: a grant covers the ids that begin with its prefix, byte by byte. It covers limits only where the prefix
//! itself begins with `limits/`, or where there is no prefix and a scope is `limits`. So no grant on counters gives
//! access to limits.
//!
//! Public JSON uses the word scope for rights and for limits. The scope of a limit, where it holds, is a
//! [`tally_core::limit::policy::Scope`].

use serde::{Deserialize, Serialize};

use super::caller::shown;
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
    /// Checking and reading limits, and nothing of counters. Without a prefix it covers all limits.
    Limits,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 5] = [
        Self::Read,
        Self::Write,
        Self::Limits,
        Self::Refund,
        Self::Admin,
    ];

    /// The scope as configuration and refusals write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Refund => "refund",
            Self::Admin => "admin",
            Self::Limits => "limits",
        }
    }
}

/// What the scope `write` of a public entry does not include: the entry's `allow` must name it. `write` of a key
/// includes all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// A time given by the caller, `at`, in an increment or a line of `/events`.
    At,
    /// Scores of boards, by which a caller can make any member the first.
    Board,
    /// Decrements.
    Decrement,
    /// Import of HyperLogLog registers, by which a caller can raise an estimate to any number.
    Hll,
    /// `If-Match`, which fixes the home of a counter.
    IfMatch,
    /// `/ingest`, which writes to past times.
    Ingest,
    /// A check of a limit by a policy that the caller sends.
    Policy,
    /// A time to live in a write: it ends a counter that others may count in too.
    Ttl,
}

impl Permission {
    /// All permissions.
    pub const ALL: [Self; 8] = [
        Self::At,
        Self::Board,
        Self::Decrement,
        Self::Hll,
        Self::IfMatch,
        Self::Ingest,
        Self::Policy,
        Self::Ttl,
    ];

    /// The permission as configuration and refusals write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::At => "at",
            Self::Board => "board",
            Self::Decrement => "decrement",
            Self::Hll => "hll",
            Self::IfMatch => "if-match",
            Self::Ingest => "ingest",
            Self::Policy => "policy",
            Self::Ttl => "ttl",
        }
    }
}

/// The bounds of `write` of a public entry.
#[derive(Clone, Debug)]
pub(super) struct PublicWrites {
    /// The most that one write adds, or one check consumes.
    pub(super) delta_max: u64,
    pub(super) allow: Vec<Permission>,
}

impl PublicWrites {
    /// Returns whether all of these are named.
    pub(super) fn allows(&self, needs: &[Permission]) -> bool {
        needs.iter().all(|need| self.allow.contains(need))
    }
}

/// Scopes on the ids that begin with a prefix.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) scopes: Vec<Scope>,
    pub(super) prefix: String,
    /// Present for a public entry only; a key's writes have no such bounds.
    pub(super) public_writes: Option<PublicWrites>,
}

impl Grant {
    pub(super) fn has(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }

    pub(super) fn covers(&self, scope: Scope, target: Target<'_>) -> bool {
        match target {
            Target::Counters(prefix) => prefix.starts_with(&self.prefix) && self.has(scope),
            Target::Limits(right) => self.reaches_limits(right) && self.has_for_limits(scope),
        }
    }

    /// Returns the prefix of the limits that the grant reaches, by their names for access.
    pub(super) fn limits_prefix(&self) -> Option<&str> {
        match self.prefix.as_str() {
            "" => self.scopes.contains(&Scope::Limits).then_some(LIMIT_RIGHTS),
            prefix => prefix.starts_with(LIMIT_RIGHTS).then_some(prefix),
        }
    }

    fn reaches_limits(&self, right: &str) -> bool {
        self.limits_prefix()
            .is_some_and(|prefix| right.starts_with(prefix))
    }

    fn has_for_limits(&self, scope: Scope) -> bool {
        let is_check_or_look = matches!(scope, Scope::Read | Scope::Write);
        self.has(scope) || (is_check_or_look && self.scopes.contains(&Scope::Limits))
    }
}

/// What a caller asks to act on.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    /// The counter of that id, or all counters whose ids begin so.
    Counters(&'a str),
    /// Limits, by their name for access: see [`limit_right`](crate::names::limit_right). No prefix of counter
    /// ids matches it by accident.
    Limits(&'a str),
}

impl Target<'_> {
    pub(super) fn shown(self) -> String {
        let (Self::Counters(text) | Self::Limits(text)) = self;
        shown(text)
    }
}
