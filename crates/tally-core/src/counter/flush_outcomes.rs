//! How numbered batches ended, for those who have not looked yet.
//!
//! Invariant: at most `MAX` outcomes are kept, the newest.

use std::collections::VecDeque;

/// The newest outcomes, by the numbers of their batches.
#[derive(Clone, Debug)]
pub struct FlushOutcomes<R, const MAX: usize> {
    outcomes: VecDeque<(u64, R)>,
    /// The highest number that has settled: whoever waits for a higher one need not look for it.
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
    /// Records how a batch ended.
    pub fn keep(&mut self, number: u64, outcome: R) {
        if self.outcomes.len() >= MAX {
            self.outcomes.pop_front();
        }
        self.outcomes.push_back((number, outcome));
        self.newest = self.newest.max(number);
    }

    /// How a batch ended; `None` where that is not known yet, or no more. Cost: O(1) for those that wait for the next
    /// to settle, else O(those that settled since).
    pub fn outcome(&self, number: u64) -> Option<&R> {
        if number > self.newest {
            return None;
        }
        let mut newest_first = self.outcomes.iter().rev();
        let found = newest_first.find(|(known, _)| *known == number);
        found.map(|(_, outcome)| outcome)
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }
}
