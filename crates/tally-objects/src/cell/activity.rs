//! What is under way at a cell, in memory only: its load, its commit, its pushes.

use futures_channel::oneshot;

use tally_core::cluster::push::Pusher;
use tally_core::counter::autoscale::{
    FlushMeter, HotPeriod, LEAVE_PER_SECOND as LEAVE_PER_SECOND_USUAL, LeaveLimits, Loads,
    Thresholds,
};
use tally_host::{Host, State};
use tally_shared::{call, open_objects};
use tally_wire::messages::{Fault, Flush, Flushed};
use tally_wire::names::{LEAVE_PER_SECOND, QUIET_MS, SPLIT_FLUSHES_PER_SECOND};

/// A cell's load, in memory.
pub(super) struct Autoscaler {
    pub(super) thresholds: Thresholds,
    pub(super) meter: FlushMeter,
    pub(super) loads: Loads,
    pub(super) reported_ms: i64,
    pub(super) is_sealing: bool,
    pub(super) leaving: DepartureState,
}

/// The thresholds of the settings. An isolate reads them once, because reading a variable is a call into JavaScript.
struct SetThresholds(Thresholds, Option<LeaveLimits>);

impl State for SetThresholds {
    fn begin(host: &Host) -> Self {
        let number = |name| host.number::<u32>(name);
        let usual = Thresholds::default();
        let thresholds = Thresholds {
            split_flushes_per_second: number(SPLIT_FLUSHES_PER_SECOND)
                .unwrap_or(usual.split_flushes_per_second),
            quiet_ms: number(QUIET_MS).map_or(usual.quiet_ms, i64::from),
        };
        // If one process runs all objects, they share a thread, and another object would not relieve it.
        let usual = (!open_objects::are_bounded(host)).then_some(LEAVE_PER_SECOND_USUAL);
        let leave = number(LEAVE_PER_SECOND).or(usual);
        let leave = leave.filter(|_| call::has_tablets(host));
        Self(
            thresholds,
            leave.map(|per_second| LeaveLimits::new(per_second, thresholds)),
        )
    }
}

impl Autoscaler {
    /// No measurements yet; thresholds from the settings.
    pub(super) fn new(host: &Host, now_ms: i64) -> Self {
        let set = host.state::<SetThresholds>();
        Self {
            thresholds: set.0,
            leaving: DepartureState::new(set.1),
            meter: FlushMeter::default(),
            loads: Loads::new(now_ms),
            reported_ms: now_ms,
            is_sealing: false,
        }
    }
}

/// Whether a lead is about to leave. In memory only.
pub(super) struct DepartureState {
    /// `None` where leads do not leave their tablets.
    pub(super) limits: Option<LeaveLimits>,
    pub(super) heat: HotPeriod,
    pub(super) is_under_way: bool,
}

impl DepartureState {
    pub(super) fn new(limits: Option<LeaveLimits>) -> Self {
        Self {
            limits,
            heat: HotPeriod::default(),
            is_under_way: false,
        }
    }

    /// Whether it must begin to leave now.
    pub(super) fn begins(&mut self, per_second: u32, now_ms: i64) -> bool {
        let Some(limits) = self.limits.filter(|_| !self.is_under_way) else {
            return false;
        };
        let begins = self.heat.record(per_second, limits, now_ms);
        if begins {
            // If it may not leave, it asks again after the same time.
            self.heat.cool();
            self.is_under_way = true;
        }
        begins
    }
}

pub(super) type FlushOutcome = Result<Flushed, Fault>;

/// The flushes that wait for the present commit.
#[derive(Default)]
pub(super) struct Commits {
    pub(super) is_under_way: bool,
    pub(super) waiting: Vec<(Flush, oneshot::Sender<FlushOutcome>)>,
}

/// The state of a lead's pushes, in memory.
#[derive(Default)]
pub(super) struct PushState {
    /// The pusher, with its generation.
    pub(super) pusher: Option<(u64, Pusher)>,
    /// Whether a loop sends the due pushes while the counter is watched.
    pub(super) is_driven: bool,
    /// Wakes that loop while it waits for the next push to be due.
    pub(super) wake: Option<oneshot::Sender<()>>,
    /// When the alarm rings for the next push, unix milliseconds; 0 for never.
    pub(super) armed_ms: i64,
    /// Whether the root has answered a report, and nothing has changed since it was gathered.
    pub(super) is_reported: bool,
}

impl PushState {
    /// Forgets earlier pushes, as a restart does. The alarm stays.
    pub(super) fn forget(&mut self) {
        self.pusher = None;
        self.is_reported = false;
    }

    /// Records that the alarm for pushes is not set any more.
    pub(super) fn unarm(&mut self) {
        self.armed_ms = 0;
    }

    pub(super) fn of(&mut self, host: &Host, generation: u64) -> &mut Pusher {
        if self
            .pusher
            .as_ref()
            .is_none_or(|(own, _)| *own != generation)
        {
            self.pusher = None;
        }
        let made = || (generation, Pusher::new(generation, host.random()));
        let (_, pusher) = self.pusher.get_or_insert_with(made);
        pusher
    }
}
