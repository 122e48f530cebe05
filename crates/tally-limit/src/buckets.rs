//! The use by time, for sliding, precise and fixed windows. They differ only in how time is divided.
//!
//! Time is divided into ticks. Tick `i` begins at `i · part / parts` milliseconds, in exact integers. Use in a tick
//! counts in that tick and in the `kept` ticks after it:
//!
//! | window of W ms | a tick | kept | counts at most |
//! |---|---|---|---|
//! | sliding | W / 60 | 60 | W + W / 60 |
//! | precise | 1 ms | W − 1 | W |
//! | fixed | W, from multiples of W | 0 | W |
//!
//! Invariants: slots are in order of time, each tick at most once, none of them empty; their sum is `total`.
//!
//! **Sliding**: two calls at most W apart are at most 60 ticks apart, since adding W to a time adds 60 to its tick.
//! So when the later is judged, the earlier counts: no interval of length W admits more than the limit. A tick
//! counts no longer than W + W / 60 from its beginning, so quota returns at most W / 60 late. **Precise**: what was
//! used at t counts from t to just before t + W. **Fixed**: each window by itself.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::policy::{Algorithm, Policy};

/// Ticks of a sliding window.
pub(super) const PARTS: i64 = 60;

/// The most slots: a precise window has one for each of its at most 1,000 units. Use that was spent elsewhere may
/// exceed the limit. Then the two oldest slots are joined, at the later time.
pub(super) const SLOTS_MAX: usize = 1_000;

/// The slots of a key if there is too little memory: 128 bytes.
const SLOTS_COMPACT: usize = 8;

/// The division of time.
#[derive(Clone, Copy)]
struct Grid {
    parts: i64,
    part_ms: i64,
    kept: i64,
}

impl Grid {
    fn of(policy: &Policy) -> Self {
        let window_ms = policy.window_ms.max(1);
        let (parts, part_ms, kept) = match policy.algorithm {
            Algorithm::SlidingWindow if policy.is_precise => (1, 1, window_ms - 1),
            Algorithm::SlidingWindow => (PARTS, window_ms, PARTS),
            // A token bucket has no ticks; nothing is used of a limit of concurrency.
            Algorithm::FixedWindow | Algorithm::TokenBucket | Algorithm::Concurrency => {
                (1, window_ms, 0)
            }
        };
        Self {
            parts,
            part_ms,
            kept,
        }
    }

    /// The tick of a time.
    fn tick(self, at_ms: i64) -> i64 {
        at_ms.saturating_mul(self.parts).div_euclid(self.part_ms)
    }

    /// The first millisecond in which a tick no longer counts.
    fn ends_at_ms(self, tick: i64) -> i64 {
        let end = tick.saturating_add(self.kept + 1);
        // Rounded up to the beginning of the tick after the last one.
        end.saturating_mul(-self.part_ms)
            .div_euclid(self.parts)
            .saturating_neg()
    }
}

/// The use in one tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Slot {
    /// The tick, counted from the first slot's. A precise window has the most: 2,592,000,000, below 2^32.
    offset: u32,
    amount: u64,
}

/// The use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Buckets {
    /// The tick of the first slot.
    first: i64,
    total: u64,
    slots: Vec<Slot>,
}

impl Buckets {
    fn tick_of(&self, slot: Slot) -> i64 {
        self.first.saturating_add(i64::from(slot.offset))
    }

    /// The number of slots that no longer count, and their sum.
    fn expired(&self, grid: Grid, now_ms: i64) -> (usize, u64) {
        let oldest = grid.tick(now_ms).saturating_sub(grid.kept);
        let mut amount = 0_u64;
        for (number, slot) in self.slots.iter().enumerate() {
            if self.tick_of(*slot) >= oldest {
                return (number, amount);
            }
            amount = amount.saturating_add(slot.amount);
        }
        (self.slots.len(), self.total)
    }

    /// The use that counts. Cost: O(slots that do not count).
    pub(super) fn used(&self, policy: &Policy, now_ms: i64) -> u64 {
        let (_, gone) = self.expired(Grid::of(policy), now_ms);
        self.total.saturating_sub(gone)
    }

    /// The first time, not before now, at which no more than this counts. Cost: O(slots).
    pub(super) fn falls_at_ms(&self, policy: &Policy, now_ms: i64, target: u64) -> i64 {
        let grid = Grid::of(policy);
        let (number, gone) = self.expired(grid, now_ms);
        let mut left = self.total.saturating_sub(gone);
        let mut at_ms = now_ms;
        for slot in self.slots.get(number..).unwrap_or_default() {
            if left <= target {
                break;
            }
            left = left.saturating_sub(slot.amount);
            at_ms = grid.ends_at_ms(self.tick_of(*slot));
        }
        at_ms
    }

    /// Drops slots that no longer count.
    pub(super) fn expire(&mut self, policy: &Policy, now_ms: i64) {
        let (number, gone) = self.expired(Grid::of(policy), now_ms);
        if number > 0 {
            self.slots.drain(..number);
            self.total = self.total.saturating_sub(gone);
            self.rebase();
        }
    }

    /// Counts ticks from the first slot again.
    fn rebase(&mut self) {
        let moved = self.slots.first().map_or(0, |slot| slot.offset);
        if moved > 0 {
            self.first = self.first.saturating_add(i64::from(moved));
            for slot in &mut self.slots {
                slot.offset = slot.offset.saturating_sub(moved);
            }
        }
    }

    /// Adds use at a time up to now, if it still counts. Cost: O(1) for the newest tick, else O(slots).
    pub(super) fn add(&mut self, policy: &Policy, now_ms: i64, at_ms: i64, amount: u64) {
        self.expire(policy, now_ms);
        let grid = Grid::of(policy);
        let tick = grid.tick(at_ms.min(now_ms));
        let is_over = tick < grid.tick(now_ms).saturating_sub(grid.kept);
        if amount == 0 || is_over {
            return;
        }
        if self.slots.is_empty() {
            self.first = tick;
        }
        if tick < self.first {
            let moved = u32::try_from(self.first.saturating_sub(tick)).unwrap_or(u32::MAX);
            self.first = tick;
            for slot in &mut self.slots {
                slot.offset = slot.offset.saturating_add(moved);
            }
        }
        let offset = u32::try_from(tick.saturating_sub(self.first)).unwrap_or(u32::MAX);
        let later = self.slots.iter().rev();
        let later = later.take_while(|slot| slot.offset > offset).count();
        let after = self.slots.len() - later;
        let before = after.checked_sub(1).and_then(|at| self.slots.get_mut(at));
        self.total = self.total.saturating_add(amount);
        match before {
            Some(slot) if slot.offset == offset => slot.amount = slot.amount.saturating_add(amount),
            _ => self.slots.insert(after, Slot { offset, amount }),
        }
        if self.slots.len() > SLOTS_MAX {
            let oldest = self.slots.remove(0);
            if let Some(slot) = self.slots.first_mut() {
                slot.amount = slot.amount.saturating_add(oldest.amount);
            }
            self.rebase();
        }
    }

    /// Subtracts use of a time that still counts: first from the newest slots not after it, then from the oldest after
    /// it. Slot by slot, the rest is then never older than the true rest. (Hall's condition for two sorted lists: the
    /// entry that is removed from the kept list stands at or before the rank of the removed true entry. Then each kept
    /// time stays at or above its true one.) Returns the subtracted amount. Cost: O(slots).
    pub(super) fn take(&mut self, policy: &Policy, now_ms: i64, at_ms: i64, amount: u64) -> u64 {
        self.expire(policy, now_ms);
        let grid = Grid::of(policy);
        let tick = grid.tick(at_ms.min(now_ms));
        let first = self.first;
        let until = self
            .slots
            .partition_point(|slot| first.saturating_add(i64::from(slot.offset)) <= tick);
        let mut left = amount;
        let (before, after) = self.slots.split_at_mut(until);
        for slot in before.iter_mut().rev().chain(after) {
            let taken = slot.amount.min(left);
            slot.amount -= taken;
            left -= taken;
        }
        self.slots.retain(|slot| slot.amount > 0);
        self.rebase();
        self.total = self.total.saturating_sub(amount - left);
        amount - left
    }

    /// Whether use at this time still counts.
    pub(super) fn counts(policy: &Policy, now_ms: i64, at_ms: i64) -> bool {
        let grid = Grid::of(policy);
        grid.tick(at_ms) >= grid.tick(now_ms).saturating_sub(grid.kept)
    }

    /// Joins slots until there are at most [`SLOTS_COMPACT`], each at the time of its last.
    pub(super) fn compact(&mut self) {
        if self.slots.len() <= SLOTS_COMPACT {
            return;
        }
        let each = self.slots.len().div_ceil(SLOTS_COMPACT);
        let joined = self.slots.chunks(each).filter_map(|chunk| {
            let amount = chunk
                .iter()
                .fold(0, |sum: u64, slot| sum.saturating_add(slot.amount));
            chunk.last().map(|last| Slot { amount, ..*last })
        });
        self.slots = joined.collect();
        self.rebase();
    }

    /// Bytes that the slots occupy.
    pub(super) fn heap_bytes(&self) -> u64 {
        u64::try_from(self.slots.capacity().saturating_mul(size_of::<Slot>())).unwrap_or(u64::MAX)
    }
}
