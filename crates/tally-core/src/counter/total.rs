//! Totals of one cell and of all cells: 192 bits. One increment adds at most [`DELTA_MAX`], so no total overflows:
//! 2^129 increments would be needed.

use std::cmp::Ordering;
use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::SerializeTuple;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The largest amount of one increment or decrement.
pub const DELTA_MAX: u128 = 1 << 63;

/// A sum of cell totals: `high · 2^128 + low`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sum {
    high: u64,
    low: u128,
}

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Self = Self { high: 0, low: 0 };

    /// Adds another sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let (low, carry) = self.low.overflowing_add(other.low);
        let high = self
            .high
            .saturating_add(other.high)
            .saturating_add(u64::from(carry));
        Self { high, low }
    }

    /// Subtracts a sum that is not larger; zero where it is.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        let high = self
            .high
            .saturating_sub(other.high)
            .saturating_sub(u64::from(borrow));
        Self { high, low }
    }

    /// Parses decimal digits; `None` for other text, or for more than 192 bits.
    pub fn parse(digits: &str) -> Option<Self> {
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let mut digits = digits
            .bytes()
            .map(|byte| u128::from(byte.wrapping_sub(b'0')));
        digits.try_fold(Self::ZERO, |sum, digit| {
            let Self { high, low } = sum;
            // The low part is multiplied in halves, because ten times it may have 132 bits.
            let (above, below) = (low >> 64, low & u128::from(u64::MAX));
            let below = below * 10 + digit;
            let above = above * 10 + (below >> 64);
            let carry = u64::try_from(above >> 64).ok()?;
            Some(Self {
                high: high.checked_mul(10)?.checked_add(carry)?,
                low: (above << 64) | (below & u128::from(u64::MAX)),
            })
        })
    }

    /// Seven bits, shifted left; `None` if they do not fit into 192 bits.
    fn shifted(bits: u8, shift: u32) -> Option<Self> {
        let low_bits = u128::BITS;
        if shift >= low_bits {
            let high = u64::from(bits).checked_shl(shift - low_bits)?;
            let is_whole = high >> (shift - low_bits) == u64::from(bits);
            return is_whole.then_some(Self { high, low: 0 });
        }
        let low = u128::from(bits) << shift;
        let high = u64::from(bits).checked_shr(low_bits - shift).unwrap_or(0);
        Some(Self { high, low })
    }

    /// The number of bits up to the highest one; 0 for zero.
    pub fn bits(self) -> u32 {
        match self.high {
            0 => u128::BITS - self.low.leading_zeros(),
            high => u128::BITS + u64::BITS - high.leading_zeros(),
        }
    }

    /// The sum without its lowest `bits` bits.
    fn shifted_right(self, bits: u32) -> Self {
        let high = u128::from(self.high);
        match bits {
            0 => self,
            u128::BITS.. => Self::from(high >> (bits - u128::BITS)),
            _ => Self {
                high: self.high.checked_shr(bits).unwrap_or(0),
                low: (self.low >> bits) | (high << (u128::BITS - bits)),
            },
        }
    }

    /// Its lowest 128 bits.
    pub fn low_bits(self) -> u128 {
        self.low
    }
}

/// A total in the stored form of a cell: a varint of up to 192 bits, seven to a byte, the lowest first. Below 2^128 its
/// bytes are those of postcard's `u128`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CellTotal(Sum);

/// Bytes of the longest varint: 192 bits, seven to a byte.
const VARINT_BYTES_MAX: usize = 192_usize.div_ceil(7);

/// The bits of a varint in each byte. The next higher bit says that another byte follows.
const VARINT_BITS: u32 = 7;
const VARINT_MORE: u8 = 1 << VARINT_BITS;

impl CellTotal {
    /// Nothing.
    pub const ZERO: Self = Self(Sum::ZERO);

    /// Adds an amount.
    #[must_use]
    pub fn plus(self, amount: u128) -> Self {
        Self(self.0.plus(amount.into()))
    }

    /// Adds a sum.
    #[must_use]
    pub fn plus_sum(self, amount: Sum) -> Self {
        Self(self.0.plus(amount))
    }
}

impl From<u128> for CellTotal {
    fn from(total: u128) -> Self {
        Self(total.into())
    }
}

impl From<CellTotal> for Sum {
    fn from(total: CellTotal) -> Self {
        total.0
    }
}

impl PartialEq<u128> for CellTotal {
    fn eq(&self, other: &u128) -> bool {
        self.0 == Sum::from(*other)
    }
}

impl Serialize for CellTotal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Sum { mut high, mut low } = self.0;
        let (mut bytes, mut length) = ([0_u8; VARINT_BYTES_MAX], 0);
        for byte in &mut bytes {
            let bits = u8::try_from(low & u128::from(VARINT_MORE - 1)).unwrap_or(0);
            low = (low >> VARINT_BITS) | (u128::from(high) << (u128::BITS - VARINT_BITS));
            high >>= VARINT_BITS;
            length += 1;
            let is_last = (high, low) == (0, 0);
            *byte = if is_last { bits } else { bits | VARINT_MORE };
            if is_last {
                break;
            }
        }
        // A serialized tuple has no length prefix.
        let mut tuple = serializer.serialize_tuple(length)?;
        for byte in bytes.iter().take(length) {
            tuple.serialize_element(byte)?;
        }
        tuple.end()
    }
}

impl<'de> Deserialize<'de> for CellTotal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_tuple(VARINT_BYTES_MAX, Varint)
    }
}

/// Reads a varint byte by byte, to its last one.
struct Varint;

impl<'de> Visitor<'de> for Varint {
    type Value = CellTotal;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a varint of up to 192 bits")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut bytes: A) -> Result<CellTotal, A::Error> {
        let too_long = || A::Error::custom("a total has more than 192 bits");
        let mut sum = Sum::ZERO;
        let mut shift = 0;
        while let Some(byte) = bytes.next_element::<u8>()? {
            let bits = byte & (VARINT_MORE - 1);
            let part = Sum::shifted(bits, shift).ok_or_else(too_long)?;
            sum = sum.plus(part);
            if byte == bits {
                return Ok(CellTotal(sum));
            }
            shift += VARINT_BITS;
        }
        Err(too_long())
    }
}

impl From<u128> for Sum {
    fn from(low: u128) -> Self {
        Self { high: 0, low }
    }
}

impl std::iter::Sum for Sum {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::ZERO, Self::plus)
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.high == 0 {
            return write!(formatter, "{}", self.low);
        }
        write!(formatter, "{}", decimal_of_wide(self.high, self.low))
    }
}

/// Decimal digits by long division of 32-bit limbs by 10^9, most significant limb first. The running remainder (below
/// 10^9) and a limb (below 2^32) together stay below 2^62.
fn decimal_of_wide(high: u64, low: u128) -> String {
    const CHUNK: u64 = 1_000_000_000;
    const LIMB_BITS: u32 = 32;
    const LIMB_MASK: u64 = 0xffff_ffff;
    let part = |shift: u32| u64::try_from((low >> shift) & u128::from(LIMB_MASK)).unwrap_or(0);
    let mut limbs = [
        high >> LIMB_BITS,
        high & LIMB_MASK,
        part(96),
        part(64),
        part(32),
        part(0),
    ];
    let mut chunks = Vec::new();
    while limbs.iter().any(|limb| *limb != 0) {
        let mut remainder = 0;
        for limb in &mut limbs {
            let current = (remainder << LIMB_BITS) | *limb;
            *limb = current / CHUNK;
            remainder = current % CHUNK;
        }
        chunks.push(remainder);
    }
    let mut text = chunks.pop().unwrap_or(0).to_string();
    for chunk in chunks.iter().rev() {
        text.push_str(&format!("{chunk:09}"));
    }
    text
}

/// The value of a counter: added minus removed, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    added: Sum,
    removed: Sum,
}

/// The largest integer up to which JavaScript numbers are exact: 2^53 − 1.
pub const JAVASCRIPT_SAFE_MAX: u128 = (1 << 53) - 1;

/// The bits of a value of [`Value::within_62_bits`]: two of them can be added and subtracted in 64 bits.
const WITHIN_BITS: u32 = 62;

impl Value {
    /// The value of these totals.
    pub fn new(added: impl Into<Sum>, removed: impl Into<Sum>) -> Self {
        Self {
            added: added.into(),
            removed: removed.into(),
        }
    }

    /// The totals (added, removed).
    pub fn totals(self) -> (Sum, Sum) {
        (self.added, self.removed)
    }

    /// Adds the value of another cell or datacenter.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            added: self.added.plus(other.added),
            removed: self.removed.plus(other.removed),
        }
    }

    /// Takes away later increments and decrements. The caller knows that they are included.
    #[must_use]
    pub fn without(self, added: impl Into<Sum>, removed: impl Into<Sum>) -> Self {
        // a − b = a + (−b): moving an amount to the other side keeps both sides sums.
        Self {
            added: self.added.plus(removed.into()),
            removed: self.removed.plus(added.into()),
        }
    }

    /// The value with the opposite sign.
    #[must_use]
    pub fn negated(self) -> Self {
        Self {
            added: self.removed,
            removed: self.added,
        }
    }

    /// The value as a sum; `None` for one that is negative.
    pub fn not_negative(self) -> Option<Sum> {
        (self.added >= self.removed).then(|| self.magnitude())
    }

    /// The larger of two values.
    #[must_use]
    pub fn or_more(self, other: Self) -> Self {
        if self.is_below(other) { other } else { self }
    }

    /// Whether it is less than another.
    pub fn is_below(self, other: Self) -> bool {
        // a − b < c − d exactly if a + d < c + b, and that has no negative numbers.
        self.added.plus(other.removed) < other.added.plus(self.removed)
    }

    /// The value as a signed 64-bit number; `None` if it does not fit.
    pub fn to_i64(self) -> Option<i64> {
        let Sum { high: 0, low } = self.magnitude() else {
            return None;
        };
        let magnitude = u64::try_from(low).ok()?;
        if self.added < self.removed {
            0_i64.checked_sub_unsigned(magnitude)
        } else {
            i64::try_from(magnitude).ok()
        }
    }

    /// The value, clamped to ±2^62.
    pub fn within_62_bits(self) -> i64 {
        let bound = Sum::from(1_u128 << WITHIN_BITS);
        let magnitude = self.magnitude().min(bound).low_bits();
        let magnitude = i64::try_from(magnitude).unwrap_or(i64::MAX);
        if self.added < self.removed {
            -magnitude
        } else {
            magnitude
        }
    }

    /// Whether [`Self::within_62_bits`] clamps it.
    pub fn is_beyond_62_bits(self) -> bool {
        self.magnitude() > Sum::from(1_u128 << WITHIN_BITS)
    }

    /// A monotone measure of the value that seldom changes: a step is an eighth of a power of two.
    pub fn size(self) -> i32 {
        let magnitude = self.magnitude();
        let Some(bits) = magnitude.bits().checked_sub(1) else {
            return 0;
        };
        // The three bits below the highest.
        let below = (magnitude.shifted_right(bits.saturating_sub(3)).low_bits()
            << 3_u32.saturating_sub(bits))
            & 7;
        let size = 1 + 8 * i32::try_from(bits).unwrap_or(0) + i32::try_from(below).unwrap_or(0);
        if self.added < self.removed {
            -size
        } else {
            size
        }
    }

    /// Whether a JavaScript number holds it exactly.
    pub fn is_javascript_safe(self) -> bool {
        self.magnitude() <= Sum::from(JAVASCRIPT_SAFE_MAX)
    }

    fn magnitude(self) -> Sum {
        if self.added >= self.removed {
            self.added.minus(self.removed)
        } else {
            self.removed.minus(self.added)
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.added.cmp(&self.removed) == Ordering::Less {
            "-"
        } else {
            ""
        };
        write!(formatter, "{sign}{}", self.magnitude())
    }
}
