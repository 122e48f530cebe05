//! The deployment's data in one partition of the directory, and in all of them together.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::clock::Clock;
use super::incarnation::IncarnationCounts;
use super::report::{GAUGE_MS_MAX, Gauge, GaugeKind, PRESENT_MS, Role};
use crate::names::DIRECTORY_PARTITIONS;
use tally_core::cluster::hot::{Hot, RECENT_MS, ROWS_MAX};
use tally_core::counter::id::Datacenter;
use tally_core::order::in_order;

/// The most datacenters and inboxes of which a number is shown: more than the locations of the platform.
const NAMES_MAX: usize = 1_000;

/// Leads that move to other objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovingLeads {
    /// Partitions with a sweep under way.
    pub partitions: u64,
    /// Counters that no sweep has reached yet.
    pub waiting: u64,
    /// Leads that did not move at the last sweep.
    pub left: u64,
}

/// Storage of the objects of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSizes {
    /// How many reported.
    pub objects: u64,
    /// The sum of their bytes.
    pub bytes: u64,
    /// The squared standard error of that sum, where only a sample reports.
    pub variance: u128,
}

/// The data of a partition.
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
    /// The counters written most.
    pub hot: Hot,
    /// Current values.
    pub gauges: Vec<Gauge>,
    /// How many counters exist, and how old that number is, milliseconds.
    pub counters: (u64, u64),
    /// Leads that move.
    pub moving: MovingLeads,
    /// Storage, by the binding of the objects.
    pub stored: Vec<(String, StoredSizes)>,
    /// The time by the partition's clock, unix milliseconds.
    pub now_ms: i64,
    /// When the first report of the sums came, unix milliseconds, where that was noted.
    pub begun_ms: Option<i64>,
}

impl FleetPart {
    /// Adds the counts of an incarnation whose last report came at that time.
    pub fn add(&mut self, reported_ms: i64, counts: IncarnationCounts) {
        self.add_sums(&counts.sums);
        let Some(role) = counts.role else { return };
        let age_ms = u64::try_from(self.now_ms.saturating_sub(reported_ms)).unwrap_or(0);
        let newest = self.age_ms.map_or(age_ms, |newest| newest.min(age_ms));
        self.age_ms = Some(newest);
        let within = |ms: i64| age_ms <= ms.unsigned_abs();
        if within(PRESENT_MS) {
            let [edges, others] = &mut self.isolates;
            match role {
                Role::Edge => *edges += 1,
                Role::Objects => *others += 1,
            }
            self.clocks.extend(counts.news.clock);
        }
        if within(RECENT_MS) {
            self.hot.add(counts.news.hot);
        }
        if within(GAUGE_MS_MAX) {
            self.gauges.extend(counts.news.gauges);
        }
    }

    /// Keeps the most informative of what was added.
    pub fn finish(&mut self) {
        self.clocks = best_clocks(std::mem::take(&mut self.clocks));
        self.gauges = newest_gauges(std::mem::take(&mut self.gauges), self.now_ms);
        self.hot.prune(ROWS_MAX);
    }

    /// Converts its clocks, which are relative to the partition's clock. They become relative to a clock that is
    /// `ahead_ms` ahead of the asker's, with an error of `error_ms`.
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

/// The median clock of all partitions: how far it is ahead of the asker's, and its error, milliseconds. A partition is
/// in the datacenter that asked for it first. With the median, a single wrong clock is not the reference for all
/// others.
fn middle_clock(parts: &[(FleetPart, i64, i64)]) -> (i64, i64) {
    let ahead = parts.iter().map(|(part, sent_ms, answered_ms)| {
        let width_ms = answered_ms - sent_ms;
        (part.now_ms - sent_ms - width_ms / 2, width_ms / 2 + 1)
    });
    let ahead = in_order(ahead.collect(), Ord::cmp);
    ahead.get(ahead.len() / 2).copied().unwrap_or_default()
}

/// When the first report of all came; `None` where a partition has sums and does not know since when.
fn begun_ms(parts: &[(FleetPart, i64, i64)]) -> Option<i64> {
    let counted = parts.iter().filter(|(part, ..)| !part.sums.is_empty());
    let begun: Option<Vec<i64>> = counted.map(|(part, ..)| part.begun_ms).collect();
    begun?.into_iter().min()
}

fn best_clocks(clocks: Vec<Clock>) -> Vec<Clock> {
    let mut best: BTreeMap<Datacenter, Clock> = BTreeMap::new();
    for clock in clocks {
        let known = best.get(&clock.datacenter);
        if known.is_none_or(|known| clock.is_more_informative_than(known))
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
        let is_newer = known.is_none_or(|known| gauge.replaces(known));
        if is_newer && (known.is_some() || newest.len() < NAMES_MAX) {
            newest.insert(name, gauge);
        }
    }
    newest.into_values().collect()
}

/// The data of all partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fleet {
    part: FleetPart,
    missing: Vec<u32>,
}

impl Fleet {
    /// Combines the answers of partitions; each answer comes with the times at which its question left and was answered
    /// by the asker's clock. `missing` did not answer.
    pub fn of(parts: Vec<(FleetPart, i64, i64)>, missing: Vec<u32>) -> Self {
        let mut all = FleetPart {
            begun_ms: begun_ms(&parts),
            ..FleetPart::default()
        };
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

    /// Returns whether every partition has answered. A sum without one partition would fall, which readers take for a
    /// restart.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty()
    }

    /// Partitions that did not answer.
    pub fn missing(&self) -> &[u32] {
        &self.missing
    }

    /// The combined data.
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
