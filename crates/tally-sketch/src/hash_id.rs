//! The identity of the hash function of a sketch's elements.
//!
//! Invariant: two sketches are merged by registers only if their hash is the same. An element has other registers under
//! another key, so a merged sketch would count it twice, and nobody could notice.

use serde::{Deserialize, Serialize};

use super::sip::{HashKey, hash};

/// The text whose hash under a key is the identity of the key. A stored format: it never changes.
const IDENTITY: &[u8] = b"tally hash id";

/// The identity of a hash: 32 bits that tell one key from another and nothing else about it.
///
/// Two keys of a deployment have the same identity with probability 2⁻³².
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct HashId(u32);

impl HashId {
    /// Stands for several hashes that are no longer distinguished, see [`super::Uniques`].
    pub const SEVERAL: Self = Self(0);

    /// Redis's hash, which has no key: that of counters whose sketches Redis reads.
    pub const REDIS: Self = Self(1);

    /// Returns the hash of this number.
    pub(super) const fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// Returns the number as it is stored and sent: 0 for several hashes, 1 for Redis's, more for keys.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl HashKey {
    /// Returns the identity of this key, which may be stored and logged.
    pub fn id(&self) -> HashId {
        let [a, b, c, d, ..] = hash(self, IDENTITY).to_le_bytes();
        // 0 and 1 are kept free: for several hashes, and for Redis's.
        HashId(u32::from_le_bytes([a, b, c, d]).max(2))
    }
}
