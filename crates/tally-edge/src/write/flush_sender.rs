//! The lanes of writes to cells.
//!
//! Invariant: a write is acknowledged only if the flush that holds it is durable.

use std::cell::RefCell;
use std::rc::Rc;

use crate::kit::isolate::{cache_has_floor, cache_home, cache_shards, cache_unique_hash};
use crate::kit::lanes::{LaneKind, Lanes, complete, linger};
use crate::read::last_seen;
use crate::write::lead_reports::LeadReports;
use tally_api::metrics::Metric;
use tally_core::counter::flush::{Load, Refusal, newest_at};
use tally_core::counter::nonces::Nonce;
use tally_host::Host;
use tally_shared::call_batcher::Batcher;
use tally_shared::call_within;
use tally_shared::{known_cells, leads_apart, metrics, open_objects};
use tally_wire::messages::{Fault, Flush, FlushAnswer, Flushed, PushView};
use tally_wire::names::CellAddress;
use tally_wire::problem::Problem;

/// The most times that a write is sent again because its shard has been sealed.
pub const MOVES_MAX: usize = 4;

/// Time for the first attempt of a flush, and for its retry: together below
/// [`tally_core::counter::lane::IN_FLIGHT_MS_MAX`], so that no write waits past 5 s.
const ATTEMPTS_MS: [u64; 2] = [2_500, 2_000];

/// The outcome of a flush.
pub type FlushOutcome = Result<Flushed, Fault>;

/// The outcomes of a bulk body's writes: the request that completes a batch writes them here. A write to this
/// memory by another request wakes nobody.
#[derive(Debug, Default)]
pub struct FlushProgress {
    /// Writes whose outcome is not known yet.
    pub pending: usize,
    /// Failed writes: the body's own index of the write, and why.
    pub failed: Vec<(usize, Fault)>,
    /// Which writes have an outcome, by the body's own index.
    pub finished: Vec<bool>,
}

/// One write of a bulk body.
#[derive(Debug)]
pub struct FlushWatch {
    /// Its body.
    pub progress: Rc<RefCell<FlushProgress>>,
    /// The body's index of the write.
    pub number: usize,
    /// The lead of its cell, if the body reports what it counts, and where it reports.
    pub lead: Option<(CellAddress, Rc<LeadReports>)>,
}

/// The kind of lanes to cells.
pub struct CellLane;

impl LaneKind for CellLane {
    type Target = CellAddress;
    type Batchable = Load;
    type Outcome = FlushOutcome;
    type Watcher = FlushWatch;

    async fn admit(host: &Host, to: &CellAddress) -> Result<(), Problem> {
        open_objects::admit_write(host, to).await
    }

    fn lost() -> FlushOutcome {
        Err(lost())
    }

    fn notify(watcher: FlushWatch, outcome: &FlushOutcome) {
        let mut progress = watcher.progress.borrow_mut();
        progress.pending = progress.pending.saturating_sub(1);
        if let Some(finished) = progress.finished.get_mut(watcher.number) {
            *finished = true;
        }
        match (outcome, watcher.lead) {
            // Another request may have sent it, so a push from before lacks it.
            (Ok(_), Some((lead, reports))) => {
                reports.with(|queue| queue.add(lead, None));
            }
            (Ok(_), None) => {}
            (Err(fault), _) => progress.failed.push((watcher.number, fault.clone())),
        }
    }

    async fn send(host: &Host, to: &CellAddress, nonce: Nonce, load: Load) {
        send_batch(host, None, false, to, nonce, load).await;
    }
}

fn lost() -> Fault {
    Fault::Unavailable("the request that carried this write was ended".to_owned())
}

/// Sends a batch that was taken from a lane, together with others of this request if there is a batcher, and
/// completes it. Returns the report that the sender wants, if the cell gives it.
pub async fn send_batch(
    host: &Host,
    batcher: Option<&Batcher>,
    wants_report: bool,
    to: &CellAddress,
    nonce: Nonce,
    load: Load,
) -> Option<PushView> {
    let writes = load.writes;
    let flush = Flush {
        to: to.clone(),
        nonce,
        load,
        wants_report,
    };
    let (outcome, report) = match send_flush(host, batcher, flush).await {
        Ok(FlushAnswer { flushed, report }) => (Ok(flushed), report),
        Err(fault) => (Err(fault), None),
    };
    let ended = match &outcome {
        Ok(_) => Metric::FlushCounted,
        Err(Fault::Unavailable(_)) => Metric::FlushUnknown,
        Err(_) => Metric::FlushRefused,
    };
    metrics::flush_ended(host, ended, writes);
    if outcome.is_ok() {
        last_seen::record_counted(host, &to.counter);
    }
    if let Ok(flushed) = &outcome {
        leads_apart::cache(host, to, flushed.is_apart);
        known_cells::record_flush(host, to, flushed);
    }
    match &outcome {
        Ok(Flushed { shards, .. }) | Err(Fault::Refused(Refusal::Moved(shards))) => {
            cache_shards(host, &to.counter, &to.datacenter, *shards);
        }
        Err(Fault::Elsewhere(home)) => cache_home(host, &to.counter, home),
        Err(Fault::Refused(Refusal::HasFloor)) => cache_has_floor(host, &to.counter),
        Err(Fault::Refused(Refusal::OtherHash(own))) => cache_unique_hash(host, &to.counter, *own),
        Err(_) => {}
    }
    Lanes::<CellLane>::with(host, |lanes| {
        if let Some(lane) = lanes.known(to) {
            match &outcome {
                Ok(flushed) => {
                    linger::<CellLane>(host, lane, flushed.linger_ms);
                    lane.set_generation(flushed.generation);
                }
                Err(Fault::Refused(Refusal::Newer(generation))) => lane.set_generation(*generation),
                Err(_) => {}
            }
            complete::<CellLane>(host, lane, nonce, outcome);
        }
    });
    report
}

/// Counts a flush that was sent once more, by its outcome.
fn count_retry(host: &Host, outcome: &Result<FlushAnswer, Fault>) {
    let retried = match outcome {
        Ok(_) => Metric::RetryCounted,
        Err(Fault::Unavailable(_)) => Metric::RetryUnknown,
        Err(_) => Metric::RetryRefused,
    };
    metrics::count(host, retried);
}

/// Sends a flush, and once more under the same nonce if its outcome is unknown: only the cell that it was sent to knows
/// whether it was counted.
///
/// It is also sent once more if the counter was deleted since the lane last flushed: nothing was counted, and the
/// writes are of now, so they count in the present generation. Copies of the refused flush are refused for ever. This
/// is not done after an attempt of unknown outcome, although that attempt will count nothing more: it may have been
/// counted, and read by somebody, in the ended generation. Its writes count at most once over all generations, and
/// their clients are answered that the outcome is unknown.
async fn send_flush(
    host: &Host,
    batcher: Option<&Batcher>,
    mut flush: Flush,
) -> Result<FlushAnswer, Fault> {
    let mut last = None;
    for milliseconds in ATTEMPTS_MS {
        let is_retry = last.as_ref().is_some_and(Fault::is_passing);
        let outcome = match batcher {
            Some(batcher) => batcher.call(&flush, milliseconds).await,
            None => call_within(host, &flush, milliseconds).await,
        };
        if is_retry {
            count_retry(host, &outcome);
        }
        match (outcome, last) {
            (Err(fault @ Fault::Unavailable(_)), _) => last = Some(fault),
            // The attempt before may still be on its way, and be counted. If this were taken for a refusal, the write
            // would be sent elsewhere and count twice.
            (Err(_), Some(fault @ Fault::Unavailable(_))) => return Err(fault),
            // Nothing was counted, because the lead moves: it may be found now.
            (Err(fault @ Fault::NotLocated), _) => last = Some(fault),
            (Err(Fault::Refused(refusal @ Refusal::Newer(generation))), _) => {
                flush.load.newest = generation.max(newest_at(host.now_ms()));
                last = Some(Fault::Refused(refusal));
            }
            (outcome, _) => return outcome,
        }
    }
    Err(last.unwrap_or_else(lost))
}
