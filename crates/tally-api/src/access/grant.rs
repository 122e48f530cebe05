//! What an entry of the configuration allows.
//!
//! Invariant: a scope says what a grant allows, and its prefix says where, in one way. A prefix that begins with
//! `limits/` covers the limits whose names for access begin with it, and no counters. Any other prefix covers the
//! counters and boards whose ids begin with it, byte by byte, and no limits. [`PrefixKind`] decides which.
//!
//! Public JSON uses the word scope for rights and for limits. The scope of a limit, where it holds, is a
//! [`tally_core::limit::policy::Scope`].

use tally_wire::rights::{PrefixKind, Scope};

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
            Target::Counters(text) => self.reaches(PrefixKind::Counters, text) && self.has(scope),
            Target::Limits(right) => self.reaches(PrefixKind::Limits, right) && self.has(scope),
        }
    }

    /// Returns its prefix if it is of these.
    pub(super) fn prefix_of(&self, kind: PrefixKind) -> Option<&str> {
        (PrefixKind::of(&self.prefix) == kind).then_some(&self.prefix)
    }

    fn reaches(&self, kind: PrefixKind, text: &str) -> bool {
        self.prefix_of(kind)
            .is_some_and(|prefix| text.starts_with(prefix))
    }
}

/// What a caller asks to act on.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    /// The counter of that id, or all counters whose ids begin so.
    Counters(&'a str),
    /// Limits, by their name for access: see [`limit_right`](tally_wire::names::limit_right).
    Limits(&'a str),
}

impl Target<'_> {
    pub(super) fn shown(self) -> String {
        let (Self::Counters(text) | Self::Limits(text)) = self;
        shown(text)
    }
}

/// How many characters of an id or an origin a refusal repeats.
const SHOWN_CHARACTERS_MAX: usize = 64;

/// Returns the beginning of a caller's text, for a refusal.
pub(super) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
