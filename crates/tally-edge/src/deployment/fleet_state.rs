//! What `/healthz` says about a working deployment: clocks that are off, and leads that move.
//!
//! Invariant: a probe does not wait for it, and the partitions are asked at most once in [`LOOK_EVERY_MS`]; a probe
//! gets what an earlier one has found.

use std::cell::RefCell;

use serde::Serialize;

use super::metrics::ask_fleet;
use crate::kit::request_context::RequestContext;
use tally_core::counter::id::Datacenter;
use tally_host::{Host, State};
use tally_shared::open_objects;
use tally_wire::fleet::Fleet;

/// How often the partitions are asked: where one process runs all of them, and elsewhere, where each time is 16 calls.
const LOOK_EVERY_MS: (i64, i64) = (10_000, 600_000);

/// The most clocks in an answer.
const CLOCKS_MAX: usize = 16;

/// A clock that is off.
#[derive(Clone, Debug, Serialize)]
struct ClockView {
    datacenter: Datacenter,
    offset_ms: i64,
    error_ms: u64,
}

/// Leads that move.
#[derive(Clone, Copy, Debug, Serialize)]
struct MovingView {
    counters: u64,
    leads_left: u64,
}

/// What is known.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FleetState {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    clocks: Vec<ClockView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    moving: Option<MovingView>,
}

/// What this isolate has found, and when it asked last.
struct FleetCache(RefCell<(Option<i64>, FleetState)>);

impl State for FleetCache {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

impl FleetState {
    fn of(fleet: &Fleet) -> Self {
        let part = fleet.part();
        let clocks = part.clocks.iter().filter(|clock| clock.is_off());
        let clocks = clocks.take(CLOCKS_MAX).map(|clock| ClockView {
            datacenter: clock.datacenter.clone(),
            offset_ms: i64::midpoint(clock.from_ms, clock.to_ms),
            error_ms: clock.width_ms().div_ceil(2),
        });
        let moving = part.moving;
        Self {
            clocks: clocks.collect(),
            moving: (moving.partitions > 0).then_some(MovingView {
                counters: moving.waiting,
                leads_left: moving.left,
            }),
        }
    }
}

/// The known state of the deployment; asks again in the background if it is old.
pub fn known(context: &RequestContext) -> FleetState {
    let host = &context.host;
    let state = host.state::<FleetCache>();
    let now_ms = host.now_ms();
    let (all_here_ms, elsewhere_ms) = LOOK_EVERY_MS;
    let every_ms = match open_objects::are_bounded(host) {
        true => all_here_ms,
        false => elsewhere_ms,
    };
    let (looked_ms, known) = state.0.borrow().clone();
    if !looked_ms.is_some_and(|at_ms| (0..every_ms).contains(&(now_ms - at_ms))) {
        state.0.borrow_mut().0 = Some(now_ms);
        let (host, here) = (host.clone(), context.datacenter());
        context.wait_until(async move {
            if let Ok(fleet) = ask_fleet(&host, here).await {
                state.0.borrow_mut().1 = FleetState::of(&fleet);
            }
        });
    }
    known
}
