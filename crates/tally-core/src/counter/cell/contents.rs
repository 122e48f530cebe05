//! A cell's contents, read for an export and installed by an import.
//!
//! Invariant: contents are installed with the record of their key, in one commit. So they are installed once for any
//! number of repeats.

use super::{CellState, Changes, Refusal};
use crate::counter::contents::{Contents, ContentsWanted, Points};
use crate::counter::history::Resolution;
use crate::counter::ledger::{KeyedOutcome, KeyedWrite, StoredRecord, WriteKey};
use crate::counter::ledgers::LedgerLimits;
use crate::counter::merge::CellFacts;
use crate::counter::total::Value;

impl CellState {
    /// The contents of a generation in memory: all except samples and breakdowns. `None` if the cell counts for no or
    /// another generation.
    pub fn contents(&self, generation: u64, wanted: ContentsWanted) -> Option<Contents> {
        self.generation().filter(|own| *own == generation)?;
        let points = |step: Resolution, from: i64| self.history.points(step, from, i64::MAX);
        let mut contents = Contents {
            added: self.added.into(),
            removed: self.removed.into(),
            last_write_ms: self.facts.last_write_ms,
            ..Contents::default()
        };
        if wanted.history {
            contents.hours = points(Resolution::Hour, i64::MIN);
            contents.days = points(Resolution::Day, i64::MIN);
            contents.hours_from = self.history.kept_from(Resolution::Hour);
            contents.days_from = self.history.kept_from(Resolution::Day);
        }
        if let Some(from) = wanted.minutes_from {
            contents.minutes = points(Resolution::Minute, from);
        }
        if wanted.uniques {
            contents.uniques = self.uniques();
        }
        Some(contents)
    }

    /// An upper bound of the times of all increments of its datacenter, unix milliseconds; `None` if only shards know
    /// it, or if nothing was counted.
    pub fn newest_count_ms(&self) -> Option<i64> {
        let newest = self.history.newest_end()?;
        (self.shards_ever() == 1).then(|| newest.saturating_mul(1_000))
    }

    /// Adds contents to the cell, once under a key. `write` has the key and counts nothing itself.
    ///
    /// # Errors
    /// As [`CellState::apply_keyed`].
    pub fn install(
        &mut self,
        (write, contents): (&KeyedWrite, &Contents),
        limits: LedgerLimits,
        now_ms: i64,
        known: &dyn Fn(WriteKey) -> Option<StoredRecord>,
        changes: &mut Changes,
    ) -> Result<KeyedOutcome, Refusal> {
        // Settings and value of an earlier generation do not matter for this one.
        if !self.is_before(write) && known(write.key).is_none() {
            let own = self.grant().map(|grant| grant.settings.unique_hash);
            let hashes = contents.uniques.hashes();
            if let Some(own) = own.filter(|own| hashes.iter().any(|hash| !own.takes(*hash))) {
                return Err(Refusal::OtherHash(own));
            }
            if self.would_be_below_floor(contents) {
                return Ok(KeyedOutcome::BelowFloor);
            }
        }
        let facts = self.facts;
        let writes = std::slice::from_ref(write);
        let outcomes = self.apply_keyed(writes, None, limits, now_ms, known, changes)?;
        let outcome = outcomes.into_iter().next().unwrap_or(KeyedOutcome::Unknown);
        if matches!(outcome, KeyedOutcome::Counted(_)) {
            // An import is not a write of the present time.
            self.facts = facts.join(CellFacts::written(contents.last_write_ms));
            self.add_contents(contents, now_ms.div_euclid(1_000), changes);
        }
        Ok(outcome)
    }

    /// Whether the value with these contents would be below the floor, as far as this cell knows it.
    fn would_be_below_floor(&self, contents: &Contents) -> bool {
        let floor = self.grant().and_then(|grant| grant.settings.floor);
        let Some((floor, value)) = floor.zip(self.value_at_home()) else {
            return false;
        };
        let after = value.plus(Value::new(contents.added, contents.removed));
        after.is_below(floor) && after.is_below(value)
    }

    fn add_contents(&mut self, contents: &Contents, now: i64, changes: &mut Changes) {
        self.added = self.added.plus_sum(contents.added);
        self.removed = self.removed.plus_sum(contents.removed);
        let minutes_from = contents.minutes.first().map(|(minute, _)| *minute);
        let steps: [(Resolution, &Points, i64); 3] = [
            (
                Resolution::Minute,
                &contents.minutes,
                minutes_from.map_or(i64::MIN, |minute| Resolution::Day.start_of(minute)),
            ),
            (Resolution::Hour, &contents.hours, contents.hours_from),
            (Resolution::Day, &contents.days, contents.days_from),
        ];
        for (step, points, kept_from) in steps {
            self.history
                .install(step, points, kept_from, now, &mut changes.pages);
        }
        let is_timed = !(contents.hours.is_empty() && contents.days.is_empty());
        if is_timed || !contents.minutes.is_empty() {
            self.history.begin_fine(now, contents.minutes.is_empty());
        }
        if !contents.uniques.is_empty() {
            changes.all_time |= self.all_time.merge(&contents.uniques);
        }
        changes.hour_samples.clone_from(&contents.samples);
        changes.breakdowns.clone_from(&contents.breakdowns);
    }
}
