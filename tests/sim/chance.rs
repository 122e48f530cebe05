//! Chance that comes back with its seed.

/// Numbers of a seed. Source: Steele, Lea and Flood 2014, SplitMix64.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// As [`Chance::below`], for a place in a list.
    pub fn pick(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a short list");
        usize::try_from(self.below(end)).expect("below a usize")
    }

    pub fn small(&mut self, end: u8) -> u8 {
        u8::try_from(self.below(end.into())).expect("below a u8")
    }

    /// A number from `-most` to `most`.
    pub fn around(&mut self, most: i64) -> i64 {
        let width = u64::try_from(2 * most + 1).expect("not negative");
        i64::try_from(self.below(width)).expect("small") - most
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}
