//! The limits of the memory that the objects of an isolate hold together. [`SharedMemory`] and [`MemoryShare`] are
//! those of `tally-limit`.

pub use tally_limit::memory::{LIMITERS_BYTES_MAX, MemoryShare, OWNERS_MIN, SharedMemory};

/// The most bytes of batches that the inboxes of an isolate send at once, as [`LIMITERS_BYTES_MAX`]. A batch is a row
/// of at most 2 MB, and four times as much while it is sent. One batch of each inbox is always sent: the 4 inboxes of a
/// datacenter hold 32 MB at worst.
pub const INBOXES_BYTES_MAX: u64 = 8 << 20;

/// The most bytes of the states of all cells of an isolate. Beyond it, the least recently used states are evicted. A
/// cell of one datacenter without unique elements has about 10 KB, one with the most of everything 4 MB.
pub const CELLS_BYTES_MAX: u64 = 24 << 20;

/// The most bytes of the views that the partitions of the directory in an isolate hold, as [`LIMITERS_BYTES_MAX`].
pub const VIEWS_BYTES_MAX: u64 = 8 << 20;

/// Returns the indices of the owners to evict, the least recently used first, until they hold `excess` bytes together.
/// `held` has the last use and the bytes of each. Cost: O(n log n).
pub fn least_recent(held: &[(u64, u64)], excess: u64) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..held.len()).collect();
    indices.sort_unstable_by_key(|index| held.get(*index));
    let mut freed = 0_u64;
    indices.retain(|index| {
        let is_needed = freed < excess;
        let bytes = held.get(*index).map_or(0, |(_, bytes)| *bytes);
        freed = freed.saturating_add(if is_needed { bytes } else { 0 });
        is_needed
    });
    indices
}
