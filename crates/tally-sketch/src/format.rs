//! The sketch at rest, a stored format.
//!
//! Invariant: a sketch has one byte string, and [`Sketch::from_bytes`] accepts exactly the strings
//! that [`Sketch::to_bytes`] can write. So equal content is equal bytes, and damage that breaks
//! the form never becomes a sketch.
//!
//! | bytes | hold |
//! |---|---|
//! | 0 | version: 1 |
//! | 1 | form: 0 sparse, 1 dense |
//! | 2.. sparse | 0 to 3,072 tokens, each a `u32` little-endian, strictly ascending |
//! | 2.. dense | 12,288 bytes: 16,384 registers of 6 bits, each at most 51, not all 0 |
//!
//! Registers are packed from the least significant bit up: register r has bits 6r to 6r + 5.
//!
//! Sizes: 2 + 4 · 10 = 42 bytes for 10 elements, 402 for 100, 4,002 for 1,000, never more than
//! 2 + 12,288 = 12,290.

use super::at_rest;
use super::error::{Kind, SketchError};
use super::hyperloglog::{Form, Sketch, TOKEN_BYTES, TOKENS_MAX};
use super::registers::{PACKED_BYTES, Registers};
use super::token::Token;
use alloc::vec::Vec;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const VERSION: u8 = 1;
const FORM_SPARSE: u8 = 0;
const FORM_DENSE: u8 = 1;

/// Version and form.
const HEADER_BYTES: usize = 2;

impl Sketch {
    /// Returns the sketch at rest: 2 to 12,290 bytes, the same for the same content.
    pub fn to_bytes(&self) -> Vec<u8> {
        match &self.0 {
            Form::Sparse(tokens) => {
                let mut bytes = Vec::with_capacity(HEADER_BYTES + tokens.len() * TOKEN_BYTES);
                bytes.extend_from_slice(&[VERSION, FORM_SPARSE]);
                for token in tokens {
                    bytes.extend_from_slice(&token.bits().to_le_bytes());
                }
                bytes
            }
            Form::Dense(registers) => {
                let mut bytes = Vec::with_capacity(HEADER_BYTES + PACKED_BYTES);
                bytes.extend_from_slice(&[VERSION, FORM_DENSE]);
                registers.pack_into(&mut bytes);
                bytes
            }
        }
    }

    /// Returns how long [`Sketch::to_bytes`] are.
    pub(super) fn rest_bytes(&self) -> usize {
        let body = match &self.0 {
            Form::Sparse(tokens) => tokens.len() * TOKEN_BYTES,
            Form::Dense(_) => PACKED_BYTES,
        };
        HEADER_BYTES + body
    }

    /// Returns the sketch whose [`Sketch::to_bytes`] are these.
    ///
    /// # Errors
    /// If no sketch has these bytes: an unknown version or form, a wrong length, tokens that no hash has or that do not
    /// ascend, registers above 51 or all 0. The bytes are damaged, or of a newer version: a retry does not help.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SketchError> {
        match bytes {
            [VERSION, FORM_SPARSE, tokens @ ..] => Ok(Self(Form::Sparse(read_tokens(tokens)?))),
            [VERSION, FORM_DENSE, packed @ ..] => {
                let Ok(packed) = packed.try_into() else {
                    return Err(SketchError::of(Kind::Length(bytes.len())));
                };
                let registers = Registers::unpack(packed).ok_or(SketchError::of(Kind::Rank))?;
                if registers.is_blank() {
                    return Err(SketchError::of(Kind::Blank));
                }
                Ok(Self(Form::Dense(registers)))
            }
            [VERSION, form, ..] => Err(SketchError::of(Kind::Form(*form))),
            [VERSION] | [] => Err(SketchError::of(Kind::Length(bytes.len()))),
            [version, ..] => Err(SketchError::of(Kind::Version(*version, VERSION))),
        }
    }
}

/// A sketch is serialized in messages as it is at rest.
impl Serialize for Sketch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.to_bytes())
    }
}

impl<'de> Deserialize<'de> for Sketch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        at_rest::deserialize(deserializer, "a sketch at rest", Self::from_bytes)
    }
}

fn read_tokens(bytes: &[u8]) -> Result<Vec<Token>, SketchError> {
    let (words, rest) = bytes.as_chunks::<TOKEN_BYTES>();
    if !rest.is_empty() || words.len() > TOKENS_MAX {
        return Err(SketchError::of(Kind::Length(HEADER_BYTES + bytes.len())));
    }
    let mut tokens = Vec::with_capacity(words.len());
    for word in words {
        let bits = u32::from_le_bytes(*word);
        let token = Token::try_from(bits)?;
        if tokens.last().is_some_and(|last| *last >= token) {
            return Err(SketchError::of(Kind::Order));
        }
        tokens.push(token);
    }
    Ok(tokens)
}
