//! The root of a counter: its living generation, its settings and its datacenters.
//!
//! Invariants: generations of a counter only rise. A datacenter is in the root before any of its cells acknowledges a
//! write of that generation. The root is live or ended, never both.

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

/// How long the record of an ended generation is kept at least, milliseconds: a day, and an hour for clocks that
/// differ. The directory keeps it for longer while it has keys of the counter, or while a lead must be notified of the
/// end.
pub const TOMBSTONE_KEPT_MS: i64 = 25 * 3_600_000;

/// The most datacenters of one counter; Cloudflare has about 340 colos.
pub const DATACENTERS_MAX: usize = 1_024;

/// The directory's entry of a counter.
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
        /// When it ended, unix milliseconds.
        at_ms: i64,
    },
}

/// The root of a living counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Root+")]
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
    /// When a failed end is retried, unix milliseconds; 0 for none.
    pub retry_end_ms: i64,
    /// Inboxes that may have uncounted events of it; a strong read asks them.
    pub inboxes: BTreeSet<InboxId>,
    /// Rises with each change of the grants.
    pub revision: u64,
    /// The datacenter that all writes are forwarded to, if there is one.
    pub home: Option<Datacenter>,
    /// While there is a home: the totals of all other datacenters. None of them counts.
    pub held: Vec<(Datacenter, Cells)>,
    /// The effect of set and reset on the value.
    pub operations: Operations,
    /// Whether datacenters may count that are not in the root: it was rebuilt from one lead, which was not alone. No
    /// read of the counter is exact from then on.
    pub may_lack: bool,
}

/// What becomes of a datacenter that asks to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership {
    /// It is in the root already.
    Known,
    /// All its writes go to the home.
    Elsewhere(Datacenter),
    /// There is no room for another datacenter.
    Full,
    /// It joins, see [`Root::join`].
    New {
        /// The only lead reports its own total as exact until it is notified of a second datacenter, so it is notified
        /// before the new one may count.
        notify: Option<Datacenter>,
    },
}

/// Why a call that needs a home has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeedsHome;

impl Root {
    /// Whether its value includes a base, or held totals: no lead knows those.
    pub fn has_value_of_its_own(&self) -> bool {
        self.operations.has_base() || !self.held.is_empty()
    }

    /// A new counter. Its generation is above the ended one, and at least the clock in milliseconds. So it rises also
    /// if no record of the old one is left.
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

    /// Rebuilds a root whose row was lost, from a lead's grant: the lead counts for that generation, so it is the
    /// living one. The baselines of other datacenters are lost. The grant of a datacenter that was alone, or home,
    /// includes them.
    pub fn adopt(held: &Grant, datacenter: &Datacenter, now_ms: i64) -> Self {
        let mut root = Self {
            generation: held.generation,
            // The number of a generation is the clock in milliseconds at its beginning.
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

    /// Records the held totals of other datacenters again, which stopped for the home of an adopted root. The home's
    /// grant has them in `rest`, so they are subtracted from the base.
    pub fn hold(&mut self, held: Vec<(Datacenter, Cells)>) {
        let cells = held.iter().flat_map(|(_, cells)| cells);
        let base = cells.fold(self.operations.base(), |base, (_, totals)| {
            base.without(totals.added, totals.removed)
        });
        self.operations = Operations::adopt(self.operations.number(), base);
        self.held = held;
    }

    /// When the counter ends, as far as the root knows; leads may know of later writes.
    pub fn expires_at_ms(&self) -> Option<i64> {
        self.settings
            .ttl
            .map(|ttl| ttl.expires_at_ms(self.last_write_ms))
    }

    /// Whether the time to live has passed, as far as the root knows.
    pub fn is_due(&self, now_ms: i64) -> bool {
        self.expires_at_ms().is_some_and(|at| now_ms >= at)
    }

    /// Retries a failed end at that time. A sliding counter lives until then, because its leads could not be asked for
    /// their last write.
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

    /// The only datacenter that counts: the home, or the single datacenter. It returns its own total as the counter's
    /// value, so it must be notified before anything else may change the value.
    pub fn sole(&self) -> Option<&Datacenter> {
        let only = (self.datacenters.first()).filter(|_| self.datacenters.len() == 1);
        self.home.as_ref().or(only)
    }

    /// What becomes of a datacenter that asks to count.
    pub fn membership(&self, datacenter: &Datacenter) -> Membership {
        if let Some(home) = self.home_elsewhere(datacenter) {
            return Membership::Elsewhere(home.clone());
        }
        if self.datacenters.contains(datacenter) {
            return Membership::Known;
        }
        if self.datacenters.len() >= DATACENTERS_MAX {
            return Membership::Full;
        }
        let notify = self.sole().filter(|_| self.home.is_none()).cloned();
        Membership::New { notify }
    }

    /// Adds a new datacenter. The notice for the only lead has the present revision: if the root is not stored
    /// afterwards, the next revision is for another change.
    pub fn join(&mut self, datacenter: &Datacenter) {
        self.assign_home(datacenter);
        self.datacenters.insert(datacenter.clone());
    }

    /// Begins the next revision, once the only lead is notified. The root is stored before the grant is given:
    /// otherwise only the lead would know of this write, and would live longer than the root.
    pub fn joined(&mut self, now_ms: i64) {
        self.revision += 1;
        self.last_write_ms = self.last_write_ms.max(now_ms);
    }

    /// The home, if it is not this datacenter.
    pub fn home_elsewhere(&self, datacenter: &Datacenter) -> Option<&Datacenter> {
        self.home.as_ref().filter(|home| *home != datacenter)
    }

    /// Returns the home that a floor requires: the named one, else the present home, else the only datacenter that has
    /// written. `Ok(None)` if none has written: the datacenter of the first write will be home.
    ///
    /// # Errors
    /// [`NeedsHome`] if several have written, and none is named: the owner must choose.
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
    fn assign_home(&mut self, writer: &Datacenter) {
        if self.settings.floor.is_some() && self.home.is_none() && self.datacenters.is_empty() {
            self.home = Some(writer.clone());
        }
    }

    /// Returns the datacenters that must stop and report their totals before `home` replaces the present home: those
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

    /// The condition that holds at the home, by its cells, all of which have stopped.
    pub fn now_at(&self, home: &Datacenter, cells: &[(u8, CellTotals)]) -> HomeCondition {
        let own = cells.iter().find(|(shard, _)| *shard == 0);
        HomeCondition {
            home: home.clone(),
            generation: self.generation,
            sequence: own.map_or(0, |(_, totals)| totals.sequence),
            operations: self.operations.number(),
        }
    }

    /// Moves the home. `held` are the totals of all other datacenters, which have stopped. Conditions from before no
    /// longer hold, unless only the new home has ever counted.
    pub fn move_home(&mut self, home: Option<Datacenter>, held: Vec<(Datacenter, Cells)>) {
        if self.home.is_some() || !held.is_empty() {
            self.operations.record_move();
        }
        self.held = if home.is_some() { held } else { Vec::new() };
        self.home = home;
    }

    /// Sets the value. `seen` holds the totals of each datacenter that counts; `None` for one that did not answer with
    /// all its cells.
    pub fn set(&mut self, value: Value, seen: Vec<(Datacenter, Option<Cells>)>, now_ms: i64) {
        let mut seen = seen;
        let held = self.held.iter().cloned();
        seen.extend(held.map(|(datacenter, cells)| (datacenter, Some(cells))));
        self.operations.set(value, seen, now_ms);
        self.last_write_ms = self.last_write_ms.max(now_ms);
    }

    /// The datacenters whose totals still change: all, or the home.
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
            // The home has one cell, which decides.
            settings.shards = Some(1);
        }
        Grant {
            generation: self.generation,
            settings,
            last_write_ms: self.last_write_ms,
            revision: self.revision,
            // No cell knows the whole value of a counter with queued events.
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

/// The first text after all texts that begin with `prefix`, in the order of code points; `None` if there is none. A
/// listing reads from `prefix` up to it.
pub fn prefix_end(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        // Skips the surrogates, which are no characters.
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
