//! The owners of parts of a table. So no caller takes the room of others.
//!
//! A table divides its room by groups of keys, which may be nested: each may have three times the free room. The groups
//! of a key follow from the name of its policy and from the owner that its check names. Unless
//! [`crate::table::Table::grouped_by`] says otherwise they are [`by_policy`].

use core::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use serde::{Deserialize, Serialize};

/// The owner of a key, by a number: a tenant, a key of an API. The default, 0, is no particular owner. Stored, and a
/// part of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner(u32);

impl Owner {
    /// The owner of this number.
    pub const fn of_number(number: u32) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// A group of keys that are counted together: its kind, and its number within the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyGroup {
    kind: u8,
    number: u64,
}

impl KeyGroup {
    /// The group of this kind and number.
    pub const fn new(kind: u8, number: u64) -> Self {
        Self { kind, number }
    }
}

/// The groups of a key, each within the one before. A table counts the keys of each group, so their number should be
/// bounded: 40 bytes each.
pub type KeyGroups = [Option<KeyGroup>; 3];

/// Returns the groups of a key by the name of its policy and its owner. It must be deterministic.
pub type Grouping = fn(&str, Owner) -> KeyGroups;

/// The keys of a policy are a group. Within it the keys of each owner, except the default, are a group.
pub fn by_policy(name: &str, owner: Owner) -> KeyGroups {
    let of_owner = KeyGroup::new(1, owner.number().into());
    let of_owner = (owner != Owner::default()).then_some(of_owner);
    [Some(KeyGroup::new(0, hash_of(name))), of_owner, None]
}

/// A [`Grouping`] that has a default.
#[derive(Clone, Copy)]
pub(super) struct GroupingOfTable(pub(super) Grouping);

impl Default for GroupingOfTable {
    fn default() -> Self {
        Self(by_policy)
    }
}

impl fmt::Debug for GroupingOfTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Grouping")
    }
}

pub(super) fn hash_of(value: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}
