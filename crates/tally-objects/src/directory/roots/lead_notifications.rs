//! How roots end, and how leads are notified of the root's decisions.
//!
//! Invariant: each notice to a lead is stored as a duty in the same commit as its cause; a duty is deleted only when
//! its lead has confirmed.

use super::Roots;
use crate::directory::duty_store::{Duty, LeadNotice, duties};
use crate::directory::operation_store::Operation;
use crate::directory::roots::lead_calls::{LEADS_AT_ONCE, silent, sums, suspend};
use tally_core::cluster::root::{Root, RootEntry};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::order::in_order;
use tally_shared::concurrency::all_settled;
use tally_wire::messages::{Close, Configure, Fault, ReadParts, Reconcile};
use tally_wire::names::CellAddress;

impl Roots {
    /// The living root; or what is known of the ended one. An expired counter is ended here. `for_write`: where some
    /// lead does not report its newest write, a write keeps the counter alive, because only all of them together can
    /// let it end.
    pub(crate) async fn living(
        &self,
        counter: &CounterId,
        for_write: bool,
    ) -> Result<Result<Root, Option<RootEntry>>, Fault> {
        let entry = self.rows.entry(counter)?;
        let Some(RootEntry::Live(mut root)) = entry else {
            return Ok(Err(entry));
        };
        if !root.is_due(self.host.now_ms()) {
            return Ok(Ok(root));
        }
        match self.last_write_ms(counter, &root).await {
            Ok(last_write_ms) => root.last_write_ms = root.last_write_ms.max(last_write_ms),
            Err(_) if for_write && root.is_sliding() => root.last_write_ms = self.host.now_ms(),
            Err(fault) => return Err(fault),
        }
        if !root.is_due(self.host.now_ms()) {
            self.save(counter, RootEntry::Live(root.clone()), &[])
                .await?;
            return Ok(Ok(root));
        }
        self.end(counter, &root, true, None).await?;
        Ok(Err(self.rows.entry(counter)?))
    }

    /// The newest write that any lead knows of, where that matters, once all of them know the time to live: a lead that
    /// does not would count on after the end.
    async fn last_write_ms(&self, counter: &CounterId, root: &Root) -> Result<i64, Fault> {
        if self.duties.is_configuring(counter)? {
            let unnotified = self
                .fulfil(&duties(counter, root, LeadNotice::Configure))
                .await?;
            if let Some(datacenter) = unnotified.first() {
                return Err(may_count(datacenter));
            }
        }
        if !root.is_sliding() {
            return Ok(i64::MIN);
        }
        // First, because an event that an inbox counts meanwhile is a write that a lead reports.
        self.inboxes.none_holds(counter, root).await?;
        let wanted = ReadParts {
            totals_only: true,
            ..ReadParts::default()
        };
        let all: Vec<Datacenter> = root.datacenters.iter().cloned().collect();
        let mut newest = i64::MIN;
        for (datacenter, sum) in sums(&self.outbox, counter, root, &all, wanted).await {
            let sum = sum.ok_or_else(|| silent(&datacenter))?;
            newest = newest.max(sum.facts.last_write_ms);
        }
        Ok(newest)
    }

    /// Ends a generation: first nobody counts for it any more, then its end is durable here, then the leads drop it.
    /// Returns the leads that have not dropped it yet.
    ///
    /// # Errors
    /// `Unavailable`, and nothing has ended, where a lead that may still count cannot be stopped: what
    /// it acknowledged would end with the generation. Leads that know of a time to live which is over
    /// stop by themselves (up to the difference of their clocks), so those need not answer.
    pub(in crate::directory) async fn end(
        &self,
        counter: &CounterId,
        root: &Root,
        is_expiry: bool,
        record: Option<Operation>,
    ) -> Result<Vec<Datacenter>, Fault> {
        let all: Vec<Datacenter> = root.datacenters.iter().cloned().collect();
        let unstopped = suspend(&self.outbox, counter, root, &all).await;
        // While it is deleted, it may expire by the root's knowledge, but not by a lead's.
        let stop_by_themselves = is_expiry && !self.duties.is_configuring(counter)?;
        if let Some(datacenter) = unstopped.first().filter(|_| !stop_by_themselves) {
            return Err(may_count(datacenter));
        }
        self.inboxes.release_all(counter, root).await?;
        self.inboxes.outwait_leases(counter, root).await;
        let ended = RootEntry::Ended {
            generation: root.generation,
            at_ms: self.host.now_ms(),
        };
        let duties = duties(counter, root, LeadNotice::Close);
        self.save_with(counter, ended, &duties, record).await?;
        self.fulfil(&duties).await
    }

    /// Notifies leads, and deletes the duties that are done. Returns the datacenters that are left.
    pub(crate) async fn fulfil(&self, duties: &[Duty]) -> Result<Vec<Datacenter>, Fault> {
        let notify = |duty: &Duty| {
            let duty = duty.clone();
            async move {
                let root = match self.rows.entry(&duty.counter) {
                    Ok(Some(RootEntry::Live(root))) => Some(root),
                    _ => None,
                };
                let outcome = self
                    .notify_lead(
                        &duty.counter,
                        &duty.datacenter,
                        duty.notice,
                        duty.generation,
                        root.as_ref(),
                    )
                    .await;
                let number = root.map_or(0, |root| root.settings.number);
                (duty, number, outcome)
            }
        };
        let mut pending = Vec::new();
        for (duty, number, outcome) in all_settled(duties.iter().map(notify), LEADS_AT_ONCE).await {
            // The duty has moved with its root, and is fulfilled from there.
            if self.is_here(&duty.counter).is_err() {
                continue;
            }
            // Settings that were changed meanwhile are a duty of their own, under this name.
            let is_newest = match self.rows.entry(&duty.counter) {
                Ok(Some(RootEntry::Live(root))) => root.settings.number == number,
                Ok(_) => true,
                // Leads of a root that cannot be read get no notice. The duties of other roots continue.
                Err(_) => false,
            };
            match outcome {
                Ok(()) if is_newest || duty.notice == LeadNotice::Close => {
                    self.duties.done(&duty)?
                }
                _ => {
                    self.duties.postpone(&duty, self.host.now_ms())?;
                    pending.push(duty.datacenter);
                }
            }
        }
        Ok(in_order(pending, Ord::cmp))
    }

    /// Notifies one lead. Settings of a generation that has ended meanwhile are skipped.
    pub(crate) async fn notify_lead(
        &self,
        counter: &CounterId,
        datacenter: &Datacenter,
        notice: LeadNotice,
        generation: u64,
        root: Option<&Root>,
    ) -> Result<(), Fault> {
        let to = CellAddress::lead(counter, datacenter);
        match (notice, root.filter(|root| root.generation == generation)) {
            (LeadNotice::Close, _) => self.outbox.notify(&Close { to, generation }).await,
            (LeadNotice::Configure, Some(root)) => {
                let grant = root.grant(datacenter);
                self.outbox.notify(&Configure { to, grant }).await
            }
            (LeadNotice::Configure, None) => Ok(()),
            (LeadNotice::Reconcile, _) => {
                let message = Reconcile {
                    counter: counter.clone(),
                };
                // Boxed, because this may notify others in turn.
                let root = Box::pin(self.reconcile(message)).await?;
                let is_reconciled = |root: &Root| root.operations.is_reconciled(datacenter);
                if root.as_ref().is_none_or(is_reconciled) {
                    return Ok(());
                }
                Err(Fault::Unavailable(format!("{datacenter} is not settled")))
            }
        }
    }
}

fn may_count(datacenter: &Datacenter) -> Fault {
    Fault::Unavailable(format!(
        "datacenter {datacenter} does not answer and may still be counting, so the counter was not ended"
    ))
}
