//! A time that never goes back.
//!
//! Invariant: of two readings the later is never less, and between two steps of the wall clock it runs as the wall
//! clock does. So a wall clock that steps back by ten minutes neither frees quota nor freezes it: the time goes on
//! from the last reading. The bound: a step back loses no more than what had passed since that reading; a step
//! forward looks like time that passed, and returns quota as that would. After steps back this time is ahead
//! of the wall clock by their sum, which only a fixed window shows, by its boundaries. Steps forward add up: an object
//! that moves between isolates takes one with each move to a faster clock, and quota returns earlier by all of them.

use serde::{Deserialize, Serialize};

/// Turns wall time into such a time. Stored with what was counted by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Monotone {
    /// The last reading.
    last_ms: i64,
    /// How far this time is ahead of the wall clock; never negative.
    ahead_ms: i64,
}

impl Monotone {
    /// The time at a wall time, both unix milliseconds.
    pub fn read(&mut self, wall_ms: i64) -> i64 {
        let now_ms = self.peek(wall_ms);
        self.ahead_ms = now_ms.saturating_sub(wall_ms);
        self.last_ms = now_ms;
        now_ms
    }

    /// What [`Self::read`] would return; nothing changes.
    pub fn peek(&self, wall_ms: i64) -> i64 {
        wall_ms.saturating_add(self.ahead_ms).max(self.last_ms)
    }
}
