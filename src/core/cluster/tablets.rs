//! Which tablet hosts the lead of a counter.
//!
//! Invariant: the leads of one tablet have their roots in as few partitions as can be: in one where there are at least as many tablets
//! as partitions. So what a tablet has to tell the directory travels in one message. Where tablets are added, a counter stays or
//! moves to a new one, as long as the number of partitions stays.
//! Source: Lamping & Veach 2014, "A fast, minimal memory, consistent hash algorithm".

use crate::core::counter::id::CounterId;
use crate::core::sketch::{HashKey, hash};

/// The hash is public and must never change: it decides where cells are stored.
const KEY: [u8; 16] = *b"tally tablets v1";

/// How leads are spread over the tablets of a datacenter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TabletSpread {
    tablets: u32,
    partitions: u32,
}

impl TabletSpread {
    /// So many tablets beside so many partitions of the directory; at least one of each.
    pub fn new(tablets: u32, partitions: u32) -> Self {
        Self {
            tablets: tablets.max(1),
            partitions: partitions.max(1),
        }
    }

    /// The number of the tablet of a counter whose root is in this partition.
    pub fn of(&self, counter: &CounterId, partition: u32) -> u32 {
        let key = hash(&HashKey::from(KEY), counter.as_str().as_bytes());
        let partition = partition % self.partitions;
        if self.tablets <= self.partitions {
            return partition % self.tablets;
        }
        // Tablets p, p + P, p + 2 P … serve partition p.
        let own = (self.tablets - partition).div_ceil(self.partitions);
        partition + self.partitions * jump(key, own)
    }
}

/// The bucket of a key among so many. Cost: O(log buckets).
fn jump(mut key: u64, buckets: u32) -> u32 {
    const STEP: u64 = 2_862_933_555_777_941_757;
    let (mut bucket, mut next) = (0_u64, 0_u64);
    while next < u64::from(buckets) {
        bucket = next;
        key = key.wrapping_mul(STEP).wrapping_add(1);
        // (bucket + 1) · 2^31 ÷ (the key's upper 31 bits + 1), in whole numbers.
        next = ((bucket + 1) << 31) / ((key >> 33) + 1);
    }
    u32::try_from(bucket).unwrap_or(0)
}
