//! Random numbers that a seed determines.

use std::cell::Cell;

/// Numbers of a seed. Source: Steele, Lea and Flood 2014, SplitMix64.
#[derive(Debug)]
pub struct Chance(Cell<u64>);

impl Chance {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    /// 64 random bits.
    pub fn bits(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 where `end` is 0.
    pub fn below(&self, end: u64) -> u64 {
        self.bits().checked_rem(end).unwrap_or(0)
    }

    /// As [`Chance::below`], for a place in a list.
    pub fn pick(&self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a list fits 64 bits");
        usize::try_from(self.below(end)).expect("it is below a usize")
    }

    /// A number from `least` to `most`, both included.
    pub fn between(&self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// A number from `-most` to `most`; `most` is not negative.
    pub fn around(&self, most: i64) -> i64 {
        let width = most.unsigned_abs().saturating_mul(2) + 1;
        i64::try_from(self.below(width)).expect("it is at most twice an i64's half") - most
    }

    /// True once in so many times; never where that is 0.
    pub fn once_in(&self, times: u64) -> bool {
        times != 0 && self.below(times) == 0
    }

    /// The state of the generator: two runs with the same state after as many steps went the same way.
    pub fn state(&self) -> u64 {
        self.0.get()
    }
}
