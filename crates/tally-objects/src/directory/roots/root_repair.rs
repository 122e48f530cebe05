//! Damaged roots, restored from what their leads hold.
//!
//! Invariant: a damaged root stays, and its counter is refused, until a lead has reported its grant, or its partition's
//! memory of pushes names the generation. If there is neither, and every lead that may count it has answered, the root
//! is restored from the last snapshot: no other source knows whether there is a counter.

use super::Roots;
use crate::directory::roots::lead_calls::sums;
use tally_core::cluster::operation::Cells;
use tally_core::cluster::root::{DATACENTERS_MAX, Root, RootEntry};
use tally_core::cluster::view::View;
use tally_core::counter::grant::Grant;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::settings::Settings;
use tally_core::order::{in_order, set_of};
use tally_shared::concurrency::all_settled;
use tally_wire::messages::{AskGrant, Fault, ReadParts, RepairRoot, RootPart, RootRepaired};
use tally_wire::names::CellAddress;
use tally_wire::snapshot::SnapshotCounter;

/// How many leads are asked at once.
const LEADS_AT_ONCE: usize = 64;

/// How long a lead may take, milliseconds.
const LEAD_MS_MAX: u64 = 3_000;

/// The answers of leads about their grants.
#[derive(Default)]
struct GrantAnswers {
    /// Leads that count a living generation.
    held: Vec<(Datacenter, Grant)>,
    /// Leads that did not answer.
    silent: Vec<Datacenter>,
    /// Leads whose rows are damaged too: they remember nothing.
    damaged: Vec<Datacenter>,
}

impl Roots {
    /// Reports the damage of a counter here, and repairs it.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(crate) async fn repair(&self, request: RepairRoot) -> Result<RootRepaired, Fault> {
        let counter = &request.counter;
        let lock = self.lock_of(counter);
        let _alone = lock.lock().await;
        let damaged = self.damaged(counter)?;
        let view = match damaged.contains(&RootPart::Memory) {
            true => None,
            false => self.views.stored(counter)?.map(|(view, _)| view),
        };
        let is_lost = damaged.contains(&RootPart::Root);
        let mut repaired = RootRepaired {
            damaged,
            sources: Vec::new(),
            found: None,
            silent: Vec::new(),
            is_from_snapshot: false,
            knows_base: !is_lost,
        };
        let mut root = None;
        if is_lost {
            root = self
                .made_again(&request, view.as_ref(), &mut repaired)
                .await?;
            let Some(made) = &root else {
                return Ok(repaired);
            };
            if !request.is_dry {
                // Other damaged rows would be read when it is saved.
                self.views.drop_damaged(counter, &repaired.damaged)?;
                let entry = RootEntry::Live(made.clone());
                self.save(counter, entry, &[]).await?;
            }
        } else if let Some(RootEntry::Live(living)) = self.rows.entry(counter)? {
            root = Some(living);
        }
        if !request.is_dry && !repaired.damaged.is_empty() {
            self.views.drop_damaged(counter, &repaired.damaged)?;
            if let Some(root) = &root {
                self.views.record_total(counter, root)?;
            }
        }
        repaired.found = root.map(|root| {
            let view = view.filter(|view| view.generation() == root.generation);
            (root, view.map(|view| view.at_rest()))
        });
        Ok(repaired)
    }

    /// A damaged root, from its leads' grants, from their pushes, or else from the last snapshot; `None` where there is
    /// neither.
    async fn made_again(
        &self,
        request: &RepairRoot,
        view: Option<&View>,
        repaired: &mut RootRepaired,
    ) -> Result<Option<Root>, Fault> {
        let now_ms = self.host.now_ms();
        let GrantAnswers {
            held,
            silent,
            damaged,
        } = self.ask_leads(request, view).await?;
        let sources = held.iter().map(|(datacenter, _)| datacenter.clone());
        repaired.sources = sources.collect();
        repaired.silent = silent;
        if let Some(mut root) = rebuilt(&held, view, now_ms) {
            if root.home.is_some() {
                repaired.knows_base = true;
                let is_known = self.hold_others(request, &mut root, view, &damaged, repaired);
                return Ok(is_known.await.then_some(root));
            }
            // They may count it too, and are repaired next.
            root.may_lack |= !damaged.is_empty();
            root.datacenters.extend(damaged);
            // A lead that is alone, or home, knows the whole value.
            let knows = |(_, grant): &(Datacenter, Grant)| grant.alone || grant.is_home;
            repaired.knows_base = held.iter().any(knows);
            return Ok(Some(root));
        }
        // A lead that does not answer may hold a grant, and the snapshot would end what it counts. A deleted counter
        // stays deleted.
        let may_be = repaired.silent.is_empty() && self.rows.is_live(&request.counter)?;
        let Some(kept) = request.kept.as_ref().filter(|_| may_be) else {
            return Ok(None);
        };
        repaired.is_from_snapshot = true;
        Ok(Some(of_snapshot(kept, damaged, now_ms)))
    }

    /// Adds to the root what the datacenters hold that stopped for a home: the home's grant includes it. Returns
    /// whether all of it is known. For a damaged lead this is what it has pushed. A damaged lead without pushes is left
    /// out, since the home includes it.
    async fn hold_others(
        &self,
        request: &RepairRoot,
        root: &mut Root,
        view: Option<&View>,
        damaged: &[Datacenter],
        repaired: &mut RootRepaired,
    ) -> bool {
        let others = root.datacenters.iter();
        let others = others.filter(|other| root.home.as_ref() != Some(*other));
        let (lost, others): (Vec<_>, Vec<_>) =
            others.cloned().partition(|other| damaged.contains(other));
        let pushed = |other: Datacenter| {
            let cells = view.map(|view| view.cells().cells_of(&other));
            (other, cells.unwrap_or_default())
        };
        let mut held: Vec<(Datacenter, Cells)> = lost.into_iter().map(pushed).collect();
        let wanted = ReadParts {
            totals_only: true,
            ..ReadParts::default()
        };
        for (other, sum) in sums(&self.outbox, &request.counter, root, &others, wanted).await {
            match sum {
                Some(sum) => held.push((other, sum.cells)),
                None => repaired.silent.push(other),
            }
        }
        root.hold(held);
        repaired.silent.is_empty()
    }

    /// The damaged parts of a counter here.
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

    /// Asks the leads of a counter for their grants, in the datacenters that may count it.
    async fn ask_leads(
        &self,
        request: &RepairRoot,
        view: Option<&View>,
    ) -> Result<GrantAnswers, Fault> {
        let counter = &request.counter;
        let mut datacenters = request.datacenters.clone();
        if let Some(view) = view {
            datacenters.extend(view.datacenters().map(|(datacenter, _)| datacenter.clone()));
        }
        let kept = request.kept.iter().flat_map(|kept| &kept.datacenters);
        datacenters.extend(kept.map(|part| part.datacenter.clone()));
        let ask = |datacenter: Datacenter| async move {
            let to = CellAddress::lead(counter, &datacenter);
            let ask_grant = AskGrant { to };
            let held = self
                .host
                .within_ms(LEAD_MS_MAX, self.outbox.call(&ask_grant));
            (datacenter, held.await)
        };
        let datacenters = datacenters.into_iter().take(DATACENTERS_MAX);
        let replies = all_settled(datacenters.map(ask), LEADS_AT_ONCE).await;
        let replies = in_order(replies, |(one, _), (other, _)| one.cmp(other));
        let mut answers = GrantAnswers::default();
        for (datacenter, held) in replies {
            match held {
                // A lead that was not notified of an end yet still reports the ended generation.
                Some(Ok(Some(grant))) if self.duties.is_closing(counter, grant.generation)? => {}
                Some(Ok(Some(grant))) => answers.held.push((datacenter, grant)),
                Some(Ok(None)) => {}
                Some(Err(Fault::Unreadable(_))) => answers.damaged.push(datacenter),
                _ => answers.silent.push(datacenter),
            }
        }
        Ok(answers)
    }
}

/// The root from a snapshot, with a new generation: cells that still hold the old one do not count. Datacenters with
/// damaged leads are included, so that they are repaired next.
fn of_snapshot(kept: &SnapshotCounter, damaged: Vec<Datacenter>, now_ms: i64) -> Root {
    let mut root = Root::create(None, now_ms);
    root.created_at_ms = kept.created_at_ms.min(now_ms);
    root.settings = Settings {
        number: 1,
        ..kept.settings
    };
    root.home = kept.home.clone();
    root.set(kept.value(), Vec::new(), now_ms);
    root.revision += 1;
    root.datacenters.extend(damaged);
    root
}

/// The root from its leads' grants, and from their pushes; `None` where there is neither.
fn rebuilt(held: &[(Datacenter, Grant)], view: Option<&View>, now_ms: i64) -> Option<Root> {
    let newest = held.iter().map(|(_, grant)| grant.generation);
    let generation = newest.chain(view.map(View::generation)).max()?;
    let of_it = held
        .iter()
        .filter(|(_, grant)| grant.generation == generation);
    // A home decides alone, so it knows the value; otherwise the newest grant has the settings.
    let best = of_it
        .clone()
        .max_by_key(|(_, grant)| (grant.is_home, grant.revision));
    let in_view = view.filter(|view| view.generation() == generation);
    let in_view = in_view.into_iter().flat_map(View::datacenters);
    let in_view = in_view.map(|(datacenter, _)| datacenter);
    let others = set_of(in_view.chain(of_it.map(|(datacenter, _)| datacenter)));
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
    if others.len() > 1 && root.home.is_none() {
        root.may_lack = true;
    }
    root.datacenters.extend(others.into_iter().cloned());
    Some(root)
}

impl crate::directory::push_receiver::Views {
    /// Deletes damaged pushes, which leads send again, and a damaged row of totals, which is rebuilt.
    fn drop_damaged(&self, counter: &CounterId, damaged: &[RootPart]) -> Result<(), Fault> {
        if damaged.contains(&RootPart::Memory) {
            self.forget_stored(counter)?;
        }
        if damaged.contains(&RootPart::Totals) {
            self.forget_total(counter)?;
        }
        Ok(())
    }
}
