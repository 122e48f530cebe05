//! The alarm of an object.
//!
//! Invariant: an alarm is durable like a row. A ringing alarm is kept until its handler has succeeded and its writes
//! are durable, so it rings again if its object crashes. It rings at most once at a time. One that fails is retried up
//! to [`RETRIES_MAX`] times, with growing delays.

use std::cell::Cell;
use std::rc::Rc;

use crate::place::Place;

/// Source: <https://developers.cloudflare.com/durable-objects/api/alarms/>.
const RETRIES_MAX: u32 = 6;

/// The first retry's delay, which doubles, milliseconds. Source: as [`RETRIES_MAX`].
const RETRY_MS: i64 = 2_000;

/// How long after a crash an alarm rings again, milliseconds.
const AGAIN_MS: i64 = 1_000;

/// The alarm of an object.
#[derive(Default)]
pub struct AlarmClock {
    /// As the object sees it, unix milliseconds.
    set: Cell<Option<i64>>,
    /// Whether it was set since the last commit.
    is_changed: Cell<bool>,
    durable: Cell<Option<i64>>,
    is_ringing: Cell<bool>,
    /// Whether another one became durable while one rang.
    is_renewed: Cell<bool>,
    retries: Cell<u32>,
    /// The number of the current timer: earlier ones are void.
    timer: Cell<u64>,
}

impl AlarmClock {
    /// When it rings, as the object sees it. None while it rings.
    pub fn get(&self) -> Option<i64> {
        self.set.get()
    }

    /// Sets it; it becomes durable with the next commit.
    pub fn set(&self, at_ms: i64) {
        self.set.set(Some(at_ms));
        self.is_changed.set(true);
    }

    /// Deletes it with all storage; that becomes durable with the next commit. Source: compatibility flag
    /// `delete_all_deletes_alarm`.
    pub fn clear(&self) {
        self.set.set(None);
        self.is_changed.set(true);
    }

    /// It never rings: a fault that no platform has.
    pub(crate) fn forget(&self) {
        self.timer.set(self.timer.get() + 1);
        self.set.set(None);
        self.durable.set(None);
    }

    /// Whether its handler runs.
    pub fn is_ringing(&self) -> bool {
        self.is_ringing.get()
    }

    /// What was set is durable.
    pub(crate) fn commit(&self, place: &Rc<Place>) {
        if !self.is_changed.replace(false) {
            return;
        }
        self.durable.set(self.set.get());
        self.retries.set(0);
        if self.is_ringing.get() {
            self.is_renewed.set(true);
        } else {
            self.plan(place, None);
        }
    }

    /// The object has crashed.
    pub(crate) fn roll_back(&self, place: &Rc<Place>) {
        self.is_changed.set(false);
        self.set.set(self.durable.get());
        let was_ringing = self.is_ringing.replace(false);
        let is_again = was_ringing && !self.is_renewed.replace(false);
        self.plan(place, is_again.then_some(AGAIN_MS));
    }

    /// Lets it ring at its time, or after a time, milliseconds.
    fn plan(&self, place: &Rc<Place>, after_ms: Option<i64>) {
        let timer = self.timer.get() + 1;
        self.timer.set(timer);
        let Some(at_ms) = self.durable.get() else {
            return;
        };
        let core = &place.core;
        let late_us = core
            .chance
            .below(core.faults.get().alarm_late_ms_max * 1_000 + 1);
        let due_us = match after_ms {
            Some(after_ms) => core.executor.now_us() + after_ms.unsigned_abs() * 1_000,
            None => core.at_us(at_ms - core.clocks.off_ms(place.site)),
        };
        let at_us = due_us.max(core.executor.now_us()) + late_us;
        let place = place.clone();
        core.executor.at(
            at_us,
            Box::new(move || {
                if place.alarm.timer.get() == timer {
                    place.alarm.ring(&place);
                }
            }),
        );
    }

    fn ring(&self, place: &Rc<Place>) {
        let core = place.core.clone();
        core.journal.count(|figures| figures.alarms += 1);
        core.record(|| format!("alarm    {}", place.label()));
        let incarnation = place.incarnation();
        self.is_ringing.set(true);
        self.is_renewed.set(false);
        // One that the constructor has set stays.
        if !self.is_changed.get() {
            self.set.set(None);
        }
        let (place, owner) = (place.clone(), incarnation.owner);
        let shell = incarnation.shell();
        let work = async move {
            let result = shell.alarm().await;
            let known = place.clone();
            place.release(owner, move || known.alarm.end(&known, result.err()));
        };
        core.executor.spawn(owner, 0, Box::pin(work));
    }

    fn end(&self, place: &Rc<Place>, failure: Option<tally_wire::messages::Fault>) {
        self.is_ringing.set(false);
        if self.is_renewed.replace(false) {
            return self.plan(place, None);
        }
        let Some(fault) = failure else {
            return self.durable.set(None);
        };
        let retries = self.retries.get();
        self.set.set(self.durable.get());
        place
            .core
            .record(|| format!("alarm    {} has failed: {fault}", place.label()));
        if retries >= RETRIES_MAX {
            self.set.set(None);
            return self.durable.set(None);
        }
        self.retries.set(retries + 1);
        self.plan(place, Some(RETRY_MS << retries));
    }
}
