//! Sketches for statistics: of random elements, and of any number of them without inserting each.

use tally::core::sketch::Sketch;

/// Hashes for tests, 64 good bits each. Source: Steele, Lea and Flood, SplitMix (2014).
pub struct SplitMix(u64);

impl SplitMix {
    pub fn hash(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Above 0 and below 1.
    pub fn fraction(&mut self) -> f64 {
        let [a, b, c, d, ..] = self.hash().to_le_bytes();
        (f64::from(u32::from_le_bytes([a, b, c, d])) + 0.5) / 4_294_967_296.0
    }
}

/// The generator of one run: streams that start apart by a mixed seed.
pub fn run(seed: u64) -> SplitMix {
    SplitMix(SplitMix(seed).hash())
}

/// A dense sketch whose registers are drawn as `truth` elements would leave them: a register is at most
/// k with probability exp(−truth / 16,384 · 2^−k). The number itself strays by its square root.
pub fn drawn_sketch(truth: f64, random: &mut SplitMix) -> Sketch {
    let mut bytes = vec![1, 1];
    for _ in 0..4_096 {
        let mut group: u32 = 0;
        for place in 0..4 {
            let bound = -random.fraction().ln();
            let (mut rate, mut rank) = (truth / 16_384.0, 0);
            while rate > bound && rank < 51 {
                rate /= 2.0;
                rank += 1;
            }
            group |= rank << (6 * place);
        }
        bytes.extend_from_slice(&group.to_le_bytes()[..3]);
    }
    if truth == 0.0 {
        return Sketch::new();
    }
    Sketch::from_bytes(&bytes).unwrap()
}
