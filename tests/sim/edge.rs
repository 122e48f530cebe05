//! Isolates that count: what they do and in which order is `edge::write` and `edge::lanes`.
//!
//! Invariant: when an isolate crashes all that ran in it is gone, and its clients know nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use tally::core::counter::flush::{Element, Load, Refusal};
use tally::core::counter::id::Datacenter;
use tally::core::counter::lane::{Arrival, FLIGHT_MS_MAX, Lane, Ticket, newest_at};
use tally::core::counter::nonces::Nonce;
use tally::core::counter::split::shard_of_element;
use tally::core::sketch::{HashId, HashKey, Token};
use tally::protocol::messages::{Fault, Flushed, GlobalSum};
use tally::protocol::version::{SeenCell, Version};

use super::isolate::Spawned;
use super::network::{Answer, Message, unavailable};
use super::oracle::{End, Totals};
use super::sampled::sample_of;
use super::{Air, Boxed, CELLS, datacenter, shard_of};

const MOVES_MAX: usize = 4;

const MOVES_MS_MAX: i64 = 500;

const ATTEMPTS: usize = 2;

const FLIGHTS_ALONG_MAX: usize = 50;

const WAIT_MS_MAX: i64 = FLIGHT_MS_MAX - 200;

type Outcome = Result<Flushed, Fault>;

/// What readers of an isolate share: when its fetch began, by the isolate's clock, and what it saw.
#[derive(Clone)]
pub struct View {
    pub begun_ms: i64,
    pub sum: Option<Rc<GlobalSum>>,
}

/// One isolate, for one counter.
pub struct Edge {
    pub air: Rc<Air>,
    pub datacenter: usize,
    lot: u8,
    /// Names its lanes, as random numbers would.
    life: u64,
    /// Shards as far as known here, which may be long past.
    pub shards: Cell<u8>,
    /// Where all writes go, as far as known here.
    pub home: RefCell<Option<Datacenter>>,
    lanes: RefCell<BTreeMap<usize, Lane<Outcome, ()>>>,
    /// The view that readers share.
    pub view: RefCell<Option<View>>,
    skew_ms: Rc<Cell<i64>>,
    spawned: Spawned,
}

impl Edge {
    pub fn new(
        air: &Rc<Air>,
        lot: u8,
        life: u64,
        skew_ms: Rc<Cell<i64>>,
        spawned: Spawned,
    ) -> Rc<Self> {
        Rc::new(Self {
            air: air.clone(),
            datacenter: usize::from(lot) % air.layout.datacenters,
            lot,
            life,
            shards: Cell::new(1),
            home: RefCell::default(),
            lanes: RefCell::default(),
            view: RefCell::default(),
            skew_ms,
            spawned,
        })
    }

    pub fn now_ms(&self) -> i64 {
        self.air.now_ms.get() + self.skew_ms.get()
    }

    /// The shard of so many that this isolate stays with.
    pub fn own_shard(&self, shards: u8) -> u8 {
        self.lot % shards.max(1)
    }

    /// The cell of a write: its element's where it has one.
    fn cell_for(&self, datacenter: usize, shards: u8, element: Option<u64>) -> usize {
        let shard = match element {
            Some(hashed) => shard_of_element(hashed, shards),
            None => self.own_shard(shards),
        };
        datacenter * CELLS + usize::from(shard)
    }

    fn lane_id(&self, to: usize) -> u64 {
        let to = u64::try_from(to).expect("few cells");
        (self.life * 1_000 + u64::from(self.lot)) * 1_000 + to
    }

    fn with_lane<T>(&self, to: usize, body: impl FnOnce(&mut Lane<Outcome, ()>) -> T) -> T {
        let mut lanes = self.lanes.borrow_mut();
        let new = || Lane::new(self.lane_id(to));
        body(lanes.entry(to).or_insert_with(new))
    }

    /// As `lanes::join`.
    fn join(&self, to: usize, write: usize, load: Load) -> Option<Ticket> {
        let now_ms = self.now_ms();
        let ticket = self.with_lane(to, |lane| {
            lane.give_up_stale(now_ms, &Err(unavailable()));
            lane.join(load, now_ms, None)
        })?;
        let nonce = Nonce {
            lane: self.lane_id(to),
            number: ticket.batch,
        };
        self.air.oracle.borrow_mut().joined(write, nonce);
        Some(ticket)
    }

    /// As `lanes::count`; `None` where too many wait.
    async fn count(
        self: &Rc<Self>,
        to: usize,
        write: usize,
        load: Load,
    ) -> Option<Arrival<Outcome>> {
        let begun_ms = self.now_ms();
        let ticket = self.join(to, write, load)?;
        if ticket.attends {
            let edge = self.clone();
            let flight = async move {
                if edge.fly_in_turn(to, ticket).await {
                    edge.fly_along(to).await;
                }
            };
            self.spawned.borrow_mut().push(flight.boxed());
        }
        let arrival = poll_fn(|_| match self.with_lane(to, |lane| lane.arrival(&ticket)) {
            Some(arrival) => Poll::Ready(arrival),
            None if self.now_ms() - begun_ms > WAIT_MS_MAX => Poll::Ready(Arrival {
                outcome: Err(unavailable()),
                later: (0, 0),
            }),
            None => Poll::Pending,
        });
        Some(arrival.await)
    }

    async fn fly_in_turn(&self, to: usize, ticket: Ticket) -> bool {
        let begun_ms = self.now_ms();
        let taken = poll_fn(|_| {
            let now_ms = self.now_ms();
            let taken = self.with_lane(to, |lane| lane.take_for(&ticket, now_ms));
            let is_waiting = self.with_lane(to, |lane| lane.is_waiting(&ticket));
            if taken.is_some() || !is_waiting || now_ms - begun_ms > FLIGHT_MS_MAX {
                Poll::Ready(taken)
            } else {
                Poll::Pending
            }
        });
        let Some((nonce, load)) = taken.await else {
            return false;
        };
        self.fly(to, nonce, load).await;
        true
    }

    async fn fly_along(&self, to: usize) {
        for _ in 0..FLIGHTS_ALONG_MAX {
            let now_ms = self.now_ms();
            let next = self.with_lane(to, |lane| lane.take_first(now_ms));
            let Some((nonce, load)) = next else { return };
            self.fly(to, nonce, load).await;
        }
    }

    async fn fly(&self, to: usize, nonce: Nonce, load: Load) {
        if !self.with_lane(to, |lane| lane.knows_generation()) {
            self.air.oracle.borrow_mut().is_blind(nonce);
        }
        let outcome = self.send(to, nonce, load).await;
        match &outcome {
            Ok(flushed) => self.shards.set(flushed.shards),
            Err(Fault::Refused(Refusal::Moved(shards))) => self.shards.set(*shards),
            Err(Fault::Elsewhere(home)) => drop(self.home.replace(Some(home.clone()))),
            Err(_) => {}
        }
        let now_ms = self.now_ms();
        self.with_lane(to, |lane| {
            match &outcome {
                Ok(flushed) => {
                    lane.linger(flushed.linger_ms);
                    lane.learn(flushed.generation);
                }
                Err(Fault::Refused(Refusal::Newer(generation))) => lane.learn(*generation),
                Err(_) => {}
            }
            lane.land(nonce.number, outcome.clone(), now_ms);
        });
    }

    async fn send(&self, to: usize, nonce: Nonce, mut load: Load) -> Outcome {
        let mut is_unknown = false;
        let mut refused = None;
        for _ in 0..ATTEMPTS {
            let flush = Message::Flush(nonce, load.clone());
            match self.air.call(to, flush).await {
                Err(Fault::Unavailable(_)) => is_unknown = true,
                // The attempt before may be on its way still.
                Err(_) if is_unknown => break,
                Err(Fault::Refused(Refusal::Newer(generation))) => {
                    load.newest = generation.max(newest_at(self.now_ms()));
                    self.air.oracle.borrow_mut().is_blind(nonce);
                    refused = Some(Refusal::Newer(generation));
                }
                Err(fault) => return Err(fault),
                Ok(Answer::Flushed(flushed)) => return Ok(flushed),
                Ok(other) => unreachable!("{other:?} answers no flush"),
            }
        }
        match refused {
            Some(refusal) if !is_unknown => Err(Fault::Refused(refusal)),
            _ => Err(unavailable()),
        }
    }
}

/// A client that waits for the answer to its write; its isolate may be gone before.
struct Client {
    air: Rc<Air>,
    write: usize,
    is_answered: bool,
}

impl Client {
    fn answer(mut self, end: End, flushed: Option<&Flushed>) {
        self.is_answered = true;
        let mut oracle = self.air.oracle.borrow_mut();
        oracle.ended(self.write, end, flushed);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if !self.is_answered && !std::thread::panicking() {
            let mut oracle = self.air.oracle.borrow_mut();
            oracle.ended(self.write, End::Unknown, None);
        }
    }
}

/// The hash that an element went through: isolates have two keys while one is changed.
fn hash_id(hashed: u64) -> HashId {
    let key = if hashed.is_multiple_of(4) { 8 } else { 7 };
    HashKey::from([key; 16]).id()
}

/// One write, until its client has an answer; it is never sent again by the client. `told` gets its version.
pub fn write(
    edge: Rc<Edge>,
    delta: Totals,
    element: Option<u64>,
    told: Rc<RefCell<Vec<Version>>>,
) -> impl Future<Output = ()> + 'static {
    let air = edge.air.clone();
    let write = air.oracle.borrow_mut().begin_write(
        delta,
        element.map(|hashed| (hash_id(hashed), Token::from_hash(hashed))),
    );
    let client = Client {
        air,
        write,
        is_answered: false,
    };
    async move {
        let second = edge.now_ms().div_euclid(1_000);
        let load = Load {
            added: delta.0,
            removed: delta.1,
            live: vec![(second, delta.0)],
            tokens: element
                .map(|hashed| (second, Element::of(hashed)))
                .into_iter()
                .collect(),
            samples: sample_of(write, delta.0)
                .map(|one| (second, one))
                .into_iter()
                .collect(),
            hash: element.map(hash_id).unwrap_or_default(),
            ..Load::default()
        };
        let begun_ms = edge.now_ms();
        let home = edge.home.borrow().clone();
        let mut to = match home {
            Some(home) => edge.air.lead_of(&home),
            None => edge.cell_for(edge.datacenter, edge.shards.get(), element),
        };
        let mut arrival = edge.count(to, write, load.clone()).await;
        for _ in 0..MOVES_MAX {
            let outcome = arrival.as_ref().map(|arrival| &arrival.outcome);
            if edge.now_ms() - begun_ms > MOVES_MS_MAX {
                break;
            }
            match outcome {
                Some(Err(Fault::Refused(Refusal::Moved(shards)))) => {
                    to = edge.cell_for(to / CELLS, *shards, element);
                }
                Some(Err(Fault::Elsewhere(home))) => to = edge.air.lead_of(home),
                // A decrement was in the same flight.
                Some(Err(Fault::Refused(Refusal::Bounded))) if delta.1 == 0 => {}
                _ => break,
            }
            arrival = edge.count(to, write, load.clone()).await;
        }
        let outcome = arrival.map(|arrival| arrival.outcome);
        match outcome {
            Some(Ok(flushed)) => {
                client.answer(End::Counted, Some(&flushed));
                let cell = SeenCell {
                    datacenter: datacenter(to / CELLS),
                    shard: shard_of(to),
                    generation: flushed.generation,
                    sequence: flushed.outcome.sequence,
                };
                let version = Version::of([cell]).with_operations(flushed.operations);
                edge.air.oracle.borrow_mut().tells(&version);
                told.borrow_mut().push(version);
            }
            // A decrement of a counter with a floor goes by itself, under a key; here it goes no further.
            None | Some(Err(Fault::Refused(_) | Fault::Elsewhere(_))) => {
                client.answer(End::Refused, None);
            }
            Some(Err(_)) => client.answer(End::Unknown, None),
        }
    }
}
