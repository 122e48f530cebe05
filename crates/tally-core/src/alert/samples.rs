//! Rates, by what had been counted a while ago; and silence, by when that changed last.
//!
//! Invariant: samples are in order of time, and what was counted never falls among them.

use serde::{Deserialize, Serialize};

/// The most samples that are kept: one each 10 s for the longest span of 5 minutes, and one before.
const SAMPLES_MAX: usize = 32;

/// A span is at most so many times as long as was asked for, where a measurement is missing in between.
const SPANS_MAX: i64 = 3;

const MINUTE_MS: i128 = 60_000;

/// What had been counted when, unix milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateSamples(Vec<(i64, u128)>);

impl RateSamples {
    /// Notes what has been counted by now. A counter that begins anew, and a clock that steps back, begin the samples
    /// anew.
    pub fn note(&mut self, now_ms: i64, counted: u128) {
        let is_after = |(at_ms, before): &(i64, u128)| *at_ms < now_ms && *before <= counted;
        if !self.0.last().is_none_or(is_after) {
            self.0.clear();
        }
        if self.0.len() >= SAMPLES_MAX {
            self.0.remove(0);
        }
        self.0.push((now_ms, counted));
    }

    /// What is counted by the minute, over a span of this length or a little more; `None` before it was measured for
    /// so long.
    pub fn rate_per_minute(&mut self, span_ms: i64) -> Option<i64> {
        let (now_ms, counted) = *self.0.last()?;
        let is_old = |(at_ms, _): &&(i64, u128)| now_ms - at_ms >= span_ms;
        let older = self.0.iter().take_while(is_old).count();
        self.0.drain(..older.checked_sub(1)?);
        let (at_ms, before) = *self.0.first()?;
        let lasted_ms = now_ms - at_ms;
        if lasted_ms > span_ms * SPANS_MAX {
            self.0.remove(0);
            return None;
        }
        let more = i128::try_from(counted - before).unwrap_or(i128::MAX / MINUTE_MS);
        let rate = more.min(i128::MAX / MINUTE_MS) * MINUTE_MS / i128::from(lasted_ms);
        Some(i64::try_from(rate).unwrap_or(i64::MAX))
    }

    /// Notes what has been counted by now, and returns for how many seconds that has not changed.
    pub fn silent_seconds(&mut self, now_ms: i64, counted: u128) -> i64 {
        match self.0.first() {
            Some((at_ms, before)) if *before == counted => (now_ms - at_ms).max(0) / 1_000,
            _ => {
                self.0 = vec![(now_ms, counted)];
                0
            }
        }
    }
}
