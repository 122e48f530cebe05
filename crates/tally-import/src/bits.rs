//! Lines of a part, a bit each.

use std::fmt::Write;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A set of numbers of lines, from 0 on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits(Vec<u8>);

fn place(line: u32) -> (usize, u8) {
    (
        usize::try_from(line / 8).unwrap_or(usize::MAX),
        1 << (line % 8),
    )
}

impl Bits {
    /// Returns the set of these lines.
    pub fn of(lines: impl IntoIterator<Item = u32>) -> Self {
        let mut bits = Self::default();
        lines.into_iter().for_each(|line| bits.insert(line));
        bits
    }

    /// Adds a line.
    pub fn insert(&mut self, line: u32) {
        let (byte, bit) = place(line);
        if self.0.len() <= byte {
            self.0.resize(byte + 1, 0);
        }
        if let Some(byte) = self.0.get_mut(byte) {
            *byte |= bit;
        }
    }

    /// Returns whether a line is in the set.
    pub fn has(&self, line: u32) -> bool {
        let (byte, bit) = place(line);
        self.0.get(byte).is_some_and(|byte| byte & bit != 0)
    }

    /// Returns the lines.
    pub fn lines(&self) -> impl Iterator<Item = u32> + '_ {
        let ends = u32::try_from(self.0.len()).unwrap_or(u32::MAX / 8) * 8;
        (0..ends).filter(|line| self.has(*line))
    }

    /// Adds the lines of another set, of lines that come behind so many.
    pub fn add_behind(&mut self, lines: u32, other: &Self) {
        for line in other.lines() {
            self.insert(lines.saturating_add(line));
        }
    }

    /// Returns whether no line is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }
}

impl Serialize for Bits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(self.0.len() * 2);
        for byte in &self.0 {
            let _ = write!(text, "{byte:02x}");
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Bits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let pairs = text.as_bytes().chunks(2);
        let byte = |pair: &[u8]| {
            let digits = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(digits, 16).ok()
        };
        let bytes: Option<Vec<u8>> = pairs.map(byte).collect();
        bytes.map(Self).ok_or_else(|| D::Error::custom("no bits"))
    }
}
