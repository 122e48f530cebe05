//! What a partition of the directory knows of the deployment, and all partitions together.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::hot::{Hot, RECENT_MS, ROWS_MAX};
use super::{CLOCK_OFF_MS, GAUGE_MS_MAX, Gauge, GaugeKind, IncarnationCounts, PRESENT_MS, Role};
use crate::core::counter::id::Datacenter;
use crate::protocol::names::DIRECTORY_PARTITIONS;
use crate::protocol::order::in_order;

/// Datacenters and inboxes of which a number is told: more than the platform has places.
const NAMES_MAX: usize = 1_000;

/// How far a clock is off, by that of a partition of the directory, or by the middle one of all these: somewhere between these, milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// Whose clock it is.
    pub datacenter: Datacenter,
    /// At least; below 0 for one that is behind.
    pub from_ms: i64,
    /// At most.
    pub to_ms: i64,
}

impl Clock {
    /// The bounds by a message that left and was answered at these times by the clock, and was there at a time by the partition's.
    pub fn by(
        datacenter: Datacenter,
        sent_ms: i64,
        answered_ms: i64,
        there_ms: i64,
    ) -> Option<Self> {
        (sent_ms <= answered_ms).then(|| Self {
            datacenter,
            from_ms: sent_ms.saturating_sub(there_ms),
            to_ms: answered_ms.saturating_sub(there_ms),
        })
    }

    /// How far it is off for sure, milliseconds.
    pub fn surely_off_ms(&self) -> u64 {
        if self.from_ms <= 0 && self.to_ms >= 0 {
            return 0;
        }
        self.from_ms.unsigned_abs().min(self.to_ms.unsigned_abs())
    }

    /// How far it is known.
    pub fn width_ms(&self) -> u64 {
        self.to_ms.abs_diff(self.from_ms)
    }

    /// Whether it is to be named.
    pub fn is_off(&self) -> bool {
        self.surely_off_ms() >= CLOCK_OFF_MS.unsigned_abs()
    }

    /// Whether this says more than another: that a clock is off for sure, or else where it is.
    fn tells_more_than(&self, other: &Self) -> bool {
        let of = |clock: &Self| (clock.surely_off_ms(), std::cmp::Reverse(clock.width_ms()));
        of(self) > of(other)
    }
}

/// Leads that move to other places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moving {
    /// Partitions whose counters are looked at.
    pub partitions: u64,
    /// Counters that are not looked at yet.
    pub waiting: u64,
    /// Leads that did not move when they were looked at last.
    pub left: u64,
}

/// What objects of a kind store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSizes {
    /// How many told.
    pub objects: u64,
    /// Bytes, all of them.
    pub bytes: u64,
    /// The square of the standard error of that, where only some are asked.
    pub variance: u128,
}

/// What a partition knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetPart {
    /// What isolates counted, by the numbers of the series.
    pub sums: Vec<(u32, u64)>,
    /// How long ago the newest report came, milliseconds; `None` for none.
    pub age_ms: Option<u64>,
    /// Isolates that reported lately: edges, and others.
    pub isolates: [u64; 2],
    /// One for each datacenter.
    pub clocks: Vec<Clock>,
    /// What is written most.
    pub hot: Hot,
    /// What is so now.
    pub gauges: Vec<Gauge>,
    /// Counters that live, and how old that number is, milliseconds.
    pub counters: (u64, u64),
    /// Leads that move.
    pub moving: Moving,
    /// What is stored, by the binding of the objects.
    pub stored: Vec<(String, StoredSizes)>,
    /// When it is, unix milliseconds by the partition's clock.
    pub now_ms: i64,
}

impl FleetPart {
    /// Adds what an incarnation has told, heard of at a time.
    pub fn add(&mut self, heard_ms: i64, told: IncarnationCounts) {
        self.add_sums(&told.sums);
        let Some(role) = told.role else { return };
        let age_ms = u64::try_from(self.now_ms.saturating_sub(heard_ms)).unwrap_or(0);
        let newest = self.age_ms.map_or(age_ms, |newest| newest.min(age_ms));
        self.age_ms = Some(newest);
        let within = |ms: i64| age_ms <= ms.unsigned_abs();
        if within(PRESENT_MS) {
            let [edges, others] = &mut self.isolates;
            match role {
                Role::Edge => *edges += 1,
                Role::Objects => *others += 1,
            }
            self.clocks.extend(told.news.clock);
        }
        if within(RECENT_MS) {
            self.hot.add(told.news.hot);
        }
        if within(GAUGE_MS_MAX) {
            self.gauges.extend(told.news.gauges);
        }
    }

    /// Leaves the best of what was added.
    pub fn finish(&mut self) {
        self.clocks = best_clocks(std::mem::take(&mut self.clocks));
        self.gauges = newest_gauges(std::mem::take(&mut self.gauges), self.now_ms);
        self.hot.prune(ROWS_MAX);
    }

    /// Compares the clocks that it has told with one that is ahead of the asker's by so much, instead of its own.
    fn compare_clocks(&mut self, sent_ms: i64, answered_ms: i64, (ahead_ms, error_ms): (i64, i64)) {
        for clock in &mut self.clocks {
            clock.from_ms += self.now_ms - answered_ms - ahead_ms - error_ms;
            clock.to_ms += self.now_ms - sent_ms - ahead_ms + error_ms;
        }
    }

    fn add_sums(&mut self, more: &[(u32, u64)]) {
        let mut sums = IncarnationCounts {
            sums: std::mem::take(&mut self.sums),
            ..IncarnationCounts::default()
        };
        sums.add(more);
        self.sums = sums.sums;
    }
}

/// The clock that is in the middle of those of all partitions: by how much it is ahead of the asker's, and how much more or less that may
/// be, milliseconds. A partition lies in the datacenter that asked for it first, so one clock that is off is not what all are compared with.
fn middle_clock(parts: &[(FleetPart, i64, i64)]) -> (i64, i64) {
    let ahead = parts.iter().map(|(part, sent_ms, answered_ms)| {
        let width_ms = answered_ms - sent_ms;
        (part.now_ms - sent_ms - width_ms / 2, width_ms / 2 + 1)
    });
    let ahead = in_order(ahead.collect(), Ord::cmp);
    ahead.get(ahead.len() / 2).copied().unwrap_or_default()
}

fn best_clocks(clocks: Vec<Clock>) -> Vec<Clock> {
    let mut best: BTreeMap<Datacenter, Clock> = BTreeMap::new();
    for clock in clocks {
        let known = best.get(&clock.datacenter);
        if known.is_none_or(|known| clock.tells_more_than(known))
            && (known.is_some() || best.len() < NAMES_MAX)
        {
            best.insert(clock.datacenter.clone(), clock);
        }
    }
    best.into_values().collect()
}

fn newest_gauges(gauges: Vec<Gauge>, now_ms: i64) -> Vec<Gauge> {
    let mut newest: BTreeMap<(GaugeKind, String), Gauge> = BTreeMap::new();
    for gauge in gauges {
        if now_ms.saturating_sub(gauge.at_ms) > GAUGE_MS_MAX {
            continue;
        }
        let name = (gauge.kind, gauge.name.clone());
        let known = newest.get(&name);
        let is_newer = known.is_none_or(|known| gauge.at_ms > known.at_ms);
        if is_newer && (known.is_some() || newest.len() < NAMES_MAX) {
            newest.insert(name, gauge);
        }
    }
    newest.into_values().collect()
}

/// What all partitions know together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fleet {
    part: FleetPart,
    missing: Vec<u32>,
}

impl Fleet {
    /// What some partitions have told, each to a question that left and was answered at these times by the asker's clock, while others
    /// did not answer.
    pub fn of(parts: Vec<(FleetPart, i64, i64)>, missing: Vec<u32>) -> Self {
        let mut all = FleetPart::default();
        let mut stored: BTreeMap<String, StoredSizes> = BTreeMap::new();
        let middle = middle_clock(&parts);
        for (mut part, sent_ms, answered_ms) in parts {
            part.compare_clocks(sent_ms, answered_ms, middle);
            all.now_ms = all.now_ms.max(part.now_ms);
            all.add_sums(&part.sums);
            all.age_ms = match (all.age_ms, part.age_ms) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            for (sum, more) in all.isolates.iter_mut().zip(part.isolates) {
                *sum += more;
            }
            all.clocks.extend(part.clocks);
            all.hot.merge(part.hot);
            all.gauges.extend(part.gauges);
            all.counters.0 += part.counters.0;
            all.counters.1 = all.counters.1.max(part.counters.1);
            all.moving.partitions += part.moving.partitions;
            all.moving.waiting += part.moving.waiting;
            all.moving.left += part.moving.left;
            for (kind, more) in part.stored {
                let sum = stored.entry(kind).or_default();
                sum.objects += more.objects;
                sum.bytes += more.bytes;
                sum.variance += more.variance;
            }
        }
        all.stored = stored.into_iter().collect();
        all.clocks = best_clocks(all.clocks);
        let now_ms = all.now_ms;
        all.gauges = newest_gauges(all.gauges, now_ms);
        Self { part: all, missing }
    }

    /// Whether every partition has answered: sums that lack one would fall, and look like a restart to who adds up their rises.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty()
    }

    /// Partitions that did not answer.
    pub fn missing(&self) -> &[u32] {
        &self.missing
    }

    /// What they know.
    pub fn part(&self) -> &FleetPart {
        &self.part
    }

    /// What was counted, by the numbers of the series.
    pub fn sums(&self) -> HashMap<u32, u64> {
        self.part.sums.iter().copied().collect()
    }

    /// How many partitions have answered.
    pub fn answered(&self) -> u64 {
        let missing = u64::try_from(self.missing.len()).unwrap_or(0);
        u64::from(DIRECTORY_PARTITIONS).saturating_sub(missing)
    }
}
