//! Reports at the end of a bulk body: the leads of its counters push to their roots what the roots have not confirmed.
//!
//! Invariant: what a body has counted is in every list, sum and top that this isolate is asked for after the body's
//! answer, unless a push fails or takes longer than [`REPORT_MS_MAX`]. Then the `as_of` of the row is older. A tablet
//! joins the pushes of its leads, so it sends each partition as few messages as their number allows.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::read::gathered;
use tally_api::batch::budget::CallBudget;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_host::Host;
use tally_shared::call_batcher::Batcher;
use tally_shared::concurrency::all_settled;
use tally_wire::messages::ReportLead;
use tally_wire::names::{CellAddress, TABLET_COUNT};

/// How long the answer of a body waits for reports, milliseconds. 8,000 pushes to partitions of one thread take about
/// 2 s; a root that does not answer takes 3 s.
const REPORT_MS_MAX: u64 = 5_000;

/// The most reports of a body in flight at once.
const REPORTS_AT_ONCE: usize = 8_192;

/// The leads that have counted for a body.
#[derive(Default)]
pub struct BulkReports(RefCell<BTreeSet<CellAddress>>);

impl BulkReports {
    /// Adds the lead of a counter in a datacenter.
    pub fn add(&self, counter: &CounterId, datacenter: &Datacenter) {
        let lead = CellAddress::lead(counter, datacenter);
        self.0.borrow_mut().insert(lead);
    }

    /// Asks the leads for their reports, as far as there are calls left, and waits for them. Leads that are not asked
    /// push within seconds. Cost: a call for each lead with an object of its own, and one for each tablet.
    pub async fn send(&self, host: &Host, calls: &CallBudget) {
        let leads = self.0.take();
        if leads.is_empty() {
            return;
        }
        let tablets: usize = host.number(TABLET_COUNT).unwrap_or(0);
        let may_ask = |lead: &CellAddress| {
            let report = ReportLead { to: lead.clone() };
            (tablets > 0 || calls.take()).then_some(report)
        };
        if tablets == 0 || calls.take_many(tablets.min(leads.len())) {
            let batcher = Batcher::new(host);
            let batcher = &batcher;
            let ask = |report: ReportLead| async move {
                // The lead repeats a push that fails.
                let _ = batcher.call(&report, REPORT_MS_MAX).await;
            };
            let reports = leads.iter().map_while(may_ask).map(ask);
            let all = batcher.run(all_settled(reports, REPORTS_AT_ONCE));
            host.within_ms(REPORT_MS_MAX, all).await;
        }
        gathered::forget_all(host);
    }
}
