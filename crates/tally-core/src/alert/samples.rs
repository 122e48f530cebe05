//! Rates, by samples of earlier counts; and silence, by the last change of the count.
//!
//! Invariant: samples are in order of time, and their counts never fall. A second sample of the same time marks that
//! the count fell then.

use serde::{Deserialize, Serialize};

/// The most samples: one each 10 s for the longest span of 5 minutes and one before it, two if the count fell each
/// time.
const SAMPLES_MAX: usize = 64;

/// A span is at most this many times as long as requested, if measurements are missing within it.
const SPANS_MAX: i64 = 3;

const MINUTE_MS: i128 = 60_000;

/// The counts at earlier times: (unix milliseconds, count).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateSamples(Vec<(i64, u128)>);

impl RateSamples {
    /// Records the count of now. A clock that steps back clears the samples, and so does a counter that begins again.
    /// With `many`, the count is a sum of several counters, which falls when one of them ends. Then earlier samples are
    /// lowered by the same amount, so that the rate is at least that of the other counters.
    pub fn record(&mut self, now_ms: i64, counted: u128, many: bool) {
        let (last_ms, before) = self.0.last().copied().unwrap_or((i64::MIN, 0));
        let fall = before.saturating_sub(counted);
        if last_ms >= now_ms || fall > 0 && !many {
            self.0.clear();
        }
        for (_, before) in &mut self.0 {
            *before = before.saturating_sub(fall);
        }
        if fall > 0 && !self.0.is_empty() {
            self.0.push((now_ms, counted));
        }
        self.0.push((now_ms, counted));
        let surplus = self.0.len().saturating_sub(SAMPLES_MAX);
        self.0.drain(..surplus);
    }

    /// Whether the count fell since the first sample.
    pub fn has_fallen(&self) -> bool {
        let mut pairs = self.0.iter().zip(self.0.iter().skip(1));
        pairs.any(|((one_ms, _), (other_ms, _))| one_ms == other_ms)
    }

    /// The count per minute, over a span of this length or a little more; `None` before it was measured for that long.
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

    /// Records the count of now. Returns for how many seconds it has not risen, and whether it fell just now: then
    /// something may have been counted too.
    pub fn silent_seconds(&mut self, now_ms: i64, counted: u128) -> (i64, bool) {
        match self.0.first_mut() {
            Some((at_ms, before)) if *before >= counted => {
                let has_fallen = *before > counted;
                *before = counted;
                ((now_ms - *at_ms).max(0) / 1_000, has_fallen)
            }
            _ => {
                self.0 = vec![(now_ms, counted)];
                (0, false)
            }
        }
    }
}
