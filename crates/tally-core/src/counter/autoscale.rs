//! The load of a cell, and its effects: how long lanes gather, and the number of shards.
//!
//! Invariants: a cell that is not hot asks no lane to wait. The number of shards is a power of two from 1 to
//! [`SHARDS_MAX`] and changes by one doubling or halving at a time.

use serde::{Deserialize, Serialize};

use super::settings::SHARDS_MAX;

/// The longest time for which a cell may ask a lane to gather, milliseconds.
pub const LINGER_MS_MAX: u32 = 20;

/// The target of a hot cell, flushes per second. It is a quarter of what one object takes (about 1,000 requests a
/// second), because each flush is a call and a row to pay for. One every 4 ms adds little delay for a client.
pub const FLUSHES_PER_SECOND_TARGET: u32 = 250;

/// When a datacenter's number of shards changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thresholds {
    /// Flushes per second of one cell from which on the shards are doubled.
    pub split_flushes_per_second: u32,
    /// How long every cell must stay below an eighth of that before the shards are halved.
    pub quiet_ms: i64,
}

impl Default for Thresholds {
    /// A cell splits at the load that one object takes. After a minute of quiet the shards are halved.
    fn default() -> Self {
        Self {
            split_flushes_per_second: 1_000,
            quiet_ms: 60_000,
        }
    }
}

/// A cell is quiet below the splitting load divided by this. After a halving each cell has twice the load, so there
/// must be room between halving and splitting.
const QUIET_PART: u32 = 8;

impl Thresholds {
    /// Whether a cell with so many flushes a second keeps its datacenter's shards apart.
    pub fn is_busy(self, per_second: u32) -> bool {
        per_second > self.split_flushes_per_second / QUIET_PART
    }
}

/// Counts flushes, and the writes in them, by the second. In memory only: a restart resets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushMeter {
    second: i64,
    current: Rate,
    previous: Rate,
}

/// The load of a cell in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Flushes.
    pub flushes: u32,
    /// Writes in them.
    pub writes: u32,
}

impl FlushMeter {
    /// Records one flush with so many writes.
    pub fn record(&mut self, writes: u32, now_ms: i64) {
        self.roll(now_ms);
        self.current.flushes = self.current.flushes.saturating_add(1);
        self.current.writes = self.current.writes.saturating_add(writes.max(1));
    }

    /// The load of the last whole second, or of the current one if that has more flushes.
    pub fn per_second(&mut self, now_ms: i64) -> Rate {
        self.roll(now_ms);
        if self.current.flushes >= self.previous.flushes {
            self.current
        } else {
            self.previous
        }
    }

    fn roll(&mut self, now_ms: i64) {
        let second = now_ms.div_euclid(1_000);
        if second != self.second {
            // A clock step, in either direction, begins a new count.
            self.previous = if second == self.second.wrapping_add(1) {
                self.current
            } else {
                Rate::default()
            };
            self.current = Rate::default();
            self.second = second;
        }
    }
}

/// Messages per second from which on a lead leaves its tablet: a tenth of what one object takes. All leads of a tablet
/// share one object.
pub const LEAVE_PER_SECOND: u32 = 100;

/// How long the rate of a lead must stay above the threshold before it leaves: [`Thresholds::quiet_ms`] divided by
/// this, 10 s.
const LEAVE_PART: i64 = 6;

/// How long the rate must stay below a tenth of the threshold before the lead goes back: [`Thresholds::quiet_ms`] times
/// this, ten minutes.
const REST_TIMES: i64 = 10;

/// A lead rests below the threshold divided by this.
const REST_PART: u32 = 10;

/// When a lead leaves its tablet for an object of its own, and when it goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaveLimits {
    /// Messages per second from which on it leaves.
    pub per_second: u32,
    /// How long the rate must stay above that without a gap of the same length, milliseconds.
    pub hot_ms: i64,
    /// How long the rate must have been below a tenth of that, milliseconds.
    pub rest_ms: i64,
}

impl LeaveLimits {
    /// The limits that belong to these thresholds.
    pub fn new(per_second: u32, thresholds: Thresholds) -> Self {
        Self {
            per_second,
            hot_ms: thresholds.quiet_ms / LEAVE_PART,
            rest_ms: thresholds.quiet_ms.saturating_mul(REST_TIMES),
        }
    }

    /// Whether a lead that has counted `counted` messages in `for_ms` rests.
    pub fn is_rest(self, counted: u64, for_ms: i64) -> bool {
        let seconds = u64::try_from(for_ms / 1_000).unwrap_or(0);
        let rest_max = u64::from((self.per_second / REST_PART).max(1));
        counted < rest_max.saturating_mul(seconds)
    }
}

/// The time in which a lead has been hot. In memory only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotPeriod {
    /// When it began, and when the lead was last hot, unix milliseconds.
    since: Option<(i64, i64)>,
}

impl HotPeriod {
    /// Records a rate, and returns whether it has been high for long enough.
    pub fn record(&mut self, per_second: u32, limits: LeaveLimits, now_ms: i64) -> bool {
        if per_second < limits.per_second {
            return false;
        }
        let begun_ms = match self.since {
            // After a clock step back the period begins anew.
            Some((begun_ms, last_ms))
                if (0..=limits.hot_ms.max(1_000)).contains(&now_ms.saturating_sub(last_ms)) =>
            {
                begun_ms
            }
            _ => now_ms,
        };
        self.since = Some((begun_ms, now_ms));
        now_ms.saturating_sub(begun_ms) >= limits.hot_ms
    }

    /// Begins anew.
    pub fn cool(&mut self) {
        self.since = None;
    }
}

/// How long lanes should gather, milliseconds, so that the lanes of the last second together flush
/// [`FLUSHES_PER_SECOND_TARGET`] times a second. 0 while the cell is not hot.
pub fn linger_ms(rate: Rate, lanes: u32) -> u32 {
    if rate.flushes < FLUSHES_PER_SECOND_TARGET / 2 {
        return 0;
    }
    // A single lane with one write in each flush is one client that waits for every answer. Its own round trip limits
    // it, and no write would join it.
    let joins = rate.writes / 2 >= rate.flushes;
    let lanes = if joins {
        lanes
    } else {
        lanes.saturating_sub(1)
    };
    let period_ms = lanes
        .saturating_mul(1_000)
        .div_ceil(FLUSHES_PER_SECOND_TARGET);
    period_ms.min(LINGER_MS_MAX)
}

/// A lead's decision about its number of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardStep {
    /// Twice as many.
    Double,
    /// Half as many.
    Halve,
    /// As they are.
    Keep,
}

/// The loads of a datacenter's cells, as they report them to its lead. In memory only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loads {
    /// When some cell was last above the quiet part of the threshold.
    busy_ms: i64,
    /// When the number of shards last changed.
    changed_ms: i64,
    /// The highest load reported within the current second.
    highest: u32,
    since_ms: i64,
}

/// For how long a load must be reported before it counts, and how long a change needs to take effect, milliseconds.
const CONFIRM_MS: i64 = 1_000;

impl Loads {
    /// Nothing is reported yet.
    pub fn new(now_ms: i64) -> Self {
        Self {
            busy_ms: now_ms,
            changed_ms: now_ms,
            highest: 0,
            since_ms: now_ms,
        }
    }

    /// Merges a cell's load.
    pub fn merge(&mut self, per_second: u32, thresholds: Thresholds, now_ms: i64) {
        if now_ms.abs_diff(self.since_ms) >= CONFIRM_MS.unsigned_abs() {
            self.highest = 0;
            self.since_ms = now_ms;
        }
        self.highest = self.highest.max(per_second);
        if thresholds.is_busy(per_second) {
            self.busy_ms = now_ms;
        }
    }

    /// The decision if there are `shards` shards now.
    pub fn decide(&self, shards: u8, thresholds: Thresholds, now_ms: i64) -> ShardStep {
        let unchanged_ms = now_ms.saturating_sub(self.changed_ms);
        let quiet_ms = now_ms.saturating_sub(self.busy_ms.max(self.changed_ms));
        if self.highest > thresholds.split_flushes_per_second
            && shards < SHARDS_MAX
            && unchanged_ms >= CONFIRM_MS.min(thresholds.quiet_ms)
        {
            ShardStep::Double
        } else if quiet_ms >= thresholds.quiet_ms && shards > 1 {
            ShardStep::Halve
        } else {
            ShardStep::Keep
        }
    }

    /// Records that the number of shards has changed.
    pub fn changed(&mut self, now_ms: i64) {
        self.changed_ms = now_ms;
        self.highest = 0;
        self.since_ms = now_ms;
    }
}

/// The writes that wait in a lane before an isolate uses another shard: a million increments stay below 8,000 flushes.
/// So one lane carries 128 writes in the time of a flush, which are about 25,000 a second at 5 ms.
pub const LANE_WRITES_MAX: u32 = 128;

/// Returns the shard, among `shards`, for the next write of an isolate whose own shard is `own`: the first, from `own`
/// on, in whose lane fewer than [`LANE_WRITES_MAX`] writes wait; if there is none, the one with the fewest. So an
/// isolate uses as many shards as its rate needs, and leaves a shard whose flushes lag. `waiting` is not asked if there
/// is one shard.
pub fn shard_with_room(own: u8, shards: u8, waiting: impl Fn(u8) -> u32) -> u8 {
    let mut fewest = (own, u32::MAX);
    if shards > 1 {
        for shard in (own..shards).chain(0..own) {
            let writes = waiting(shard);
            if writes < LANE_WRITES_MAX {
                return shard;
            }
            if writes < fewest.1 {
                fewest = (shard, writes);
            }
        }
    }
    fewest.0
}

/// Returns the shard, among `shards`, of a lot (a hash slot). An isolate draws one lot, whose shard it uses first: it
/// sends large flushes to one cell rather than small ones to all.
pub fn shard_of_lot(lot: u64, shards: u8) -> u8 {
    u8::try_from(lot % u64::from(shards.max(1))).unwrap_or(0)
}

/// The shard of a unique element's hash, so that shards hold disjoint elements.
pub fn shard_of_element(hash: u64, shards: u8) -> u8 {
    // The sketch uses the same bits, so a multiplication mixes them again (Fibonacci hashing).
    shard_of_lot(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32, shards)
}
