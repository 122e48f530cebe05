//! Dimensions of a write: names with values, in addition to its amount.
//!
//! Invariant: a [`Dimensions`] holds names and values within these bounds, each name once. Writes that join append
//! their dimensions to one [`DimensionLog`]. It is bytes in memory, in messages and in storage. Without dimensions it
//! is empty, and costs one byte.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The most dimensions of one write.
pub const DIMENSIONS_PER_WRITE_MAX: usize = 8;

/// The longest name of a dimension, in bytes.
pub const DIMENSION_NAME_BYTES_MAX: usize = 64;

/// The longest value of a dimension, in bytes of UTF-8.
pub const DIMENSION_VALUE_BYTES_MAX: usize = 256;

/// How much of a text that was refused is shown, in characters.
const SHOWN_CHARS: usize = 64;

/// The name of a dimension. Its size is small and fixed, so that questions that hold one are `Copy`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DimensionName {
    bytes: [u8; DIMENSION_NAME_BYTES_MAX],
    length: u8,
}

impl DimensionName {
    /// Parses a name: 1 to 64 lower-case letters of ASCII, digits, `_` and `-`.
    ///
    /// # Errors
    /// [`DimensionFault::Name`].
    pub fn parse(text: &str) -> Result<Self, DimensionFault> {
        let is_of_name = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        let mut bytes = [0; DIMENSION_NAME_BYTES_MAX];
        let length = u8::try_from(text.len()).ok().filter(|length| *length > 0);
        match (length, bytes.get_mut(..text.len())) {
            (Some(length), Some(target)) if text.as_bytes().iter().all(is_of_name) => {
                target.copy_from_slice(text.as_bytes());
                Ok(Self { bytes, length })
            }
            _ => Err(DimensionFault::Name(shown(text))),
        }
    }

    /// The dimension of the service's own counters that holds keys of refused checks. No caller can use its name. Its
    /// values are kept for days, see [`super::breakdown::forget`].
    pub const REFUSED_KEY: Self = {
        let mut bytes = [0; DIMENSION_NAME_BYTES_MAX];
        (bytes[0], bytes[1], bytes[2], bytes[3]) = (b'~', b'k', b'e', b'y');
        Self { bytes, length: 4 }
    };

    /// The name.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.length));
        bytes
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }
}

impl fmt::Debug for DimensionName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), formatter)
    }
}

impl Serialize for DimensionName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for DimensionName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&str>::deserialize(deserializer)?;
        if text == Self::REFUSED_KEY.as_str() {
            return Ok(Self::REFUSED_KEY);
        }
        Self::parse(text).map_err(serde::de::Error::custom)
    }
}

/// Why dimensions are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DimensionFault {
    /// There are more than a write may have.
    #[error("a write has at most {max} dimensions in `by`", max = DIMENSIONS_PER_WRITE_MAX)]
    TooMany,
    /// This is no name.
    #[error(
        "a dimension's name has 1 to {max} of a-z, 0-9, _ and -, not {0:?}",
        max = DIMENSION_NAME_BYTES_MAX
    )]
    Name(String),
    /// The value of this name is empty, too long, or has control characters.
    #[error(
        "the value of `{0}` in `by` has 1 to {max} bytes of UTF-8 without control characters; leave the dimension out where there is none",
        max = DIMENSION_VALUE_BYTES_MAX
    )]
    Value(String),
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).collect()
}

/// The dimensions of one write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dimensions(BTreeMap<String, String>);

impl Dimensions {
    /// Adds a dimension, or gives it another value.
    ///
    /// # Errors
    /// [`DimensionFault`]; nothing has changed then.
    pub fn insert(&mut self, name: &str, value: &str) -> Result<(), DimensionFault> {
        DimensionName::parse(name)?;
        let is_long = value.is_empty() || value.len() > DIMENSION_VALUE_BYTES_MAX;
        if is_long || value.chars().any(char::is_control) {
            return Err(DimensionFault::Value(name.to_owned()));
        }
        if self.0.len() >= DIMENSIONS_PER_WRITE_MAX && !self.0.contains_key(name) {
            return Err(DimensionFault::TooMany);
        }
        self.0.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// Adds a dimension whose value comes from an untrusted source. A long value is cut, and control characters become
    /// spaces. Nothing is added if the rest is empty, or if there is no room.
    pub fn insert_cut(&mut self, name: &str, value: &str) {
        let mut text = String::new();
        for sign in value.chars() {
            let sign = if sign.is_control() { ' ' } else { sign };
            if text.len() + sign.len_utf8() > DIMENSION_VALUE_BYTES_MAX {
                break;
            }
            text.push(sign);
        }
        // The only possible faults are an empty value and too many dimensions.
        let _ = self.insert(name, text.trim());
    }

    /// Takes a dimension out.
    pub fn remove(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// The value of a dimension.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names and values, in order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.0.iter();
        all.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Unambiguous bytes of the dimensions, for the hash of a write.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut log = DimensionLog::default();
        log.push(Stamp::Past(0), 0, self.iter());
        log.0
    }
}

/// The time of a write, unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stamp {
    /// Clamped to the clock of the cell that counts it.
    Live(i64),
    /// Taken as it is.
    Past(i64),
}

/// The dimensions of writes: entries of a stamp, an amount, and names with values. Each value counts that amount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DimensionLog(Vec<u8>);

/// An entry of a log. A stored format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry<'a> {
    /// Its time.
    pub stamp: Stamp,
    /// How much.
    pub amount: u128,
    /// Names and values.
    #[serde(borrow)]
    pub values: Vec<(&'a str, &'a str)>,
}

/// The bytes are no log of dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are no log of dimensions: another build wrote them")]
pub struct BrokenLog;

impl DimensionLog {
    /// The log with these bytes.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds an entry, unless it has no values.
    pub fn push<'a>(
        &mut self,
        stamp: Stamp,
        amount: u128,
        values: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) {
        let values: Vec<(&str, &str)> = values.into_iter().collect();
        if values.is_empty() {
            return;
        }
        let entry = LogEntry {
            stamp,
            amount,
            values,
        };
        // Writing to memory does not fail.
        self.0 = postcard::to_extend(&entry, std::mem::take(&mut self.0)).unwrap_or_default();
    }

    /// Adds the entries of another log.
    pub fn append(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    /// Calls `take` with each entry.
    ///
    /// # Errors
    /// [`BrokenLog`].
    pub fn each(&self, mut take: impl FnMut(LogEntry<'_>)) -> Result<(), BrokenLog> {
        let mut rest = self.0.as_slice();
        while !rest.is_empty() {
            let (entry, after) =
                postcard::take_from_bytes::<LogEntry<'_>>(rest).map_err(|_| BrokenLog)?;
            take(entry);
            rest = after;
        }
        Ok(())
    }

    /// The log with each value of each stamp once, in the fewest entries.
    ///
    /// # Errors
    /// [`BrokenLog`].
    pub fn summed(&self) -> Result<Self, BrokenLog> {
        Ok(ValueSums::of(self)?.to_log())
    }
}

/// Amounts by value.
pub type Amounts = BTreeMap<String, u128>;

/// The sums of a log: amounts by dimension, stamp and value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueSums(BTreeMap<String, BTreeMap<Stamp, Amounts>>);

impl ValueSums {
    /// Sums a log.
    ///
    /// # Errors
    /// [`BrokenLog`].
    pub fn of(log: &DimensionLog) -> Result<Self, BrokenLog> {
        let mut sums = Self::default();
        log.each(|entry| {
            for (name, value) in entry.values {
                sums.add(name, entry.stamp, value, entry.amount);
            }
        })?;
        Ok(sums)
    }

    fn add(&mut self, name: &str, stamp: Stamp, value: &str, amount: u128) {
        if !self.0.contains_key(name) {
            self.0.insert(name.to_owned(), BTreeMap::new());
        }
        let stamps = self.0.get_mut(name);
        let amounts = stamps.map(|stamps| stamps.entry(stamp).or_default());
        let Some(amounts) = amounts else { return };
        match amounts.get_mut(value) {
            Some(held) => *held = held.saturating_add(amount),
            None => {
                amounts.insert(value.to_owned(), amount);
            }
        }
    }

    /// The log of these sums: values of one stamp and amount share an entry.
    pub fn to_log(&self) -> DimensionLog {
        let mut entries: BTreeMap<(Stamp, u128), Vec<(&str, &str)>> = BTreeMap::new();
        for (name, stamps) in &self.0 {
            for (stamp, amounts) in stamps {
                for (value, amount) in amounts {
                    let entry = entries.entry((*stamp, *amount)).or_default();
                    entry.push((name, value));
                }
            }
        }
        let mut log = DimensionLog::default();
        for ((stamp, amount), values) in entries {
            log.push(stamp, amount, values);
        }
        log
    }

    /// Removes the dimension whose values have most bytes.
    pub fn take_largest(&mut self) -> Option<(String, BTreeMap<Stamp, Amounts>)> {
        let bytes = |stamps: &BTreeMap<Stamp, Amounts>| -> usize {
            let values = stamps.values().flat_map(BTreeMap::keys);
            values.map(|value| value.len() + 1).sum()
        };
        let largest = self.0.iter().max_by_key(|(_, stamps)| bytes(stamps));
        let name = largest.map(|(name, _)| name.clone())?;
        self.0.remove_entry(&name)
    }
}
