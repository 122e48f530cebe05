//! Unique elements at rest, a stored format.
//!
//! Invariant: as for a sketch, equal content has one byte string, and only such strings are read.
//!
//! | bytes | hold |
//! |---|---|
//! | none | no element was seen |
//! | 0 | version: 2; a sketch alone, which does not name its hash, begins with 1 |
//! | then, for each sketch | the hash's number, a `u32`; the class's, a `u8`; the length of the sketch, a `u16`; the sketch |
//!
//! Numbers are little-endian; sketches are in the order of hash and class. Sizes of one sketch: 8 + 42 = 50 bytes for
//! 10 elements, 410 for 100, 4,010 for 1,000, never more than 8 + 12,290 = 12,298.

use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Source, Uniques};
use crate::at_rest;
use crate::error::SketchError;
use crate::family::Class;
use crate::hash_id::HashId;
use crate::hyperloglog::Sketch;

const VERSION: u8 = 2;

/// Bytes before each sketch.
const HEADER_BYTES: usize = 4 + 1 + 2;

impl Uniques {
    /// Returns the bytes at rest: no bytes for no elements, otherwise the same bytes for the same content.
    pub fn to_bytes(&self) -> Vec<u8> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut bytes = Vec::with_capacity(self.rest_bytes());
        bytes.push(VERSION);
        for (source, sketch) in self.parts() {
            let body = sketch.to_bytes();
            // At most 12,290.
            let length = u16::try_from(body.len()).unwrap_or(u16::MAX);
            bytes.extend_from_slice(&source.hash.number().to_le_bytes());
            bytes.push(source.class.into());
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(&body);
        }
        bytes
    }

    /// Returns how many bytes the uniques take at rest, without making the bytes. In memory they take at most a third
    /// more.
    pub fn rest_bytes(&self) -> usize {
        let parts = self
            .parts()
            .map(|(_, sketch)| HEADER_BYTES + sketch.rest_bytes());
        let parts = parts.sum::<usize>();
        parts + usize::from(parts > 0)
    }

    /// Returns the uniques that have these bytes at rest.
    ///
    /// # Errors
    /// If no uniques have these bytes: they are damaged, of a newer version, or those of a sketch that does not name
    /// its hash.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SketchError> {
        let mut uniques = Self::new();
        let mut rest = match bytes {
            [] => return Ok(uniques),
            [VERSION, rest @ ..] if !rest.is_empty() => rest,
            [VERSION] => return Err(SketchError::of_length(1)),
            [version, ..] => return Err(SketchError::of_version(*version, VERSION)),
        };
        let mut last = None;
        while let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let [a, b, c, d, class, low, high] = *header;
            let number = u32::from_le_bytes([a, b, c, d]);
            let length = usize::from(u16::from_le_bytes([low, high]));
            let class = Class::try_from(class)?;
            let source = Source {
                hash: HashId::from_number(number),
                class,
            };
            let body = after
                .get(..length)
                .ok_or(SketchError::of_length(after.len()))?;
            let sketch = Sketch::from_bytes(body)?;
            let is_next = last.is_none_or(|last| last < source);
            let is_own_target = uniques.target_of(source) == (source, false);
            if !is_next || !is_own_target || sketch.is_empty() {
                return Err(SketchError::of_parts());
            }
            last = Some(source);
            uniques.0.insert(source, sketch);
            rest = after.get(length..).unwrap_or_default();
        }
        let is_whole = rest.is_empty();
        is_whole.then_some(uniques).ok_or(SketchError::of_parts())
    }
}

impl Serialize for Uniques {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.to_bytes())
    }
}

impl<'de> Deserialize<'de> for Uniques {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        at_rest::deserialize(deserializer, "unique elements at rest", Self::from_bytes)
    }
}
