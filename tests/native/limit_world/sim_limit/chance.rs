//! Chance by seed.

use crate::common::chance as base;

pub use base::Chance;

impl Chance {
    pub fn between_ms(&mut self, from: i64, to: i64) -> i64 {
        from + i64::try_from(self.below(u64::try_from(to - from).unwrap())).unwrap()
    }

    /// In 0 to 1, without 0.
    pub fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64 + 1e-17
    }
}
