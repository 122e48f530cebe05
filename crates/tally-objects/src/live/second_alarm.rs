//! The alarm of a hub, which rings at the beginning of a second.
//!
//! Invariant: it is set by the clock of this isolate, and corrects the difference to the clock by which alarms ring.

use std::cell::Cell;

use crate::kit::store::Store;
use tally_api::live::{JITTER_MS, SECOND_MS, next_second};
use tally_host::Host;
use tally_wire::messages::Fault;

/// The alarm of a hub.
pub(crate) struct SecondAlarm {
    host: Host,
    store: Store,
    is_set: Cell<bool>,
    /// The intended time by this isolate's clock, unix milliseconds.
    due_ms: Cell<Option<i64>>,
    /// How far that clock is ahead of the alarms' clock, as far as known.
    ahead_ms: Cell<i64>,
}

impl SecondAlarm {
    /// An alarm that is not set.
    pub(crate) fn new(host: &Host, store: Store) -> Self {
        Self {
            host: host.clone(),
            store,
            is_set: Cell::default(),
            due_ms: Cell::default(),
            ahead_ms: Cell::default(),
        }
    }

    /// Whether it is set, or is ringing.
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.get()
    }

    /// It rings, and is not set again.
    pub(crate) fn end(&self) {
        self.is_set.set(false);
    }

    /// Sets it for the second after a moment, unix milliseconds.
    ///
    /// # Errors
    /// `Unavailable` where it cannot be set.
    pub(crate) async fn set_after(&self, at_ms: i64) -> Result<(), Fault> {
        let due_ms = next_second(at_ms);
        self.is_set.set(true);
        self.due_ms.set(Some(due_ms));
        let rings_ms = due_ms.saturating_sub(self.ahead_ms.get());
        let set = self.store.set_alarm(rings_ms).await;
        self.is_set.set(set.is_ok());
        set
    }

    /// Handles the ring: if it is early, waits for its second. If it is more than a second late, either it was late or
    /// this clock is ahead: the next ones are set earlier by as much, until one is early.
    pub(crate) async fn keep_time(&self) {
        self.is_set.set(true);
        let Some(due_ms) = self.due_ms.take() else {
            return;
        };
        let late_ms = self.host.now_ms().saturating_sub(due_ms);
        if late_ms > SECOND_MS {
            self.ahead_ms.set(self.ahead_ms.get() + late_ms);
        } else if late_ms < -JITTER_MS {
            self.ahead_ms.set((self.ahead_ms.get() + late_ms).max(0));
            let early_ms = late_ms.unsigned_abs().min(SECOND_MS.unsigned_abs());
            self.host.sleep_ms(early_ms).await;
        }
    }
}
