//! The hashes of a batch. Elements are hashed by the deployment's key, which may be rotated, and by Redis's own
//! function. Names are hashed by a key that is never rotated.

use tally_core::counter::flush::Element;
use tally_core::counter::settings::UniqueHash;
use tally_core::sketch::HashId;

/// An element's hashes. Which of them its counter uses is often known only after its cell was asked, and the element
/// itself is not kept until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hashed {
    /// By the deployment's key.
    pub keyed: u64,
    /// By Redis's hash.
    pub redis: u64,
}

impl Hashed {
    /// The hash by the function that a counter uses.
    pub fn of(self, hash: UniqueHash) -> u64 {
        match hash {
            UniqueHash::Keyed => self.keyed,
            UniqueHash::Redis => self.redis,
        }
    }

    /// The hash by the function of that identity.
    pub fn by(self, hash: HashId) -> u64 {
        if hash == HashId::REDIS {
            self.redis
        } else {
            self.keyed
        }
    }

    /// The element that the hash of that identity yields.
    pub fn element(self, hash: HashId) -> Element {
        Element::by(hash, self.by(hash))
    }
}

/// The hash functions of a batch.
pub trait Hashes {
    /// Returns the hash of an element.
    fn element(&self, bytes: &[u8]) -> u64;

    /// Returns the hash of an idempotency key, or of what it stands for. Its key outlives that of elements.
    fn name(&self, bytes: &[u8]) -> u64;
}

/// One function for both.
impl<F: Fn(&[u8]) -> u64> Hashes for F {
    fn element(&self, bytes: &[u8]) -> u64 {
        self(bytes)
    }

    fn name(&self, bytes: &[u8]) -> u64 {
        self(bytes)
    }
}
