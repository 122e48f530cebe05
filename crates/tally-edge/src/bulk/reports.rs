//! The reports of one bulk body: its leads join those of other bodies, see [`ReportQueue`].
//!
//! Invariant: a body that was alone, and the last one of bodies at once, is answered after its report. The others are
//! answered before: a reader in this isolate waits for the report, and readers elsewhere see it within seconds.
//!
//! [`ReportQueue`]: tally_api::batch::report_queue::ReportQueue

use std::cell::Cell;
use std::rc::Rc;

use futures_channel::oneshot;

use crate::kit::request_context::RequestContext;
use crate::read::gathered;
use crate::write::lead_reports::LeadReports;
use tally_api::batch::budget::CallBudget;
use tally_api::batch::report_queue::{BodyTurn, CALM_MS, LOOK_EVERY_MS, ReportTicket};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_host::Host;
use tally_wire::names::CellAddress;

/// The leads that have counted for a body.
pub struct BulkReports {
    all: Rc<LeadReports>,
    turn: BodyTurn,
    has_left: Cell<bool>,
}

impl BulkReports {
    /// Those of a body that begins now.
    pub fn begin(host: &Host) -> Self {
        let all = LeadReports::of(host);
        Self {
            turn: all.with(|queue| queue.enter()),
            all,
            has_left: Cell::new(false),
        }
    }

    /// Those of work that is no body, and does not report: the next body does, or the leads.
    pub fn apart(host: &Host) -> Self {
        let reports = Self::begin(host);
        reports.leave();
        reports
    }

    /// The leads of all bodies.
    pub fn all(&self) -> &Rc<LeadReports> {
        &self.all
    }

    /// Adds the lead of a counter in a datacenter. It has counted more than its push has, if there is one.
    pub fn add(&self, counter: &CounterId, datacenter: &Datacenter) {
        if !self.has_left.get() {
            let lead = CellAddress::lead(counter, datacenter);
            self.all.with(|queue| queue.add(lead, None));
        }
    }

    /// Reports all leads if there are too many, so that memory holds few. A part of a body calls this at its end.
    pub async fn make_room(&self, host: &Host, calls: &CallBudget) {
        if self.all.with(|queue| queue.is_full()) {
            let ticket = self.all.with(|queue| queue.ticket());
            self.all.settle(host, ticket, calls).await;
        }
    }

    /// Sends the reports at the end of a body, and waits for them; or leaves them to other bodies.
    pub async fn send(&self, context: &RequestContext, calls: &CallBudget) {
        let host = &context.host;
        let ticket = self.all.with(|queue| queue.ticket());
        // What is read from now on waits for the report.
        gathered::forget_all(host);
        let is_left = self.leaves_to_others(host, ticket).await;
        self.leave();
        let calls = calls.take_rest();
        let (all, host) = (self.all.clone(), host.clone());
        if is_left {
            let Some(wait_ms) = all.with(|queue| queue.pace(host.now_ms())) else {
                return;
            };
            return context.wait_until(async move {
                host.sleep_ms(wait_ms).await;
                let ticket = all.with(|queue| {
                    queue.paced();
                    queue.ticket()
                });
                all.settle(&host, ticket, &calls).await;
            });
        }
        // Others may wait for the same report, so it continues if the client hangs up.
        let (done, doing) = oneshot::channel();
        context.wait_until(async move {
            all.settle(&host, ticket, &calls).await;
            let _ = done.send(());
        });
        let _waiting = context.waiting();
        let _ = doing.await;
    }

    /// Whether another body reports what this one has counted.
    async fn leaves_to_others(&self, host: &Host, ticket: ReportTicket) -> bool {
        if self.all.with(|queue| !queue.has_met_others(self.turn)) {
            return false;
        }
        let begun_ms = host.now_ms();
        loop {
            if self
                .all
                .with(|queue| queue.is_covered(ticket) || !queue.is_alone())
            {
                return true;
            }
            if host.now_ms().abs_diff(begun_ms) >= CALM_MS {
                return false;
            }
            host.sleep_ms(LOOK_EVERY_MS).await;
        }
    }

    fn leave(&self) {
        if !self.has_left.replace(true) {
            self.all.with(|queue| queue.leave());
        }
    }
}

impl Drop for BulkReports {
    fn drop(&mut self) {
        self.leave();
    }
}
