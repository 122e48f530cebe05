//! Named calls of a key: see [`crate::named`].

use super::slots::Entry;
use crate::named::{CallAnswer, CallFault, Holders, NamedCall, OpenHolds};
use crate::table::{Check, Table};

/// The fewest holders that are sorted at once.
const HOLDERS_MIN: usize = 1_000;

impl Table {
    /// Does what a named call asks for, once; a hold is for the cost of the check. A key that shares a meter has no
    /// named calls, because another key of the meter must not reach them.
    ///
    /// # Errors
    /// A [`CallFault`]; nothing is consumed, held or given back.
    pub fn call(
        &mut self,
        check: &Check<'_>,
        call: &NamedCall,
        wall_ms: i64,
    ) -> Result<CallAnswer, CallFault> {
        let now_ms = self.clock.read(wall_ms);
        self.make_room(&[*check], now_ms);
        let slot = self.enter(check, now_ms).map_err(|_| CallFault::Full)?;
        let has_room = !self.slots.is_overgrown();
        let entry = self.slots.get_mut(slot).filter(|entry| !entry.is_shared());
        let entry = entry.ok_or(CallFault::Full)?;
        let answer = entry
            .lender
            .call(&entry.policy, call, check.cost, has_room, now_ms);
        if answer.is_ok_and(|answer| !answer.is_repeated) {
            self.touch(slot);
        }
        answer.map(|answer| CallAnswer {
            ends_ms: answer
                .ends_ms
                .saturating_sub(now_ms.saturating_sub(wall_ms)),
            ..answer
        })
    }

    /// The open holds of a key.
    pub fn open_holds(&self, name: &str, key: &str, wall_ms: i64) -> OpenHolds {
        let now_ms = self.clock.peek(wall_ms);
        let slot = self.slot_of(name, key);
        let entry = slot.and_then(|slot| self.slots.get(slot));
        let entry = entry.filter(|entry| !Entry::is_shared(entry));
        let found = entry.map(|entry| entry.lender.open_holds(now_ms));
        found.map_or_else(OpenHolds::default, |found| OpenHolds {
            oldest_ms: found
                .oldest_ms
                .saturating_sub(now_ms.saturating_sub(wall_ms)),
            ..found
        })
    }

    /// What the keys of a policy hold, with the `most` that hold most. Cost: O(keys of the table).
    pub fn holders(&self, name: &str, most: usize, wall_ms: i64) -> Holders {
        let now_ms = self.clock.peek(wall_ms);
        let ahead_ms = now_ms.saturating_sub(wall_ms);
        let mut found = Holders::default();
        for entry in self.slots.iter().filter(|entry| !entry.is_shared()) {
            let of_name = entry.subject.strip_prefix(name);
            let Some(key) = of_name.and_then(|rest| rest.strip_prefix('\0')) else {
                continue;
            };
            let mut open = entry.lender.open_holds(now_ms);
            if open.count == 0 {
                continue;
            }
            open.oldest_ms = open.oldest_ms.saturating_sub(ahead_ms);
            found.all.join(&open);
            found.count = found.count.saturating_add(1);
            found.keys.push((key.into(), open));
            if found.keys.len() >= most.saturating_mul(2).max(HOLDERS_MIN) {
                found.leave(most);
            }
        }
        found.leave(most);
        found
    }
}
