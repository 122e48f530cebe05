//! The outcomes of numbered batches, for writes that have not looked yet.
//!
//! Invariant: an outcome is kept until each of its writes has looked, however many batches complete meanwhile. Beyond
//! `MAX`, those that nobody waits for are dropped, oldest first; what clients that are gone leave unread is dropped
//! beyond [`UNREAD_MAX`].

use std::cell::Cell;
use std::collections::VecDeque;

/// The most outcomes that are kept for writes that have not looked.
pub const UNREAD_MAX: usize = 4_096;

#[derive(Clone, Debug)]
struct Kept<R> {
    number: u64,
    outcome: R,
    /// The writes that have not looked.
    unread: Cell<u32>,
}

/// The newest outcomes, by the numbers of their batches.
#[derive(Clone, Debug)]
pub struct FlushOutcomes<R, const MAX: usize> {
    outcomes: VecDeque<Kept<R>>,
    /// The highest completed number: an outcome with a higher number is not searched for.
    newest: u64,
}

impl<R, const MAX: usize> Default for FlushOutcomes<R, MAX> {
    fn default() -> Self {
        Self {
            outcomes: VecDeque::new(),
            newest: 0,
        }
    }
}

impl<R, const MAX: usize> FlushOutcomes<R, MAX> {
    /// Records the outcome of a batch, for as many writes as look for it.
    pub fn keep(&mut self, number: u64, outcome: R, writes: u32) {
        while self.outcomes.len() >= MAX {
            let is_read = |kept: &Kept<R>| kept.unread.get() == 0;
            if !self.outcomes.front().is_some_and(is_read) && self.outcomes.len() < UNREAD_MAX {
                break;
            }
            self.outcomes.pop_front();
        }
        self.outcomes.push_back(Kept {
            number,
            outcome,
            unread: Cell::new(writes),
        });
        self.newest = self.newest.max(number);
    }

    /// The outcome of a batch, for one of its writes; `None` if it is not known yet, or not kept any more. Cost: O(1)
    /// if the batch is not complete, else O(batches completed since).
    pub fn outcome(&self, number: u64) -> Option<&R> {
        if number > self.newest {
            return None;
        }
        let mut newest_first = self.outcomes.iter().rev();
        let found = newest_first.find(|kept| kept.number == number)?;
        found.unread.set(found.unread.get().saturating_sub(1));
        Some(&found.outcome)
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }
}
