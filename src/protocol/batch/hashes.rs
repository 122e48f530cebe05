//! The hashes of a batch: of elements, by the deployment's key, which may be rotated, and by Redis's own; and of names, whose
//! key may not be rotated.

use crate::core::counter::flush::Element;
use crate::core::counter::settings::UniqueHash;
use crate::core::sketch::HashId;

/// An element's hashes. Which of them its counter counts by is often known only once its cell was asked, and then the
/// element itself is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hashed {
    /// By the deployment's key.
    pub keyed: u64,
    /// By Redis's hash.
    pub redis: u64,
}

impl Hashed {
    /// The hash that a counter's elements go through.
    pub fn of(self, hash: UniqueHash) -> u64 {
        match hash {
            UniqueHash::Keyed => self.keyed,
            UniqueHash::Redis => self.redis,
        }
    }

    /// The hash of that identity.
    pub fn by(self, hash: HashId) -> u64 {
        if hash == HashId::REDIS {
            self.redis
        } else {
            self.keyed
        }
    }

    /// What the hash of that identity says of the element.
    pub fn element(self, hash: HashId) -> Element {
        Element::by(hash, self.by(hash))
    }
}

/// What a batch is hashed with.
pub trait Hashes {
    /// Returns the hash of an element.
    fn element(&self, bytes: &[u8]) -> u64;

    /// Returns the hash of an idempotency key, or of what it stands for. Its key outlives that of elements.
    fn name(&self, bytes: &[u8]) -> u64;
}

/// One hash for both.
impl<F: Fn(&[u8]) -> u64> Hashes for F {
    fn element(&self, bytes: &[u8]) -> u64 {
        self(bytes)
    }

    fn name(&self, bytes: &[u8]) -> u64 {
        self(bytes)
    }
}
