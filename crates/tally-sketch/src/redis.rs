//! HyperLogLog as Redis has it: its hash, its registers, its estimate to the digit, and its string.
//!
//! Invariant: a [`Hll`] depends on the set of elements it saw and on whether something dense was read into it, never
//! on order or repeats. For the same elements, Redis has the same registers. So merging is commutative, associative and
//! idempotent, here, in Redis, and across both.
//!
//! Redis takes the register from the low bits of a hash and counts zeros from the lowest bit upwards. A [`Token`] uses
//! the high bits, and counts downwards. [`redis_token`] reverses the hash, so that Redis's registers and ranks are
//! those of the token. Elements hashed in this way can be collected in a [`Sketch`] like any others, in few bytes while
//! they are few:
//!
//! ```text
//! element ── redis_token ──► Token ── Sketch::insert ──► Sketch ── Hll::from ──► to_bytes ──► Redis
//! Redis ──► Hll::from_bytes ── Sketch::from ──► Sketch ── merge ──► Sketch ── Hll::from ──► estimate
//! ```
//!
//! The hash has no key: whoever chooses elements can set the estimate at will.
//!
//! **Source**: Redis 7.0, `hyperloglog.c`, its description of the string and what it was seen to write.

pub(super) mod string;

use super::estimate;
use super::hyperloglog::{Form, Sketch};
use super::registers::Registers;
use super::token::{PRECISION, Token};
use core::fmt;

/// The seed that Redis hashes with.
const SEED: u64 = 0xadc8_3b19;

/// The multiplier of MurmurHash64A, and the shift that mixes its product.
const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;

/// Returns the 64-bit hash by which Redis counts `element`. It is spread over all of `u64`, and has no secret.
///
/// **Source**: Appleby, MurmurHash2, 64-bit version "A" (2008), with the seed 0xadc83b19 and words
/// read as little-endian.
pub fn redis_hash(element: &[u8]) -> u64 {
    let (words, tail) = element.as_chunks::<8>();
    let length = u64::try_from(element.len()).unwrap_or(u64::MAX);
    let mut state = SEED ^ length.wrapping_mul(MULTIPLIER);
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        word ^= word >> SHIFT;
        state = (state ^ word.wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
    }
    if !tail.is_empty() {
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(tail) {
            *to = *from;
        }
        state = (state ^ u64::from_le_bytes(last)).wrapping_mul(MULTIPLIER);
    }
    state = (state ^ (state >> SHIFT)).wrapping_mul(MULTIPLIER);
    state ^ (state >> SHIFT)
}

/// Returns the token of `element` by Redis's hash: its register is the low 14 bits of the hash, its
/// rank one more than the trailing zeros of the 50 bits above them, at most 51.
///
/// Tokens of another hash must not be in the same sketch: an element would count twice.
pub fn redis_token(element: &[u8]) -> Token {
    redis_token_of(redis_hash(element))
}

/// Returns the token of the element with this [`redis_hash`].
pub fn redis_token_of(hash: u64) -> Token {
    let rest = (hash >> PRECISION) << PRECISION;
    Token::from_hash(rest.reverse_bits() | (hash << (u64::BITS - PRECISION)))
}

/// The registers of a Redis HyperLogLog, of elements by [`redis_token`].
///
/// Equal ones have the same registers, and so the same estimate; their strings may differ in form.
///
/// ```
/// use tally_sketch::{Hll, redis_token};
///
/// let mut visitors = Hll::new();
/// for visitor in ["ada", "bob", "ada"] {
///     visitors.insert(redis_token(visitor.as_bytes()));
/// }
/// // What `GET` of the key answers, and `SET` takes.
/// let string = visitors.to_bytes();
/// assert_eq!(Hll::from_bytes(&string)?.estimate(), 2);
/// # Ok::<(), tally_sketch::HllError>(())
/// ```
#[derive(Clone)]
pub struct Hll {
    registers: Registers,
    /// Whether the string is dense: Redis never makes a dense string sparse again, nor a string into which a dense one
    /// was merged.
    is_dense: bool,
}

impl PartialEq for Hll {
    fn eq(&self, other: &Self) -> bool {
        self.registers == other.registers
    }
}

impl Eq for Hll {}

impl Default for Hll {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Hll {
    /// Shows only the estimate: 16,384 registers are of no use in a log.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Hll(about {} elements)", self.estimate())
    }
}

impl Hll {
    /// Returns the registers of no elements. Cost: 16,384 bytes of memory, as for any other.
    pub fn new() -> Self {
        Self {
            registers: Registers::blank(),
            is_dense: false,
        }
    }

    /// Adds an element by its [`redis_token`], and returns what `PFADD` answers: whether a register grew.
    pub fn insert(&mut self, token: Token) -> bool {
        self.registers.insert(token)
    }

    /// Adds all that `other` saw, as `PFMERGE` does, and returns whether a register grew.
    pub fn merge(&mut self, other: &Self) -> bool {
        self.is_dense |= other.is_dense;
        self.registers.merge(&other.registers)
    }

    /// Returns what `PFCOUNT` answers: the estimated number of distinct elements, rounded half up.
    ///
    /// Its relative standard error is [`super::STANDARD_ERROR`]. Cost: a pass over 16,384 registers.
    ///
    /// **Source**: Redis 7.0 computes Ertl's improved estimator (2017, algorithm 6) in doubles, by the
    /// same operations in the same order as [`super::Sketch::estimate`] does.
    #[expect(
        clippy::as_conversions,
        clippy::cast_precision_loss,
        reason = "estimates are finite and not negative; `as` saturates at 2^64 − 1, and from 2^53 on all are whole"
    )]
    pub fn estimate(&self) -> u64 {
        let estimate = estimate::from_histogram(&self.registers.histogram());
        let whole = estimate as u64;
        whole.saturating_add(u64::from(estimate - whole as f64 >= 0.5))
    }

    /// Returns whether no element was seen; then the estimate is 0.
    pub fn is_empty(&self) -> bool {
        self.registers.is_blank()
    }
}

impl From<&Sketch> for Hll {
    /// Returns the registers of all that the sketch saw, by tokens of [`redis_token`].
    fn from(sketch: &Sketch) -> Self {
        let registers = match &sketch.0 {
            Form::Sparse(tokens) => {
                let mut registers = Registers::blank();
                registers.insert_all(tokens);
                registers
            }
            Form::Dense(registers) => registers.clone(),
        };
        Self {
            registers,
            is_dense: false,
        }
    }
}

impl From<&Hll> for Sketch {
    /// Returns the sketch of these registers. It is empty, or else dense, because tokens cannot be computed from
    /// registers.
    fn from(hll: &Hll) -> Self {
        if hll.is_empty() {
            Self::new()
        } else {
            Self(Form::Dense(hll.registers.clone()))
        }
    }
}
