//! Seconds of an hour at rest, packed minute by minute.
//!
//! Invariant: unpacked seconds are those that were packed. Each minute has its least count, and what the counts are
//! above it, in as few bits each as the largest needs. An hour of 1,000 increments a second takes 3.8 KB, a day 91 KB.

use serde::{Deserialize, Serialize};

/// Seconds of an hour.
pub const HOUR: usize = 3_600;

/// Seconds of a minute.
const MINUTE: usize = 60;

/// The counts of the seconds of an hour, packed: for each minute its least count, and the bits of its seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedSeconds(Vec<(u128, Vec<u8>)>);

impl PackedSeconds {
    /// Packs the counts of an hour, second by second.
    pub fn pack(counts: &[u128]) -> Self {
        Self(counts.chunks(MINUTE).map(pack_minute).collect())
    }

    /// The counts of the hour: 58 KB, too many for a stack.
    pub fn unpack(&self) -> Vec<u128> {
        let mut counts = vec![0; HOUR];
        for (minute, (least, bits)) in counts.chunks_mut(MINUTE).zip(&self.0) {
            // A width of w has ⌈60 w / 8⌉ bytes.
            let width = (bits.len() * 8 / MINUTE).min(128);
            for (index, count) in minute.iter_mut().enumerate() {
                let mut above = 0_u128;
                for bit in 0..width {
                    let place = index * width + bit;
                    let byte = bits.get(place / 8).copied().unwrap_or(0);
                    above |= u128::from(byte >> (place % 8) & 1) << bit;
                }
                *count = least.saturating_add(above);
            }
        }
        counts
    }
}

fn pack_minute(counts: &[u128]) -> (u128, Vec<u8>) {
    let least = counts.iter().copied().min().unwrap_or(0);
    let most = counts.iter().copied().max().unwrap_or(0);
    let width = usize::try_from(u128::BITS - (most - least).leading_zeros()).unwrap_or(0);
    let mut bits = vec![0_u8; (counts.len() * width).div_ceil(8)];
    for (index, count) in counts.iter().enumerate() {
        for bit in (0..width).filter(|bit| (count - least) >> bit & 1 == 1) {
            let place = index * width + bit;
            if let Some(byte) = bits.get_mut(place / 8) {
                *byte |= 1 << (place % 8);
            }
        }
    }
    (least, bits)
}
