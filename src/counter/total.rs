//! Totals wider than any one cell: a cell's total is at most 2^128 − 1, and a sum of up to 2^64
//! cells fits 192 bits, so no sum of totals can overflow.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

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
    fn minus(self, other: Self) -> Self {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        let high = self
            .high
            .saturating_sub(other.high)
            .saturating_sub(u64::from(borrow));
        Self { high, low }
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

/// Decimal digits by long division of 32-bit limbs by 10^9, most significant limb first: the
/// running remainder (below 10^9) and a limb (below 2^32) together stay below 2^62.
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

/// What a counter reads: added minus removed, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    added: Sum,
    removed: Sum,
}

/// The largest whole number that JavaScript keeps exactly: 2^53 − 1.
pub const JAVASCRIPT_SAFE_MAX: u128 = (1 << 53) - 1;

impl Value {
    /// The value of these totals.
    pub fn new(added: impl Into<Sum>, removed: impl Into<Sum>) -> Self {
        Self {
            added: added.into(),
            removed: removed.into(),
        }
    }

    /// What was added and removed.
    pub fn totals(self) -> (Sum, Sum) {
        (self.added, self.removed)
    }

    /// Adds what another cell or datacenter holds.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            added: self.added.plus(other.added),
            removed: self.removed.plus(other.removed),
        }
    }

    /// Takes away what came later, which the caller knows to be included.
    #[must_use]
    pub fn without(self, added: u128, removed: u128) -> Self {
        // a − b = a + (−b): moving an amount to the other side keeps both sides sums.
        Self {
            added: self.added.plus(removed.into()),
            removed: self.removed.plus(added.into()),
        }
    }

    /// The same amount below zero.
    #[must_use]
    pub fn negated(self) -> Self {
        Self {
            added: self.removed,
            removed: self.added,
        }
    }

    /// The larger of two values.
    #[must_use]
    pub fn or_more(self, other: Self) -> Self {
        if self.is_below(other) { other } else { self }
    }

    /// Whether it is less than another.
    pub fn is_below(self, other: Self) -> bool {
        // a − b < c − d exactly if a + d < c + b, which has no negative numbers in it.
        self.added.plus(other.removed) < other.added.plus(self.removed)
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
