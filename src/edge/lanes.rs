//! How a write reaches its cell: it joins a lane, the lane's leader flies the batch, every write
//! of the batch waits for the outcome by its own timer.
//!
//! Invariant: a write is answered well only if the flush that holds it is durable.

use std::collections::HashMap;

use futures_channel::oneshot;
use worker::Env;

use super::isolate::{learn_shards, with_lanes};
use super::visit::Visit;
use crate::counter::flush::Load;
use crate::counter::lane::{Arrival, FLIGHT_MS_MAX, Lane, Ticket};
use crate::counter::nonces::Nonce;
use crate::platform::call;
use crate::platform::clock::{now_ms, random, sleep_ms, within_ms};
use crate::protocol::messages::{Fault, Flush, Flushed};
use crate::protocol::names::CellAddress;
use crate::protocol::problem::{Code, Problem};

/// Lanes in memory: an idle one is about 200 bytes. Letting one go costs nothing but its name.
const LANES_MAX: usize = 20_000;

/// How often a waiting write looks for its outcome.
const LOOK_EVERY_MS: u64 = 1;

/// Time for the first attempt of a flight, and for its retry: together below [`FLIGHT_MS_MAX`],
/// so that no write waits past 5 s.
const ATTEMPTS_MS: [u64; 2] = [2_500, 2_000];

/// How long a write waits in all: for the flight before its own, and its own.
const WAIT_MS_MAX: i64 = FLIGHT_MS_MAX - 200;

/// What a flight ends with.
pub type Outcome = Result<Flushed, Fault>;

/// The lanes of an isolate.
#[derive(Default)]
pub struct Lanes {
    lanes: HashMap<CellAddress, Lane<Outcome>>,
}

impl Lanes {
    fn lane(&mut self, to: &CellAddress) -> &mut Lane<Outcome> {
        if self.lanes.len() >= LANES_MAX && !self.lanes.contains_key(to) {
            self.lanes.retain(|_, lane| !lane.is_idle());
        }
        self.lanes
            .entry(to.clone())
            .or_insert_with(|| Lane::new(random()))
    }
}

fn lost() -> Outcome {
    Err(Fault::Unavailable(
        "the request that carried this write was ended".to_owned(),
    ))
}

/// Counts a load at a cell and returns what came of it, once it is durable.
///
/// # Errors
/// `counter-overflow`; `unavailable` where the cell does not confirm it in time; `overloaded`.
pub async fn count(
    visit: &Visit,
    to: &CellAddress,
    load: &Load,
) -> Result<Arrival<Flushed>, Problem> {
    let begun_ms = now_ms();
    let ticket = with_lanes(|lanes| {
        let lane = lanes.lane(to);
        lane.give_up_stale(begun_ms, &lost());
        lane.join(load, begun_ms)
    });
    let Some(ticket) = ticket else {
        return Err(Problem::new(
            Code::Overloaded,
            "too many writes of this counter wait here; nothing was counted",
        ));
    };
    if ticket.leads {
        let (landed, landing) = oneshot::channel();
        let (env, to) = (visit.env.clone(), to.clone());
        visit.wait_until(async move {
            fly(&env, &to, ticket.batch).await;
            // The leader may be gone; the others look for themselves.
            let _ = landed.send(());
        });
        // This wakes the leader within its own request, which is allowed.
        let _ = within_ms(u64::try_from(WAIT_MS_MAX).unwrap_or(0), landing).await;
    }
    let arrival = look_for(to, &ticket, begun_ms).await?;
    let flushed = arrival.outcome.map_err(Problem::from)?;
    Ok(Arrival {
        outcome: flushed,
        later: arrival.later,
    })
}

async fn look_for(
    to: &CellAddress,
    ticket: &Ticket,
    begun_ms: i64,
) -> Result<Arrival<Outcome>, Problem> {
    loop {
        if let Some(arrival) = with_lanes(|lanes| lanes.lane(to).arrival(ticket)) {
            return Ok(arrival);
        }
        if now_ms() - begun_ms > WAIT_MS_MAX {
            let detail = "the counter did not confirm in time; whether it was counted is unknown to us, try again";
            return Err(Problem::new(Code::Unavailable, detail));
        }
        sleep_ms(LOOK_EVERY_MS).await;
    }
}

/// Flies a batch once it is its turn, and lands it.
async fn fly(env: &Env, to: &CellAddress, batch: u64) {
    let begun_ms = now_ms();
    let (nonce, load) = loop {
        if let Some(taken) = with_lanes(|lanes| lanes.lane(to).take(batch, now_ms())) {
            break taken;
        }
        if now_ms() - begun_ms > FLIGHT_MS_MAX {
            return;
        }
        sleep_ms(LOOK_EVERY_MS).await;
    };
    let outcome = send(env, to, nonce, load).await;
    if let Ok(flushed) = &outcome {
        learn_shards(&to.counter, &to.datacenter, flushed.shards);
    }
    with_lanes(|lanes| lanes.lane(to).land(batch, outcome));
}

/// Sends a flush, and once more under the same nonce where its outcome is unknown: only the cell
/// it was sent to can tell whether it was counted.
async fn send(env: &Env, to: &CellAddress, nonce: Nonce, load: Load) -> Outcome {
    let flush = Flush {
        to: to.clone(),
        nonce,
        load,
    };
    let mut outcome = lost();
    for milliseconds in ATTEMPTS_MS {
        let late = || {
            Err(Fault::Unavailable(
                "the counter did not confirm in time".to_owned(),
            ))
        };
        outcome = within_ms(milliseconds, call::cell(env, to, &flush))
            .await
            .unwrap_or_else(late);
        if !matches!(outcome, Err(Fault::Unavailable(_))) {
            break;
        }
    }
    outcome
}
