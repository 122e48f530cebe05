//! The items of a lane, which join into one message.
//!
//! Invariant: an item keeps its position in its batch, by which its outcome is found.

use std::fmt::Debug;

use crate::counter::flush::{Load, newest_at};

/// The entries that imported registers count as, for any number of imports: 16,384 registers of 6 bits, in entries of
/// 16 bytes.
const IMPORT_ENTRIES: usize = 16_384 * 6 / 8 / ENTRY_BYTES;

/// The size of an entry in a batch, bytes.
const ENTRY_BYTES: usize = 16;

/// The items of a lane, which join into one message.
pub trait Batchable {
    /// The position of an item in its batch.
    type Position: Copy + PartialEq + Debug;

    /// Makes an item ready to begin a batch.
    fn open(&mut self) {}

    /// Adds an item. Returns false, without any change, if it does not fit.
    fn absorb(&mut self, item: &Self) -> bool;

    /// The position of the item that was added last.
    fn position(&self) -> Self::Position;

    /// The meaning of the batch's outcome for an item, by the item's position and that of the last item.
    fn seen_from(item: Self::Position, last: Self::Position) -> Self::Position;

    /// The number of its entries: at most [`crate::counter::lane::BATCH_ENTRIES_MAX`].
    fn entries(&self) -> usize;

    /// Makes the batch ready to be sent now, unix milliseconds, with this many items. `generation` is the last one that
    /// its lane has seen.
    fn depart(&mut self, items: u32, generation: u64, now_ms: i64);
}

impl Batchable for Load {
    /// The totals of the batch up to and including a write: (added, removed).
    type Position = (u128, u128);

    fn absorb(&mut self, item: &Self) -> bool {
        Load::absorb(self, item)
    }

    fn position(&self) -> (u128, u128) {
        (self.added, self.removed)
    }

    /// The totals that the batch added after the write.
    fn seen_from(item: (u128, u128), last: (u128, u128)) -> (u128, u128) {
        (last.0.saturating_sub(item.0), last.1.saturating_sub(item.1))
    }

    fn entries(&self) -> usize {
        let amounts = self.live.len() + self.past.len();
        // A bucket of samples is as large as a stamp.
        let samples = self.samples.iter().map(|(_, some)| some.buckets());
        let imported = if self.imported.is_empty() {
            0
        } else {
            IMPORT_ENTRIES
        };
        let tokens = self.tokens.len() + self.past_tokens.len();
        let dimensions = self.dimensions.len() / ENTRY_BYTES;
        amounts + tokens + imported + dimensions + samples.sum::<usize>()
    }

    fn depart(&mut self, items: u32, generation: u64, now_ms: i64) {
        self.writes = items;
        self.newest = match generation {
            0 => newest_at(now_ms),
            seen => seen,
        };
    }
}
