//! Square roots, as IEEE 754 rounds them: to the nearest, ties to even.
//!
//! Invariant: both ways give the same bits, so an estimate is the same with and without `std`.

/// Returns the square root of a number that is finite and not negative.
#[cfg(feature = "std")]
pub(super) fn square_root(number: f64) -> f64 {
    number.sqrt()
}

#[cfg(not(feature = "std"))]
pub(super) use of_integers as square_root;

/// Bits of a fraction.
#[cfg(any(test, not(feature = "std")))]
const FRACTION_BITS: u32 = 52;
/// What is added to an exponent when it is stored.
#[cfg(any(test, not(feature = "std")))]
const BIAS: i32 = 1_023;

/// Returns the same. Cost: a square root of 128 bits.
#[cfg(any(test, not(feature = "std")))]
#[expect(
    clippy::as_conversions,
    reason = "there is no `From`, and rounding is meant"
)]
pub(super) fn of_integers(number: f64) -> f64 {
    if number <= 0.0 || !number.is_finite() {
        return number;
    }
    let bits = number.to_bits();
    let fraction = u128::from(bits & ((1 << FRACTION_BITS) - 1));
    let exponent = (bits >> FRACTION_BITS) as i32;
    // The number is significand · 2^power.
    let (significand, power) = match exponent {
        0 => (fraction, 1 - BIAS - FRACTION_BITS as i32),
        _ => (
            fraction | 1 << FRACTION_BITS,
            exponent - BIAS - FRACTION_BITS as i32,
        ),
    };
    // The significand is moved left as far as an even power allows: the root then has 64 bits, 11 more than are kept.
    let room = significand.leading_zeros() as i32;
    let shift = room - ((power - room) & 1);
    let square = significand << shift;
    let root = square.isqrt();
    // The remainder of the root sets its last bit, because rounding needs to know whether the root is exact.
    let is_inexact = u128::from(root * root != square);
    let half_power = (power - shift) / 2;
    let scale = f64::from_bits(((half_power + BIAS) as u64) << FRACTION_BITS);
    ((root | is_inexact) as u64) as f64 * scale
}

#[cfg(test)]
mod tests {
    use super::of_integers;

    #[test]
    fn a_root_made_of_integers_has_the_bits_of_the_processors() {
        let mut bits: u64 = 1;
        let ends = [0, 1, (1 << 52) - 1, 1 << 52, 0x7fef_ffff_ffff_ffff];
        let drawn = core::iter::repeat_with(|| {
            bits = bits.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            // Half of them between 0 and 1, as the terms of estimates are.
            let exponent_bits = if bits & 1 == 0 { 0x3fff } else { 0x7fef };
            (bits.rotate_left(17) & 0x000f_ffff_ffff_ffff) | ((bits >> 3) & exponent_bits) << 48
        });
        for bits in ends.into_iter().chain(drawn.take(200_000)) {
            let number = f64::from_bits(bits & 0x7fff_ffff_ffff_ffff);
            if number.is_finite() {
                assert_eq!(
                    of_integers(number).to_bits(),
                    number.sqrt().to_bits(),
                    "{number:e}"
                );
            }
        }
    }

    #[test]
    fn squares_have_whole_roots() {
        for root in (0..1_u32 << 26).step_by(997) {
            let root = f64::from(root);
            assert_eq!(of_integers(root * root).to_bits(), root.to_bits());
        }
    }
}
