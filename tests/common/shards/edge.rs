//! The edge of the simulated datacenter: isolates that write, and what a reader asks of the lead. What
//! they do and in which order is `edge::write::write`, `edge::lanes::fly` and `edge::lanes::send`.

use std::cell::Cell;
use std::rc::Rc;

use tally::counter::flush::{Load, Refusal};
use tally::counter::merge::Question;
use tally::counter::nonces::Nonce;
use tally::protocol::messages::{Fault, Flushed};

use super::network::{Answer, Message, Turns, unavailable};
use super::oracle::{End, Totals};
use super::{Air, CELLS, GENERATION};

const MOVES_MAX: usize = 4;

const ATTEMPTS: usize = 2;

/// How far back a read's window reaches: as far as seconds are kept.
const WINDOW_SECONDS: i64 = 899;

/// One isolate.
pub struct Edge {
    lot: u8,
    /// Shards as far as known here, which may be long past.
    pub shards: Cell<u8>,
    lanes: Vec<Lane>,
}

struct Lane {
    id: u64,
    number: Cell<u64>,
    turns: Turns,
}

impl Edge {
    pub fn new(lot: u8) -> Rc<Self> {
        let first = u64::from(lot) * 100;
        let lane = |id| Lane {
            id,
            number: Cell::default(),
            turns: Turns::default(),
        };
        Rc::new(Self {
            lot,
            shards: Cell::new(1),
            lanes: (first..).take(CELLS).map(lane).collect(),
        })
    }

    fn own_shard(&self) -> usize {
        usize::from(self.lot % self.shards.get().max(1))
    }

    /// Whether nothing flies to the shard that the next write goes to.
    pub fn is_free(&self) -> bool {
        self.lanes[self.own_shard()].turns.is_free()
    }
}

/// One write, until its client has an answer.
pub async fn write(air: Rc<Air>, edge: Rc<Edge>, delta: Totals) {
    let number = air.oracle.borrow_mut().begin_write(delta);
    let second = air.now_ms.get().div_euclid(1_000);
    let load = Load {
        added: delta.0,
        removed: delta.1,
        live: vec![(second, delta.0)],
        ..Load::default()
    };
    let mut outcome = fly(&air, &edge, number, &load).await;
    for _ in 0..MOVES_MAX {
        if !matches!(outcome, Err(Fault::Refused(Refusal::Moved(_)))) {
            break;
        }
        outcome = fly(&air, &edge, number, &load).await;
    }
    let end = match &outcome {
        Ok(_) => End::Counted,
        Err(Fault::Refused(_)) => End::Refused,
        Err(_) => End::Unknown,
    };
    air.oracle
        .borrow_mut()
        .ended(number, end, outcome.as_ref().ok());
}

async fn fly(air: &Rc<Air>, edge: &Edge, write: usize, load: &Load) -> Result<Flushed, Fault> {
    let shard = edge.own_shard();
    let lane = &edge.lanes[shard];
    let _turn = lane.turns.lock().await;
    lane.number.set(lane.number.get() + 1);
    let nonce = Nonce {
        lane: lane.id,
        number: lane.number.get(),
    };
    air.oracle.borrow_mut().begin_flush(write, nonce);
    let outcome = send(air, shard, nonce, load).await;
    match &outcome {
        Ok(flushed) => edge.shards.set(flushed.shards),
        Err(Fault::Refused(Refusal::Moved(shards))) => edge.shards.set(*shards),
        Err(_) => {}
    }
    outcome
}

async fn send(air: &Rc<Air>, shard: usize, nonce: Nonce, load: &Load) -> Result<Flushed, Fault> {
    let mut is_unknown = false;
    for _ in 0..ATTEMPTS {
        match air.call(shard, Message::Flush(nonce, load.clone())).await {
            Err(Fault::Unavailable(_)) => is_unknown = true,
            // The attempt before may be on its way still.
            Err(_) if is_unknown => break,
            Err(fault) => return Err(fault),
            Ok(Answer::Flushed(flushed)) => return Ok(flushed),
            Ok(other) => unreachable!("{other:?} answers no flush"),
        }
    }
    Err(unavailable())
}

/// One read; `last` where everything is at rest.
pub async fn read(air: Rc<Air>, about_times: bool, last: bool) {
    let begun = air.oracle.borrow().commits();
    let now = air.now_ms.get().div_euclid(1_000);
    let question = Question {
        window: about_times.then_some((now - WINDOW_SECONDS, now)),
        ..Question::plain(GENERATION)
    };
    let answer = air.call(0, Message::Sum(question)).await;
    let oracle = air.oracle.borrow();
    match answer {
        Ok(Answer::Sum(sum)) if last => oracle.check_rest(&sum),
        Ok(Answer::Sum(sum)) => oracle.check_read(begun, &sum, about_times),
        other => assert!(!last, "the last read got {other:?}"),
    }
}

/// The root stops the datacenter before it ends the counter; it may go on after all, see `telling::end`.
pub async fn suspend(air: Rc<Air>) {
    air.is_ending.set(true);
    match air.call(0, Message::Suspend(GENERATION)).await {
        Ok(_) => air.oracle.borrow_mut().is_stopped = true,
        Err(_) => air.is_ending.set(false),
    }
}
