//! Keys in a form that compares in constant time.
//!
//! Invariant: a fixed key is `KEY_BYTES_MAX` bytes, zero-padded; keys hold no zero bytes. So equal values mean equal
//! keys, and a comparison takes the same steps whatever the key's content or length. The time reveals only that a
//! presented key is outside the allowed lengths, which its sender knows already.

use subtle::{Choice, ConstantTimeEq};

/// The shortest key of a caller, in bytes: 16 random hexadecimal digits carry 64 bits.
pub const KEY_BYTES_MIN: usize = 16;

/// The longest key of a caller, in bytes: 64 random bytes in hexadecimal.
pub const KEY_BYTES_MAX: usize = WORDS * WORD_BYTES;

const WORD_BYTES: usize = 8;

/// 16 × 8 = 128 bytes. The comparison is by words: 1,000 keys compared byte by byte would take 128,000 steps.
const WORDS: usize = 16;

/// A key, zero-padded.
pub(super) struct FixedKey([u64; WORDS]);

impl FixedKey {
    /// Returns the key in fixed form; `None` if its length is not allowed or it holds anything but visible ASCII, which
    /// is all that a header can carry.
    pub(super) fn new(text: &str) -> Option<Self> {
        let right_size = (KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&text.len());
        if !right_size || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let mut words = [0; WORDS];
        for (word, chunk) in words.iter_mut().zip(text.as_bytes().chunks(WORD_BYTES)) {
            let mut padded = [0; WORD_BYTES];
            padded[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_le_bytes(padded);
        }
        Some(Self(words))
    }
}

impl ConstantTimeEq for FixedKey {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl std::fmt::Debug for FixedKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("FixedKey(hidden)")
    }
}
