//! Roots that are damaged, put back from what their leads hold.
//!
//! Invariant: a damaged root stays, and its counter is refused, until a lead has told what it was granted, or its partition's memory of the
//! leads says for which generation they count: without either nobody knows whether there is a counter.

use std::collections::BTreeSet;

use super::Roots;
use crate::core::cluster::root::{DATACENTERS_MAX, Root, RootEntry};
use crate::core::cluster::view::View;
use crate::core::counter::grant::Grant;
use crate::core::counter::id::{CounterId, Datacenter};
use crate::node::shared::concurrency::all_settled;
use crate::protocol::messages::{Fault, Held, RepairRoot, RootPart, RootRepaired};
use crate::protocol::names::CellAddress;

/// Leads that are asked at once.
const LEADS_AT_ONCE: usize = 64;

/// How long a lead may take, milliseconds.
const LEAD_MS_MAX: u64 = 3_000;

impl Roots {
    /// Says what of a counter is damaged here, and puts it back.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(in super::super) async fn repair(&self, asked: RepairRoot) -> Result<RootRepaired, Fault> {
        let counter = &asked.counter;
        let lock = self.lock_of(counter);
        let _alone = lock.lock().await;
        let mut repaired = RootRepaired {
            damaged: self.damaged(counter)?,
            told_by: Vec::new(),
            found: None,
        };
        let view = match repaired.damaged.contains(&RootPart::Memory) {
            true => None,
            false => self.views.stored(counter)?.map(|(view, _)| view),
        };
        let mut root = None;
        if repaired.damaged.contains(&RootPart::Root) {
            let held = self.held_by_leads(&asked, view.as_ref()).await?;
            let told_by = held.iter().map(|(datacenter, _)| datacenter.clone());
            repaired.told_by = told_by.collect();
            let Some(rebuilt) = rebuilt(&held, view.as_ref(), self.host.now_ms()) else {
                return Ok(repaired);
            };
            if !asked.is_dry {
                let entry = RootEntry::Live(rebuilt.clone());
                self.save(counter, entry, &[]).await?;
            }
            root = Some(rebuilt);
        } else if let Some(RootEntry::Live(living)) = self.rows.entry(counter)? {
            root = Some(living);
        }
        if !asked.is_dry && !repaired.damaged.is_empty() {
            self.views
                .put_back(counter, &repaired.damaged, root.as_ref())?;
        }
        repaired.found = root.map(|root| {
            let view = view.filter(|view| view.generation() == root.generation);
            (root, view.map(|view| view.at_rest()))
        });
        Ok(repaired)
    }

    /// What of a counter is damaged here.
    fn damaged(&self, counter: &CounterId) -> Result<Vec<RootPart>, Fault> {
        let parts = [
            (RootPart::Root, "roots"),
            (RootPart::Memory, "views"),
            (RootPart::Totals, "totals"),
        ];
        let mut damaged = Vec::new();
        for (part, table) in parts {
            if self.rows.is_damaged(table, counter)? {
                damaged.push(part);
            }
        }
        Ok(damaged)
    }

    /// What the leads of a counter were granted, in the datacenters that may count it.
    async fn held_by_leads(
        &self,
        asked: &RepairRoot,
        view: Option<&View>,
    ) -> Result<Vec<(Datacenter, Grant)>, Fault> {
        let counter = &asked.counter;
        let mut datacenters = asked.datacenters.clone();
        if let Some(view) = view {
            datacenters.extend(view.datacenters().map(|(datacenter, _)| datacenter.clone()));
        }
        let ask = |datacenter: Datacenter| async move {
            let to = CellAddress::lead(counter, &datacenter);
            let asked = Held { to };
            let held = self.host.within_ms(LEAD_MS_MAX, self.outbox.call(&asked));
            let held = held.await;
            Some((datacenter, held?.ok()??))
        };
        let datacenters = datacenters.into_iter().take(DATACENTERS_MAX);
        let told = all_settled(datacenters.map(ask), LEADS_AT_ONCE).await;
        let mut held: Vec<(Datacenter, Grant)> = told.into_iter().flatten().collect();
        held.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let mut living = Vec::new();
        for (datacenter, grant) in held {
            // A lead that was not told of an end yet knows of a generation that is over.
            if !self.duties.is_closing(counter, grant.generation)? {
                living.push((datacenter, grant));
            }
        }
        Ok(living)
    }
}

/// The root by what its leads were granted, and by what they had told; nothing where neither is known.
fn rebuilt(held: &[(Datacenter, Grant)], view: Option<&View>, now_ms: i64) -> Option<Root> {
    let newest = held.iter().map(|(_, grant)| grant.generation);
    let generation = newest.chain(view.map(View::generation)).max()?;
    let of_it = held
        .iter()
        .filter(|(_, grant)| grant.generation == generation);
    // A home decides alone, so it knows the value; else whoever was told last knows the settings.
    let best = of_it
        .clone()
        .max_by_key(|(_, grant)| (grant.is_home, grant.revision));
    let in_view = view.filter(|view| view.generation() == generation);
    let in_view = in_view.into_iter().flat_map(View::datacenters);
    let others: BTreeSet<&Datacenter> = in_view
        .map(|(datacenter, _)| datacenter)
        .chain(of_it.map(|(datacenter, _)| datacenter))
        .collect();
    let mut root = match best {
        Some((datacenter, grant)) => Root::adopt(grant, datacenter, now_ms),
        None => {
            let grant = Grant {
                generation,
                ..Grant::default()
            };
            Root::adopt(&grant, others.first()?, now_ms)
        }
    };
    if others.len() > 1 {
        root.may_lack = true;
    }
    root.datacenters.extend(others.into_iter().cloned());
    Some(root)
}

impl super::super::push_receiver::Views {
    /// Drops what is damaged of what leads have told: they tell it again. The row of lists is made again from what is known.
    fn put_back(
        &self,
        counter: &CounterId,
        damaged: &[RootPart],
        root: Option<&Root>,
    ) -> Result<(), Fault> {
        if damaged.contains(&RootPart::Memory) {
            self.forget_stored(counter)?;
        }
        if damaged.contains(&RootPart::Totals) {
            self.forget_total(counter)?;
        }
        match root {
            Some(root) => self.note_total(counter, root),
            None => Ok(()),
        }
    }
}
