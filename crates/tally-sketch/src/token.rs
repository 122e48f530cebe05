//! The token of one element: 32 bits with what a sketch needs of the element's 64-bit hash.
//!
//! Invariant: [`Token::register`] and [`Token::rank`] equal what the full hash would give, for every hash. No rank is
//! capped: 12 index bits and 38 further bits are the 50 that ranks need.
//!
//! Bit layout, a stored format:
//!
//! ```text
//! bit  31 ············ 18 │ 17 ·········· 6 │ 5 ··············· 0
//!      register (14)      │ next 12 bits    │ leading zeros (6)
//!      └ the top 26 bits of the hash ┘        of its other 38 bits: 0 to 38
//! ```
//!
//! **Source**: hash tokens with v = 26: Ertl, "ExaLogLog" (2024), section on sparse mode.

use super::error::SketchError;
use serde::{Deserialize, Serialize};

/// Bits of the hash that name the register: p = 14.
pub(super) const PRECISION: u32 = 14;

/// The largest rank: 64 − 14 = 50 bits can all be zero, and a rank is one more than the zeros.
pub(super) const RANK_MAX: u8 = 51;

/// Low bits of a token that count leading zeros; 2^6 = 64 > 38.
const ZEROS_BITS: u32 = 6;
const ZEROS_MASK: u32 = (1 << ZEROS_BITS) - 1;

/// Bits of the hash kept as they are: 32 − 6.
pub(super) const INDEX_BITS: u32 = 26;

/// The most leading zeros there can be: 64 − 26.
const ZEROS_MAX: u32 = 38;

/// Index bits beyond those of the register: 26 − 14.
const EXTRA_BITS: u32 = INDEX_BITS - PRECISION;
const EXTRA_MASK: u32 = ((1 << EXTRA_BITS) - 1) << ZEROS_BITS;

/// 32 bits of an element's hash, enough for every form of the sketch.
///
/// Two distinct elements share a token with probability 1 in 3 · 2^26. Tokens are ordered by
/// [`Token::bits`], so first by register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Token(u32);

impl TryFrom<u32> for Token {
    type Error = SketchError;

    fn try_from(bits: u32) -> Result<Self, Self::Error> {
        Self::from_bits(bits).ok_or(SketchError::of_token(bits))
    }
}

impl From<Token> for u32 {
    fn from(token: Token) -> Self {
        token.0
    }
}

impl Token {
    // Inlined, this and what follows from it: a build for size would call functions of few instructions,
    // and insert many tokens in 2.7 ns each instead of 1.3 (`cargo bench --bench native -- sketch`).
    /// Returns the token of a 64-bit hash, which must be spread over all of `u64`.
    #[inline(always)]
    pub fn from_hash(hash: u64) -> Self {
        let [a, b, c, d, ..] = hash.to_be_bytes();
        let index = u32::from_be_bytes([a, b, c, d]) & !ZEROS_MASK;
        // The bit set below the 38 ends the count at 38 when all of them are zero.
        let rest = (hash << INDEX_BITS) | (1 << (INDEX_BITS - 1));
        Self(index | rest.leading_zeros())
    }

    /// Returns the token with these stored bits; `None` where no hash has them, that is where the
    /// low 6 bits are above 38.
    pub fn from_bits(bits: u32) -> Option<Self> {
        (bits & ZEROS_MASK <= ZEROS_MAX).then_some(Self(bits))
    }

    /// Returns the bits to store, in the layout this module opens with.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Returns the register of the element, 0 to 16,383: the top 14 bits of its hash.
    #[inline(always)]
    pub fn register(self) -> u16 {
        let [a, b, ..] = self.0.to_be_bytes();
        u16::from_be_bytes([a, b]) >> (16 - PRECISION)
    }

    /// Returns the rank of the element, 1 to 51: one more than the leading zeros of the 50 bits of
    /// its hash that follow the register.
    #[inline(always)]
    pub fn rank(self) -> u8 {
        let extra = self.0 & EXTRA_MASK;
        let zeros = if extra == 0 {
            EXTRA_BITS + (self.0 & ZEROS_MASK)
        } else {
            (extra << PRECISION).leading_zeros()
        };
        // At most 12 + 38 zeros, so the low byte is all of it.
        let [rank, ..] = (zeros + 1).to_le_bytes();
        rank
    }
}
