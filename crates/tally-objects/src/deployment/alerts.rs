//! The alerts of a partition of the directory: evaluation by its alarm, and delivery.
//!
//! Invariants: an alert is in one partition, by its name, with at most one measurement in progress, so nothing else
//! evaluates it. The new state of an alert and the resulting delivery are one commit. An attempt is stored before it is
//! sent, and the delivery is due again until its receiver has acknowledged it. So it is sent at least once, in spite of
//! crashes.
//!
//! Life: the alarm rings for due alerts. Each is measured as by a reader, evaluated, and stored with its deliveries.
//! These are sent at once, and again by the alarm.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use super::alert_store::{AlertStore, StoredAlert};
use super::gifts::{GiftKind, GiftStore};
use crate::archive::import_steps::ImportSteps;
use crate::directory::alarm::Alarm;
use tally_aggregator::MeasureTime;
use tally_api::access::Caller;
use tally_api::alerts::request::request_of;
use tally_core::alert::backoff::{ANSWER_MS_MAX, GIVEN_UP_AFTER_MS, wait_ms};
use tally_core::alert::condition::{Measure, Reading};
use tally_core::alert::record::{AlertRecord, EVERY_MS, Notice};
use tally_host::Host;
use tally_host::object::Object;
use tally_shared::call;
use tally_shared::concurrency::all_settled;
use tally_wire::alerts::webhook::{Allowed, check, host_name};
use tally_wire::alerts::{
    ALERTS_MAX, Alert, AlertEvent, Attempt, DELIVERIES_MAX, Delivery, EventKind, Outcome,
    ScheduledDelivery, WAITING_MAX, refusal_of,
};
use tally_wire::messages::{
    AlertDetails, AlertPutOutcome, DeleteAlert, DeliveriesOf, EndAlerts, Fault, FindHeldKey,
    GetAlert, ListDeliveries, PutAlert, SilenceAlert, TestAlert,
};
use tally_wire::names::ALERTS_ALLOW;
use tally_wire::names::alert::AlertName;
use tally_wire::rights::{Gift, Giver, HeldKey, Room};

const ALERT: GiftKind = GiftKind("alert/", "alert0");

/// How long a measurement may take, milliseconds: twice the time that a reader waits for a datacenter, and the time for
/// the roots.
const MEASURE_MS_MAX: u64 = 8_000;

/// How long the measurement of a digest may take, milliseconds: it reads two tops, and ten counters.
const DIGEST_MS_MAX: u64 = 40_000;

/// The alerts that are measured at once, and the deliveries in flight: the platform allows six open connections.
const AT_ONCE: usize = 6;

/// How long an unreadable delivery waits, milliseconds: an operator repairs or deletes its alert.
const UNREADABLE_AGAIN_MS: i64 = 600_000;

/// The alerts of one partition.
pub(crate) struct Alerts {
    host: Host,
    object: Object,
    store: AlertStore,
    gifts: GiftStore,
    steps: ImportSteps,
    alarm: Rc<Alarm>,
    measured: RefCell<HashSet<AlertName>>,
    sent: RefCell<HashSet<i64>>,
}

/// Exclusive use of an item, until this is dropped.
struct Turn<'a, T: Eq + std::hash::Hash>(&'a RefCell<HashSet<T>>, T);

impl<'a, T: Eq + std::hash::Hash + Clone> Turn<'a, T> {
    fn begin(all: &'a RefCell<HashSet<T>>, one: &T) -> Option<Self> {
        let is_first = all.borrow_mut().insert(one.clone());
        is_first.then(|| Self(all, one.clone()))
    }
}

impl<T: Eq + std::hash::Hash> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        self.0.borrow_mut().remove(&self.1);
    }
}

impl Alerts {
    /// The alerts of a partition.
    pub(crate) fn new(
        host: &Host,
        object: Object,
        (store, gifts, steps): (&AlertStore, GiftStore, ImportSteps),
        alarm: Rc<Alarm>,
    ) -> Self {
        Self {
            host: host.clone(),
            object,
            store: store.clone(),
            gifts,
            steps,
            alarm,
            measured: RefCell::default(),
            sent: RefCell::default(),
        }
    }

    /// Stores an alert, unless the same step of an import has stored it before. It is measured at once.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; as for all methods below.
    pub(crate) async fn put(self: &Rc<Self>, put: PutAlert) -> Result<AlertPutOutcome, Fault> {
        let PutAlert {
            name,
            put,
            over,
            once,
            gift,
        } = put;
        let now_ms = self.host.now_ms();
        if self.steps.is_done(once)? {
            // The step that stored it may have ended before it was armed.
            self.alarm.arm(now_ms).await?;
            return Ok(AlertPutOutcome::Replaced(Box::new(AlertDetails {
                name,
                alert: put.alert,
                record: AlertRecord::new(now_ms),
                last: None,
            })));
        }
        let before = self.store.get(&name)?;
        let alert = before.as_ref().map(|before| &before.alert);
        // The same message may come twice.
        if alert != over.as_ref() && alert != Some(&put.alert) {
            return Ok(AlertPutOutcome::Changed);
        }
        match self.room(&name, before.is_some(), &gift)? {
            Room::Full => return Ok(AlertPutOutcome::Full),
            Room::PartFull => return Ok(AlertPutOutcome::PartFull),
            Room::Free => {}
        }
        let kept = before.as_ref().map(|before| &before.secret);
        let Some(secret) = put.secret.as_ref().or(kept).cloned() else {
            return Ok(AlertPutOutcome::NeedsSecret);
        };
        let record = match &before {
            None => AlertRecord::new(now_ms),
            Some(before) if watches_the_same(&before.alert, &put.alert) => before.record.clone(),
            Some(before) => before.record.anew(now_ms),
        };
        let stored = StoredAlert {
            alert: put.alert,
            secret,
            record,
            revision: self.host.random(),
        };
        self.store.prepare()?;
        self.store.atomically(|| {
            self.store.put(&name, &stored, now_ms)?;
            self.gifts.put(ALERT, name.as_str(), &gift)?;
            self.steps.record(once)
        })?;
        self.alarm.arm(now_ms).await?;
        let seen = Box::new(self.store.seen(name, stored)?);
        Ok(match before {
            None => AlertPutOutcome::Created(seen),
            Some(_) => AlertPutOutcome::Replaced(seen),
        })
    }

    /// Whether there is room for an alert. One that is put over another's moves into the part of who puts it.
    fn room(&self, name: &AlertName, is_there: bool, gift: &Gift) -> Result<Room, Fault> {
        let before = self.gifts.get(ALERT, name.as_str())?;
        if is_there && (before.account == gift.account || !gift.is_narrow) {
            return Ok(Room::Free);
        }
        let rows = self.store.count()? - u64::from(is_there);
        let filled = self.gifts.filled(ALERT, gift, rows)?;
        Ok(gift.room(filled, ALERTS_MAX))
    }

    /// Returns whether the key that put an alert is good and administers what the alert watches. If that is not known,
    /// the alert continues.
    async fn is_given(&self, name: &AlertName, alert: &Alert) -> Result<bool, Fault> {
        let gift = self.gifts.get(ALERT, name.as_str())?;
        let Giver::Key(id) = gift.giver else {
            return Ok(!gift.has_ended(self.host.now_ms()));
        };
        let held = call(&self.host, &FindHeldKey { id }).await;
        let may = |held: HeldKey| {
            Caller::of_key(id, &held.key)
                .may_watch(&alert.watched)
                .is_ok()
        };
        Ok(held.map_or(true, |held| held.is_some_and(may)))
    }

    /// Deletes the alerts that these keys put. Returns their names.
    pub(crate) fn end(&self, end: &EndAlerts) -> Result<Vec<AlertName>, Fault> {
        let mut ended = Vec::new();
        for giver in &end.givers {
            for name in self.gifts.given_by(ALERT, &giver.to_string())? {
                let Ok(name) = AlertName::parse(name) else {
                    continue;
                };
                let is_seen = |stored: &StoredAlert| end.of.cover(&stored.alert.watched);
                let is_seen = self.store.get(&name)?.as_ref().is_some_and(is_seen);
                self.remove(&name)?;
                if is_seen {
                    ended.push(name);
                }
            }
        }
        Ok(ended)
    }

    fn remove(&self, name: &AlertName) -> Result<bool, Fault> {
        let was_there = self.store.delete(name)?;
        self.gifts.remove(ALERT, name.as_str())?;
        Ok(was_there)
    }

    /// An alert.
    pub(crate) fn get(&self, get: GetAlert) -> Result<Option<AlertDetails>, Fault> {
        let stored = self.store.get(&get.name)?;
        stored
            .map(|stored| self.store.seen(get.name, stored))
            .transpose()
    }

    /// All alerts.
    pub(crate) fn list(&self) -> Result<Vec<AlertDetails>, Fault> {
        self.store.list()
    }

    /// Deletes an alert.
    pub(crate) fn delete(&self, delete: &DeleteAlert) -> Result<bool, Fault> {
        self.remove(&delete.name)
    }

    /// The last deliveries of an alert.
    pub(crate) fn deliveries(
        &self,
        message: &DeliveriesOf,
    ) -> Result<Vec<ScheduledDelivery>, Fault> {
        self.store.deliveries(&message.name, DELIVERIES_MAX)
    }

    /// The last deliveries of all alerts that a caller administers.
    pub(crate) fn all_deliveries(
        &self,
        list: &ListDeliveries,
    ) -> Result<Vec<ScheduledDelivery>, Fault> {
        self.store.all_deliveries(&list.of, DELIVERIES_MAX)
    }

    /// Silences an alert, or ends a silence. In the second case it is measured at once, and waiting deliveries are
    /// sent.
    pub(crate) async fn silence(
        &self,
        silence: SilenceAlert,
    ) -> Result<Option<AlertDetails>, Fault> {
        let SilenceAlert { name, for_ms } = silence;
        let now_ms = self.host.now_ms();
        let Some(mut stored) = self.store.get(&name)? else {
            return Ok(None);
        };
        let until_ms = now_ms.saturating_add(for_ms);
        stored.record.silence(until_ms);
        self.store.atomically(|| {
            self.store.put(&name, &stored, now_ms)?;
            self.store.put_off(&name, until_ms)
        })?;
        self.alarm.arm(now_ms).await?;
        Ok(Some(self.store.seen(name, stored)?))
    }

    /// Sends a test, once, also during a silence. Returns the result.
    pub(crate) async fn test(&self, test: TestAlert) -> Result<Option<Delivery>, Fault> {
        let now_ms = self.host.now_ms();
        let Some(stored) = self.store.get(&test.name)? else {
            return Ok(None);
        };
        let event = AlertEvent {
            kind: EventKind::Test,
            incident: self.host.random(),
            since_ms: now_ms,
            alert: stored.alert.clone(),
            reading: stored.record.reading.clone(),
            digest: None,
        };
        let mut delivery = Delivery::new(test.name, event, now_ms);
        delivery.attempts = 1;
        // If this object stops before the answer comes, the test is not retried.
        delivery.outcome = Outcome::GivenUp;
        let number = self.store.deliver(&delivery, None)?;
        let attempt = self.attempt(&delivery, &stored).await;
        delivery.outcome = match attempt.why.is_empty() {
            true => Outcome::Delivered,
            false => Outcome::GivenUp,
        };
        delivery.last = Some(attempt);
        if self.same(number, &delivery)?.is_some() {
            self.store.update_delivery(number, &delivery, None)?;
        }
        Ok(Some(delivery))
    }

    /// A delivery that was attempted, unless it was deleted meanwhile: then another may have its number.
    fn same(&self, number: i64, attempted: &Delivery) -> Result<Option<ScheduledDelivery>, Fault> {
        let stored = self.store.delivery(number)?;
        let of = |delivery: &Delivery| (delivery.event.kind, delivery.event.incident);
        Ok(stored.filter(|(stored, _)| of(stored) == of(attempted)))
    }

    /// Handles the alarm: begins all due work, which then continues by itself.
    pub(crate) fn ring(self: &Rc<Self>) -> Result<(), Fault> {
        let now_ms = self.host.now_ms();
        let names = match self.store.next_due_ms()? {
            Some(due_ms) if due_ms <= now_ms => self.store.take_due(now_ms, now_ms + EVERY_MS)?,
            _ => return Ok(()),
        };
        let alerts = self.clone();
        self.object.wait_until(async move {
            let evaluate = |name: AlertName| {
                let alerts = &alerts;
                async move {
                    if let Err(fault) = alerts.evaluate(&name).await {
                        alerts.host.fail(&format!("the alert {name}: {fault}"));
                    }
                }
            };
            all_settled(names.into_iter().map(evaluate), AT_ONCE).await;
            alerts.send().await;
        });
        Ok(())
    }

    /// Measures an alert, and stores the new state.
    async fn evaluate(&self, name: &AlertName) -> Result<(), Fault> {
        let Some(_turn) = Turn::begin(&self.measured, name) else {
            return Ok(());
        };
        let Some(before) = self.store.get(name)? else {
            return Ok(());
        };
        if !self.is_given(name, &before.alert).await? {
            let now = self.store.get(name)?;
            // It may have been put anew meanwhile, by somebody else.
            if now.is_some_and(|now| now.revision == before.revision) {
                self.remove(name)?;
            }
            return Ok(());
        }
        let begun_ms = self.host.now_ms();
        if let Measure::Digest(seconds) = before.alert.condition.measure {
            return self.digest(name, before, seconds).await;
        }
        let measure = before.alert.condition.measure;
        let time = MeasureTime {
            begun_ms,
            window_end: before.record.next_window_end(begun_ms, measure),
        };
        let measuring = tally_aggregator::measure_alert(&self.host, &before.alert, time);
        let measured = self.host.within_ms(MEASURE_MS_MAX, measuring).await;
        // Changes made meanwhile take precedence.
        let Some(mut stored) = self.store.get(name)? else {
            return Ok(());
        };
        if stored.revision != before.revision {
            return Ok(());
        }
        let now_ms = self.host.now_ms();
        let (alert, record) = (&stored.alert, &mut stored.record);
        let reading = match measured {
            Some(Ok(measured)) => {
                record.record_window(time.window_end);
                measured.reading(alert, &mut record.samples, begun_ms)
            }
            Some(Err(fault)) => Reading::unknown(fault.to_string()),
            None => Reading::unknown("the counters did not answer in time"),
        };
        let for_ms = i64::from(alert.for_seconds) * 1_000;
        let id = self.host.random();
        record.take(now_ms, &alert.condition, for_ms, reading, id);
        let room = WAITING_MAX.saturating_sub(self.store.waiting(name)?);
        let notices = record.notices(now_ms, room);
        let due_ms = record.next_ms(begun_ms, &alert.condition);
        self.store.atomically(|| {
            self.store.put(name, &stored, due_ms)?;
            for notice in &notices {
                let delivery = delivery_of(name, &stored, *notice, now_ms);
                self.store.deliver(&delivery, Some(now_ms))?;
            }
            Ok(())
        })?;
        self.alarm.arm(now_ms).await
    }

    /// Measures what a digest is about, if it is due, and stores the delivery.
    async fn digest(
        &self,
        name: &AlertName,
        before: StoredAlert,
        seconds: u32,
    ) -> Result<(), Fault> {
        let (revision, watched) = (before.revision, &before.alert.watched);
        let due = before.record.digest_due_ms(self.host.now_ms(), seconds);
        let measured = match due {
            None => None,
            Some(period_ms) => {
                let measuring = tally_aggregator::measure_digest(&self.host, watched, period_ms);
                let measured = self.host.within_ms(DIGEST_MS_MAX, measuring).await;
                let late = || Fault::Unavailable("the counters did not answer in time".to_owned());
                Some((period_ms, measured.unwrap_or_else(|| Err(late()))))
            }
        };
        // Changes made meanwhile take precedence.
        let stored = self.store.get(name)?;
        let Some(mut stored) = stored.filter(|stored| stored.revision == revision) else {
            return Ok(());
        };
        let now_ms = self.host.now_ms();
        let mut sent = None;
        if let Some(((from_ms, to_ms), measured)) = measured {
            let (digest, reading) = match measured {
                Ok((digest, reading)) => (Some(digest), reading),
                Err(fault) => (None, Reading::unknown(fault.to_string())),
            };
            let has_room = self.store.waiting(name)? < WAITING_MAX;
            let is_sent = stored.record.digest(now_ms, to_ms, reading.clone());
            sent = digest
                .filter(|_| is_sent && has_room)
                .map(|digest| AlertEvent {
                    kind: EventKind::Digest,
                    incident: self.host.random(),
                    since_ms: from_ms,
                    alert: stored.alert.clone(),
                    reading,
                    digest: Some(digest),
                });
        }
        let due_ms = stored.record.next_ms(now_ms, &stored.alert.condition);
        self.store.atomically(|| {
            self.store.put(name, &stored, due_ms)?;
            if let Some(event) = &sent {
                let delivery = Delivery::new(name.clone(), event.clone(), now_ms);
                self.store.deliver(&delivery, Some(now_ms))?;
            }
            Ok(())
        })?;
        self.alarm.arm(now_ms).await
    }

    /// Sends due deliveries until there are none.
    async fn send(&self) {
        loop {
            let numbers = self.store.due_deliveries(self.host.now_ms(), AT_ONCE);
            let numbers: Vec<i64> = match numbers {
                Ok(numbers) => {
                    let sent = self.sent.borrow();
                    numbers
                        .into_iter()
                        .filter(|number| !sent.contains(number))
                        .collect()
                }
                Err(fault) => return self.host.fail(&format!("deliveries of alerts: {fault}")),
            };
            if numbers.is_empty() {
                break;
            }
            let deliver = |number: i64| async move { (number, self.deliver(number).await) };
            for (number, delivered) in all_settled(numbers.into_iter().map(deliver), AT_ONCE).await
            {
                let Err(fault) = delivered else { continue };
                self.host.fail(&format!("deliveries of alerts: {fault}"));
                if !matches!(fault, Fault::Unreadable(_)) {
                    return;
                }
                // A damaged row would stay due, hold up other alerts, and ring the alarm again at once.
                let again_ms = self.host.now_ms() + UNREADABLE_AGAIN_MS;
                if let Err(fault) = self.store.put_off_one(number, again_ms) {
                    return self.host.fail(&format!("deliveries of alerts: {fault}"));
                }
            }
        }
        if let Err(fault) = self.alarm.arm(self.host.now_ms()).await {
            self.host.fail(&format!("the alarm of alerts: {fault}"));
        }
    }

    /// Makes one attempt of a delivery.
    async fn deliver(&self, number: i64) -> Result<(), Fault> {
        let Some(_turn) = Turn::begin(&self.sent, &number) else {
            return Ok(());
        };
        let now_ms = self.host.now_ms();
        let Some((mut delivery, _)) = self.store.delivery(number)? else {
            return Ok(());
        };
        let Some(stored) = self.store.get(&delivery.name)? else {
            // A delivery without an alert would stay due, and be handled again at once.
            return self.store.delete(&delivery.name).map(drop);
        };
        if let Some(until_ms) = stored.record.silenced_until_ms(now_ms) {
            return self.store.put_off(&delivery.name, until_ms);
        }
        delivery.attempts += 1;
        let next_ms = now_ms + wait_ms(delivery.attempts, self.host.random());
        // Durable before it is sent: after a crash it is sent again at that time.
        self.store
            .update_delivery(number, &delivery, Some(next_ms))?;
        let attempt = self.attempt(&delivery, &stored).await;
        let Some((_, due_ms)) = self.same(number, &delivery)? else {
            return Ok(());
        };
        let is_over = next_ms >= delivery.created_ms + GIVEN_UP_AFTER_MS;
        delivery.outcome = match attempt.why.is_empty() {
            true => Outcome::Delivered,
            false if is_over => Outcome::GivenUp,
            false => Outcome::Waiting,
        };
        if delivery.outcome == Outcome::GivenUp {
            let (host, why) = (host_name(&stored.alert.webhook), &attempt.why);
            let (name, attempts) = (&delivery.name, delivery.attempts);
            self.host.fail(&format!(
                "the alert {name} was not delivered to {host} in {attempts} attempts, and is given up: {why}"
            ));
        }
        delivery.last = Some(attempt);
        let waits = delivery.outcome == Outcome::Waiting;
        self.store
            .update_delivery(number, &delivery, due_ms.filter(|_| waits))
    }

    /// Sends a delivery to its receiver.
    async fn attempt(&self, delivery: &Delivery, stored: &StoredAlert) -> Attempt {
        let at_ms = self.host.now_ms();
        let failed = |status: Option<u16>, why: String| Attempt { at_ms, status, why };
        let allowed = Allowed::of(self.host.setting(ALERTS_ALLOW).as_deref());
        let webhook = &stored.alert.webhook;
        let reach = match check(webhook, &allowed) {
            Ok(reach) => reach,
            Err(problem) => return failed(None, problem.detail().to_owned()),
        };
        let request = request_of(delivery, (webhook, reach), &stored.secret, at_ms);
        let posting = self.host.platform().post(request);
        match self.host.within_ms(ANSWER_MS_MAX, posting).await {
            Some(Ok(status)) => failed(Some(status), refusal_of(status).unwrap_or_default()),
            Some(Err(why)) => failed(None, format!("the receiver cannot be reached: {why}")),
            None => failed(
                None,
                format!("the receiver did not answer in {} s", ANSWER_MS_MAX / 1_000),
            ),
        }
    }
}

/// Whether both have the same subject and condition.
fn watches_the_same(one: &Alert, other: &Alert) -> bool {
    (&one.watched, one.condition) == (&other.watched, other.condition)
}

fn delivery_of(name: &AlertName, stored: &StoredAlert, notice: Notice, now_ms: i64) -> Delivery {
    let (kind, incident) = match notice {
        Notice::Firing(incident) => (EventKind::Firing, incident),
        Notice::Resolved(incident) => (EventKind::Resolved, incident),
    };
    let event = AlertEvent {
        kind,
        incident: incident.id,
        since_ms: stored.record.since_ms,
        alert: stored.alert.clone(),
        reading: stored.record.reading.clone(),
        digest: None,
    };
    Delivery::new(name.clone(), event, now_ms)
}
