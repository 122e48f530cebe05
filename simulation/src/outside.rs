//! The world outside of the deployment: receivers of requests that a test sets.
//!
//! Invariant: a request arrives at most once, and only once the writes of its sender are durable; its answer may be
//! lost. Without a receiver no request is answered.

use std::cell::RefCell;
use std::rc::Rc;

use tally_host::{Later, Point};
use tally_wire::alerts::Outgoing;

use crate::core::Core;
use crate::executor::Owner;
use crate::network::Site;
use crate::one_shot::OneShot;

/// How long a request that is lost takes to fail, milliseconds, at most. Half of them never do.
const LOST_MS_MAX: u64 = 20_000;

/// The status that a receiver answers, or why there is none.
type DeliveryResult = Result<u16, String>;

/// Answers requests.
pub(crate) type Receiver = Rc<dyn Fn(Outgoing) -> Later<DeliveryResult>>;

/// Whoever answers, and the data set, where one is bound.
#[derive(Default)]
pub(crate) struct Outside {
    receiver: RefCell<Option<Receiver>>,
    points: RefCell<Option<Vec<Point>>>,
}

impl Outside {
    pub(crate) fn set(&self, receiver: Receiver) {
        *self.receiver.borrow_mut() = Some(receiver);
    }

    pub(crate) fn clear(&self) {
        drop(self.receiver.take());
    }

    /// Binds a data set, which holds these points.
    pub(crate) fn set_points(&self, points: Vec<Point>) {
        *self.points.borrow_mut() = Some(points);
    }

    pub(crate) fn has_points(&self) -> bool {
        self.points.borrow().is_some()
    }

    pub(crate) fn add_points(&self, points: &[Point]) {
        if let Some(known) = self.points.borrow_mut().as_mut() {
            known.extend_from_slice(points);
        }
    }

    pub(crate) fn points(&self) -> Vec<Point> {
        self.points.borrow().clone().unwrap_or_default()
    }
}

impl Core {
    /// Sends a request on its way.
    pub(crate) fn post(
        self: &Rc<Self>,
        from: Site,
        owner: Owner,
        request: Outgoing,
        slot: Rc<OneShot<DeliveryResult>>,
    ) {
        let faults = self.faults.get();
        let is_lost = self.chance.once_in(faults.loses_request_once_in);
        let loses_answer = self.chance.once_in(faults.loses_answer_once_in);
        let (core, delay_us) = (self.clone(), self.delay_us(from, from));
        self.record(|| format!("post     {} from {owner:?}", request.url));
        self.after(delay_us, move || {
            if is_lost {
                return core.fail_later(slot);
            }
            let receiver = core.outside.receiver.borrow().clone();
            let Some(receiver) = receiver else {
                return slot.fill(Err("nobody is there".to_owned()));
            };
            let (known, back_us) = (core.clone(), core.delay_us(from, from));
            // The receiver goes on whatever becomes of the sender.
            let owner = core.executor.owner();
            core.executor.spawn(
                owner,
                0,
                Box::pin(async move {
                    let answered = receiver(request).await;
                    if loses_answer {
                        return known.fail_later(slot);
                    }
                    known.after(back_us, move || slot.fill(answered));
                }),
            );
        });
    }

    fn fail_later(self: &Rc<Self>, slot: Rc<OneShot<DeliveryResult>>) {
        if self.chance.once_in(2) {
            return;
        }
        let after_us = self.chance.below(LOST_MS_MAX * 1_000);
        self.after(after_us, move || slot.fill(Err("it got lost".to_owned())));
    }
}
