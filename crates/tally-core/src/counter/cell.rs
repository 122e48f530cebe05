//! The state of one (counter, datacenter, shard).
//!
//! Invariants: totals only grow within a generation. `sequence` grows by one with every flush that is counted. A flush
//! is counted at most once. A refused flush changes nothing.
//!
//! Life: a cell is *unborn* until it is granted a generation: by the root if it is the lead, else by the lead. It then
//! counts flushes until its generation is closed or its time to live lapses. A lapsed cell counts nothing before it has
//! a new grant.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::flush::{Changes, Load, Refusal};
use super::grant::{GRANT_TRUSTED_MS, Grant, GrantOutcome};
use super::history::{History, HotHistory, Resolution};
use super::ledger::{EndedKeys, RecentKeys};
use super::ledgers::Ledgers;
use super::merge::{CellFacts, Part, Question};
use super::nonces::{FlushEffect, FlushRecord, Nonce, Nonces};
use super::total::CellTotal;
use crate::sketch::Uniques;

mod answer;
mod contents;
mod elements;
pub mod keyed_writes;
pub mod numbered_writes;
pub mod recovery;
mod rows;
mod samples;
mod shards;
mod stale_flush_guard;

/// How far a write's stamp may be from the cell's clock, seconds. Other stamps are clamped.
pub const STAMP_CLAMP_SECONDS: i64 = 5;

/// Clamps a write's stamp to [`STAMP_CLAMP_SECONDS`] around the cell's clock, both in unix seconds.
pub fn clamp_stamp(second: i64, now: i64) -> i64 {
    let earliest = now.saturating_sub(STAMP_CLAMP_SECONDS);
    second.clamp(earliest, now.saturating_add(STAMP_CLAMP_SECONDS))
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CellState {
    grant: Option<Grant>,
    sequence: u64,
    added: CellTotal,
    removed: CellTotal,
    facts: CellFacts,
    shards_ever: u8,
    /// The number of shards that writes of the datacenter spread over; 0 if that is not known yet.
    spread: u8,
    /// Whether this cell refuses flushes until it is unsealed.
    is_sealed: bool,
    /// A lead's sealed shards, each with its part.
    sealed: BTreeMap<u8, Option<Part>>,
    /// How often this cell was sealed, in memory only: see [`CellState::unseal`].
    seals: u64,
    /// How often each shard was admitted, in memory only: see [`CellState::keep_sealed`].
    admissions: BTreeMap<u8, u64>,
    nonces: Nonces,
    /// Flushes of generations that have ended, in memory only: see [`CellState::check_generation`].
    ended_nonces: Nonces,
    /// Writes with drawn keys that were counted lately, and those of generations that have ended, in memory only.
    lately: RecentKeys,
    ended_keys: EndedKeys,
    ledgers: Ledgers,
    /// Whether numbered writes were struck out here, as far as is known.
    has_numbers: bool,
    history: History,
    all_time: Uniques,
    open_uniques: Option<(i64, Uniques)>,
    /// The first hour whose minutes have not been joined; `None` before any element.
    open_hour: Option<i64>,
    /// Generations up to this one have ended. In memory only. It stops a grant of an ended generation that was in
    /// flight at the end.
    closed_through: u64,
    /// How long seconds are kept where the counter has no setting; 0 for as long as windows are exact. In memory only.
    seconds_default: u32,
    /// When this cell sent the last request that was answered with a grant, by its own clock. In memory only.
    granted_ms: Option<i64>,
}

/// The stored form of the hot row, the one row that a plain flush writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlushRow {
    grant: Option<Grant>,
    sequence: u64,
    added: CellTotal,
    removed: CellTotal,
    facts: CellFacts,
    shards_ever: u8,
    spread: u8,
    is_sealed: bool,
    nonces: Nonces,
    history: HotHistory,
    /// The minute whose sketch the sketch of all time does not include yet.
    open_uniques: Option<i64>,
    /// The first hour whose minutes have not been joined into one row.
    open_hour: Option<i64>,
    /// The second from which seconds are complete in this row and in those of hours together, if there are such rows.
    #[serde(default)]
    seconds_from: Option<i64>,
}

impl FlushRow {
    /// The minute whose sketch the sketch of all time does not include yet.
    pub fn open_minute(&self) -> Option<i64> {
        self.open_uniques
    }

    /// The first hour whose minutes have not been joined into one row.
    pub fn open_hour(&self) -> Option<i64> {
        self.open_hour
    }
}

impl CellState {
    /// The generation that the cell counts for, if it has one.
    pub fn generation(&self) -> Option<u64> {
        self.grant.map(|grant| grant.generation)
    }

    /// How many flushes and keyed writes it has counted in this generation.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The grant that the cell counts under.
    pub fn grant(&self) -> Option<Grant> {
        self.grant
    }

    /// The most shards that its datacenter ever had in this generation.
    pub fn shards_ever(&self) -> u8 {
        self.shards_ever.max(1)
    }

    /// The newest write that the cell knows of, unix milliseconds.
    pub fn last_write_ms(&self) -> i64 {
        self.facts
            .last_write_ms
            .max(self.grant.map_or(i64::MIN, |grant| grant.last_write_ms))
    }

    /// Whether the counter's time to live has passed, as far as this cell knows.
    pub fn has_lapsed(&self, now_ms: i64) -> bool {
        let ttl = self.grant.and_then(|grant| grant.settings.ttl);
        ttl.is_some_and(|ttl| now_ms >= ttl.expires_at_ms(self.last_write_ms()))
    }

    /// Whether a flush must wait for a grant: the cell has none, is sealed, or its time to live is over and the
    /// generation has not been confirmed since (clocks differ).
    pub fn needs_grant(&self, now_ms: i64) -> bool {
        let just_granted = self
            .granted_ms
            .is_some_and(|at| now_ms.abs_diff(at) < GRANT_TRUSTED_MS);
        self.is_sealed || self.grant.is_none() || (self.has_lapsed(now_ms) && !just_granted)
    }

    /// Takes a grant. A newer generation starts empty. The same generation takes newer settings. An older generation,
    /// or an ended one, changes nothing. The grant was requested at `requested_ms`: the counter lived at that time or
    /// later, however long the answer took.
    pub fn take_grant(&mut self, grant: Grant, requested_ms: i64) -> GrantOutcome {
        if grant.generation <= self.closed_through
            || self.generation().is_some_and(|own| own > grant.generation)
        {
            return GrantOutcome::Outdated;
        }
        let taken = match self.generation() {
            Some(own) if own == grant.generation => {
                self.configure(grant);
                GrantOutcome::Renewed
            }
            older => {
                // An unborn cell may have struck writes out. It must not count them now either.
                let ledgers = match older {
                    None => std::mem::take(&mut self.ledgers),
                    Some(_) => Ledgers::default(),
                };
                *self = Self {
                    ledgers,
                    has_numbers: self.has_numbers && older.is_none(),
                    grant: Some(grant),
                    shards_ever: grant.settings.shards(),
                    spread: grant.spread,
                    closed_through: self.closed_through,
                    seals: self.seals,
                    seconds_default: self.seconds_default,
                    ended_nonces: self.take_ended_nonces(),
                    ended_keys: self.take_ended_keys(),
                    ..Self::default()
                };
                match older {
                    Some(_) => GrantOutcome::Replaced,
                    None => GrantOutcome::Born,
                }
            }
        };
        self.granted_ms = Some(requested_ms);
        taken
    }

    /// Takes over the content of a grant of its own generation. The grant may have been in flight for long. So unlike a
    /// requested one it does not prove that the counter lives.
    pub fn configure(&mut self, grant: Grant) {
        let Some(held) = &mut self.grant else { return };
        held.last_write_ms = held.last_write_ms.max(grant.last_write_ms);
        if grant.revision > held.revision {
            // A home has one shard, whatever the settings say.
            let is_older = grant.settings.number < held.settings.number;
            *held = Grant {
                settings: if is_older {
                    held.settings
                } else {
                    grant.settings
                },
                last_write_ms: held.last_write_ms,
                ..grant
            };
        } else if grant.revision == held.revision {
            // Two answers of the same revision differ: the stricter one holds.
            held.alone = held.alone && grant.alone;
            held.is_home = held.is_home && grant.is_home;
        }
        if grant.settings.number > held.settings.number {
            held.settings = grant.settings;
        }
        let fixed = held.settings.shards();
        if grant.spread > 0 {
            self.spread = grant.spread;
        }
        self.shards_ever = self.shards_ever.max(fixed);
    }

    /// Whether it has nothing to store: it counts for no generation, and has struck nothing out.
    pub fn is_blank(&self) -> bool {
        self.generation().is_none() && self.ledgers.records() == 0 && !self.has_numbers
    }

    /// Drops everything if the cell is of this generation or an older one. True if it was.
    pub fn close(&mut self, generation: u64) -> bool {
        let closes = self
            .generation()
            .is_some_and(|current| current <= generation);
        if closes {
            *self = Self {
                closed_through: self.closed_through,
                seals: self.seals,
                seconds_default: self.seconds_default,
                ended_nonces: self.take_ended_nonces(),
                ended_keys: self.take_ended_keys(),
                ..Self::default()
            };
        }
        self.closed_through = self.closed_through.max(generation);
        closes
    }

    /// Counts a flush, once for any number of repeats. Returns the state after it and the rows to write.
    ///
    /// # Errors
    /// See [`Refusal`]. Then nothing has changed.
    pub fn apply(
        &mut self,
        nonce: Nonce,
        load: &Load,
        now_ms: i64,
    ) -> Result<(FlushEffect, Changes), Refusal> {
        let mut changes = Changes::default();
        let outcome = self.apply_in(nonce, load, now_ms, &mut changes)?;
        Ok((outcome, changes))
    }

    /// [`CellState::apply`] as a part of a commit with other flushes: adds the rows to write to theirs. Each flush must
    /// know those before it, because a page of buckets is written whole: if one flush has marked a page, what the next
    /// adds to the open minute is in that page, and nowhere else.
    ///
    /// # Errors
    /// See [`Refusal`]. Then nothing has changed.
    pub fn apply_in(
        &mut self,
        nonce: Nonce,
        load: &Load,
        now_ms: i64,
        changes: &mut Changes,
    ) -> Result<FlushEffect, Refusal> {
        match self.nonces.look_up(nonce, now_ms) {
            FlushRecord::New => {}
            FlushRecord::Repeated(outcome) => return Ok(outcome),
            FlushRecord::Stray => return Err(Refusal::Stray),
            FlushRecord::Full => return Err(Refusal::TooManyLanes),
        }
        self.check_generation(nonce, load.newest)?;
        if self.needs_grant(now_ms) {
            return Err(Refusal::NeedsGrant);
        }
        let has_floor = self
            .grant
            .is_some_and(|grant| grant.settings.floor.is_some());
        if has_floor && load.removed > 0 {
            return Err(Refusal::HasFloor);
        }
        let unique_hash = self.grant.map(|grant| grant.settings.unique_hash);
        if let Some(own) = unique_hash.filter(|own| load.has_tokens() && !own.takes(load.hash)) {
            return Err(Refusal::OtherHash(own));
        }

        self.added = self.added.plus(load.added);
        self.removed = self.removed.plus(load.removed);
        self.sequence += 1;
        self.facts = self.facts.join(CellFacts::written(now_ms));
        changes.hot = true;
        self.apply_times(load, now_ms.div_euclid(1_000), changes);
        let outcome = FlushEffect {
            sequence: self.sequence,
            added: self.added,
            removed: self.removed,
        };
        self.nonces.remember(nonce, outcome, now_ms);
        Ok(outcome)
    }

    fn apply_amounts(
        &mut self,
        live: &[(i64, u128)],
        past: &[(i64, u128)],
        now: i64,
        changes: &mut Changes,
    ) {
        let set = self.grant.and_then(|grant| grant.settings.seconds_kept);
        let kept = set.unwrap_or(self.seconds_default);
        if self.history.keep(kept, now) {
            changes.seconds_from = Some(i64::MAX);
        }
        for &(second, amount) in live {
            let second = clamp_stamp(second, now);
            self.history.add(second, amount, now, &mut changes.pages);
        }
        for &(second, amount) in past {
            self.history.add(second, amount, now, &mut changes.pages);
        }
        let old = self.history.take_old();
        if !old.is_empty() {
            changes.seconds.extend(old);
            let gone = Resolution::Hour.start_of(self.history.kept_from(Resolution::Second));
            changes.seconds_from.get_or_insert(gone);
        }
    }

    fn apply_times(&mut self, load: &Load, now: i64, changes: &mut Changes) {
        self.apply_amounts(&load.live, &load.past, now, changes);
        Self::apply_samples(&load.samples, now, changes);
        Self::apply_dimensions(&load.dimensions, now, changes);
        self.apply_elements(load, now, changes);
    }

    /// Sets how long seconds are kept where the counter has no setting.
    pub fn keep_seconds(&mut self, seconds_default: u32) {
        self.seconds_default = seconds_default;
    }

    /// How many lanes flushed here within the last second.
    pub fn lanes_within_second(&self, now_ms: i64) -> u32 {
        self.nonces.lanes_within_second(now_ms)
    }
}
