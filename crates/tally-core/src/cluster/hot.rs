//! The counters that receive the most writes at present.
//!
//! Invariant: a listed counter was written between `rate` and `rate + error` times a second, as far as isolates have
//! reported. A counter that is not listed was written at most `absent_max` times a second. Each isolate counts by
//! [`TopValues`], which gives these bounds.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::counter::id::{CounterId, Datacenter};
use crate::order::put_in_order;
use crate::sketch::TopValues;

/// Counters that an isolate tracks, of 200 bytes each; twice as many while it counts.
const KEPT_MAX: usize = 256;

/// The most counters in one report: 64 of up to 540 bytes.
pub const TOLD_MAX: usize = 64;

/// The most counters that a partition lists.
pub const ROWS_MAX: usize = 256;

/// How long a report counts as recent, milliseconds: three reports, of which two may be lost.
pub const RECENT_MS: i64 = 30_000;

/// The shortest time that a rate refers to, milliseconds. Without it, two writes in the same millisecond would be
/// thousands a second.
const DURING_MS_MIN: u64 = 1_000;

/// The most datacenters of one counter that an isolate tracks.
const DATACENTERS_MAX: usize = 16;

/// The writes of an isolate's cells since its last report.
#[derive(Debug, Default)]
pub struct HotWrites {
    writes: TopValues,
    /// The datacenters of tracked counters.
    datacenters: HashMap<String, Vec<DatacenterWrites>>,
    since_ms: Option<i64>,
}

/// A counter in a datacenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatacenterWrites {
    /// The datacenter.
    pub datacenter: Datacenter,
    /// Over how many shards its writes are spread.
    pub shards: u8,
    /// Writes there, as a lower bound.
    pub writes: u64,
}

/// A counter of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotOne {
    /// The counter.
    pub counter: CounterId,
    /// Writes, as a lower bound.
    pub writes: u64,
    /// By how much the true number may exceed it.
    pub error: u64,
    /// By datacenter.
    pub datacenters: Vec<DatacenterWrites>,
}

/// A report of an isolate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotReport {
    /// The length of its interval, milliseconds.
    pub during_ms: u64,
    /// The counters written most.
    pub counters: Vec<HotOne>,
    /// An upper bound on the writes of any other counter.
    pub absent_max: u64,
}

impl HotWrites {
    /// Notes writes of a counter in a datacenter. Cost: two look-ups, and an eviction once in [`KEPT_MAX`] new
    /// counters.
    pub fn record(
        &mut self,
        counter: &CounterId,
        datacenter: &Datacenter,
        shards: u8,
        writes: u64,
        now_ms: i64,
    ) {
        if counter.is_own() {
            return;
        }
        self.since_ms.get_or_insert(now_ms);
        self.writes.add(counter.as_str(), writes.into());
        let Some(written) = self.datacenters.get_mut(counter.as_str()) else {
            let first = DatacenterWrites {
                datacenter: datacenter.clone(),
                shards,
                writes,
            };
            self.datacenters
                .insert(counter.as_str().to_owned(), vec![first]);
            self.prune();
            return;
        };
        let has_room = written.len() < DATACENTERS_MAX;
        let mut known = written.iter_mut();
        match known.find(|known| known.datacenter == *datacenter) {
            Some(known) => {
                known.writes = known.writes.saturating_add(writes);
                known.shards = shards;
            }
            None if has_room => written.push(DatacenterWrites {
                datacenter: datacenter.clone(),
                shards,
                writes,
            }),
            None => {}
        }
    }

    fn prune(&mut self) {
        if self.writes.len() > 2 * KEPT_MAX {
            self.writes.prune(KEPT_MAX);
            let writes = &self.writes;
            self.datacenters
                .retain(|counter, _| writes.get(counter).count > 0);
        }
    }

    /// Returns the writes since the last report, and begins the next.
    pub fn take(&mut self, now_ms: i64) -> HotReport {
        let Self {
            mut writes,
            mut datacenters,
            since_ms,
        } = std::mem::take(self);
        let Some(since_ms) = since_ms else {
            return HotReport::default();
        };
        writes.prune(TOLD_MAX);
        let narrow = |amount: u128| u64::try_from(amount).unwrap_or(u64::MAX);
        let mut counters = Vec::new();
        for (counter, counted) in writes.values() {
            let datacenters = datacenters.remove(counter).unwrap_or_default();
            let Ok(counter) = CounterId::stored(counter) else {
                continue;
            };
            counters.push(HotOne {
                counter,
                writes: narrow(counted.count),
                error: narrow(counted.error),
                datacenters,
            });
        }
        let during_ms = u64::try_from(now_ms.saturating_sub(since_ms)).unwrap_or(0);
        HotReport {
            during_ms: during_ms.max(DURING_MS_MIN),
            counters,
            absent_max: narrow(writes.absent_max()),
        }
    }
}

/// Thousandths of a write a second.
pub type MilliRate = u64;

/// A counter in one datacenter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatacenterRate {
    /// Writes there, as a lower bound.
    pub rate: MilliRate,
    /// Over how many shards.
    pub shards: u8,
}

/// A counter, from the isolates that reported it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotRow {
    /// Writes, as a lower bound.
    pub rate: MilliRate,
    /// By how much those isolates may have undercounted it.
    error: MilliRate,
    /// The sum of those isolates' bounds on counters that they do not list.
    named: MilliRate,
    /// By datacenter.
    pub datacenters: BTreeMap<Datacenter, DatacenterRate>,
}

/// The reports of all isolates together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hot {
    rows: BTreeMap<CounterId, HotRow>,
    /// An upper bound on the writes of a counter that no isolate listed.
    absent_max: MilliRate,
}

impl Hot {
    /// Adds a report of an isolate.
    pub fn add(&mut self, report: HotReport) {
        if report.during_ms == 0 {
            return;
        }
        let rate = |writes: u64| {
            let milli = u128::from(writes) * 1_000_000 / u128::from(report.during_ms);
            u64::try_from(milli).unwrap_or(u64::MAX)
        };
        let absent = rate(report.absent_max);
        self.absent_max = self.absent_max.saturating_add(absent);
        for one in report.counters {
            let row = self.rows.entry(one.counter).or_default();
            row.rate = row.rate.saturating_add(rate(one.writes));
            row.error = row.error.saturating_add(rate(one.error));
            row.named = row.named.saturating_add(absent);
            for part in one.datacenters {
                let sum = row.datacenters.entry(part.datacenter).or_default();
                sum.rate = sum.rate.saturating_add(rate(part.writes));
                sum.shards = sum.shards.max(part.shards);
            }
        }
    }

    /// Adds the reports of other isolates.
    pub fn merge(&mut self, other: Self) {
        self.absent_max = self.absent_max.saturating_add(other.absent_max);
        for (counter, more) in other.rows {
            let row = self.rows.entry(counter).or_default();
            row.rate = row.rate.saturating_add(more.rate);
            row.error = row.error.saturating_add(more.error);
            row.named = row.named.saturating_add(more.named);
            for (datacenter, more) in more.datacenters {
                let sum = row.datacenters.entry(datacenter).or_default();
                sum.rate = sum.rate.saturating_add(more.rate);
                sum.shards = sum.shards.max(more.shards);
            }
        }
    }

    /// By how much a counter's true rate may exceed its listed rate.
    pub fn error(&self, row: &HotRow) -> MilliRate {
        self.absent_max
            .saturating_sub(row.named)
            .saturating_add(row.error)
    }

    /// An upper bound on the rate of a counter that is not listed.
    pub fn absent_max(&self) -> MilliRate {
        self.absent_max
    }

    /// The counters written most, in falling order.
    pub fn hottest(&self, limit: usize) -> Vec<(&CounterId, &HotRow)> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        put_in_order(&mut rows, |one, other| {
            (other.1.rate, one.0).cmp(&(one.1.rate, other.0))
        });
        rows.truncate(limit);
        rows
    }

    /// Removes all but the first `rows_max` counters. The rates of those removed stay below the bound for counters that
    /// are not listed.
    pub fn prune(&mut self, rows_max: usize) {
        if self.rows.len() <= rows_max {
            return;
        }
        let kept: Vec<CounterId> = self
            .hottest(rows_max)
            .into_iter()
            .map(|(id, _)| id.clone())
            .collect();
        let mut cut = 0;
        let absent_max = self.absent_max;
        self.rows.retain(|counter, row| {
            let is_kept = kept.contains(counter);
            if !is_kept {
                let beyond = row.rate.saturating_add(row.error).saturating_sub(row.named);
                cut = cut.max(beyond);
            }
            is_kept
        });
        self.absent_max = absent_max.saturating_add(cut);
        for row in self.rows.values_mut() {
            row.named = row.named.saturating_add(cut);
        }
    }

    /// The sum of the shards of all listed counters.
    pub fn shards(&self) -> u64 {
        let rates = self.rows.values().flat_map(|row| row.datacenters.values());
        rates.map(|rate| u64::from(rate.shards)).sum()
    }

    /// How many counters are listed.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether none is listed.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}
