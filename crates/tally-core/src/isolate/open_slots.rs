//! The objects that an isolate has in use, where all objects run in one process. There, each open object holds file
//! descriptors and memory, and opening one takes the only thread for milliseconds. Elsewhere this module is not used.
//!
//! Invariants: the objects in use within [`LET_GO_MS`] or [`LET_GO_AT_NEED_MS`] are bounded, so that the process does
//! not run out of resources. The work that bulk bodies begin between two rests is bounded by [`GROUP_COST`], so
//! that other callers are served in between. A process that is never idle serves no socket and no timer, not even the
//! timers that release objects.

use std::collections::HashMap;

use crate::counter::settings::SHARDS_MAX;

/// How long after its last use an object counts as open, milliseconds: plain workerd releases an idle object after 10
/// s, and its timers may be late.
pub const LET_GO_MS: i64 = 15_000;

/// As [`LET_GO_MS`], where the platform closes an idle object once another needs its room: an object is idle when its
/// rows are on the disk.
pub const LET_GO_AT_NEED_MS: i64 = 100;

/// The work that may begin before the next rest. A call costs 1, a call that opens an object [`OPENING_COST`]: a group
/// is 8 openings or 128 calls.
pub const GROUP_COST: u32 = 128;

/// The cost of a call that opens its object.
pub const OPENING_COST: u32 = 16;

/// The cost of a call, microseconds.
const CALL_US: u32 = 500;

/// The assumed cost of a call of a batch before any was measured, microseconds.
const BATCHED_US: u32 = 250;

/// The bounds of measured costs of a call of a batch, microseconds. A call that moves a lead or a root from its former
/// place costs the most, some 20 ms.
const BATCHED_US_WITHIN: (u32, u32) = (10, BATCH_US);

/// How long one batch should occupy the thread, microseconds: other callers wait for it.
const BATCH_US: u32 = 20_000;

/// The fewest calls of batches in a group that is measured.
const MEASURED_MIN: u32 = 16;

/// The pause between two groups, milliseconds: timers count whole milliseconds, and the current one may be nearly over.
pub const REST_MS: i64 = 2;

/// How often released objects are searched for while there is no room, milliseconds.
const SWEEP_EVERY_MS: i64 = 100;

/// Bulk bodies may use three of four slots. A quarter is reserved for other users.
const BULK_OF_FOUR: usize = 3;

/// How long calls delay the next group after the last of them began, milliseconds. A call ends within 5 s, but a call
/// whose request the platform has ended never reports its end.
const GROUP_MS_MAX: i64 = 10_000;

/// The user of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectUser {
    /// A user of many objects: a bulk body or an aggregate. It waits until there is room.
    Bulk,
    /// A single call, which is refused where there is no room.
    Single,
    /// A change of a counter that must reach its cells. It needs all shards of the counter at once, so there is room
    /// for [`SHARDS_MAX`] more.
    Change,
}

#[derive(Clone, Copy, Debug)]
struct Use {
    last_ms: i64,
    /// Whether a call has reached it, so that it is open.
    is_open: bool,
}

/// The objects of an isolate that are in use.
#[derive(Clone, Debug)]
pub struct Openings {
    objects_max: usize,
    let_go_ms: i64,
    uses: HashMap<u64, Use>,
    swept_ms: i64,
    /// The cost begun since the last rest.
    spent: u32,
    /// How many of those calls have not ended.
    calls_in_flight: u32,
    rests_until_ms: Option<i64>,
    /// When the last of them began.
    begun_ms: i64,
    /// When the first of them began, and how many calls in batches there are; `None` if other calls are included.
    measured: Option<(i64, u32)>,
    /// The measured cost of a call of a batch, with all its consequences here, microseconds.
    batched_us: u32,
}

/// The cost of a call that began; return it to [`Openings::end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotUse {
    name: u64,
    cost: u32,
    opens: bool,
}

impl Openings {
    /// Slots for `objects_max` objects, none in use. `let_go_ms`: how long an object is in use after its last call.
    pub fn new(objects_max: usize, let_go_ms: i64) -> Self {
        Self {
            objects_max: objects_max.max(1),
            let_go_ms,
            uses: HashMap::new(),
            swept_ms: i64::MIN,
            spent: 0,
            calls_in_flight: 0,
            rests_until_ms: None,
            begun_ms: i64::MIN,
            measured: None,
            batched_us: BATCHED_US,
        }
    }

    /// Succeeds if the object of that name is in use, or if there is room for it. The object then takes the room. Names
    /// are hashes.
    ///
    /// # Errors
    /// Milliseconds until there may be room, at least 1.
    pub fn admit(&mut self, name: u64, user: ObjectUser, now_ms: i64) -> Result<(), u64> {
        if let Some(known) = self.uses.get_mut(&name)
            && is_in_use(known, self.let_go_ms, now_ms)
        {
            known.last_ms = now_ms;
            return Ok(());
        }
        let limit = match user {
            ObjectUser::Bulk => self.bulk_max(),
            ObjectUser::Single => self.objects_max,
            ObjectUser::Change => self.objects_max + usize::from(SHARDS_MAX),
        };
        if self.uses.len() >= limit {
            self.sweep(now_ms);
        }
        if self.uses.len() >= limit {
            let oldest_ms = self.uses.values().map(|known| known.last_ms).min();
            let wait_ms = oldest_ms.map_or(0, |last_ms| last_ms + self.let_go_ms - now_ms);
            return Err(u64::try_from(wait_ms).unwrap_or(0).max(1));
        }
        let is_open = false;
        self.uses.insert(
            name,
            Use {
                last_ms: now_ms,
                is_open,
            },
        );
        Ok(())
    }

    /// How long it takes until so many unopened objects have had room as [`ObjectUser::Bulk`], milliseconds.
    pub fn time_for(&self, objects: usize) -> i64 {
        let rounds = objects.div_ceil(self.bulk_max()).saturating_sub(1);
        self.let_go_ms
            .saturating_mul(i64::try_from(rounds).unwrap_or(i64::MAX))
    }

    fn bulk_max(&self) -> usize {
        (self.objects_max * BULK_OF_FOUR / 4).max(1)
    }

    /// The number of calls that one batch should have.
    pub fn batch_max(&self) -> usize {
        usize::try_from(BATCH_US / self.batched_us.max(1)).unwrap_or(usize::MAX)
    }

    /// Begins a batch of so many calls of a bulk body to an object, as [`Openings::begin`].
    pub fn begin_batch(&mut self, name: u64, calls: u32, now_ms: i64) -> Option<SlotUse> {
        let cost_us = calls.saturating_mul(self.batched_us);
        let begun = self.begin_costing(name, cost_us.div_ceil(CALL_US), now_ms)?;
        if self.calls_in_flight == 1 {
            self.measured = Some((now_ms, 0));
        }
        if let Some((_, measured)) = &mut self.measured {
            *measured = measured.saturating_add(calls);
        }
        Some(begun)
    }

    /// Begins a call of a bulk body to an object; `None` while it must wait: until all begun calls have ended, and then
    /// for [`REST_MS`].
    pub fn begin(&mut self, name: u64, now_ms: i64) -> Option<SlotUse> {
        let begun = self.begin_costing(name, 1, now_ms)?;
        self.measured = None;
        Some(begun)
    }

    fn begin_costing(&mut self, name: u64, calls: u32, now_ms: i64) -> Option<SlotUse> {
        let known = self.uses.get(&name).copied();
        let is_open =
            known.is_some_and(|known| known.is_open && is_in_use(&known, self.let_go_ms, now_ms));
        let calls = calls.clamp(1, GROUP_COST - OPENING_COST);
        let cost = if is_open {
            calls
        } else {
            OPENING_COST + calls - 1
        };
        if self.spent + cost > GROUP_COST {
            if self.calls_in_flight > 0 {
                if now_ms.saturating_sub(self.begun_ms) < GROUP_MS_MAX {
                    return None;
                }
                self.calls_in_flight = 0;
            }
            let until_ms = *self.rests_until_ms.get_or_insert(now_ms + REST_MS);
            // A clock that stepped back does not delay.
            if (0..=REST_MS).contains(&(until_ms - now_ms)) && until_ms > now_ms {
                return None;
            }
            self.spent = 0;
            self.rests_until_ms = None;
        }
        self.spent += cost;
        self.calls_in_flight += 1;
        self.begun_ms = now_ms;
        self.uses.insert(
            name,
            Use {
                last_ms: now_ms,
                is_open: true,
            },
        );
        let opens = !is_open;
        Some(SlotUse { name, cost, opens })
    }

    /// Ends a call that began. One that was not made after all costs nothing.
    pub fn end(&mut self, begun: SlotUse, was_made: bool, now_ms: i64) {
        self.calls_in_flight = self.calls_in_flight.saturating_sub(1);
        if !was_made {
            self.spent = self.spent.saturating_sub(begun.cost);
        }
        if self.calls_in_flight == 0 {
            self.measure(now_ms);
        }
        if let Some(known) = self.uses.get_mut(&begun.name) {
            known.last_ms = now_ms;
            known.is_open &= was_made || !begun.opens;
        }
    }

    /// Measures the cost of the calls of a group that has ended.
    fn measure(&mut self, now_ms: i64) {
        let Some((begun_ms, calls)) = self
            .measured
            .take()
            .filter(|(_, calls)| *calls >= MEASURED_MIN)
        else {
            return;
        };
        let took_us = now_ms.saturating_sub(begun_ms).saturating_mul(1_000);
        let each_us = u32::try_from(took_us).unwrap_or(0) / calls;
        let (min_us, max_us) = BATCHED_US_WITHIN;
        self.batched_us = ((3 * self.batched_us + each_us.min(max_us)) / 4).clamp(min_us, max_us);
    }

    /// How many are in use, as of the last sweep.
    pub fn len(&self) -> usize {
        self.uses.len()
    }

    /// Returns whether none is in use.
    pub fn is_empty(&self) -> bool {
        self.uses.is_empty()
    }

    fn sweep(&mut self, now_ms: i64) {
        let since_ms = now_ms.saturating_sub(self.swept_ms);
        if (0..SWEEP_EVERY_MS).contains(&since_ms) {
            return;
        }
        self.swept_ms = now_ms;
        let let_go_ms = self.let_go_ms;
        self.uses
            .retain(|_, known| is_in_use(known, let_go_ms, now_ms));
    }
}

fn is_in_use(known: &Use, let_go_ms: i64, now_ms: i64) -> bool {
    now_ms.saturating_sub(known.last_ms) < let_go_ms
}
