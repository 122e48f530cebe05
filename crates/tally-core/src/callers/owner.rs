//! Who has a part of a limiter's table, so that nobody takes what others need.
//!
//! Invariants: an owner reveals no address. The owners of policies that are sent along are bounded: one for each key
//! of the configuration, 4,096 for keys that calls have made, 4,096 for addresses. A stored policy is a group of
//! its own. All policies that callers send along are one group. Within it each key of the deployment is a group, and
//! all callers without a key are one group. Within the latter each address is a group. Open deployments have one
//! caller.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use tally_limit::owner::{KeyGroup, KeyGroups, Owner};

/// Owners that addresses are spread over: 12 bits of a hash of 32 or 64 reveal no address.
const ADDRESSES: u64 = 4_096;

/// Keys of the deployment are numbered from here.
const FIRST_KEY: u32 = 1 << 16;

/// Keys that calls have made share so many owners, behind the 1,000 at most of the configuration.
const MADE_KEYS: u64 = 4_096;
const FIRST_MADE_KEY: usize = 1_024;

/// The keys of a stored policy, by the hash of its name.
const OF_POLICY: u8 = 0;
/// Those of all policies that callers send along.
const SENT: KeyGroup = KeyGroup::new(1, 0);
/// Those of them whose callers have no key.
const VISITORS: KeyGroup = KeyGroup::new(2, 0);
/// Those of one caller.
const OF_OWNER: u8 = 3;

/// The owner for the key of the deployment that has this index among all.
pub fn of_key(index: usize) -> Owner {
    Owner::of_number(FIRST_KEY.saturating_add(u32::try_from(index).unwrap_or(u32::MAX)))
}

/// The owner for a key that was made by a call: one of 4,096 behind those of the configuration, by a hash of its id.
pub fn of_made_key(id: u64) -> Owner {
    let index = usize::try_from(hash_of(id) % MADE_KEYS).unwrap_or(0);
    of_key(FIRST_MADE_KEY + index)
}

/// A caller without a key, by the bytes of the address: of IPv6 its first 64 bits. Without any it is nobody in
/// particular.
pub fn of_address(bytes: &[u8]) -> Owner {
    if bytes.is_empty() {
        return Owner::default();
    }
    let owner = u32::try_from(hash_of(bytes) % ADDRESSES).unwrap_or(0);
    Owner::of_number(owner.saturating_add(1))
}

/// The groups of a key, each within the one before. The names of policies that are sent along have a tilde; behind it
/// a capital letter where that was without a key.
pub fn groups(name: &str, owner: Owner) -> KeyGroups {
    let of_owner = Some(KeyGroup::new(OF_OWNER, owner.number().into()));
    match name.split_once('~') {
        None => [Some(KeyGroup::new(OF_POLICY, hash_of(name))), None, None],
        Some((_, kind)) if kind.starts_with(|letter: char| letter.is_ascii_uppercase()) => {
            // Visitors whose address is unknown have no group of their own.
            let address = of_owner.filter(|_| owner != Owner::default());
            [Some(SENT), Some(VISITORS), address]
        }
        Some(_) => [Some(SENT), of_owner, None],
    }
}

fn hash_of(value: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}
