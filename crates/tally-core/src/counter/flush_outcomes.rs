//! The outcomes of numbered batches, for writes that have not looked yet.
//!
//! Invariant: at most `MAX` outcomes are kept, the newest.

use std::collections::VecDeque;

/// The newest outcomes, by the numbers of their batches.
#[derive(Clone, Debug)]
pub struct FlushOutcomes<R, const MAX: usize> {
    outcomes: VecDeque<(u64, R)>,
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
    /// Records the outcome of a batch.
    pub fn keep(&mut self, number: u64, outcome: R) {
        if self.outcomes.len() >= MAX {
            self.outcomes.pop_front();
        }
        self.outcomes.push_back((number, outcome));
        self.newest = self.newest.max(number);
    }

    /// The outcome of a batch; `None` if it is not known yet, or not kept any more. Cost: O(1) if the batch is not
    /// complete, else O(batches completed since).
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
