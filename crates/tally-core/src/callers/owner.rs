//! The owners of parts of a limiter's table. So no caller takes the room of others.
//!
//! Invariants: an owner reveals no address. The number of owners of *inline* policies, which callers send with their
//! checks, is bounded: one for each key of the configuration, 4,096 for keys that calls have made, 4,096 for addresses.
//! A stored policy is a separate group. All inline policies are one group. Within it each key of the deployment is a
//! group, and all callers without a key are one group. Within the latter each address is a group. Open deployments have
//! one caller.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use tally_limit::owner::{KeyGroup, KeyGroups, Owner};

/// The number of owners for addresses: 12 bits of a hash of 32 or 64 address bits reveal no address.
const ADDRESSES: u64 = 4_096;

/// Keys of the deployment are numbered from here.
const FIRST_KEY: u32 = 1 << 16;

/// The number of owners for keys that calls have made. They follow the keys of the configuration, at most 1,000.
const MADE_KEYS: u64 = 4_096;
const FIRST_MADE_KEY: usize = 1_024;

/// The keys of a stored policy, by the hash of its name.
const OF_POLICY: u8 = 0;
/// The keys of all inline policies.
const SENT: KeyGroup = KeyGroup::new(1, 0);
/// The keys of inline policies whose callers have no key.
const VISITORS: KeyGroup = KeyGroup::new(2, 0);
/// The keys of one caller.
const OF_OWNER: u8 = 3;

/// The owner for the key of the deployment that has this index among all.
pub fn of_key(index: usize) -> Owner {
    Owner::of_number(FIRST_KEY.saturating_add(u32::try_from(index).unwrap_or(u32::MAX)))
}

/// The owner for a key that a call has made: one of 4,096 after those of the configuration, by a hash of its id.
pub fn of_made_key(id: u64) -> Owner {
    let index = usize::try_from(hash_of(id) % MADE_KEYS).unwrap_or(0);
    of_key(FIRST_MADE_KEY + index)
}

/// The owner for the keys of an account that is no key which is known here, by its name: one of those for keys that
/// calls have made.
pub fn of_account(name: &str) -> Owner {
    of_made_key(hash_of(name))
}

/// The owner for a caller without a key, by the bytes of the address: of IPv6 its first 64 bits. Without bytes it is
/// the default owner.
pub fn of_address(bytes: &[u8]) -> Owner {
    if bytes.is_empty() {
        return Owner::default();
    }
    let owner = u32::try_from(hash_of(bytes) % ADDRESSES).unwrap_or(0);
    Owner::of_number(owner.saturating_add(1))
}

/// The groups of a key, each within the one before. The names of inline policies have a tilde, followed by a capital
/// letter if the caller had no key.
pub fn groups(name: &str, owner: Owner) -> KeyGroups {
    let of_owner = Some(KeyGroup::new(OF_OWNER, owner.number().into()));
    match name.split_once('~') {
        None => [Some(KeyGroup::new(OF_POLICY, hash_of(name))), None, None],
        Some((_, kind)) if kind.starts_with(|letter: char| letter.is_ascii_uppercase()) => {
            // Visitors with an unknown address have no separate group.
            let address = of_owner.filter(|_| owner != Owner::default());
            [Some(SENT), Some(VISITORS), address]
        }
        Some(_) => [Some(SENT), of_owner, None],
    }
}

fn hash_of(value: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}
