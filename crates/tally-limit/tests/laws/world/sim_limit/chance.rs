//! What is drawn in a world of limits.

use tally_testing::chance::Chance;

pub fn between_ms(chance: &mut Chance, from: i64, to: i64) -> i64 {
    from + i64::try_from(chance.below(u64::try_from(to - from).unwrap())).unwrap()
}

/// In 0 to 1, without 0.
pub fn part(chance: &mut Chance) -> f64 {
    (chance.bits() >> 11) as f64 / (1_u64 << 53) as f64 + 1e-17
}
