//! A consistent-hash ring of partitions: 2^32 points, 100 virtual nodes each.
//!
//! Invariant: a key's partition depends on the key and the set of partitions alone. Adding a
//! partition moves only keys to it, a fair part of them; every other key stays.
//! Source: Karger et al. 1997, "Consistent hashing and random trees".

use crate::sketch::{HashKey, hash};

/// Points that each partition has on the ring. With 100 a partition's share varies by about
/// 1/√100 = 10 % around the fair one.
pub const VIRTUAL_NODES: u32 = 100;

/// The most partitions of one ring.
pub const PARTITIONS_MAX: u32 = 4_096;

/// The ring hash is public and must never change: it decides where roots are stored.
const RING_KEY: [u8; 16] = [0; 16];

/// A ring of numbered partitions.
#[derive(Clone, Debug)]
pub struct Ring {
    /// (point, partition), sorted by point.
    points: Vec<(u32, u32)>,
}

impl Ring {
    /// The ring of partitions `0..partitions`; at least one, at most [`PARTITIONS_MAX`].
    /// Cost: O(p log p) for p = 100 points per partition; build it once.
    pub fn new(partitions: u32) -> Self {
        let partitions = partitions.clamp(1, PARTITIONS_MAX);
        let mut points: Vec<(u32, u32)> = (0..partitions)
            .flat_map(|partition| {
                (0..VIRTUAL_NODES)
                    .map(move |node| (point(format!("{partition}/{node}").as_bytes()), partition))
            })
            .collect();
        points.sort_unstable();
        Self { points }
    }

    /// The partition of a key: the first point at or after the key's own, round the ring.
    /// Cost: O(log points).
    pub fn partition_of(&self, key: &str) -> u32 {
        let at = point(key.as_bytes());
        let next = self.points.partition_point(|(position, _)| *position < at);
        self.points
            .get(next)
            .or(self.points.first())
            .map_or(0, |(_, partition)| *partition)
    }
}

fn point(bytes: &[u8]) -> u32 {
    let wide = hash(&HashKey::from(RING_KEY), bytes);
    u32::try_from(wide >> 32).unwrap_or(u32::MAX)
}
