//! Which tablet hosts the lead of a counter.
//!
//! Invariant: the leads of one tablet have their roots in as few partitions as possible: in one, if there are at least
//! as many tablets as partitions. So the pushes of a tablet are one message to the directory. If tablets are added, a
//! counter stays or moves to a new one, as long as the number of partitions stays. Source: Lamping & Veach 2014, "A
//! fast, minimal memory, consistent hash algorithm".

use serde::{Deserialize, Serialize};

use crate::counter::id::CounterId;
use crate::sketch::{HashKey, hash};

/// The hash is public and must never change: it decides where cells are stored.
const KEY: [u8; 16] = *b"tally tablets v1";

/// How leads are spread over the tablets of a datacenter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TabletSpread {
    tablets: u32,
    partitions: u32,
}

impl TabletSpread {
    /// A spread over `tablets` tablets, with `partitions` partitions of the directory; at least one of each.
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

/// Where in its datacenter the lead of a counter lives. Stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LeadPlace {
    /// In an object of its own.
    Own,
    /// In the tablet of this number.
    Tablet(u32),
}

impl LeadPlace {
    /// The place of a lead whose root is in this partition, by this spread. Without tablets each lead has an object of
    /// its own.
    pub fn of(spread: Option<TabletSpread>, counter: &CounterId, partition: u32) -> Self {
        spread.map_or(Self::Own, |spread| {
            Self::Tablet(spread.of(counter, partition))
        })
    }
}

/// The most remembered spreads. Each may cost a call when a lead is looked up.
pub const SPREADS_MAX: usize = 8;

/// The number of tablets that leads are spread over from some moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Spread {
    /// Rises with each change.
    epoch: u32,
    /// The number of tablets; `None` if each lead has an object of its own.
    tablets: Option<u32>,
    /// The beginning, unix milliseconds.
    since_ms: i64,
}

/// The present and former numbers of tablets that leads are spread over: each number once, the present one last.
/// Stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spreads(Vec<Spread>);

/// The result of a setting for the number of tablets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpreadChange {
    /// It is the present number.
    Same,
    /// It applies from now on.
    Applied,
    /// There are [`SPREADS_MAX`] others already: the present number stays.
    Full,
}

impl Spreads {
    /// The first spread.
    pub fn new(tablets: Option<u32>) -> Self {
        let (epoch, since_ms) = (0, 0);
        Self(vec![Spread {
            epoch,
            tablets,
            since_ms,
        }])
    }

    /// Sets the number of tablets from now on.
    pub fn change(&mut self, tablets: Option<u32>, now_ms: i64) -> SpreadChange {
        let newest = self.0.last().map(|newest| (newest.tablets, newest.epoch));
        let Some((_, epoch)) = newest.filter(|(newest, _)| *newest != tablets) else {
            return SpreadChange::Same;
        };
        let is_known = self.0.iter().any(|spread| spread.tablets == tablets);
        if !is_known && self.0.len() >= SPREADS_MAX {
            return SpreadChange::Full;
        }
        self.0.retain(|spread| spread.tablets != tablets);
        self.0.push(Spread {
            epoch: epoch.saturating_add(1),
            tablets,
            since_ms: now_ms,
        });
        SpreadChange::Applied
    }

    /// Takes over the spreads of another partition whose counters move here: the places where their leads may live. The
    /// present number of tablets stays. Its epoch becomes at least any epoch that those leads know.
    pub fn join(&mut self, others: &Self) {
        let newest = |all: &Self| all.0.last().map(|newest| (newest.tablets, newest.epoch));
        let (Some((tablets, own)), Some((their_tablets, theirs))) = (newest(self), newest(others))
        else {
            return;
        };
        let known = self.0.len();
        let unknown = (others.0.iter())
            .filter(|spread| self.0.iter().all(|known| known.tablets != spread.tablets));
        let unknown: Vec<Spread> = unknown.copied().collect();
        self.0
            .splice(known.saturating_sub(1)..known.saturating_sub(1), unknown);
        // Their leads may know an epoch of another place.
        let above = if their_tablets == tablets {
            theirs
        } else {
            theirs.saturating_add(1)
        };
        if let Some(last) = self.0.last_mut() {
            last.epoch = own.max(above);
        }
    }

    /// Raises the epoch of the present spread. Places do not change.
    pub fn raise(&mut self, by: u32) {
        if let Some(newest) = self.0.last_mut() {
            newest.epoch = newest.epoch.saturating_add(by);
        }
    }

    /// The epoch of the present spread, a lead's place by it, and its places by earlier spreads, the latest first.
    /// `place` returns the place by a number of tablets.
    pub fn places(
        &self,
        place: impl Fn(Option<u32>) -> LeadPlace,
    ) -> (u32, LeadPlace, Vec<LeadPlace>) {
        let mut spreads = self.0.iter().rev();
        let newest = spreads.next();
        let (epoch, now) = newest.map_or((0, LeadPlace::Own), |newest| {
            (newest.epoch, place(newest.tablets))
        });
        let mut former_places = Vec::new();
        for before in spreads.map(|spread| place(spread.tablets)) {
            if before != now && !former_places.contains(&before) {
                former_places.push(before);
            }
        }
        (epoch, now, former_places)
    }
}

/// The bucket of a key among `buckets`. Cost: O(log buckets).
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
