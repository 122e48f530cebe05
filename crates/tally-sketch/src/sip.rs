//! The keyed hash of elements: SipHash-1-3.
//!
//! Invariant: without the key nobody can choose elements by their hash. A known hash would let a
//! client set an estimate at will (Paterson and Raynal 2021; Reviriego et al. 2020).
//!
//! The hash is a stored format: tokens of it lie in rows, so it never changes under one key.

use core::fmt;

use super::token::Token;

/// The secret of a deployment under which elements are hashed: 16 bytes, never printed.
///
/// Build it with `HashKey::from([u8; 16])`. Two halves, each read as little-endian.
#[derive(Clone)]
pub struct HashKey {
    low: u64,
    high: u64,
}

impl From<[u8; 16]> for HashKey {
    fn from(bytes: [u8; 16]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
        Self {
            low: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            high: u64::from_le_bytes([i, j, k, l, m, n, o, p]),
        }
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HashKey(secret)")
    }
}

impl HashKey {
    /// Returns the token of an element under this key: [`Token::from_hash`] of its [`hash`].
    pub fn token(&self, element: &[u8]) -> Token {
        Token::from_hash(hash(self, element))
    }
}

/// Returns the 64-bit SipHash-1-3 of `bytes` under `key`, spread over all of `u64`.
///
/// Cost: one round for each 8 bytes, and four at the end.
///
/// **Source**: Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012), section 2, with
/// 1 compression round and 3 finalization rounds.
pub fn hash(key: &HashKey, bytes: &[u8]) -> u64 {
    // The paper's initial state: "somepseudorandomlygeneratedbytes" in ASCII, mixed with the key.
    let mut state = State {
        v0: key.low ^ 0x736f_6d65_7073_6575,
        v1: key.high ^ 0x646f_7261_6e64_6f6d,
        v2: key.low ^ 0x6c79_6765_6e65_7261,
        v3: key.high ^ 0x7465_6462_7974_6573,
    };
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        state.absorb(u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(tail) {
        *to = *from;
    }
    // The top byte of the last word is the length modulo 256, which is the low byte of the length.
    let [length, ..] = bytes.len().to_le_bytes();
    last[7] = length;
    state.absorb(u64::from_le_bytes(last));
    state.finish()
}

struct State {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl State {
    fn absorb(&mut self, word: u64) {
        self.v3 ^= word;
        self.round();
        self.v0 ^= word;
    }

    fn finish(mut self) -> u64 {
        self.v2 ^= 0xff;
        self.round();
        self.round();
        self.round();
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }

    fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.rotate_left(32).wrapping_add(self.v3);
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v2 = self.v2.rotate_left(32);
    }
}
