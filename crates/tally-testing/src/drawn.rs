//! Sketches for statistics: of any number of random elements, without inserting each.

use tally_sketch::Sketch;

use super::chance::Chance;

/// A dense sketch whose registers are drawn as `truth` elements would leave them: a register is at most
/// k with probability exp(−truth / 16,384 · 2^−k). The number itself strays by its square root.
pub fn drawn_sketch(truth: f64, random: &mut Chance) -> Sketch {
    let mut bytes = vec![1, 1];
    for _ in 0..4_096 {
        let mut group: u32 = 0;
        for index in 0..4 {
            let bound = -random.fraction().ln();
            let (mut rate, mut rank) = (truth / 16_384.0, 0);
            while rate > bound && rank < 51 {
                rate /= 2.0;
                rank += 1;
            }
            group |= rank << (6 * index);
        }
        bytes.extend_from_slice(&group.to_le_bytes()[..3]);
    }
    if truth == 0.0 {
        return Sketch::new();
    }
    Sketch::from_bytes(&bytes).unwrap()
}
