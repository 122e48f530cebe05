//! Datacenters that the last set or reset could not observe: their counts are part of no value before the root has
//! observed them.
//!
//! Invariant: a datacenter is reconciled once for each operation, in one commit of the root.

use super::Roots;
use crate::directory::roots::lead_calls::{silent, sums};
use tally_core::cluster::operation::ReconciliationReport;
use tally_core::cluster::root::{Root, RootEntry};
use tally_core::counter::id::CounterId;
use tally_wire::messages::{Fault, ReadParts, Reconcile};

/// How far into the future a write's stamp may be: counts since an operation are asked for up to then.
const AHEAD_SECONDS: i64 = 60;

impl Roots {
    /// Reconciles the unobserved datacenters that answer now.
    pub(crate) async fn reconcile(&self, message: Reconcile) -> Result<Option<Root>, Fault> {
        let Reconcile { counter } = message;
        let lock = self.lock_of(&counter);
        let _alone = lock.lock().await;
        self.is_here(&counter)?;
        let Ok(mut root) = self.living(&counter, false).await? else {
            return Ok(None);
        };
        if self.reconcile_answering(&counter, &mut root).await {
            root.revision += 1;
            self.save(&counter, RootEntry::Live(root.clone()), &[])
                .await?;
        }
        Ok(Some(root))
    }

    /// Reconciles the datacenters that answer. Returns whether there were any.
    async fn reconcile_answering(&self, counter: &CounterId, root: &mut Root) -> bool {
        let unreconciled = root.operations.unreconciled().to_vec();
        let from = root.operations.at_ms().div_euclid(1_000);
        let wanted = ReadParts {
            window: Some((from, self.host.now_ms().div_euclid(1_000) + AHEAD_SECONDS)),
            totals_only: true,
            ..ReadParts::default()
        };
        let mut is_news = false;
        for (datacenter, sum) in sums(&self.outbox, counter, root, &unreconciled, wanted).await {
            let Some(sum) = sum else { continue };
            let report = ReconciliationReport {
                since: sum.window.count,
                last_write_ms: sum.facts.last_write_ms,
                cells: sum.cells,
            };
            is_news |= root.operations.reconcile(&datacenter, &report);
        }
        is_news
    }

    /// Continues only if all datacenters are part of the value: a new home decides by the value, and does not receive
    /// later what others had counted.
    pub(crate) async fn require_reconciled(
        &self,
        counter: &CounterId,
        root: &mut Root,
    ) -> Result<(), Fault> {
        if root.operations.unreconciled().is_empty() {
            return Ok(());
        }
        self.reconcile_answering(counter, root).await;
        let unreconciled = root.operations.unreconciled().first();
        unreconciled.map_or(Ok(()), |datacenter| Err(silent(datacenter)))
    }
}
