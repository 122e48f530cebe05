//! Reports at the end of a bulk body: what its counters have counted goes to their roots, one message a partition.
//!
//! Invariant: what a body has counted is in every list, sum and top that this isolate is asked for after the body's
//! answer, unless a push fails or takes longer than [`REPORT_MS_MAX`]. Then the `as_of` of the row is older.
//!
//! Life of a report: a lead with an object of its own gives the edge a push, in its answer to the last flush or to a
//! [`ReportLead`]. The edge sends all pushes, joined by partition. A push that the root does not take completely is
//! left to the lead. A tablet joins the pushes of its leads by itself. The edge does not confirm a push to the lead:
//! the lead pushes once more when it is quiet, and the root writes no row for that.

use std::cell::RefCell;

use crate::read::gathered;
use crate::write::flush_sender::LentPushes;
use tally_api::batch::budget::CallBudget;
use tally_api::batch::plan::PARTITION_REPORTS;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_host::Host;
use tally_shared::call_batcher::Batcher;
use tally_shared::concurrency::all_settled;
use tally_shared::partitions;
use tally_wire::messages::{Fault, PushView, ReportLead};
use tally_wire::names::{CellAddress, TABLET_COUNT};

/// How long the answer of a body waits for reports, milliseconds. 8,000 pushes to partitions of one thread take about
/// 2 s; a root that does not answer takes 3 s.
const REPORT_MS_MAX: u64 = 5_000;

/// The most reports of a body in flight at once.
const REPORTS_AT_ONCE: usize = 8_192;

/// The leads that have counted for a body.
#[derive(Default)]
pub struct BulkReports(RefCell<LentPushes>);

impl BulkReports {
    /// Adds the lead of a counter in a datacenter. Its push stays.
    pub fn add(&self, counter: &CounterId, datacenter: &Datacenter) {
        let lead = CellAddress::lead(counter, datacenter);
        self.0.borrow_mut().entry(lead).or_default();
    }

    /// Adds a lead that has counted more than its push has.
    pub fn add_changed(&self, counter: &CounterId, datacenter: &Datacenter) {
        let lead = CellAddress::lead(counter, datacenter);
        self.0.borrow_mut().insert(lead, None);
    }

    /// Adds leads that have counted later than what was added before.
    pub fn extend(&self, pushes: LentPushes) {
        self.0.borrow_mut().extend(pushes);
    }

    /// Sends the reports, as far as there are calls left, and waits for them. Leads that do not report now push within
    /// seconds. Cost: a call for each partition, and for each lead with an object of its own that gave no push with its
    /// flush. With tablets, a call for each tablet.
    pub async fn send(&self, host: &Host, calls: &CallBudget) {
        let leads = self.0.take();
        if leads.is_empty() {
            return;
        }
        let tablets: usize = host.number(TABLET_COUNT).unwrap_or(0);
        let messages = match tablets {
            0 => usize::try_from(partitions::count(host))
                .unwrap_or(usize::MAX)
                .min(leads.len())
                .saturating_sub(PARTITION_REPORTS),
            _ => tablets.min(leads.len()),
        };
        if calls.take_many(messages) {
            let round = Round {
                batcher: &Batcher::new(host),
                calls,
                has_tablets: tablets > 0,
            };
            let all = round.batcher.run(round.report(leads));
            host.within_ms(REPORT_MS_MAX, all).await;
        }
        gathered::forget_all(host);
    }
}

/// The reports of one body.
struct Round<'a> {
    batcher: &'a Batcher,
    calls: &'a CallBudget,
    has_tablets: bool,
}

impl Round<'_> {
    /// All pushes are gathered before the first is sent, so that a partition gets one message.
    async fn report(&self, leads: LentPushes) {
        let mut pushes = Vec::new();
        let mut others = Vec::new();
        for (lead, push) in leads {
            match push {
                Some(push) => pushes.push(push),
                None => others.push(lead),
            }
        }
        pushes.extend(self.ask(others, !self.has_tablets).await);
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
