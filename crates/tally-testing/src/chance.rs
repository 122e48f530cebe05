//! Chance by seed.

/// Numbers that are spread evenly over `u64`, and the same for the same seed.
///
/// **Source**: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014), SplitMix64.
#[derive(Debug)]
pub struct Chance(pub u64);

impl Chance {
    /// The chance of one run: streams of neighbouring seeds start apart.
    pub fn of_run(seed: u64) -> Self {
        Self(Self(seed).bits())
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound.max(1)
    }

    /// A place in a list of so many.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(u64::try_from(length).unwrap())).unwrap()
    }

    /// Above 0 and below 1.
    pub fn fraction(&mut self) -> f64 {
        let [a, b, c, d, ..] = self.bits().to_le_bytes();
        (f64::from(u32::from_le_bytes([a, b, c, d])) + 0.5) / 4_294_967_296.0
    }
}

impl Iterator for Chance {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        Some(self.bits())
    }
}
