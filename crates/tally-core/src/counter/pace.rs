//! The rate of increments of a counter, from its totals as they are read.
//!
//! Invariant: the rate is never below 0, and is 0 [`WINDOW_MS`] after the last increment that was seen. It measures
//! arrivals: imported logs of the past count when they arrive; sets and decrements do not count.

use std::collections::VecDeque;

/// The interval of the rate: long enough that one increment a second does not flicker between 0 and 1.
pub const WINDOW_MS: i64 = 10_000;

/// Times are rounded to whole seconds.
const HALF_SECOND_MS: i64 = 500;

/// The generation of a counter that does not exist. Real generations are above it, because they begin with the clock.
const MISSING: u64 = 0;

/// The most samples: one a second, and those of readers whose clocks differ.
const SAMPLES_MAX: usize = 24;

/// The recent samples of a counter.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    generation: u64,
    /// The time, and the sum of all cells' increments by then; oldest first.
    samples: VecDeque<(i64, u128)>,
}

impl Pace {
    /// Records the sum of all cells' increments, at a moment in unix milliseconds. The rate restarts with another
    /// generation. It also restarts when the sum falls: then a datacenter of which nothing is known does not answer.
    pub fn record(&mut self, at_ms: i64, generation: u64, added: u128) {
        let is_before = |(last_ms, last): &(i64, u128)| *last_ms <= at_ms && *last <= added;
        // A counter that did not exist had no increments; its sum begins at 0.
        let is_same = self.generation == generation || self.generation == MISSING;
        if !is_same || !self.samples.back().is_none_or(is_before) {
            self.samples.clear();
        }
        self.generation = generation;
        // The newest sample that is as old as the window is the one to compare with; older ones are dropped.
        let is_old = |sample: Option<&(i64, u128)>| {
            sample.is_some_and(|(sample_ms, _)| at_ms - sample_ms >= WINDOW_MS - HALF_SECOND_MS)
        };
        while is_old(self.samples.get(1)) || self.samples.len() >= SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back((at_ms, added));
    }

    /// Records that the counter did not exist, at a moment in unix milliseconds.
    pub fn record_missing(&mut self, at_ms: i64) {
        self.record(at_ms, MISSING, 0);
    }

    /// Increments a second, in thousandths; `None` before there are two samples half a second apart.
    ///
    /// The time between samples is rounded to whole seconds, so that an idle counter keeps its rate.
    pub fn rate_thousandths(&self) -> Option<u128> {
        let (first_ms, first) = self.samples.front()?;
        let (last_ms, last) = self.samples.back()?;
        let seconds = (last_ms - first_ms + HALF_SECOND_MS).div_euclid(1_000);
        let seconds = u128::try_from(seconds).ok().filter(|count| *count > 0)?;
        Some(last.saturating_sub(*first).saturating_mul(1_000) / seconds)
    }
}
