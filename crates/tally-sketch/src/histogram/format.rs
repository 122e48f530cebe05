//! A histogram at rest, a stored format.
//!
//! Invariant: a histogram has one byte string, and [`Histogram::from_bytes`] accepts exactly the strings that
//! [`Histogram::to_bytes`] can write.
//!
//! | bytes | hold |
//! |---|---|
//! | 0 | version: 1 |
//! | varint | buckets that have samples, 0 to 4,737; nothing follows 0 |
//! | for each, ascending: varint, varint | buckets without samples before it, since the last one; samples in it |
//! | 8, 8 | the least and the greatest sample, IEEE 754, little-endian |
//! | varint | sum in 2^-44 |
//!
//! A varint has seven bits a byte, least significant first. The eighth bit is set if another byte follows. No varint is
//! longer than necessary.
//!
//! Sizes: 27 to 33 bytes for one sample; about 2 for each bucket more, 450 for latencies over a factor of ten;
//! never more than 1 + 2 + 4,737 · (2 + 10) + 16 + 19 = 56,882, below the 2 MB of a row.

use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::at_rest;

use super::Histogram;
use super::sample::{BUCKETS, Sample};

const VERSION: u8 = 1;

/// Why bytes are not a histogram: they are damaged, or of a newer version. A retry does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistogramError(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Version(u8),
    Ends,
    Varint,
    Bucket,
    Extent,
    Sum,
    Length,
}

impl fmt::Display for HistogramError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.0 {
            Kind::Version(version) => {
                return write!(formatter, "histogram version {version} is not known");
            }
            Kind::Ends => "ends too early",
            Kind::Varint => "has a number that is too long",
            Kind::Bucket => "has a bucket that there is not, or that is empty",
            Kind::Extent => "has bounds that do not fit its buckets",
            Kind::Sum => "has a sum that does not fit its samples",
            Kind::Length => "has bytes after its end",
        };
        write!(formatter, "the histogram {what}")
    }
}

impl core::error::Error for HistogramError {}

impl Histogram {
    /// Returns the histogram at rest: 2 to 56,882 bytes, the same for the same samples.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(3 + 3 * self.buckets.used() + 35);
        bytes.push(VERSION);
        put(&mut bytes, u128::try_from(self.buckets.used()).unwrap_or(0));
        let mut next = 0;
        for (bucket, count) in self.buckets.iter() {
            put(&mut bytes, u128::from(bucket.saturating_sub(next)));
            put(&mut bytes, u128::from(count));
            next = bucket.saturating_add(1);
        }
        if let Some((least, greatest)) = self.extent {
            bytes.extend_from_slice(&least.bits().to_le_bytes());
            bytes.extend_from_slice(&greatest.bits().to_le_bytes());
            put(&mut bytes, self.sum);
        }
        bytes
    }

    /// Returns the histogram whose [`Histogram::to_bytes`] are these.
    ///
    /// # Errors
    /// [`HistogramError`] where no histogram has these bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, HistogramError> {
        let mut rest = Reader(bytes);
        match rest.byte()? {
            VERSION => {}
            version => return Err(HistogramError(Kind::Version(version))),
        }
        let length = usize::from(rest.bucket()?);
        // Each bucket takes at least two bytes. So no more is allocated than the bytes that are there can hold.
        let mut buckets = Vec::with_capacity(length.min(bytes.len() / 2));
        let mut next: u16 = 0;
        for _ in 0..length {
            let bucket = next.checked_add(rest.bucket()?);
            let bucket = bucket.filter(|bucket| *bucket < BUCKETS);
            let count = u64::try_from(rest.varint()?)
                .ok()
                .filter(|count| *count > 0);
            let (Some(bucket), Some(count)) = (bucket, count) else {
                return Err(HistogramError(Kind::Bucket));
            };
            buckets.push((bucket, count));
            next = bucket + 1;
        }
        let first = buckets.first().map_or(0, |(first, _)| *first);
        let mut read = Self {
            buckets: buckets.into(),
            ..Self::new()
        };
        if length > 0 {
            read.extent = Some((rest.sample()?, rest.sample()?));
            read.sum = rest.varint()?;
            read.check(first, next.saturating_sub(1))?;
        }
        match rest.0 {
            [] => Ok(read),
            _ => Err(HistogramError(Kind::Length)),
        }
    }

    /// Refuses bounds that are not in the first and the last bucket, and a sum that no samples within the bounds have.
    fn check(&self, first: u16, last: u16) -> Result<(), HistogramError> {
        let (least, greatest) = self.extent.ok_or(HistogramError(Kind::Extent))?;
        let count = u128::from(self.count());
        let is_within = least.bucket() == first && greatest.bucket() == last;
        if !is_within || least > greatest || (count == 1 && least != greatest) {
            return Err(HistogramError(Kind::Extent));
        }
        // Both bounds are among the samples, and the others lie between them.
        let others = count.saturating_sub(1);
        let with_others = |all: Sample, one: Sample| {
            (others.saturating_mul(all.fixed())).saturating_add(one.fixed())
        };
        let is_one = count == 1 && self.sum == least.fixed();
        let is_between =
            (with_others(least, greatest)..=with_others(greatest, least)).contains(&self.sum);
        // A count that has reached its maximum says nothing about the sum.
        if is_one || (count > 1 && is_between) || count == u128::from(u64::MAX) {
            Ok(())
        } else {
            Err(HistogramError(Kind::Sum))
        }
    }
}

/// A histogram is serialized in messages as it is at rest.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.to_bytes())
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        at_rest::deserialize(deserializer, "a histogram at rest", Self::from_bytes)
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u128) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            return bytes.push(low & 0x7f);
        }
        bytes.push(low | 0x80);
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8, HistogramError> {
        let (first, rest) = self.0.split_first().ok_or(HistogramError(Kind::Ends))?;
        self.0 = rest;
        Ok(*first)
    }

    fn varint(&mut self) -> Result<u128, HistogramError> {
        let mut number: u128 = 0;
        let mut shift = 0;
        loop {
            let byte = self.byte()?;
            let bits = u128::from(byte & 0x7f);
            let placed = bits.checked_shl(shift).unwrap_or(0);
            // The last byte of a longer one would be 0, and bits must not fall off the end.
            let is_lost = placed >> shift.min(127) != bits || (shift > 0 && byte == 0);
            if is_lost || shift > 127 {
                return Err(HistogramError(Kind::Varint));
            }
            number |= placed;
            if byte < 0x80 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    /// A number of buckets.
    fn bucket(&mut self) -> Result<u16, HistogramError> {
        let number = u16::try_from(self.varint()?).ok();
        let number = number.filter(|number| *number <= BUCKETS);
        number.ok_or(HistogramError(Kind::Bucket))
    }

    fn sample(&mut self) -> Result<Sample, HistogramError> {
        let (bytes, rest) = self
            .0
            .split_first_chunk::<8>()
            .ok_or(HistogramError(Kind::Ends))?;
        self.0 = rest;
        Sample::from_bits(u64::from_le_bytes(*bytes)).ok_or(HistogramError(Kind::Extent))
    }
}
