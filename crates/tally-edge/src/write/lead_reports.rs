//! Reports of leads that have counted for bulk bodies: what they counted goes to their roots, one message a partition.
//!
//! Invariant: what a body has counted is in every list, sum and top that this isolate is asked for after the body's
//! answer, because a reader waits for the report. But if a push fails, or takes longer than [`REPORT_MS_MAX`], the
//! `as_of` of the row is older.
//!
//! Life of a report: a lead gives the edge a push, in its answer to a flush or to a [`ReportLead`]. The edge sends all
//! pushes, joined by partition, see [`ReportQueue`]. A push that the root does not take completely is left to the lead.
//! The edge does not confirm a push to the lead: the lead pushes once more when it is quiet, and the root writes no row
//! for that.

use std::cell::RefCell;
use std::rc::Rc;

use futures_channel::oneshot;

use crate::kit::request_context::RequestContext;
use tally_api::batch::budget::CallBudget;
use tally_api::batch::plan::{PARTITION_REPORTS, body_calls_max};
use tally_api::batch::report_queue::{
    LOOK_EVERY_MS, REPORT_MS_MAX, ReportQueue, ReportStep, ReportTicket, ReportedLeads,
};
use tally_host::{Host, State};
use tally_shared::call_batcher::Batcher;
use tally_shared::concurrency::all_settled;
use tally_shared::partitions;
use tally_wire::messages::{Fault, PushView, ReportLead};
use tally_wire::names::{CellAddress, SUBREQUESTS, TABLET_COUNT};

/// The most reports in flight at once.
const REPORTS_AT_ONCE: usize = 8_192;

/// The leads of this isolate that have counted for bodies.
#[derive(Debug, Default)]
pub struct LeadReports(RefCell<ReportQueue>);

impl State for LeadReports {
    fn begin(_host: &Host) -> Self {
        Self::default()
    }
}

impl LeadReports {
    /// The reports of this isolate.
    pub fn of(host: &Host) -> Rc<Self> {
        host.state()
    }

    /// Works with the queue of leads.
    pub fn with<T>(&self, work: impl FnOnce(&mut ReportQueue) -> T) -> T {
        work(&mut self.0.borrow_mut())
    }

    /// Returns once everything before this ticket is reported. It waits no longer than [`REPORT_MS_MAX`]. Leads that do
    /// not report now push within seconds. The caller lets it continue if its client hangs up. Cost: a call for each
    /// partition, and for each lead with an object of its own that gave no push with its flush; with tablets, for each
    /// tablet with such leads.
    pub async fn settle(&self, host: &Host, ticket: ReportTicket, calls: &CallBudget) {
        let begun_ms = host.now_ms();
        loop {
            let now_ms = host.now_ms();
            let waited_ms = now_ms.abs_diff(begun_ms);
            if waited_ms >= REPORT_MS_MAX {
                return;
            }
            match self.with(|queue| queue.step(ticket, now_ms)) {
                ReportStep::Done => return,
                ReportStep::Wait => host.sleep_ms(LOOK_EVERY_MS).await,
                ReportStep::Begin(covers, leads) => {
                    report(host, leads, calls, REPORT_MS_MAX - waited_ms).await;
                    self.with(|queue| queue.end(covers, host.now_ms()));
                    return;
                }
            }
        }
    }
}

/// Waits until everything that bodies of this isolate have counted is reported. Its caller continues if the client
/// hangs up.
pub async fn settle_all(host: &Host) {
    let reports = LeadReports::of(host);
    if let Some(ticket) = reports.with(|queue| queue.uncovered()) {
        let calls = CallBudget::new(body_calls_max(host.number(SUBREQUESTS)));
        reports.settle(host, ticket, &calls).await;
    }
}

/// As [`settle_all`], for a reader that ends with its client.
pub async fn settle_for(context: &RequestContext) {
    let host = context.host.clone();
    if LeadReports::of(&host)
        .with(|queue| queue.uncovered())
        .is_none()
    {
        return;
    }
    let (done, doing) = oneshot::channel();
    context.wait_until(async move {
        settle_all(&host).await;
        // The reader may be gone.
        let _ = done.send(());
    });
    let _ = doing.await;
}

/// Reports leads, as far as there are calls.
async fn report(host: &Host, leads: ReportedLeads, calls: &CallBudget, within_ms: u64) {
    let tablets: usize = host.number(TABLET_COUNT).unwrap_or(0);
    let asked = leads.values().filter(|push| push.is_none()).count();
    let partitions = usize::try_from(partitions::count(host)).unwrap_or(usize::MAX);
    let messages = partitions
        .min(leads.len())
        .saturating_sub(PARTITION_REPORTS)
        .saturating_add(tablets.min(asked));
    if calls.take_many(messages) {
        let round = Round {
            batcher: &Batcher::new(host),
            calls,
            has_tablets: tablets > 0,
        };
        let all = round.batcher.run(round.report(leads));
        host.within_ms(within_ms, all).await;
    }
}

/// One report.
struct Round<'a> {
    batcher: &'a Batcher,
    calls: &'a CallBudget,
    has_tablets: bool,
}

impl Round<'_> {
    /// All pushes are gathered before the first is sent, so that a partition gets one message.
    async fn report(&self, leads: ReportedLeads) {
        let mut pushes = Vec::new();
        let mut others = Vec::new();
        for (lead, push) in leads {
            match push {
                Some(push) => pushes.push(push),
                None => others.push(lead),
            }
        }
        pushes.extend(self.ask(others, true).await);
        let refused = all_settled(pushes.iter().map(|push| self.push(push)), REPORTS_AT_ONCE);
        let refused = refused.await.into_iter().flatten().collect();
        // A root with a question, or without the counter, is answered by the lead.
        self.ask(refused, false).await;
    }

    /// Asks leads for their reports. Returns the pushes that are left to the edge.
    async fn ask(&self, leads: Vec<CellAddress>, wants_push: bool) -> Vec<PushView> {
        let may_ask = |_: &CellAddress| self.has_tablets || self.calls.take();
        let ask = |to: CellAddress| async move {
            // The lead repeats a push that fails.
            let report = ReportLead { to, wants_push };
            self.batcher.call(&report, REPORT_MS_MAX).await
        };
        let asked = leads.into_iter().take_while(may_ask).map(ask);
        let answers = all_settled(asked, REPORTS_AT_ONCE).await;
        answers.into_iter().flatten().flatten().collect()
    }

    /// Sends a push. Returns its lead if the root has not taken all of it. A root that does not answer gets the lead's
    /// own push some seconds later.
    async fn push(&self, push: &PushView) -> Option<CellAddress> {
        let is_taken = match self.batcher.call(push, REPORT_MS_MAX).await {
            Ok(answer) => push.is_taken(&answer),
            Err(Fault::Unavailable(_)) => true,
            Err(_) => false,
        };
        (!is_taken).then(|| CellAddress::lead(&push.counter, &push.datacenter))
    }
}
