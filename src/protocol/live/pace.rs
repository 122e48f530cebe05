//! How many increments a second a counter gets, from its totals as they are read.
//!
//! Invariant: the rate is never below 0, and is 0 [`WINDOW_MS`] after the last increment that was seen. It is of what arrived:
//! logs of long ago count when they are brought in, and what is set or taken away does not.

use std::collections::VecDeque;

/// The time that the rate is of: long enough that one increment a second is no flicker between 0 and 1.
pub const WINDOW_MS: i64 = 10_000;

/// Times are taken to the whole second.
const HALF_SECOND_MS: i64 = 500;

/// The generation of what does not exist; those of counters are above the clock.
const MISSING: u64 = 0;

/// The most samples: one a second, and those of readers whose clocks are apart.
const SAMPLES_MAX: usize = 24;

/// What was read of a counter lately.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    generation: u64,
    /// When, and what all its cells had added by then; oldest first.
    samples: VecDeque<(i64, u128)>,
}

impl Pace {
    /// Notes what all cells had added, at a moment in unix milliseconds. A total that falls, since a datacenter went away of which nothing is
    /// known, and another generation, begin anew.
    pub fn note(&mut self, at_ms: i64, generation: u64, added: u128) {
        let is_before = |(last_ms, last): &(i64, u128)| *last_ms <= at_ms && *last <= added;
        // What did not exist had added nothing, and what is created then begins at that.
        let is_same = self.generation == generation || self.generation == MISSING;
        if !is_same || !self.samples.back().is_none_or(is_before) {
            self.samples.clear();
        }
        self.generation = generation;
        // The newest sample that is as old as the window is the one to compare with: those before it are not needed.
        let is_old = |sample: Option<&(i64, u128)>| {
            sample.is_some_and(|(sample_ms, _)| at_ms - sample_ms >= WINDOW_MS - HALF_SECOND_MS)
        };
        while is_old(self.samples.get(1)) || self.samples.len() >= SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back((at_ms, added));
    }

    /// Notes that there was no such counter, at a moment in unix milliseconds.
    pub fn note_missing(&mut self, at_ms: i64) {
        self.note(at_ms, MISSING, 0);
    }

    /// Increments a second, in thousandths; `None` before there are two samples half a second apart.
    ///
    /// The time between samples is taken to the whole second, so that a counter that rests keeps its rate.
    pub fn rate_thousandths(&self) -> Option<u128> {
        let (first_ms, first) = self.samples.front()?;
        let (last_ms, last) = self.samples.back()?;
        let seconds = (last_ms - first_ms + HALF_SECOND_MS).div_euclid(1_000);
        let seconds = u128::try_from(seconds).ok().filter(|count| *count > 0)?;
        Some(last.saturating_sub(*first).saturating_mul(1_000) / seconds)
    }
}

/// Thousandths as a JSON number.
pub fn thousandths_json(thousandths: u128) -> String {
    let (whole, rest) = (thousandths / 1_000, thousandths % 1_000);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = format!("{whole}.{rest:03}");
    digits.trim_end_matches('0').to_owned()
}
