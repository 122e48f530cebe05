//! Time and the network: what happens when, and what becomes of messages.
//!
//! Invariant: things happen in order of their time, those of one moment in the order that they were
//! asked for, so a seed makes one run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::chance::Chance;
use super::places::{is_american, latency_ms};

/// Of a thousand messages so many are lost.
const LOST: u64 = 50;

/// Of a thousand messages so many come twice.
const REPEATED: u64 = 20;

/// A repeated message comes up to so much later.
const REPEAT_MS_MAX: u64 = 400;

struct Due<T> {
    at_ms: i64,
    number: u64,
    what: T,
}

impl<T> PartialEq for Due<T> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<T> Eq for Due<T> {}

impl<T> PartialOrd for Due<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Due<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ms, self.number).cmp(&(other.at_ms, other.number))
    }
}

/// The queue of what will happen.
pub struct Air<T> {
    pub now_ms: i64,
    pub chance: Chance,
    /// Whether the Americas are cut off from the rest of the world.
    pub is_split: bool,
    queue: BinaryHeap<Reverse<Due<T>>>,
    number: u64,
}

impl<T: Clone> Air<T> {
    pub fn new(now_ms: i64, seed: u64) -> Self {
        Self {
            now_ms,
            chance: Chance::new(seed),
            is_split: false,
            queue: BinaryHeap::new(),
            number: 0,
        }
    }

    /// Something happens at that time, or now.
    pub fn at(&mut self, at_ms: i64, what: T) {
        self.number += 1;
        let at_ms = at_ms.max(self.now_ms);
        self.queue.push(Reverse(Due {
            at_ms,
            number: self.number,
            what,
        }));
    }

    /// Sends a message: it arrives, or does not, or twice.
    pub fn send(&mut self, from: usize, to: usize, message: T) {
        let is_cut = self.is_split && is_american(from) != is_american(to);
        let fate = self.chance.below(1_000);
        if is_cut || fate < LOST {
            return;
        }
        let arrives_ms = self.now_ms + latency_ms(from, to, &mut self.chance);
        if fate < LOST + REPEATED {
            let later_ms = i64::try_from(self.chance.below(REPEAT_MS_MAX)).expect("small");
            self.at(arrives_ms + later_ms, message.clone());
        }
        self.at(arrives_ms, message);
    }

    /// The next thing that happens before that time; the clock goes to it, or to the end.
    pub fn next_before(&mut self, end_ms: i64) -> Option<T> {
        match self.queue.peek() {
            Some(Reverse(due)) if due.at_ms < end_ms => {
                self.now_ms = due.at_ms;
                self.queue.pop().map(|Reverse(due)| due.what)
            }
            _ => {
                self.now_ms = self.now_ms.max(end_ms);
                None
            }
        }
    }
}
