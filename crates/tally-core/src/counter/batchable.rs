//! What a lane carries: items that join into one message.
//!
//! Invariant: an item keeps its position in its batch, so that its outcome is found by that.

use std::fmt::Debug;

use super::flush::Load;
use super::lane::newest_at;

/// What registers that were imported count as, however often: 16,384 of 6 bits, in entries of 16 bytes.
const IMPORT_ENTRIES: usize = 16_384 * 6 / 8 / ENTRY_BYTES;

/// What an entry takes of a batch.
const ENTRY_BYTES: usize = 16;

/// What a lane carries: items that join into one message.
pub trait Batchable {
    /// The position of an item in its batch.
    type Position: Copy + PartialEq + Debug;

    /// Makes an item ready to begin a batch.
    fn open(&mut self) {}

    /// Takes an item in; false, and nothing changes, where it does not fit.
    fn absorb(&mut self, item: &Self) -> bool;

    /// The position of the item that was taken in last.
    fn position(&self) -> Self::Position;

    /// What its outcome means for an item, by the item's position and that of the batch's last one.
    fn seen_from(item: Self::Position, last: Self::Position) -> Self::Position;

    /// How much it holds beyond the number of its items: at most [`super::lane::BATCH_ENTRIES_MAX`].
    fn entries(&self) -> usize;

    /// Makes it ready to be sent now, unix milliseconds, with so many items, in a lane that has seen a generation.
    fn depart(&mut self, items: u32, generation: u64, now_ms: i64);
}

impl Batchable for Load {
    /// What the batch held with a write: (added, removed).
    type Position = (u128, u128);

    fn absorb(&mut self, item: &Self) -> bool {
        Load::absorb(self, item)
    }

    fn position(&self) -> (u128, u128) {
        (self.added, self.removed)
    }

    /// What the batch added after the write.
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
