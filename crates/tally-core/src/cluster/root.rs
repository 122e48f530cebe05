//! The root of a counter: which generation lives, with what settings, and in which datacenters.
//!
//! Invariants: generations of a counter only rise; a datacenter is in the root before any of its
//! cells acknowledges a write of that generation; the root is live or ended, never both.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::operation::{Cells, Operations};
use crate::counter::grant::Grant;
use crate::counter::id::Datacenter;
use crate::counter::ledger::HomeCondition;
use crate::counter::merge::CellTotals;
use crate::counter::queue::InboxId;
use crate::counter::settings::{Settings, TtlMode};
use crate::counter::total::Value;

/// How long the memory of an ended generation is kept at least: a day, and an hour for clocks that
/// differ. The directory keeps it for longer while it has keys of the counter, or a lead must be told
/// of the end.
pub const TOMBSTONE_KEPT_MS: i64 = 25 * 3_600_000;

/// The most datacenters of one counter; Cloudflare has about 340 colos.
pub const DATACENTERS_MAX: usize = 1_024;

/// What the directory keeps of a counter.
#[expect(
    clippy::large_enum_variant,
    reason = "one is read or written at a time, and most are live"
)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootEntry {
    /// The counter exists.
    Live(Root),
    /// Its last generation has ended.
    Ended {
        /// The generation that ended.
        generation: u64,
        /// When, unix milliseconds.
        at_ms: i64,
    },
}

/// The root of a living counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// The living generation.
    pub generation: u64,
    /// When it was created, unix milliseconds.
    pub created_at_ms: i64,
    /// Its settings.
    pub settings: Settings,
    /// The datacenters that have cells.
    pub datacenters: BTreeSet<Datacenter>,
    /// The newest write that the root knows of, unix milliseconds.
    pub last_write_ms: i64,
    /// When the end is tried again that could not be carried out, unix milliseconds; 0 for none.
    pub retry_end_ms: i64,
    /// Inboxes that may have events of it which are not counted yet; a strong read asks them.
    pub inboxes: BTreeSet<InboxId>,
    /// Rises with whatever changes of the grants.
    pub revision: u64,
    /// The datacenter that all writes are forwarded to, if there is one.
    pub home: Option<Datacenter>,
    /// While there is a home: the totals of all other datacenters. None of them counts.
    pub held: Vec<(Datacenter, Cells)>,
    /// What set and reset have made of the value.
    pub operations: Operations,
    /// Whether datacenters may count that are not in it: it was made again from what one lead knew, which was not
    /// alone. No read of the counter is exact from then on.
    pub may_lack: bool,
}

/// Why a call that needs a home has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeedsHome;

impl Root {
    /// Whether operations have made something of its value, or shares of it are held: no lead knows that.
    pub fn has_value_of_its_own(&self) -> bool {
        self.operations.has_base() || !self.held.is_empty()
    }

    /// A new counter. Its generation is above the one that ended, and above the clock in
    /// milliseconds, so that it rises even where no memory of the old one is left.
    pub fn create(before: Option<&RootEntry>, now_ms: i64) -> Self {
        let from_clock = u64::try_from(now_ms).unwrap_or(0);
        let above_old = before.map_or(1, |entry| entry.generation() + 1);
        Self {
            generation: from_clock.max(above_old),
            created_at_ms: now_ms,
            settings: Settings::default(),
            datacenters: BTreeSet::new(),
            last_write_ms: now_ms,
            retry_end_ms: 0,
            inboxes: BTreeSet::new(),
            revision: 0,
            home: None,
            held: Vec::new(),
            operations: Operations::default(),
            may_lack: false,
        }
    }

    /// A root whose row was lost, from what a lead had been granted: it counts for that generation, so this is the
    /// one that lives. What operations had observed of other datacenters is lost; of a datacenter that was alone,
    /// or home, the grant holds it.
    pub fn adopt(held: &Grant, datacenter: &Datacenter, now_ms: i64) -> Self {
        let mut root = Self {
            generation: held.generation,
            // Generations begin as the clock in milliseconds.
            created_at_ms: i64::try_from(held.generation).map_or(now_ms, |at_ms| at_ms.min(now_ms)),
            settings: held.settings,
            last_write_ms: held.last_write_ms.max(now_ms),
            revision: held.revision + 1,
            home: held.is_home.then(|| datacenter.clone()),
            may_lack: !held.alone,
            ..Self::create(None, now_ms)
        };
        root.datacenters.insert(datacenter.clone());
        root.operations = Operations::adopt(held.operations, held.rest);
        root
    }

    /// Records again what others hold that stopped for the home of an adopted root. The grant of home has it in `rest`,
    /// so it is taken off the base.
    pub fn hold(&mut self, held: Vec<(Datacenter, Cells)>) {
        let cells = held.iter().flat_map(|(_, cells)| cells);
        let base = cells.fold(self.operations.base(), |base, (_, totals)| {
            base.without(totals.added, totals.removed)
        });
        self.operations = Operations::adopt(self.operations.number(), base);
        self.held = held;
    }

    /// When the counter ends by what the root knows; leads may know of later writes.
    pub fn expires_at_ms(&self) -> Option<i64> {
        self.settings
            .ttl
            .map(|ttl| ttl.expires_at_ms(self.last_write_ms))
    }

    /// Whether the time to live has passed by what the root knows.
    pub fn is_due(&self, now_ms: i64) -> bool {
        self.expires_at_ms().is_some_and(|at| now_ms >= at)
    }

    /// Tries an end that could not be carried out again at that time, not before. A sliding counter
    /// lives until then, since its leads could not be asked for their last write.
    pub fn postpone_end(&mut self, until_ms: i64) {
        self.retry_end_ms = until_ms;
        if self.is_sliding() {
            let length_ms = self.settings.ttl.map_or(0, |ttl| ttl.length_ms());
            self.last_write_ms = self.last_write_ms.max(until_ms.saturating_sub(length_ms));
        }
    }

    /// Whether leads must be asked for their last write before the counter may end.
    pub fn is_sliding(&self) -> bool {
        self.settings
            .ttl
            .is_some_and(|ttl| ttl.mode == TtlMode::Sliding)
    }

    /// The only datacenter that counts: home, or the one that there is. It calls its own total the counter's
    /// value, so it must know before anything else may change the value.
    pub fn sole(&self) -> Option<&Datacenter> {
        let only = (self.datacenters.first()).filter(|_| self.datacenters.len() == 1);
        self.home.as_ref().or(only)
    }

    /// The lead that must learn, before `newcomer` may count, that it is no longer alone.
    pub fn lone_lead(&self, newcomer: &Datacenter) -> Option<&Datacenter> {
        let sole = self.sole().filter(|_| self.home.is_none());
        sole.filter(|lead| *lead != newcomer)
    }

    /// Where all writes go, if that is not this datacenter.
    pub fn home_elsewhere(&self, datacenter: &Datacenter) -> Option<&Datacenter> {
        self.home.as_ref().filter(|home| *home != datacenter)
    }

    /// Returns the home that a floor requires: the named one, else the present home, else the only datacenter that has
    /// written. `Ok(None)` if none has written: the datacenter of the first write will be home.
    ///
    /// # Errors
    /// [`NeedsHome`] where several have, and none is named: which one it is to be is the owner's to say.
    pub fn home_for_bounds(
        &self,
        named: Option<Datacenter>,
    ) -> Result<Option<Datacenter>, NeedsHome> {
        let known = named.or_else(|| self.sole().cloned());
        match known {
            None if !self.datacenters.is_empty() => Err(NeedsHome),
            known => Ok(known),
        }
    }

    /// The first write of a counter whose decrements are bounded makes its datacenter home.
    pub fn assign_home(&mut self, writer: &Datacenter) {
        if self.settings.floor.is_some() && self.home.is_none() && self.datacenters.is_empty() {
            self.home = Some(writer.clone());
        }
    }

    /// Returns the datacenters that must stop and say what they hold, before `home` replaces the present home: those
    /// that count now and will not afterwards, and one that will no longer count alone.
    pub fn to_stop_for(&self, home: Option<&Datacenter>) -> Vec<Datacenter> {
        if self.home.as_ref() == home {
            return Vec::new();
        }
        let counts = |datacenter: &&Datacenter| match (home, &self.home) {
            (Some(home), _) => *datacenter != home,
            (None, Some(before)) => *datacenter == before,
            (None, None) => false,
        };
        self.datacenters.iter().filter(counts).cloned().collect()
    }

    /// The condition that holds at home, by its cells, all of which have stopped.
    pub fn now_at(&self, home: &Datacenter, cells: &[(u8, CellTotals)]) -> HomeCondition {
        let own = cells.iter().find(|(shard, _)| *shard == 0);
        HomeCondition {
            home: home.clone(),
            generation: self.generation,
            sequence: own.map_or(0, |(_, totals)| totals.sequence),
            operations: self.operations.number(),
        }
    }

    /// Moves the home. `held` is what every other datacenter holds, all of which have stopped. What was seen before
    /// fits no condition any more, unless only the home that it gets has ever counted.
    pub fn move_home(&mut self, home: Option<Datacenter>, held: Vec<(Datacenter, Cells)>) {
        if self.home.is_some() || !held.is_empty() {
            self.operations.record_move();
        }
        self.held = if home.is_some() { held } else { Vec::new() };
        self.home = home;
    }

    /// Sets the value. `seen` holds what each datacenter that counts had counted; `None` for one that did not answer
    /// with all its cells.
    pub fn set(&mut self, value: Value, seen: Vec<(Datacenter, Option<Cells>)>, now_ms: i64) {
        let mut seen = seen;
        let held = self.held.iter().cloned();
        seen.extend(held.map(|(datacenter, cells)| (datacenter, Some(cells))));
        self.operations.set(value, seen, now_ms);
        self.last_write_ms = self.last_write_ms.max(now_ms);
    }

    /// The datacenters whose totals change still: all, or home.
    pub fn counting(&self) -> Vec<Datacenter> {
        let held =
            |datacenter: &&Datacenter| !self.held.iter().any(|(other, _)| other == *datacenter);
        self.datacenters.iter().filter(held).cloned().collect()
    }

    /// The value without the totals of one datacenter, if no other counts.
    fn rest_of(&self, datacenter: &Datacenter) -> Value {
        let others = self.held.iter().filter(|(other, _)| other != datacenter);
        others.fold(
            self.operations.rest_of(datacenter),
            |sum, (other, cells)| sum.plus(self.operations.beyond(other, cells)),
        )
    }

    /// The grant for the lead of a datacenter; `alone` if no other datacenter counts.
    pub fn grant(&self, datacenter: &Datacenter) -> Grant {
        let is_home = self.home.as_ref() == Some(datacenter);
        let is_only = self.datacenters.iter().all(|other| other == datacenter);
        let is_sole = is_home || (self.home.is_none() && is_only);
        let mut settings = self.settings;
        if is_home {
            // One cell decides.
            settings.shards = Some(1);
        }
        Grant {
            generation: self.generation,
            settings,
            last_write_ms: self.last_write_ms,
            revision: self.revision,
            // Of a counter with queued events no cell knows the whole.
            alone: self.inboxes.is_empty() && is_sole && !self.may_lack,
            is_home,
            rest: if is_sole {
                self.rest_of(datacenter)
            } else {
                Value::default()
            },
            operations: self.operations.number(),
            spread: 0,
        }
    }
}

impl RootEntry {
    /// The generation that lives or ended last.
    pub fn generation(&self) -> u64 {
        match self {
            Self::Live(root) => root.generation,
            Self::Ended { generation, .. } => *generation,
        }
    }

    /// When the directory must look at the entry again, unix milliseconds.
    pub fn due_at_ms(&self) -> Option<i64> {
        match self {
            Self::Live(root) => root
                .expires_at_ms()
                .map(|at_ms| at_ms.max(root.retry_end_ms)),
            Self::Ended { at_ms, .. } => Some(at_ms.saturating_add(TOMBSTONE_KEPT_MS)),
        }
    }
}

/// The first text after all texts that begin with `prefix`, in the order of their code points;
/// `None` where there is none. Listing reads from `prefix` up to it.
pub fn prefix_end(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        // Stepping over the surrogates, which are no characters.
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            _ => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}
