//! Where a key is judged: in its own slot. If there is no room, a meter judges it that other keys of its policy share.
//!
//! Invariant: all that a key is admitted counts in the slot by which it is judged next. So it never gets more than
//! its limit. A key keeps its shared meter until there is room for one of its own, which then begins with all that
//! the shared one had used.

use super::slots::{Entry, shared_subject};
use crate::meter::Verdict;
use crate::policy::Policy;
use crate::table::{Check, Full, Table, subject};

impl Table {
    /// The slot of a key, new or not, under the policy as it is now.
    pub(crate) fn enter(&mut self, check: &Check<'_>, now_ms: i64) -> Result<usize, Full> {
        let Check { policy, owner, .. } = *check;
        subject(&mut self.scratch, check.name, check.key);
        if let Some(slot) = self.slots.slot_of(&self.scratch) {
            self.compact(slot);
            self.adapt(slot, policy, now_ms);
            return Ok(slot);
        }
        let shared = shared_subject(&self.scratch);
        let known = self.slots.slot_of(&shared);
        let lends = |slot: usize| {
            self.slots
                .get(slot)
                .is_some_and(|entry| entry.lender.lends())
        };
        if self.slots.has_room_for(&self.scratch, owner) && !known.is_some_and(lends) {
            let slot = self.slots.insert(&self.scratch, owner, policy, false)?;
            self.inherit(slot, known, policy, now_ms);
            return Ok(slot);
        }
        let slot = match known {
            Some(slot) => slot,
            None => self.slots.insert_shared(&shared, owner, policy)?,
        };
        self.compact(slot);
        self.adapt(slot, policy, now_ms);
        Ok(slot)
    }

    /// A key that shared a meter has used what was used of that, at the most.
    fn inherit(&mut self, slot: usize, shared: Option<usize>, policy: &Policy, now_ms: i64) {
        let Some(shared) = shared else { return };
        self.adapt(shared, policy, now_ms);
        let shared = self.slots.get(shared).cloned();
        if let (Some(shared), Some(entry)) = (shared, self.slots.get_mut(slot)) {
            // The policy that counts is the shared meter's: it may have left the one of this check.
            (entry.policy, entry.left, entry.lender) = (shared.policy, shared.left, shared.lender);
        }
        self.touch(slot);
    }

    /// Where there is too little memory a key keeps its times less precisely, so that it grows no more.
    fn compact(&mut self, slot: usize) {
        if self.slots.is_overgrown() {
            if let Some(entry) = self.slots.get_mut(slot) {
                entry.lender.meter_mut().compact();
            }
            self.slots.weigh(slot);
        }
    }

    /// Gives back the cost of the check, never more than is used. Returns the verdict after that.
    ///
    /// # Errors
    /// [`Full`] where the key shares a meter, and there is no room for its own: what it has used of that nobody knows.
    pub fn refund(&mut self, check: &Check<'_>, wall_ms: i64) -> Result<Verdict, Full> {
        self.correct(check, wall_ms, |entry, now_ms| {
            let meter = entry.lender.meter_mut();
            meter.refund(&entry.policy, now_ms, check.cost);
        })?;
        Ok(self.peek(&Check { cost: 0, ..*check }, wall_ms))
    }

    /// Forgets what a key has used. Leases of a global limit go on. Returns the verdict after that.
    ///
    /// # Errors
    /// As [`Self::refund`].
    pub fn reset(&mut self, check: &Check<'_>, wall_ms: i64) -> Result<Verdict, Full> {
        self.correct(check, wall_ms, |entry, _| {
            entry.lender.reset(&entry.policy);
        })?;
        Ok(self.peek(check, wall_ms))
    }

    /// Reduces what is used of a key, in its own slot. A key that shares a meter gets its own first.
    fn correct(
        &mut self,
        check: &Check<'_>,
        wall_ms: i64,
        work: impl FnOnce(&mut Entry, i64),
    ) -> Result<(), Full> {
        let now_ms = self.clock.read(wall_ms);
        let Some(known) = self.slot_of(check.name, check.key) else {
            return Ok(());
        };
        if self.slots.get(known).is_some_and(Entry::is_shared) {
            self.make_room(&[*check], now_ms);
        }
        let slot = self.enter(check, now_ms)?;
        let shared = self.slots.get(slot).filter(|entry| entry.is_shared());
        if let Some(shared) = shared {
            let is_unused = shared.is_unused(now_ms);
            return is_unused.then_some(()).ok_or(Full);
        }
        if let Some(entry) = self.slots.get_mut(slot) {
            entry.lender.expire(&entry.policy, now_ms);
            work(entry, now_ms);
        }
        self.touch(slot);
        Ok(())
    }

    /// The slot by which a key is judged: its own, or that of the meter that it shares.
    pub(crate) fn slot_of(&self, name: &str, key: &str) -> Option<usize> {
        let mut own_subject = String::new();
        subject(&mut own_subject, name, key);
        let own = self.slots.slot_of(&own_subject);
        own.or_else(|| self.slots.slot_of(&shared_subject(&own_subject)))
    }
}
