//! Which lead counts a key that clients may send from any datacenter.
//!
//! Invariant: a claim moves only away from the lead that holds it, after that lead has struck the key out. Each move
//! has a number. So the root and the leads recognize late copies of messages by their lower numbers.

use serde::{Deserialize, Serialize};

use crate::counter::id::Datacenter;

/// The lead that holds a key. Messages to the lead carry this value, so that it does not mistake a late copy for a
/// claim that has come back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClaimHolder {
    /// Its datacenter.
    pub datacenter: Datacenter,
    /// How often the claim had been moved when it came there.
    pub moves: u32,
}

impl ClaimHolder {
    /// The first holder of a key.
    pub fn first(datacenter: &Datacenter) -> Self {
        Self {
            datacenter: datacenter.clone(),
            moves: 0,
        }
    }

    /// The next holder of a key.
    pub fn next(&self, datacenter: &Datacenter) -> Self {
        Self {
            datacenter: datacenter.clone(),
            moves: self.moves.saturating_add(1),
        }
    }

    /// The next holder of keys without an owner, or of struck-out ones: the home's lead, or the caller's. It may be the
    /// one that has struck them out, if the home has come back since.
    pub fn after(struck_at: Option<&Self>, home: Option<&Datacenter>, caller: &Datacenter) -> Self {
        let datacenter = home.unwrap_or(caller);
        struck_at.map_or_else(|| Self::first(datacenter), |holder| holder.next(datacenter))
    }

    /// Whether this lead has struck the key out, so that the claim moves on. A late copy of that message names an
    /// earlier holder.
    pub fn has_struck(&self, struck_at: Option<&Self>) -> bool {
        struck_at == Some(self)
    }
}
