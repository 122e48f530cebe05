//! Numbered writes at a cell: each is counted once, by its lane's row.
//!
//! Invariant: a write is counted, or struck out, only together with its number.

use super::{CellState, Changes, Refusal};
use crate::counter::id::Datacenter;
use crate::counter::ledger::{KeyedOutcome, KeyedWrite, WriteKey};
use crate::counter::numbered_writes::{Decision, Numbers, WritePlace, is_over, lane_and_number};

/// Looks up the decisions about a lane in storage.
pub type KnownNumbers<'a> = &'a dyn Fn(WriteKey) -> Numbers;

/// Numbered writes that are decided together.
pub struct NumberedWrites<'a> {
    /// The writes.
    pub writes: &'a [KeyedWrite],
    /// How often their claims have moved; `None` if their sender asks this lead first.
    pub moves: Option<u32>,
    /// The time, unix milliseconds.
    pub now_ms: i64,
    /// The decisions about their lanes.
    pub known: KnownNumbers<'a>,
}

impl NumberedWrites<'_> {
    /// The outcome of each write. An undecided write is decided by `decide`, and its decision is recorded, or `decide`
    /// returns an outcome instead.
    fn outcomes(
        &self,
        changes: &mut Changes,
        mut decide: impl FnMut(
            &KeyedWrite,
            &mut Changes,
        ) -> Result<(Decision, KeyedOutcome), KeyedOutcome>,
    ) -> Vec<KeyedOutcome> {
        let outcome = |write: &KeyedWrite| {
            let undecided = self.undecided(write, changes);
            undecided.and_then(|(lane, number, mut numbers)| {
                let (decided, outcome) = decide(write, changes)?;
                numbers.put(number, decided);
                changes.numbers.insert(lane, numbers);
                Ok(outcome)
            })
        };
        let outcomes = self.writes.iter().map(outcome);
        outcomes
            .map(|outcome| outcome.unwrap_or_else(|answer| answer))
            .collect()
    }

    /// The lane and number of an undecided write, with the decisions about the lane.
    ///
    /// # Errors
    /// The outcome of a write that was decided, or that cannot be.
    fn undecided(
        &self,
        write: &KeyedWrite,
        changes: &Changes,
    ) -> Result<(WriteKey, u64, Numbers), KeyedOutcome> {
        if is_over(write.key, self.now_ms) {
            return Err(KeyedOutcome::Expired);
        }
        let (lane, number) = lane_and_number(write.key);
        let pending = changes.numbers.get(&lane).cloned();
        let moves = self.moves;
        let numbers = pending.unwrap_or_else(|| (self.known)(lane));
        match numbers.get(number) {
            Some(Decision::Counted) => Err(KeyedOutcome::CountedBefore),
            Some(Decision::Struck(struck)) if moves.unwrap_or(0) <= struck => {
                Err(KeyedOutcome::Struck)
            }
            Some(Decision::Sent((to, sent))) if to.is_some() || moves != Some(sent) => {
                Err(KeyedOutcome::Struck)
            }
            _ if !numbers.has_room() => Err(KeyedOutcome::Full),
            _ => Ok((lane, number, numbers)),
        }
    }
}

impl CellState {
    /// Counts numbered writes, as [`CellState::apply_keyed`] counts others.
    ///
    /// # Errors
    /// As there.
    pub fn apply_numbered(
        &mut self,
        numbered: &NumberedWrites<'_>,
        changes: &mut Changes,
    ) -> Result<Vec<KeyedOutcome>, Refusal> {
        let now_ms = numbered.now_ms;
        self.is_granted(numbered.writes, now_ms)?;
        Ok(numbered.outcomes(changes, |write, changes| {
            let elsewhere = self.check(write)?;
            let counted = self.add_keyed(write, elsewhere, now_ms, changes);
            Ok((Decision::Counted, KeyedOutcome::Counted(counted)))
        }))
    }

    /// Strikes numbered writes out, as [`CellState::strike`] does others. A write whose sender asks this lead first
    /// goes to the home.
    pub fn strike_numbered(
        &mut self,
        numbered: &NumberedWrites<'_>,
        home: &Datacenter,
        changes: &mut Changes,
    ) -> Vec<KeyedOutcome> {
        numbered.outcomes(changes, |write, _| {
            if self.generation().is_some() && self.is_before(write) {
                return Err(KeyedOutcome::NotWhole);
            }
            self.has_numbers = true;
            let sent = || Decision::Sent((Some(home.clone()), 1));
            let struck = numbered.moves.map_or_else(sent, Decision::Struck);
            Ok((struck, KeyedOutcome::Struck))
        })
    }

    /// Returns the places where numbered writes are counted whose sender asks this lead first. A write that was sent to
    /// `struck_at`, and was struck out there, goes to `next`, and that is recorded. `None` for a write that needs a new
    /// place if `next` is not known, or if there is no room for the record.
    pub fn place_numbered(
        &self,
        keys: &[WriteKey],
        struck_at: &WritePlace,
        next: Option<&Option<Datacenter>>,
        known: KnownNumbers<'_>,
        changes: &mut Changes,
    ) -> Vec<Option<WritePlace>> {
        let places = keys.iter().map(|key| {
            let (lane, number) = lane_and_number(*key);
            let pending = changes.numbers.get(&lane).cloned();
            let mut numbers = pending.unwrap_or_else(|| known(lane));
            let place = match numbers.get(number) {
                Some(Decision::Sent(place)) => place,
                Some(Decision::Struck(moves)) => (None, moves),
                // This lead counts it, or has its outcome.
                Some(Decision::Counted) | None => return Some((None, 0)),
            };
            if place != *struck_at {
                return Some(place);
            }
            let next = next.filter(|_| numbers.has_room())?;
            let place = (next.clone(), place.1.saturating_add(1));
            numbers.put(number, Decision::Sent(place.clone()));
            changes.numbers.insert(lane, numbers);
            Some(place)
        });
        places.collect()
    }
}
