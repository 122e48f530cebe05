//! The estimated number of elements, from the content of a sketch.
//!
//! Invariant: an estimate is finite, from 0 to 2^64, and the same to the last bit on every
//! machine: only additions, multiplications, divisions and square roots, which IEEE 754 rounds
//! in one way.

use super::registers::{RANKS, REGISTERS};
use super::square_root::square_root;

/// The registers as a number to compute with.
const COUNT: f64 = 16_384.0;
const _: () = assert!(REGISTERS == 16_384);

/// The most terms of a series. About 20 change the sum: those of σ then shrink by squaring, those
/// of τ eightfold each.
const TERMS_MAX: u32 = 64;

/// The relative standard error of a dense sketch: 1.04 / √(2^14) = 1.04 / 128.
///
/// **Source**: Flajolet et al., "HyperLogLog" (2007), theorem 1.
pub const STANDARD_ERROR: f64 = 1.04 / 128.0;

/// The relative standard error of a sparse sketch: 1 / √(6 · 2^26) = 1 / 20,066.
///
/// Two elements share a token with probability q = Σ (probability of a token)² = 2^-26 · (1/4 + 1/16 + …) = 2^-26 / 3.
/// Of n elements about n²/2 · q are hidden in this way. As rare events they follow a Poisson distribution: their
/// standard deviation is n · √(q/2).
pub(super) const SPARSE_STANDARD_ERROR: f64 = 4.983_5e-5;

/// 6 · 2^26, that is 2/q.
const SPARSE_PAIRS: f64 = 402_653_184.0;

/// The probability that two elements share a token: q, as above.
pub(super) const TOKEN_SHARED: f64 = 2.0 / SPARSE_PAIRS;

/// 2^64: there are no more hashes than this.
const ESTIMATE_MAX: f64 = 18_446_744_073_709_551_616.0;

/// 1 / (2 ln 2), the limit of the bias factor for many registers.
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// The elements behind `tokens` distinct tokens; exact for 0 and 1.
///
/// Each of the n(n−1)/2 pairs of n elements collides with probability q, and the number of distinct tokens is smaller
/// by that many collisions. A longer series would add less than 10^-6 for 3,072 tokens.
pub(super) fn from_tokens(tokens: u32) -> f64 {
    let tokens = f64::from(tokens);
    tokens + tokens * (tokens - 1.0) / SPARSE_PAIRS
}

/// The elements behind registers with this histogram of ranks.
///
/// **Source**: Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017),
/// algorithm 6. It needs neither bias tables nor a switch between ranges.
pub(super) fn from_histogram(histogram: &[u32; RANKS]) -> f64 {
    let [empty, between @ .., full] = histogram.map(f64::from);
    let mut z = COUNT * tau((COUNT - full) / COUNT);
    for count in between.iter().rev() {
        z = 0.5 * (z + count);
    }
    z += COUNT * sigma(empty / COUNT);
    // If every register is full, z is 0 and the quotient is infinite.
    (ALPHA * COUNT * COUNT / z).min(ESTIMATE_MAX)
}

/// σ(x) = x + Σ x^(2^k) · 2^(k−1) over k ≥ 1, for x from 0 to 1; infinite at 1.
fn sigma(x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut weight, mut sum) = (x, 1.0, x);
    for _ in 0..TERMS_MAX {
        power *= power;
        let next = sum + power * weight;
        if next <= sum {
            break;
        }
        sum = next;
        weight += weight;
    }
    sum
}

/// τ(x) = (1 − x − Σ (1 − x^(2^-k))² · 2^-k over k ≥ 1) / 3, for x from 0 to 1.
fn tau(x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut root, mut weight, mut rest) = (x, 1.0, 1.0 - x);
    for _ in 0..TERMS_MAX {
        root = square_root(root);
        weight *= 0.5;
        let next = rest - (1.0 - root) * (1.0 - root) * weight;
        if next >= rest {
            break;
        }
        rest = next;
    }
    rest / 3.0
}
