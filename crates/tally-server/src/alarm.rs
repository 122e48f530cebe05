//! The alarms of objects: when each rings, and when it rings again.
//!
//! Invariant: an alarm is a row of its object, and changes with the object's other rows. A ringing alarm is kept until
//! its handler has succeeded, so it rings again after a crash. It rings once at a time. One that fails is retried up
//! to [`RETRIES_MAX`] times, with growing delays, as on Workers.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::ground::counted::{Count, Counted};
use super::key::PlaceKey;

/// Source: <https://developers.cloudflare.com/durable-objects/api/alarms/>.
const RETRIES_MAX: u32 = 6;

/// The first retry's delay, which doubles, milliseconds. Source: as [`RETRIES_MAX`].
pub(crate) const RETRY_MS: i64 = 2_000;

/// How many alarms ring at a time: after a start thousands may be due, and each opens its object.
const RINGING_MAX: usize = 64;

/// The longest sleep, milliseconds: the machine's clock may be set meanwhile.
const SLEEP_MS_MAX: u64 = 1_000;

/// The last time of a JavaScript `Date`, unix milliseconds. Source: ECMAScript, "Time Values and Time Range".
const DATE_MS_MAX: i64 = 8_640_000_000_000_000;

/// The alarm of an object that is open.
pub(crate) struct AlarmState {
    alarms: Rc<Alarms>,
    key: PlaceKey,
    /// As the object sees it, unix milliseconds. None while it rings.
    set: Cell<Option<i64>>,
    /// Whether it was set since the last commit.
    is_changed: Cell<bool>,
    durable: Cell<Option<i64>>,
    /// When it is planned to ring.
    planned: Cell<Option<i64>>,
    is_ringing: Cell<bool>,
    /// Whether another one was set while one rang.
    is_renewed: Cell<bool>,
    retries: Cell<u32>,
}

impl AlarmState {
    /// The alarm of an object that is opened; it is planned already.
    pub(crate) fn stored(alarms: &Rc<Alarms>, key: &PlaceKey, at_ms: Option<i64>) -> Self {
        Self {
            alarms: alarms.clone(),
            key: key.clone(),
            set: Cell::new(at_ms),
            is_changed: Cell::default(),
            durable: Cell::new(at_ms),
            planned: Cell::new(at_ms),
            is_ringing: Cell::default(),
            is_renewed: Cell::default(),
            retries: Cell::default(),
        }
    }

    /// The place was opened: an alarm that the scan has not found yet is planned.
    pub(crate) fn opened(&self) {
        self.alarms.replace(&self.key, None, self.planned.get());
    }

    /// When it rings, as the object sees it.
    pub(crate) fn get(&self) -> Option<i64> {
        self.set.get()
    }

    /// Sets it, or deletes it; that becomes durable with the next commit.
    ///
    /// # Errors
    /// If the time is none that Workers have.
    pub(crate) fn set(&self, at_ms: Option<i64>) -> Result<(), String> {
        if at_ms.is_some_and(|at_ms| at_ms > DATE_MS_MAX) {
            return Err("the time of the alarm is out of range".to_owned());
        }
        self.set.set(at_ms);
        self.is_changed.set(true);
        self.is_renewed.set(true);
        Ok(())
    }

    /// What the next commit has to store, if it has changed.
    pub(crate) fn changed(&self) -> Option<Option<i64>> {
        self.is_changed.get().then(|| self.set.get())
    }

    /// Whether it rings, or is retried: then its place stays open.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_ringing.get() || self.retries.get() > 0
    }

    /// A commit has succeeded.
    pub(crate) fn committed(&self) {
        if self.is_changed.replace(false) {
            self.durable.set(self.set.get());
            self.plan(self.durable.get());
        }
    }

    /// The object has failed.
    pub(crate) fn rolled_back(&self, now_ms: i64) {
        self.is_changed.set(false);
        self.set.set(self.durable.get());
        self.is_ringing.set(false);
        let again = now_ms.saturating_add(RETRY_MS);
        self.plan(self.durable.get().map(|at_ms| at_ms.max(again)));
    }

    fn plan(&self, at_ms: Option<i64>) {
        let before = self.planned.replace(at_ms);
        if before != at_ms {
            self.alarms.replace(&self.key, before, at_ms);
        }
    }

    /// Its planned time has come. Returns whether it rings: not if it rings already, or was deleted meanwhile.
    pub(crate) fn is_due(&self) -> bool {
        // A place that was opened for this has planned it once more.
        self.plan(None);
        !self.is_ringing.get() && self.durable.get().is_some()
    }

    /// It rings now.
    pub(crate) fn begin(&self) -> Counted {
        self.is_ringing.set(true);
        self.is_renewed.set(false);
        // One that the constructor has set stays.
        if !self.is_changed.get() {
            self.set.set(None);
        }
        self.alarms.ringing.begin()
    }

    /// Its handler has ended. Returns whether the alarm's row has to be written.
    pub(crate) fn end(&self, has_failed: bool, now_ms: i64) -> bool {
        self.is_ringing.set(false);
        let retries = self.retries.get();
        if has_failed && retries < RETRIES_MAX && !self.is_renewed.get() {
            self.set.set(self.durable.get());
            self.retries.set(retries + 1);
            self.plan(Some(now_ms.saturating_add(RETRY_MS << retries)));
            return false;
        }
        self.retries.set(0);
        if self.is_renewed.get() {
            // It may have been due, and not rung, while this one rang; one that is not stored yet is planned then.
            if !self.is_changed.get() {
                self.plan(self.durable.get());
            }
            return false;
        }
        self.set.set(None);
        self.is_changed.set(true);
        true
    }
}

/// When each object's alarm rings.
#[derive(Default)]
pub(crate) struct Alarms {
    due: RefCell<BTreeSet<(i64, PlaceKey)>>,
    ringing: Count,
    waker: RefCell<Option<Waker>>,
}

impl Alarms {
    /// Plans an alarm, instead of one that was planned before.
    pub(crate) fn replace(&self, key: &PlaceKey, before: Option<i64>, at_ms: Option<i64>) {
        let mut due = self.due.borrow_mut();
        if let Some(before) = before {
            due.remove(&(before, key.clone()));
        }
        if let Some(at_ms) = at_ms {
            let is_first = due.first().is_none_or(|first| at_ms < first.0);
            due.insert((at_ms, key.clone()));
            if is_first && let Some(waker) = self.waker.take() {
                waker.wake();
            }
        }
    }

    /// The next one that is due, if another one may ring: at most `ringing_max` and [`RINGING_MAX`] ring at a time.
    pub(crate) fn pop(&self, now_ms: i64, ringing_max: usize) -> Option<PlaceKey> {
        let mut due = self.due.borrow_mut();
        let is_due = due.first().is_some_and(|first| first.0 <= now_ms);
        let has_room = self.ringing.get() < ringing_max.min(RINGING_MAX);
        (is_due && has_room).then(|| due.pop_first().map(|first| first.1))?
    }

    /// How long until something may be due, milliseconds.
    pub(crate) fn wait_ms(&self, now_ms: i64) -> u64 {
        let due = self.due.borrow();
        let first = due.first().map_or(i64::MAX, |first| first.0);
        let wait_ms = u64::try_from(first.saturating_sub(now_ms)).unwrap_or(0);
        wait_ms.clamp(1, SLEEP_MS_MAX)
    }

    /// Waits until an earlier alarm is planned.
    pub(crate) async fn is_sooner(&self) {
        let mut has_waited = false;
        std::future::poll_fn(|context| {
            if std::mem::replace(&mut has_waited, true) {
                return Poll::Ready(());
            }
            *self.waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
