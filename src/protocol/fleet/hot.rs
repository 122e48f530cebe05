//! Which counters were written most lately.
//!
//! Invariant: of a counter that is named, at least `rate` and at most `rate + error` was written a second, as far as isolates have
//! reported; of one that is not, at most what is said of all such. Each isolate counts by [`TopValues`], whose bounds these are.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::core::counter::id::{CounterId, Datacenter};
use crate::core::sketch::TopValues;

/// Counters that an isolate keeps apart; twice as many while it counts: 200 bytes each.
const KEPT_MAX: usize = 256;

/// Counters that one report names: 64 of up to 540 bytes.
pub const TOLD_MAX: usize = 64;

/// Counters that a partition names.
pub const ROWS_MAX: usize = 256;

/// How long what an isolate reported is recent, milliseconds: three reports, of which two may be lost.
pub const RECENT_MS: i64 = 30_000;

/// A rate is of so long a time at least, milliseconds: two writes at once are no million a second.
const DURING_MS_MIN: u64 = 1_000;

/// Datacenters of one counter that an isolate tells apart.
const PLACES_MAX: usize = 16;

/// What an isolate's cells were written, since it last told.
#[derive(Debug, Default)]
pub struct HotNotes {
    writes: TopValues,
    /// Of those that are held: where.
    places: HashMap<String, Vec<WrittenPlace>>,
    since_ms: Option<i64>,
}

/// A counter in a datacenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenPlace {
    /// The datacenter.
    pub datacenter: Datacenter,
    /// Over how many shards its writes are spread there.
    pub shards: u8,
    /// Writes there, at least.
    pub writes: u64,
}

/// One of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotOne {
    /// The counter.
    pub counter: CounterId,
    /// Writes, at least.
    pub writes: u64,
    /// How many more they may be.
    pub error: u64,
    /// Where.
    pub places: Vec<WrittenPlace>,
}

/// What an isolate tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotTold {
    /// The time that it is of, milliseconds.
    pub during_ms: u64,
    /// What was written most.
    pub most: Vec<HotOne>,
    /// The most that any other was written.
    pub absent_max: u64,
}

impl HotNotes {
    /// Notes writes of a counter in a datacenter. Cost: two look-ups, and 2 µs in [`KEPT_MAX`] new counters for each.
    pub fn note(
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
        let Some(places) = self.places.get_mut(counter.as_str()) else {
            let place = WrittenPlace {
                datacenter: datacenter.clone(),
                shards,
                writes,
            };
            self.places.insert(counter.as_str().to_owned(), vec![place]);
            self.prune();
            return;
        };
        let has_room = places.len() < PLACES_MAX;
        let mut known = places.iter_mut();
        match known.find(|place| place.datacenter == *datacenter) {
            Some(place) => {
                place.writes = place.writes.saturating_add(writes);
                place.shards = shards;
            }
            None if has_room => places.push(WrittenPlace {
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
            self.places
                .retain(|counter, _| writes.get(counter).count > 0);
        }
    }

    /// Tells what was written since it told last, and begins anew.
    pub fn take(&mut self, now_ms: i64) -> HotTold {
        let Self {
            mut writes,
            mut places,
            since_ms,
        } = std::mem::take(self);
        let Some(since_ms) = since_ms else {
            return HotTold::default();
        };
        writes.prune(TOLD_MAX);
        let narrow = |amount: u128| u64::try_from(amount).unwrap_or(u64::MAX);
        let mut most = Vec::new();
        for (counter, counted) in writes.values() {
            let places = places.remove(counter).unwrap_or_default();
            let Ok(counter) = CounterId::stored(counter) else {
                continue;
            };
            most.push(HotOne {
                counter,
                writes: narrow(counted.count),
                error: narrow(counted.error),
                places,
            });
        }
        let during_ms = u64::try_from(now_ms.saturating_sub(since_ms)).unwrap_or(0);
        HotTold {
            during_ms: during_ms.max(DURING_MS_MIN),
            most,
            absent_max: narrow(writes.absent_max()),
        }
    }
}

/// Thousandths of a write a second.
pub type MilliRate = u64;

/// A counter in one datacenter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotPlace {
    /// What is written there, at least.
    pub rate: MilliRate,
    /// Over how many shards.
    pub shards: u8,
}

/// A counter, by those isolates that named it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotRow {
    /// What is written, at least.
    pub rate: MilliRate,
    /// What more those isolates may have seen.
    error: MilliRate,
    /// What they would have seen at most, had they not named it.
    named: MilliRate,
    /// By datacenter.
    pub datacenters: BTreeMap<Datacenter, HotPlace>,
}

/// What is known of all counters together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hot {
    rows: BTreeMap<CounterId, HotRow>,
    /// The most that is written of a counter that nobody named.
    absent_max: MilliRate,
}

impl Hot {
    /// Adds what an isolate has told.
    pub fn add(&mut self, told: HotTold) {
        if told.during_ms == 0 {
            return;
        }
        let rate = |writes: u64| {
            let milli = u128::from(writes) * 1_000_000 / u128::from(told.during_ms);
            u64::try_from(milli).unwrap_or(u64::MAX)
        };
        let absent = rate(told.absent_max);
        self.absent_max = self.absent_max.saturating_add(absent);
        for one in told.most {
            let row = self.rows.entry(one.counter).or_default();
            row.rate = row.rate.saturating_add(rate(one.writes));
            row.error = row.error.saturating_add(rate(one.error));
            row.named = row.named.saturating_add(absent);
            for told in one.places {
                let place = row.datacenters.entry(told.datacenter).or_default();
                place.rate = place.rate.saturating_add(rate(told.writes));
                place.shards = place.shards.max(told.shards);
            }
        }
    }

    /// Adds what other isolates have told.
    pub fn merge(&mut self, other: Self) {
        self.absent_max = self.absent_max.saturating_add(other.absent_max);
        for (counter, more) in other.rows {
            let row = self.rows.entry(counter).or_default();
            row.rate = row.rate.saturating_add(more.rate);
            row.error = row.error.saturating_add(more.error);
            row.named = row.named.saturating_add(more.named);
            for (datacenter, more) in more.datacenters {
                let place = row.datacenters.entry(datacenter).or_default();
                place.rate = place.rate.saturating_add(more.rate);
                place.shards = place.shards.max(more.shards);
            }
        }
    }

    /// How much more than its rate a counter may be written.
    pub fn error(&self, row: &HotRow) -> MilliRate {
        self.absent_max
            .saturating_sub(row.named)
            .saturating_add(row.error)
    }

    /// The most that is written of a counter that is not named.
    pub fn absent_max(&self) -> MilliRate {
        self.absent_max
    }

    /// The counters that are written most, first those that are written more.
    pub fn most(&self, limit: usize) -> Vec<(&CounterId, &HotRow)> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_unstable_by(|one, other| (other.1.rate, one.0).cmp(&(one.1.rate, other.0)));
        rows.truncate(limit);
        rows
    }

    /// Leaves out all but the first. What is left out is less than what is said of those that are not named.
    pub fn prune(&mut self, most: usize) {
        if self.rows.len() <= most {
            return;
        }
        let kept: Vec<CounterId> = self
            .most(most)
            .into_iter()
            .map(|(id, _)| id.clone())
            .collect();
        let mut cut = 0;
        let absent_max = self.absent_max;
        self.rows.retain(|counter, row| {
            let stays = kept.contains(counter);
            if !stays {
                let beyond = row.rate.saturating_add(row.error).saturating_sub(row.named);
                cut = cut.max(beyond);
            }
            stays
        });
        self.absent_max = absent_max.saturating_add(cut);
        for row in self.rows.values_mut() {
            row.named = row.named.saturating_add(cut);
        }
    }

    /// Shards over which the writes of all that are named are spread.
    pub fn shards(&self) -> u64 {
        let places = self.rows.values().flat_map(|row| row.datacenters.values());
        places.map(|place| u64::from(place.shards)).sum()
    }

    /// How many counters are named.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether none is named.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}
