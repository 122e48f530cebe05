//! Who has a part of a table, so that nobody takes what others need.
//!
//! Invariants: an owner tells no address, and the owners of policies that are sent along are bounded: one for each
//! key of the configuration, 4,096 for keys that calls have made, 4,096 for addresses. A stored policy is an owner of
//! its own. All policies that callers send along are one, and in that each key of the deployment is one, and all
//! callers without a key are one, and in that each address is one. Open deployments have one caller.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};

/// Owners that addresses are spread over: 12 bits of a hash of 32 or 64 tell no address.
const ADDRESSES: u64 = 4_096;

/// Keys of the deployment are numbered from here.
const FIRST_KEY: u32 = 1 << 16;

/// Keys that calls have made share so many owners, behind the 1,000 at most of the configuration.
const MADE_KEYS: u64 = 4_096;
const FIRST_MADE_KEY: usize = 1_024;

/// Who sends a policy along with a check. Stored, and a part of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner(u32);

impl Owner {
    /// The borrower of the key of the deployment that has this place among all.
    pub fn of_key(place: usize) -> Self {
        Self(FIRST_KEY.saturating_add(u32::try_from(place).unwrap_or(u32::MAX)))
    }

    /// The borrower of a key that was made by a call: one of 4,096 behind those of the configuration, by a hash of
    /// its id.
    pub fn of_made_key(id: u64) -> Self {
        let place = usize::try_from(hash_of(id) % MADE_KEYS).unwrap_or(0);
        Self::of_key(FIRST_MADE_KEY + place)
    }

    /// A caller without a key, by the bytes of the address: of IPv6 its first 64 bits. Without any it is nobody in
    /// particular.
    pub fn of_address(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::default();
        }
        let owner = u32::try_from(hash_of(bytes) % ADDRESSES).unwrap_or(0);
        Self(owner.saturating_add(1))
    }

    /// Nobody in particular where it is the default, as for policies that are stored.
    pub(super) fn number(self) -> u32 {
        self.0
    }

    pub(super) fn of_number(number: u32) -> Self {
        Self(number)
    }
}

/// Keys that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Group {
    /// Those of a stored policy, by the hash of its name.
    Policy(u64),
    /// Those of all policies that callers send along.
    Sent,
    /// Those of them whose callers have no key.
    Visitors,
    /// Those of one caller.
    Owner(Owner),
}

/// The groups of a key, each within the one before. The names of policies that are sent along have a tilde; behind it
/// a capital letter where that was without a key.
pub(super) fn groups(name: &str, owner: Owner) -> impl Iterator<Item = Group> {
    let of_owner = Some(Group::Owner(owner));
    let groups = match name.split_once('~') {
        None => [Some(Group::Policy(hash_of(name))), None, None],
        Some((_, kind)) if kind.starts_with(|letter: char| letter.is_ascii_uppercase()) => {
            // Visitors whose address nobody tells have no group of their own.
            let address = of_owner.filter(|_| owner != Owner::default());
            [Some(Group::Sent), Some(Group::Visitors), address]
        }
        Some(_) => [Some(Group::Sent), of_owner, None],
    };
    groups.into_iter().flatten()
}

pub(super) fn hash_of(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
