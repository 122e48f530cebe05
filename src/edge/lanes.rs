//! How writes reach their cells: they join lanes, a batch is flown by whoever attends it, and every
//! write waits for the outcome of its batch by its own timer.
//!
//! Invariant: a write is answered well only if the flush that holds it is durable.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use futures_channel::oneshot;
use worker::Env;

use super::isolate::{learn_bounded, learn_home, learn_shards, with_lanes};
use super::visit::Visit;
use crate::counter::flush::{Load, Refusal};
use crate::counter::lane::{Arrival, FLIGHT_MS_MAX, Lane, Ticket, newest_at};
use crate::counter::nonces::Nonce;
use crate::platform::call;
use crate::platform::clock::{now_ms, random, sleep_ms, within_ms};
use crate::platform::measure;
use crate::protocol::messages::{Fault, Flush, Flushed};
use crate::protocol::metrics::Metric;
use crate::protocol::names::CellAddress;
use crate::protocol::problem::{Code, Problem};

/// Lanes in memory: an idle one is about 300 bytes. Letting one go costs nothing but its name.
const LANES_MAX: usize = 20_000;

/// How often a waiting write looks for its outcome.
const LOOK_EVERY_MS: u64 = 1;

/// Time for the first attempt of a flight, and for its retry: together below [`FLIGHT_MS_MAX`],
/// so that no write waits past 5 s.
const ATTEMPTS_MS: [u64; 2] = [2_500, 2_000];

/// Batches of others that an attendant flies after its own. Its own client has its answer by then,
/// but the platform lets a request go on for 30 s at most: 50 flights of 5 ms are 0.25 s.
const FLIGHTS_ALONG_MAX: usize = 50;

/// How long a write waits in all: for the flight before its own, and its own.
const WAIT_MS_MAX: i64 = FLIGHT_MS_MAX - 200;

/// What a flight ends with.
pub type Outcome = Result<Flushed, Fault>;

/// Where a bulk body learns what became of its writes: whoever lands a flight notes it here. That
/// is memory which another request wrote; it wakes nobody.
#[derive(Debug, Default)]
pub struct Progress {
    /// Writes whose outcome is not known yet.
    pub pending: usize,
    /// Writes that failed: the body's own number of the write, and why.
    pub failed: Vec<(usize, Fault)>,
    /// Which writes have landed, well or not, by the body's own number.
    pub landed: Vec<bool>,
}

/// One write of a bulk body.
#[derive(Debug)]
pub struct Watcher {
    /// Its body.
    pub progress: Rc<RefCell<Progress>>,
    /// The body's number of the write.
    pub number: usize,
}

impl Watcher {
    fn tell(self, outcome: &Outcome) {
        let mut progress = self.progress.borrow_mut();
        progress.pending = progress.pending.saturating_sub(1);
        if let Some(landed) = progress.landed.get_mut(self.number) {
            *landed = true;
        }
        if let Err(fault) = outcome {
            progress.failed.push((self.number, fault.clone()));
        }
    }
}

/// The lanes of an isolate.
#[derive(Default)]
pub struct Lanes {
    lanes: HashMap<CellAddress, Lane<Outcome, Watcher>>,
}

impl Lanes {
    /// The lane to a cell, made if need be; `None` where too many are busy.
    fn lane(&mut self, to: &CellAddress) -> Option<&mut Lane<Outcome, Watcher>> {
        if !self.lanes.contains_key(to) {
            if self.lanes.len() >= LANES_MAX {
                let now_ms = now_ms();
                self.lanes.retain(|_, lane| !lane.is_idle(now_ms));
            }
            if self.lanes.len() >= LANES_MAX {
                return None;
            }
            self.lanes.insert(to.clone(), Lane::new(random()));
        }
        self.lanes.get_mut(to)
    }
}

/// What the writes of a batch are told whose attendant is gone.
fn lost() -> Outcome {
    Err(Fault::Unavailable(
        "the request that carried this write was ended".to_owned(),
    ))
}

/// Lets a load join the lane to a cell.
///
/// # Errors
/// `overloaded` where the lane, or the isolate, is full.
pub fn join(to: &CellAddress, load: Load, watcher: Option<Watcher>) -> Result<Ticket, Problem> {
    let now_ms = now_ms();
    let joined = with_lanes(|lanes| {
        let lane = lanes.lane(to)?;
        for watcher in lane.give_up_stale(now_ms, &lost()) {
            watcher.tell(&lost());
        }
        lane.join(load, now_ms, watcher)
    });
    joined.ok_or_else(|| {
        let detail = "too many writes wait here; nothing was counted, try again";
        Problem::new(Code::Overloaded, detail)
    })
}

/// Takes a ticket's batch if it may fly now.
pub fn take(to: &CellAddress, ticket: &Ticket) -> Option<(Nonce, Load)> {
    with_lanes(|lanes| lanes.lanes.get_mut(to)?.take_for(ticket, now_ms()))
}

/// Whether a ticket's batch has not been taken yet.
pub fn is_waiting(to: &CellAddress, ticket: &Ticket) -> bool {
    with_lanes(|lanes| {
        let lane = lanes.lanes.get(to);
        lane.is_some_and(|lane| lane.is_waiting(ticket))
    })
}

/// Counts a load at a cell and returns what came of it, once it is durable.
///
/// # Errors
/// The cell's refusal, or `Unavailable` where it does not confirm in time; `overloaded`.
pub async fn count(
    visit: &Visit,
    to: &CellAddress,
    load: Load,
) -> Result<Arrival<Outcome>, Problem> {
    let begun_ms = now_ms();
    let ticket = join(to, load, None)?;
    if ticket.attends {
        let (landed, landing) = oneshot::channel();
        let (env, to) = (visit.env.clone(), to.clone());
        visit.wait_until(async move {
            let flew = fly_in_turn(&env, &to, &ticket).await;
            // Nobody listens if the client is gone; the other writes look for themselves.
            let _ = landed.send(());
            if flew {
                fly_along(&env, &to).await;
            }
        });
        // This wakes the attendant within its own request, which is allowed.
        let _ = within_ms(u64::try_from(WAIT_MS_MAX).unwrap_or(0), landing).await;
    }
    loop {
        let look = with_lanes(|lanes| lanes.lanes.get(to).map(|lane| look(lane, &ticket)));
        let wait_ms = match look {
            Some(Ok(arrival)) => return Ok(arrival),
            Some(Err(wait_ms)) => wait_ms,
            None => LOOK_EVERY_MS,
        };
        if now_ms() - begun_ms > WAIT_MS_MAX {
            let late = "the counter did not confirm in time".to_owned();
            return Err(Fault::Unavailable(late).into());
        }
        sleep_ms(wait_ms).await;
    }
}

/// What came of a ticket's batch, or in how many milliseconds to look again.
fn look(lane: &Lane<Outcome, Watcher>, ticket: &Ticket) -> Result<Arrival<Outcome>, u64> {
    lane.arrival(ticket)
        .ok_or_else(|| lane.look_in_ms(ticket, now_ms()))
}

/// Waits for a batch's turn, and flies it; false if somebody else does.
async fn fly_in_turn(env: &Env, to: &CellAddress, ticket: &Ticket) -> bool {
    let begun_ms = now_ms();
    while now_ms() - begun_ms <= FLIGHT_MS_MAX {
        if let Some((nonce, load)) = take(to, ticket) {
            fly(env, to, nonce, load).await;
            return true;
        }
        // Somebody who has just landed may fly it along.
        if !is_waiting(to, ticket) {
            return false;
        }
        sleep_ms(LOOK_EVERY_MS).await;
    }
    false
}

/// Flies whatever has gathered meanwhile, so that a hot lane does not idle until its next attendant
/// looks.
async fn fly_along(env: &Env, to: &CellAddress) {
    for _ in 0..FLIGHTS_ALONG_MAX {
        let next = with_lanes(|lanes| lanes.lanes.get_mut(to)?.take_first(now_ms()));
        let Some((nonce, load)) = next else { return };
        fly(env, to, nonce, load).await;
    }
}

/// Sends a batch that was taken, and lands it.
pub async fn fly(env: &Env, to: &CellAddress, nonce: Nonce, load: Load) {
    let writes = load.writes;
    let outcome = send(env, to, nonce, load).await;
    let ended = match &outcome {
        Ok(_) => Metric::FlushCounted,
        Err(Fault::Unavailable(_)) => Metric::FlushUnknown,
        Err(_) => Metric::FlushRefused,
    };
    measure::flown(ended, writes);
    match &outcome {
        Ok(Flushed { shards, .. }) | Err(Fault::Refused(Refusal::Moved(shards))) => {
            learn_shards(&to.counter, &to.datacenter, *shards);
        }
        Err(Fault::Elsewhere(home)) => learn_home(&to.counter, home),
        Err(Fault::Refused(Refusal::Bounded)) => learn_bounded(&to.counter),
        Err(_) => {}
    }
    with_lanes(|lanes| {
        if let Some(lane) = lanes.lanes.get_mut(to) {
            match &outcome {
                Ok(flushed) => {
                    lane.linger(flushed.linger_ms);
                    lane.learn(flushed.generation);
                }
                Err(Fault::Refused(Refusal::Newer(generation))) => lane.learn(*generation),
                Err(_) => {}
            }
            for watcher in lane.land(nonce.number, outcome.clone(), now_ms()) {
                watcher.tell(&outcome);
            }
        }
    });
}

/// Sends a flush, and once more under the same nonce where its outcome is unknown: only the cell
/// it was sent to can tell whether it was counted.
///
/// It is sent once more, too, where the counter was deleted since the lane last flushed: nothing was counted,
/// and the writes are of now, so they count in what lives now. Copies of what was refused are refused for ever.
/// Not so after an attempt of unknown outcome, although that one will count nothing more: it may have been
/// counted, and read by somebody, in the generation that ended. Its writes count at most once over all
/// generations, and their clients are told that the outcome is unknown.
async fn send(env: &Env, to: &CellAddress, nonce: Nonce, load: Load) -> Outcome {
    let to = to.clone();
    let mut flush = Flush { to, nonce, load };
    let mut last = None;
    for milliseconds in ATTEMPTS_MS {
        if matches!(last, Some(Fault::Unavailable(_))) {
            measure::count(Metric::FlushRetry);
        }
        let outcome = call::cell_within(env, &flush.to, &flush, milliseconds).await;
        match (outcome, last) {
            (Err(fault @ Fault::Unavailable(_)), _) => last = Some(fault),
            // The attempt before may be on its way still, and be counted. Whoever took this for a
            // refusal would send the write elsewhere, and it would count twice.
            (Err(_), Some(fault @ Fault::Unavailable(_))) => return Err(fault),
            (Err(Fault::Refused(refusal @ Refusal::Newer(generation))), _) => {
                flush.load.newest = generation.max(newest_at(now_ms()));
                last = Some(Fault::Refused(refusal));
            }
            (outcome, _) => return outcome,
        }
    }
    last.map_or_else(lost, Err)
}
