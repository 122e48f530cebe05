//! The end of expired keys that nobody asks for: by the keyspace's alarm.

use std::collections::BTreeSet;

use super::keyspace::KeyspaceCore;
use crate::core::counter::id::Datacenter;
use crate::protocol::messages::Fault;
use crate::protocol::redis::reply::ReplyError;

/// How many keys one alarm ends: each may be a call to a root.
const LAPSED_AT_ONCE: i64 = 500;

/// The latest time of an alarm, unix milliseconds: the last one of a JavaScript `Date`. What expires later needs none.
/// Source: ECMAScript, "Time Values and Time Range".
const ALARM_MS_MAX: i64 = 8_640_000_000_000_000;

/// The least time between two alarms, milliseconds: commands treat a key as expired at once all the same.
const ALARM_EVERY_MS: i64 = 1_000;

impl KeyspaceCore {
    pub(super) async fn on_alarm(&self) -> Result<(), Fault> {
        self.readable()?;
        let forgotten = self.forget_lapsed().await;
        self.listeners.send();
        forgotten?;
        match self.next_due_ms()? {
            Some(due_ms) => self.rows.arm(due_ms).await,
            None => Ok(()),
        }
    }

    /// Sets the alarm for the next expiry, or for the next ping of a listener. If that fails, the next request tries
    /// again: commands treat a key as expired without an alarm, and what they did is replied.
    pub(super) async fn arm(&self) {
        let armed = match self.next_due_ms() {
            Ok(Some(due_ms)) => self.rows.arm_by(due_ms).await,
            due => due.map(|_| ()),
        };
        if let Err(fault) = armed {
            let told = format!("the alarm of the keyspace: {fault}");
            self.host.fail(&told);
        }
    }

    fn next_due_ms(&self) -> Result<Option<i64>, Fault> {
        let (row_ms, listener_ms) = (self.rows.next_due_ms()?, self.listeners.next_due_ms());
        let due_ms = row_ms.into_iter().chain(listener_ms).min();
        let due_ms = due_ms.filter(|due_ms| *due_ms <= ALARM_MS_MAX);
        Ok(due_ms.map(|due_ms| due_ms.max(self.host.now_ms() + ALARM_EVERY_MS)))
    }

    /// Ends expired keys, and counters that have expired.
    async fn forget_lapsed(&self) -> Result<(), Fault> {
        let now_ms = self.host.now_ms();
        self.rows.forget_tries(now_ms)?;
        for key in self.rows.lapsed(now_ms, LAPSED_AT_ONCE)? {
            let only = BTreeSet::from([key.clone()]);
            let _held = self.locks.hold(&self.host, only, true).await?;
            // Its expiry may have been changed meanwhile.
            if let Err(ReplyError::Fault(fault)) = self.living_row(&key, &Datacenter::local()).await
            {
                return Err(fault);
            }
        }
        Ok(())
    }
}
