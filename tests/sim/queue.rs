//! Queued events of an isolate on their way to its inbox, as `edge::queue`.
//!
//! Invariant: as there: one append in flight at a time; one of unknown outcome is sent again under the same
//! nonce only.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use tally::core::counter::id::Datacenter;
use tally::core::counter::ledger::WriteKey;
use tally::core::counter::nonces::Nonce;
use tally::core::counter::produce::{INBOX_LIMITS, Producer, Sent, WAIT_MS_MAX};
use tally::core::counter::queue::Event;
use tally::protocol::messages::{Appended, Fault};

use super::isolate::Spawned;
use super::network::{Answer, Message};
use super::oracle::End;
use super::{Air, Airs, Boxed, INBOXES};

const ATTEMPTS: usize = 2;

const FLY_MS_MAX: i64 = 3_000;

/// What becomes of an append: `None` where that is unknown.
type Outcome = Option<bool>;

/// An event as its client names it.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub counter: usize,
    pub increment: u128,
    pub key: Option<(WriteKey, u64)>,
}

/// The events of one isolate.
pub struct Queue {
    airs: Airs,
    /// Where its inbox is called.
    inbox: usize,
    producer: RefCell<Producer<Outcome>>,
    /// The next number that stands for a random one.
    next_lane: Cell<u64>,
    skew_ms: Rc<Cell<i64>>,
    spawned: Spawned,
}

impl Queue {
    pub fn new(
        airs: &Airs,
        lot: u8,
        life: u64,
        skew_ms: Rc<Cell<i64>>,
        spawned: Spawned,
    ) -> Rc<Self> {
        let layout = airs[0].layout;
        let (lot, first_lane) = (usize::from(lot), (life * 1_000 + u64::from(lot)) * 1_000);
        let number = lot / layout.datacenters % INBOXES;
        Rc::new(Self {
            airs: airs.clone(),
            inbox: layout.inbox(lot % layout.datacenters * INBOXES + number),
            producer: RefCell::new(Producer::new(INBOX_LIMITS)),
            next_lane: Cell::new(first_lane),
            skew_ms,
            spawned,
        })
    }

    fn now_ms(&self) -> i64 {
        self.airs[0].now_ms.get() + self.skew_ms.get()
    }

    fn take(&self) -> Option<(Nonce, Vec<Sent>)> {
        let mut new_lane = || self.next_lane.replace(self.next_lane.get() + 1);
        self.producer
            .borrow_mut()
            .take(self.now_ms(), &mut new_lane)
    }

    async fn fly(self: Rc<Self>, mut nonce: Nonce, mut messages: Vec<Sent>) {
        let begun_ms = self.now_ms();
        loop {
            let outcome = self.send(nonce, messages).await;
            self.producer.borrow_mut().land(nonce.number, outcome);
            let is_early = self.now_ms() - begun_ms <= FLY_MS_MAX;
            match is_early.then(|| self.take()).flatten() {
                Some(next) => (nonce, messages) = next,
                None => return,
            }
        }
    }

    async fn send(&self, nonce: Nonce, messages: Vec<Sent>) -> Outcome {
        let events: Vec<Event> = messages.into_iter().map(Sent::into_event).collect();
        let mut is_unknown = false;
        for _ in 0..ATTEMPTS {
            let append = Message::Append(nonce, events.clone());
            match self.airs[0].call_at(self.inbox, append).await {
                Ok(Answer::Appended(Appended::Logged)) => return Some(true),
                Err(Fault::Unavailable(_)) => is_unknown = true,
                _ if is_unknown => break,
                Ok(Answer::Appended(Appended::Full)) => return Some(false),
                Ok(other) => unreachable!("{other:?} answers no append"),
                Err(_) => break,
            }
        }
        None
    }

    /// One event, until its client has an answer. True if it was acknowledged.
    pub async fn event(self: Rc<Self>, wanted: Wanted) -> bool {
        let begun_ms = self.now_ms();
        let air = self.airs[wanted.counter].clone();
        let event = Event {
            counter: air.name(),
            delta: wanted.increment,
            second: begun_ms.div_euclid(1_000),
            key: wanted.key,
        };
        let (key, fingerprint) = wanted.key.unwrap_or((WriteKey([0; 16]), 0));
        let sent = Sent {
            datacenter: Datacenter::local(),
            counter: event.counter.clone(),
            generation: 0,
            added: event.delta,
            second: event.second,
            is_clients: wanted.key.is_some(),
            key,
            fingerprint,
        };
        let client = Client::new(air, event);
        let Some(number) = self.producer.borrow_mut().join(sent) else {
            client.answer(End::Refused);
            return false;
        };
        let outcome = poll_fn(move |_| {
            while let Some((nonce, messages)) = self.take() {
                let flown = self.clone().fly(nonce, messages);
                self.spawned.borrow_mut().push(flown.boxed());
            }
            let landed = self.producer.borrow().outcome(number);
            let is_late = self.now_ms() - begun_ms > WAIT_MS_MAX;
            match landed {
                Some(outcome) => Poll::Ready(outcome),
                None if is_late => Poll::Ready(None),
                None => Poll::Pending,
            }
        })
        .await;
        client.answer(match outcome {
            Some(true) => End::Counted,
            Some(false) => End::Refused,
            None => End::Unknown,
        });
        outcome == Some(true)
    }
}

/// A client that waits for its answer; its isolate may be gone before.
struct Client {
    air: Rc<Air>,
    event: Event,
    is_answered: bool,
}

impl Client {
    fn new(air: Rc<Air>, event: Event) -> Self {
        air.oracle.borrow_mut().sends(&event);
        Self {
            air,
            event,
            is_answered: false,
        }
    }

    fn answer(mut self, end: End) {
        self.is_answered = true;
        let mut oracle = self.air.oracle.borrow_mut();
        oracle.events.answered(&self.event, end);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if !self.is_answered && !std::thread::panicking() {
            let mut oracle = self.air.oracle.borrow_mut();
            oracle.events.answered(&self.event, End::Unknown);
        }
    }
}
