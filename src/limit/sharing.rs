//! Where a key is judged: in its own place, or by a meter that it shares with others of its policy, where there is no room.
//!
//! Invariant: all that a key is admitted counts in the place by which it is judged next. So it never gets more than its limit. It stays with the
//! meter that it shares until there is room, and takes along then all that was used of that.

use super::policy::Policy;
use super::slots::shared_subject;
use super::table::{Full, Table, subject};

impl Table {
    /// The place of a key, new or not, under the policy as it is now.
    pub(super) fn enter(
        &mut self,
        name: &str,
        policy: &Policy,
        key: &str,
        now_ms: i64,
    ) -> Result<usize, Full> {
        subject(&mut self.scratch, name, key);
        if let Some(place) = self.slots.place_of(&self.scratch) {
            self.compact(place);
            self.adapt(place, policy, now_ms);
            return Ok(place);
        }
        let shared = shared_subject(&self.scratch);
        let known = self.slots.place_of(&shared);
        let lends = |place: usize| {
            self.slots
                .get(place)
                .is_some_and(|entry| entry.escrow.lends())
        };
        if self.slots.has_room_for(&self.scratch) && !known.is_some_and(lends) {
            let place = self.slots.insert(&self.scratch, policy, false)?;
            self.inherit(place, known, policy, now_ms);
            return Ok(place);
        }
        let place = match known {
            Some(place) => place,
            None => self.slots.insert_shared(&shared, policy)?,
        };
        self.compact(place);
        self.adapt(place, policy, now_ms);
        Ok(place)
    }

    /// A key that shared a meter has used what was used of that, at the most.
    fn inherit(&mut self, place: usize, shared: Option<usize>, policy: &Policy, now_ms: i64) {
        let Some(shared) = shared else { return };
        self.adapt(shared, policy, now_ms);
        let escrow = self.slots.get(shared).map(|entry| entry.escrow.clone());
        if let (Some(escrow), Some(entry)) = (escrow, self.slots.get_mut(place)) {
            entry.escrow = escrow;
        }
        self.touch(place);
    }

    /// Where there is too little memory a key keeps its times less precisely, so that it grows no more.
    fn compact(&mut self, place: usize) {
        if self.slots.is_overgrown() {
            if let Some(entry) = self.slots.get_mut(place) {
                entry.escrow.meter_mut().compact();
            }
            self.slots.weigh(place);
        }
    }

    /// Where a key is judged: its own place, or the meter that it shares.
    pub(super) fn place(&self, name: &str, key: &str) -> Option<usize> {
        let mut place = String::new();
        subject(&mut place, name, key);
        let own = self.slots.place_of(&place);
        own.or_else(|| self.slots.place_of(&shared_subject(&place)))
    }
}
