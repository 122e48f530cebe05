//! How a bundle of rows moves from the place that has it to the place where it belongs. Pure: a shell for each kind of
//! bundle reads notes, sends messages and writes rows, and this module decides.
//!
//! Invariant: a bundle is used at one place. The [`giver`] seals it durably before it gives any row. The [`taker`]
//! uses the rows only with the last page, in the transaction that also stores the debt to the giver, and it pays the
//! debt before it gives the bundle on. The giver deletes its copy only then. After a place has answered that it has
//! nothing, no search that it began earlier stores anything. A sealed bundle is given to a second place only with the
//! proof that the first one has nothing.
//!
//! Life: the place where a bundle belongs searches the places where it was before ([`taker::Taker`]). Each of them
//! answers by what it has ([`giver::asked`]): nothing, rows, or the name of the place that got the rows. If no place
//! has the bundle, it begins here, or a copy that was sealed here counts again ([`Holding::if_nowhere`]). A [`sweep`]
//! has bundles moved that no call needs. Boards copy members while they are in use ([`copies`]).
//!
//! `tests/laws/handover.rs` goes through all interleavings of this code.

use serde::{Deserialize, Serialize};

pub mod copies;
pub mod giver;
pub mod sweep;
pub mod taker;

/// A bundle that is sealed for another place. No call has an effect on its rows any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sealed<P, V> {
    /// The place that takes it.
    pub to: P,
    /// The layout by which it belongs there; `None` where the place stores the layout that it knows, and answers no
    /// older request.
    pub version: Option<V>,
    /// Identifies the transfer.
    pub seal: u64,
}

/// A bundle that was taken, until the former place has deleted its copy. Stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Debt<P> {
    /// The former place.
    pub from: P,
    /// Identifies the transfer.
    pub seal: u64,
}

/// What a place has of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holding<P, V> {
    /// No rows, or rows that are arriving.
    Nothing,
    /// Rows that are in use.
    Here {
        /// The layout by which it came here; `None` where that is not stored, or where it never moved.
        since: Option<V>,
    },
    /// Rows that are not in use any more.
    Sealed(Sealed<P, V>),
}

/// What becomes of a bundle that no other place has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfNowhere {
    /// It may begin here.
    Begins,
    /// The rows that were sealed here are in use again.
    Returns {
        /// The seal that ends.
        seal: u64,
    },
    /// Nothing: what this place has, has changed since the search began.
    Stays,
}

impl<P: Copy, V: Copy + Ord> Holding<P, V> {
    /// What becomes of the bundle, if the search by this layout found it at no other place.
    pub fn if_nowhere(&self, version: V) -> IfNowhere {
        match self {
            Self::Nothing => IfNowhere::Begins,
            Self::Sealed(sealed) if sealed.version.is_none_or(|sealed| sealed < version) => {
                IfNowhere::Returns { seal: sealed.seal }
            }
            Self::Sealed(_) | Self::Here { .. } => IfNowhere::Stays,
        }
    }

    /// Whether the message that a transfer is stored at its new place makes this place delete its copy.
    pub fn may_delete(&self, seal: u64) -> bool {
        matches!(self, Self::Sealed(sealed) if sealed.seal == seal)
    }
}
