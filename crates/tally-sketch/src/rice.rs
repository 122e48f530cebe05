//! Ascending numbers in few bits. A Rice code holds each distance to the previous number; a small value of fixed width
//! follows it.
//!
//! Invariant: [`unpack`] returns what [`pack`] was given. For bytes that `pack` cannot write, it returns `None` or
//! other ascending numbers, never more of them than there are bits.
//!
//! A Rice code of parameter k writes ⌊distance / 2^k⌋ ones, a zero, and k bits. For n numbers spread
//! evenly below N the mean distance is N/n, and with k about log2(0.69 · N/n) a distance takes about
//! log2(N/n) + 1.5 bits: a changed register of 16,384 with its 6 bits takes 18 bits where 10 changed,
//! 15 where 100 did, 11.5 where 1,000 did. Bytes for distances would take 24 bits where 10 changed.
//!
//! **Source**: Rice, "Some practical universal noiseless coding techniques" (1979); the parameter:
//! Kiely, "Selecting the Golomb parameter in Rice coding" (2004).

use alloc::vec::Vec;

/// The bits of a count, or of a first number, that one byte holds.
const SEVEN: u32 = 7;

/// The widest parameter: distances have 32 bits.
const PARAMETER_MAX: u32 = 31;

/// Returns the numbers packed, which must ascend strictly, each with the low `value_bits` (at most 8)
/// of its value.
pub(super) fn pack(numbers: &[(u32, u8)], value_bits: u32) -> Vec<u8> {
    let count = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
    let last = numbers.last().map_or(0, |(last, _)| *last);
    let parameter = parameter(last, count);
    let mut bits = Writer::default();
    bits.varint(count);
    bits.put(parameter, 5);
    let mut next = 0;
    for &(number, value) in numbers {
        let distance = number.saturating_sub(next);
        for _ in 0..(distance >> parameter) {
            bits.put(1, 1);
        }
        bits.put(0, 1);
        bits.put(distance, parameter);
        bits.put(value.into(), value_bits);
        next = number.saturating_add(1);
    }
    bits.finish()
}

/// Returns the numbers that [`pack`] was given; `None` where the bytes end too early or a number would
/// pass `u32`.
pub(super) fn unpack(bytes: &[u8], value_bits: u32) -> Option<Vec<(u32, u8)>> {
    let mut bits = Reader { bytes, at: 0 };
    let count = bits.varint()?;
    let parameter = bits.take(5)?;
    let mut numbers = Vec::new();
    let mut next: u64 = 0;
    for _ in 0..count {
        let mut quotient: u64 = 0;
        while bits.take(1)? == 1 {
            quotient += 1;
        }
        let distance = (quotient << parameter) | u64::from(bits.take(parameter)?);
        let number = u32::try_from(next + distance).ok()?;
        let value = u8::try_from(bits.take(value_bits)?).ok()?;
        numbers.push((number, value));
        next = u64::from(number) + 1;
    }
    Some(numbers)
}

/// About log2(0.69 · mean distance).
fn parameter(last: u32, count: u32) -> u32 {
    let mean = u64::from(last.saturating_sub(count)) / u64::from(count.max(1));
    let scaled = mean * 7 / 10;
    scaled.checked_ilog2().unwrap_or(0).min(PARAMETER_MAX)
}

/// Bits one after the other, the least significant of each byte first.
#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    held: u64,
    held_bits: u32,
}

impl Writer {
    /// Appends the low `width` bits, at most 32.
    fn put(&mut self, value: u32, width: u32) {
        let masked = u64::from(value) & ((1 << width) - 1);
        self.held |= masked << self.held_bits;
        self.held_bits += width;
        while self.held_bits >= u8::BITS {
            let [low, ..] = self.held.to_le_bytes();
            self.bytes.push(low);
            self.held >>= u8::BITS;
            self.held_bits -= u8::BITS;
        }
    }

    fn varint(&mut self, mut value: u32) {
        while value >> SEVEN != 0 {
            self.put(value | (1 << SEVEN), SEVEN + 1);
            value >>= SEVEN;
        }
        self.put(value, SEVEN + 1);
    }

    fn finish(mut self) -> Vec<u8> {
        if self.held_bits > 0 {
            self.put(0, u8::BITS - self.held_bits);
        }
        self.bytes
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, width: u32) -> Option<u32> {
        let mut value = 0;
        for shift in 0..width {
            let byte = self.bytes.get(self.at / 8)?;
            let bit = (byte >> (self.at % 8)) & 1;
            value |= u32::from(bit) << shift;
            self.at += 1;
        }
        Some(value)
    }

    fn varint(&mut self) -> Option<u32> {
        let mut value = 0;
        for group_index in 0..5 {
            let group = self.take(SEVEN + 1)?;
            value |= (group & ((1 << SEVEN) - 1)).checked_shl(group_index * SEVEN)?;
            if group >> SEVEN == 0 {
                return Some(value);
            }
        }
        None
    }
}
