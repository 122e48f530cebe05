//! The end of expired keys. The keyspace's alarm ends those that no command uses.
//!
//! Invariants: an end that fails is postponed, so it delays no other. A counter is ended under the condition that
//! nothing was counted since it was read, so counts that are made meanwhile are not lost.

use super::core::{COUNTERS_AT_ONCE, KeyspaceCore, busy};
use super::counters::UpdateOutcome;
use super::postponed_ends::LAPSED_AT_ONCE;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::WriteKey;
use tally_core::counter::total::{Sum, Value};
use tally_core::order::set_of;
use tally_redis::reply_error::ReplyError;
use tally_shared::concurrency::all_settled;
use tally_wire::messages::Fault;

/// How long the end of a key may take, milliseconds.
pub const END_MS_MAX: u64 = 3_000;

/// The most attempts to end a counter as it was read; each stops its lead for a moment.
const END_ROUNDS_MAX: usize = 3;

/// The latest time of an alarm, unix milliseconds: the last one of a JavaScript `Date`. Keys that expire later need no
/// alarm. Source: ECMAScript, "Time Values and Time Range".
const ALARM_MS_MAX: i64 = 8_640_000_000_000_000;

/// The shortest time between two alarms, milliseconds. Commands treat a key as expired at once all the same.
const ALARM_EVERY_MS: i64 = 1_000;

impl KeyspaceCore {
    pub(super) async fn on_alarm(&self) -> Result<(), Fault> {
        self.readable()?;
        let forgotten = self.forget_lapsed().await;
        self.listeners.send();
        let due_ms = match forgotten? {
            true => Some(self.host.now_ms()),
            false => self.next_due_ms()?,
        };
        match due_ms {
            Some(due_ms) => self.rows.arm(due_ms).await,
            None => Ok(()),
        }
    }

    /// Sets the alarm for the next expiry, or for the next ping of a listener. If that fails, the next request tries
    /// again. Commands treat a key as expired without an alarm, and their replies are sent.
    pub(super) async fn arm(&self) {
        let armed = match self.next_due_ms() {
            Ok(Some(due_ms)) => self.rows.arm_by(due_ms).await,
            next_ms => next_ms.map(|_| ()),
        };
        if let Err(fault) = armed {
            let detail = format!("the alarm of the keyspace: {fault}");
            self.host.fail(&detail);
        }
    }

    fn next_due_ms(&self) -> Result<Option<i64>, Fault> {
        let now_ms = self.host.now_ms();
        // The clock may have been set back.
        let swept_ms = self.ends.swept_ms.get().min(now_ms);
        let row_ms = self.rows.next_due_ms(swept_ms)?;
        let others = [self.ends.next_due_ms(), self.listeners.next_due_ms()];
        let due_ms = row_ms.into_iter().chain(others.into_iter().flatten()).min();
        let due_ms = due_ms.filter(|due_ms| *due_ms <= ALARM_MS_MAX);
        Ok(due_ms.map(|due_ms| due_ms.max(now_ms + ALARM_EVERY_MS)))
    }

    /// Ends expired keys, and expired counters and boards. Returns whether there are more, and none has failed.
    async fn forget_lapsed(&self) -> Result<bool, Fault> {
        let now_ms = self.host.now_ms();
        self.rows.forget_tries(now_ms)?;
        let limit = LAPSED_AT_ONCE + self.ends.keys.borrow().len();
        let lapsed = self.rows.lapsed(now_ms, limit)?;
        let is_all = lapsed.len() < limit;
        if is_all {
            // The other ones were ended by commands.
            let known = set_of(&lapsed);
            let mut keys = self.ends.keys.borrow_mut();
            let gone = keys.iter().map(|(key, _)| key);
            let gone: Vec<String> = gone.filter(|key| !known.contains(key)).cloned().collect();
            for key in &gone {
                keys.remove(key);
            }
        }
        let (due_keys, has_first) = self.ends.due_keys(lapsed, now_ms);
        let is_all = is_all && has_first;
        let end = |key: String| async move {
            let ended = self.host.within_ms(END_MS_MAX, self.end_lapsed(&key)).await;
            (key, ended)
        };
        let due_keys = due_keys.into_iter().map(end);
        let mut has_failed = false;
        for (key, ended) in all_settled(due_keys, COUNTERS_AT_ONCE).await {
            if let Some(Ok(())) = ended {
                self.ends.keys.borrow_mut().remove(&key);
            } else {
                has_failed = true;
                self.ends.postpone(key, self.host.now_ms());
            }
        }
        if is_all {
            self.ends.swept_ms.set(now_ms);
        }
        Ok(!is_all && !has_failed)
    }

    async fn end_lapsed(&self, key: &str) -> Result<(), ReplyError> {
        let only = set_of([key.to_owned()]);
        let _held = self.locks.hold(&self.host, only, true).await?;
        // Its expiry may have been changed meanwhile.
        self.living_row(key, &Datacenter::local()).await.map(drop)
    }

    /// Ends a counter of this generation that has expired at a time, unix milliseconds. Returns whether it existed.
    ///
    /// Increments by other calls since then are kept: by whole seconds until the counter is read, and all of them after
    /// that. A counter that several datacenters count ends as a whole, because no condition holds for all of them.
    pub(super) async fn end_counter(
        &self,
        id: &CounterId,
        here: &Datacenter,
        (generation, at_ms): (u64, i64),
    ) -> Result<bool, ReplyError> {
        let mut ended: Option<Value> = None;
        for _ in 0..END_ROUNDS_MAX {
            let seen = self.counters.read_since(id, Some(at_ms)).await?;
            let Some(seen) = seen.filter(|seen| seen.generation == generation) else {
                return Ok(false);
            };
            let left = match ended {
                Some(ended) if !seen.was_set => seen.value.plus(ended.negated()),
                _ => seen.since,
            };
            ended = Some(seen.value.plus(left.negated()));
            let left = match left.not_negative().is_some_and(|left| left > Sum::ZERO) {
                true => Some(left.or_more(seen.floor.unwrap_or(left))),
                false => None,
            };
            match self.counters.put(id, here, left, Some(&seen)).await {
                Ok(UpdateOutcome::Done) => return Ok(true),
                Ok(UpdateOutcome::Conflict) => {}
                Err(ReplyError::Reply(_)) if !seen.has_home => {
                    self.counters.replace(id, here, None, None).await?;
                    return Ok(true);
                }
                Err(error) => return Err(error),
            }
        }
        self.take_off(id, here, (generation, at_ms), ended).await
    }

    /// Subtracts the value of an expired counter that is counted all the time: a subtraction needs no condition. Unique
    /// elements and samples stay.
    async fn take_off(
        &self,
        id: &CounterId,
        here: &Datacenter,
        (generation, at_ms): (u64, i64),
        ended: Option<Value>,
    ) -> Result<bool, ReplyError> {
        let taken = ended.and_then(|ended| ended.negated().to_i64());
        let Some(taken) = taken else {
            return Err(busy());
        };
        // The key is the same each time, so that the value is subtracted once.
        let name = (u128::from(generation) << 64) | u128::from(at_ms.unsigned_abs());
        let name = WriteKey(name.to_le_bytes());
        let added = self.counters.add_to(id, here, taken, name, generation);
        added.await.map(|()| true)
    }
}
