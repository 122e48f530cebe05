//! Memory that several owners in one process hold together. A Worker's platform puts many objects into one isolate of
//! 128 MB, so a bound for each object is no bound for the isolate.
//!
//! Invariant: [`SharedMemory::bytes`] is the sum of its existing shares. It is counted by atomics: concurrent threads
//! may exceed a bound by what each adds at a time.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

/// The most bytes of the tables of all limiters of an isolate, and of their leases. Beyond it only limiters with less
/// than an even part may take more, at most twice this in all: see [`MemoryShare::has_room`].
pub const LIMITERS_BYTES_MAX: u64 = 24 << 20;

/// The number of even parts, also while there are fewer owners: eight limiters with a table and leases each, or all
/// partitions of the directory. If a part were larger while there are few owners, each new owner would add its part to
/// the memory that the others have taken.
pub const OWNERS_MIN: u64 = 16;

#[derive(Debug, Default)]
struct Sum {
    bytes: AtomicU64,
    shares: AtomicU64,
}

/// The memory of all shares of one kind. Clones are the same memory.
#[derive(Clone, Debug, Default)]
pub struct SharedMemory(Arc<Sum>);

impl SharedMemory {
    /// Bytes that all shares hold.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// A share that holds nothing yet.
    pub fn share(&self) -> MemoryShare {
        self.0.shares.fetch_add(1, Ordering::Relaxed);
        MemoryShare {
            memory: self.clone(),
            bytes: 0,
        }
    }
}

/// The memory of one owner. It is free again when this is dropped.
#[derive(Debug)]
pub struct MemoryShare {
    memory: SharedMemory,
    bytes: u64,
}

impl MemoryShare {
    /// Bytes that this owner holds.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that all owners hold.
    pub fn together(&self) -> u64 {
        self.memory.bytes()
    }

    /// Sets how many bytes this owner holds now. Nothing is refused: call [`Self::has_room`] before.
    pub fn hold(&mut self, bytes: u64) {
        // Most calls change nothing, and an atomic sum takes 5 ns natively.
        if bytes != self.bytes {
            let more = bytes.wrapping_sub(self.bytes);
            self.memory.0.bytes.fetch_add(more, Ordering::Relaxed);
            self.bytes = bytes;
        }
    }

    /// How many more bytes this owner may hold, if all may hold `bytes_max` together: the rest of that, or of an even
    /// part of it. So no owner keeps another of [`OWNERS_MIN`] from its part, and all hold at most twice as much, for
    /// any number of owners.
    pub fn room(&self, bytes_max: u64) -> u64 {
        let part = bytes_max / self.shares().max(OWNERS_MIN);
        let left = |limit: u64| limit.saturating_sub(self.together());
        let of_part = part.saturating_sub(self.bytes);
        left(bytes_max).max(of_part.min(left(bytes_max.saturating_mul(2))))
    }

    fn shares(&self) -> u64 {
        self.memory.0.shares.load(Ordering::Relaxed)
    }

    /// Whether this owner may hold more, see [`Self::room`].
    pub fn has_room(&self, bytes_max: u64) -> bool {
        self.room(bytes_max) > 0
    }
}

impl Default for MemoryShare {
    /// A share of a memory of its own.
    fn default() -> Self {
        SharedMemory::default().share()
    }
}

impl Clone for MemoryShare {
    fn clone(&self) -> Self {
        let mut share = self.memory.share();
        share.hold(self.bytes);
        share
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.hold(0);
        self.memory.0.shares.fetch_sub(1, Ordering::Relaxed);
    }
}
