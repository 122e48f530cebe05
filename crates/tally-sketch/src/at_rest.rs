//! How values with bytes at rest are serialized in messages: as these bytes.

use alloc::vec::Vec;
use core::fmt;

use serde::Deserializer;
use serde::de::{Error, SeqAccess, Visitor};

/// The most bytes that are allocated before they arrive: the length that a sender states is not trusted beyond this.
const TRUSTED_BYTES_MAX: usize = 1 << 16;

/// Reads bytes, or numbers if the format has no bytes (as JSON), and returns what `read` makes of them.
pub(super) fn deserialize<'de, D, T, E>(
    deserializer: D,
    expected: &'static str,
    read: fn(&[u8]) -> Result<T, E>,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    E: fmt::Display,
{
    deserializer.deserialize_bytes(AtRest { expected, read })
}

struct AtRest<T, E> {
    expected: &'static str,
    read: fn(&[u8]) -> Result<T, E>,
}

impl<'de, T, E: fmt::Display> Visitor<'de> for AtRest<T, E> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.expected)
    }

    fn visit_bytes<F: Error>(self, bytes: &[u8]) -> Result<T, F> {
        (self.read)(bytes).map_err(F::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<T, A::Error> {
        let expected = numbers.size_hint().unwrap_or(0).min(TRUSTED_BYTES_MAX);
        let mut bytes = Vec::with_capacity(expected);
        while let Some(byte) = numbers.next_element()? {
            bytes.push(byte);
        }
        self.visit_bytes(&bytes)
    }
}
